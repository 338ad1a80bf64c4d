//! Memory of the running process, beyond what a sample copied.

use crate::spares::Spares;
use crate::stacks::Beyond;
use prof_profile::Avma;
use prof_runtimes::LinkedList;
use prof_unwind::StackDump;
use std::ops::Range;

/// What should be read of a process's memory with the samples of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedMemory {
    /// Ranges of addresses, that of the stack itself first.
    pub ranges: Vec<Range<u64>>,
    /// Where a word stands that points to more, and how many bytes of that are wanted
    /// if they are not among the ranges. The word is.
    pub pointed: Option<(u64, u64)>,
    /// Objects that are wanted as far as they are nowhere in that.
    pub list: Option<LinkedList>,
}

/// Reads the memory of running processes, and what else they tell of
/// themselves.
pub trait TargetMemory {
    /// Copies memory of `pid` from `address` on; how many bytes could be
    /// read.
    fn read(&self, pid: i32, address: u64, out: &mut [u8]) -> usize;

    /// Reads the 8 bytes at each of `addresses`; how many could be read
    /// before the first that could not. `out` is at least as long.
    fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize;

    /// The number that a thread has for itself, which in a container is
    /// another.
    fn own_number(&self, tid: i32) -> i32 {
        tid
    }

    /// Whether a process writes a perf map, as far as that can be told.
    fn writes_perf_map(&self, _pid: i32) -> bool {
        false
    }
}

impl<M: TargetMemory + ?Sized> TargetMemory for Box<M> {
    fn read(&self, pid: i32, address: u64, out: &mut [u8]) -> usize {
        (**self).read(pid, address, out)
    }

    fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize {
        (**self).read_words(pid, addresses, out)
    }

    fn own_number(&self, tid: i32) -> i32 {
        (**self).own_number(tid)
    }

    fn writes_perf_map(&self, pid: i32) -> bool {
        (**self).writes_perf_map(pid)
    }
}

/// Bytes read at once; deep stacks are read whole.
pub(super) const PIECE: u64 = 16384;
/// The smallest page that there is, bytes.
const PAGE: u64 = 4096;
/// Most bytes read for one sample, 8 MiB: a whole stack of usual size.
const MAX_PIECES: usize = 512;
/// Most buffers kept for reuse.
const MAX_SPARE: usize = 16;

/// Pieces of one process's memory, each read once.
///
/// What it holds is of now, not of the time of the sample: whoever uses it
/// must show that nothing has changed since.
pub(super) struct LivePieces<'a, M> {
    memory: &'a M,
    pid: i32,
    pieces: Vec<(u64, Vec<u8>)>,
    spare: &'a mut SparePieces,
}

/// Buffers for pieces to come.
#[derive(Debug)]
pub(super) struct SparePieces {
    pieces: Spares,
    long: Vec<u8>,
}

impl Default for SparePieces {
    fn default() -> Self {
        Self {
            pieces: Spares::new(MAX_SPARE, MAX_SPARE * PIECE as usize),
            long: Vec::new(),
        }
    }
}

impl SparePieces {
    /// One of a piece's size, with whatever in it.
    fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.pieces.take_filled();
        buffer.resize(PIECE as usize, 0);
        buffer
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        self.pieces.give_back(buffer);
    }

    /// One of any length.
    pub(super) fn long(&mut self) -> &mut Vec<u8> {
        &mut self.long
    }
}

impl<M> Drop for LivePieces<'_, M> {
    fn drop(&mut self) {
        for (_, buffer) in self.pieces.drain(..) {
            self.spare.give_back(buffer);
        }
    }
}

impl<'a, M: TargetMemory> LivePieces<'a, M> {
    pub(super) fn new(memory: &'a M, pid: i32, spare: &'a mut SparePieces) -> Self {
        Self {
            memory,
            pid,
            pieces: Vec::new(),
            spare,
        }
    }

    /// Copies from one piece; `None` unless all of it can be read.
    ///
    /// A piece begins at the page of the first address that is asked for: below
    /// it there may be nothing (a stack that has not grown further), which would
    /// fail as a whole, and which Linux since 6.5 tells of in its log.
    fn copy(&mut self, address: u64, out: &mut [u8]) -> Option<()> {
        let has =
            |&(start, _): &(u64, Vec<u8>)| start / PIECE == address / PIECE && start <= address;
        // Walks go upwards: the newest piece is the likely one.
        let index = match self.pieces.iter().rposition(has) {
            Some(index) => index,
            None if self.pieces.len() >= MAX_PIECES => return None,
            None => {
                let start = address - address % PAGE;
                let length = PIECE - start % PIECE;
                let mut bytes = self.spare.take();
                bytes.truncate(length as usize);
                let got = self.memory.read(self.pid, start, &mut bytes);
                bytes.truncate(got);
                self.pieces.push((start, bytes));
                self.pieces.len() - 1
            }
        };
        let (start, bytes) = self.pieces.get(index)?;
        let from = bytes.get((address - start) as usize..)?;
        out.copy_from_slice(from.get(..out.len())?);
        Some(())
    }
}

impl<M: TargetMemory> Beyond for LivePieces<'_, M> {
    fn word(&mut self, address: u64, size: u8) -> Option<u64> {
        let mut bytes = [0; 8];
        // A word that crosses pieces is no stack slot.
        self.copy(address, bytes.get_mut(..usize::from(size))?)?;
        Some(u64::from_le_bytes(bytes))
    }

    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
        self.memory.read(self.pid, at.0, out)
    }
}

/// Memory of a thread as it was when a sample of it was taken, beyond what
/// the sample itself holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// The thread.
    pub tid: i32,
    /// The sample's time, ns.
    pub time: u64,
    /// The time, ns, of a sample of its leaving of the CPU after that: nothing had
    /// changed.
    pub left_at: Option<u64>,
    /// Addresses and what was there.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

/// All memory that was copied with a sample, or read before its thread went
/// on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copied<'a> {
    pub(super) dump: StackDump<'a>,
    pub(super) pieces: &'a [(u64, Vec<u8>)],
    /// Words of 8 bytes that are known otherwise, by address.
    pub(super) told: &'a [(u64, u64)],
}

impl Copied<'_> {
    /// What was copied around the stack pointer without a hole: the dump and
    /// the pieces that follow it.
    pub(super) fn straight(&self) -> Range<u64> {
        let mut end = self.dump.end();
        for (start, bytes) in self.pieces {
            if (self.dump.start..=end).contains(start) {
                end = end.max(start.saturating_add(bytes.len() as u64));
            }
        }
        self.dump.start..end
    }

    /// From this address on nothing was copied.
    pub(super) fn end(&self) -> u64 {
        let pieces = self.pieces.iter();
        let ends = pieces.map(|(start, bytes)| start.saturating_add(bytes.len() as u64));
        let told = self.told.last().map(|&(at, _)| at.saturating_add(8));
        ends.chain(told).fold(self.dump.end(), u64::max)
    }

    /// The word of `size` bytes at `address`, if copied.
    pub(super) fn word(&self, address: u64, size: u8) -> Option<u64> {
        self.dump
            .word(address, size)
            .or_else(|| self.beyond_dump(address, size))
    }

    /// The same, where the dump is known not to have it.
    fn beyond_dump(&self, address: u64, size: u8) -> Option<u64> {
        self.pieces
            .iter()
            .find_map(|(start, bytes)| {
                let piece = StackDump {
                    start: *start,
                    bytes,
                };
                piece.word(address, size)
            })
            .or_else(|| self.told_word(address, size))
    }

    fn told_word(&self, address: u64, size: u8) -> Option<u64> {
        let found = self
            .told
            .binary_search_by_key(&address, |&(at, _)| at)
            .ok()?;
        let &(_, word) = self.told.get(found)?;
        (size == 8).then_some(word)
    }
}

/// What was copied, and the rest as it is now.
pub(super) struct CopiedAndLive<'a, M> {
    pub(super) copied: Copied<'a>,
    pub(super) live: LivePieces<'a, M>,
}

impl<M: TargetMemory> Beyond for CopiedAndLive<'_, M> {
    fn word(&mut self, address: u64, size: u8) -> Option<u64> {
        let then = self.copied.beyond_dump(address, size);
        then.or_else(|| self.live.word(address, size))
    }

    fn word_then(&mut self, address: u64, size: u8) -> Option<u64> {
        self.copied.beyond_dump(address, size)
    }

    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
        self.live.code(at, out)
    }
}

/// What was copied, and code of the running process.
pub(super) struct CopiedAndCode<'a, M> {
    pub(super) copied: Copied<'a>,
    pub(super) memory: &'a M,
    pub(super) pid: i32,
}

impl<M: TargetMemory> Beyond for CopiedAndCode<'_, M> {
    fn word(&mut self, address: u64, size: u8) -> Option<u64> {
        self.copied.beyond_dump(address, size)
    }

    fn word_then(&mut self, address: u64, size: u8) -> Option<u64> {
        self.word(address, size)
    }

    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
        self.memory.read(self.pid, at.0, out)
    }
}

#[cfg(test)]
mod tests {
    use super::{LivePieces, PIECE, SparePieces, TargetMemory};
    use crate::stacks::Beyond;
    use std::cell::RefCell;

    /// A stack that has grown down to `bottom`; each word is its address.
    struct Stack {
        bottom: u64,
        reads: RefCell<Vec<(u64, usize)>>,
    }

    impl TargetMemory for Stack {
        fn read(&self, _pid: i32, address: u64, out: &mut [u8]) -> usize {
            self.reads.borrow_mut().push((address, out.len()));
            if address < self.bottom {
                return 0;
            }
            for (at, word) in (address..).step_by(8).zip(out.chunks_mut(8)) {
                word.copy_from_slice(&at.to_le_bytes());
            }
            out.len()
        }

        fn read_words(&self, _: i32, _: &[u64], _: &mut [u64]) -> usize {
            0
        }
    }

    #[test]
    fn nothing_below_the_page_that_is_asked_for_is_read() {
        let stack = Stack {
            bottom: 0x1_5000,
            reads: RefCell::default(),
        };
        let mut spare = SparePieces::default();
        let mut pieces = LivePieces::new(&stack, 1, &mut spare);
        for address in [0x1_5010, 0x1_7ff8, 0x1_5018, 0x1_8000, 0x1_4ff8] {
            let there = (address >= stack.bottom).then_some(address);
            assert_eq!(pieces.word(address, 8), there, "{address:#x}");
        }
        let reads = [
            (0x1_5000, 0x3000),
            (0x1_8000, PIECE as usize),
            (0x1_4000, 0x4000),
        ];
        assert_eq!(*stack.reads.borrow(), reads);
    }
}
