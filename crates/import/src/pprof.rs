//! pprof's format, see `proto/profile.proto` of google/pprof.

use crate::builder::{Builder, Call, DsoAddress, Sum};
use crate::protobuf::{Fields, Value};
use crate::{ImportError, MOST_ENTRIES, MOST_ROWS};
use prof_profile::{EventId, LocationId, NameId, Profile, TaskId};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Whether bytes begin as a profile: with types of values or samples, which
/// are messages that begin with a field that they have. Go writes times and
/// periods before.
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    let mut fields = Fields::new(bytes);
    for _ in 0..5 {
        match fields.bytes() {
            [0x0a, length, 0x08 | 0x10, ..] => return *length < 16,
            [0x12, _, 0x08 | 0x0a, ..] => return true,
            [0x48 | 0x50 | 0x60 | 0x70, ..] | [0x5a, 0..16, ..] => {}
            _ => return false,
        }
        if fields.next().is_err() {
            return false;
        }
    }
    false
}

const FORMAT: &str = "pprof profile";

/// Types of values that are read at most.
const MOST_TYPES: usize = 256;

/// The tables of a profile, by the numbers that others name their rows by.
#[derive(Default)]
struct Tables<'b> {
    texts: Vec<Cow<'b, str>>,
    /// Name and unit.
    types: Vec<(u64, u64)>,
    mappings: FxHashMap<u64, u64>,
    /// The path of the first one.
    first_mapping: Option<u64>,
    locations: FxHashMap<u64, Fields<'b>>,
    /// Name and file.
    functions: FxHashMap<u64, (u64, u64)>,
    time: u64,
    default_type: u64,
}

impl<'b> Tables<'b> {
    fn read(bytes: &'b [u8]) -> Result<Self, ImportError> {
        let mut tables = Self::default();
        let mut samples = 0;
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (1, Value::Bytes(it)) => {
                    let [name, unit] = numbers(it, [1, 2])?;
                    tables.types.push((name, unit));
                }
                // Read when all that they name is known.
                (2, Value::Bytes(_)) => samples += 1,
                (3, Value::Bytes(it)) => {
                    let [id, path] = numbers(it, [1, 5])?;
                    tables.mappings.insert(id, path);
                    tables.first_mapping.get_or_insert(path);
                }
                (4, Value::Bytes(it)) => {
                    let [id] = numbers(it, [1])?;
                    tables.locations.insert(id, it);
                }
                (5, Value::Bytes(it)) => {
                    let [id, name, file] = numbers(it, [1, 2, 4])?;
                    tables.functions.insert(id, (name, file));
                }
                (6, Value::Bytes(it)) => tables.texts.push(String::from_utf8_lossy(it.bytes())),
                (9, it) => tables.time = it.number(),
                (14, it) => tables.default_type = it.number(),
                _ => {}
            }
            let is_too_long = tables.longest() > MOST_ENTRIES || tables.types.len() > MOST_TYPES;
            if is_too_long || samples > MOST_ROWS {
                return Err(ImportError::TooMany { format: FORMAT });
            }
        }
        Ok(tables)
    }

    fn longest(&self) -> usize {
        let (places, functions) = (self.locations.len(), self.functions.len());
        let longest = self.texts.len().max(self.mappings.len());
        longest.max(places).max(functions)
    }

    fn text(&self, index: u64) -> &str {
        let text = usize::try_from(index)
            .ok()
            .and_then(|index| self.texts.get(index));
        text.map_or("", |text| text)
    }
}

/// The numbers of some fields of a message.
fn numbers<const N: usize>(fields: Fields<'_>, wanted: [u64; N]) -> Result<[u64; N], ImportError> {
    let mut found = [0; N];
    let mut fields = fields;
    while let Some((number, value)) = fields.next()? {
        for (slot, _) in found.iter_mut().zip(wanted).filter(|(_, it)| *it == number) {
            *slot = value.number();
        }
    }
    Ok(found)
}

/// Reads a profile. Types of values are events; one that is called samples,
/// as in Go's profiles of time, tells how many samples the next one is of.
pub(crate) fn read(bytes: &[u8], name: &str) -> Result<Profile, ImportError> {
    let tables = Tables::read(bytes)?;
    let mut builder = Builder::default();
    let comm = builder.name(&program(&tables, name));
    let mut reader = Reader {
        comm,
        tables: &tables,
        builder,
        events: Vec::new(),
        locations: FxHashMap::default(),
        names: FxHashMap::default(),
    };
    reader.events();
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next()? {
        if let (2, Value::Bytes(sample)) = (number, value) {
            reader.sample(sample)?;
        }
    }
    reader.builder.finish(FORMAT)
}

/// What the threads are called where nothing tells it: the program.
fn program(tables: &Tables<'_>, name: &str) -> String {
    let path = tables.first_mapping.map_or("", |path| tables.text(path));
    let last = path.rsplit('/').next().unwrap_or_default();
    if last.is_empty() {
        name.to_owned()
    } else {
        last.to_owned()
    }
}

struct Reader<'a, 'b> {
    tables: &'a Tables<'b>,
    comm: Option<NameId>,
    builder: Builder,
    /// Events: index of the value, and of the one that counts its samples.
    events: Vec<(EventId, usize, Option<usize>)>,
    locations: FxHashMap<u64, LocationId>,
    /// By index of a text.
    names: FxHashMap<u64, Option<NameId>>,
}

impl Reader<'_, '_> {
    /// The handle of a text.
    fn name(&mut self, index: u64) -> Option<NameId> {
        let known = self.names.entry(index);
        *known.or_insert_with(|| self.builder.name(self.tables.text(index)))
    }

    fn events(&mut self) {
        let types = &self.tables.types;
        let is_count = |index: usize| {
            types.get(index).is_some_and(|(name, unit)| {
                let name = self.tables.text(*name);
                (name == "samples" || name.starts_with("samples:"))
                    && self.tables.text(*unit) == "count"
            })
        };
        let mut order: Vec<usize> = (0..types.len()).collect();
        // What the profile wants to be shown comes first; as for pprof the last one,
        // if it does not say, as Go's heap profiles.
        let wanted = self.tables.default_type;
        let wanted = types.iter().position(|it| wanted != 0 && it.0 == wanted);
        let wanted = wanted.unwrap_or_else(|| types.len().saturating_sub(1));
        order.sort_by_key(|&index| index != wanted);
        for index in order {
            if is_count(index) && index + 1 < types.len() {
                continue;
            }
            let Some(&(name, unit)) = types.get(index) else {
                continue;
            };
            let is_time = self.tables.text(unit) == "nanoseconds";
            let event = self.builder.event(self.tables.text(name), is_time);
            let count = index.checked_sub(1).filter(|&before| is_count(before));
            self.events.push((event, index, count));
        }
    }

    fn sample(&mut self, mut fields: Fields<'_>) -> Result<(), ImportError> {
        let (mut locations, mut values) = (Vec::new(), Vec::new());
        let mut task = None;
        let labels = fields;
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => value.numbers(&mut locations)?,
                2 => value.numbers(&mut values)?,
                3 if task.is_none() => task = Some(self.task(labels)?),
                _ => {}
            }
        }
        let task = task.unwrap_or_else(|| self.builder.task(0, 0, self.comm));
        let mut stack = Vec::with_capacity(locations.len());
        for &id in locations.iter().rev() {
            stack.push(self.location(id)?);
        }
        let stack = self.builder.stack(stack.into_iter());
        let are_several = self.events.len() > 1;
        let told = |index: usize| index < values.len() || !are_several;
        for &(event, index, count) in self.events.iter().filter(|event| told(event.1)) {
            // Differences of profiles have values below zero.
            let at = |index: usize| values.get(index).map_or(0, |&it| (it as i64).max(0) as u64);
            let (period, count) = (at(index), count.map_or(1, at));
            if period == 0 && (count == 0 || are_several) {
                continue;
            }
            let sum = Sum { period, count };
            self.builder.untimed(event, task, stack, sum);
        }
        Ok(())
    }

    /// Who ran, by the labels of a sample.
    fn task(&mut self, mut sample: Fields<'_>) -> Result<TaskId, ImportError> {
        let (mut pid, mut tid) = (0, 0);
        let mut comm = self.comm;
        while let Some((number, value)) = sample.next()? {
            let (3, Value::Bytes(label)) = (number, value) else {
                continue;
            };
            let [key, text, number] = numbers(label, [1, 2, 3])?;
            let number = i32::try_from(number as i64).unwrap_or(-1);
            match self.tables.text(key) {
                "pid" | "process_id" => pid = number,
                "tid" | "thread_id" => tid = number,
                "comm" | "thread" | "thread_name" if text != 0 => {
                    comm = self.name(text);
                }
                _ => {}
            }
        }
        Ok(self.builder.task(pid, tid, comm))
    }

    fn location(&mut self, id: u64) -> Result<LocationId, ImportError> {
        if let Some(&known) = self.locations.get(&id) {
            return Ok(known);
        }
        let (mut mapping, mut address) = (0, 0);
        let mut lines: Vec<(u64, u64)> = Vec::new();
        if let Some(mut fields) = self.tables.locations.get(&id).copied() {
            while let Some((number, value)) = fields.next()? {
                match (number, value) {
                    (2, it) => mapping = it.number(),
                    (3, it) => address = it.number(),
                    (4, Value::Bytes(it)) => {
                        let [function, line] = numbers(it, [1, 2])?;
                        lines.push((function, line));
                    }
                    _ => {}
                }
            }
        }
        let mut calls = Vec::with_capacity(lines.len());
        for (function, line) in lines {
            let known = self.tables.functions.get(&function).copied();
            let (name, file) = known.unwrap_or_default();
            calls.push(Call {
                name: self.name(name),
                file: self.name(file),
                line: u32::try_from(line).unwrap_or(0),
            });
        }
        let path = self.tables.mappings.get(&mapping).copied();
        let path = path.and_then(|path| self.name(path));
        let dso = self.builder.dso(path);
        let location = self.builder.location(DsoAddress { dso, address }, &calls);
        self.locations.insert(id, location);
        Ok(location)
    }
}

#[cfg(test)]
mod tests {
    use super::{is_one, read};
    use crate::ImportError;

    /// A field with a length.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let length = bytes.len();
        out.extend([length as u8 | 0x80, (length >> 7) as u8 | 0x80]);
        out.push((length >> 14) as u8);
        out.extend(bytes);
        out
    }

    /// A sample at one location, named `deep` times, that has `inlined` lines.
    fn profile(deep: usize, inlined: usize) -> Vec<u8> {
        let stack = [field(1, &vec![1; deep]), field(2, &[7])].concat();
        let line = field(4, b"\x08\x01");
        let location = [b"\x08\x01".to_vec(), line.repeat(inlined)].concat();
        [
            b"\x0a\x04\x08\x01\x10\x02".to_vec(),
            field(2, &stack),
            field(4, &location),
            field(5, b"\x08\x01\x10\x03"),
            field(6, b""),
            field(6, b"cpu"),
            field(6, b"nanoseconds"),
            field(6, b"work"),
        ]
        .concat()
    }

    #[test]
    fn a_stack_of_millions_of_inlined_frames_is_refused() {
        let read = |deep, inlined| read(&profile(deep, inlined), "app");
        let known = read(100, 100).expect("a profile");
        assert_eq!((known.events[0].period, known.samples.len()), (7, 1));
        let refused = read(3000, 1000);
        assert!(matches!(refused, Err(ImportError::TooMany { .. })));
    }

    #[test]
    fn profiles_begin_with_types_or_with_what_go_writes_before() {
        assert!(is_one(b"\x0a\x04\x08\x01\x10\x02"));
        let time = b"\x48\xab\x9e\xbf\xd3\x91\xad\xa1\xf5\x18\x0a\x04\x08\x01\x10\x02";
        assert!(is_one(time), "a CPU profile of Go");
        let period = b"\x5a\x04\x08\x01\x10\x02\x60\x01\x0a\x04\x08\x03\x10\x04";
        assert!(is_one(period), "a heap profile of Go");
        assert!(!is_one(b"Hello, world") && !is_one(b"\n\nmain;work 1\n"));
    }
}
