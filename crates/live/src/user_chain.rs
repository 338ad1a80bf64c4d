//! A user call chain on its way into a record.
//!
//! Of a deep stack nearly all frames are those of the sample before. So their
//! return addresses are kept in blocks that chains share, and go into a record
//! when it is written, not into each that waits for that.
//!
//! ```text
//!   innermost …  inner: of this chain  │  outer: block │ block │ …  outermost
//! ```

use std::ops::Range;
use std::sync::Arc;

/// Bytes of an entry.
const WORD: usize = 8;

/// Return addresses, innermost first, as records have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedFrames {
    block: Arc<[u8]>,
    /// The entries of it that count.
    entries: Range<usize>,
}

impl SharedFrames {
    /// All of these.
    pub(super) fn new(pcs: impl Iterator<Item = u64>) -> Self {
        let bytes: Vec<u8> = pcs.flat_map(u64::to_ne_bytes).collect();
        let entries = 0..bytes.len() / WORD;
        let block = bytes.into();
        Self { block, entries }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    /// Those of these positions, if there are any.
    fn part(&self, range: Range<usize>) -> Option<Self> {
        let end = self.entries.end.min(self.entries.start + range.end);
        let start = self.entries.start + range.start;
        (start < end).then(|| Self {
            block: Arc::clone(&self.block),
            entries: start..end,
        })
    }

    fn bytes(&self) -> &[u8] {
        let bytes = self.entries.start * WORD..self.entries.end * WORD;
        self.block.get(bytes).unwrap_or_default()
    }

    fn pcs(&self) -> impl DoubleEndedIterator<Item = u64> {
        let words = self.bytes().chunks_exact(WORD);
        words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
    }
}

/// A user call chain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UserChain {
    /// Its innermost frames.
    pub(super) inner: Vec<u64>,
    /// The rest.
    pub(super) outer: Vec<SharedFrames>,
}

impl UserChain {
    pub(super) fn clear(&mut self) {
        self.inner.clear();
        self.outer.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.inner.len() + self.outer_len()
    }

    fn outer_len(&self) -> usize {
        self.outer.iter().map(SharedFrames::len).sum()
    }

    /// The innermost frame.
    pub(super) fn first(&self) -> Option<u64> {
        self.pcs().next()
    }

    /// The outermost frame.
    pub(super) fn last(&self) -> Option<u64> {
        let outer = self.outer.last().and_then(|last| last.pcs().next_back());
        outer.or(self.inner.last().copied())
    }

    pub(super) fn pcs(&self) -> impl Iterator<Item = u64> {
        let outer = self.outer.iter().flat_map(SharedFrames::pcs);
        self.inner.iter().copied().chain(outer)
    }

    /// Puts one entry in the place of these.
    pub(super) fn replace(&mut self, range: Range<usize>, entry: u64) {
        let own = self.inner.len();
        let mut entry = Some(entry);
        if range.start <= own {
            self.inner
                .splice(range.start..range.end.min(own), entry.take());
        }
        if range.end <= own {
            return;
        }
        let gone = range.start.saturating_sub(own)..range.end - own;
        let mut begin = 0;
        let mut outer = Vec::with_capacity(self.outer.len() + 2);
        for piece in self.outer.drain(..) {
            let end = begin + piece.len();
            let here = |at: usize| at.clamp(begin, end) - begin;
            outer.extend(piece.part(0..here(gone.start)));
            if gone.start <= end {
                let entry = entry.take().map(|entry| [entry].into_iter());
                outer.extend(entry.map(SharedFrames::new));
            }
            outer.extend(piece.part(here(gone.end)..piece.len()));
            begin = end;
        }
        self.outer = outer;
    }
}

/// A record, whole but for the outer part of its chain.
#[derive(Debug, Default)]
pub(super) struct ChainRecord {
    /// All other bytes of it.
    pub(super) bytes: Vec<u8>,
    /// Where among them the outer part belongs.
    pub(super) at: usize,
    pub(super) outer: Vec<SharedFrames>,
}

impl ChainRecord {
    /// Bytes of the whole.
    pub(super) fn len(&self) -> usize {
        let outer = self.outer.iter().map(SharedFrames::len);
        self.bytes.len() + WORD * outer.sum::<usize>()
    }

    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        let (before, behind) = self.bytes.split_at(self.at.min(self.bytes.len()));
        out.reserve(self.len());
        out.extend_from_slice(before);
        for outer in &self.outer {
            out.extend_from_slice(outer.bytes());
        }
        out.extend_from_slice(behind);
    }
}

/// A record whose chain is whole.
impl From<Vec<u8>> for ChainRecord {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChainRecord, SharedFrames, UserChain};

    /// 0 to 19, of which so many in the inner part and pieces of so many.
    fn chain(inner: u64, piece: u64) -> UserChain {
        let pieces = (inner..20).step_by(piece as usize);
        let pieces = pieces.map(|start| SharedFrames::new(start..(start + piece).min(20)));
        UserChain {
            inner: (0..inner).collect(),
            outer: pieces.collect(),
        }
    }

    #[test]
    fn one_entry_takes_the_place_of_any() {
        for (inner, piece) in [(20, 1), (0, 20), (0, 3), (7, 4), (13, 7), (1, 1)] {
            let whole = chain(inner, piece);
            assert_eq!((whole.len(), whole.first()), (20, Some(0)));
            assert_eq!(whole.last(), Some(19));
            for start in 0..20 {
                for end in start + 1..=20 {
                    let mut chain = chain(inner, piece);
                    chain.replace(start..end, 99);
                    let expected: Vec<u64> = (0..start as u64).chain([99]).collect();
                    let expected = expected.into_iter().chain(end as u64..20);
                    assert_eq!(
                        chain.pcs().collect::<Vec<_>>(),
                        expected.collect::<Vec<_>>(),
                        "{start}..{end} of {inner} and {piece}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_record_gets_its_outer_frames_where_they_belong() {
        let record = ChainRecord {
            bytes: vec![1, 2, 3],
            at: 2,
            outer: vec![SharedFrames::new(5..6), SharedFrames::new(7..8)],
        };
        let mut out = vec![0];
        record.append_to(&mut out);
        let words = [5_u64, 7].map(u64::to_ne_bytes).concat();
        assert_eq!(out, [&[0, 1, 2], &words[..], &[3]].concat());
        assert_eq!(out.len(), 1 + record.len());
    }
}
