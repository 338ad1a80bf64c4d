//! The flight recorder: what was recorded last stays in memory, and becomes a
//! file when it is asked for and at the end.
//!
//! Records come here as they would go to a file, unwound if that was asked for.
//! They are kept in segments; when the oldest is given up, what it tells of
//! tasks and mappings goes into the state with which a file begins, so that
//! its stacks and names are those of a whole recording. Samples may also stay in the
//! kernel's rings until then, which it overwrites; only the rest comes here.
//!
//! ```text
//! state as of the first segment │ segment │ segment │ … ◄─ records
//!              ▲                     │
//!              └── mappings, names ◄─┘ given up
//! ```

use crate::consumer::{Consumer, Parts, Switched};
use crate::options::Flight as Keep;
use crate::output::{Making, Prepared};
use crate::output_error::OutputError;
use crate::placing::keep_old;
use crate::rounds::{Times, each};
use crate::series::{Beginning, Files};
use crate::stamp::stamped;
use crate::tally::{Counter, Tally};
use crate::task_state::is_state;
use prof_abi::RecordType;
use prof_perfdata::write::{EventDescription, Features, Kept};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Records of tasks and mappings, bytes, that are kept beside rings that the kernel
/// overwrites: how far back their samples go is not known before they are read.
const MOST_BESIDE_RINGS: u64 = 64 << 20;
/// Records come so much later than younger ones at most, ns, where no marks tell:
/// rings are drained some times a second.
const SETTLED_WITHIN: u64 = 2_000_000_000;
/// A segment ends at a mark, or when it has so many bytes.
const LONGEST_SEGMENT: usize = 1 << 20;

/// Keeps the newest records.
pub(crate) struct Flight {
    keep: Keep,
    path: PathBuf,
    events: Arc<[EventDescription]>,
    features: Features,
    begun: Beginning,
    times: Arc<Times>,
    fresh: Counter,
    segments: VecDeque<Arc<Segment>>,
    newest: Segment,
    /// Of rings that the kernel overwrites: what they held when they were read for
    /// the file that is due.
    from_rings: Segment,
    /// Bytes in all segments.
    bytes: u64,
    /// Bytes that came since a file was last made.
    since_file: u64,
    /// The youngest record, ns; that of segments that were given up, and the
    /// one before the last mark there.
    youngest: u64,
    given_up: u64,
    marked: u64,
    /// What the kernel told of as lost in segments that were given up.
    lost_before: u64,
    files: Files,
    /// The last file has the time in its name, too.
    is_stamped: bool,
    making: Making,
    dumper: Dumper,
}

/// What came of writing a file.
type Dumped = Result<(PathBuf, Tally, u64), Failed>;

/// A thread that writes files beside the recording. It is there from the
/// beginning on: `--exclude-perf` leaves out the threads that are there then.
struct Dumper {
    images: Sender<Image>,
    dumped: Receiver<Dumped>,
    /// Whether a file is written, or was and nobody asked for it.
    is_asked: bool,
}

impl Dumper {
    fn start() -> std::io::Result<Self> {
        let (images, asked) = channel::<Image>();
        let (done, dumped) = channel();
        let thread = thread::Builder::new().name("dump".to_owned());
        thread.spawn(move || {
            for image in asked {
                let written = stamped(&image.path).map_err(Failed::from);
                let written = written.and_then(|name| image.write(&name, Partial::Discard));
                if done.send(written).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            images,
            dumped,
            is_asked: false,
        })
    }

    fn write(&mut self, image: Image) {
        self.images
            .send(image)
            .expect("the thread ends after this sender");
        self.is_asked = true;
    }

    /// What came of the last file, if it is written; waits for it if told to.
    fn take(&mut self, waits: bool) -> Option<Dumped> {
        if !self.is_asked {
            return None;
        }
        let dumped = match waits {
            true => Some(self.dumped.recv().expect("writing a file does not panic")),
            false => self.dumped.try_recv().ok(),
        };
        self.is_asked = dumped.is_none();
        dumped
    }
}

/// A file could not be written whole.
#[derive(Debug)]
struct Failed {
    why: OutputError,
    /// What it has all the same.
    kept: Kept,
}

impl From<OutputError> for Failed {
    fn from(why: OutputError) -> Self {
        let (bytes, samples) = (0, 0);
        Self {
            why,
            kept: Kept { bytes, samples },
        }
    }
}

/// Records that came one after another.
#[derive(Debug, Clone)]
struct Segment {
    records: Vec<u8>,
    counter: Counter,
    /// The youngest of them, ns.
    youngest: u64,
    /// It ends with a mark.
    is_marked: bool,
}

impl Segment {
    fn new(counter: Counter) -> Self {
        Self {
            records: Vec::new(),
            counter,
            youngest: 0,
            is_marked: false,
        }
    }

    /// Takes the samples of what came, and gives back the rest if there are any.
    fn take_samples(&mut self, records: &[u8]) -> Option<Vec<u8>> {
        let (before, mut others) = (self.records.len(), Vec::new());
        each(records, |kind, record| match kind {
            RecordType::SAMPLE => self.records.extend_from_slice(record),
            _ => others.extend_from_slice(record),
        });
        let samples = self.records.get(before..).unwrap_or_default();
        self.counter.count(samples, &mut |_, _| {});
        (!samples.is_empty()).then_some(others)
    }
}

/// What is asked of a flight recorder beside what it keeps.
pub(crate) struct Named {
    /// The file at the end; others have the time behind this name.
    pub(crate) path: PathBuf,
    /// Only so many files stay.
    pub(crate) most: Option<usize>,
    pub(crate) is_stamped: bool,
    pub(crate) making: Making,
}

impl Flight {
    /// # Errors
    /// If no file can be made where they are to be.
    pub(crate) fn new(
        keep: Keep,
        named: Named,
        events: &[EventDescription],
        features: Features,
    ) -> Result<Self, OutputError> {
        Prepared::new(&named.path, events, named.making)?.remove()?;
        let dumper = Dumper::start().map_err(|source| OutputError::Io {
            doing: "start a thread to write",
            path: named.path.clone(),
            source,
        })?;
        let attr = events.first().map(|event| event.attr.clone());
        let attr = attr.unwrap_or_default();
        let fresh = Counter::new(&attr);
        Ok(Self {
            keep,
            path: named.path,
            events: events.into(),
            features,
            begun: Beginning::new(events),
            times: Arc::new(Times::of(&attr)),
            newest: Segment::new(fresh.clone()),
            from_rings: Segment::new(fresh.clone()),
            fresh,
            segments: VecDeque::new(),
            bytes: 0,
            since_file: 0,
            youngest: 0,
            given_up: 0,
            marked: 0,
            lost_before: 0,
            files: Files::new(named.most),
            is_stamped: named.is_stamped,
            making: named.making,
            dumper,
        })
    }

    fn close_segment(&mut self) {
        let mut next = Segment::new(self.fresh.clone());
        std::mem::swap(&mut self.newest, &mut next);
        if next.records.is_empty() {
            return;
        }
        next.records.shrink_to_fit();
        self.segments.push_back(Arc::new(next));
        while self.has_too_much() {
            self.give_up_oldest();
        }
    }

    /// Whether what is wanted is there without the oldest segment.
    fn has_too_much(&self) -> bool {
        let Some(oldest) = self.segments.front() else {
            return false;
        };
        let is_old = match self.keep {
            Keep::Time(_) => self.oldest_wanted() > oldest.youngest,
            Keep::Bytes(most) => self.is_without(oldest, most),
            Keep::Rings => self.is_without(oldest, MOST_BESIDE_RINGS),
        };
        is_old && self.segments.len() > 1
    }

    /// Whether so many bytes are there without a segment.
    fn is_without(&self, segment: &Segment, most: u64) -> bool {
        self.bytes - segment.records.len() as u64 >= most
    }

    /// Samples older than this, ns, are not wanted.
    fn oldest_wanted(&self) -> u64 {
        match self.keep {
            Keep::Time(window) => {
                let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
                self.youngest.saturating_sub(window)
            }
            Keep::Bytes(_) => 0,
            // The names of older ones are those of a later time.
            Keep::Rings => self.given_up,
        }
    }

    fn give_up_oldest(&mut self) {
        let Some(oldest) = self.segments.pop_front() else {
            return;
        };
        self.bytes -= oldest.records.len() as u64;
        self.lost_before += oldest.counter.tally().lost;
        let (state, times) = (&mut self.begun.state, &self.times);
        each(&oldest.records, |kind, record| {
            if is_state(kind) {
                state.note(times.of_record(kind, record).unwrap_or(0), record);
            }
        });
        self.given_up = self.given_up.max(oldest.youngest);
        let is_settled = match self.keep {
            Keep::Rings => self.given_up.saturating_sub(self.marked) >= SETTLED_WITHIN,
            Keep::Time(_) | Keep::Bytes(_) => oldest.is_marked,
        };
        if is_settled {
            state.settle(self.marked);
            self.marked = self.given_up;
        }
    }

    /// Gives up what came before the first sample of rings that the kernel overwrites:
    /// those of later files are younger.
    fn begin_with_rings(&mut self) {
        let first = match self.keep {
            Keep::Rings => self.from_rings.counter.tally().first,
            Keep::Time(_) | Keep::Bytes(_) => return,
        };
        let is_before = |oldest: &Arc<Segment>| first < u64::MAX && oldest.youngest < first;
        while self.segments.len() > 1 && self.segments.front().is_some_and(is_before) {
            self.give_up_oldest();
        }
    }

    /// What a file is made of.
    fn image(&mut self, last: &[u8], late: Features) -> Image {
        self.close_segment();
        self.begin_with_rings();
        let mut beginning = self.begun.again();
        self.begun.state.append_waiting(&mut beginning);
        let mut features = self.features.clone();
        features.merge(late);
        let fresh = Segment::new(self.fresh.clone());
        let from_rings = std::mem::replace(&mut self.from_rings, fresh);
        let segments = self.segments.iter().cloned();
        Image {
            path: self.path.clone(),
            events: self.events.clone(),
            features,
            beginning,
            segments: segments.chain([Arc::new(from_rings)]).collect(),
            last: last.to_vec(),
            oldest: self.oldest_wanted(),
            times: self.times.clone(),
            counter: self.fresh.clone(),
            making: self.making,
        }
    }
}

impl Flight {
    fn told(&mut self, dumped: Dumped) -> Switched {
        match dumped {
            Ok((name, tally, bytes)) => {
                self.files.keep(name.clone());
                Switched::To { name, tally, bytes }
            }
            Err(failed) => Switched::Refused(failed.why),
        }
    }
}

impl Consumer for Flight {
    fn records(&mut self, records: &[u8]) -> Result<(), OutputError> {
        let mut rest = records;
        if !self.begun.is_over() {
            let begun = &mut self.begun;
            each(records, |kind, record| {
                if !begun.is_over() {
                    begun.note(kind, record);
                    rest = rest.get(record.len()..).unwrap_or_default();
                }
            });
        }
        let others = match self.keep {
            Keep::Rings => self.from_rings.take_samples(rest),
            Keep::Time(_) | Keep::Bytes(_) => None,
        };
        let rest = others.as_deref().unwrap_or(rest);
        let (times, segment) = (&self.times, &mut self.newest);
        each(rest, |kind, record| {
            let time = times.of_record(kind, record).unwrap_or(0);
            segment.youngest = segment.youngest.max(time);
            segment.is_marked |= kind == RecordType::FINISHED_ROUND;
        });
        segment.records.extend_from_slice(rest);
        segment.counter.count(rest, &mut |_, _| {});
        self.youngest = self.youngest.max(segment.youngest);
        self.bytes += rest.len() as u64;
        self.since_file += rest.len() as u64;
        if segment.is_marked || segment.records.len() >= LONGEST_SEGMENT {
            self.close_segment();
        }
        Ok(())
    }

    /// What is new: a file of a size, of memory that holds as much, would be
    /// followed by the same one at once.
    fn size(&self) -> u64 {
        self.since_file
    }

    fn finish(mut self: Box<Self>, late: Features) -> Result<(), OutputError> {
        self.end(late).map(drop)
    }
}

impl Parts for Flight {
    /// Files overlap.
    fn cut(&mut self, _at: u64) -> bool {
        false
    }

    fn uncut(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    /// The file is written beside the recording, which goes on.
    fn switch(&mut self, last: &[u8], late: Features) -> Result<Switched, OutputError> {
        let before = self.wait();
        self.since_file = 0;
        let image = self.image(last, late);
        self.dumper.write(image);
        Ok(before.unwrap_or(Switched::Later))
    }

    fn switched(&mut self) -> Option<Switched> {
        let dumped = self.dumper.take(false)?;
        Some(self.told(dumped))
    }

    fn wait(&mut self) -> Option<Switched> {
        let dumped = self.dumper.take(true)?;
        Some(self.told(dumped))
    }

    fn end(&mut self, late: Features) -> Result<PathBuf, OutputError> {
        let image = self.image(&[], late);
        let name = match self.is_stamped {
            true => stamped(&self.path)?,
            false => self.path.clone(),
        };
        let written = image.write(&name, Partial::Keep);
        self.newest = Segment::new(self.fresh.clone());
        self.segments.clear();
        let (tally, bytes, named) = match written {
            Ok((name, tally, bytes)) => (tally, bytes, Ok(name)),
            Err(Failed { why, kept }) => {
                let tally = Tally {
                    samples: kept.samples,
                    ..self.fresh.tally()
                };
                (tally, kept.bytes, Err(why))
            }
        };
        self.newest.counter.add(tally);
        self.bytes = bytes;
        let name = named?;
        self.files.keep(name.clone());
        Ok(name)
    }

    fn tally(&self) -> Tally {
        let mut sum = self.fresh.clone();
        for segment in self
            .segments
            .iter()
            .map(Arc::as_ref)
            .chain([&self.newest, &self.from_rings])
        {
            sum.add(segment.counter.tally());
        }
        let mut tally = sum.tally();
        tally.first = tally.first.max(self.oldest_wanted());
        tally
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn lost_ever(&self) -> u64 {
        self.lost_before + self.tally().lost
    }

    fn begins_at(&self) -> Option<u64> {
        Some(self.tally().first)
    }
}

/// A file that is to be written.
struct Image {
    path: PathBuf,
    events: Arc<[EventDescription]>,
    features: Features,
    beginning: Vec<u8>,
    segments: Vec<Arc<Segment>>,
    last: Vec<u8>,
    /// Samples older than this, ns, are left out.
    oldest: u64,
    times: Arc<Times>,
    counter: Counter,
    making: Making,
}

/// What to do with a file that could not be written whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partial {
    /// There is nothing else.
    Keep,
    /// Its records are in memory.
    Discard,
}

impl Image {
    fn write(self, name: &Path, partial: Partial) -> Dumped {
        let mut file = Prepared::new(name, &self.events, self.making)?;
        let (mut counter, mut bytes) = (self.counter.clone(), 0);
        let written = self.fill(&mut file, &mut counter, &mut bytes);
        let kept = match (&written, partial) {
            (Err(_), Partial::Keep) => Some(file.salvage()),
            _ => None,
        };
        if written.is_err() && kept.is_none_or(|kept| kept.bytes == 0) {
            file.discard();
        } else if let Err(error) = keep_old(name) {
            file.discard();
            return Err(error.into());
        } else {
            file.place(name)?;
        }
        match (written, kept) {
            (Ok(()), _) => Ok((name.to_owned(), counter.tally(), bytes)),
            (Err(why), Some(kept)) => Err(Failed { why, kept }),
            (Err(why), None) => Err(why.into()),
        }
    }

    fn fill(
        &self,
        file: &mut Prepared,
        counter: &mut Counter,
        bytes: &mut u64,
    ) -> Result<(), OutputError> {
        file.write(&self.beginning)?;
        let mut kept = Vec::new();
        for segment in &self.segments {
            kept.clear();
            each(&segment.records, |kind, record| {
                let is_old = kind == RecordType::SAMPLE
                    && self.times.of_record(kind, record) < Some(self.oldest);
                if !is_old {
                    kept.extend_from_slice(record);
                }
            });
            counter.count(&kept, &mut |_, _| {});
            file.write(&kept)?;
            *bytes += kept.len() as u64;
        }
        file.write(&self.last)?;
        file.end(&self.features)
    }
}
