//! The thread that gives the records to their consumer: first what there was
//! before, then what the rings give, unwound if that is asked for.

use crate::consumer::{Switched, Taker};
use crate::descendants::Descendants;
use crate::drain::Shared;
use crate::foreign::KeptFiles;
use crate::framing::Framing;
use crate::options::Switching;
use crate::output_error::OutputError;
use crate::queue::{Next, Piece, Receiver};
use crate::rounds::Rounds;
use crate::summary::size;
use crate::switching::{Step, Switcher};
use crate::tally::{Counter, Tally};
use crate::tasks::is_asleep;
use crate::traces::TracePiece;
use crate::unwinding::Unwinding;
use crate::waits::{Sleepers, WaitAccount, Waits};
use prof_abi::RecordType;
use prof_live::LiveSummary;
use prof_perfdata::FeatureBit;
use prof_perfdata::write::{Features, finished_init, finished_round};
use prof_profile::several;
use prof_sys::limits::give_free_memory_back;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What was written must be readable in the file after so long.
pub(crate) const FLUSH_EVERY: Duration = Duration::from_millis(200);
/// How often buffers that wait for use are freed, and memory that is free in the
/// allocator goes back to the system: what a busy moment needed is not to stay for
/// the rest of a long recording.
const TRIM_EVERY: Duration = Duration::from_secs(10);
/// Drains without records after which no chain is on trial.
const MOST_PRESSES: u32 = 32;

/// How long records may wait in their rings where stacks are read of threads that
/// sleep: the functions of runtimes are read when these are unwound.
const PATIENCE_FOR_READINGS: Duration = Duration::from_millis(2);

/// What came of writing.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) tally: Tally,
    /// Of waits, if they were recorded.
    pub(crate) waits: Option<WaitAccount>,
    /// Of stacks, if they were unwound.
    pub(crate) stacks: Option<LiveSummary>,
    /// Bytes of records.
    pub(crate) bytes: u64,
    /// The name of the last file where that is not the one that was asked for.
    pub(crate) file: Option<PathBuf>,
    /// Files before it.
    pub(crate) files_before: usize,
    /// Files that were kept for naming.
    pub(crate) kept: KeptFiles,
    /// What the command started.
    pub(crate) descendants: Descendants,
    /// The file is finished, or why it is not.
    pub(crate) result: Result<(), OutputError>,
}

/// The writing thread's state.
pub(crate) struct Writing<'a> {
    pub(crate) taker: Taker<'a>,
    /// Where there are several files: when the next begins.
    pub(crate) parting: Parting,
    pub(crate) unwinding: Option<Unwinding>,
    /// Reads stacks of threads that sleep, where no other thread does.
    pub(crate) sleepers: Option<Sleepers>,
    /// Makes waits of what comes out of it.
    pub(crate) waits: Option<Waits<'a>>,
    pub(crate) counter: Counter,
    /// What the command started.
    pub(crate) descendants: Descendants,
    /// When a mark may follow.
    pub(crate) rounds: Rounds,
    pub(crate) max_size: Option<u64>,
    pub(crate) shared: &'a Shared,
    /// What stands before and after the kernel's records.
    pub(crate) framing: Framing<'a>,
    /// Formats of tracepoints, if there are any; a file has them in a section.
    pub(crate) tracing_data: Option<Vec<u8>>,
}

/// How far a recording in several files is.
#[derive(Debug)]
pub(crate) struct Parting {
    switcher: Switcher,
    /// Where this file ends, if that is known, ns.
    at: u64,
    /// What rings hold that are overwritten.
    newest: Newest,
    /// What had become of stacks when it began.
    before: Option<LiveSummary>,
    /// And once a second, where files overlap.
    history: History,
    /// Files that are finished, and samples in them.
    files: usize,
    samples: u64,
    /// Whether it was told that no other file can be made.
    is_refused: bool,
    /// Whether nobody is told of files as they are finished.
    is_silent: bool,
}

/// What overwritten rings hold belongs into the file that is finished, and
/// what is younger into the next: so they are read first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// There are no such rings.
    None,
    /// They are read when a file is due.
    InRings,
    /// They are being read.
    Awaited,
}

impl Parting {
    /// `overwrites`: whether there are rings that are overwritten.
    pub(crate) fn new(when: Switching, overwrites: bool) -> Self {
        Self {
            newest: match overwrites {
                true => Newest::InRings,
                false => Newest::None,
            },
            switcher: Switcher::new(when),
            at: 0,
            before: None,
            history: History::default(),
            files: 0,
            samples: 0,
            is_refused: false,
            is_silent: when.is_silent,
        }
    }

    /// What became of stacks since this file began, or since the time at which
    /// a window begins, as JSON.
    fn trust(&self, unwinding: Option<&Unwinding>, begins_at: Option<u64>) -> Option<String> {
        let now = unwinding?.summary();
        let before = match begins_at {
            Some(time) => self.history.at(time),
            None => self.before.as_ref(),
        };
        let part = before.map(|before| now.since(before));
        Some(part.unwrap_or(now).to_json())
    }
}

/// What had become of stacks at times, ns, in order.
#[derive(Debug, Default)]
struct History(VecDeque<(u64, LiveSummary)>);

impl History {
    /// At a time a second or more after the last.
    fn note(&mut self, time: u64, summary: impl FnOnce() -> LiveSummary) {
        const SECOND: u64 = 1_000_000_000;
        let last = self.0.back().map_or(0, |&(last, _)| last);
        if time >= last.saturating_add(SECOND) {
            self.0.push_back((time, summary()));
        }
    }

    /// At the last of these times before `time`.
    fn at(&self, time: u64) -> Option<&LiveSummary> {
        let before = self.0.iter().rev().find(|(noted, _)| *noted <= time);
        before.map(|(_, summary)| summary)
    }

    /// Times before `time` will not be asked for, but the last of them.
    fn forget_before(&mut self, time: u64) {
        while self.0.get(1).is_some_and(|&(second, _)| second <= time) {
            self.0.pop_front();
        }
    }
}

/// What the queue gave before a look at whether another file is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Records,
    /// The last records of overwritten rings came before.
    EndOfNewest,
    Nothing,
}

impl Writing<'_> {
    /// Writes the beginning, then pieces until their senders are gone, then
    /// the end.
    pub(crate) fn run(mut self, pieces: &Receiver) -> Written {
        self.shared.writes();
        let mut result = self.write_first();
        self.shared.tell_main(&self.shared.begun);
        let mut flushed = Instant::now();
        let mut trimmed = flushed;
        let mut dirty = false;
        // What comes behind the largest size is not of this recording.
        let mut is_full = false;
        loop {
            let wait = FLUSH_EVERY.saturating_sub(flushed.elapsed());
            let look_in = self.sleepers.as_ref().and_then(Sleepers::look_in);
            let wait = look_in.map_or(wait, |soon| wait.min(soon));
            let came = match pieces.next(wait) {
                Next::Piece(piece) => {
                    dirty = true;
                    if result.is_ok() && !is_full {
                        result = self.write_piece(&piece);
                    }
                    self.give_back(piece.records, pieces);
                    Came::Records
                }
                Next::Trace(piece) => {
                    dirty = true;
                    if result.is_ok() && !is_full {
                        result = self.write_trace(&piece);
                    }
                    self.shared.taken(piece.trace.len());
                    Came::Records
                }
                Next::EndOfNewest => Came::EndOfNewest,
                Next::Nothing => Came::Nothing,
                Next::Ended => break,
            };
            result = result.and_then(|()| self.read_sleepers());
            result = result.and_then(|()| self.part(came));
            self.keep_books();
            if trimmed.elapsed() >= TRIM_EVERY {
                self.give_memory_back(pieces);
                trimmed = Instant::now();
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                if dirty && result.is_ok() {
                    result = self.taker.consumer().flush();
                }
                dirty = false;
                flushed = Instant::now();
            }
            is_full |= self.max_size.is_some_and(|most| self.taker.size() >= most);
            if result.is_err() || is_full {
                self.shared.tell_main(&self.shared.writer_ended);
            }
        }
        let shared = self.shared;
        shared.readings.wait_for_last();
        result = result.and_then(|()| self.write_last_readings());
        let written = self.end(result);
        shared.tell_main(&shared.written);
        written
    }

    /// Writes what was read of waits and is not written yet.
    fn write_last_readings(&mut self) -> Result<(), OutputError> {
        let last = self.take_readings(u64::MAX);
        match last.is_empty() {
            true => Ok(()),
            false => self.write_records(&last, 0),
        }
    }

    /// Gives back what a busy moment needed.
    fn give_memory_back(&mut self, pieces: &Receiver) {
        pieces.give_up_spares();
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.give_up_spares();
        }
        if let Some(waits) = &mut self.waits {
            waits.give_up_spares();
        }
        give_free_memory_back();
    }

    fn write_first(&mut self) -> Result<(), OutputError> {
        let mut records = Vec::new();
        let consumer = self.taker.consumer();
        if let Some(section) = self.tracing_data.take_if(|_| consumer.is_stream()) {
            // Not to the unwinder: what follows the record is no record.
            prof_perfdata::write::tracing_data(&section, &mut records);
            consumer.records(&records)?;
            records.clear();
        }
        self.framing.first(&mut records);
        finished_init(&mut records);
        self.write_records(&records, 0)?;
        self.taker.consumer().flush()
    }

    /// Writes what one drain of all rings gave, and a mark where readers can
    /// rely on it.
    fn write_piece(&mut self, piece: &Piece) -> Result<(), OutputError> {
        let records = piece.records.as_slice();
        let (framing, descendants) = (&mut self.framing, &mut self.descendants);
        self.counter.count(records, &mut |kind, record| match kind {
            RecordType::MMAP2 => framing.mapping(record),
            _ => descendants.note(record),
        });
        self.rounds.drained(records);
        let ordered = self.rounds.in_place_of_times(records);
        let records = ordered.as_deref().unwrap_or(records);
        let waits = self.waits.as_mut();
        let youngest = self.rounds.youngest();
        let is_thinned = waits.is_some_and(|it| it.pace(records, youngest));
        if let Some(sleepers) = &mut self.sleepers {
            sleepers.thins(is_thinned);
            sleepers.note(records);
        }
        let asleep = self.take_readings(piece.began);
        let in_hand = piece.records.len();
        match asleep.is_empty() {
            true => self.write_records(records, in_hand)?,
            false => self.write_records(&[records, &asleep].concat(), in_hand)?,
        }
        if !self.rounds.may_mark(self.earliest_held()) {
            return Ok(());
        }
        let mut mark = Vec::new();
        finished_round(&mut mark);
        self.taker.consumer().records(&mark)
    }

    fn write_trace(&mut self, piece: &TracePiece) -> Result<(), OutputError> {
        self.counter.trace(piece.trace.len() as u64);
        self.taker.consumer().trace(&piece.record, &piece.trace)
    }

    /// What was read of threads that sleep until a time, ns: what else happened until
    /// then was drained.
    fn take_readings(&mut self, until: u64) -> Vec<u8> {
        let (records, held) = self.shared.readings.take(until);
        if let Some(waits) = &mut self.waits {
            held.iter().for_each(|held| waits.held(held));
        }
        records
    }

    /// Writes what can be read of threads that sleep.
    fn read_sleepers(&mut self) -> Result<(), OutputError> {
        let (mut records, mut held) = (Vec::new(), Vec::new());
        let sleepers = self.sleepers.as_mut();
        if let Some(sleepers) = sleepers.filter(|_| self.shared.parts.has_begun()) {
            sleepers.read(&mut records, &mut held);
        }
        if let Some(waits) = &mut self.waits {
            held.iter().for_each(|held| waits.held(held));
        }
        match records.is_empty() {
            true => Ok(()),
            false => self.write_records(&records, 0),
        }
    }

    /// Writes records, for which `in_hand` bytes still count as queued.
    fn write_records(&mut self, records: &[u8], in_hand: usize) -> Result<(), OutputError> {
        let (consumer, mut result) = (self.taker.consumer(), Ok(()));
        let mut write = |piece: &[u8]| {
            if result.is_ok() && !piece.is_empty() {
                result = consumer.records(piece);
            }
        };
        let sleepers = self.sleepers.as_ref();
        let waits = &mut self.waits;
        let mut pass = |piece: &[u8]| match waits {
            Some(waits) => waits.pass(piece, &mut write),
            None => write(piece),
        };
        let mut horizon = self.rounds.horizon();
        if let Some(earliest) = self.shared.readings.earliest() {
            horizon = horizon.min(earliest.saturating_sub(1));
        }
        match &mut self.unwinding {
            Some(unwinding) => {
                let is_pressed = self.shared.is_pressed_behind(in_hand);
                unwinding.round(records, is_pressed, &mut pass);
                let usual = unwinding.patience();
                let sooner = match self.shared.readings.is_open() {
                    true => Some(PATIENCE_FOR_READINGS),
                    false => sleepers.and_then(Sleepers::patience),
                };
                self.shared
                    .be_patient(sooner.map_or(usual, |sooner| usual.min(sooner)));
                let held = unwinding.earliest_held().unwrap_or(u64::MAX);
                horizon = horizon.min(held.saturating_sub(1));
                if let Some(waits) = waits {
                    waits.named(unwinding.take_named());
                }
            }
            None => pass(records),
        }
        if let Some(waits) = waits {
            waits.pair(horizon, &mut write);
        }
        result
    }

    /// The earliest time, ns, of what unwinding holds back.
    fn earliest_held(&self) -> Option<u64> {
        let unwinding = self.unwinding.as_ref().and_then(Unwinding::earliest_held);
        let waits = self.waits.as_ref().and_then(Waits::earliest_held);
        unwinding.into_iter().chain(waits).min()
    }

    fn give_back(&self, records: Vec<u8>, pieces: &Receiver) {
        self.shared.taken(records.len());
        pieces.give_back(records);
    }

    /// Goes on in another file where that is due.
    fn part(&mut self, came: Came) -> Result<(), OutputError> {
        let is_wanted = self.shared.is_another_wanted();
        let (size, is_held) = (self.taker.size(), self.holds_older());
        if matches!(self.taker, Taker::One(_)) {
            return Ok(());
        }
        let parting = &mut self.parting;
        match (parting.newest, came) {
            (Newest::Awaited, Came::EndOfNewest) => {
                parting.newest = Newest::InRings;
                return self.cut();
            }
            (Newest::Awaited, _) => return Ok(()),
            (Newest::None | Newest::InRings, _) => {}
        }
        let is_idle = came == Came::Nothing;
        match parting.switcher.step(is_idle, size, is_wanted, is_held) {
            Step::None => Ok(()),
            Step::Cut if parting.newest == Newest::InRings => {
                parting.newest = Newest::Awaited;
                self.shared.want_newest();
                Ok(())
            }
            Step::Cut => self.cut(),
            Step::Press => {
                // Drains that give nothing end all trials.
                for _ in 0..MOST_PRESSES {
                    if !self.holds_older() {
                        break;
                    }
                    self.write_records(&[], 0)?;
                    self.press_waits()?;
                }
                self.switch()
            }
            Step::Switch => self.switch(),
        }
    }

    /// Ends this file with what has come so far.
    fn cut(&mut self) -> Result<(), OutputError> {
        let Taker::Parts(parts) = &mut self.taker else {
            return Ok(());
        };
        self.parting.at = self.rounds.youngest();
        match parts.cut(self.parting.at) {
            true => Ok(()),
            false => self.switch(),
        }
    }

    /// Writes the waits that are held back.
    fn press_waits(&mut self) -> Result<(), OutputError> {
        let mut records = Vec::new();
        if let Some(waits) = &mut self.waits {
            waits.press(&mut |piece| records.extend_from_slice(piece));
        }
        match records.is_empty() {
            true => Ok(()),
            false => self.taker.consumer().records(&records),
        }
    }

    /// Whether something is held back that belongs into this file.
    fn holds_older(&self) -> bool {
        self.earliest_held()
            .is_some_and(|held| held <= self.parting.at)
    }

    fn switch(&mut self) -> Result<(), OutputError> {
        let Taker::Parts(parts) = &mut self.taker else {
            return Ok(());
        };
        let (tally, begins_at) = (parts.tally(), parts.begins_at());
        let mut last = Vec::new();
        // Of a window the kernel's records tell what was lost when.
        match begins_at {
            None => self.framing.last(&tally, &mut last),
            Some(_) => self
                .framing
                .newest(parts.lost_ever(), tally.last, &mut last),
        }
        finished_round(&mut last);
        let trust = self.parting.trust(self.unwinding.as_ref(), begins_at);
        let trust = self.framing.trust(trust);
        let mut features = self.framing.features(&tally, trust);
        if let Some(section) = &self.tracing_data {
            features.set(FeatureBit::TRACING_DATA, section.clone());
        }
        self.parting.switcher.switched();
        let switched = parts.switch(&last, features)?;
        self.parting.before = self.unwinding.as_ref().map(Unwinding::summary);
        self.tell(switched);
        Ok(())
    }

    /// Tells of a file.
    fn tell(&mut self, switched: Switched) {
        match switched {
            Switched::To { name, tally, bytes } => {
                self.parting.is_refused = false;
                self.parting.files += 1;
                self.parting.samples += tally.samples;
                if self.parting.is_silent {
                    return;
                }
                let (name, samples) = (name.display(), several(tally.samples, "sample"));
                let size = size(bytes);
                self.shared.tell(format!("{samples}, {size} in {name}"));
            }
            Switched::Later => {}
            Switched::Refused(why) => {
                let is_news = !std::mem::replace(&mut self.parting.is_refused, true);
                if is_news {
                    self.shared.tell(format!(
                        "{why}: this makes no other file, and the recording goes on"
                    ));
                }
            }
        }
    }

    /// Takes down what became of stacks, once a second, and tells of files that
    /// were finished meanwhile.
    fn keep_books(&mut self) {
        let Taker::Parts(parts) = &mut self.taker else {
            return;
        };
        let switched = parts.switched();
        if let (Some(unwinding), Some(time)) = (&self.unwinding, parts.begins_at()) {
            let now = self.rounds.youngest();
            self.parting.history.note(now, || unwinding.summary());
            self.parting.history.forget_before(time);
        }
        if let Some(switched) = switched {
            self.tell(switched);
        }
    }

    fn end(mut self, result: Result<(), OutputError>) -> Written {
        let mut tally = self.counter.tally();
        let last = result.and_then(|()| self.write_last(&mut tally));
        let features = match last {
            Ok(features) => features,
            Err(error) => return self.ended_early(tally, error),
        };
        if let Some(unwinding) = &self.unwinding {
            let lacks = [unwinding.lacks_descriptors(), unwinding.lacks_memory()];
            let lacks = lacks.into_iter().flatten();
            lacks.for_each(|lacks| self.shared.tell(lacks));
        }
        let waits = self.waits.as_ref().map(Waits::account);
        let stacks = self.unwinding.as_ref().map(Unwinding::summary);
        // What is finished while the last file is written is told, too.
        while let Taker::Parts(parts) = &mut self.taker
            && let Some(switched) = parts.wait()
        {
            self.tell(switched);
        }
        let mut bytes = self.taker.bytes();
        let ended = match self.taker {
            Taker::One(consumer) => consumer.finish(features).map(|()| None),
            Taker::Parts(mut parts) => {
                let ended = parts.end(features);
                if parts.begins_at().is_some() {
                    (tally, bytes) = (parts.tally(), parts.bytes());
                }
                ended.map(Some)
            }
        };
        let (file, result) = match ended {
            Ok(file) => (file, Ok(())),
            Err(error) => (None, Err(error)),
        };
        Written {
            tally,
            waits,
            stacks,
            bytes,
            file,
            files_before: self.parting.files,
            result,
            kept: self.framing.store_files(),
            descendants: self.descendants,
        }
    }

    /// Writes what was held back and the last records; what is known at the
    /// end comes back, for the header.
    fn write_last(&mut self, tally: &mut Tally) -> Result<Features, OutputError> {
        let (consumer, mut kept_back) = (self.taker.consumer(), Ok(()));
        let mut write = |piece: &[u8]| {
            if kept_back.is_ok() && !piece.is_empty() {
                kept_back = consumer.records(piece);
            }
        };
        let waits = &mut self.waits;
        if let Some(unwinding) = &mut self.unwinding {
            unwinding.finish(&mut |piece| match waits {
                Some(waits) => waits.pass(piece, &mut write),
                None => write(piece),
            });
        }
        if let Some(waits) = waits {
            let named = self.unwinding.as_mut().map(Unwinding::take_named);
            waits.named(named.unwrap_or_default());
            waits.finish(is_asleep, &mut write);
            waits.correct(tally);
        }
        kept_back?;
        let (mut tally, mut begins_at) = (*tally, None);
        let mut lost_ever = 0;
        if let Taker::Parts(parts) = &mut self.taker {
            parts.uncut()?;
            (tally, begins_at) = (parts.tally(), parts.begins_at());
            lost_ever = parts.lost_ever();
        }
        let trust = self.parting.trust(self.unwinding.as_ref(), begins_at);
        let mut last = Vec::new();
        match begins_at {
            None => self.framing.last(&tally, &mut last),
            Some(_) => self.framing.newest(lost_ever, tally.last, &mut last),
        }
        finished_round(&mut last);
        let consumer = self.taker.consumer();
        consumer.records(&last)?;
        consumer.flush()?;
        // Of one of several files it is not known.
        let is_one = matches!(self.taker, Taker::One(_));
        let due = self.framing.due(&tally).filter(|_| is_one);
        let trust = LiveSummary::json_with_due(self.framing.trust(trust), due);
        let mut features = self.framing.features(&tally, trust);
        if let Some(section) = self.tracing_data.take() {
            features.set(FeatureBit::TRACING_DATA, section);
        }
        Ok(features)
    }

    /// The tally is of what the file has, not of what was sampled.
    fn ended_early(mut self, mut tally: Tally, error: OutputError) -> Written {
        if let Some(kept) = self.taker.consumer().salvage() {
            tally.samples = kept.samples + self.parting.samples;
        }
        Written {
            tally,
            waits: self.waits.as_ref().map(Waits::account),
            stacks: self.unwinding.as_ref().map(Unwinding::summary),
            bytes: self.taker.bytes(),
            file: None,
            files_before: self.parting.files,
            result: Err(error),
            kept: KeptFiles::default(),
            descendants: self.descendants,
        }
    }
}
