//! Chains that are longer than wanted, or than a record can hold: the middle is
//! left out, and a frame in its place says so.
//!
//! ```text
//!   innermost …  [1024 frames left out]  … outermost
//! ```
//!
//! That frame is an address in a mapping which no process can have, told of by
//! an `MMAP2` record like any other: every reader shows the mapping's name,
//! where it would drop a chain with a context that it does not know.

use crate::user_chain::UserChain;
use prof_perfdata::body::{Body, FileIdentity, Mmap2, Name};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most entries of a user call chain: with all other sample fields it must fit
/// into a record of at most 65 535 bytes.
pub const MOST_FRAMES: usize = 7801;
/// Fewest entries that a limit may leave: room for both ends of the chain and
/// the mark between them.
pub const FEWEST_FRAMES: usize = 4;
/// Above all that programs can map: no address of x86-64 or arm64 has this bit
/// alone.
const BASE: u64 = 1 << 56;
/// Room for each mark.
const PAGE: u64 = 4096;
/// Most processes whose marks are remembered.
const MAX_PROCESSES: usize = 1 << 14;

const BEGIN: &[u8] = b"[";
const END: &[u8] = b" frames left out]";

/// Cuts chains, and knows which processes' marks were told of.
#[derive(Debug)]
pub(super) struct LeftOut {
    most: usize,
    told: FxHashMap<i32, FxHashSet<u64>>,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self::beyond(MOST_FRAMES)
    }
}

impl LeftOut {
    /// Leaves out what is beyond so many frames, the mark among them.
    pub(super) fn beyond(most: usize) -> Self {
        Self {
            most: most.clamp(FEWEST_FRAMES, MOST_FRAMES),
            told: FxHashMap::default(),
        }
    }

    /// Cuts the middle out of a chain that is too long; how many frames. That
    /// number is rounded up, by an eighth of the longest chain at most, so that
    /// a recursion that goes up and down has few marks.
    pub(super) fn cut(&self, chain: &mut UserChain) -> Option<u64> {
        let excess = chain.len().checked_sub(self.most).filter(|&it| it > 0)? + 1;
        let step = 1 << (self.most / 8).max(1).ilog2();
        let count = excess.next_multiple_of(step);
        let kept = chain.len().saturating_sub(count);
        let inner = kept - kept / 2;
        chain.replace(inner..inner + count, address(count as u64));
        Some(count as u64)
    }

    /// Whether a process's mark for so many frames was not told of yet; from
    /// now on it was.
    pub(super) fn is_new(&mut self, pid: i32, count: u64) -> bool {
        if self.told.len() >= MAX_PROCESSES {
            self.told.clear();
        }
        self.told.entry(pid).or_default().insert(count)
    }

    /// The process has ended, or runs another program.
    pub(super) fn forget(&mut self, pid: i32) {
        self.told.remove(&pid);
    }
}

/// Where the mapping of the mark for so many frames begins.
fn start(count: u64) -> u64 {
    BASE + count * PAGE
}

/// The mark. Readers take it for a return address and look one byte before it.
fn address(count: u64) -> u64 {
    start(count) + 1
}

/// The name of that place.
pub(super) fn name(count: u64) -> Vec<u8> {
    [BEGIN, count.to_string().as_bytes(), END].concat()
}

/// The record that tells a process's readers of it.
pub(super) fn mapping(pid: i32, tid: i32, count: u64, name: &[u8]) -> Body<'_> {
    const READ_AND_EXECUTE: u32 = 5;
    const PRIVATE: u32 = 2;
    Body::Mmap2(Mmap2 {
        pid,
        tid,
        start: start(count),
        len: PAGE,
        file_offset: 0,
        file: FileIdentity::NONE,
        prot: READ_AND_EXECUTE,
        flags: PRIVATE,
        path: Name::new(name),
    })
}

/// Whether a mapping's name is that of the mark that stands for frames left out
/// of a chain.
pub fn is_left_out(path: &[u8]) -> bool {
    let count = path.strip_prefix(BEGIN).and_then(|it| it.strip_suffix(END));
    count.is_some_and(|count| !count.is_empty() && count.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::{LeftOut, MOST_FRAMES, address, is_left_out, name};
    use crate::user_chain::UserChain;

    /// A chain of so many frames, and the number left out of it.
    fn cut(left_out: &LeftOut, frames: u64) -> (Vec<u64>, Option<u64>) {
        let mut chain = UserChain {
            inner: (0..frames).collect(),
            ..UserChain::default()
        };
        let count = left_out.cut(&mut chain);
        (chain.inner, count)
    }

    #[test]
    fn a_chain_too_long_for_a_record_keeps_both_ends() {
        let (chain, count) = cut(&LeftOut::default(), 20_000);
        let count = count.expect("too long");
        assert!(chain.len() <= MOST_FRAMES && chain.len() > MOST_FRAMES * 7 / 8);
        assert_eq!((chain[0], chain.last().copied()), (0, Some(19_999)));
        let at = chain.iter().position(|&it| it == address(count));
        let at = at.expect("a mark");
        assert_eq!(chain[at + 1] - chain[at - 1], count + 1);
        assert!(at.abs_diff(chain.len() / 2) <= 1);
    }

    #[test]
    fn every_length_is_cut_to_the_limit_and_shorter_ones_stay() {
        for most in [4, 5, 16, 127, 1000, MOST_FRAMES] {
            let left_out = LeftOut::beyond(most);
            for length in [
                0,
                1,
                most - 1,
                most,
                most + 1,
                2 * most,
                3 * most + 7,
                60_000,
            ] {
                let (chain, count) = cut(&left_out, length as u64);
                assert_eq!(count.is_some(), length > most, "{length} of {most}");
                assert!(chain.len() <= most && (length <= most || chain.len() >= most * 3 / 4));
                let gone = count.map_or(0, |count| count as usize - 1);
                assert_eq!(chain.len() + gone, length, "{length} of {most}");
            }
        }
    }

    #[test]
    fn marks_are_told_once_for_a_program() {
        let mut left_out = LeftOut::default();
        let told = [(7, 512), (7, 512), (8, 512), (7, 1024)];
        let is_new = told.map(|(pid, count)| left_out.is_new(pid, count));
        assert_eq!(is_new, [true, false, true, true]);
        left_out.forget(7);
        assert!(left_out.is_new(7, 512) && !left_out.is_new(8, 512));
    }

    #[test]
    fn marks_are_known_by_their_names() {
        assert_eq!(name(512), b"[512 frames left out]");
        assert!(is_left_out(&name(1)) && is_left_out(&name(u64::MAX)));
        for other in [
            "[vdso]",
            "[ frames left out]",
            "[x frames left out]",
            "",
            "[",
        ] {
            assert!(!is_left_out(other.as_bytes()), "{other}");
        }
    }
}
