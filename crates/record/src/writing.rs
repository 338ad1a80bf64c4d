//! The thread that gives the records to their consumer: first what there was
//! before, then what the rings give, unwound if that is asked for.

use crate::consumer::Consumer;
use crate::drain::Shared;
use crate::error::OutputError;
use crate::foreign::KeptFiles;
use crate::framing::Framing;
use crate::queue::{Next, Receiver};
use crate::rounds::Rounds;
use crate::tally::{Counter, Tally};
use crate::tracing_data;
use crate::unwinding::Unwinding;
use prof_perfdata::FeatureBit;
use prof_perfdata::write::{Features, finished_init, finished_round};
use std::time::{Duration, Instant};

/// What was written must be readable in the file after so long.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_millis(200);
/// A buffer larger than this is not kept for reuse, bytes. That of a drain of
/// two CPUs with deep stacks has 2 MiB, and fresh memory costs as much as to
/// copy it.
const MOST_SPARE: usize = 4 << 20;

/// What came of writing.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) tally: Tally,
    /// Bytes of records.
    pub(crate) bytes: u64,
    /// Files that were kept for naming.
    pub(crate) kept: KeptFiles,
    /// The file is finished, or why it is not.
    pub(crate) result: Result<(), OutputError>,
}

/// The writing thread's state.
pub(crate) struct Writing<'a> {
    pub(crate) consumer: Box<dyn Consumer + 'a>,
    pub(crate) unwinding: Option<Unwinding>,
    pub(crate) counter: Counter,
    /// When a mark may follow.
    pub(crate) rounds: Rounds,
    pub(crate) max_size: Option<u64>,
    pub(crate) shared: &'a Shared,
    /// What stands before and after the kernel's records.
    pub(crate) framing: Framing<'a>,
    /// Formats of tracepoints, if there are any; a file has them in a section.
    pub(crate) tracing_data: Option<Vec<u8>>,
}

impl Writing<'_> {
    /// Writes the beginning, then pieces until their senders are gone, then
    /// the end.
    pub(crate) fn run(mut self, pieces: &Receiver) -> Written {
        let mut result = self.write_first();
        let mut flushed = Instant::now();
        let mut dirty = false;
        loop {
            let wait = FLUSH_EVERY.saturating_sub(flushed.elapsed());
            match pieces.next(wait) {
                Next::Piece(piece) => {
                    dirty = true;
                    if result.is_ok() {
                        result = self.write_piece(&piece);
                    }
                    self.give_back(piece, pieces);
                }
                Next::Nothing => {}
                Next::Ended => break,
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                if dirty && result.is_ok() {
                    result = self.consumer.flush();
                }
                dirty = false;
                flushed = Instant::now();
            }
            let full = self
                .max_size
                .is_some_and(|most| self.consumer.size() >= most);
            if result.is_err() || full {
                self.shared.tell_main(&self.shared.writer_ended);
            }
        }
        let shared = self.shared;
        let written = self.end(result);
        shared.tell_main(&shared.written);
        written
    }

    fn write_first(&mut self) -> Result<(), OutputError> {
        let mut records = Vec::new();
        if let Some(section) = self.tracing_data.take_if(|_| self.consumer.is_stream()) {
            // Not to the unwinder: what follows the record is no record.
            tracing_data::append_to_stream(&section, &mut records);
            self.consumer.records(&records)?;
            records.clear();
        }
        self.framing.first(&mut records);
        finished_init(&mut records);
        self.write_records(&records)?;
        self.consumer.flush()
    }

    /// Writes what one drain of all rings gave, and a mark where readers can
    /// rely on it.
    fn write_piece(&mut self, records: &[u8]) -> Result<(), OutputError> {
        let framing = &mut self.framing;
        self.counter
            .count(records, &mut |record| framing.mapping(record));
        self.rounds.drained(records);
        self.write_records(records)?;
        let unwinding = self.unwinding.as_ref();
        let held = unwinding.and_then(Unwinding::earliest_held);
        if !self.rounds.may_mark(held) {
            return Ok(());
        }
        let mut mark = Vec::new();
        finished_round(&mut mark);
        self.consumer.records(&mark)
    }

    fn write_records(&mut self, records: &[u8]) -> Result<(), OutputError> {
        let Some(unwinding) = &mut self.unwinding else {
            return self.consumer.records(records);
        };
        let (consumer, mut result) = (&mut self.consumer, Ok(()));
        unwinding.round(records, self.shared.is_pressed(), &mut |piece| {
            if result.is_ok() {
                result = consumer.records(piece);
            }
        });
        self.shared.be_patient(unwinding.patience());
        result
    }

    fn give_back(&self, records: Vec<u8>, pieces: &Receiver) {
        self.shared.taken(records.len());
        if records.capacity() <= MOST_SPARE {
            pieces.give_back(records);
        }
    }

    fn end(mut self, result: Result<(), OutputError>) -> Written {
        let tally = self.counter.tally();
        let last = result.and_then(|()| self.write_last(&tally));
        let features = match last {
            Ok(features) => features,
            Err(error) => return self.ended_early(tally, error),
        };
        let bytes = self.consumer.size();
        Written {
            tally,
            bytes,
            result: self.consumer.finish(features),
            kept: self.framing.store_files(),
        }
    }

    /// Writes what was held back and the last records; what is known at the
    /// end comes back, for the header.
    fn write_last(&mut self, tally: &Tally) -> Result<Features, OutputError> {
        let mut trust = None;
        let mut kept_back = Ok(());
        if let Some(unwinding) = &mut self.unwinding {
            let consumer = &mut self.consumer;
            trust = Some(unwinding.finish(&mut |piece| {
                if kept_back.is_ok() {
                    kept_back = consumer.records(piece);
                }
            }));
        }
        kept_back?;
        let mut last = Vec::new();
        self.framing.last(tally, &mut last);
        finished_round(&mut last);
        self.consumer.records(&last)?;
        self.consumer.flush()?;
        let mut features = self.framing.features(tally, trust);
        if let Some(section) = self.tracing_data.take() {
            features.set(FeatureBit::TRACING_DATA, section);
        }
        Ok(features)
    }

    /// The tally is of what the file has, not of what was sampled.
    fn ended_early(mut self, mut tally: Tally, error: OutputError) -> Written {
        if let Some(kept) = self.consumer.salvage() {
            tally.samples = kept.samples;
        }
        Written {
            tally,
            bytes: self.consumer.size(),
            result: Err(error),
            kept: KeptFiles::default(),
        }
    }
}
