//! `prof stat report`: counts that a file holds, as `perf stat report` shows
//! them.

use crate::aggregate::{Aggregation, Mode};
use crate::metrics::Metrics;
use crate::options::Form;
use crate::places::{CountedIn, ThreadName, Topology};
use crate::session::since;
use crate::shown::figures::{CountedEvent, EventFigures, Layout, Times};
use crate::shown::rows::rows;
use crate::shown::{machine_readable, text};
use prof_perfdata::body::{Body, Stat};
use prof_perfdata::{Error, Reader};
use prof_record::counting::Reading;
use prof_report::escape;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// A recording has no counts to show, or cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] Error),
    /// It holds no counts.
    #[error("this recording holds no counts\n  try: prof stat record, or prof report for samples")]
    NoCounts,
}

/// How a recording of counts is shown.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// What counts are put together, if not what the recording says.
    pub mode: Option<Mode>,
    /// How they are written.
    pub form: Form,
}

/// What there is to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The counts.
    pub text: String,
    /// Counts per CPU were asked for, but the counts are of tasks.
    pub is_of_tasks: bool,
    /// Counts per thread were asked for, but none are of threads.
    pub has_no_threads: bool,
}

/// The counts of a recording, as text.
///
/// # Errors
/// When it cannot be read, or has nothing of the kind.
pub fn report(reader: &mut Reader, options: &ReportOptions) -> Result<Reported, ReportError> {
    let mut read = Read::default();
    let version = reader
        .features()
        .version()
        .map(|text| text.to_string_lossy().into_owned());
    let mut shown = Shown::new(options);
    while let Some(record) = reader.next()? {
        match record.decode() {
            Body::StatConfig(config) => {
                let entries = config.entries.iter().map(|it| (it.tag, it.value));
                read.config(entries, version.as_deref());
            }
            Body::ThreadMap(map) => {
                let threads = map.threads.iter().map(|thread| ThreadName {
                    tid: thread.pid,
                    comm: String::from_utf8_lossy(thread.comm.bytes()).into_owned(),
                });
                read.threads = threads.collect();
            }
            Body::Stat(stat) => read.counts.push(stat),
            Body::StatRound(round) => {
                read.rounds
                    .push((round.kind, round.time, read.counts.len()));
            }
            _ => {}
        }
    }
    if read.rounds.is_empty() {
        return Err(ReportError::NoCounts);
    }
    shown.all(reader, &read);
    Ok(Reported {
        text: shown.text,
        is_of_tasks: shown.is_of_tasks,
        has_no_threads: shown.has_no_threads,
    })
}

/// What the records say.
#[derive(Default)]
struct Read {
    mode: Mode,
    raw: bool,
    interval: u64,
    threads: Vec<ThreadName>,
    counts: Vec<Stat>,
    /// Kind, time, and how many counts came before it.
    rounds: Vec<(u64, u64, usize)>,
}

impl Read {
    fn config(&mut self, entries: impl Iterator<Item = (u64, u64)>, version: Option<&str>) {
        for (tag, value) in entries {
            match tag {
                0 => self.mode = Mode::of_number(value, version),
                1 => self.interval = value,
                2 => self.raw = value == 0,
                _ => {}
            }
        }
    }

    /// The places that counts are of: CPUs and threads, each once.
    fn places(&self) -> Vec<(i32, i32)> {
        let mut places: Vec<_> = self
            .counts
            .iter()
            .map(|stat| (stat.cpu, stat.thread))
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn place(&self, (cpu, thread): (i32, i32)) -> CountedIn {
        let thread = usize::try_from(thread)
            .ok()
            .and_then(|it| self.threads.get(it));
        match (u32::try_from(cpu), thread) {
            (Ok(cpu), _) => CountedIn::Cpu(cpu),
            (Err(_), Some(thread)) => CountedIn::Thread(thread.clone()),
            (Err(_), None) => CountedIn::Command,
        }
    }
}

/// What is written.
struct Shown<'a> {
    options: &'a ReportOptions,
    text: String,
    is_of_tasks: bool,
    has_no_threads: bool,
}

impl<'a> Shown<'a> {
    fn new(options: &'a ReportOptions) -> Self {
        Self {
            options,
            text: String::new(),
            is_of_tasks: false,
            has_no_threads: false,
        }
    }

    fn all(&mut self, reader: &Reader, read: &Read) {
        let keys = read.places();
        let places: Vec<CountedIn> = keys.iter().map(|&key| read.place(key)).collect();
        let of_cpus = places
            .iter()
            .any(|place| matches!(place, CountedIn::Cpu(_)));
        let asked = self.options.mode.unwrap_or(read.mode);
        self.is_of_tasks = asked.is_of_cpus() && !of_cpus;
        let is_of_thread = |place: &CountedIn| matches!(place, CountedIn::Thread(_));
        self.has_no_threads = asked == Mode::Thread && !places.iter().any(is_of_thread);
        let mode = match self.is_of_tasks || self.has_no_threads {
            true => Mode::Global,
            false => asked,
        };
        let aggregation = Aggregation {
            mode,
            topology: Topology::of_recording(reader.features()),
            raw: read.raw,
        };
        let empty = events(reader);
        let table = Table {
            event_of: ids(reader),
            keys: &keys,
            has_counts: empty.iter().map(|event| event.event.supported).collect(),
        };
        let mut before: Vec<Vec<Option<Reading>>> = Vec::new();
        let mut begin = 0;
        for (number, &(kind, time, end)) in read.rounds.iter().enumerate() {
            let counts = table.of(read.counts.get(begin..end).unwrap_or_default());
            begin = end;
            let mut events = empty.clone();
            for (index, (event, counts)) in events.iter_mut().zip(&counts).enumerate() {
                let earlier = before.get(index).map_or(&[][..], Vec::as_slice);
                event.push(aggregation.group(&places, &since(counts, earlier)));
            }
            before = counts;
            let round = Round {
                number,
                kind,
                time,
                mode,
                read,
            };
            self.round(reader, &events, &round);
        }
    }

    fn round(&mut self, reader: &Reader, events: &[EventFigures], round: &Round<'_>) {
        const FINAL: u64 = 1;
        let time = Duration::from_nanos(round.time);
        let is_interval = round.read.interval > 0;
        let rows = rows(
            events,
            &Layout {
                elapsed: if round.kind == FINAL {
                    round.time as f64
                } else {
                    0.0
                },
                by_group: round.mode.is_by_group(),
                without_zeros: false,
                metrics: &Metrics::default(),
            },
        );
        let stamp = is_interval.then_some(time);
        match &self.options.form {
            Form::Json => self
                .text
                .push_str(&machine_readable::json_lines(&rows, stamp, 1)),
            Form::Separated(separator) => {
                let before = Vec::from_iter(stamp.map(machine_readable::interval_field));
                let lines = machine_readable::separated(&rows, separator, &before, 1);
                self.text.push_str(&lines);
            }
            form @ Form::Text { .. } => {
                if is_interval && round.number.is_multiple_of(25) {
                    self.text.push_str(&text::interval_heading(&rows));
                } else if !is_interval {
                    self.text.push_str(&text::heading(&title(reader), 1));
                }
                self.text
                    .push_str(&text::lines(&rows, stamp, form.numbers()));
                if !is_interval {
                    let mut times = Times::default();
                    times.push(time, Duration::ZERO, Duration::ZERO);
                    // Writing to a String does not fail.
                    let _ = write!(self.text, "\n{}", text::footer(&times, 1, false, None));
                }
            }
        }
    }
}

/// Where the counts of a round go.
struct Table<'a> {
    /// The event of each id.
    event_of: BTreeMap<u64, usize>,
    /// The places, ascending.
    keys: &'a [(i32, i32)],
    /// Of each event whether it was open.
    has_counts: Vec<bool>,
}

impl Table<'_> {
    /// The counts of each event and place.
    fn of(&self, stats: &[Stat]) -> Vec<Vec<Option<Reading>>> {
        let places = |&has_counts: &bool| match has_counts {
            true => vec![None; self.keys.len()],
            false => Vec::new(),
        };
        let mut counts: Vec<Vec<Option<Reading>>> = self.has_counts.iter().map(places).collect();
        for stat in stats {
            let place = self.keys.binary_search(&(stat.cpu, stat.thread)).ok();
            let Some((&event, place)) = self.event_of.get(&stat.id).zip(place) else {
                continue;
            };
            if let Some(slot) = counts
                .get_mut(event)
                .and_then(|places| places.get_mut(place))
            {
                *slot = Some(Reading {
                    value: stat.value,
                    enabled: stat.enabled,
                    running: stat.running,
                });
            }
        }
        counts
    }
}

fn ids(reader: &Reader) -> BTreeMap<u64, usize> {
    let events = reader.events().list().iter().enumerate();
    let ids = events.flat_map(|(index, event)| event.ids.iter().map(move |&id| (id, index)));
    ids.collect()
}

/// What is known of one round of counts.
struct Round<'a> {
    number: usize,
    kind: u64,
    /// ns.
    time: u64,
    mode: Mode,
    read: &'a Read,
}

/// The recorder's command line, as perf titles it.
fn title(reader: &Reader) -> String {
    let words = reader.features().cmdline().unwrap_or_default();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if words.is_empty() {
        return "'pipe'".to_owned();
    }
    format!("'{}'", escape::terminal(&words.join(" ")))
}

/// The events, without counts. One without ids was never open.
fn events(reader: &Reader) -> Vec<EventFigures> {
    let counted = reader.events().list().iter().map(|event| {
        let mut counted = CountedEvent::new(&event.name(), event.attr.kind, event.attr.config);
        counted.supported = !event.ids.is_empty();
        counted.unit = event.unit.clone().unwrap_or(counted.unit);
        counted.scale = event.scale.unwrap_or(counted.scale);
        EventFigures::new(counted)
    });
    counted.collect()
}
