//! Opening files for their unwind information.

use crate::mapped_dsos::MappedDso;
use prof_abi::BuildId;
use prof_unwind::Source;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Opens the file behind a dso.
pub trait OpenFile {
    /// The file, if it can be opened and is the one that was mapped; `pid` is
    /// a process that maps it.
    fn open(&mut self, dso: &MappedDso, pid: i32) -> Option<prof_unwind::UnwindDso>;

    /// The same as it is: a jitdump that a process writes and has mapped.
    fn open_file(&mut self, _dso: &MappedDso, _pid: i32) -> Option<File> {
        None
    }
}

/// Whether a file is the build that was recorded; true if none was.
pub fn is_build(file: &prof_unwind::UnwindDso, wanted: Option<BuildId>) -> bool {
    wanted.is_none_or(|wanted| file.build_id().is_some_and(|own| own.matches(&wanted)))
}

/// Opens a regular file as ELF.
pub fn open_elf(path: &Path) -> Option<prof_unwind::UnwindDso> {
    // A recording may name a pipe or a device: opening those can block.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    from_file(File::open(path).ok()?)
}

/// An open file as ELF.
pub(crate) fn from_file(file: File) -> Option<prof_unwind::UnwindDso> {
    prof_unwind::UnwindDso::open(Source::file(file).ok()?).ok()
}

/// This process's vDSO, which is that of every process of the machine with
/// the same word size.
pub fn own_vdso() -> Option<prof_unwind::UnwindDso> {
    const LARGEST: u64 = 1 << 16;
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    let line = maps
        .lines()
        .map_while(Result::ok)
        .find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let len = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    let mut bytes = vec![0; usize::try_from(len.min(LARGEST)).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    prof_unwind::UnwindDso::open(Source::Bytes(bytes.into())).ok()
}

#[cfg(test)]
mod tests {
    use super::own_vdso;

    #[test]
    fn the_own_vdso_is_an_elf_file_with_a_build_id() {
        let vdso = own_vdso().expect("a vDSO");
        assert!(vdso.build_id().is_some());
    }
}
