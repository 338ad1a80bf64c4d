//! Answers that travel with a recording: what a symbolizer was asked about
//! dsos, kept so that the same questions can be answered without their files.
//!
//! A [`Symbolizer`](crate::Symbolizer) that takes notes ([`Notes`]) writes
//! down each question and its answer; [`Notes::encode`] packs them into bytes
//! that [`Embedded`] answers from.
//!
//! The bytes: `PROFSYM1`, the unpacked size in bytes as u64 (little-endian),
//! then a zstd frame. Unpacked, all integers are LEB128, `text` is a number
//! in the list of texts, an optional one is one more than it, or 0:
//!
//! | part | content |
//! |---|---|
//! | texts | count; of each its length and UTF-8 bytes |
//! | functions | count; of each: text of its name, optional text and line of its definition |
//! | sources | count; of each: text of the path, length, bytes |
//! | dsos | count; of each what follows |
//! | key | kind (0 file, 1 vDSO, 2 kernel, 3 run-time code), text of the path (kernel: release; run-time code: pid), length and bytes of the build-id |
//! | refusal | reason, 0 for none; if there is one: text of its details |
//! | facts | flags (1: 64-bit, 2: has lines, 4: names are from a file), text of that file |
//! | segments | count; of each: file offset, svma, length |
//! | symbols | count; of each: text, start, length |
//! | frames | count; of each: function, optional text of the file, line, caller: 0 for none, or how many frames before |
//! | answers | count; of each: address less the one before; 0 and reason, optional extent, or symbol + 1 and frame |
//! | names | count; of each: address less the one before; 0 and reason, or symbol + 1 |
//! | code | count; of each: start, length, bytes |
//! | rows | count; of each: start, end, rows: count, address less the one before, optional text, line |
//! | refused | of perf maps: count; of each: fault, how many, first line |

mod decode;
mod encode;
mod notes;
mod part;
mod reasons;
mod wire;

pub(crate) use notes::PartNotes;
pub use notes::{Extent, Notes, Packed};
use part::Parts;
pub(crate) use part::{Part, PartKey, Piece};

use prof_abi::BuildId;
use std::sync::{Arc, OnceLock};

/// Names embedded in a recording: look-ups that were made when it was recorded,
/// and their answers. Decoded when first needed. Shared between threads.
#[derive(Debug)]
pub struct Embedded {
    packed: Vec<u8>,
    parts: OnceLock<Result<Parts, String>>,
}

impl Embedded {
    /// From the bytes of [`Notes::encode`].
    pub fn new(packed: Vec<u8>) -> Self {
        Self {
            packed,
            parts: OnceLock::new(),
        }
    }

    /// Why the bytes cannot be decoded, in words; nothing is known then.
    /// Decodes them if that was not done yet.
    pub fn fault(&self) -> Option<&str> {
        self.parts().err()
    }

    /// As [`Embedded::fault`], but `None` if the bytes have not been needed so
    /// far.
    pub fn known_fault(&self) -> Option<&str> {
        self.parts.get()?.as_ref().err().map(String::as_str)
    }

    /// The text of a source file as it was when it was embedded.
    pub fn source(&self, path: &str) -> Option<&str> {
        self.parts().ok()?.sources.get(path).map(String::as_str)
    }

    pub(crate) fn part(&self, key: &PartKey) -> Option<Arc<Part>> {
        self.parts().ok()?.by_key.get(key).cloned()
    }

    /// The part on a kernel: of that build, or, where that is not known, of
    /// that release.
    pub(crate) fn kernel(&self, release: Option<&str>, id: Option<BuildId>) -> Option<Arc<Part>> {
        let parts = self.parts().ok()?;
        let mut kernels = parts.by_key.iter().filter(|(key, _)| match key {
            PartKey::Kernel(known, known_id) => match (id, known_id) {
                (Some(id), Some(known)) => known.matches(&id),
                _ => release == Some(known.as_str()),
            },
            _ => false,
        });
        kernels.next().map(|(_, part)| Arc::clone(part))
    }

    /// Code that was made at run time, by the jitdump that names it.
    pub(crate) fn run_time_code(&self, dump: &str) -> Option<Arc<Part>> {
        let parts = self.parts().ok()?;
        let mut found = parts.by_key.iter().filter(|(key, part)| {
            matches!(key, PartKey::RunTime(_)) && part.from.as_deref() == Some(dump)
        });
        found.next().map(|(_, part)| Arc::clone(part))
    }

    fn parts(&self) -> Result<&Parts, &str> {
        let read = self.parts.get_or_init(|| decode::decode(&self.packed));
        read.as_ref().map_err(String::as_str)
    }
}

#[cfg(test)]
mod tests;
