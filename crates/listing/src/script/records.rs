//! Records other than samples, on request.

use prof_abi::{AttrFlags, Misc, RecordType};
use prof_live::Processes;
use prof_perfdata::body::FileIdentity;
use prof_perfdata::{Body, Record};
use prof_report::escape;
use prof_report::script::{EventKind, Field, Selection, Times};
use std::io::Write as _;

/// The types of records that are printed.
#[derive(Debug)]
pub struct Shown(Vec<RecordType>);

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory");
}

impl Shown {
    /// Those of `types`.
    pub fn new(types: impl IntoIterator<Item = RecordType>) -> Self {
        Self(types.into_iter().collect())
    }

    /// Whether records are printed as they lie in the file. As perf, which
    /// shows the ends of rounds that way.
    pub(crate) fn in_file_order(&self) -> bool {
        self.wants(RecordType::FINISHED_ROUND)
    }

    /// Whether records of this type are printed.
    pub fn wants(&self, kind: RecordType) -> bool {
        self.0.contains(&kind)
    }
}

/// A record that is no sample, and what is known of processes at its time.
#[derive(Clone, Copy)]
pub(super) struct Other<'a> {
    pub(super) record: &'a Record<'a>,
    pub(super) body: &'a Body<'a>,
    pub(super) processes: &'a Processes,
}

/// How records are printed.
pub(super) struct Layout<'a> {
    /// The fields of the samples.
    pub(super) selection: &'a Selection,
    /// Of each event whether its samples are printed with call chains.
    pub(super) chains: &'a [bool],
    /// How times are printed.
    pub(super) times: &'a mut Times,
}

/// Appends a record as `perf script --show-…-events` prints it.
pub(super) fn write(of: Other<'_>, layout: Layout<'_>, out: &mut Vec<u8>) {
    if of.record.kind == RecordType::FINISHED_ROUND {
        put(out, format_args!("PERF_RECORD_FINISHED_ROUND\n"));
        return;
    }
    head(of, layout, out);
    let name = of.record.kind.name().unwrap_or("UNKNOWN");
    put(out, format_args!("PERF_RECORD_{name}"));
    content(of.record, of.body, out);
    out.push(b'\n');
}

/// Appends the line above a user call chain that stands apart.
pub(super) fn write_deferred(of: Other<'_>, cookie: u64, layout: Layout<'_>, out: &mut Vec<u8>) {
    head(of, layout, out);
    put(
        out,
        format_args!("DEFERRED CALLCHAIN [cookie: {cookie:x}]\n"),
    );
}

/// Thread, CPU and time; of records without a trailer what their body tells.
fn head(of: Other<'_>, layout: Layout<'_>, out: &mut Vec<u8>) {
    let Other {
        record,
        body,
        processes,
    } = of;
    let id = record.sample_id();
    let own = own_ids(body);
    let (pid, tid) = id.pid.zip(id.tid).or(own).unwrap_or((-1, -1));
    // The name is that of the thread the record is about.
    let about = own.map_or(tid, |(_, tid)| tid);
    let index = record.event_index().unwrap_or(0);
    let kind = record
        .event()
        .map_or(EventKind::Other, |event| EventKind::of(event.attr.kind));
    let fields = layout.selection.of(kind);
    // Above a chain the name stands at the left.
    let has_chains = layout.chains.get(index).copied().unwrap_or(false);
    if fields.has(Field::Comm) {
        let comm = match processes.comm_of(about) {
            Some(name) => processes.names.get(name).to_owned(),
            None if about == 0 => "swapper".to_owned(),
            None => format!(":{about}"),
        };
        let comm = escape::terminal(&comm);
        if has_chains && fields.has(Field::Ip) {
            put(out, format_args!("{comm} "));
        } else {
            put(out, format_args!("{comm:>16} "));
        }
    }
    match (fields.has(Field::Pid), fields.has(Field::Tid)) {
        (true, true) => put(out, format_args!("{pid:5}/{tid:<5} ")),
        (true, false) => put(out, format_args!("{pid:5} ")),
        (false, true) => put(out, format_args!("{tid:5} ")),
        (false, false) => {}
    }
    if fields.has(Field::Cpu) {
        // As perf: -1 where the trailer has none, 0 where there is no trailer.
        let event = record.event();
        let has_trailer = event.is_some_and(|event| event.attr.flags.has(AttrFlags::SAMPLE_ID_ALL));
        let cpu = id.cpu.map_or(-i64::from(has_trailer), i64::from);
        put(out, format_args!("[{cpu:03}] "));
    }
    if fields.has(Field::Misc) {
        let misc = misc_letters(record);
        put(out, format_args!("{misc:<5} "));
    }
    if fields.has(Field::Time) {
        layout.times.push(id.time.unwrap_or(0), out);
    }
}

/// `misc` of a record's header as perf prints it: a letter for the mode, and
/// those of its type.
pub(super) fn misc_letters(record: &Record<'_>) -> String {
    let misc = record.misc;
    let modes = [(1, 'K'), (2, 'U'), (3, 'H'), (4, 'G'), (5, 'g')];
    let modes = modes.map(|(bits, letter)| (misc.0 & bits == bits, letter));
    let of_type: &[(bool, char)] = match record.kind {
        RecordType::MMAP | RecordType::MMAP2 => &[(misc.has(Misc::MMAP_DATA), 'M')],
        RecordType::COMM => &[(misc.has(Misc::COMM_EXEC), 'E')],
        RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE => {
            let is_out = misc.has(Misc::SWITCH_OUT);
            let is_preempted = is_out && misc.has(Misc::SWITCH_OUT_PREEMPT);
            &[(is_out, 'S'), (is_preempted, 'p')]
        }
        _ => &[],
    };
    let all = modes.iter().chain(of_type);
    all.filter(|(has, _)| *has)
        .map(|(_, letter)| *letter)
        .collect()
}

fn own_ids(body: &Body<'_>) -> Option<(i32, i32)> {
    Some(match body {
        Body::Mmap(map) => (map.pid, map.tid),
        Body::Mmap2(map) => (map.pid, map.tid),
        Body::Comm(comm) => (comm.pid, comm.tid),
        Body::Fork(task) | Body::Exit(task) => (task.pid, task.tid),
        Body::Namespaces(namespaces) => (namespaces.pid, namespaces.tid),
        _ => return None,
    })
}

/// A number as C prints it with `%#x`: zero has no prefix.
struct Hex(u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => out.write_str("0"),
            value => write!(out, "{value:#x}"),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    escape::terminal(&String::from_utf8_lossy(bytes)).into_owned()
}

fn content(record: &Record<'_>, body: &Body<'_>, out: &mut Vec<u8>) {
    let misc = record.misc;
    match body {
        Body::Mmap(map) => {
            let (start, len, offset) = (Hex(map.start), Hex(map.len), Hex(map.file_offset));
            let letter = if misc.has(Misc::MMAP_DATA) { 'r' } else { 'x' };
            let (pid, tid, path) = (map.pid, map.tid, text(map.path.bytes()));
            put(
                out,
                format_args!(" {pid}/{tid}: [{start}({len}) @ {offset}]: {letter} {path}"),
            );
        }
        Body::Mmap2(map) => mmap2(map, out),
        Body::Comm(comm) => {
            let exec = if misc.has(Misc::COMM_EXEC) {
                " exec"
            } else {
                ""
            };
            let (name, pid, tid) = (text(comm.name.bytes()), comm.pid, comm.tid);
            put(out, format_args!("{exec}: {name}:{pid}/{tid}"));
        }
        Body::Fork(task) | Body::Exit(task) => {
            let (pid, tid, ppid, ptid) = (task.pid, task.tid, task.parent_pid, task.parent_tid);
            put(out, format_args!("({pid}:{tid}):({ppid}:{ptid})"));
        }
        Body::Switch(_) | Body::SwitchCpuWide(_) => switch(misc, body, out),
        Body::Lost(lost) => put(out, format_args!(" lost {}", lost.lost)),
        Body::LostSamples(lost) => put(out, format_args!(" lost {}", lost.lost)),
        Body::Ksymbol(symbol) => ksymbol(symbol, out),
        Body::BpfEvent(event) => {
            let (kind, flags, id) = (event.kind, event.flags, event.id);
            put(out, format_args!(" type {kind}, flags {flags}, id {id}"));
        }
        Body::Cgroup(cgroup) => {
            let path = text(cgroup.path.bytes());
            put(out, format_args!(" cgroup: {} {path}", cgroup.id));
        }
        Body::Namespaces(namespaces) => spaces(namespaces, out),
        Body::TextPoke(poke) => text_poke(poke, out),
        _ => {}
    }
}

fn mmap2(map: &prof_perfdata::body::Mmap2<'_>, out: &mut Vec<u8>) {
    let (start, len, offset) = (Hex(map.start), Hex(map.len), Hex(map.file_offset));
    put(
        out,
        format_args!(" {}/{}: [{start}({len}) @ {offset} ", map.pid, map.tid),
    );
    match map.file {
        FileIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } => put(
            out,
            format_args!("{major:02x}:{minor:02x} {inode} {generation}"),
        ),
        FileIdentity::BuildId { .. } => {
            let id = map.file.build_id().map(|id| id.to_string());
            put(out, format_args!("<{}>", id.unwrap_or_default()));
        }
    }
    let flag = |bit: u32, letter: char| if map.prot & bit != 0 { letter } else { '-' };
    const SHARED: u32 = 1;
    let sharing = if map.flags & SHARED != 0 { 's' } else { 'p' };
    let (read, write, execute) = (flag(1, 'r'), flag(2, 'w'), flag(4, 'x'));
    let path = text(map.path.bytes());
    put(
        out,
        format_args!("]: {read}{write}{execute}{sharing} {path}"),
    );
}

fn text_poke(poke: &prof_perfdata::body::TextPoke<'_>, out: &mut Vec<u8>) {
    let (addr, old, new) = (poke.start, poke.old_len, poke.new_len);
    put(out, format_args!(" {addr:x}  old len {old} new len {new}"));
    let sides = [("Old", poke.old()), ("New", poke.new_bytes())];
    for (side, bytes) in sides {
        for line in bytes.unwrap_or_default().chunks(16) {
            put(out, format_args!("\n            {side} bytes:"));
            for byte in line {
                put(out, format_args!(" {byte:02x}"));
            }
        }
    }
}

fn ksymbol(symbol: &prof_perfdata::body::Ksymbol<'_>, out: &mut Vec<u8>) {
    let (addr, len, kind) = (symbol.start, symbol.len, symbol.kind);
    let (flags, name) = (symbol.flags, text(symbol.name.bytes()));
    put(
        out,
        format_args!(" addr {addr:x} len {len} type {kind} flags 0x{flags:x} name {name}"),
    );
}

fn switch(misc: Misc, body: &Body<'_>, out: &mut Vec<u8>) {
    let direction = switch_direction(misc);
    put(out, format_args!(" {direction}"));
    if let Body::SwitchCpuWide(switch) = body {
        let other = match misc.has(Misc::SWITCH_OUT) {
            true => "next",
            false => "prev",
        };
        let (pid, tid) = (switch.next_prev_pid, switch.next_prev_tid);
        put(out, format_args!("  {other} pid/tid: {pid:5}/{tid:<5}"));
    }
}

fn switch_direction(misc: Misc) -> &'static str {
    match (
        misc.has(Misc::SWITCH_OUT),
        misc.has(Misc::SWITCH_OUT_PREEMPT),
    ) {
        (false, _) => "IN         ",
        (true, false) => "OUT        ",
        (true, true) => "OUT preempt",
    }
}

fn spaces(namespaces: &prof_perfdata::body::Namespaces<'_>, out: &mut Vec<u8>) {
    const NAMES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
    let all: Vec<_> = namespaces.namespaces.iter().collect();
    let (pid, tid, count) = (namespaces.pid, namespaces.tid, all.len());
    put(
        out,
        format_args!(" {pid}/{tid} - nr_namespaces: {count}\n\t\t["),
    );
    for (index, space) in all.iter().enumerate() {
        if index > 0 && index % 4 == 0 {
            put(out, format_args!("\n\t\t "));
        }
        let name = NAMES.get(index).copied().unwrap_or("unknown");
        let end = if index + 1 == count { "]" } else { ", " };
        put(
            out,
            format_args!("{index}/{name}: {}/{:#x}{end}", space.device, space.inode),
        );
    }
}
