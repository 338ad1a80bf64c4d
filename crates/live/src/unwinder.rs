//! Records of drained rings in, records to be written out: samples unwound on
//! the way, all in the order of time.

use super::alive::{Alive, user_of};
use super::chains::{Chains, Decided};
use super::drained::{Content, Drain, Drained, ToUnwind};
use super::files::LiveFiles;
use super::left_out::{self, LeftOut};
use super::memory::{MemorySnapshot, TargetMemory, WantedMemory};
use super::outbox::{Candidate, Ended, Outbox};
use super::snapshots::Snapshots;
use super::stack_starts::StackStarts;
use super::summary::LiveSummary;
use super::thread_sample::{Naming, ThreadSample};
use super::user_chain::{ChainRecord, UserChain};
use crate::processes::Processes;
use crate::provisional::is_provisional;
use crate::stacks::UserState;
use prof_abi::{ByteOrder, CallchainContext, CpuMode, EventAttr, Misc, RecordType, SampleType};
use prof_perfdata::body::{FileIdentity, Mmap2, Name};
use prof_perfdata::write::{Trailer, UserChainRewriter, append_short};
use prof_perfdata::{Body, Event, Events, Record, Sample};
use prof_profile::{Avma, ChainEnd, DsoKind};
use prof_unwind::Machine;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Drains for which the processes count as busy after one used memory beyond
/// a copied piece, or started, or mapped code.
const URGENT: u64 = 64;

/// Drains after which it is seen whether too many files are open.
const LOOK_EVERY: u64 = 32;
/// Files that are kept open under any limit.
const FEWEST_FILES: usize = 16;

/// Most processes whose users are remembered.
const MAX_USERS: usize = 1 << 14;

/// Counts beside the chains.
#[derive(Debug, Default)]
struct Counts {
    ends: FxHashMap<Ended, u64>,
    shortened: u64,
    malformed: u64,
}

/// Unwinding is compiled here, once, and not by each crate that has a memory of its
/// own kind: a read is a system call, beside which a call through a table is nothing.
type SomeMemory = Box<dyn TargetMemory + Send>;

/// Turns samples with registers and a piece of stack into samples with a call
/// chain; passes on everything else.
///
/// It is given the records of each ring, then told that all rings were
/// drained, and gives back the records to be written, in order of time. A
/// sample that runs into code of which no record has told yet is held back
/// until the next drain, and so is, for some drains, one whose chain rests on
/// memory that was read later.
pub struct LiveUnwinder {
    events: Events,
    rewriters: Vec<UserChainRewriter>,
    /// The event whose samples are of threads that then stand still.
    of_waits: Option<usize>,
    /// Thread and time of samples of it with names that are not proved yet.
    named: Vec<(i32, u64)>,
    machine: Machine,
    processes: Processes,
    alive: Alive,
    /// Files that were not opened, when that was last looked at.
    missed_files: u64,
    chains: Chains<LiveFiles, SomeMemory>,
    held: Held,
    /// Those of them, by thread and time, that exec seemed to have left behind.
    stale: FxHashSet<(i32, u64)>,
    outbox: Outbox,
    chain: UserChain,
    /// The proven part of it.
    proven: UserChain,
    /// What the kernel found of the sample's user chain.
    frames: Vec<u64>,
    counts: Counts,
    left_out: LeftOut,
    /// Memory for samples to come.
    snapshots: Snapshots,
    switches: Switches,
    /// Time of the latest record so far.
    latest: u64,
    /// The last drain that told of new code.
    new_code: u64,
    /// Users of processes that made code at run time.
    uids: BTreeMap<i32, u32>,
}

/// What to do with records of context switches once they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switches {
    /// Write them: the user asked for them.
    Keep,
    /// Drop them: they were recorded only so that memory is read at the right
    /// time.
    Drop,
}

/// Samples held back until the next drain.
#[derive(Debug, Default)]
struct Held {
    records: Vec<u8>,
    /// The earliest of their times, ns.
    earliest: Option<u64>,
}

impl Held {
    fn hold(&mut self, drained: &Drained<'_>) {
        self.records.extend_from_slice(drained.record.bytes);
        let earliest = self.earliest.unwrap_or(u64::MAX);
        self.earliest = Some(earliest.min(drained.time));
    }
}

impl LiveUnwinder {
    /// For records of events opened with these attributes and ids; `machine`
    /// is that of the kernel.
    pub fn new(
        events: Vec<(EventAttr, Vec<u64>)>,
        machine: Machine,
        switches: Switches,
        memory: impl TargetMemory + Send + 'static,
    ) -> Self {
        let rewriters = events
            .iter()
            .map(|(attr, _)| UserChainRewriter::new(attr))
            .collect();
        let mut list = Events::new(ByteOrder::NATIVE);
        for (attr, ids) in events {
            list.push(Event::new(attr, ids));
        }
        Self {
            events: list,
            rewriters,
            of_waits: None,
            named: Vec::new(),
            machine,
            processes: Processes::for_unwinding(),
            alive: Alive::default(),
            missed_files: 0,
            chains: Chains::new(LiveFiles::default(), Box::new(memory)),
            held: Held::default(),
            stale: FxHashSet::default(),
            outbox: Outbox::default(),
            chain: UserChain::default(),
            proven: UserChain::default(),
            frames: Vec::new(),
            counts: Counts::default(),
            left_out: LeftOut::default(),
            snapshots: Snapshots::default(),
            switches,
            latest: 0,
            new_code: 0,
            uids: BTreeMap::new(),
        }
    }

    /// Leaves out the middle of user chains of more than `most` frames, at
    /// least [`FEWEST_FRAMES`](crate::FEWEST_FRAMES); otherwise of more than
    /// [`MOST_FRAMES`](crate::MOST_FRAMES).
    #[must_use]
    pub fn with_most_frames(mut self, most: usize) -> Self {
        self.left_out = LeftOut::beyond(most);
        self
    }

    /// Keeps at most so many files open that no process maps any more: each is a
    /// descriptor.
    #[must_use]
    pub fn with_most_files(mut self, most: usize) -> Self {
        let kept = &mut self.chains.stacks.most;
        kept.files = kept.files.min(most.max(FEWEST_FILES));
        self
    }

    /// Has the samples of event `index` tell as their address what a user
    /// register held (the kernel's number of it).
    #[must_use]
    pub fn with_address_from(mut self, index: usize, register: u32) -> Self {
        if let Some(rewriter) = self.rewriters.get_mut(index) {
            rewriter.take_address_from(register);
        }
        self
    }

    /// Has names that are not proved yet told with the samples of event `index`,
    /// whose threads then stand still: who takes those knows for how long, and
    /// settles their addresses ([`provisional`](crate::provisional)).
    #[must_use]
    pub fn with_waits(mut self, index: usize) -> Self {
        self.of_waits = Some(index);
        self
    }

    /// Thread and time of the samples that were told with names that are not proved yet,
    /// since this was last called: what these threads run was read before.
    pub fn take_named(&mut self) -> Vec<(i32, u64)> {
        std::mem::take(&mut self.named)
    }

    /// Where the stacks of threads start, as far as that is known by now: what lies
    /// above need not be in the records.
    pub fn stack_starts(&self) -> Arc<StackStarts> {
        Arc::clone(&self.chains.starts)
    }

    /// The attr of event `index` as the file's header must have it: it
    /// describes samples as they are written, with call chains instead of
    /// registers and stack.
    pub fn written_attr(&self, index: usize) -> Option<&EventAttr> {
        self.rewriters
            .get(index)
            .map(UserChainRewriter::written_attr)
    }

    /// Files whose unwind information is missing because no descriptor was left
    /// to open them.
    pub fn files_without_descriptor(&self) -> u64 {
        self.chains.files().without_descriptor()
    }

    /// How the stacks were unwound so far.
    pub fn summary(&self) -> LiveSummary {
        let mut summary = LiveSummary {
            shortened: self.counts.shortened,
            malformed: self.counts.malformed,
            uids: self.uids.clone(),
            ..LiveSummary::default()
        };
        for (ended, count) in &self.counts.ends {
            *summary.chain_ends.entry(ended.end).or_default() += count;
            if ended.end == ChainEnd::Root {
                continue;
            }
            let path = ended.dso.map(|dso| {
                let dso = self.processes.dsos().get(dso);
                String::from_utf8_lossy(&dso.path).into_owned()
            });
            let key = (path.unwrap_or_default(), ended.end);
            *summary.unrooted.entry(key).or_default() += count;
        }
        summary
    }

    /// Adds memory that the recorder read for samples of this drain or of the
    /// next ones.
    pub fn snapshots(&mut self, snapshots: impl IntoIterator<Item = MemorySnapshot>) {
        for snapshot in snapshots {
            self.snapshots.add(snapshot);
        }
    }

    /// Takes the snapshots that are no longer needed: their samples have been
    /// unwound, or will never come.
    pub fn used_snapshots(&mut self) -> impl Iterator<Item = MemorySnapshot> {
        self.snapshots.take_used(self.latest)
    }

    /// By thread, what the recorder should read when it samples that thread.
    pub fn wanted(&mut self) -> impl Iterator<Item = (i32, WantedMemory)> {
        self.chains.wanted()
    }

    /// Whether the recorder should read all of the stack with the first samples of
    /// threads that are new: lately such had more than was copied.
    pub fn wants_new_threads(&self) -> bool {
        self.chains.wants_new_threads()
    }

    /// Says whether samples arrive faster than they are unwound: memory that was
    /// not copied with a sample is then not read.
    pub fn pressed(&mut self, is_pressed: bool) {
        self.chains.pressed(is_pressed);
    }

    /// Whether processes must be read soon after a record about them: their
    /// stacks are deeper than the copied pieces, or they map code, and both may
    /// be gone in a moment.
    pub fn is_urgent(&self) -> bool {
        let last = self.new_code.max(self.chains.last_beyond());
        self.chains.drain().saturating_sub(last) < URGENT
    }

    /// Takes the records of one drain of all rings (whole records, each ring's
    /// in its order), and gives `out`, piece by piece, those that can be
    /// written now.
    pub fn round(&mut self, records: &[u8], out: &mut dyn FnMut(&[u8])) {
        self.run(records, IfUnknown::Hold, out);
        self.release(self.chains.drain(), out);
    }

    /// Frees the buffers that wait for use: those that are needed come again.
    pub fn give_up_spares(&mut self) {
        self.outbox.give_up_spares();
    }

    /// The earliest time, in ns, of what is still held back.
    pub fn earliest_held(&self) -> Option<u64> {
        self.held
            .earliest
            .into_iter()
            .chain(self.outbox.earliest())
            .min()
    }

    /// Gives `out` everything that is still held back.
    pub fn finish(&mut self, out: &mut dyn FnMut(&[u8])) {
        self.run(&[], IfUnknown::Write, out);
        self.release(u64::MAX, out);
    }

    fn release(&mut self, now: u64, out: &mut dyn FnMut(&[u8])) {
        let (chains, ends) = (&self.chains, &mut self.counts.ends);
        let (mut links, mut calls) = (Vec::new(), Vec::new());
        self.outbox
            .look_again(|whose, slot| chains.is_sure(whose, slot));
        self.outbox.release(
            now,
            |trial| chains.judge(trial),
            |ended, sure| {
                *ends.entry(ended).or_default() += 1;
                if let Some(sure) = sure {
                    links.extend_from_slice(&sure.links);
                    calls.extend_from_slice(&sure.calls);
                }
            },
            out,
        );
        self.chains.confirm(&links, &calls);
    }

    fn run(&mut self, incoming: &[u8], if_unknown: IfUnknown, out: &mut dyn FnMut(&[u8])) {
        let held = std::mem::take(&mut self.held);
        self.chains.begin_drain();
        self.forget_ended();
        let events = std::mem::take(&mut self.events);
        let drain = Drain::new(&held.records, incoming, &events, self.machine);
        for drained in drain.records() {
            let if_unknown = match drained.was_held {
                true => IfUnknown::Write,
                false => if_unknown,
            };
            let record = &drained.record;
            let is_switch = matches!(
                record.kind,
                RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE
            );
            if record.kind == RecordType::SAMPLE {
                self.sample(&drain, drained, if_unknown);
            } else if !is_switch || self.switches == Switches::Keep {
                self.note(record);
                self.outbox
                    .ready(drained.time)
                    .extend_from_slice(record.bytes);
            }
            self.latest = self.latest.max(drained.time);
            if self.outbox.is_full() {
                self.release(self.chains.drain(), out);
            }
        }
        self.events = events;
        if self.held.records.is_empty() {
            self.stale.clear();
        }
    }

    /// Keeps process state up to date.
    fn note(&mut self, record: &Record<'_>) {
        let body = record.decode();
        let drain = self.chains.drain();
        match &body {
            // Names are for the reader.
            Body::Comm(comm) if !record.misc.has(Misc::COMM_EXEC) => {
                self.alive.is(comm.pid, comm.tid);
                return;
            }
            Body::Comm(comm) => {
                // The same thread, but on a stack of its own from now on.
                self.forget_thread(comm.tid);
                self.chains.begins();
                self.chains.stacks.forget(comm.pid);
                self.left_out.forget(comm.pid);
                self.alive.exec(comm.pid, drain);
            }
            Body::Fork(task) => {
                self.chains.begins();
                self.alive.is(task.pid, task.tid);
            }
            Body::Mmap(map) if map.pid >= 0 => self.alive.is(map.pid, map.tid),
            Body::Mmap2(map) if map.pid >= 0 => self.alive.is(map.pid, map.tid),
            Body::Exit(task) => {
                self.forget_thread(task.tid);
                if task.pid == task.tid {
                    self.left_out.forget(task.pid);
                }
                self.alive.ended(task.pid, task.tid, drain);
            }
            _ => {}
        }
        if let Some(dso) = self.processes.apply(record, &body)
            && let Some(pid) = body_pid(&body)
        {
            self.chains.stacks.prepare(&self.processes, dso, pid);
            self.new_code = drain;
            if self.processes.dsos().get(dso).kind == DsoKind::Jit {
                self.note_user(pid);
            }
        }
    }

    /// A thread ended, or runs another program.
    fn forget_thread(&mut self, tid: i32) {
        let chains = &self.chains;
        // Most that end were never sampled: the queue is not searched for them.
        if chains.know(tid) {
            self.outbox.ended(tid, |trial| chains.judge(trial));
        }
        self.chains.forget(tid);
    }

    /// Drops what is known of tasks whose last samples were unwound.
    fn forget_ended(&mut self) {
        let now = self.chains.drain();
        while let Some(gone) = self.alive.next_gone(now) {
            self.processes.forget(gone.tid, gone.process);
            if let Some(pid) = gone.process {
                self.chains.forget_process(pid);
                // Its last samples come behind its end.
                self.left_out.forget(pid);
            }
            // Samples that were held back made it known again.
            self.forget_thread(gone.tid);
        }
        let missed = self.files_without_descriptor();
        let is_full = std::mem::replace(&mut self.missed_files, missed) != missed;
        if now.is_multiple_of(LOOK_EVERY) || is_full {
            self.chains.stacks.close_unused(&self.processes);
        }
        if now.is_multiple_of(LOOK_EVERY) {
            self.chains.stacks.runtimes.ask_again();
        }
    }

    /// Remembers whose process made code.
    fn note_user(&mut self, pid: i32) {
        let is_new = self.uids.len() < MAX_USERS && !self.uids.contains_key(&pid);
        if let Some(uid) = is_new.then(|| user_of(pid)).flatten() {
            self.uids.insert(pid, uid);
        }
    }

    /// What a sample in user mode says of its process.
    fn note_mode(&mut self, record: &Record<'_>, pid: Option<i32>) {
        if record.misc.cpu_mode() == CpuMode::User
            && let Some(pid) = pid
        {
            self.processes.runs_user_code(pid);
        }
    }

    fn sample(&mut self, drain: &Drain<'_>, drained: &Drained<'_>, if_unknown: IfUnknown) {
        let record = &drained.record;
        let to_unwind = match drained.content {
            Content::Unwound(place) => drain.unwound(place),
            _ => None,
        };
        match (drained.content, to_unwind) {
            (Content::Unwound(_), Some(it)) => {
                self.note_mode(record, it.sample.pid());
                self.unwind(drained, it, if_unknown);
            }
            (Content::Plain, _) => {
                self.note_mode(record, record.sample_id().pid);
                self.outbox
                    .ready(drained.time)
                    .extend_from_slice(record.bytes);
            }
            _ => self.counts.malformed += 1,
        }
    }

    /// Unwinds a sample, or holds it back if its code is not known yet.
    fn unwind(&mut self, drained: &Drained<'_>, it: &ToUnwind<'_>, if_unknown: IfUnknown) {
        let (sample, time) = (&it.sample, drained.time);
        if let (Some(pid), Some(tid)) = (sample.pid(), sample.tid()) {
            self.alive.sampled(pid, tid, self.chains.drain());
        }
        let is_in_kernel = drained.record.misc.cpu_mode() == CpuMode::Kernel;
        let in_kernel = it.user.as_ref().filter(|_| is_in_kernel);
        let stale = &mut self.stale;
        let is_stale = in_kernel.is_some_and(|user| is_stale(&self.processes, stale, sample, user));
        let is_stale = is_stale || in_kernel.is_some_and(|user| self.has_left_stack(user));
        let thread = it.user.as_ref().zip(sample.tid()).filter(|_| !is_stale);
        self.chain.clear();
        let mut decided = thread.map(|(&state, tid)| {
            let frames = &mut self.frames;
            frames.clear();
            frames.extend(user_frames(sample));
            let thread = ThreadSample {
                tid,
                state,
                processes: &self.processes,
                pieces: self.snapshots.pieces(tid, time),
                frames,
                told: &[],
                later_sp: it.later_sp,
                names: match self.of_waits == Some(it.event) {
                    true => Naming::Provisional,
                    false => Naming::Proved,
                },
            };
            let chains = &mut self.chains;
            chains.chain(&thread, &mut self.chain)
        });
        self.tell_names(it, time);
        if let (Some((_, tid)), true) = (thread, self.of_waits == Some(it.event))
            && self.chain.pcs().any(is_provisional)
        {
            self.named.push((tid, time));
        }
        let is_nowhere = |decided| is_nowhere(decided, &self.chain);
        let is_unknown = is_stale || decided.as_ref().is_some_and(is_nowhere);
        if is_unknown && if_unknown == IfUnknown::Hold {
            self.held.hold(drained);
            return;
        }
        let has_gone = |user| is_nowhere_at_all(&self.processes, user);
        if is_unknown && in_kernel.is_some_and(has_gone) {
            self.chain.clear();
            decided = None;
        }
        if let Some((_, tid)) = thread {
            self.snapshots.used(tid, time);
        }
        self.put(it, time, decided);
    }

    /// Whether a thread in the kernel runs another program already, of which no
    /// record tells yet: it has asked for one, and its stack is gone.
    fn has_left_stack(&mut self, user: &UserState<'_>) -> bool {
        let stacks = &mut self.chains.stacks;
        user.dump.bytes.is_empty() && stacks.is_in_exec(&self.processes, user)
    }

    /// Writes what names the chains so far need, before them.
    fn tell_names(&mut self, it: &ToUnwind<'_>, time: u64) {
        let (Some(written), Some(pid)) = (self.written_attr(it.event), it.sample.pid()) else {
            return;
        };
        let tid = it.sample.tid().unwrap_or(pid);
        let trailer = Trailer {
            time,
            id: it.sample.id().unwrap_or(0),
            ..Trailer::of(written).for_thread(pid.cast_unsigned(), tid.cast_unsigned())
        };
        for named in self.chains.named() {
            let body = Body::Mmap2(Mmap2 {
                pid,
                tid,
                start: named.start,
                len: named.length,
                file_offset: 0,
                file: FileIdentity::NONE,
                prot: 5,
                flags: 2,
                path: Name::new(named.path.as_bytes()),
            });
            let misc = Misc::of_mode(CpuMode::User);
            append_short(&body, misc, &trailer, self.outbox.ready(time));
        }
    }

    /// Writes the sample with its chain, or with the candidates for it.
    fn put(&mut self, it: &ToUnwind<'_>, time: u64, decided: Option<Decided>) {
        let trial = decided.as_ref().and_then(|decided| decided.trial.as_ref());
        let proven = trial.map_or(0, |trial| trial.proven);
        self.proven.clear();
        self.proven.inner.extend(self.chain.pcs().take(proven));
        let whole = self.left_out.cut(&mut self.chain);
        let inner = self.left_out.cut(&mut self.proven);
        self.counts.shortened += u64::from(whole.is_some());
        for count in whole.into_iter().chain(inner) {
            self.tell_left_out(it, time, count);
        }
        let Some(rewriter) = self.rewriters.get(it.event) else {
            return;
        };
        let (processes, counts) = (&self.processes, &mut self.counts);
        let mut rewritten = |chain: &mut UserChain, bytes: Vec<u8>| {
            let record = rewritten(rewriter, it, chain, bytes);
            counts.malformed += u64::from(record.len() == 0);
            record
        };
        let pid = it.user.as_ref().map_or(-1, |user| user.pid);
        let Some(Decided { end, trial }) = decided else {
            let record = rewritten(&mut self.chain, self.outbox.buffer());
            self.outbox.put(time, record);
            return;
        };
        let Some(trial) = trial else {
            let ended = ended(processes, pid, &self.chain, end);
            let record = rewritten(&mut self.chain, self.outbox.buffer());
            self.outbox.put(time, record);
            *counts.ends.entry(ended).or_default() += 1;
            return;
        };
        let outbox = &mut self.outbox;
        let mut candidate = |chain: &mut UserChain, end| {
            let ended = ended(processes, pid, chain, end);
            let record = rewritten(chain, outbox.buffer());
            Candidate {
                ended,
                time,
                record,
            }
        };
        let whole = candidate(&mut self.chain, end);
        let proven = candidate(&mut self.proven, trial.otherwise);
        self.outbox
            .try_out(trial, self.chains.drain(), whole, proven);
    }

    /// Writes where the mark for so many frames is, if that is new.
    fn tell_left_out(&mut self, it: &ToUnwind<'_>, time: u64, count: u64) {
        let pid = it.user.as_ref().map_or(-1, |user| user.pid);
        let Some(event) = self.rewriters.get(it.event) else {
            return;
        };
        if !self.left_out.is_new(pid, count) {
            return;
        }
        let tid = it.sample.tid().unwrap_or(pid);
        let trailer = Trailer {
            time,
            id: it.sample.id().unwrap_or(0),
            ..Trailer::of(event.written_attr())
        };
        let trailer = trailer.for_thread(pid.cast_unsigned(), tid.cast_unsigned());
        let name = left_out::name(count);
        let body = left_out::mapping(pid, tid, count, &name);
        let user = Misc::of_mode(CpuMode::User);
        append_short(&body, user, &trailer, self.outbox.ready(time));
    }
}

/// The sample with a chain, whose outer part it takes, in an empty buffer; empty
/// if it does not fit into a record.
fn rewritten(
    rewriter: &UserChainRewriter,
    it: &ToUnwind<'_>,
    chain: &mut UserChain,
    mut bytes: Vec<u8>,
) -> ChainRecord {
    let more = chain.len() - chain.inner.len();
    let rest = rewriter.rewrite_in_part(&it.sample, (&chain.inner, more), &mut bytes);
    name_leaf(it, rewriter.written_attr(), chain.first(), &mut bytes);
    let outer = std::mem::take(&mut chain.outer);
    match rest {
        Ok(at) => ChainRecord { bytes, at, outer },
        Err(_) => ChainRecord::from(bytes),
    }
}

/// Where the innermost frame has the address of a name, the sample has it, too.
fn name_leaf(it: &ToUnwind<'_>, attr: &EventAttr, leaf: Option<u64>, record: &mut [u8]) {
    let pc = it.user.as_ref().map(|user| user.registers.pc());
    let Some(leaf) = leaf.filter(|leaf| Some(*leaf) != pc) else {
        return;
    };
    if it.sample.ip() != pc || !attr.sample_type.has(SampleType::IP) {
        return;
    }
    // Only the identifier stands before it, behind the record's header.
    let at = match attr.sample_type.has(SampleType::IDENTIFIER) {
        true => 16,
        false => 8,
    };
    if let Some(ip) = record.get_mut(at..at + 8) {
        ip.copy_from_slice(&leaf.to_ne_bytes());
    }
}

/// The user part of a sample's own chain: what the kernel found by frame
/// pointers.
fn user_frames<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + use<'a> {
    let context = |entry: &u64| CallchainContext::from_entry(*entry);
    let is_user = move |entry: &u64| {
        context(entry).is_some_and(|context| context.cpu_mode() == CpuMode::User)
    };
    let chain = sample.callchain().into_iter().flatten();
    chain
        .skip_while(move |entry| !is_user(entry))
        .skip(1)
        .take_while(move |entry| context(entry).is_none())
}

/// Whether the user part of a sample in the kernel is what a program left that
/// exec has replaced since; `stale` are samples that were held back as such.
/// The new program's mappings may be told in the next drain only, and by then
/// it may run.
fn is_stale(
    processes: &Processes,
    stale: &mut FxHashSet<(i32, u64)>,
    sample: &Sample<'_>,
    state: &UserState<'_>,
) -> bool {
    let pc = Avma(state.registers.pc());
    let key = (sample.tid().unwrap_or(0), sample.time().unwrap_or(0));
    if processes.is_of_old_program(state.pid, pc) {
        stale.insert(key);
        return true;
    }
    let was_stale = stale.remove(&key);
    was_stale && processes.find(state.pid, CpuMode::User, pc).is_none()
}

/// How a chain ended, with the dso of its outermost frame where that says
/// more.
fn ended(processes: &Processes, pid: i32, chain: &UserChain, end: ChainEnd) -> Ended {
    let outermost = chain.last().filter(|_| end != ChainEnd::Root);
    let mapping = outermost.and_then(|pc| {
        // A return address may be the first behind its function's dso.
        let call = Avma(pc.saturating_sub(u64::from(chain.len() > 1)));
        processes.find(pid, CpuMode::User, call)
    });
    Ended {
        end,
        dso: mapping.map(|mapping| mapping.dso),
    }
}

/// Whether the very first step failed because no code is known there.
fn is_nowhere(decided: &Decided, chain: &UserChain) -> bool {
    decided.end == ChainEnd::Unproven && chain.len() < 2
}

/// Whether a thread in the kernel came from no code that is there, and has no stack: exec
/// replaced its program, and it came to run the new one before the sample was read
/// again.
fn is_nowhere_at_all(processes: &Processes, user: &UserState<'_>) -> bool {
    let pc = Avma(user.registers.pc());
    user.dump.bytes.is_empty() && processes.find(user.pid, CpuMode::User, pc).is_none()
}

/// The process that a record maps something into.
fn body_pid(body: &Body<'_>) -> Option<i32> {
    match body {
        Body::Mmap(map) => Some(map.pid),
        Body::Mmap2(map) => Some(map.pid),
        _ => None,
    }
}

/// What to do with a sample in code that no record has told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfUnknown {
    /// Wait: the record may stand in a ring that was drained earlier.
    Hold,
    Write,
}

#[cfg(test)]
mod tests;
