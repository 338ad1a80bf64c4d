//! Frames that a thread came back to, without a walk.

use super::walk::Walk;
use crate::memory::TargetMemory;
use crate::popped::Revived;
use crate::stacks::OpenFile;
use prof_unwind::StackDump;
use std::ops::Range;

/// How often that is tried for one sample.
const MOST_REVIVALS: u32 = 4;
/// Most bytes read for one try: a whole stack of usual size.
const MOST_BYTES: usize = 8 << 20;
/// Bytes read at once.
const PIECE: usize = 256 << 10;
/// As so much counts what is read at once, however little it is.
const PAGE: usize = 4096;

impl<F: OpenFile, M: TargetMemory> Walk<'_, F, M> {
    /// The position of a popped frame that the walk has reached. It is known
    /// again, and so are those outside of it, if all words by which they are
    /// found are the same: in the copy, and in the process as it is now.
    pub(super) fn revived(&mut self, sp: u64, key: u64) -> Revived {
        let Some(at) = self.outer.find_popped(sp, key) else {
            return Revived::Not;
        };
        if self.is_pressed || self.revivals >= MOST_REVIVALS {
            return Revived::Not;
        }
        self.revivals += 1;
        let bytes = std::mem::take(self.spare.long());
        let mut words = Words {
            memory: self.memory,
            pid: self.sample.state.pid,
            size: self.sample.state.registers.machine().word(),
            read: 0..0,
            bytes,
            left: MOST_BYTES,
        };
        let changed = self.changed_since(at, &mut words);
        *self.spare.long() = words.bytes;
        match changed {
            None => Revived::Not,
            Some(None) => Revived::At(self.outer.revive(at, self.drain)),
            Some(Some(outward)) => match self.outer.popped_changed(at, outward) {
                true => Revived::Not,
                false => Revived::Other,
            },
        }
    }

    /// Of the popped frames from position `at` on the outermost for which a word is
    /// another now, as so many further out than the first; `None` if not all could be
    /// read.
    fn changed_since(&self, at: usize, words: &mut Words<'_, M>) -> Option<Option<usize>> {
        let outermost = self.outer.outermost_popped()?;
        let end = outermost.slot.saturating_add(words.size.into());
        let (copied, size) = (self.sample.copied(), words.size);
        let copied_until = copied.end();
        let mut is_other = |slot: u64, expected: u64| {
            let then = match slot < copied_until {
                true => copied.word(slot, size),
                false => None,
            };
            let word = then.or_else(|| words.at(slot, end))?;
            Some(word != expected)
        };
        let mut changed = None;
        if let Some(returns) = self.outer.returns_popped_from(at) {
            for (outward, it) in returns.iter().rev().enumerate() {
                if is_other(it.slot, it.pc)? {
                    changed = Some(outward);
                }
            }
            return Some(changed);
        }
        for (outward, frame) in self.outer.popped_from(at).enumerate() {
            let fp = frame.fp_slot().map(|slot| (slot, frame.fp));
            for (slot, expected) in fp.into_iter().chain([(frame.slot, frame.pc)]) {
                if is_other(slot, expected)? {
                    changed = Some(outward);
                }
            }
        }
        Some(changed)
    }
}

/// Words of a process as they are now, of addresses that go up.
struct Words<'a, M> {
    memory: &'a M,
    pid: i32,
    /// Bytes of a word.
    size: u8,
    /// What was read last is at the start of these bytes.
    read: Range<u64>,
    bytes: Vec<u8>,
    /// Bytes that may yet be read.
    left: usize,
}

impl<M: TargetMemory> Words<'_, M> {
    /// The word at an address; those up to `end` will be asked for.
    fn at(&mut self, address: u64, end: u64) -> Option<u64> {
        if let Some(word) = self.read(address) {
            return Some(word);
        }
        let wanted = end.saturating_sub(address).max(self.size.into());
        let length = usize::try_from(wanted).ok()?.min(PIECE);
        self.left = self.left.checked_sub(length.max(PAGE))?;
        let missing = length.saturating_sub(self.bytes.len());
        self.bytes.extend(std::iter::repeat_n(0, missing));
        let room = self.bytes.get_mut(..length)?;
        let got = self.memory.read(self.pid, address, room);
        self.read = address..address.saturating_add(got as u64);
        self.read(address)
    }

    fn read(&self, address: u64) -> Option<u64> {
        let length = usize::try_from(self.read.end - self.read.start).ok()?;
        let read = StackDump {
            start: self.read.start,
            bytes: self.bytes.get(..length)?,
        };
        read.word(address, self.size)
    }
}
