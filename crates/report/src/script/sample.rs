//! Samples as lines.

use super::blocks::push_source;
use super::clock::Times;
use super::details::{Branch, Details, Leaf, NamedAddress};
use super::fields::{Field, Fields};
use crate::escape;
use prof_abi::CpuMode;
use prof_profile::{DsoId, DsoKind, Frame, Location, LocationId, Profile};
use std::io::Write as _;
use std::iter::repeat_n;

/// How samples are printed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Fields by event, in the order of the profile's events.
    pub fields: Vec<Fields>,
    /// Width of event names.
    pub name_width: usize,
    /// How times are printed.
    pub times: Times,
    /// Call chains instead of single addresses.
    pub call_chains: bool,
    /// Longest call chain, addresses.
    pub max_stack: usize,
    /// Inlined functions are frames of their own; else their place is that of
    /// the function around them.
    pub inlines: bool,
    /// Functions at which a call chain ends; they are its last frame.
    pub stop_at: Vec<String>,
    /// Source files with their directories.
    pub full_source_path: bool,
    /// The files of the kernel and its modules, not their short names.
    pub kernel_path: bool,
    /// ns to add to a time for its time of day since 1970; `None` if the
    /// recording does not tell.
    pub wall_clock: Option<i128>,
}

/// What decides how a frame is printed: the fields, and whether callers are
/// shown by their call.
type FrameForm = (Fields, bool);

/// A run of bytes in `ScriptWriter::lines`.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: usize,
    len: usize,
}

/// Prints the samples of one profile.
pub struct ScriptWriter<'p> {
    profile: &'p Profile,
    options: Options,
    /// The lines of each location in a chain, made once; by the form they
    /// were made in.
    lines: Vec<u8>,
    known: Vec<Option<(FrameForm, Run)>>,
    /// Length of the longest data source so far: perf pads to it.
    source_width: usize,
}

/// The fields that decide how a frame is printed.
const FRAME_FIELDS: Fields = Fields::of(&[
    Field::Ip,
    Field::Sym,
    Field::SymOff,
    Field::Dso,
    Field::DsoOff,
    Field::SrcLine,
]);

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory");
}

impl<'p> ScriptWriter<'p> {
    /// A writer for samples of `profile`.
    pub fn new(profile: &'p Profile, options: Options) -> Self {
        Self {
            profile,
            options,
            lines: Vec::new(),
            known: vec![None; profile.locations.len()],
            source_width: 0,
        }
    }

    /// The fields printed for samples of this event.
    pub fn fields(&self, details: &Details<'_>) -> Fields {
        let event = usize::from(details.sample.event.0);
        self.options.fields.get(event).copied().unwrap_or_default()
    }

    /// How the next time is printed, of a sample or another record.
    pub fn times(&mut self) -> &mut Times {
        &mut self.options.times
    }

    /// Appends one sample with its call chain and a final line end.
    pub fn write(&mut self, details: &Details<'_>, out: &mut Vec<u8>) {
        let fields = self.fields(details);
        if fields.is_empty() {
            return;
        }
        self.head(details, fields, out);
        if fields.has(Field::Event) {
            let event = self.profile.events.get(usize::from(details.sample.event.0));
            let name = event.map_or("[unknown]", |event| event.name.as_str());
            let name = escape::terminal(name);
            // A width of `format!` ends at 65 535 characters, with a panic.
            let missing = self.options.name_width.saturating_sub(name.chars().count());
            out.extend(repeat_n(b' ', missing));
            put(out, format_args!("{name}: "));
        }
        if fields.has(Field::Flags) {
            put(out, format_args!("  {:<21} ", ""));
        }
        if let Some(trace) = details.trace.filter(|_| fields.has(Field::Trace)) {
            push_bytes(trace, out);
        }
        self.data(details, fields, out);
        if fields.has(Field::Ip) {
            self.place(details, fields, out);
        }
        tail(details, fields, out);
        out.push(b'\n');
        if let Some((line, text)) = details.source_line.filter(|_| fields.has(Field::SrcCode)) {
            push_source(line, text, out);
        }
    }

    /// Thread, CPU, time, period.
    fn head(&mut self, details: &Details<'_>, fields: Fields, out: &mut Vec<u8>) {
        let sample = details.sample;
        let task = self.profile.task(sample.task);
        if fields.has(Field::Comm) {
            let comm = escape::terminal(self.profile.name(task.comm));
            if fields.has(Field::Ip) && self.has_chains(details) {
                put(out, format_args!("{comm} "));
            } else {
                put(out, format_args!("{comm:>16} "));
            }
        }
        match (fields.has(Field::Pid), fields.has(Field::Tid)) {
            (true, true) => put(out, format_args!("{:5}/{:<5} ", task.pid, task.tid)),
            (true, false) => put(out, format_args!("{:5} ", task.pid)),
            (false, true) => put(out, format_args!("{:5} ", task.tid)),
            (false, false) => {}
        }
        if fields.has(Field::Cpu) {
            let cpu = sample.cpu.map_or(-1, i64::from);
            put(out, format_args!("[{cpu:03}] "));
        }
        if fields.has(Field::Misc) {
            put(out, format_args!("{:<5} ", details.misc));
        }
        if fields.has(Field::Tod) {
            self.time_of_day(sample.time, out);
        }
        if fields.has(Field::Time) {
            self.options.times.push(sample.time, out);
        }
        if fields.has(Field::Period) {
            put(out, format_args!("{:10} ", sample.period));
        }
    }

    fn has_chains(&self, details: &Details<'_>) -> bool {
        let event = self.profile.events.get(usize::from(details.sample.event.0));
        self.options.call_chains && event.is_some_and(|event| event.has_callchain)
    }

    fn time_of_day(&self, time: u64, out: &mut Vec<u8>) {
        let Some(since) = self.options.wall_clock else {
            put(out, format_args!("{:>12}  ", "N/A"));
            return;
        };
        let nanoseconds = i128::from(time) + since;
        let date = civil_time((nanoseconds / 1_000_000_000) as i64);
        let micros = nanoseconds.rem_euclid(1_000_000_000) / 1000;
        put(out, format_args!("{date}.{micros:06} "));
    }

    /// What memory samples have.
    fn data(&mut self, details: &Details<'_>, fields: Fields, out: &mut Vec<u8>) {
        if let Some(addr) = details.addr.filter(|_| fields.has(Field::Addr)) {
            put(out, format_args!("{:16x}", addr.address));
            let named = details.addr_has_name;
            if named && fields.has(Field::Sym) {
                out.push(b' ');
                push_symbol(addr.symbol, fields.has(Field::SymOff), out);
            }
            if named && fields.has(Field::Dso) {
                let dso = addr.dso.unwrap_or("[unknown]");
                put(out, format_args!(" ({})", escape::terminal(dso)));
            }
        }
        if let Some((value, text)) = details.data_src.filter(|_| fields.has(Field::DataSrc)) {
            let text = format!("{value:16x} {text}");
            self.source_width = self.source_width.max(text.len());
            put(out, format_args!("{text:<0$}", self.source_width));
        }
        if let Some(weight) = details.weight.filter(|_| fields.has(Field::Weight)) {
            put(out, format_args!("{weight:16}"));
        }
        let latency = details.instruction_latency;
        if let Some(latency) = latency.filter(|_| fields.has(Field::InsLat)) {
            put(out, format_args!("{latency:16}"));
        }
    }

    fn place(&mut self, details: &Details<'_>, fields: Fields, out: &mut Vec<u8>) {
        let stack = details.sample.stack;
        if !(self.options.call_chains && details.has_chain) {
            out.push(b' ');
            self.single(details, fields, out);
            return;
        }
        out.push(b'\n');
        let profile = self.profile;
        let mut locations = profile.stacks.locations(stack).take(self.options.max_stack);
        let has_leaf = match details.leaf {
            Leaf::Sampled => true,
            Leaf::Later => !self.is_apart(details),
            Leaf::Recorded(_) | Leaf::Missing => false,
        };
        if !has_leaf {
            locations.next();
        }
        if let Leaf::Recorded(leaf) = details.leaf {
            push_frame(&leaf, fields, out);
        }
        for location in locations {
            if let Some(cookie) = details.cookie.filter(|&it| self.is_cookie(location, it)) {
                push_cookie(cookie, fields, out);
                continue;
            }
            if let Some(last) = self.stop_in(location) {
                let location = shown_location(profile, location, details.is_unwound);
                self.at(&location, fields).frames(last + 1, out);
                break;
            }
            let run = self.lines_of(location, fields, details.is_unwound);
            let lines = self.lines.get(run.start..run.start + run.len);
            out.extend_from_slice(lines.unwrap_or_default());
        }
    }

    fn at<'a>(&'a self, location: &'a Location, fields: Fields) -> ShownLocation<'a, 'p> {
        ShownLocation {
            writer: self,
            location,
            fields,
        }
    }

    /// Whether the user part of a sample's chain was recorded elsewhere and is not
    /// in its stack.
    fn is_apart(&self, details: &Details<'_>) -> bool {
        let stack = self.profile.stacks.locations(details.sample.stack);
        let outermost = stack.last().zip(details.cookie);
        outermost.is_some_and(|(location, cookie)| self.is_cookie(location, cookie))
    }

    /// Whether a location stands for a call chain that was recorded elsewhere.
    fn is_cookie(&self, location: LocationId, cookie: u64) -> bool {
        let location = self.profile.location(location);
        location.address.0 == cookie && self.profile.dso(location.dso).kind == DsoKind::Unknown
    }

    /// Which frame of a location chains end at, if it has one.
    fn stop_in(&self, location: LocationId) -> Option<usize> {
        if self.options.stop_at.is_empty() {
            return None;
        }
        let is_stop = |frame: &Frame| {
            let function = self.profile.function(frame.function);
            let name = self.profile.name(function.name);
            function.unnamed.is_none() && self.options.stop_at.iter().any(|stop| stop == name)
        };
        let frames = self.profile.frames_at(location);
        let own = usize::from(!self.options.inlines) * frames.len().saturating_sub(1);
        let stop = frames.iter().skip(own).position(is_stop);
        stop.map(|at| at + own)
    }

    /// The address alone, of events without call chains.
    fn single(&self, details: &Details<'_>, fields: Fields, out: &mut Vec<u8>) {
        put(out, format_args!("{:16x}", details.ip));
        let Some((_, id)) = self.profile.stacks.get(details.sample.stack) else {
            return;
        };
        let location = self.profile.location(id);
        // The function that stands in the file: inlining is for chains.
        let frames = self.profile.frames_at(id);
        let host = frames.last();
        let place = self.at(location, fields);
        place.names(host, out);
        if fields.has(Field::SrcLine) {
            place.source(frames.first(), out);
        }
    }

    fn dso_name(&self, id: DsoId) -> &'p str {
        let dso = self.profile.dso(id);
        self.profile.name(match dso.kind {
            DsoKind::Kernel | DsoKind::KernelModule if self.options.kernel_path => dso.path,
            _ => dso.beside_address,
        })
    }

    /// The lines of one location of a chain, inlined functions first.
    fn lines_of(&mut self, id: LocationId, fields: Fields, is_unwound: bool) -> Run {
        let index = id.0 as usize;
        let fields = fields.and(FRAME_FIELDS);
        let form = (fields, is_unwound);
        if let Some(Some((made_in, run))) = self.known.get(index)
            && *made_in == form
        {
            return *run;
        }
        let mut lines = std::mem::take(&mut self.lines);
        let start = lines.len();
        let location = shown_location(self.profile, id, is_unwound);
        self.at(&location, fields).frames(usize::MAX, &mut lines);
        let run = Run {
            start,
            len: lines.len() - start,
        };
        self.lines = lines;
        if let Some(slot) = self.known.get_mut(index) {
            *slot = Some((form, run));
        }
        run
    }
}

/// A location on its way to text, with the fields that are asked for.
struct ShownLocation<'a, 'p> {
    writer: &'a ScriptWriter<'p>,
    location: &'a Location,
    fields: Fields,
}

impl ShownLocation<'_, '_> {
    /// The function of a frame and the file it is in.
    fn names(&self, frame: Option<&Frame>, out: &mut Vec<u8>) {
        let Self {
            location, fields, ..
        } = *self;
        if fields.has(Field::Sym) {
            out.push(b' ');
            let function = frame.map(|frame| self.writer.profile.function(frame.function));
            let function = function.filter(|function| function.unnamed.is_none());
            let symbol = function.map(|function| {
                let name = self.writer.profile.name(function.name);
                (name, location.address.0.wrapping_sub(self.host_start()))
            });
            push_symbol(symbol, fields.has(Field::SymOff) && self.has_start(), out);
        }
        if shows_dso(fields) && !frame.is_some_and(|frame| frame.is_inline) {
            let name = escape::terminal(self.writer.dso_name(location.dso));
            put(out, format_args!(" ({name}"));
            if fields.has(Field::DsoOff) && self.is_in_file() {
                put(out, format_args!("+0x{:x}", location.file_offset.0));
            }
            out.push(b')');
        }
    }

    /// Whether an offset in its file says more than the address: as perf, not
    /// in the kernel, which no file is mapped for.
    fn is_in_file(&self) -> bool {
        let kind = self.writer.profile.dso(self.location.dso).kind;
        matches!(kind, DsoKind::File | DsoKind::Vdso | DsoKind::Jit)
    }

    /// Whether anyone knows where the function begins: not of code made at run time
    /// whose runtime told nothing but its name.
    fn has_start(&self) -> bool {
        let kind = self.writer.profile.dso(self.location.dso).kind;
        kind != DsoKind::Jit || self.host_start() != 0
    }

    /// Start of the function that stands in the file: inlined ones have none.
    fn host_start(&self) -> u64 {
        let frames = self.writer.profile.frames.get(self.location.frames.range());
        let host = frames.and_then(<[Frame]>::last);
        host.map_or(self.location.address.0, |frame| {
            self.writer.profile.function(frame.function).start.0
        })
    }

    /// The lines of the first `most` frames.
    fn frames(&self, most: usize, out: &mut Vec<u8>) {
        let frames = self.writer.profile.frames.get(self.location.frames.range());
        let frames = frames.unwrap_or_default();
        if self.writer.options.inlines {
            let frames = frames.iter().take(most);
            frames.for_each(|frame| self.line(frame, frame, out));
        } else if let (Some(place), Some(host)) = (frames.first(), frames.last()) {
            self.line(host, place, out);
        }
    }

    /// The line of one frame of a chain, with the source line of another.
    fn line(&self, frame: &Frame, place: &Frame, out: &mut Vec<u8>) {
        put(out, format_args!("\t{:16x}", self.address()));
        self.names(Some(frame), out);
        if self.fields.has(Field::SrcLine) {
            self.source(Some(place), out);
        }
        if frame.is_inline {
            out.extend(b" (inlined)");
        }
        out.push(b'\n');
    }

    /// File and line; without them the file and the address in it.
    fn source(&self, frame: Option<&Frame>, out: &mut Vec<u8>) {
        if let Some((file, line)) = frame.and_then(|frame| Some((frame.file?, frame.line))) {
            let path = self.writer.profile.name(file);
            let last_part = path.rsplit('/').next().unwrap_or(path);
            let name = if self.writer.options.full_source_path {
                path
            } else {
                last_part
            };
            put(out, format_args!("\n  {}:{line}", escape::terminal(name)));
            return;
        }
        let dso = self.writer.profile.dso(self.location.dso);
        if dso.kind != DsoKind::Unknown {
            let name = escape::terminal(self.writer.profile.name(dso.short_name));
            put(out, format_args!("\n  {name}[{:x}]", self.address()));
        }
    }

    /// Chains show addresses in the file for user code, live ones for kernel
    /// code and where there is no file.
    fn address(&self) -> u64 {
        let location = self.location;
        match self.writer.profile.dso(location.dso).kind {
            DsoKind::Kernel | DsoKind::KernelModule | DsoKind::KernelSymbol
                if location.mode == CpuMode::Kernel =>
            {
                location.address.0
            }
            DsoKind::Jit => location.address.0,
            _ => location.file_offset.0,
        }
    }
}

/// Whether the file is shown: an offset in it asks for it, too.
fn shows_dso(fields: Fields) -> bool {
    fields.has(Field::Dso) || fields.has(Field::DsoOff)
}

/// A location as its lines show it: callers of an unwound chain by their call.
fn shown_location(profile: &Profile, id: LocationId, is_unwound: bool) -> Location {
    let mut location = *profile.location(id);
    if is_unwound && location.is_return && location.mode == CpuMode::User {
        location.address.0 = location.address.0.wrapping_sub(1);
        location.file_offset.0 = location.file_offset.0.wrapping_sub(1);
    }
    location
}

/// What stands for a call chain that was recorded elsewhere.
fn push_cookie(cookie: u64, fields: Fields, out: &mut Vec<u8>) {
    put(out, format_args!("\t{cookie:16x}"));
    if fields.has(Field::Sym) {
        out.extend(b" (cookie)");
    }
    if shows_dso(fields) {
        out.extend(b" ([unknown])");
    }
    out.push(b'\n');
}

/// A frame of a chain that no stack of the profile holds.
pub fn push_frame(place: &NamedAddress<'_>, fields: Fields, out: &mut Vec<u8>) {
    put(out, format_args!("\t{:16x}", place.file_offset));
    if fields.has(Field::Sym) {
        out.push(b' ');
        push_symbol(place.symbol, fields.has(Field::SymOff), out);
    }
    if shows_dso(fields) {
        let dso = place.dso.unwrap_or("[unknown]");
        put(out, format_args!(" ({}", escape::terminal(dso)));
        let is_kernel = place.address >> 63 != 0;
        if fields.has(Field::DsoOff) && place.dso.is_some() && !is_kernel {
            put(out, format_args!("+0x{:x}", place.file_offset));
        }
        out.push(b')');
    }
    out.push(b'\n');
}

/// `name+0x12`, or `[unknown]`.
fn push_symbol(symbol: Option<(&str, u64)>, with_offset: bool, out: &mut Vec<u8>) {
    match symbol {
        Some((name, offset)) => {
            out.extend(escape::terminal(name).as_bytes());
            if with_offset {
                put(out, format_args!("+0x{offset:x}"));
            }
        }
        None => out.extend(b"[unknown]"),
    }
}

/// Bytes of a payload: text stays, control characters become visible.
fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for (index, part) in chunk.valid().split('\n').enumerate() {
            if index > 0 {
                out.extend(b"\\n");
            }
            // A tab is part of some formats and moves nothing that matters.
            for (index, piece) in part.split('\t').enumerate() {
                if index > 0 {
                    out.push(b'\t');
                }
                out.extend(escape::terminal(piece).as_bytes());
            }
        }
        for byte in chunk.invalid() {
            put(out, format_args!("\\x{byte:02x}"));
        }
    }
}

/// What follows the address.
fn tail(details: &Details<'_>, fields: Fields, out: &mut Vec<u8>) {
    if fields.has(Field::Iregs) {
        push_registers(details.interrupt_registers, out);
    }
    if fields.has(Field::Uregs) {
        push_registers(details.user_registers, out);
    }
    if let Some(branches) = details.branches {
        push_branches(branches, fields, out);
    }
    if let Some(bytes) = details.bpf_output.filter(|_| fields.has(Field::BpfOutput)) {
        push_bpf_output(bytes, out);
    }
    if fields.has(Field::InsnLen) {
        put(out, format_args!(" ilen: {}", details.instruction.len()));
    }
    if fields.has(Field::Insn) && !details.instruction.is_empty() {
        out.extend(b" insn:");
        for byte in details.instruction {
            put(out, format_args!(" {byte:02x}"));
        }
    }
    out.extend_from_slice(details.blocks);
    if let Some(address) = details.phys_addr.filter(|_| fields.has(Field::PhysAddr)) {
        put(out, format_args!("{address:16x}"));
    }
    let sizes = [
        (Field::DataPageSize, details.data_page_size),
        (Field::CodePageSize, details.code_page_size),
    ];
    for (field, size) in sizes {
        if let Some(size) = size.filter(|_| fields.has(field)) {
            put(out, format_args!(" {}", page_size(size)));
        }
    }
    if let Some(path) = details.cgroup.filter(|_| fields.has(Field::Cgroup)) {
        put(out, format_args!(" {}", escape::terminal(path)));
    }
}

fn push_registers(registers: Option<(u64, &[(&str, u64)])>, out: &mut Vec<u8>) {
    let Some((abi, values)) = registers else {
        return;
    };
    put(out, format_args!(" ABI:{abi} "));
    for (name, value) in values {
        put(out, format_args!("{name:>5}:0x{value:x} "));
    }
}

fn push_branches(branches: &[Branch<'_>], fields: Fields, out: &mut Vec<u8>) {
    let with_dso = fields.has(Field::Dso);
    let flag = |on: bool, letter: char| if on { letter } else { '-' };
    let push_dso = |place: &NamedAddress<'_>, out: &mut Vec<u8>| {
        if with_dso {
            let dso = place.dso.unwrap_or("[unknown]");
            put(out, format_args!("({})", escape::terminal(dso)));
        }
    };
    for branch in branches {
        if fields.has(Field::BrStack) {
            put(out, format_args!(" 0x{:x}", branch.from.address));
            push_dso(&branch.from, out);
            put(out, format_args!("/0x{:x}", branch.to.address));
            push_dso(&branch.to, out);
        } else if fields.has(Field::BrStackSym) {
            push_symbol(branch.from.symbol, true, out);
            push_dso(&branch.from, out);
            out.push(b'/');
            push_symbol(branch.to.symbol, true, out);
            push_dso(&branch.to, out);
        } else if fields.has(Field::BrStackOff) {
            put(out, format_args!(" 0x{:x}", branch.from.file_offset));
            push_dso(&branch.from, out);
            put(out, format_args!("/0x{:x}", branch.to.file_offset));
            push_dso(&branch.to, out);
        } else {
            return;
        }
        let (transaction, abort) = (flag(branch.in_transaction, 'X'), flag(branch.abort, 'A'));
        let (prediction, cycles) = (branch.prediction, branch.cycles);
        let kind = branch.kind;
        put(
            out,
            format_args!("/{prediction}/{transaction}/{abort}/{cycles}/{kind} "),
        );
    }
}

fn push_bpf_output(bytes: &[u8], out: &mut Vec<u8>) {
    let text = bytes
        .iter()
        .all(|byte| matches!(byte, 0x20..0x7f | 0 | b'\n' | b'\t'));
    for (index, line) in bytes.chunks(16).enumerate() {
        let head = if index == 0 {
            "\n      BPF output:"
        } else {
            "\n                 "
        };
        put(out, format_args!("{head} {:04x}:", index * 16));
        for byte in line {
            put(out, format_args!(" {byte:02x}"));
        }
    }
    if text && !bytes.is_empty() {
        out.extend(b"\n      BPF string: \"");
        let end = bytes
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(bytes.len());
        push_bytes(bytes.get(..end).unwrap_or_default(), out);
        out.push(b'"');
    }
    out.push(b'\n');
}

/// A page size as perf names it: `4K`, `2M`, `1G`.
fn page_size(size: u64) -> String {
    match size {
        0 => "N/A".to_owned(),
        size if size.is_multiple_of(1 << 30) => format!("{}G", size >> 30),
        size if size.is_multiple_of(1 << 20) => format!("{}M", size >> 20),
        size if size.is_multiple_of(1 << 10) => format!("{}K", size >> 10),
        size => format!("{size}B"),
    }
}

/// `2026-11-21 08:30:00` in UTC, from seconds since 1970.
fn civil_time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March put the leap day last (Hinnant, "chrono
    // compatible low-level date algorithms").
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
