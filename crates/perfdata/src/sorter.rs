//! Puts records into the order of their times.
//!
//! Records of different CPU buffers are interleaved in buffer-sized lumps. A
//! mark (`FINISHED_ROUND`) says that every buffer was drained once:
//!
//! ```text
//! ... lumps A ... mark k-2 ... lumps B ... mark k-1 ... lumps C ... mark k
//!                 ^ largest time so far: L
//! ```
//!
//! What lies in a buffer at a mark was written before the next one, so at mark
//! k nothing older than L can still come, and all records with time <= L may
//! be delivered. Source: perf's `ordered_events__flush`, `OE_FLUSH__ROUND`.

use std::collections::VecDeque;

/// Size of a block of record bytes. Larger records get a block of their own.
const BLOCK: usize = 1 << 20;
/// Empty blocks kept for reuse.
const SPARE_BLOCKS: usize = 4;

/// A record that waits for its turn.
#[derive(Debug, Clone, Copy)]
struct Held {
    time: u64,
    offset: u64,
    block: u64,
    start: u32,
    len: u32,
}

/// Bytes of records in the order they came.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// Records in it not yet delivered.
    waiting: usize,
}

/// A record that was delivered, with the place it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sorted<'a> {
    /// Its time, ns.
    pub(crate) time: u64,
    /// What was given as its place.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
}

/// Sorts records by time, in rounds; equal times keep the order they came in.
///
/// Knows nothing of files: a live source pushes what it drains from the rings
/// and marks each pass over them.
#[derive(Debug)]
pub(crate) struct Sorter {
    blocks: VecDeque<Block>,
    /// Number of the first block in `blocks`.
    first_block: u64,
    spare: Vec<Vec<u8>>,
    held: Vec<Held>,
    /// Deliverable, in order; taken from the front by `next_ready`.
    ready: Vec<Held>,
    next_ready: usize,
    /// Largest time seen.
    max_time: u64,
    /// Largest time seen before the last mark: the limit of the next one.
    limit: Option<u64>,
    /// Time of the last delivered record.
    delivered: u64,
    late: u64,
    waiting_bytes: u64,
    budget: u64,
    current: Option<Held>,
}

impl Default for Sorter {
    fn default() -> Self {
        Self::new()
    }
}

impl Sorter {
    /// Without a limit on what it holds.
    pub(crate) fn new() -> Self {
        Self {
            blocks: VecDeque::new(),
            first_block: 0,
            spare: Vec::new(),
            held: Vec::new(),
            ready: Vec::new(),
            next_ready: 0,
            max_time: 0,
            limit: None,
            delivered: 0,
            late: 0,
            waiting_bytes: 0,
            budget: u64::MAX,
            current: None,
        }
    }

    /// Sets how many bytes of records may wait. Above it the older half is
    /// delivered early; what then comes with a smaller time counts as late.
    pub(crate) fn set_budget(&mut self, bytes: u64) {
        self.budget = bytes;
    }

    /// Bytes of records that wait.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Records that came after one with a larger time was delivered.
    pub(crate) fn late(&self) -> u64 {
        self.late
    }

    /// Takes a record; `offset` is handed back with it.
    pub(crate) fn push(&mut self, time: u64, offset: u64, bytes: &[u8]) {
        let (block, start) = self.store(bytes);
        self.max_time = self.max_time.max(time);
        self.late += u64::from(time < self.delivered);
        self.held.push(Held {
            time,
            offset,
            block,
            start,
            len: bytes.len() as u32,
        });
        self.waiting_bytes += bytes.len() as u64;
        if self.waiting_bytes > self.budget && self.next_ready == self.ready.len() {
            self.release_half();
        }
    }

    fn store(&mut self, bytes: &[u8]) -> (u64, u32) {
        let fits = self
            .blocks
            .back()
            .is_some_and(|block| block.bytes.capacity() - block.bytes.len() >= bytes.len());
        if !fits {
            let mut fresh = self.spare.pop().unwrap_or_default();
            fresh.clear();
            fresh.reserve(BLOCK.max(bytes.len()));
            self.blocks.push_back(Block {
                bytes: fresh,
                waiting: 0,
            });
        }
        let index = self.first_block + self.blocks.len() as u64 - 1;
        let Some(block) = self.blocks.back_mut() else {
            return (index, 0);
        };
        let start = block.bytes.len() as u32;
        block.bytes.extend_from_slice(bytes);
        block.waiting += 1;
        (index, start)
    }

    /// Every source was drained once since the last mark.
    pub(crate) fn round(&mut self) {
        if let Some(limit) = self.limit {
            self.release(limit);
        }
        self.limit = Some(self.max_time);
    }

    /// Nothing older than `time` is still to come. Gives the bytes of records
    /// that must wait on.
    pub(crate) fn reached(&mut self, time: u64) -> u64 {
        self.release(time);
        self.held.iter().map(|held| u64::from(held.len)).sum()
    }

    /// Nothing more comes: all that waits may be delivered.
    pub(crate) fn finish(&mut self) {
        self.release(u64::MAX);
    }

    /// Moves what has a time up to `limit` to `ready`.
    fn release(&mut self, limit: u64) {
        self.held.sort_by_key(|held| held.time);
        let count = self.held.partition_point(|held| held.time <= limit);
        self.ready.drain(..self.next_ready);
        self.next_ready = 0;
        let in_order = match (self.ready.last(), self.held.first()) {
            (Some(last), Some(first)) => last.time <= first.time,
            _ => true,
        };
        self.ready.extend(self.held.drain(..count));
        if !in_order {
            self.ready.sort_by_key(|held| held.time);
        }
    }

    fn release_half(&mut self) {
        let middle = self.held.len() / 2;
        let mut times: Vec<u64> = self.held.iter().map(|held| held.time).collect();
        let (_, &mut limit, _) = times.select_nth_unstable(middle);
        self.release(limit);
    }

    /// Steps to the next record that may be delivered; see
    /// [`Sorter::current`].
    pub(crate) fn advance(&mut self) -> bool {
        self.drop_current();
        let Some(&held) = self.ready.get(self.next_ready) else {
            return false;
        };
        self.next_ready += 1;
        self.delivered = self.delivered.max(held.time);
        self.current = Some(held);
        true
    }

    /// The record that [`Sorter::advance`] stepped to.
    pub(crate) fn current(&self) -> Option<Sorted<'_>> {
        let held = self.current?;
        let index = usize::try_from(held.block.checked_sub(self.first_block)?).ok()?;
        let start = held.start as usize;
        let bytes = &self.blocks.get(index)?.bytes;
        Some(Sorted {
            time: held.time,
            offset: held.offset,
            bytes: bytes.get(start..start + held.len as usize)?,
        })
    }

    /// The next record that may be delivered.
    #[cfg(test)]
    fn pop(&mut self) -> Option<Sorted<'_>> {
        if self.advance() { self.current() } else { None }
    }

    /// Gives the bytes of the delivered record back.
    fn drop_current(&mut self) {
        let Some(held) = self.current.take() else {
            return;
        };
        self.waiting_bytes -= u64::from(held.len);
        let index = (held.block - self.first_block) as usize;
        let last = self.blocks.len() - 1;
        if let Some(block) = self.blocks.get_mut(index) {
            block.waiting -= 1;
            if block.waiting == 0 && index < last {
                // In the middle: its place stays so that numbers stay right.
                let bytes = std::mem::take(&mut block.bytes);
                self.keep_spare(bytes);
            }
        }
        while self.blocks.len() > 1 && self.blocks.front().is_some_and(|block| block.waiting == 0) {
            if let Some(block) = self.blocks.pop_front() {
                self.keep_spare(block.bytes);
            }
            self.first_block += 1;
        }
        if let [only] = self.blocks.make_contiguous()
            && only.waiting == 0
        {
            only.bytes.clear();
        }
    }

    fn keep_spare(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BLOCKS && bytes.capacity() >= BLOCK {
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sorter;

    fn drain(sorter: &mut Sorter) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        while let Some(record) = sorter.pop() {
            out.push((record.time, record.offset));
        }
        out
    }

    #[test]
    fn a_mark_delivers_what_was_seen_before_the_mark_before_it() {
        let mut sorter = Sorter::new();
        for (time, offset) in [(5, 0), (7, 1), (3, 2)] {
            sorter.push(time, offset, b"x");
        }
        sorter.round();
        assert_eq!(drain(&mut sorter), []);
        for (time, offset) in [(6, 3), (9, 4), (7, 5)] {
            sorter.push(time, offset, b"y");
        }
        sorter.round();
        assert_eq!(drain(&mut sorter), [(3, 2), (5, 0), (6, 3), (7, 1), (7, 5)]);
        sorter.push(8, 6, b"z");
        sorter.finish();
        assert_eq!(drain(&mut sorter), [(8, 6), (9, 4)]);
        assert_eq!(sorter.late(), 0);
        assert_eq!(sorter.waiting_bytes(), 0);
    }

    #[test]
    fn a_late_record_is_delivered_late_and_counted() {
        let mut sorter = Sorter::new();
        sorter.push(10, 0, b"x");
        sorter.round();
        sorter.round();
        assert_eq!(drain(&mut sorter), [(10, 0)]);
        sorter.push(4, 1, b"x");
        sorter.finish();
        assert_eq!(drain(&mut sorter), [(4, 1)]);
        assert_eq!(sorter.late(), 1);
    }

    #[test]
    fn what_waits_stays_within_the_budget() {
        let mut sorter = Sorter::new();
        sorter.set_budget(100_000);
        let mut delivered = 0;
        for step in 0..100_000_u64 {
            sorter.push(step ^ 5, step, &[7; 100]);
            while sorter.advance() {
                delivered += 1;
            }
            assert!(sorter.waiting_bytes() <= 100_100);
        }
        assert!(sorter.blocks.len() <= 3, "blocks are given back");
        sorter.finish();
        delivered += drain(&mut sorter).len();
        assert_eq!(delivered, 100_000);
    }
}
