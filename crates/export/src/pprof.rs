//! pprof's format: a gzipped protocol buffer of stacks with sums.
//!
//! Source: `proto/profile.proto` of google/pprof. Numbers of fields stand
//! beside their use.

use crate::ExportError;
use crate::choice::{Cell, Chosen};
use crate::gzip::Gzip;
use crate::protobuf::{Message, signed};
use crate::used::Used;
use prof_profile::{DsoId, DsoKind, Event, NameId, StackId, TaskId};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Bytes that are handed to the compressor at once.
const PORTION: usize = 1 << 16;

/// Writes the chosen samples.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let out = Gzip::new(out, 3)?;
    let mut writer = Writer {
        chosen,
        out,
        texts: Texts::default(),
        used: Used::new(chosen.profile),
        message: Message::default(),
    };
    writer.head();
    writer.samples()?;
    writer.places()?;
    writer.texts()?;
    writer.out.finish()?;
    Ok(Vec::new())
}

/// The table of strings; the first one is empty.
#[derive(Default)]
struct Texts {
    /// By `NameId`: index in `list`.
    named: FxHashMap<NameId, u64>,
    own: FxHashMap<String, u64>,
    list: Vec<Text>,
}

enum Text {
    Named(NameId),
    Own(String),
}

impl Texts {
    fn name(&mut self, name: NameId) -> u64 {
        *self.named.entry(name).or_insert_with(|| {
            self.list.push(Text::Named(name));
            self.list.len() as u64
        })
    }

    fn own(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&known) = self.own.get(text) {
            return known;
        }
        self.list.push(Text::Own(text.to_owned()));
        self.own.insert(text.to_owned(), self.list.len() as u64);
        self.list.len() as u64
    }
}

struct Writer<'a, 'p, W: Write> {
    chosen: &'a Chosen<'p>,
    out: Gzip<W>,
    texts: Texts,
    used: Used,
    message: Message,
}

/// The names of an event's two numbers: how many samples, and their weight.
/// Of a single event the first is called as Go's profiles call it.
pub(crate) fn types_of(event: &Event, is_single: bool) -> [(String, &'static str); 2] {
    let samples = if is_single {
        "samples".to_owned()
    } else {
        format!("samples:{}", event.name)
    };
    [(samples, "count"), (event.name.clone(), unit_of(event))]
}

/// The unit of an event's weight.
pub(crate) fn unit_of(event: &Event) -> &'static str {
    if event.weight_is_ns {
        "nanoseconds"
    } else {
        "count"
    }
}

impl<W: Write> Writer<'_, '_, W> {
    fn head(&mut self) {
        let profile = self.chosen.profile;
        let is_single = self.chosen.events.len() == 1;
        for &id in &self.chosen.events {
            let Some(event) = profile.events.get(usize::from(id.0)) else {
                continue;
            };
            for (name, unit) in types_of(event, is_single) {
                let (name, unit) = (self.texts.own(&name), self.texts.own(unit));
                // 1: sample_type
                self.message.message(1, |it| value_type(it, name, unit));
            }
        }
        let first = self.chosen.events.first();
        if let Some(event) = first.and_then(|id| profile.events.get(usize::from(id.0))) {
            let (name, unit) = (self.texts.own(&event.name), self.texts.own(unit_of(event)));
            // 11: period_type, 14: default_sample_type
            self.message.message(11, |it| value_type(it, name, unit));
            self.message.number(14, name);
            if !event.is_freq {
                // 12: period
                self.message.number(12, signed(event.asked));
            }
        }
        if let Some((first, last)) = self.chosen.span() {
            // 9: time_nanos, 10: duration_nanos
            let wall = self.chosen.wall_clock(first).unwrap_or(0);
            self.message.number(9, signed(wall));
            self.message.number(10, signed(last.saturating_sub(first)));
        }
        self.comments();
    }

    /// Where the recording comes from.
    fn comments(&mut self) {
        let origin = &self.chosen.profile.origin;
        let command = origin.command_line.join(" ");
        let told = [
            ("recorded by", &command),
            ("host", &origin.hostname),
            ("kernel", &origin.os_release),
            ("CPU", &origin.cpu_description),
        ];
        for (what, text) in told.into_iter().filter(|(_, text)| !text.is_empty()) {
            let comment = self.texts.own(&format!("{what}: {text}"));
            // 13: comment, packed as all numbers.
            self.message.packed(13, std::iter::once(comment));
        }
    }

    fn samples(&mut self) -> io::Result<()> {
        let chosen = self.chosen;
        chosen.by_stack(|stack, cells| {
            for cells in cells.chunk_by(|one, other| one.task == other.task) {
                self.sample(stack, cells);
            }
            self.flush(PORTION)
        })
    }

    /// The samples of one stack and thread: 2.
    fn sample(&mut self, stack: StackId, cells: &[Cell]) {
        let profile = self.chosen.profile;
        let mut sample = Message::default();
        let locations = profile.stacks.locations(stack);
        // 1: location_id, leaf first
        sample.packed(
            1,
            locations.map(|id| {
                self.used.location(id);
                u64::from(id.0) + 1
            }),
        );
        let mut values = vec![0; 2 * self.chosen.events.len()];
        for cell in cells {
            if let Some([samples, period]) = values.get_mut(2 * cell.slot..2 * cell.slot + 2) {
                (*samples, *period) = (cell.samples, signed(cell.period));
            }
        }
        // 2: value
        sample.packed(2, values.into_iter());
        if let Some(cell) = cells.first() {
            self.labels(&mut sample, cell.task);
        }
        self.message.bytes(2, &sample.bytes);
    }

    /// Who ran: 3, with key 1, string 2 and number 3.
    fn labels(&mut self, sample: &mut Message, task: TaskId) {
        let task = self.chosen.profile.task(task);
        let (key, comm) = (self.texts.own("comm"), self.texts.name(task.comm));
        sample.message(3, |label| {
            label.number(1, key);
            label.number(2, comm);
        });
        for (name, number) in [("pid", task.pid), ("tid", task.tid)] {
            let key = self.texts.own(name);
            sample.message(3, |label| {
                label.number(1, key);
                label.number(3, i64::from(number) as u64);
            });
        }
    }

    /// Mappings, locations and functions that samples name.
    fn places(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.used);
        let profile = self.chosen.profile;
        // The first one is taken for the program.
        let mut dsos = used.dsos(profile);
        dsos.sort_by_key(|(id, _)| !self.is_program(*id));
        for (id, end) in dsos {
            let dso = profile.dso(id);
            let path = self.texts.name(dso.path);
            let build_id = dso.build_id.as_ref().map(ToString::to_string);
            let build_id = self.texts.own(build_id.as_deref().unwrap_or_default());
            // 3: mapping
            self.message.message(3, |mapping| {
                mapping.number(1, u64::from(id.0) + 1);
                mapping.number(3, end);
                mapping.number(5, path);
                mapping.number(6, build_id);
                // What names there are is here: nobody has to look for more.
                (7..=10).for_each(|has| mapping.number(has, 1));
            });
        }
        for id in used.locations() {
            let location = profile.location(id);
            // 4: location
            self.message.message(4, |it| {
                it.number(1, u64::from(id.0) + 1);
                it.number(2, u64::from(location.dso.0) + 1);
                // Where a call returns to is the next instruction.
                it.number(3, location.address.minus(location.is_return.into()).0);
                for frame in profile.frames_at(id) {
                    it.message(4, |line| {
                        line.number(1, u64::from(frame.function.0) + 1);
                        line.number(2, frame.line.into());
                    });
                }
            });
            self.flush(PORTION)?;
        }
        for (id, file) in used.functions(profile) {
            let function = profile.function(id);
            let name = self.texts.name(function.name);
            let file = file.map_or(0, |file| self.texts.name(file));
            // 5: function
            self.message.message(5, |it| {
                it.number(1, u64::from(id.0) + 1);
                it.number(2, name);
                it.number(3, name);
                it.number(4, file);
                it.number(5, function.defined_at.map_or(0, |(_, line)| line.into()));
            });
            self.flush(PORTION)?;
        }
        Ok(())
    }

    /// Whether a file is called as the thread that was sampled first; a
    /// thread's name is cut after 15 bytes.
    fn is_program(&self, id: DsoId) -> bool {
        let profile = self.chosen.profile;
        let dso = profile.dso(id);
        let first = self.chosen.rows().next();
        let comm = first.map_or("", |(_, _, it)| profile.name(profile.task(it.task).comm));
        dso.kind == DsoKind::File && profile.name(dso.short_name).starts_with(comm)
    }

    /// 6: string_table
    fn texts(&mut self) -> io::Result<()> {
        self.message.bytes(6, b"");
        for text in std::mem::take(&mut self.texts.list) {
            let text = match &text {
                Text::Named(name) => self.chosen.profile.name(*name),
                Text::Own(text) => text,
            };
            self.message.bytes(6, text.as_bytes());
            self.flush(PORTION)?;
        }
        self.flush(0)
    }

    fn flush(&mut self, least: usize) -> io::Result<()> {
        if self.message.bytes.len() >= least {
            self.out.write_all(&self.message.bytes)?;
            self.message.bytes.clear();
        }
        Ok(())
    }
}

fn value_type(message: &mut Message, name: u64, unit: u64) {
    message.number(1, name);
    message.number(2, unit);
}
