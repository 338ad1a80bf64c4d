//! The Firefox Profiler's processed format, JSON: what its page saves, samply
//! writes, and `prof export --format firefox`.
//!
//! Source: `docs-developer/processed-profile-format.md` and the types of
//! `profile.ts` in firefox-devtools/profiler, versions 24 to 60: tables stand in
//! each thread or, in newer ones, in `shared`.

mod tables;

use crate::builder::{Builder, Call, DsoAddress};
use crate::{ImportError, MOST_SAMPLES};
use prof_profile::{DsoId, NameId, Profile, Sample, StackId};
use rustc_hash::FxHashMap;
use tables::{File, Indices, Lib, TOO_MANY, Thread};

const FORMAT: &str = "profile of the Firefox Profiler";

/// Functions that are inlined in one another at one address, at most.
const DEEPEST_INLINE: usize = 512;

/// Whether a text begins as such a profile: an object that tells of itself.
pub(crate) fn is_one(text: &str) -> bool {
    let text = text.trim_start();
    let head = text.as_bytes().get(..1 << 14).unwrap_or(text.as_bytes());
    let has = |key: &[u8]| head.windows(key.len()).any(|part| part == key);
    text.starts_with('{') && (has(b"\"preprocessedProfileVersion\"") || has(b"\"meta\""))
}

/// Reads a profile: a track's samples are of one event, which the profile
/// names if prof wrote it; else by what weights are: `samples`, `time`,
/// `bytes`.
pub(crate) fn read(text: &str) -> Result<Profile, ImportError> {
    let file: File = serde_json::from_str(text).map_err(|error| explained(text, &error))?;
    if file.meta.preprocessed_profile_version.is_none() {
        return Err(ImportError::Damaged {
            format: FORMAT,
            what: "it is not processed; open it at profiler.firefox.com and save it there",
            offset: 0,
        });
    }
    let mut builder = Builder::default();
    let events: Vec<&str> = events(&file).collect();
    for name in &events {
        // In the order of the recording; whether it is time, threads tell.
        let of_event = |thread: &&Thread| ends_with_word(&thread.name.0, name);
        let mut threads = file.threads.0.iter();
        let told = match events.len() {
            1 => threads.next(),
            _ => threads.find(of_event),
        };
        builder.event(name, told.is_some_and(is_time));
    }
    let mut rows = Vec::new();
    let is_shared = |thread: &&Thread| thread.stack_table.is_none();
    let of_all: Vec<&Thread> = file.threads.0.iter().filter(is_shared).collect();
    if !of_all.is_empty() {
        Reader::new(&mut builder, &file.libs.0, &file.shared).read(&of_all, &events, &mut rows)?;
    }
    for thread in file.threads.0.iter().filter(|it| !is_shared(it)) {
        Reader::new(&mut builder, &file.libs.0, thread).read(&[thread], &events, &mut rows)?;
    }
    // Threads stand one behind the other.
    rows.sort_by_key(|sample: &Sample| sample.time);
    for sample in rows {
        builder.samples(sample, 1);
    }
    let start = nanoseconds(file.meta.start_time);
    builder.profile.origin.wall_clock = (start > 0).then_some((start, 0));
    builder.finish(FORMAT)
}

fn explained(text: &str, error: &serde_json::Error) -> ImportError {
    use serde_json::error::Category;
    if error.to_string().contains(TOO_MANY) {
        return ImportError::TooMany { format: FORMAT };
    }
    let lines = text.split_inclusive('\n').take(error.line().max(1) - 1);
    ImportError::Damaged {
        format: FORMAT,
        what: match error.classify() {
            Category::Eof => "it ends too early",
            Category::Data => "a field holds what it should not",
            Category::Syntax | Category::Io => "it is no JSON",
        },
        offset: lines.map(str::len).sum::<usize>() + error.column(),
    }
}

/// The names of the events, if prof wrote the file.
fn events(file: &File) -> impl Iterator<Item = &str> {
    let sections = file.meta.extra.0.iter();
    let entries = sections
        .filter(|section| section.label.0 == "prof")
        .flat_map(|section| &section.entries.0);
    let events = entries.filter(|entry| entry.label.0 == "event");
    events.map(|entry| entry.value.0.as_str())
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|rest| rest.ends_with(' '))
}

/// Whether weights are ms.
fn is_time(thread: &Thread) -> bool {
    let kind = thread.samples.weight_type.as_ref();
    kind.is_some_and(|kind| kind.0 == "tracing-ms")
}

/// ms as ns, 0 at least.
fn nanoseconds(milliseconds: f64) -> u64 {
    // Numbers that are too large become the largest.
    (milliseconds * 1e6).round() as u64
}

/// Threads that share tables.
struct Reader<'a> {
    builder: &'a mut Builder,
    libs: &'a [Lib],
    tables: &'a Thread,
    /// By index in the table of texts.
    names: FxHashMap<u32, Option<NameId>>,
    /// By resource; `None` of what has none.
    dsos: FxHashMap<Option<u32>, DsoId>,
}

/// What is known of a stack of the table.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Whether samples have it or one that goes on from it.
    is_used: bool,
    /// Whether a sample or another address goes on from it.
    is_wanted: bool,
    /// The outermost stack whose frame is at the same address.
    address: u32,
    stack: StackId,
}

impl<'a> Reader<'a> {
    fn new(builder: &'a mut Builder, libs: &'a [Lib], tables: &'a Thread) -> Self {
        Self {
            builder,
            libs,
            tables,
            names: FxHashMap::default(),
            dsos: FxHashMap::default(),
        }
    }

    fn read(
        &mut self,
        threads: &[&Thread],
        events: &[&str],
        rows: &mut Vec<Sample>,
    ) -> Result<(), ImportError> {
        let nodes = self.stacks(threads)?;
        for thread in threads {
            self.thread(thread, events, &nodes, rows)?;
        }
        Ok(())
    }

    /// Adds the samples of a thread.
    fn thread(
        &mut self,
        thread: &Thread,
        events: &[&str],
        nodes: &[Node],
        rows: &mut Vec<Sample>,
    ) -> Result<(), ImportError> {
        let samples = &thread.samples;
        let is_time = is_time(thread);
        let (comm, event) = comm_and_event(thread, events);
        let event = self.builder.event(event, is_time);
        let comm = self.builder.name(comm);
        // `12 cpu-clock`, `12.1`: where a thread has several tracks.
        let id = |text: &str| {
            let end = text.find(|it: char| !it.is_ascii_digit());
            text.get(..end.unwrap_or(text.len()))
                .map_or(0, |digits| digits.parse().unwrap_or(0))
        };
        let task = self
            .builder
            .task(id(&thread.pid.0), id(&thread.tid.0), comm);
        let mut sum = 0.0;
        for (stack, row) in samples.stack.iter().zip(0..) {
            let node = stack.and_then(|stack| nodes.get(stack as usize));
            sum += samples.time_deltas.get(row).unwrap_or(0.0);
            let time = nanoseconds(samples.time.get(row).unwrap_or(sum));
            let weight = samples.weight.as_ref().and_then(|it| it.get(row));
            let period = match weight {
                Some(weight) if is_time => nanoseconds(weight),
                // Differences of profiles have weights below zero.
                Some(weight) => weight.round() as u64,
                None => 1,
            };
            if rows.len() as u64 >= MOST_SAMPLES {
                return Err(ImportError::TooMany { format: FORMAT });
            }
            rows.push(Sample {
                time,
                period,
                task,
                stack: node.map_or(StackId::EMPTY, |node| node.stack),
                cpu: None,
                event,
                wait: None,
            });
        }
        Ok(())
    }

    /// The stacks of the table that samples need.
    fn stacks(&mut self, threads: &[&Thread]) -> Result<Vec<Node>, ImportError> {
        let empty = Indices::default();
        let table = self.tables.stack_table.as_ref();
        let prefixes = table.map_or(&empty, |table| &table.prefix);
        let unused = Node {
            is_used: false,
            is_wanted: false,
            address: 0,
            stack: StackId::EMPTY,
        };
        let mut nodes = vec![unused; table.map_or(0, |table| table.frame.len())];
        for stack in threads.iter().flat_map(|it| it.samples.stack.iter()) {
            if let Some(node) = stack.and_then(|it| nodes.get_mut(it as usize)) {
                (node.is_used, node.is_wanted) = (true, true);
            }
        }
        // A caller stands before its callees.
        for index in (0..nodes.len() as u32).rev() {
            let is_used = nodes.get(index as usize).is_some_and(|node| node.is_used);
            let Some(prefix) = prefixes.get(index).filter(|_| is_used) else {
                continue;
            };
            let joins = self.is_inlined(index, prefix);
            match nodes.get_mut(prefix as usize).filter(|_| prefix < index) {
                Some(caller) => {
                    caller.is_used = true;
                    caller.is_wanted |= !joins;
                }
                None => return Err(cyclic()),
            }
        }
        for index in 0..nodes.len() {
            let Some(node) = nodes.get(index).copied().filter(|node| node.is_used) else {
                continue;
            };
            let prefix = prefixes.get(index as u32);
            let joins = prefix.filter(|&prefix| self.is_inlined(index as u32, prefix));
            let caller = joins.and_then(|prefix| nodes.get(prefix as usize));
            let mut node = Node {
                address: caller.map_or(index as u32, |caller| caller.address),
                ..node
            };
            if node.is_wanted {
                node.stack = self.stack(index as u32, node.address, &nodes);
            }
            if let Some(known) = nodes.get_mut(index) {
                *known = node;
            }
        }
        Ok(nodes)
    }

    /// The stack that ends at `index`, whose innermost address began at the
    /// stack `address`.
    fn stack(&mut self, index: u32, address: u32, nodes: &[Node]) -> StackId {
        let Some(table) = &self.tables.stack_table else {
            return StackId::EMPTY;
        };
        let mut calls = Vec::new();
        let mut at = Some(index);
        while let Some(stack) = at.filter(|_| calls.len() <= DEEPEST_INLINE) {
            calls.extend(table.frame.get(stack).map(|frame| self.call(frame)));
            at = table.prefix.get(stack).filter(|_| stack != address);
        }
        let outer = table.prefix.get(address);
        let outer = outer.and_then(|prefix| nodes.get(prefix as usize));
        let frame = table.frame.get(address);
        let place = self.place(frame);
        let location = self.builder.location(place, &calls);
        let outer = outer.map_or(StackId::EMPTY, |node| node.stack);
        self.builder.profile.stacks.push(outer, location)
    }

    /// Whether the frame of a stack is inlined into that of its caller.
    fn is_inlined(&self, stack: u32, caller: u32) -> bool {
        let tables = self.tables;
        let frames = &tables.frame_table;
        let frame = |stack| tables.stack_table.as_ref()?.frame.get(stack);
        let Some((frame, caller)) = frame(stack).zip(frame(caller)) else {
            return false;
        };
        let depth = |frame| frames.inline_depth.get(frame).unwrap_or(0);
        let (inner, outer) = (depth(frame), depth(caller));
        inner > 0
            && inner == outer.saturating_add(1)
            && (inner as usize) < DEEPEST_INLINE
            && frames.address.get(frame) == frames.address.get(caller)
    }

    fn call(&mut self, frame: u32) -> Call {
        let tables = self.tables;
        let functions = &tables.func_table;
        let function = tables.frame_table.func.get(frame);
        let source = function.and_then(|it| functions.source.get(it));
        let file = match source {
            Some(source) => tables.sources.filename.get(source),
            None => function.and_then(|it| functions.file_name.get(it)),
        };
        let name = function.and_then(|it| functions.name.get(it));
        Call {
            name: name.and_then(|text| self.name(text)),
            file: file.and_then(|text| self.name(text)),
            line: tables.frame_table.line.get(frame).unwrap_or(0),
        }
    }

    fn place(&mut self, frame: Option<u32>) -> DsoAddress {
        let tables = self.tables;
        let address = frame.and_then(|it| tables.frame_table.address.get(it));
        let function = frame.and_then(|it| tables.frame_table.func.get(it));
        let resource = function.and_then(|it| tables.func_table.resource.get(it));
        let dso = match self.dsos.get(&resource) {
            Some(&known) => known,
            None => {
                let name = resource.and_then(|resource| self.resource(resource));
                let dso = self.builder.dso(name);
                self.dsos.insert(resource, dso);
                dso
            }
        };
        DsoAddress {
            dso,
            // -1 where it is not told.
            address: address.filter(|it| *it > 0.0).map_or(0, |it| it as u64),
        }
    }

    /// The path of a resource, or its name.
    fn resource(&mut self, resource: u32) -> Option<NameId> {
        let lib = self.tables.resource_table.lib.get(resource);
        let lib = lib.and_then(|lib| self.libs.get(lib as usize));
        let named = lib.and_then(|lib| {
            let path = self.builder.name(&lib.path.0);
            path.or_else(|| self.builder.name(&lib.name.0))
        });
        let text = self.tables.resource_table.name.get(resource);
        named.or_else(|| text.and_then(|text| self.name(text)))
    }

    fn name(&mut self, text: u32) -> Option<NameId> {
        let known = self.names.entry(text);
        *known.or_insert_with(|| self.builder.name(self.tables.string_array.get(text)))
    }
}

fn cyclic() -> ImportError {
    ImportError::Damaged {
        format: FORMAT,
        what: "a stack does not stand behind its caller",
        offset: 0,
    }
}

/// What a thread is called, and its event.
fn comm_and_event<'a>(thread: &'a Thread, events: &[&'a str]) -> (&'a str, &'a str) {
    let name = thread.name.0.as_str();
    match events {
        [only] => return (name, only),
        // Of events one of which ends as the other, the longer one.
        several => {
            let ends = several.iter().filter(|event| ends_with_word(name, event));
            if let Some(event) = ends.max_by_key(|event| event.len()) {
                let comm = name.strip_suffix(event).unwrap_or(name);
                return (comm.trim_end(), event);
            }
        }
    }
    let kind = thread.samples.weight_type.as_ref();
    let event = match kind.map(|kind| kind.0.as_str()) {
        Some("tracing-ms") => "time",
        Some("bytes") => "bytes",
        _ => "samples",
    };
    (name, event)
}

#[cfg(test)]
mod tests {
    use super::{is_one, read};
    use crate::ImportError;
    use prof_profile::Profile;

    /// Time, weight, and functions with their files and lines, innermost first.
    fn rows(profile: &Profile) -> Vec<(u64, u64, String)> {
        let rows = profile.samples.iter().map(|sample| {
            let places = profile.stacks.locations(sample.stack);
            let places = places.map(|id| {
                let frames = profile.frames_at(id).iter().map(|frame| {
                    let name = profile.name(profile.function(frame.function).name);
                    let file = frame.file.map_or("", |file| profile.name(file));
                    format!("{name}@{file}:{}", frame.line)
                });
                frames.collect::<Vec<_>>().join("<")
            });
            let places = places.collect::<Vec<_>>().join(" ");
            (sample.time, sample.period, places)
        });
        rows.collect()
    }

    /// main, with `inner` inlined into `outer`, in a thread of its own tables.
    const OLD: &str = r#"{"meta":{"preprocessedProfileVersion":47,"startTime":1000},
"libs":[{"name":"app","path":"/usr/bin/app"}],
"threads":[{"name":"worker","pid":"7","tid":"8.1",
"samples":{"stack":[2,null,0],"time":[2,1,0.5],"weight":null,"weightType":"samples","length":3},
"stackTable":{"prefix":[null,0,1],"frame":[0,1,2],"length":3},
"frameTable":{"address":[16,32,32],"inlineDepth":[0,0,1],"func":[0,1,2],"line":[null,5,6],"length":3},
"funcTable":{"name":[0,1,2],"resource":[0,0,0],"fileName":[null,null,3],"length":3},
"resourceTable":{"lib":[0],"name":[0],"length":1},
"stringArray":["main","outer","inner","a.c"]}]}"#;

    #[test]
    fn tables_of_each_thread_are_read_and_inlined_functions_joined() {
        assert!(is_one(OLD));
        let profile = read(OLD).expect("a profile");
        let expected = [
            (500_000, 1, "main@:0".to_owned()),
            (1_000_000, 1, String::new()),
            (2_000_000, 1, "inner@a.c:6<outer@:5 main@:0".to_owned()),
        ];
        assert_eq!(rows(&profile), expected);
        assert_eq!((profile.tasks[0].pid, profile.tasks[0].tid), (7, 8));
        assert_eq!(profile.name(profile.dsos[0].short_name), "app");
        assert_eq!(profile.events[0].name, "samples");
    }

    #[test]
    fn tables_of_all_threads_are_read_and_times_from_differences() {
        let new = r#"{"meta":{"preprocessedProfileVersion":60},"libs":[],
"shared":{"stackTable":{"prefix":[null],"frame":[0]},"frameTable":{"address":[-1],"func":[0],"line":[3]},
"funcTable":{"name":[0],"resource":[-1],"source":[0]},"sources":{"filename":[1]},
"resourceTable":{"lib":[],"name":[]},"stringArray":["work","w.js"]},
"threads":[{"name":"a","pid":1,"tid":2,"samples":{"stack":[0,0],"timeDeltas":[1,2],"weight":[3,0.5],"weightType":"tracing-ms"}}]}"#;
        let profile = read(new).expect("a profile");
        let expected = [
            (1_000_000, 3_000_000, "work@w.js:3".to_owned()),
            (3_000_000, 500_000, "work@w.js:3".to_owned()),
        ];
        assert_eq!(rows(&profile), expected);
        assert!(profile.events[0].weight_is_ns);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let cyclic = OLD.replace("[null,0,1]", "[null,2,1]");
        assert!(matches!(read(&cyclic), Err(ImportError::Damaged { .. })));
        let cut = &OLD[..OLD.len() / 2];
        assert!(matches!(read(cut), Err(ImportError::Damaged { .. })));
        let raw = OLD.replace("preprocessedProfileVersion", "version");
        assert!(matches!(read(&raw), Err(ImportError::Damaged { .. })));
        let many = OLD.replace("[2,null,0]", &format!("[{}0]", "0,".repeat(9 << 20)));
        assert!(matches!(read(&many), Err(ImportError::TooMany { .. })));
    }
}
