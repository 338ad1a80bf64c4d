//! `prof stat record`: counts in a file that `perf stat report` reads.
//!
//! After the header come unit and scale of each event that has them, the
//! threads and CPUs, the configuration; then, for each interval, a `STAT` for
//! each event and place and a `STAT_ROUND`.

use crate::options::Options;
use crate::places::CountedIn;
use crate::places::Readings;
use crate::run::{Opened, Run};
use anyhow::Context;
use prof_abi::Misc;
use prof_perfdata::body::{
    Body, CpuMap, CpuMapRecord, EventUpdate, FixedText, Pairs, Stat, StatConfig, StatConfigEntry,
    StatRound, ThreadMapEntry,
};
use prof_perfdata::write::{EventDescription, FileWriter, Trailer, append_short, thread_map};
use prof_perfdata::{FeatureBit, write};
use prof_record::counting::Counter;
use prof_record::synthesize::{MachineFacts, machine_features};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file that is being written; nothing happens without one.
pub(crate) struct Store(Option<Writing>);

struct Writing {
    writer: FileWriter<BufWriter<File>>,
    paths: Paths,
    features: write::Features,
    /// The id of each event and place.
    ids: Vec<Vec<Option<u64>>>,
    /// CPU and thread of each place, as `STAT` names them.
    places: Vec<(i32, i32)>,
    with_intervals: bool,
}

/// Where it stands until it is whole, and its name then.
struct Paths {
    part: PathBuf,
    whole: PathBuf,
}

impl Store {
    /// Begins a file, if one is asked for.
    pub(crate) fn create(options: &Options, opened: &Opened) -> anyhow::Result<Self> {
        let Some((path, command_line)) = &options.store else {
            return Ok(Self(None));
        };
        let events = descriptions(opened)?;
        let features = machine_features(&MachineFacts {
            version: env!("CARGO_PKG_VERSION"),
            command_line,
            events: &events,
        });
        let mut name = path.clone().into_os_string();
        name.push(".part");
        let failed = || format!("cannot write {}", path.display());
        let paths = Paths {
            part: PathBuf::from(name),
            whole: path.clone(),
        };
        let file = open_private(&paths.part).with_context(failed)?;
        let mut writer = FileWriter::new(BufWriter::new(file), &events).with_context(failed)?;
        let mut records = Vec::new();
        beginning(options, opened, &events, &mut records);
        writer.write(&records).with_context(failed)?;
        Ok(Self(Some(Writing {
            writer,
            paths,
            features: with_stat(features),
            ids: events_ids(opened)?,
            places: stat_places(&opened.places),
            with_intervals: options.interval.is_some(),
        })))
    }

    /// What was counted up to the end of an interval.
    pub(crate) fn readings(
        &mut self,
        elapsed: Duration,
        readings: &Readings,
    ) -> anyhow::Result<()> {
        const INTERVAL: u64 = 0;
        match &mut self.0 {
            Some(writing) => writing.round(INTERVAL, elapsed, readings),
            None => Ok(()),
        }
    }

    /// What was counted in all; the file gets its name.
    pub(crate) fn finish(self, run: &Run) -> anyhow::Result<()> {
        const FINAL: u64 = 1;
        let Some(mut writing) = self.0 else {
            return Ok(());
        };
        // perf ends with an interval where there are intervals.
        let kind = if writing.with_intervals { 0 } else { FINAL };
        writing.round(kind, run.elapsed, &run.readings)?;
        let Paths { part, whole: path } = &writing.paths;
        let failed = || format!("cannot write {}", path.display());
        writing
            .writer
            .finish(&writing.features)
            .with_context(failed)?;
        if path.exists() {
            let mut old = path.clone().into_os_string();
            old.push(".old");
            std::fs::rename(path, old).with_context(failed)?;
        }
        std::fs::rename(part, path).with_context(failed)
    }
}

impl Drop for Paths {
    /// What nothing was written to does not stay.
    fn drop(&mut self) {
        if std::fs::metadata(&self.part).is_ok_and(|about| about.len() == 0) {
            // Whoever sees it left sees that it is empty.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

impl Writing {
    fn round(&mut self, kind: u64, elapsed: Duration, readings: &Readings) -> anyhow::Result<()> {
        let mut records = Vec::new();
        let places = self.places.iter().enumerate();
        for (place, &(cpu, thread)) in places {
            for (ids, counts) in self.ids.iter().zip(readings) {
                let id = ids.get(place).copied().flatten();
                let count = counts.get(place).copied().flatten();
                if let (Some(id), Some(count)) = (id, count) {
                    let stat = Stat {
                        id,
                        cpu,
                        thread,
                        value: count.value,
                        enabled: count.enabled,
                        running: count.running,
                    };
                    record(&Body::Stat(stat), &mut records);
                }
            }
        }
        let time = elapsed.as_nanos() as u64;
        record(&Body::StatRound(StatRound { kind, time }), &mut records);
        let written = self
            .writer
            .write(&records)
            .and_then(|()| self.writer.flush());
        written.with_context(|| format!("cannot write {}", self.paths.whole.display()))
    }
}

fn record(body: &Body<'_>, out: &mut Vec<u8>) {
    append_short(body, Misc(0), &Trailer::NONE, out);
}

/// A new file that only its owner may read; a link is not followed.
fn open_private(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // One that a killed run left.
    let _ = std::fs::remove_file(path);
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn with_stat(mut features: write::Features) -> write::Features {
    features.set(FeatureBit::STAT, Vec::new());
    features
}

fn events_ids(opened: &Opened) -> anyhow::Result<Vec<Vec<Option<u64>>>> {
    let ids = opened.counters.iter().map(Counter::ids);
    ids.collect::<Result<_, _>>()
        .context("cannot read the ids of the events")
}

fn descriptions(opened: &Opened) -> anyhow::Result<Vec<EventDescription>> {
    let ids = events_ids(opened)?;
    let described = |(counter, ids): (&Counter, Vec<Option<u64>>)| EventDescription {
        attr: counter.attr().clone(),
        ids: ids.into_iter().flatten().collect(),
        name: counter.name().to_owned(),
    };
    Ok(opened.counters.iter().zip(ids).map(described).collect())
}

/// CPU and place among the threads; -1 for any CPU.
fn stat_places(places: &[CountedIn]) -> Vec<(i32, i32)> {
    let place = |(index, place): (usize, &CountedIn)| match place {
        CountedIn::Cpu(cpu) => (cpu.cast_signed(), 0),
        CountedIn::Thread(_) => (-1, index as i32),
        CountedIn::Command => (-1, 0),
    };
    places.iter().enumerate().map(place).collect()
}

/// What stands before the counts.
fn beginning(options: &Options, opened: &Opened, events: &[EventDescription], out: &mut Vec<u8>) {
    for (counter, event) in opened.counters.iter().zip(events) {
        if let Some(&id) = event.ids.first() {
            unit_and_scale(counter, id, out);
        }
    }
    let threads: Vec<ThreadMapEntry> = match opened.places.first() {
        Some(CountedIn::Thread(_)) => opened.places.iter().filter_map(thread).collect(),
        _ => vec![ThreadMapEntry {
            pid: -1,
            comm: FixedText::new(b""),
        }],
    };
    thread_map(&threads, out);
    let cpus = opened.places.iter().filter_map(|place| match place {
        CountedIn::Cpu(cpu) => u16::try_from(*cpu).ok(),
        _ => None,
    });
    let cpus: Vec<u16> = cpus.collect();
    let map = CpuMapRecord {
        cpus: CpuMap::of(&cpus),
    };
    record(&Body::CpuMap(map), out);
    let interval = options.interval.map_or(0, |it| it.as_millis() as u64);
    let entry = |tag, value| StatConfigEntry { tag, value };
    let entries = [
        entry(0, options.showing.mode.number()),
        entry(2, u64::from(!options.showing.raw)),
        entry(1, interval),
    ];
    let config = StatConfig {
        entries: Pairs::new(&entries),
    };
    record(&Body::StatConfig(config), out);
}

fn thread(place: &CountedIn) -> Option<ThreadMapEntry> {
    match place {
        CountedIn::Thread(thread) => Some(ThreadMapEntry {
            pid: thread.tid,
            comm: FixedText::new(thread.comm.as_bytes()),
        }),
        _ => None,
    }
}

fn unit_and_scale(counter: &Counter, id: u64, out: &mut Vec<u8>) {
    const UNIT: u64 = 0;
    const SCALE: u64 = 1;
    let attr = counter.attr();
    let shown = crate::shown::figures::CountedEvent::new(counter.name(), attr.kind, attr.config);
    let (scale, unit) = crate::units::unit_of(counter).unwrap_or((shown.scale, shown.unit));
    let mut update = |what, content: &[u8]| {
        record(&Body::EventUpdate(EventUpdate { what, id, content }), out);
    };
    if !unit.is_empty() {
        let mut unit = unit.into_bytes();
        unit.resize((unit.len() + 1).next_multiple_of(8), 0);
        update(UNIT, &unit);
    }
    if scale != 1.0 {
        update(SCALE, &scale.to_bits().to_ne_bytes());
    }
}
