//! What the records so far say of tasks, mappings and names, to be said again
//! where another file begins.
//!
//! Readers replay records in the order of their times, so the state is that of
//! a moment: records wait until nothing older can come, then change it.
//!
//! ```text
//! records ─► waiting, by time ─► state as of a moment ─► FORK, COMM, MMAP2, …
//! ```
//!
//! Text pokes are not repeated: only decoders of hardware traces read them.

use crate::synthesize::append_fork;
use prof_abi::{ByteOrder, Misc, RecordType};
use prof_perfdata::body::{Body, Task};
use prof_perfdata::write::{EventDescription, Trailer, append};
use prof_perfdata::{Event, Events, Record};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// How long a task that ended stays known, ns: its last samples are taken
/// behind its `EXIT`.
const LINGERS: u64 = 1_000_000_000;

/// The process of the kernel's mappings.
const KERNEL: i32 = -1;

/// Whether a record of this type changes the state.
pub(crate) fn is_state(kind: RecordType) -> bool {
    matches!(
        kind,
        RecordType::MMAP
            | RecordType::MMAP2
            | RecordType::COMM
            | RecordType::FORK
            | RecordType::EXIT
            | RecordType::NAMESPACES
            | RecordType::KSYMBOL
            | RecordType::BPF_EVENT
            | RecordType::CGROUP
    )
}

/// Keeps it.
#[derive(Debug)]
pub(crate) struct TaskState {
    events: Events,
    trailer: Trailer,
    /// By time and order of arrival.
    waiting: BTreeMap<(u64, u64), Vec<u8>>,
    arrived: u64,
    known: Known,
}

impl TaskState {
    /// For records of events as they are written.
    pub(crate) fn new(written: &[EventDescription]) -> Self {
        let mut events = Events::new(ByteOrder::NATIVE);
        for event in written {
            events.push(Event::new(event.attr.clone(), event.ids.clone()));
        }
        let first = written.first();
        Self {
            trailer: first.map_or(Trailer::NONE, |event| Trailer::of(&event.attr)),
            events,
            waiting: BTreeMap::new(),
            arrived: 0,
            known: Known::default(),
        }
    }

    /// A record for which [`is_state`] holds, and its time in ns.
    pub(crate) fn note(&mut self, time: u64, record: &[u8]) {
        self.waiting.insert((time, self.arrived), record.to_vec());
        self.arrived += 1;
    }

    /// Nothing older than `until`, ns, will come: the state is as of then.
    pub(crate) fn settle(&mut self, until: u64) {
        let later = self.waiting.split_off(&(until.saturating_add(1), 0));
        for (&(time, _), bytes) in &self.waiting {
            if let Some(record) = Record::new(bytes, 0, &self.events) {
                self.known.apply(&record, time);
            }
        }
        self.waiting = later;
        self.known.forget_ended(until);
    }

    /// Appends the state as records of time 0, as of what was there before a
    /// recording.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        self.known.append_to(&self.events, self.trailer, out);
    }

    /// Appends the records that wait, as they came.
    pub(crate) fn append_waiting(&self, out: &mut Vec<u8>) {
        let waiting = self.waiting.values();
        waiting.for_each(|record| out.extend_from_slice(record));
    }
}

/// A record that is kept to be written again.
type Kept = Arc<Vec<u8>>;

#[derive(Debug, Default)]
struct Known {
    processes: BTreeMap<i32, Process>,
    /// The process of each thread.
    threads: HashMap<i32, i32>,
    /// Thread and time, in order.
    ended: VecDeque<(i32, u64)>,
    /// By address.
    kernel_symbols: BTreeMap<u64, Kept>,
    /// By id.
    programs: BTreeMap<u32, Kept>,
    cgroups: BTreeMap<u64, Kept>,
}

#[derive(Debug, Default)]
struct Process {
    threads: BTreeMap<i32, Thread>,
    /// In the order of mapping: later ones hide earlier ones. Shared with
    /// children that have mapped nothing of their own yet.
    mappings: Arc<Vec<Mapped>>,
}

#[derive(Debug, Clone, Default)]
struct Thread {
    /// Process and thread that started it.
    parent: Option<(i32, i32)>,
    comm: Option<Kept>,
    namespaces: Option<Kept>,
    ended: Option<u64>,
}

#[derive(Debug, Clone)]
struct Mapped {
    start: u64,
    len: u64,
    record: Kept,
}

impl Known {
    fn apply(&mut self, record: &Record<'_>, time: u64) {
        let body = record.decode();
        let keep = || Arc::new(record.bytes.to_vec());
        match &body {
            Body::Mmap(map) => self.map(map.pid, (map.start, map.len), keep()),
            Body::Mmap2(map) => self.map(map.pid, (map.start, map.len), keep()),
            Body::Comm(comm) => {
                if record.misc.has(Misc::COMM_EXEC)
                    && let Some(process) = self.processes.get_mut(&comm.pid)
                {
                    process.mappings = Arc::default();
                }
                self.thread(comm.pid, comm.tid).comm = Some(keep());
            }
            Body::Namespaces(of) => self.thread(of.pid, of.tid).namespaces = Some(keep()),
            Body::Fork(task) => self.fork(task, record.misc.has(Misc::FORK_EXEC)),
            Body::Exit(task) => {
                self.thread(task.pid, task.tid).ended = Some(time);
                self.ended.push_back((task.tid, time));
            }
            Body::Ksymbol(symbol) if symbol.flags & 1 == 0 => {
                self.kernel_symbols.insert(symbol.start, keep());
            }
            Body::Ksymbol(symbol) => _ = self.kernel_symbols.remove(&symbol.start),
            Body::BpfEvent(program) if program.kind == 1 => {
                self.programs.insert(program.id, keep());
            }
            Body::BpfEvent(program) => _ = self.programs.remove(&program.id),
            Body::Cgroup(cgroup) => _ = self.cgroups.insert(cgroup.id, keep()),
            _ => {}
        }
    }

    fn thread(&mut self, pid: i32, tid: i32) -> &mut Thread {
        self.threads.insert(tid, pid);
        let process = self.processes.entry(pid).or_default();
        process.threads.entry(tid).or_default()
    }

    fn map(&mut self, pid: i32, (start, len): (u64, u64), record: Kept) {
        let process = self.processes.entry(pid).or_default();
        let mappings = Arc::make_mut(&mut process.mappings);
        let end = start.saturating_add(len);
        mappings.retain(|old| old.start < start || old.start.saturating_add(old.len) > end);
        mappings.push(Mapped { start, len, record });
    }

    fn fork(&mut self, task: &Task, has_own_maps: bool) {
        let parent = self.processes.get(&task.parent_pid);
        let by = parent.and_then(|process| process.threads.get(&task.parent_tid));
        let new = Thread {
            parent: Some((task.parent_pid, task.parent_tid)),
            comm: by.and_then(|by| by.comm.clone()),
            namespaces: by.and_then(|by| by.namespaces.clone()),
            ended: None,
        };
        if task.pid != task.parent_pid {
            let mappings = match parent {
                Some(parent) if !has_own_maps => parent.mappings.clone(),
                _ => Arc::default(),
            };
            let process = Process {
                threads: BTreeMap::new(),
                mappings,
            };
            self.processes.insert(task.pid, process);
        }
        *self.thread(task.pid, task.tid) = new;
    }

    /// Forgets tasks that ended long before `now`.
    fn forget_ended(&mut self, now: u64) {
        let is_over = |&&(_, time): &&(i32, u64)| time.saturating_add(LINGERS) <= now;
        while let Some(&(tid, time)) = self.ended.front().filter(is_over) {
            self.ended.pop_front();
            let Some(&pid) = self.threads.get(&tid) else {
                continue;
            };
            let Some(process) = self.processes.get_mut(&pid) else {
                continue;
            };
            // Another may have the number by now.
            if process.threads.get(&tid).and_then(|thread| thread.ended) != Some(time) {
                continue;
            }
            process.threads.remove(&tid);
            self.threads.remove(&tid);
            if process.threads.is_empty() {
                self.processes.remove(&pid);
            }
        }
    }

    fn append_to(&self, events: &Events, trailer: Trailer, out: &mut Vec<u8>) {
        let say = Say { events, trailer };
        let of_kernel = self.programs.values();
        let of_kernel = of_kernel.chain(self.kernel_symbols.values());
        if let Some(kernel) = self.processes.get(&KERNEL) {
            kernel.append_to(KERNEL, &say, out);
        }
        for record in of_kernel.chain(self.cgroups.values()) {
            say.again(record, None, out);
        }
        for (&pid, process) in self.processes.range(0..) {
            process.append_to(pid, &say, out);
        }
    }
}

impl Process {
    fn append_to(&self, pid: i32, say: &Say<'_>, out: &mut Vec<u8>) {
        let main = self.threads.get_key_value(&pid);
        if let Some((&tid, thread)) = main {
            thread.append_to((pid, tid), say, out);
        }
        for mapped in self.mappings.iter() {
            let tid = if pid == KERNEL { 0 } else { pid };
            say.again(&mapped.record, Some((pid, tid)), out);
        }
        let others = self.threads.iter().filter(|&(&tid, _)| tid != pid);
        for (&tid, thread) in others {
            thread.append_to((pid, tid), say, out);
        }
    }
}

impl Thread {
    fn append_to(&self, (pid, tid): (i32, i32), say: &Say<'_>, out: &mut Vec<u8>) {
        if let Some(parent) = self.parent {
            append_fork((pid, tid), parent, &say.trailer_of(pid, tid), out);
        }
        for record in [&self.namespaces, &self.comm].into_iter().flatten() {
            say.again(record, Some((pid, tid)), out);
        }
    }
}

/// Writes records again.
struct Say<'a> {
    events: &'a Events,
    trailer: Trailer,
}

impl Say<'_> {
    fn trailer_of(&self, pid: i32, tid: i32) -> Trailer {
        self.trailer
            .for_thread(pid.cast_unsigned(), tid.cast_unsigned())
    }

    /// Appends a record as of another task and of time 0.
    fn again(&self, record: &[u8], task: Option<(i32, i32)>, out: &mut Vec<u8>) {
        let Some(record) = Record::new(record, 0, self.events) else {
            return;
        };
        let mut body = record.decode();
        let (pid, tid) = task.unwrap_or_default();
        if task.is_some() {
            match &mut body {
                Body::Mmap(map) => (map.pid, map.tid) = (pid, tid),
                Body::Mmap2(map) => (map.pid, map.tid) = (pid, tid),
                Body::Comm(comm) => (comm.pid, comm.tid) = (pid, tid),
                Body::Namespaces(of) => (of.pid, of.tid) = (pid, tid),
                _ => {}
            }
        }
        // What is said again is no exec: that would drop the mappings.
        let misc = match record.kind {
            RecordType::COMM => Misc(0),
            _ => record.misc,
        };
        // It was a record, so it fits one.
        let _ = append(&body, misc, &self.trailer_of(pid, tid), out);
    }
}

#[cfg(test)]
mod tests {
    use super::{LINGERS, TaskState};
    use prof_abi::{AttrFlags, EventAttr, Misc, SampleType};
    use prof_perfdata::body::{Body, Comm, FileIdentity, Mmap2, Name, Task};
    use prof_perfdata::write::{EventDescription, Trailer, append_short};

    fn event() -> EventDescription {
        EventDescription {
            attr: EventAttr {
                sample_type: SampleType::TID | SampleType::TIME,
                flags: AttrFlags::SAMPLE_ID_ALL,
                ..EventAttr::default()
            },
            ids: vec![1],
            name: "cpu-clock".into(),
        }
    }

    /// A state to which records of these bodies came at these times.
    fn state(records: &[(u64, Body<'_>, Misc)]) -> TaskState {
        let mut state = TaskState::new(&[event()]);
        for (time, body, misc) in records {
            let mut bytes = Vec::new();
            append_short(body, *misc, &Trailer::of(&event().attr), &mut bytes);
            state.note(*time, &bytes);
        }
        state
    }

    fn comm(pid: i32, name: &'static str) -> Body<'static> {
        let name = Name::of_thread(name.as_bytes());
        Body::Comm(Comm {
            pid,
            tid: pid,
            name,
        })
    }

    fn task(pid: i32, parent: i32) -> Task {
        Task {
            pid,
            parent_pid: parent,
            tid: pid,
            parent_tid: parent,
            time: 0,
        }
    }

    fn map(pid: i32, start: u64, path: &'static str) -> Body<'static> {
        Body::Mmap2(Mmap2 {
            pid,
            tid: pid,
            start,
            len: 0x1000,
            file_offset: 0,
            file: FileIdentity::NONE,
            prot: 5,
            flags: 2,
            path: Name::new(path.as_bytes()),
        })
    }

    /// Whether what is said again has this text.
    fn says(state: &TaskState, text: &str) -> bool {
        let mut out = Vec::new();
        state.append_to(&mut out);
        out.windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
    }

    #[test]
    fn the_state_is_that_of_a_moment_whatever_the_order_of_arrival() {
        let none = Misc(0);
        let mut state = state(&[
            (30, comm(7, "late"), none),
            (20, map(7, 0x5000, "/lib/new"), none),
            (10, map(7, 0x5000, "/lib/hidden"), none),
            (5, comm(7, "early"), none),
        ]);
        state.settle(25);
        assert!(says(&state, "early") && !says(&state, "late"));
        assert!(says(&state, "/lib/new") && !says(&state, "/lib/hidden"));
        state.settle(30);
        assert!(says(&state, "late") && !says(&state, "early"));
    }

    #[test]
    fn children_have_what_their_parent_had_until_they_execute() {
        let none = Misc(0);
        let records = [
            (1, comm(7, "parent"), none),
            (2, map(7, 0x5000, "/bin/parent"), none),
            (3, Body::Fork(task(8, 7)), none),
            (4, Body::Exit(task(7, 1)), none),
        ];
        let mut state = state(&records);
        let ended = 4 + LINGERS;
        state.settle(ended - 1);
        assert_eq!(state.known.processes.len(), 2);
        // The child keeps both when the parent is forgotten.
        state.settle(ended);
        assert_eq!(state.known.processes.len(), 1);
        assert!(says(&state, "parent") && says(&state, "/bin/parent"));
        let mut bytes = Vec::new();
        let trailer = Trailer::of(&event().attr);
        append_short(&comm(8, "child"), Misc::COMM_EXEC, &trailer, &mut bytes);
        state.note(ended + 1, &bytes);
        state.settle(ended + 1);
        assert!(says(&state, "child") && !says(&state, "/bin/parent"));
    }
}
