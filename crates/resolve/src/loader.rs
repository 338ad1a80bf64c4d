//! Records to the parts of a profile that need no names, one by one.

use crate::about::About;
use crate::deferred::{Deferred, Waiting};
use crate::details::{Details, counting_of, taken_branch};
use crate::dso_files::DsoFiles;
use crate::early_names::EarlyAnswer;
use crate::futexes::Futexes;
use crate::jit_owners::JitOwners;
use crate::naming::Namer;
use crate::options::{How, LoadOptions};
use crate::raw_locations::{ProcessNow, RawChain};
use crate::recorded::{
    RecordedKernel, build_ids, carried_symbols, event_groups, is_of_this_host, machine_of, origin,
};
use crate::recorded_files::RecordedFiles;
use crate::sample_stacks::{SampleStacks, Seen};
use crate::stack_builder::{ChainHash, StackBuilder};
use crate::starts::StartCode;
use crate::tally::Tally;
use crate::task_table::TaskTable;
use crate::trusting::{self, Outline};
use crate::wait_kinds;
use crate::wakes::Wakes;
use prof_abi::{AttrFlags, CpuMode, Misc, RecordType, SampleType};
use prof_live::{LiveSummary, MappedDsos, Processes};
use prof_perfdata::{
    Body, Features, Record, Sample as RawSample, Share, Shares, WaitWord, is_off_cpu,
};
use prof_profile::{
    Avma, Counted, Counting, Detail as SampleDetail, DroppedCount, Event, EventId, Lifetime,
    Profile, Sample, Samples, StackSource, ThreadCount, Trust, Wait, WaitKind, WaitState,
};
use rustc_hash::FxHashMap;

/// A record, and what was found out of it before it is its turn.
struct Ahead<'r> {
    record: Record<'r>,
    /// The number of its event and its content, if it is a sample that can be
    /// read.
    sample: Option<(usize, RawSample<'r>)>,
    /// See [`SampleStacks::hash`].
    hash: Option<ChainHash>,
}

/// So many records are looked at before the first of them is taken.
const AHEAD: usize = 16;

/// A sample, and the events that it counts for.
struct SharedSample<'a> {
    record: &'a Record<'a>,
    /// The event that it was taken by.
    event: &'a prof_perfdata::Event,
    sample: &'a RawSample<'a>,
    /// See [`SampleStacks::hash`].
    hash: Option<ChainHash>,
    shares: &'a [Share],
}

impl SharedSample<'_> {
    fn pid(&self) -> i32 {
        self.sample.pid().unwrap_or(-1)
    }

    fn tid(&self) -> i32 {
        self.sample.tid().unwrap_or(-1)
    }

    fn mode(&self) -> CpuMode {
        self.record.misc.cpu_mode()
    }

    /// The process it was taken in.
    fn process<'p>(&self, processes: &'p Processes) -> ProcessNow<'p> {
        ProcessNow {
            processes,
            pid: self.pid(),
        }
    }
}

/// Recordings have about one distinct call chain in so many bytes.
const BYTES_PER_CHAIN: u64 = 512;

/// Collects a profile record by record.
pub(crate) struct Loader {
    pub(crate) processes: Processes,
    pub(crate) stacks: SampleStacks,
    samples: Samples,
    tasks: TaskTable,
    thread_counts: Vec<ThreadCount>,
    thread_count_ids: FxHashMap<(i32, i32, EventId), usize>,
    events: Vec<Event>,
    tally: Tally,
    shares: Shares,
    parts: Vec<Share>,
    details: Details,
    futexes: Futexes,
    wakes: Wakes,
    /// By thread id.
    lifetimes: FxHashMap<i32, Lifetime>,
    /// `None` if chains are not joined.
    deferred: Option<Deferred>,
}

impl Loader {
    /// For a recording of `length` bytes, as far as that and what it says of
    /// itself is known before its records are read.
    pub(crate) fn new(about: &About<'_>, length: Option<u64>, how: How<'_>) -> Self {
        let options = how.options;
        let machine = machine_of(about.features);
        let files = RecordedFiles::of(how.symbolizer.sources(), build_ids(about.features));
        let chains = length.unwrap_or(0) / BYTES_PER_CHAIN;
        let builder = StackBuilder::new(options.unmapped_limit, chains as usize);
        Self {
            processes: Processes::default(),
            stacks: SampleStacks::new(builder, machine, files, options),
            samples: Samples::default(),
            tasks: TaskTable::default(),
            thread_counts: Vec::new(),
            thread_count_ids: FxHashMap::default(),
            events: Vec::new(),
            tally: Tally::default(),
            shares: Shares::default(),
            parts: Vec::new(),
            details: Details::new(
                options,
                options.counting.unwrap_or_else(|| counting_of(about)),
                about.features,
            ),
            futexes: Futexes::default(),
            wakes: Wakes::default(),
            lifetimes: FxHashMap::default(),
            deferred: options.merges_callchains.then(Deferred::default),
        }
    }

    /// Takes records in this order. Looks a little ahead, so that the memory
    /// where the chains of several samples are looked for is waited for at once.
    pub(crate) fn take_all<'r>(&mut self, records: impl Iterator<Item = Record<'r>>) {
        let mut records = records.fuse();
        let mut ahead = Vec::with_capacity(AHEAD);
        loop {
            ahead.clear();
            ahead.extend(
                records
                    .by_ref()
                    .take(AHEAD)
                    .map(|record| self.look_at(record)),
            );
            if ahead.is_empty() {
                return;
            }
            for one in &ahead {
                if let (Some((_, sample)), Some(hash)) = (&one.sample, one.hash) {
                    let pid = sample.pid().unwrap_or(-1);
                    self.stacks.builder.expect(&self.processes, pid, hash);
                }
            }
            ahead.iter().for_each(|one| self.take_one(one));
        }
    }

    fn look_at<'r>(&self, record: Record<'r>) -> Ahead<'r> {
        let (events, mut hash) = (record.events(), None);
        let is_sample = record.kind == RecordType::SAMPLE;
        let own = record.event_index().filter(|_| is_sample);
        let sample = own.and_then(|own| {
            let event = events.get(own)?;
            // The reader has reported those that cannot be read.
            let sample = record.sample_of(event).ok()?;
            hash = self.stacks.hash(event, &sample, record.misc.cpu_mode());
            Some((own, sample))
        });
        Ahead {
            record,
            sample,
            hash,
        }
    }

    #[cfg(test)]
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        self.take_all(std::iter::once(*record));
    }

    fn take_one(&mut self, ahead: &Ahead<'_>) {
        let record = &ahead.record;
        if record.kind == RecordType::SAMPLE {
            return self.sample(ahead);
        }
        match record.decode() {
            Body::Lost(_) | Body::LostSamples(_) => self.tally.losses.add(record),
            Body::Throttle(_) => self.tally.throttled += 1,
            Body::Auxtrace(piece) => {
                self.tally.traced = self.tally.traced.saturating_add(piece.size);
            }
            Body::Read(read) => self.thread_count(record, &read),
            Body::CallchainDeferred(chain) => self.join(record, &chain),
            body => {
                if let Body::Exit(exit) = &body {
                    self.wakes.ended(exit);
                }
                self.note_life(record, &body);
                self.details.learn(record, &body, &mut self.processes.names);
                let mapped = self.processes.apply(record, &body);
                if let Some(dso) = mapped.filter(|_| has_stack_dumps(record)) {
                    let pid = record.sample_id().pid.unwrap_or(-1);
                    self.stacks.prepare(&self.processes, dso, pid);
                }
            }
        }
    }

    /// Notes when threads begin and end. Records of what was there before have no
    /// time.
    fn note_life(&mut self, record: &Record<'_>, body: &Body<'_>) {
        let (tid, time, begins) = match body {
            Body::Fork(task) => (task.tid, task.time, true),
            Body::Exit(task) => (task.tid, task.time, false),
            Body::Comm(comm) if record.misc.has(Misc::COMM_EXEC) => {
                (comm.tid, record.time().unwrap_or(0), true)
            }
            _ => return,
        };
        if time == 0 {
            return;
        }
        let life = self.lifetimes.entry(tid).or_default();
        match begins {
            true => {
                life.began.get_or_insert(time);
                life.ended = None;
            }
            false => life.ended = Some(time),
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

    fn sample(&mut self, ahead: &Ahead<'_>) {
        let record = &ahead.record;
        let events = record.events();
        let Some((own, sample)) = &ahead.sample else {
            return;
        };
        let Some(event) = events.get(*own) else {
            return;
        };
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        self.shares.of(events, *own, sample, &mut parts);
        if !parts.is_empty() {
            self.shared_sample(&SharedSample {
                record,
                event,
                sample,
                hash: ahead.hash,
                shares: &parts,
            });
        }
        self.parts = parts;
    }

    /// Adds a sample to each event that it counts for.
    fn shared_sample(&mut self, shared: &SharedSample<'_>) {
        let SharedSample { event, sample, .. } = *shared;
        let (pid, tid, mode) = (shared.pid(), shared.tid(), shared.mode());
        if mode == CpuMode::User {
            self.processes.runs_user_code(pid);
        }
        if self.details.counting() == Counting::Branches {
            return self.branches(shared);
        }
        let seen = Seen {
            sample,
            mode,
            hash: shared.hash,
        };
        let (stack, end) = self.stacks.of(&self.processes, event, seen);
        let task = self.tasks.id(&mut self.processes, pid, tid);
        let detail = self.details.is_wanted().then(|| {
            let (process, stacks) = (shared.process(&self.processes), &mut self.stacks.builder);
            // As perf, looks for data where the sample was taken, and nowhere else.
            let data = |address| stacks.place(process, &[mode], address);
            self.details.of(sample, mode, data)
        });
        let wait = wait_of(event, sample);
        if wait.is_some_and(|wait| wait.state == WaitState::Blocked) {
            let row = self.samples.len();
            self.futexes.note(row, &self.processes, sample);
        }
        self.wakes.note(event, sample, (task, stack));
        let cost = detail.filter(|_| self.details.counting() == Counting::Memory);
        let cost = cost.map(|detail| detail.weight.max(1));
        let first = self.samples.len();
        for share in shared.shares {
            let period = cost.unwrap_or(share.period);
            let Some(event) = self.count(shared.record, share.event, (1, period)) else {
                continue;
            };
            if let Some(end) = end {
                *self.tally.chain_ends.entry((stack, end)).or_default() += 1;
            }
            let length = wait.and_then(|wait| length_apart(wait, sample));
            let wait = wait.map(|wait| self.samples.wait_id(wait));
            let row = self.samples.len();
            self.push(shared, detail, |time, cpu| Sample {
                time,
                period,
                task,
                stack,
                cpu,
                event,
                wait,
            });
            if let Some(length) = length {
                self.samples.set_wait_length(row, length);
            }
        }
        self.await_chain(shared, first);
    }

    /// The sample's rows, from `first` on, wait for the part of their chain that
    /// comes later, if one does.
    fn await_chain(&mut self, shared: &SharedSample<'_>, first: usize) {
        let sample = shared.sample;
        if let Some(deferred) = &mut self.deferred
            && let Some(cookie) = sample.deferred_cookie()
        {
            let rows = first..self.samples.len();
            let (pid, mode) = (shared.pid(), shared.mode());
            let waiting = Waiting::of(rows, pid, mode, sample.ip().map(Avma));
            deferred.add((shared.tid(), cookie), sample, waiting);
        }
    }

    /// Adds a row of the sample, made of its time in ns and its CPU.
    fn push(
        &mut self,
        shared: &SharedSample<'_>,
        detail: Option<SampleDetail>,
        row: impl FnOnce(u64, Option<u32>) -> Sample,
    ) {
        let sample = shared.sample;
        let row = row(sample.time().unwrap_or(0), sample.cpu());
        match detail {
            Some(detail) => {
                let payloads = &mut self.details.payloads;
                payloads.note(shared.event, sample, self.samples.len());
                self.samples.push_with(row, detail);
            }
            None => self.samples.push(row),
        }
    }

    /// Counts samples and their period for an event, if there is such an event.
    fn count(
        &mut self,
        record: &Record<'_>,
        index: usize,
        (samples, period): (u64, u64),
    ) -> Option<EventId> {
        let counted = self.event(record, index)?;
        counted.samples += samples;
        counted.period = counted.period.saturating_add(period);
        Some(EventId(index.min(usize::from(u16::MAX)) as u16))
    }

    /// Gives the samples that wait for a user call chain their whole stacks.
    fn join(&mut self, record: &Record<'_>, user: &prof_perfdata::body::CallchainDeferred<'_>) {
        let tid = record.sample_id().tid.unwrap_or(-1);
        let Some(deferred) = &mut self.deferred else {
            return;
        };
        for waiting in deferred.take(tid, user.cookie) {
            let chain = waiting.joined(user.ips.iter());
            let raw = RawChain {
                pid: waiting.pid,
                mode: waiting.mode,
                ip: waiting.ip,
                entries: chain.iter().copied(),
            };
            let stack = self.stacks.intern(&self.processes, raw);
            for row in waiting.rows {
                self.samples.set_stack(row, stack);
            }
        }
    }

    /// Adds each branch of a sample to each event that it counts for.
    fn branches(&mut self, shared: &SharedSample<'_>) {
        let pid = shared.pid();
        let task = self.tasks.id(&mut self.processes, pid, shared.tid());
        let (process, stacks) = (shared.process(&self.processes), &mut self.stacks.builder);
        let mode = shared.mode();
        let data = |address| stacks.place(process, &[mode], address);
        let detail = self.details.of(shared.sample, mode, data);
        let Some(branches) = shared.sample.branches() else {
            return;
        };
        for branch in (0..).zip(branches.iter()) {
            let (process, stacks) = (shared.process(&self.processes), &mut self.stacks.builder);
            let taken = taken_branch(branch, process, stacks);
            let stack = stacks.stack_of(taken.to);
            let detail = SampleDetail {
                // What perf takes for the weight of a branch.
                weight: u64::from(taken.cycles).max(1),
                branch: Some(taken),
                ..detail
            };
            for share in shared.shares {
                // Each branch has a period of its own; the sample is one.
                let counts = (u64::from(taken.place == 0), 1);
                let Some(event) = self.count(shared.record, share.event, counts) else {
                    continue;
                };
                self.push(shared, Some(detail), |time, cpu| Sample {
                    time,
                    period: 1,
                    task,
                    stack,
                    cpu,
                    event,
                    wait: None,
                });
            }
        }
    }

    /// All records were taken: names what they tell of.
    pub(crate) fn finish(
        mut self,
        about: &About<'_>,
        early: Vec<EarlyAnswer>,
        how: How<'_>,
    ) -> Profile {
        self.finish_events(about);
        let features = about.features;
        let namer = namer(features, &self.processes, how);
        // The indices are not needed for what follows, and they are large.
        let (raw, mut stacks, branch_frames) = self.stacks.builder.into_parts();
        stacks.freeze();
        let threads = self.processes.threads();
        let mut names = std::mem::take(&mut self.processes.names);
        let (named, outline) = rayon::join(
            || namer.name(self.processes.dsos(), &raw, early, &mut names),
            || Outline::of(&stacks, &self.samples, raw.len()),
        );
        drop(raw);
        let kernel = || how.symbolizer.open_kernel(&namer.kernel.request()).ok();
        let (samples, counting) = (&mut self.samples, self.details.counting());
        let payloads = std::mem::take(&mut self.details.payloads);
        payloads.tell(features, kernel, samples, &mut names);
        let mut profile = Profile {
            names,
            groups: event_groups(features, self.events.len()),
            events: self.events,
            dsos: named.dsos,
            tasks: self.tasks.into_list(),
            threads,
            lifetimes: self.lifetimes,
            thread_counts: self.thread_counts,
            functions: named.functions,
            frames: named.frames,
            locations: named.locations,
            other_builds: FxHashMap::default(),
            branch_frames,
            stacks,
            samples: self.samples,
            futexes: Vec::new(),
            wakes: self.wakes.told(features),
            counting,
            trust: Trust::default(),
            origin: origin(features, namer.kernel.build_id),
        };
        let tally = Tally {
            stacks: self.stacks.tally,
            ..self.tally
        };
        let mapped = self.processes.dsos();
        let code = start_code(mapped, features, how);
        profile.trust = trust(&mut profile, &tally, &outline, (about, &code));
        wait_kinds::classify(&mut profile);
        let files = (&namer.files, &namer.kernel);
        Wakes::credit_senders(&mut profile);
        self.wakes.add_ends(&mut profile);
        self.futexes.finish(&mut profile, mapped, files);
        add_notes(&mut profile, named.notes, self.deferred.as_ref());
        profile
    }

    /// Events without samples are events, too; and what each of them lost.
    fn finish_events(&mut self, about: &About<'_>) {
        for event in about.events.list().iter().skip(self.events.len()) {
            self.events.push(event_of(event));
        }
        let counts_branches = self.details.counting() == Counting::Branches;
        for (index, event) in self.events.iter_mut().enumerate() {
            let lost = self.tally.losses.of(index, about.events);
            event.lost = lost.most_samples();
            // The stacks of branches are one address long.
            event.has_callchain &= !counts_branches;
        }
    }
}

/// Where the code of a recording's programs is.
fn start_code<'a>(mapped: &'a MappedDsos, features: &Features, how: How<'_>) -> StartCode<'a> {
    StartCode {
        mapped,
        files: RecordedFiles::of(how.symbolizer.sources(), build_ids(features)),
        machine: machine_of(features),
    }
}

/// How far the profile can be trusted.
fn trust(
    profile: &mut Profile,
    tally: &Tally,
    outline: &Outline,
    (about, code): (&About<'_>, &StartCode<'_>),
) -> Trust {
    if profile.branch_frames.is_empty() {
        return trusting::trust(profile, tally, outline, (about, code));
    }
    // Chains with branches in them do not end where threads start.
    for event in &mut profile.events {
        event.has_callchain = false;
    }
    let trust = trusting::trust(profile, tally, outline, (about, code));
    for (event, recorded) in profile.events.iter_mut().zip(about.events.list()) {
        let taken = recorded.attr.sample_type;
        let chains = [SampleType::CALLCHAIN, SampleType::BRANCH_STACK];
        event.has_callchain = chains.iter().any(|&it| taken.has(it));
    }
    trust
}

/// What names the addresses of a recording that says this of itself.
fn namer<'a>(features: &Features, processes: &Processes, how: How<'a>) -> Namer<'a> {
    let options = how.options;
    Namer {
        // A stream tells its features while it is read.
        files: DsoFiles::new(how.symbolizer, features, options.recorded_at),
        detail: options.detail,
        kernel: RecordedKernel::new(features).mapped_in(processes),
        carried: carried_symbols(features, how.symbolizer, processes.dsos()),
        whole_functions: options.whole_functions,
        forgets_tables: options.forgets_tables,
        symbols_first: options.symbols_first(),
        jit_owners: JitOwners {
            looking: options.looking_uid,
            noted: noted_users(features, options),
            recorded_here: options.recorded_at.filter(|_| is_of_this_host(features)),
        },
        progress: how.progress,
    }
}

/// Adds what is told of a finished profile beside its trust figures: of waits, of
/// naming, and of chains that did not come.
fn add_notes(profile: &mut Profile, naming: Vec<DroppedCount>, deferred: Option<&Deferred>) {
    let notes = wait_kinds::notes(profile).chain(naming);
    profile.trust.notes.extend(notes.chain(unjoined(deferred)));
}

/// A note of the samples that still wait for their user call chains.
fn unjoined(deferred: Option<&Deferred>) -> Option<DroppedCount> {
    let count = deferred.map_or(0, Deferred::len);
    (count > 0).then(|| DroppedCount {
        what: "samples whose user call chain was not recorded before the end".into(),
        count,
        clock: None,
    })
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

/// What a sample says of the wait that it is; `None` if it is none.
fn wait_of(event: &prof_perfdata::Event, sample: &RawSample<'_>) -> Option<Wait> {
    let name = event.recorded_name.as_deref().unwrap_or_default();
    if !is_off_cpu(&event.attr, name) {
        return None;
    }
    let word = sample.transaction().and_then(WaitWord::decode);
    let Some(word) = word else {
        // perf's own: what it has is the stack of whoever left.
        return Some(Wait {
            state: WaitState::Blocked,
            source: StackSource::Switch,
            ..Wait::default()
        });
    };
    Some(Wait {
        state: WaitState::from_code(word.state),
        kind: WaitKind::from_code(word.kind),
        source: StackSource::from_code(word.source),
        began_before: word.began_before,
        is_open: word.is_open,
        is_unsure: word.is_unsure,
        syscall: word.syscall,
        stands_for: word.stands_for,
        counted: match (word.length, sample.period()) {
            (None, _) => Counted::ByItself,
            (Some(_), None | Some(0)) => Counted::ByOthers,
            (Some(_), Some(_)) => Counted::ForOthers,
        },
        futex: None,
        holder: word.holder.and_then(|tid| i32::try_from(tid).ok()),
    })
}

/// How long a wait was that others count, ns.
fn length_apart(wait: Wait, sample: &RawSample<'_>) -> Option<u64> {
    let word = sample.transaction().and_then(WaitWord::decode);
    let is_apart = wait.counted == Counted::ByOthers;
    word.filter(|_| is_apart)?.length
}

fn event_of(event: &prof_perfdata::Event) -> Event {
    let name = event.name().into_owned();
    let is_software_clock = event.attr.kind == 1 && event.attr.config <= 1;
    let is_off_cpu = is_off_cpu(&event.attr, &name);
    Event {
        name,
        asked: event.attr.sample_period,
        is_freq: event.attr.is_freq(),
        weight_is_ns: is_software_clock || is_off_cpu,
        is_off_cpu,
        has_callchain: event.attr.sample_type.has(SampleType::CALLCHAIN),
        is_overwritten: event.attr.flags.has(AttrFlags::WRITE_BACKWARD),
        tracepoint: event.tracepoint(),
        ..Event::default()
    }
}
