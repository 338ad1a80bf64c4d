//! The Firefox Profiler's processed format, gzipped JSON.
//!
//! Written here and not by the crate `fxprof-processed-profile`: version 0.8 of
//! that has no place for source lines and inlined functions of frames that
//! have their names already, keeps weights in 32 bits (2 s, in ns), and holds
//! all samples a second time.
//!
//! Source: `docs-developer/processed-profile-format.md` and the types of
//! `profile.ts` in firefox-devtools/profiler; this is its version 55, in which
//! each thread has its own tables. Later ones are made from it by the reader.

use crate::ExportError;
use crate::choice::Chosen;
use crate::columns::{Index, Millis, comma_list, list};
use crate::gzip::Gzip;
use crate::pprof::unit_of;
use crate::speedscope::{LONGEST, quoted, threads};
use crate::used;
use prof_profile::{DsoId, DsoKind, Event, Frame, FunctionId, LocationId, NameId, StackId, Task};
use rustc_hash::FxHashMap;
use std::io::{self, BufWriter, Write};

/// Categories: name and colour. The first is what the reader wants there.
const CATEGORIES: [(&str, &str); 5] = [
    ("Other", "grey"),
    ("User", "yellow"),
    ("Run-time code", "green"),
    ("Kernel", "orange"),
    ("No name", "darkgrey"),
];

/// Writes the chosen samples: a track for each thread and event.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    if chosen.choice.is_plain {
        return Ok(write_to(chosen, out)?.1);
    }
    let (packed, told) = write_to(chosen, Gzip::new(out, 1)?)?;
    packed.finish()?;
    Ok(told)
}

/// The same, as it is; and the destination.
fn write_to<W: Write>(chosen: &Chosen<'_>, out: W) -> Result<(W, Vec<String>), ExportError> {
    let mut out = BufWriter::with_capacity(1 << 16, Counted { out, bytes: 0 });
    let mut writer = Writer {
        chosen,
        start: chosen.span().map_or(0, |(first, _)| first),
        stacks: Scratch::new(chosen.profile.stacks.len()),
        same: used::by_name(chosen.profile),
        locations: Scratch::new(chosen.profile.locations.len()),
    };
    writer.write(&mut out)?;
    let counted = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let mut told = Vec::new();
    if counted.bytes > LONGEST {
        told.push(format!(
            "unpacked it has {} MB, more than what a browser opens (512 MB)\n  \
             try: --time 0%-10%, --pid or --comms, for a part of it",
            counted.bytes >> 20
        ));
    }
    Ok((counted.out, told))
}

/// Counts what goes through.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Indices in the tables of one thread after the other, by a handle of the
/// profile; emptied by what was put in.
struct Scratch {
    index: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Scratch {
    fn new(length: usize) -> Self {
        Self {
            index: vec![NONE; length],
        }
    }

    fn get(&self, handle: u32) -> Option<u32> {
        let index = self.index.get(handle as usize).copied();
        index.filter(|&index| index != NONE)
    }

    fn set(&mut self, handle: u32, index: u32) {
        if let Some(slot) = self.index.get_mut(handle as usize) {
            *slot = index;
        }
    }
}

/// The tables of one thread.
#[derive(Default)]
struct Tables {
    /// Stacks: index of the caller's, and of the frame.
    stacks: Vec<(Option<u32>, u32)>,
    /// Frames, and how deep each is inlined.
    frames: Vec<(LocationId, Frame, u32)>,
    functions: FxHashMap<(FunctionId, Option<NameId>), u32>,
    function_list: Vec<(FunctionId, Option<NameId>)>,
    texts: FxHashMap<NameId, u32>,
    text_list: Vec<NameId>,
    /// Dsos, which are resources.
    dsos: FxHashMap<DsoId, u32>,
    dso_list: Vec<DsoId>,
    /// What was set in the writer's scratch.
    stacks_seen: Vec<StackId>,
    locations_seen: Vec<LocationId>,
}

/// The index of a key in a list without equal ones.
fn interned<K: Copy + std::hash::Hash + Eq>(
    known: &mut FxHashMap<K, u32>,
    list: &mut Vec<K>,
    key: K,
) -> u32 {
    *known.entry(key).or_insert_with(|| {
        list.push(key);
        list.len() as u32 - 1
    })
}

struct Writer<'a, 'p> {
    chosen: &'a Chosen<'p>,
    /// The time that is 0 in the file, ns.
    start: u64,
    stacks: Scratch,
    /// By `FunctionId`; see [`used::by_name`].
    same: Vec<FunctionId>,
    /// By location: the index of its outermost frame; the others follow.
    locations: Scratch,
}

impl Writer<'_, '_> {
    fn write(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.head(out)?;
        let (threads, thread_of) = threads(self.chosen.profile);
        let events = self.chosen.events.len();
        let sorted = self
            .chosen
            .sorted_by(threads.len() * events, |slot, sample| {
                let thread = thread_of.get(sample.task.0 as usize).copied();
                thread.unwrap_or(0) * events + slot
            });
        out.write_all(b"\"threads\":[")?;
        let mut comma = "";
        for (key, rows) in sorted.groups() {
            out.write_all(comma.as_bytes())?;
            comma = ",\n";
            if let Some(thread) = threads.get(key / events) {
                self.thread(thread, key % events, rows, out)?;
            }
        }
        out.write_all(b"]}\n")
    }

    fn event(&self, slot: usize) -> Option<&Event> {
        let id = self.chosen.events.get(slot)?;
        self.chosen.profile.events.get(usize::from(id.0))
    }

    /// What is of the whole profile.
    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.chosen.profile;
        let origin = &profile.origin;
        let wall = self.chosen.wall_clock(self.start).unwrap_or(0);
        let first = self.event(0);
        let interval = match first {
            Some(event) if event.is_freq => 1e3 / event.asked.max(1) as f64,
            Some(event) if event.weight_is_ns => event.asked as f64 / 1e6,
            _ => 1.0,
        };
        write!(
            out,
            "{{\"meta\":{{\"version\":24,\"preprocessedProfileVersion\":55,\"interval\":{interval},\
             \"startTime\":{},\"processType\":0,\"product\":\"prof\",\"stackwalk\":1,\"debug\":false,\
             \"symbolicated\":true,\"importedFrom\":\"prof\",\"platform\":\"Linux\",\"oscpu\":{},\
             \"arguments\":{},\"CPUName\":{},\"sourceCodeIsNotOnSearchfox\":true,\
             \"usesOnlyOneStackType\":true,\"markerSchema\":[],\"pausedRanges\":[],\
             \"sampleUnits\":{{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"}},",
            wall as f64 / 1e6,
            quoted(&format!("Linux {} {}", origin.os_release, origin.arch)),
            quoted(&origin.command_line.join(" ")),
            quoted(&origin.cpu_description),
        )?;
        let categories = CATEGORIES.iter().map(|(name, colour)| {
            format!("{{\"name\":\"{name}\",\"color\":\"{colour}\",\"subcategories\":[\"Other\"]}}")
        });
        list(out, "categories", categories)?;
        // Which events there are, for who reads this back; not shown.
        out.write_all(b",\"extra\":[{\"label\":\"prof\",")?;
        let events = (0..self.chosen.events.len()).filter_map(|slot| self.event(slot));
        let events = events.map(|event| {
            let name = quoted(&event.name);
            format!("{{\"label\":\"event\",\"format\":\"string\",\"value\":{name}}}")
        });
        list(out, "entries", events)?;
        out.write_all(b"}]")?;
        out.write_all(b"},\n\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\n")?;
        let libs = profile.dsos.iter().map(|dso| {
            let path = quoted(profile.name(dso.path));
            let name = quoted(profile.name(dso.short_name));
            let id = dso.build_id.as_ref().map(ToString::to_string);
            let code_id = id.as_ref().map_or("null".into(), |id| quoted(id));
            format!(
                "\n{{\"arch\":{},\"name\":{name},\"path\":{path},\"debugName\":{name},\
                 \"debugPath\":{path},\"breakpadId\":{},\"codeId\":{code_id}}}",
                quoted(&origin.arch),
                quoted(&breakpad(id.as_deref().unwrap_or_default())),
            )
        });
        list(out, "libs", libs)?;
        out.write_all(b",\n")
    }

    /// One track.
    fn thread(
        &mut self,
        thread: &Task,
        slot: usize,
        rows: &[u32],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let profile = self.chosen.profile;
        let mut tables = Tables::default();
        let name = profile.name(thread.comm);
        let event = self.event(slot).map_or("", |event| &event.name);
        let (name, tid) = match self.chosen.events.len() {
            1 => (name.to_owned(), thread.tid.to_string()),
            _ => (
                format!("{name} {event}"),
                quoted(&format!("{} {event}", thread.tid)),
            ),
        };
        let main = profile
            .tasks
            .iter()
            .rev()
            .find(|task| task.tid == thread.pid);
        let process = profile.name(main.unwrap_or(thread).comm);
        writeln!(
            out,
            "{{\"name\":{},\"processName\":{},\"processType\":\"default\",\"pid\":\"{}\",\
             \"tid\":{tid},\"isMainThread\":{},\"registerTime\":0,\"unregisterTime\":null,\
             \"processStartupTime\":0,\"processShutdownTime\":null,\"pausedRanges\":[],\
             \"showMarkersInTimeline\":false,\"markers\":{{\"length\":0,\"category\":[],\
             \"data\":[],\"endTime\":[],\"name\":[],\"phase\":[],\"startTime\":[]}},",
            quoted(&name),
            quoted(process),
            thread.pid,
            thread.pid == thread.tid,
        )?;
        self.samples(&mut tables, slot, rows, out)?;
        self.tables(&mut tables, out)?;
        for stack in tables.stacks_seen {
            self.stacks.set(stack.0, NONE);
        }
        for location in tables.locations_seen {
            self.locations.set(location.0, NONE);
        }
        out.write_all(b"}")
    }

    /// The samples of a track: times and weights in ms where the event is
    /// time; else weights are events, which the reader calls samples.
    fn samples(
        &mut self,
        tables: &mut Tables,
        slot: usize,
        rows: &[u32],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let profile = self.chosen.profile;
        let samples = || {
            rows.iter()
                .filter_map(|&row| profile.samples.get(row as usize))
        };
        let event = self.event(slot);
        let is_time = event.is_some_and(|event| unit_of(event) == "nanoseconds");
        let is_cpu_time = is_time && event.is_some_and(|event| !event.is_off_cpu);
        let weight_type = if is_time { "tracing-ms" } else { "samples" };
        let length = rows.len();
        write!(
            out,
            "\"samples\":{{\"length\":{length},\"weightType\":\"{weight_type}\","
        )?;
        let stacks: Vec<Option<u32>> = samples()
            .map(|sample| self.stack(tables, sample.stack))
            .collect();
        list(out, "stack", stacks.into_iter().map(Index))?;
        let start = self.start;
        let times = samples().map(|it| Millis(it.time.saturating_sub(start)));
        comma_list(out, "time", times)?;
        if is_time {
            comma_list(out, "weight", samples().map(|it| Millis(it.period)))?;
        } else {
            comma_list(out, "weight", samples().map(|it| it.period))?;
        }
        if is_cpu_time {
            comma_list(out, "threadCPUDelta", samples().map(|it| it.period))?;
        }
        out.write_all(b"},\n")
    }

    /// The index of a stack's innermost frame; of the empty stack, none.
    fn stack(&mut self, tables: &mut Tables, stack: StackId) -> Option<u32> {
        let mut missing = Vec::new();
        let mut at = stack;
        let mut found = None;
        while let Some((caller, location)) = self.chosen.profile.stacks.get(at) {
            found = self.stacks.get(at.0);
            if found.is_some() {
                break;
            }
            missing.push((at, location));
            at = caller;
        }
        for (stack, location) in missing.into_iter().rev() {
            let first = self.location(tables, location);
            let frames = self.chosen.profile.frames_at(location).len() as u32;
            for frame in first..first.saturating_add(frames) {
                tables.stacks.push((found, frame));
                found = Some(tables.stacks.len() as u32 - 1);
            }
            if let Some(found) = found {
                self.stacks.set(stack.0, found);
                tables.stacks_seen.push(stack);
            }
        }
        found
    }

    /// The index of a location's outermost frame.
    fn location(&mut self, tables: &mut Tables, id: LocationId) -> u32 {
        if let Some(known) = self.locations.get(id.0) {
            return known;
        }
        let first = tables.frames.len() as u32;
        let frames = self.chosen.profile.frames_at(id).iter().rev();
        tables
            .frames
            .extend(frames.zip(0..).map(|(frame, depth)| (id, *frame, depth)));
        self.locations.set(id.0, first);
        tables.locations_seen.push(id);
        first
    }

    /// All tables of a thread, those first that name what others hold.
    fn tables(&self, tables: &mut Tables, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "\"stackTable\":{{\"length\":{},", tables.stacks.len())?;
        list(
            out,
            "prefix",
            tables.stacks.iter().map(|(prefix, _)| Index(*prefix)),
        )?;
        comma_list(out, "frame", tables.stacks.iter().map(|(_, frame)| frame))?;
        out.write_all(b"},\n")?;
        self.frames(tables, out)?;
        self.functions(tables, out)?;
        let profile = self.chosen.profile;
        let mut dsos = Vec::new();
        for &id in &tables.dso_list {
            let name = profile.dso(id).short_name;
            dsos.push(interned(&mut tables.texts, &mut tables.text_list, name));
        }
        let length = dsos.len();
        write!(out, "\"resourceTable\":{{\"length\":{length},")?;
        list(out, "lib", tables.dso_list.iter().map(|id| id.0))?;
        comma_list(out, "name", dsos.iter())?;
        comma_list(out, "host", dsos.iter().map(|_| "null"))?;
        // 1: a library
        comma_list(out, "type", dsos.iter().map(|_| 1_u32))?;
        out.write_all(
            b"},\n\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\
              \"libIndex\":[],\"name\":[]},\n",
        )?;
        list(
            out,
            "stringArray",
            tables.text_list.iter().map(|&id| quoted(profile.name(id))),
        )
    }

    fn frames(&self, tables: &mut Tables, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.chosen.profile;
        let frames = &tables.frames;
        write!(out, "\"frameTable\":{{\"length\":{},", frames.len())?;
        let addresses = frames.iter().map(|(id, _, _)| {
            let location = profile.location(*id);
            // Numbers of JavaScript are whole up to 2^53.
            let address = location.address.minus(location.is_return.into()).0;
            if address < 1 << 53 {
                address as i64
            } else {
                -1
            }
        });
        list(out, "address", addresses)?;
        comma_list(out, "inlineDepth", frames.iter().map(|(_, _, depth)| depth))?;
        let categories = frames
            .iter()
            .map(|(id, frame, _)| self.category(*id, frame));
        comma_list(out, "category", categories)?;
        comma_list(out, "subcategory", frames.iter().map(|_| 0_u32))?;
        let mut functions = Vec::with_capacity(frames.len());
        for (_, frame, _) in frames {
            let defined = profile
                .function(frame.function)
                .defined_at
                .map(|(file, _)| file);
            let same = self.same.get(frame.function.0 as usize).copied();
            let key = (same.unwrap_or(frame.function), frame.file.or(defined));
            functions.push(interned(
                &mut tables.functions,
                &mut tables.function_list,
                key,
            ));
        }
        comma_list(out, "func", functions.into_iter())?;
        comma_list(out, "nativeSymbol", frames.iter().map(|_| "null"))?;
        comma_list(out, "innerWindowID", frames.iter().map(|_| 0_u32))?;
        let lines = frames
            .iter()
            .map(|(_, frame, _)| Index(Some(frame.line).filter(|&it| it > 0)));
        comma_list(out, "line", lines)?;
        comma_list(out, "column", frames.iter().map(|_| "null"))?;
        out.write_all(b"},\n")
    }

    fn functions(&self, tables: &mut Tables, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.chosen.profile;
        let list_of = std::mem::take(&mut tables.function_list);
        let mut names = Vec::new();
        let mut files = Vec::new();
        let mut resources = Vec::new();
        for (id, file) in &list_of {
            let function = profile.function(*id);
            let mut text = |name| interned(&mut tables.texts, &mut tables.text_list, name);
            names.push(text(function.name));
            files.push(Index(file.map(&mut text)));
            resources.push(interned(
                &mut tables.dsos,
                &mut tables.dso_list,
                function.dso,
            ));
        }
        write!(out, "\"funcTable\":{{\"length\":{},", list_of.len())?;
        list(out, "name", names.into_iter())?;
        comma_list(out, "isJS", list_of.iter().map(|_| false))?;
        comma_list(out, "relevantForJS", list_of.iter().map(|_| false))?;
        comma_list(out, "resource", resources.into_iter())?;
        comma_list(out, "fileName", files.into_iter())?;
        let lines = list_of
            .iter()
            .map(|(id, _)| profile.function(*id).defined_at);
        let lines = lines.map(|at| Index(at.map(|(_, line)| line).filter(|&line| line > 0)));
        comma_list(out, "lineNumber", lines)?;
        comma_list(out, "columnNumber", list_of.iter().map(|_| "null"))?;
        out.write_all(b"},\n")
    }

    /// The index of a frame's kind in `CATEGORIES`.
    fn category(&self, id: LocationId, frame: &Frame) -> usize {
        let profile = self.chosen.profile;
        match profile.dso(profile.location(id).dso).kind {
            DsoKind::Kernel
            | DsoKind::KernelModule
            | DsoKind::KernelSymbol
            | DsoKind::GuestKernel => 3,
            DsoKind::Jit => 2,
            _ if profile.function(frame.function).unnamed.is_some() => 4,
            _ => 1,
        }
    }
}

/// A build-id as symbol servers of Breakpad know it: its first 16 bytes as a
/// GUID, whose first three parts are numbers of the machine's byte order, and
/// an age of 0.
fn breakpad(build_id: &str) -> String {
    let digits: Vec<u8> = build_id
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(32)
        .collect();
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let bytes = order
        .iter()
        .filter_map(|&at| digits.get(2 * at..2 * at + 2));
    let guid: String = bytes.flatten().map(|&digit| char::from(digit)).collect();
    format!("{}0", guid.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{breakpad, write};
    use crate::choice::{Choice, Chosen};
    use flate2::read::GzDecoder;
    use prof_sketch::Sketch;
    use serde_json::Value;

    /// Whether the first track of a profile, of an event in ns, has CPU use.
    fn has_cpu_use(is_off_cpu: bool) -> bool {
        let mut sketch = Sketch::new();
        sketch.profile.events[0].weight_is_ns = true;
        sketch.profile.events[0].is_off_cpu = is_off_cpu;
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "main", 1, 1_000_000);
        let mut out = Vec::new();
        write(&Chosen::new(&sketch.profile, &Choice::default()), &mut out).expect("written");
        let json: Value = serde_json::from_reader(GzDecoder::new(&out[..])).expect("JSON");
        let samples = &json["threads"][0]["samples"];
        assert_eq!(samples["weightType"], "tracing-ms");
        samples.get("threadCPUDelta").is_some()
    }

    #[test]
    fn time_off_the_cpu_is_no_cpu_use() {
        assert!(has_cpu_use(false));
        assert!(!has_cpu_use(true));
    }

    #[test]
    fn a_build_id_is_turned_as_a_guid_is() {
        let id = "0102030405060708090a0b0c0d0e0f1011121314";
        assert_eq!(breakpad(id), "0403020106050807090A0B0C0D0E0F100");
    }
}
