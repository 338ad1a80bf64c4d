//! The vDSO: kernel code mapped into every process, which is in no file.
//!
//! All processes of one boot share its pages, so our own copy serves for
//! recordings of this boot; its build-id tells whether that is so.

use crate::contents::{self, Links};
use std::io::{self, Error};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// No vDSO is longer than this many bytes.
const LENGTH_MAX: u64 = 1 << 20;

/// The bytes of the vDSO in this process.
pub(crate) fn own_bytes() -> io::Result<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start, end) = maps
        .lines()
        .find_map(vdso_range)
        .ok_or_else(|| Error::new(io::ErrorKind::NotFound, "this process has no [vdso]"))?;
    let length = end
        .checked_sub(start)
        .filter(|&length| length <= LENGTH_MAX)
        .ok_or_else(|| Error::other("the [vdso] of this process has no sensible length"))?;
    let memory = contents::open_regular(Path::new("/proc/self/mem"), Links::Follow)?;
    let mut bytes = vec![0; usize::try_from(length).map_err(Error::other)?];
    memory.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Start and end of the mapping, if a line of `/proc/PID/maps` is the vDSO's.
fn vdso_range(line: &str) -> Option<(u64, u64)> {
    let range = line.strip_suffix("[vdso]")?.split_whitespace().next()?;
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?))
}

#[cfg(test)]
mod tests {
    use super::{own_bytes, vdso_range};

    #[test]
    fn our_own_vdso_is_an_elf_file() {
        let bytes = own_bytes().expect("there is a vDSO");
        assert!(bytes.starts_with(b"\x7fELF"));
    }

    #[test]
    fn only_the_vdso_line_gives_a_range() {
        let line = "7ffd1000-7ffd3000 r-xp 00000000 00:00 0      [vdso]";
        assert_eq!(vdso_range(line), Some((0x7ffd_1000, 0x7ffd_3000)));
        assert_eq!(vdso_range("7ffd1000-7ffd3000 r--p 0 00:00 0 [vvar]"), None);
    }
}
