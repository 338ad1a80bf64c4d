//! What a file is, by how it begins.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Whether this is a recording: a file that begins as one, or a directory of
/// `perf record --threads`. Nothing is opened that could block.
pub(crate) fn is_recording(path: &Path) -> bool {
    const MAGICS: [&[u8; 8]; 4] = [b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP"];
    let path = match path.is_dir() {
        true => path.join("data"),
        false => path.to_owned(),
    };
    if !path.is_file() {
        return false;
    }
    let mut magic = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && (MAGICS.contains(&&magic) || magic.starts_with(&PACKED))
}

/// What a zstd frame begins with: what `prof archive` writes.
pub(crate) const PACKED: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes at the beginning of a file by which it is recognised.
const HEAD: u64 = 1 << 16;

/// Whether a file is a profile of another tool, as far as its beginning tells.
pub(crate) fn is_profile(path: &Path) -> bool {
    path.is_file()
        && File::open(path)
            .and_then(head)
            .is_ok_and(|head| prof_import::is_one(&head))
}

pub(crate) fn head(file: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}
