//! Records to the parts of a profile that need no names, one by one.

use crate::deferred::{Deferred, Waiting};
use crate::details::{Details, counting_of, taken_branch};
use crate::early_names::EarlyAnswer;
use crate::jit_owners::JitOwners;
use crate::load::LoadOptions;
use crate::module_files::ModuleFiles;
use crate::naming::Namer;
use crate::progress::Progress;
use crate::recorded::{
    RecordedKernel, build_ids, carried_symbols, event_groups, is_of_this_host, origin,
};
use crate::recorded_files::RecordedFiles;
use crate::stack_builder::{RawChain, StackBuilder};
use crate::trusting::{self, Outline};
use prof_abi::{CallchainContext, CpuMode, RecordType, SampleType};
use prof_live::{LiveSummary, Processes, StackUnwinder, UserState};
use prof_perfdata::{
    Body, Features, Losses, Reader, Record, Sample as RawSample, Share, Shares,
    call_chain_of_branches,
};
use prof_profile::{
    Avma, ChainEnd, Counting, Detail as SampleDetail, DroppedCount, Event, EventId, NameId,
    Profile, Sample, Samples, StackId, Task, TaskId, ThreadCount, Trust,
};
use prof_symbolize::Symbolizer;
use prof_unwind::Machine;
use rustc_hash::FxHashMap;

/// What was counted beside the samples.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) losses: Losses,
    pub(crate) throttled: u64,
    /// Frames whose address in no mapping was not kept.
    pub(crate) merged: u64,
    /// Those of them that are not in the stacks.
    pub(crate) left_out: u64,
    /// Samples with as many frames as the kernel records, by stack.
    pub(crate) at_limit: FxHashMap<StackId, u32>,
    /// Of the samples whose stacks were unwound here.
    pub(crate) chain_ends: FxHashMap<(StackId, ChainEnd), u64>,
}

/// Pid, tid and name: what a task is told apart by.
type TaskKey = (i32, i32, Option<NameId>);

/// Recordings have about one distinct call chain in so many bytes.
const BYTES_PER_CHAIN: u64 = 512;

/// A power of two.
const RECENT_TASKS: usize = 64;

/// Collects a profile record by record.
pub(crate) struct Loader {
    pub(crate) processes: Processes,
    pub(crate) stacks: StackBuilder,
    unwinder: StackUnwinder<RecordedFiles>,
    machine: Machine,
    max_stack: usize,
    samples: Samples,
    tasks: Vec<Task>,
    thread_counts: Vec<ThreadCount>,
    thread_count_ids: FxHashMap<(i32, i32, EventId), usize>,
    task_ids: FxHashMap<TaskKey, TaskId>,
    /// Tasks that ran lately, by the last digits of their ids.
    recent_tasks: [Option<(TaskKey, TaskId)>; RECENT_TASKS],
    events: Vec<Event>,
    tally: Tally,
    chain: Vec<u64>,
    shares: Shares,
    parts: Vec<Share>,
    details: Details,
    /// `None` if chains are not joined.
    deferred: Option<Deferred>,
}

impl Loader {
    pub(crate) fn new(reader: &Reader, symbolizer: &Symbolizer, options: &LoadOptions) -> Self {
        let arch = reader
            .features()
            .arch()
            .map(|arch| arch.to_string_lossy().into_owned());
        let machine = match arch.as_deref() {
            Some("aarch64" | "arm64") => Machine::Aarch64,
            _ => Machine::X86_64,
        };
        let files = RecordedFiles::of(symbolizer.sources(), build_ids(reader.features()));
        let (_, length) = reader.progress();
        let chains = length.unwrap_or(0) / BYTES_PER_CHAIN;
        Self {
            processes: Processes::default(),
            stacks: StackBuilder::new(options.unmapped_limit, chains as usize),
            unwinder: StackUnwinder::new(files),
            machine,
            max_stack: options.max_stack,
            samples: Samples::default(),
            tasks: Vec::new(),
            thread_counts: Vec::new(),
            thread_count_ids: FxHashMap::default(),
            task_ids: FxHashMap::default(),
            recent_tasks: [None; RECENT_TASKS],
            events: Vec::new(),
            tally: Tally::default(),
            chain: Vec::new(),
            shares: Shares::default(),
            parts: Vec::new(),
            details: Details::new(
                options.details,
                options.counting.unwrap_or_else(|| counting_of(reader)),
                reader.features(),
            ),
            deferred: options.merges_callchains.then(Deferred::default),
        }
    }

    pub(crate) fn take(&mut self, record: &Record<'_>) {
        if record.kind == RecordType::SAMPLE {
            return self.sample(record);
        }
        match record.decode() {
            Body::Lost(_) | Body::LostSamples(_) => self.tally.losses.add(record),
            Body::Throttle(_) => self.tally.throttled += 1,
            Body::Read(read) => self.thread_count(record, &read),
            Body::CallchainDeferred(chain) => self.join(record, &chain),
            body => {
                self.details.learn(record, &body, &mut self.processes.names);
                let mapped = self.processes.apply(record, &body);
                if let Some(module) = mapped.filter(|_| has_stack_dumps(record)) {
                    let pid = record.sample_id().pid.unwrap_or(-1);
                    self.unwinder.prepare(&self.processes, module, pid);
                }
            }
        }
    }

    fn thread_count(&mut self, record: &Record<'_>, read: &prof_perfdata::body::Read<'_>) {
        let event = EventId(record.event_index().unwrap_or(0).min(0xffff) as u16);
        let value = read.values.values().next().map_or(0, |first| first.value);
        let counts = &mut self.thread_counts;
        let key = (read.pid, read.tid, event);
        let at = *self.thread_count_ids.entry(key).or_insert_with(|| {
            let (pid, tid) = (read.pid, read.tid);
            let value = 0;
            counts.push(ThreadCount {
                pid,
                tid,
                event,
                value,
            });
            counts.len() - 1
        });
        if let Some(count) = counts.get_mut(at) {
            count.value = count.value.saturating_add(value);
        }
    }

    /// The event's totals; events may be added while a stream is read.
    fn event(&mut self, record: &Record<'_>, index: usize) -> Option<&mut Event> {
        while self.events.len() <= index {
            let next = record.events().get(self.events.len())?;
            self.events.push(event_of(next));
        }
        self.events.get_mut(index)
    }

    fn sample(&mut self, record: &Record<'_>) {
        let events = record.events();
        let own = record.event_index();
        let Some((own, event)) = own.and_then(|own| Some((own, events.get(own)?))) else {
            return;
        };
        // The reader has reported those that cannot be read.
        let Ok(sample) = record.sample_of(event) else {
            return;
        };
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        self.shares.of(events, own, &sample, &mut parts);
        if !parts.is_empty() {
            self.shared_sample(record, event, &sample, &parts);
        }
        self.parts = parts;
    }

    /// Adds a sample to each event that it counts for.
    fn shared_sample(
        &mut self,
        record: &Record<'_>,
        event: &prof_perfdata::Event,
        sample: &RawSample<'_>,
        parts: &[Share],
    ) {
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        let mode = record.misc.cpu_mode();
        if mode == CpuMode::User {
            self.processes.runs_user_code(pid);
        }
        if self.details.counting() == Counting::Branches {
            return self.branches(record, event, sample, parts);
        }
        let (stack, end) = self.stack(event, sample, pid, mode);
        let task = self.task(pid, tid);
        let detail = self.details.is_wanted().then(|| {
            let (processes, stacks) = (&self.processes, &mut self.stacks);
            self.details.of(sample, mode, processes, stacks)
        });
        let cost = detail.filter(|_| self.details.counting() == Counting::Memory);
        let cost = cost.map(|detail| detail.weight.max(1));
        let first = self.samples.len();
        for &Share {
            event: index,
            period,
        } in parts
        {
            let period = cost.unwrap_or(period);
            let Some(counted) = self.event(record, index) else {
                continue;
            };
            counted.samples += 1;
            counted.period = counted.period.saturating_add(period);
            if let Some(end) = end {
                *self.tally.chain_ends.entry((stack, end)).or_default() += 1;
            }
            let row = Sample {
                time: sample.time().unwrap_or(0),
                period,
                task,
                stack,
                cpu: sample.cpu(),
                event: EventId(index.min(usize::from(u16::MAX)) as u16),
            };
            match detail {
                Some(detail) => {
                    self.details.payload(event, sample, self.samples.len());
                    self.samples.push_with(row, detail);
                }
                None => self.samples.push(row),
            }
        }
        if let Some(deferred) = &mut self.deferred
            && let Some(cookie) = sample.deferred_cookie()
        {
            let rows = first..self.samples.len();
            let waiting = Waiting::of(rows, pid, mode, sample.ip().map(Avma));
            deferred.add((tid, cookie), sample, waiting);
        }
    }

    /// Gives the samples that wait for a user call chain their whole stacks.
    fn join(&mut self, record: &Record<'_>, user: &prof_perfdata::body::CallchainDeferred<'_>) {
        let tid = record.sample_id().tid.unwrap_or(-1);
        let Some(deferred) = &mut self.deferred else {
            return;
        };
        for waiting in deferred.take(tid, user.cookie) {
            let chain = waiting.joined(user.ips.iter());
            let stack = self.intern(RawChain {
                pid: waiting.pid,
                mode: waiting.mode,
                ip: waiting.ip,
                entries: chain.iter().copied(),
            });
            for row in waiting.rows {
                self.samples.set_stack(row, stack);
            }
        }
    }

    /// Adds each branch of a sample to each event that it counts for.
    fn branches(
        &mut self,
        record: &Record<'_>,
        event: &prof_perfdata::Event,
        sample: &RawSample<'_>,
        parts: &[Share],
    ) {
        let (pid, tid) = (sample.pid().unwrap_or(-1), sample.tid().unwrap_or(-1));
        let task = self.task(pid, tid);
        let mode = record.misc.cpu_mode();
        let (processes, stacks) = (&self.processes, &mut self.stacks);
        let detail = self.details.of(sample, mode, processes, stacks);
        let Some(branches) = sample.branches() else {
            return;
        };
        for branch in branches.iter() {
            let taken = taken_branch(branch, pid, &self.processes, &mut self.stacks);
            let stack = self.stacks.stack_of(taken.to);
            let detail = SampleDetail {
                // What perf takes for the weight of a branch.
                weight: u64::from(taken.cycles).max(1),
                branch: Some(taken),
                ..detail
            };
            for share in parts {
                let Some(counted) = self.event(record, share.event) else {
                    continue;
                };
                counted.samples += 1;
                counted.period = counted.period.saturating_add(1);
                let row = Sample {
                    time: sample.time().unwrap_or(0),
                    period: 1,
                    task,
                    stack,
                    cpu: sample.cpu(),
                    event: EventId(share.event.min(usize::from(u16::MAX)) as u16),
                };
                self.details.payload(event, sample, self.samples.len());
                self.samples.push_with(row, detail);
            }
        }
    }

    /// The sample's stack; and if it was unwound here, how that ended.
    fn stack(
        &mut self,
        event: &prof_perfdata::Event,
        sample: &RawSample<'_>,
        pid: i32,
        mode: CpuMode,
    ) -> (StackId, Option<ChainEnd>) {
        let ip = sample.ip().map(Avma);
        let Some(state) = UserState::of(sample, pid, self.machine) else {
            let mut chain = std::mem::take(&mut self.chain);
            if call_chain_of_branches(event, sample, &mut chain) {
                let entries = chain.iter().copied();
                let raw = RawChain {
                    pid,
                    mode,
                    ip,
                    entries,
                };
                let stack = self.intern(raw);
                self.chain = chain;
                return (stack, None);
            }
            self.chain = chain;
            let entries = sample.callchain().unwrap_or_default();
            let stack = self.intern(RawChain {
                pid,
                mode,
                ip,
                entries,
            });
            return (stack, None);
        };
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        let is_user = CallchainContext::USER.0;
        let recorded = sample.callchain().into_iter().flatten();
        chain.extend(recorded.take_while(|&entry| entry != is_user));
        chain.push(is_user);
        let end =
            self.unwinder
                .unwind(&self.processes, &state, &mut (), self.max_stack, &mut chain);
        let entries = chain.iter().copied();
        let stack = self.intern(RawChain {
            pid,
            mode,
            ip,
            entries,
        });
        self.chain = chain;
        (stack, Some(end))
    }

    fn intern<C>(&mut self, chain: RawChain<C>) -> StackId
    where
        C: Iterator<Item = u64> + Clone,
    {
        let interned = self.stacks.intern(&self.processes, chain);
        self.tally.merged += u64::from(interned.merged);
        self.tally.left_out += u64::from(interned.left_out);
        if interned.depth >= trusting::KERNEL_MAX_STACK {
            *self.tally.at_limit.entry(interned.stack).or_default() += 1;
        }
        interned.stack
    }

    fn task(&mut self, pid: i32, tid: i32) -> TaskId {
        let key = (pid, tid, self.processes.comm_of(tid));
        let slot = tid as usize % RECENT_TASKS;
        if let Some((recent, id)) = self.recent_tasks.get(slot).copied().flatten()
            && recent == key
        {
            return id;
        }
        let id = self.known_task(key);
        if let Some(slot) = self.recent_tasks.get_mut(slot) {
            *slot = Some((key, id));
        }
        id
    }

    fn known_task(&mut self, key: TaskKey) -> TaskId {
        if let Some(&id) = self.task_ids.get(&key) {
            return id;
        }
        let (pid, tid, comm) = key;
        // As perf shows threads whose name no record tells.
        let name = comm.unwrap_or_else(|| match tid {
            0 => self.processes.names.intern("swapper"),
            _ => self.processes.names.intern(&format!(":{tid}")),
        });
        let id = TaskId(u32::try_from(self.tasks.len()).expect("fewer than 2^32 tasks"));
        self.tasks.push(Task {
            pid,
            tid,
            comm: name,
        });
        self.task_ids.insert(key, id);
        id
    }

    pub(crate) fn finish(
        mut self,
        reader: &Reader,
        late: u64,
        early: Vec<EarlyAnswer>,
        symbolizer: &Symbolizer,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Profile {
        for event in reader.events().list().iter().skip(self.events.len()) {
            self.events.push(event_of(event));
        }
        for (index, event) in self.events.iter_mut().enumerate() {
            let lost = self.tally.losses.of(index, reader.events());
            event.lost = lost.most_samples();
        }
        let features = reader.features();
        let namer = Namer {
            // A stream tells its features while it is read.
            files: ModuleFiles::new(symbolizer, features, options.recorded_at),
            detail: options.detail,
            kernel: RecordedKernel::new(features).mapped_in(&self.processes),
            carried: carried_symbols(features, symbolizer),
            whole_functions: options.whole_functions,
            jit_owners: JitOwners {
                looking: options.looking_uid,
                noted: noted_users(features, options),
                recorded_here: options.recorded_at.filter(|_| is_of_this_host(features)),
            },
            progress,
        };
        // The indices are not needed for what follows, and they are large.
        let (raw, mut stacks) = self.stacks.into_parts();
        stacks.freeze();
        let threads = self.processes.threads();
        let mut names = std::mem::take(&mut self.processes.names);
        let (named, outline) = rayon::join(
            || namer.name(self.processes.modules(), &raw, early, &mut names),
            || Outline::of(&stacks, &self.samples, raw.len()),
        );
        drop(raw);
        let counting = self.details.counting();
        if counting == Counting::Branches {
            // Their stacks are one address long.
            for event in &mut self.events {
                event.has_callchain = false;
            }
        }
        let kernel = || symbolizer.open_kernel(&namer.kernel.request()).ok();
        let samples = &mut self.samples;
        self.details.print(features, kernel, samples, &mut names);
        let origin = origin(features, namer.kernel.build_id);
        let mut profile = Profile {
            names,
            groups: event_groups(features, self.events.len()),
            events: self.events,
            dsos: named.dsos,
            tasks: self.tasks,
            threads,
            thread_counts: self.thread_counts,
            functions: named.functions,
            frames: named.frames,
            locations: named.locations,
            stacks,
            samples: self.samples,
            counting,
            trust: Trust::default(),
            origin,
        };
        profile.trust = trusting::trust(&profile, &self.tally, &outline, reader, late);
        profile.trust.notes.extend(named.notes);
        let unjoined = self.deferred.map_or(0, |deferred| deferred.len());
        if unjoined > 0 {
            let what = "samples whose user call chain was not recorded before the end".into();
            profile.trust.notes.push(DroppedCount {
                what,
                count: unjoined,
            });
        }
        profile
    }
}

/// The users of processes as the recorder noted them, if it can be believed.
fn noted_users(features: &Features, options: &LoadOptions) -> FxHashMap<i32, u32> {
    let told = features.trust().filter(|_| options.is_own);
    let told = told.and_then(|text| LiveSummary::from_json(&text.to_string_lossy()));
    told.map(|told| told.uids.into_iter().collect())
        .unwrap_or_default()
}

/// Whether the recording has samples that are unwound here.
fn has_stack_dumps(record: &Record<'_>) -> bool {
    let dumps = SampleType::REGS_USER | SampleType::STACK_USER;
    let mut events = record.events().list().iter();
    events.any(|event| event.attr.sample_type.has(dumps))
}

fn event_of(event: &prof_perfdata::Event) -> Event {
    let name = event.name().into_owned();
    let is_software_clock = event.attr.kind == 1 && event.attr.config <= 1;
    Event {
        name,
        asked: event.attr.sample_period,
        is_freq: event.attr.is_freq(),
        weight_is_ns: is_software_clock,
        has_callchain: event.attr.sample_type.has(SampleType::CALLCHAIN),
        ..Event::default()
    }
}
