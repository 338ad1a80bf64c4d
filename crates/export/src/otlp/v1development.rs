//! `ProfilesData` of `opentelemetry.proto.profiles.v1development`, the same
//! bytes that a collector takes at `/v1development/profiles`.
//!
//! Source: `profiles.proto` of opentelemetry-proto 1.10, in which stacks are a
//! table and each profile has one type of value.

use crate::ExportError;
use crate::choice::{Chosen, Sorted};
use crate::pprof::types_of;
use crate::protobuf::{Message, signed, varint_size};
use crate::used::Used;
use prof_profile::{DsoId, DsoKind, FunctionId, LocationId, StackId, TaskId};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Writes the chosen samples: a profile of weights for each event, with the
/// time of each sample where that is known.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let stacks = chosen.profile.stacks.len();
    let sorted = chosen.sorted_by(stacks, |_, sample| sample.stack.0 as usize);
    let mut writer = Writer {
        chosen,
        sorted,
        tables: Tables::default(),
        tasks: vec![None; chosen.profile.tasks.len()],
        stacks: Stacks::new(stacks),
    };
    let profiles = writer.profiles();
    // ProfilesData: 1 resource_profiles; ResourceProfiles: 1 resource,
    // 2 scope_profiles; ScopeProfiles: 1 scope, 2 profiles
    let mut resource = Message::default();
    resource.message(1, |it| writer.resource(it));
    let mut scope = Message::default();
    scope.message(1, |it| {
        it.bytes(1, b"prof");
        it.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
    });
    let heads = profiles.iter().map(|it| length(2, it.bytes.len()));
    let heads: Vec<Message> = heads.collect();
    let of = |messages: &[Message]| messages.iter().map(|it| it.bytes.len()).sum::<usize>();
    let scope_head = length(2, scope.bytes.len() + of(&heads) + of(&profiles));
    let inside = resource.bytes.len() + scope_head.bytes.len() + scope.bytes.len();
    let resource_head = length(1, inside + of(&heads) + of(&profiles));
    for part in [resource_head, resource, scope_head, scope] {
        out.write_all(&part.bytes)?;
    }
    for (head, profile) in heads.iter().zip(profiles) {
        out.write_all(&head.bytes)?;
        out.write_all(&profile.bytes)?;
    }
    writer.dictionary(out)?;
    Ok(Vec::new())
}

/// The beginning of a message of `bytes` in another one.
fn length(field: u32, bytes: usize) -> Message {
    let mut head = Message::default();
    head.length(field, bytes as u64);
    head
}

/// The tables that samples point into; entry 0 of each stands for none.
#[derive(Default)]
struct Tables {
    texts: FxHashMap<String, u64>,
    text_list: Vec<String>,
    /// Attributes in the order of their indices.
    attributes: FxHashMap<(u64, Value), u64>,
    attribute_list: Vec<(u64, Value)>,
}

/// The stacks that samples have, in the order of their indices, which begin at
/// 1: the empty one is 0.
#[derive(Default)]
struct Stacks {
    /// By `StackId`; 0 for none yet.
    index: Vec<u32>,
    list: Vec<StackId>,
}

impl Stacks {
    fn new(count: usize) -> Self {
        Self {
            index: vec![0; count],
            list: Vec::new(),
        }
    }

    fn index(&mut self, stack: StackId) -> u64 {
        let slot = self.index.get_mut(stack.0 as usize);
        let Some(slot) = slot.filter(|_| stack != StackId::EMPTY) else {
            return 0;
        };
        if *slot == 0 {
            self.list.push(stack);
            *slot = self.list.len() as u32;
        }
        (*slot).into()
    }
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    Text(String),
    Number(i64),
}

impl Tables {
    fn text(&mut self, text: &str) -> u64 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        self.text_list.push(text.to_owned());
        let index = self.text_list.len() as u64;
        self.texts.insert(text.to_owned(), index);
        index
    }

    fn attribute(&mut self, key: &str, value: Value) -> u64 {
        let entry = (self.text(key), value);
        if let Some(&known) = self.attributes.get(&entry) {
            return known;
        }
        self.attribute_list.push(entry.clone());
        let index = self.attribute_list.len() as u64;
        self.attributes.insert(entry, index);
        index
    }
}

struct Writer<'a, 'p> {
    chosen: &'a Chosen<'p>,
    sorted: Sorted,
    tables: Tables,
    /// By `TaskId`: its attributes, once they are made.
    tasks: Vec<Option<[u64; 3]>>,
    stacks: Stacks,
}

impl Writer<'_, '_> {
    /// Where the recording comes from.
    fn resource(&mut self, resource: &mut Message) {
        let origin = &self.chosen.profile.origin;
        let told = [
            ("host.name", &origin.hostname),
            ("os.version", &origin.os_release),
            ("host.arch", &origin.arch),
        ];
        let told = told.map(|(key, text)| (key, text.as_str()));
        let labels = self.chosen.choice.labels.iter();
        let labels = labels.map(|(key, text)| (key.as_str(), text.as_str()));
        for (key, text) in told.into_iter().chain(labels).filter(|it| !it.1.is_empty()) {
            // Resource: 1 attributes, of KeyValue: 1 key, 2 value
            resource.message(1, |it| {
                it.bytes(1, key.as_bytes());
                it.message(2, |it| value(it, &Value::Text(text.to_owned())));
            });
        }
    }

    /// A profile for each event.
    fn profiles(&mut self) -> Vec<Message> {
        let chosen = self.chosen;
        let span = chosen.span().unwrap_or_default();
        let mut profiles = Vec::new();
        let ids = chosen.events.iter().enumerate();
        let events = ids
            .filter_map(|(slot, id)| Some((slot, chosen.profile.events.get(usize::from(id.0))?)));
        for (slot, event) in events {
            let mut profile = Message::default();
            let [_, (name, unit)] = types_of(event, true);
            let (name, unit) = (self.tables.text(&name), self.tables.text(unit));
            let value_type = |it: &mut Message| {
                it.number(1, name);
                it.number(2, unit);
            };
            // Profile: 1 sample_type, 3 time_unix_nano, 4 duration_nano,
            // 5 period_type, 6 period
            profile.message(1, value_type);
            self.samples(slot, &mut profile);
            profile.fixed(3, chosen.wall_clock(span.0).unwrap_or(0));
            profile.number(4, span.1.saturating_sub(span.0));
            profile.message(5, value_type);
            if !event.is_freq {
                profile.number(6, signed(event.asked));
            }
            profiles.push(profile);
        }
        profiles
    }

    /// The samples of one event: 2.
    fn samples(&mut self, slot: usize, profile: &mut Message) {
        let chosen = self.chosen;
        let sorted = std::mem::take(&mut self.sorted);
        let mut of_task: Vec<(TaskId, u64, u64)> = Vec::new();
        for (stack, rows) in sorted.groups() {
            let rows = rows.iter().filter_map(|&row| {
                let sample = chosen.profile.samples.get(row as usize)?;
                (chosen.slot(&sample)? == slot).then_some(sample)
            });
            of_task.clear();
            of_task.extend(rows.map(|it| (it.task, it.time, it.period)));
            of_task.sort_by_key(|(task, _, _)| *task);
            for samples in of_task.chunk_by(|one, other| one.0 == other.0) {
                self.sample(StackId(stack as u32), samples, profile);
            }
        }
        self.sorted = sorted;
    }

    /// Samples of one stack, thread and event: task, time and period of each.
    fn sample(&mut self, stack: StackId, rows: &[(TaskId, u64, u64)], profile: &mut Message) {
        let Some(&(task, _, _)) = rows.first() else {
            return;
        };
        let stack = self.stacks.index(stack);
        let attributes = self.task(task);
        // Sample: 1 stack_index, 2 attribute_indices, 4 values,
        // 5 timestamps_unix_nano: a value for each time
        profile.message(2, |it| {
            it.number(1, stack);
            it.packed(2, attributes.into_iter());
            it.packed(4, rows.iter().map(|(_, _, period)| signed(*period)));
            // Of all or of none.
            let times = rows.iter();
            let times = times.filter_map(|(_, time, _)| self.chosen.wall_clock(*time));
            it.packed_fixed(5, times);
        });
    }

    /// Who ran, as attributes.
    fn task(&mut self, id: TaskId) -> [u64; 3] {
        let known = self.tasks.get(id.0 as usize).copied().flatten();
        known.unwrap_or_else(|| {
            let made = self.task_attributes(id);
            if let Some(slot) = self.tasks.get_mut(id.0 as usize) {
                *slot = Some(made);
            }
            made
        })
    }

    fn task_attributes(&mut self, task: TaskId) -> [u64; 3] {
        let profile = self.chosen.profile;
        let task = profile.task(task);
        let comm = Value::Text(profile.name(task.comm).to_owned());
        [
            self.tables.attribute("thread.name", comm),
            self.tables
                .attribute("process.pid", Value::Number(task.pid.into())),
            self.tables
                .attribute("thread.id", Value::Number(task.tid.into())),
        ]
    }

    /// Field 2 of `ProfilesData`.
    fn dictionary(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let stacks = std::mem::take(&mut self.stacks);
        let used = self.used(&stacks.list);
        let places = self.places(&used);
        let mut tail = Message::default();
        self.texts(&mut tail);
        let bytes = self.size_of(&stacks.list, &places);
        let all = places.tables.bytes.len() as u64 + bytes + tail.bytes.len() as u64;
        out.write_all(&length(2, all as usize).bytes)?;
        out.write_all(&places.tables.bytes)?;
        self.stack_table(&stacks.list, &places, out)?;
        out.write_all(&tail.bytes)
    }

    /// The locations of stacks.
    fn used(&self, stacks: &[StackId]) -> Used {
        let tree = &self.chosen.profile.stacks;
        let mut used = Used::new(self.chosen.profile);
        let mut seen = vec![false; tree.len()];
        for &stack in stacks {
            let mut at = stack;
            while let Some((caller, location)) = tree.get(at) {
                match seen.get_mut(at.0 as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => break,
                }
                used.location(location);
                at = caller;
            }
        }
        used
    }

    /// Mappings, locations and functions, which are few, with their texts.
    fn places(&mut self, used: &Used) -> Places {
        let mut tables = Message::default();
        let mappings = self.mappings(used, &mut tables);
        let functions = self.functions(used, &mut tables);
        let profile = self.chosen.profile;
        // 2 location_table, of Location: 1 mapping_index, 2 address, 3 lines,
        // of Line: 1 function_index, 2 line; 4 attribute_indices
        tables.bytes(2, b"");
        let mut locations = vec![0; profile.locations.len()];
        for (id, index) in used.locations().zip(1..) {
            if let Some(slot) = locations.get_mut(id.0 as usize) {
                *slot = index;
            }
            let location = profile.location(id);
            let kind = match profile.dso(location.dso).kind {
                DsoKind::Kernel | DsoKind::KernelModule | DsoKind::KernelSymbol => "kernel",
                _ => "native",
            };
            let kind = Value::Text(kind.into());
            let kind = self.tables.attribute("profile.frame.type", kind);
            tables.message(2, |it| {
                it.number(1, mappings.get(&location.dso).copied().unwrap_or(0));
                it.number(2, location.address.minus(location.is_return.into()).0);
                for frame in profile.frames_at(id) {
                    it.message(3, |line| {
                        line.number(1, functions.get(&frame.function).copied().unwrap_or(0));
                        line.number(2, frame.line.into());
                    });
                }
                it.packed(4, std::iter::once(kind));
            });
        }
        Places { tables, locations }
    }

    /// ProfilesDictionary: 1 mapping_table, of Mapping: 2 memory_limit,
    /// 4 filename_strindex, 5 attribute_indices.
    fn mappings(&mut self, used: &Used, tables: &mut Message) -> FxHashMap<DsoId, u64> {
        let profile = self.chosen.profile;
        tables.bytes(1, b"");
        let mut mappings = FxHashMap::default();
        for (id, end) in used.dsos(profile) {
            mappings.insert(id, mappings.len() as u64 + 1);
            let dso = profile.dso(id);
            let path = self.tables.text(profile.name(dso.path));
            let build_id = dso.build_id.as_ref().map(|id| {
                let key = "process.executable.build_id.gnu";
                self.tables.attribute(key, Value::Text(id.to_string()))
            });
            tables.message(1, |it| {
                it.number(2, end);
                it.number(4, path);
                it.packed(5, build_id.into_iter());
            });
        }
        mappings
    }

    /// 3 function_table, of Function: 1 name, 2 system name, 3 file,
    /// 4 start_line.
    fn functions(&mut self, used: &Used, tables: &mut Message) -> FxHashMap<FunctionId, u64> {
        let profile = self.chosen.profile;
        tables.bytes(3, b"");
        let mut functions = FxHashMap::default();
        for (id, file) in used.functions(profile) {
            functions.insert(id, functions.len() as u64 + 1);
            let function = profile.function(id);
            let name = self.tables.text(profile.name(function.name));
            let file = file.map_or("", |file| profile.name(file));
            let file = self.tables.text(file);
            tables.message(3, |it| {
                it.number(1, name);
                it.number(2, name);
                it.number(3, file);
                it.number(4, function.defined_at.map_or(0, |(_, line)| line.into()));
            });
        }
        functions
    }

    /// How many bytes [`Writer::stack_table`] writes.
    fn size_of(&self, stacks: &[StackId], places: &Places) -> u64 {
        let tree = &self.chosen.profile.stacks;
        // By `StackId`: bytes of its locations. A caller's id is smaller.
        let mut sizes = vec![0_u32; tree.len()];
        for id in 1..tree.len() {
            if let Some((caller, location)) = tree.get(StackId(id as u32)) {
                let outer = sizes.get(caller.0 as usize).copied().unwrap_or(0);
                let own = varint_size(places.location(location)) as u32;
                if let Some(size) = sizes.get_mut(id) {
                    *size = outer.saturating_add(own);
                }
            }
        }
        let framed = |bytes: u64| 1 + varint_size(bytes) as u64 + bytes;
        let sizes = stacks.iter().map(|stack| {
            let bytes = sizes.get(stack.0 as usize).copied().unwrap_or(0);
            framed(framed(bytes.into()))
        });
        Self::NO_ENTRIES.len() as u64 + sizes.sum::<u64>()
    }

    /// Entries of none: of 4 link_table and of 7 stack_table.
    const NO_ENTRIES: [u8; 4] = [4 << 3 | 2, 0, 7 << 3 | 2, 0];

    /// 7 stack_table, of Stack: 1 location_indices, leaf first.
    fn stack_table(
        &self,
        stacks: &[StackId],
        places: &Places,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut part = Message::default();
        part.bytes.extend(Self::NO_ENTRIES);
        let tree = &self.chosen.profile.stacks;
        for &stack in stacks {
            part.message(7, |it| {
                it.packed(1, tree.locations(stack).map(|id| places.location(id)));
            });
            if part.bytes.len() > 1 << 16 {
                out.write_all(&part.bytes)?;
                part.bytes.clear();
            }
        }
        out.write_all(&part.bytes)
    }

    /// 6 attribute_table, of KeyValueAndUnit: 1 key_strindex, 2 value; and
    /// 5 string_table.
    fn texts(&self, tables: &mut Message) {
        tables.bytes(6, b"");
        for (key, it) in &self.tables.attribute_list {
            tables.message(6, |entry| {
                entry.number(1, *key);
                entry.message(2, |inner| value(inner, it));
            });
        }
        tables.bytes(5, b"");
        for text in &self.tables.text_list {
            tables.bytes(5, text.as_bytes());
        }
    }
}

/// Tables of places, and where in theirs locations are.
struct Places {
    tables: Message,
    /// By `LocationId`; 0 for none.
    locations: Vec<u64>,
}

impl Places {
    fn location(&self, id: LocationId) -> u64 {
        self.locations.get(id.0 as usize).copied().unwrap_or(0)
    }
}

/// AnyValue: 1 string_value, 3 int_value.
fn value(message: &mut Message, value: &Value) {
    match value {
        Value::Text(text) => message.bytes(1, text.as_bytes()),
        Value::Number(number) => message.present(3, *number as u64),
    }
}
