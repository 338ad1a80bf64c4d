//! Profiles that other tools wrote, as profiles of ours.
//!
//! You give the bytes of a file; what it is, is told by its content: pprof's
//! protocol buffers (Go's CPU and heap profiles, what `prof export` writes),
//! the Firefox Profiler's JSON, folded stacks, the text of `perf script`; each
//! gzipped or not. You get a
//! [`prof_profile::Profile`] that any view can show.
//!
//! ```
//! let profile = prof_import::read(&b"main;work 3\nmain 1\n"[..], "a.folded")?;
//! assert_eq!(profile.events[0].period, 4);
//! # Ok::<(), prof_import::ImportError>(())
//! ```
//!
//! Limits: at most [`MOST_BYTES`] unpacked, and [`MOST_SAMPLES`] samples; what is
//! over is refused, so that memory stays below 512 MB whatever the input.
#![forbid(unsafe_code)]

mod builder;
mod firefox;
mod folded;
mod perf_script;
mod pprof;
mod protobuf;

use flate2::read::MultiGzDecoder;
use prof_profile::Profile;
use std::io::{self, Read};
use thiserror::Error;

/// The largest file that is read, unpacked, in bytes.
pub const MOST_BYTES: u64 = 128 << 20;

/// The most samples of an imported profile; stacks with a larger count become
/// one sample each.
pub const MOST_SAMPLES: u64 = 4 << 20;

/// Rows of samples that are read at most.
pub(crate) const MOST_ROWS: u64 = 12 << 20;
/// Rows of any other table of a file that are read at most.
pub(crate) const MOST_ENTRIES: usize = 1 << 20;

/// Why a file gave no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Its content is of no format that is known here.
    #[error(
        "this is neither a recording nor a profile that is known here\n  \
         read are perf.data, pprof, the Firefox Profiler's JSON, folded stacks and the text of perf script"
    )]
    Unknown,
    /// It is larger than what is read.
    #[error(
        "the profile has more than {} MB, unpacked; so much is not read",
        MOST_BYTES >> 20
    )]
    TooLarge,
    /// It has more samples or names than the limits allow.
    #[error("the {format} has too many entries for what is read of one")]
    TooMany {
        /// What it is.
        format: &'static str,
    },
    /// Its contents are malformed.
    #[error("this is no whole {format}: {what}, at byte {offset}")]
    Damaged {
        /// What it began as.
        format: &'static str,
        /// What is wrong.
        what: &'static str,
        /// Where, unpacked.
        offset: usize,
    },
    /// It has no samples.
    #[error("the {format} has no samples")]
    Empty {
        /// What it is.
        format: &'static str,
    },
    /// It cannot be read or unpacked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether a file that begins with these bytes may be another tool's profile,
/// and is no recording.
pub fn is_foreign(head: &[u8]) -> bool {
    const MAGICS: [&[u8]; 4] = [b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP"];
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
    !head.is_empty()
        && !head.starts_with(ZSTD)
        && !MAGICS.iter().any(|magic| head.starts_with(magic))
        && (head.starts_with(GZIP) || pprof::is_one(head) || is_text(head))
}

/// Whether a file that begins with these bytes is another tool's profile, as
/// far as they tell.
pub fn is_one(head: &[u8]) -> bool {
    if !is_foreign(head) {
        return false;
    }
    let mut unpacked = Vec::new();
    let head = match head.starts_with(GZIP) {
        true => {
            // What follows the head is missing: an error at the end is none.
            let _ = MultiGzDecoder::new(head)
                .take(1 << 16)
                .read_to_end(&mut unpacked);
            &unpacked[..]
        }
        false => head,
    };
    // The last line may be cut.
    let text = String::from_utf8_lossy(head);
    pprof::is_one(head)
        || (is_text(head.get(..4096).unwrap_or(head))
            && (firefox::is_one(&text) || perf_script::is_one(&text) || folded::is_one(&text)))
}

const GZIP: &[u8] = b"\x1f\x8b";

fn is_text(head: &[u8]) -> bool {
    let controls = head
        .iter()
        .filter(|&&byte| byte < b' ' && !b"\t\n\r".contains(&byte));
    controls.count() == 0
}

/// Reads a profile of any supported format. `name` is the name of its threads
/// if it has none.
///
/// # Errors
/// If it is none of those, makes no sense, is too large or cannot be read.
pub fn read(input: impl Read, name: &str) -> Result<Profile, ImportError> {
    let bytes = unpacked(input)?;
    if pprof::is_one(&bytes) {
        return pprof::read(&bytes, name);
    }
    if !is_text(bytes.get(..4096).unwrap_or(&bytes)) {
        return Err(ImportError::Unknown);
    }
    let text = String::from_utf8_lossy(&bytes);
    if firefox::is_one(&text) {
        return firefox::read(&text);
    }
    if perf_script::is_one(&text) {
        return perf_script::read(&text);
    }
    if folded::is_one(&text) {
        return folded::read(&text);
    }
    Err(ImportError::Unknown)
}

fn unpacked(input: impl Read) -> Result<Vec<u8>, ImportError> {
    let mut bytes = limited(input)?;
    // Twice: some servers pack what is packed.
    for _ in 0..2 {
        if bytes.starts_with(GZIP) {
            bytes = limited(MultiGzDecoder::new(&bytes[..]))?;
        }
    }
    Ok(bytes)
}

fn limited(input: impl Read) -> Result<Vec<u8>, ImportError> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ImportError::TooLarge);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{ImportError, MOST_BYTES, read};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::{self, Read};

    #[test]
    fn a_bomb_is_refused() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut io::repeat(b'a').take(MOST_BYTES + 9), &mut packed).expect("memory");
        let packed = packed.finish().expect("memory");
        let refused = read(&packed[..], "bomb");
        assert!(matches!(refused, Err(ImportError::TooLarge)), "{refused:?}");
    }

    #[test]
    fn what_is_nothing_is_refused() {
        for nothing in [
            &b""[..],
            b"hello\n",
            b"\x1f\x8b\x08",
            b"\x0a\x04\x08\x01\x10",
            b"\0\0\0",
        ] {
            assert!(read(nothing, "x").is_err(), "{nothing:?}");
        }
    }
}
