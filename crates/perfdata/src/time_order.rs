//! The records of a recording in the order of their times.

use crate::batch::{self, Batch};
use crate::damage::Error;
use crate::reader::Reader;
use crate::record::Record;
use crate::sorter::Sorter;
use prof_abi::RecordType;

/// Drives a [`Reader`] and yields its records by time.
///
/// The rule is that of `Sorter`; records without a time (perf's own, and those
/// synthesised with time 0) come at once, before what waits. Without marks in
/// the recording everything waits until the end.
pub struct TimeOrder {
    reader: Reader,
    sorter: Sorter,
    ended: bool,
    from_sorter: bool,
    /// The current record did not fit into a batch and is the next one's first.
    is_held: bool,
    /// Bytes that the next batch holds.
    batch_size: usize,
    /// How many bytes wait when streams without marks are looked at again.
    look_at: u64,
}

/// In a ring, a record that interrupted the writing of another one stands
/// behind it with an earlier time: so much earlier at most, ns.
const DISORDER: u64 = 1_000_000_000;
/// Streams without marks are looked at when so many more bytes wait.
const LOOK_AFTER: u64 = 4 << 20;

/// What may wait: so many bytes, and so many times what was read.
const BUDGET_FREE: u64 = 32 << 20;
const BUDGET_TIMES: u64 = 4;

impl TimeOrder {
    /// The records of `reader` from where it stands.
    pub fn new(reader: Reader) -> Self {
        Self {
            reader,
            sorter: Sorter::new(),
            ended: false,
            from_sorter: false,
            is_held: false,
            batch_size: batch::SMALLEST,
            look_at: LOOK_AFTER,
        }
    }

    /// The reader, for its events, features, damages and progress.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the reader; records still waiting are dropped.
    pub fn into_reader(self) -> Reader {
        self.reader
    }

    /// Bytes of records that wait for their turn.
    pub fn waiting_bytes(&self) -> u64 {
        self.sorter.waiting_bytes()
    }

    /// Records that arrived too late to be sorted into the order of time.
    pub fn late(&self) -> u64 {
        self.sorter.late()
    }

    /// The next record in time order, `None` at the end.
    ///
    /// # Errors
    /// Only if reading fails.
    #[expect(clippy::should_implement_trait, reason = "lends from self")]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        self.from_sorter = self.step()?;
        if !self.from_sorter {
            return Ok(if self.ended {
                None
            } else {
                self.reader.current()
            });
        }
        let events = self.reader.events();
        let sorted = self.sorter.current();
        Ok(sorted.and_then(|sorted| Record::new(sorted.bytes, sorted.offset, events)))
    }

    /// Fills `batch`, which is emptied before, with the next records in time
    /// order; it stays empty at the end.
    ///
    /// # Errors
    /// Only if reading fails.
    pub fn fill(&mut self, batch: &mut Batch) -> Result<(), Error> {
        batch.clear();
        loop {
            if !std::mem::take(&mut self.is_held) {
                self.from_sorter = self.step()?;
            }
            let (bytes, offset) = if self.from_sorter {
                match self.sorter.current() {
                    Some(sorted) => (sorted.bytes, sorted.offset),
                    None => continue,
                }
            } else {
                match self.reader.current() {
                    _ if self.ended => break,
                    Some(record) => (record.bytes, record.offset),
                    None => continue,
                }
            };
            let events = self.reader.shared_events();
            if !batch.push(bytes, offset, events, self.batch_size) {
                self.is_held = true;
                break;
            }
        }
        self.batch_size = (2 * self.batch_size).min(batch::LARGEST);
        batch.set_progress(self.reader.progress());
        Ok(())
    }

    /// A directory has no marks of rounds: its streams tell how far all are.
    fn release_of_directory(&mut self) {
        let mut waiting = self.sorter.waiting_bytes();
        if waiting < self.look_at {
            return;
        }
        if let Some(reached) = self.reader.reached() {
            waiting = self.sorter.reached(reached.saturating_sub(DISORDER));
        }
        self.look_at = waiting.saturating_add(LOOK_AFTER);
    }

    /// Steps on; `true` if the next record is the sorter's.
    fn step(&mut self) -> Result<bool, Error> {
        loop {
            if self.sorter.advance() {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            if !self.reader.advance()? {
                self.ended = true;
                self.sorter.finish();
                continue;
            }
            let Some(record) = self.reader.current() else {
                continue;
            };
            match record.time() {
                // perf's "no time".
                None | Some(0 | u64::MAX) => {
                    if record.kind == RecordType::FINISHED_ROUND {
                        let (read, _) = self.reader.progress();
                        let budget = read.saturating_mul(BUDGET_TIMES);
                        self.sorter.set_budget(budget.saturating_add(BUDGET_FREE));
                        self.sorter.round();
                    }
                    return Ok(false);
                }
                Some(time) => {
                    self.sorter.push(time, record.offset, record.bytes);
                    self.release_of_directory();
                }
            }
        }
    }
}
