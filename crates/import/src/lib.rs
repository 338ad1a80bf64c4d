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
//! Limits: at most [`MOST_BYTES`] unpacked, of folded stacks [`MOST_FOLDED_BYTES`],
//! which are read line by line, and [`MOST_SAMPLES`] samples; what is over is
//! refused, so that memory stays below 512 MB whatever the input.
#![forbid(unsafe_code)]

mod builder;
mod firefox;
mod folded;
mod packed;
mod perf_script;
mod pprof;
mod protobuf;

use flate2::read::MultiGzDecoder;
use packed::Limited;
use prof_profile::Profile;
use std::io::{self, BufReader, Read};
use thiserror::Error;

/// The largest file that is read, packed or unpacked, in bytes.
pub const MOST_BYTES: u64 = 128 << 20;

/// The most text of folded stacks that is read, unpacked, in bytes.
pub const MOST_FOLDED_BYTES: u64 = 512 << 20;

/// So much of a file tells what it is, in bytes; no line may be longer.
pub(crate) const HEAD_BYTES: usize = 16 << 20;

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
        "the profile has more than {} MB; so much is not read",
        most >> 20
    )]
    TooLarge {
        /// How many bytes are read.
        most: u64,
    },
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
    Io(io::Error),
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        match packed::exceeded(&error) {
            Some(most) => Self::TooLarge { most },
            None => Self::Io(error),
        }
    }
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
    let mut input = packed::unpacked(input)?;
    let mut bytes = Vec::new();
    input
        .by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut bytes)?;
    let read = bytes.len() as u64;
    if bytes.len() == HEAD_BYTES && is_folded(&bytes) {
        let rest = Limited::new(input, MOST_FOLDED_BYTES, read);
        return folded::read(BufReader::new(bytes.chain(rest)));
    }
    Limited::new(input, MOST_BYTES, read).read_to_end(&mut bytes)?;
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
        return folded::read(text.as_bytes());
    }
    Err(ImportError::Unknown)
}

/// Whether a file that begins so is folded stacks and nothing else.
fn is_folded(head: &[u8]) -> bool {
    // The last line may be cut.
    let lines = head.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let text = String::from_utf8_lossy(head.get(..lines).unwrap_or_default());
    !pprof::is_one(head)
        && is_text(head.get(..4096).unwrap_or(head))
        && folded::is_one(&text)
        && !firefox::is_one(&text)
        && !perf_script::is_one(&text)
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, ImportError, MOST_BYTES, MOST_FOLDED_BYTES, read};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::{self, Read};

    #[test]
    fn a_bomb_is_refused() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut io::repeat(b'a').take(MOST_BYTES + 9), &mut packed).expect("memory");
        let packed = packed.finish().expect("memory");
        let refused = read(&packed[..], "bomb");
        assert!(
            matches!(refused, Err(ImportError::TooLarge { .. })),
            "{refused:?}"
        );
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

    /// Packed text of so many bytes or some more; how many lines have a stack.
    fn folded(bytes: u64) -> (Vec<u8>, u64) {
        let comment = format!("#{}\n", "-".repeat(4000)).repeat(1 << 8);
        let part = format!("{}{comment}", "app;main;work 3\n".repeat(16));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut part.as_bytes(), &mut packed).expect("memory");
        let parts = bytes.div_ceil(part.len() as u64);
        let packed = packed.finish().expect("memory");
        (
            packed.repeat(usize::try_from(parts).expect("few")),
            16 * parts,
        )
    }

    #[test]
    fn folded_stacks_of_more_than_other_files_are_read() {
        let (packed, lines) = folded(MOST_BYTES + 9);
        let profile = read(&packed[..], "large").expect("read");
        assert_eq!(profile.samples.len() as u64, lines);
        assert_eq!(profile.events[0].period, 3 * lines);
        assert_eq!(profile.stacks.len(), 3);
    }

    #[test]
    fn folded_stacks_are_refused_by_their_own_limit() {
        let (packed, _) = folded(MOST_FOLDED_BYTES + 9);
        let refused = read(&packed[..], "bomb");
        let Err(ImportError::TooLarge { most }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(most, MOST_FOLDED_BYTES);
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut &b"app;main 3\n"[..], &mut packed).expect("memory");
        let endless = io::repeat(b'a').take(2 * HEAD_BYTES as u64);
        io::copy(&mut endless.chain(&b" 1\n"[..]), &mut packed).expect("memory");
        let packed = packed.finish().expect("memory");
        let refused = read(&packed[..], "line");
        assert!(
            matches!(refused, Err(ImportError::TooMany { .. })),
            "{refused:?}"
        );
    }
}
