//! `prof inject -j`: reads jitdumps, and writes the ELF files of their code
//! beside them.

use crate::outcome::say;
use crate::recording::Input;
use anyhow::Context;
use prof_inject::{JitFiles, MappedDump, mapped_dumps};
use prof_perfdata::body::FileIdentity;
use prof_profile::several;
use prof_symbolize::JitDump;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// The code of all jitdumps of the recording. A dump that cannot be read is
/// told of; if none can, that is an error.
pub(super) fn jit_files(input: &Input) -> anyhow::Result<Arc<JitFiles>> {
    let dumps = mapped_dumps(input.open()?).with_context(|| input.name())?;
    let mut owners = vec![prof_sys::process::effective_user()];
    owners.extend(input.path.metadata().ok().map(|about| about.uid()));
    let mut files = JitFiles::default();
    for dump in &dumps {
        add(&mut files, dump, &owners)?;
    }
    anyhow::ensure!(
        !files.is_empty(),
        "no code was found in {}",
        several(dumps.len() as u64, "jitdump")
    );
    Ok(Arc::new(files))
}

fn add(files: &mut JitFiles, mapped: &MappedDump, owners: &[u32]) -> anyhow::Result<()> {
    let dump = match JitDump::open(&mapped.path, owners) {
        Ok(dump) => dump,
        Err(error) => {
            say(&format!("{}: {error}", mapped.path.display()));
            return Ok(());
        }
    };
    if let Some(damage) = dump.damage() {
        say(&format!(
            "{}: the record at {:#x} says it has {} bytes, {} are left; code before it is taken",
            mapped.path.display(),
            damage.offset,
            damage.size,
            damage.left
        ));
    }
    let added = files.add(mapped, &dump, |path, bytes| {
        store(path, bytes)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    });
    added.context("cannot write the code as an ELF file")
}

/// Writes a new file in the place of one that an earlier run left; nothing is
/// written through a link.
fn store(path: &Path, bytes: &[u8]) -> io::Result<FileIdentity> {
    match path.symlink_metadata() {
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = OpenOptions::new();
    let mut file: File = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    file.write_all(bytes)?;
    let about = file.metadata()?;
    Ok(FileIdentity::Inode {
        major: major(about.dev()),
        minor: minor(about.dev()),
        inode: about.ino(),
        generation: 0,
    })
}

/// As glibc's gnu_dev_major(3) and gnu_dev_minor(3) take a `dev_t` apart.
fn major(device: u64) -> u32 {
    ((device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000)) as u32
}

fn minor(device: u64) -> u32 {
    ((device & 0xff) | (device >> 12 & 0xffff_ff00)) as u32
}

#[cfg(test)]
mod tests {
    use super::{major, minor};

    #[test]
    fn numbers_of_devices_are_those_of_ls() {
        assert_eq!((major(0x801), minor(0x801)), (8, 1));
        assert_eq!((major(0x10305), minor(0x10305)), (259, 5));
        assert_eq!((major(0x10_082c), minor(0x10_082c)), (8, 300));
    }
}
