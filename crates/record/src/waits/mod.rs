//! Waits: when threads do not run, for how long, where and why.
//!
//! The kernel samples each leaving of a CPU (`context-switches`, each one) and
//! tells of each leaving and coming back (`PERF_RECORD_SWITCH`). Behind the
//! unwinder, in the order of time, the two become one sample of `offcpu-time`:
//!
//! ```text
//! unwinder ─► Waits ─► consumer
//!               │ samples of leaving, switch records ─► Pairing
//!               ◄───────────── whole waits ◄───────────────┘
//! ```
//!
//! Where the kernel shows a user no switch with its stack, the records still
//! tell when: the event is then opened as one that counts nothing, and stacks
//! are read while threads sleep (`sleepers.rs`), by threads that do nothing else
//! (`watch.rs`).

mod account;
mod batch;
mod blocked;
mod event;
mod found;
mod holders;
mod pairing;
mod readings;
mod sleepers;
mod thinning;
mod wakers;
mod watch;

use crate::options::{Options, WaitOptions};
use crate::rounds;
use crate::synthesize;
use crate::tally::Tally;
use pairing::{Change, Mark, Pairing, Thread, Waited};
use prof_abi::{ByteOrder, CallchainContext, CpuMode, Misc, RecordType};
use prof_live::{Spares, provisional};
use prof_perfdata::write::{
    AsWait, EventDescription, SampleEncoder, SampleFields, as_wait, put_chain_entries,
};
use prof_perfdata::{Body, Event, Events, Record, Sample, WaitWord};
use prof_profile::WaitState;
use prof_sys::clock;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

pub use account::WaitAccount;
use batch::{Batch, Follows, period};
pub(crate) use event::{
    dropped_kernel, has_kernel, has_stacks, is_of_waits, planned, wants_thinned, written,
};
use found::{Found, word};
use holders::Held;
pub(crate) use readings::Readings;
pub(crate) use sleepers::{FIRST_ARGUMENT, ReadAlso, Sleepers, Whom};
pub(crate) use thinning::{FloodGate, Thinner};
pub use wakers::WAKING;
use wakers::Wakers;
pub(crate) use watch::{Watch, Watcher};

/// When what is recorded begins and ends: by time, ns, and whether it begins.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The clock of records, where waits are recorded.
    clock: Option<i32>,
    list: Mutex<Vec<(u64, bool)>>,
    has_begun: AtomicBool,
}

impl Parts {
    /// Of a recording with these options.
    pub(crate) fn of(options: &Options) -> Self {
        let clock = options.waits.and_then(|_| options.used_clock());
        Self {
            clock: clock.map(|clock| clock.id),
            list: Mutex::default(),
            has_begun: AtomicBool::new(false),
        }
    }

    /// Notes what happens now: to be called before events are enabled, or after
    /// they were disabled.
    pub(crate) fn note(&self, begins: bool) {
        if let Some(time) = self.now() {
            let mut parts = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            parts.push((time, begins));
            // ORDERING: Release, partner is the Acquire in `has_begun`.
            self.has_begun.store(true, Ordering::Release);
        }
    }

    /// Whether the first part has begun: what is read before is of none.
    pub(crate) fn has_begun(&self) -> bool {
        // ORDERING: Acquire, partner is the Release in `note`: clocks that are
        // read from here on are not before the part's begin.
        self.has_begun.load(Ordering::Acquire)
    }

    /// The time on the clock of records, ns, where waits are recorded.
    pub(crate) fn now(&self) -> Option<u64> {
        self.clock.and_then(|id| clock::now(id).ok())
    }

    fn take(&self) -> Vec<(u64, bool)> {
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes waits of what goes by.
pub(crate) struct Waits<'a> {
    options: WaitOptions,
    parts: &'a Parts,
    /// As they are written.
    events: Events,
    /// The event of waits.
    event: usize,
    /// Its ids, in order.
    ids: Vec<u64>,
    encoder: SampleEncoder,
    /// Who was woken by whom, where that is recorded.
    wakers: Option<Wakers>,
    keeps_switches: bool,
    /// Samples of other events may stand for leavings.
    keeps_nearest: bool,
    /// Where tasks begin that have not run yet, if waits have the kernel's functions.
    has_kernel: bool,
    first_of_tasks: OnceCell<Option<u64>>,
    /// They would, but there are none.
    has_no_nearest: bool,
    pairing: Pairing,
    /// Where the kernel chooses which samples it takes.
    thinner: Option<Thinner>,
    batch: Batch,
    /// For samples of waits that are put together.
    spare: Spares,
    /// Threads that there were at the start and have not been seen to end, with their
    /// processes.
    threads: BTreeMap<i32, i32>,
    /// Samples of leavings, in whose place waits are written, and of the
    /// recorder's threads being woken.
    taken: u64,
    /// The last end of a wait, ns.
    last: u64,
    /// When the recording last ended, ns.
    end: Option<u64>,
    clock: i32,
    /// By thread and time of samples with provisional names: when these were
    /// surely read, ns.
    named_by: FxHashMap<(i32, u64), u64>,
    /// Samples of time that no wait stands for.
    rests: u64,
    account: WaitAccount,
}

/// What a recording with waits is.
pub(crate) struct OfRecording<'a> {
    pub(crate) options: WaitOptions,
    /// Whether switch records were asked for.
    pub(crate) keeps_switches: bool,
    pub(crate) whole_cpus: bool,
    /// Whether the kernel samples each leaving, and whether with its own functions.
    pub(crate) has_stacks: bool,
    pub(crate) has_kernel: bool,
    /// What chooses which leavings it samples, if not each.
    pub(crate) thinner: Option<Thinner>,
    /// Threads that are attached to.
    pub(crate) threads: Vec<(i32, i32)>,
    /// That of the records.
    pub(crate) clock: i32,
    pub(crate) parts: &'a Parts,
}

/// Most bytes of a buffer of samples that is kept.
const SPARE_BYTES: usize = 1 << 20;
/// Most samples with provisional names that are remembered: those of functions
/// that were not seen before.
const MOST_NAMED: usize = 1 << 12;

impl<'a> Waits<'a> {
    /// For these events, as they are written; `None` if none is of waits.
    pub(crate) fn new(of: OfRecording<'a>, written: &[EventDescription]) -> Option<Self> {
        let event = written.iter().position(|event| is_of_waits(&event.name))?;
        let mut events = Events::new(ByteOrder::NATIVE);
        for event in written {
            events.push(Event::new(event.attr.clone(), event.ids.clone()));
        }
        let own = written.get(event)?;
        let mut ids = own.ids.clone();
        ids.sort_unstable();
        Some(Self {
            options: of.options,
            parts: of.parts,
            events,
            event,
            ids,
            encoder: SampleEncoder::new(&own.attr),
            wakers: Wakers::among(written),
            keeps_switches: of.keeps_switches,
            keeps_nearest: !of.has_stacks,
            has_kernel: of.has_kernel,
            first_of_tasks: OnceCell::new(),
            has_no_nearest: !of.has_stacks && written.len() == 1,
            pairing: Pairing::new(of.whole_cpus),
            thinner: of.thinner,
            batch: Batch::default(),
            spare: Spares::new(1, SPARE_BYTES),
            threads: of
                .threads
                .into_iter()
                .map(|(pid, tid)| (tid, pid))
                .collect(),
            taken: 0,
            last: 0,
            end: None,
            clock: of.clock,
            named_by: FxHashMap::default(),
            rests: 0,
            account: WaitAccount::default(),
        })
    }

    /// Takes whole records in the order in which they would be written; `out`
    /// gets those that stay.
    pub(crate) fn pass(&mut self, records: &[u8], out: &mut dyn FnMut(&[u8])) {
        let (mut from, mut at) = (0, 0);
        rounds::each(records, |kind, record| {
            let next = at + record.len();
            if !self.take(kind, record) {
                // Of records that are not written there may be many in a row.
                if from < at {
                    out(records.get(from..at).unwrap_or_default());
                }
                from = next;
            }
            at = next;
        });
        out(records.get(from..).unwrap_or_default());
    }

    /// Takes down that what these threads run, at the times of samples, has been read by
    /// now.
    pub(crate) fn named(&mut self, of: Vec<(i32, u64)>) {
        let now = match of.is_empty() {
            true => None,
            false => clock::now(self.clock).ok(),
        };
        let Some(now) = now else {
            return;
        };
        if self.named_by.len() >= MOST_NAMED {
            self.named_by.clear();
        }
        self.named_by.extend(of.into_iter().map(|of| (of, now)));
    }

    /// Takes down who was seen to hold what a thread waited for.
    pub(crate) fn held(&mut self, held: &Held) {
        self.pairing.add(Mark {
            time: held.from,
            thread: held.thread,
            change: Change::Held {
                until: held.until,
                by: held.by,
            },
        });
    }

    /// Takes down how often threads leave their CPUs, by whole records as they
    /// are drained, until a time, ns; tells whether the kernel samples but some of
    /// that now.
    pub(crate) fn pace(&mut self, records: &[u8], until: u64) -> bool {
        let Some(thinner) = &mut self.thinner else {
            return false;
        };
        let mut count = 0;
        rounds::each(records, |kind, record| {
            let is_switch = matches!(kind, RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE);
            count += u64::from(is_switch && leaves(record));
        });
        thinner.left(until, count);
        thinner.is_on()
    }

    /// Nothing older than `horizon`, ns, will be passed: `out` gets the waits
    /// that have ended.
    pub(crate) fn pair(&mut self, horizon: u64, out: &mut dyn FnMut(&[u8])) {
        for (time, begins) in self.parts.take() {
            let change = match begins {
                true => Change::Begin,
                false => Change::End,
            };
            self.end = (!begins).then_some(time);
            self.pairing.add(Mark {
                time,
                thread: Thread::default(),
                change,
            });
        }
        let mut pairing = std::mem::take(&mut self.pairing);
        let mut records = self.spare.take();
        pairing.pair(horizon, &mut |wait| self.append(wait, &mut records));
        for tid in pairing.take_ended() {
            self.batch.over(tid);
            self.threads.remove(&tid);
        }
        self.pairing = pairing;
        if self.batch.is_due() {
            self.end_batch(Follows::More, &mut records);
        }
        out(&records);
        self.spare.give_back(records);
    }

    /// Frees the buffer that waits for use.
    pub(crate) fn give_up_spares(&mut self) {
        self.spare.give_up();
    }

    /// `out` gets the waits of which it is not known yet for how many they
    /// stand, as far as it is.
    pub(crate) fn press(&mut self, out: &mut dyn FnMut(&[u8])) {
        let mut records = Vec::new();
        // What is told now is the batch before.
        self.end_batch(Follows::More, &mut records);
        self.end_batch(Follows::More, &mut records);
        out(&records);
    }

    /// Nothing comes any more. `is_asleep` says of a thread that was never
    /// seen to run or leave whether it sleeps now.
    pub(crate) fn finish(&mut self, is_asleep: impl Fn(i32) -> bool, out: &mut dyn FnMut(&[u8])) {
        self.pair(u64::MAX, out);
        let mut records = Vec::new();
        self.end_batch(Follows::Nothing, &mut records);
        let Some(end) = self.end else {
            out(&records);
            return;
        };
        for (tid, pid) in std::mem::take(&mut self.threads) {
            if self.pairing.has_seen(tid) || !is_asleep(tid) {
                continue;
            }
            let wait = Waited {
                thread: Thread { pid, tid, cpu: 0 },
                nth: 0,
                begin: self.pairing.began(),
                end,
                state: WaitState::Blocked,
                sample: None,
                was_read: false,
                holder: None,
                began_before: true,
                is_open: true,
                is_unsure: false,
            };
            self.append(wait, &mut records);
        }
        out(&records);
    }

    /// The earliest time, ns, that a wait may have that is still to come and
    /// whose end was passed.
    pub(crate) fn earliest_held(&self) -> Option<u64> {
        let held = self.batch.earliest();
        self.pairing.earliest().into_iter().chain(held).min()
    }

    /// What became of the waits so far.
    pub(crate) fn account(&self) -> WaitAccount {
        WaitAccount {
            broken: self.pairing.broken,
            ..self.account
        }
    }

    /// Has samples of waits counted in the place of samples of leaving.
    pub(crate) fn correct(&self, tally: &mut Tally) {
        tally.samples =
            tally.samples.saturating_sub(self.taken) + self.account.written + self.rests;
        tally.last = tally.last.max(self.last);
    }

    /// Takes a record down; false if it is not to be written.
    fn take(&mut self, kind: RecordType, record: &[u8]) -> bool {
        match kind {
            RecordType::SAMPLE => {
                self.batch.passes(record.len());
                let id = ByteOrder::NATIVE.u64(record, 8);
                if id.is_none_or(|id| self.ids.binary_search(&id).is_err()) {
                    if self.note_woken(record) {
                        self.taken += 1;
                        return false;
                    }
                    if self.keeps_nearest {
                        self.mark(record, Change::Passed(record.into()));
                    }
                    return true;
                }
                self.sampled(record);
                false
            }
            RecordType::SWITCH | RecordType::SWITCH_CPU_WIDE => {
                let change = match leaves(record) {
                    true => Change::Leaves {
                        preempted: misc(record).has(Misc::SWITCH_OUT_PREEMPT),
                    },
                    false => Change::Runs,
                };
                self.mark(record, change);
                self.keeps_switches
            }
            RecordType::FORK | RecordType::EXIT => {
                self.task(record);
                true
            }
            RecordType::LOST => {
                self.mark(record, Change::Lost);
                true
            }
            _ => true,
        }
    }

    /// A sample of the event: the kernel's, or what was read of a sleeper, which
    /// has a word.
    fn sampled(&mut self, record: &[u8]) {
        let view = Record::new(record, 0, &self.events);
        let sample = view.and_then(|view| view.sample_of(self.events.get(self.event)?).ok());
        let word = sample.and_then(|sample| sample.transaction());
        let until = sample.and_then(|sample| sample.period());
        let (change, taken) = match (word.filter(|&word| word != 0), until) {
            (Some(_), Some(until)) => {
                let record = record.into();
                (Change::Read { until, record }, 0)
            }
            _ => (Change::Sampled(record.into()), 1),
        };
        self.taken += taken;
        self.mark(record, change);
    }

    /// Settles provisional names of a sample, in its copy at `begin` of `out`: they
    /// count if its thread stood still in this wait until they were read.
    fn settle_names(&self, wait: &Waited, sample: &Sample<'_>, (out, begin): (&mut [u8], usize)) {
        let of = sample.tid().zip(sample.time());
        let named_by = of.and_then(|of| self.named_by.get(&of));
        let stood_still = named_by.is_some_and(|&read| read < wait.end) && !wait.is_unsure;
        let settled = |entry| provisional::settled(entry, stood_still);
        put_chain_entries(sample, (out, begin), settled);
    }

    /// If a sample is of waking: the thread that was woken waits for a CPU. Tells
    /// whether that is one of the recorder's.
    fn note_woken(&mut self, record: &[u8]) -> bool {
        let woken = self.wakers.as_ref().and_then(|wakers| {
            let view = Record::new(record, 0, &self.events)?;
            let event = view.event_index().filter(|&at| at == wakers.event)?;
            let sample = view.sample_of(self.events.get(event)?).ok()?;
            Some((sample.time()?, wakers.woken(sample.raw()?)))
        });
        let Some((time, tid)) = woken else {
            return false;
        };
        if self
            .wakers
            .as_mut()
            .is_some_and(|wakers| wakers.is_own(tid))
        {
            return true;
        }
        let thread = Thread {
            tid,
            ..Thread::default()
        };
        let change = Change::Woken;
        self.pairing.add(Mark {
            time,
            thread,
            change,
        });
        false
    }

    /// What happened to the thread that a record is of. Threads of id 0 are
    /// the CPUs' idle ones.
    fn mark(&mut self, record: &[u8], change: Change) {
        let Some(view) = Record::new(record, 0, &self.events) else {
            return;
        };
        let of = view.sample_id();
        let (Some(tid), Some(time)) = (of.tid, view.time()) else {
            return;
        };
        if tid > 0 || change == Change::Lost {
            let thread = Thread {
                pid: of.pid.unwrap_or(-1),
                tid,
                cpu: of.cpu.unwrap_or(0),
            };
            self.pairing.add(Mark {
                time,
                thread,
                change,
            });
        }
    }

    fn task(&mut self, record: &[u8]) {
        let Some(view) = Record::new(record, 0, &self.events) else {
            return;
        };
        let (task, change) = match view.decode() {
            Body::Fork(task) => (task, Change::Made),
            Body::Exit(task) => (task, Change::Ends),
            _ => return,
        };
        // Those that tell of what was there before have no time.
        if task.time == 0 {
            return;
        }
        let thread = Thread {
            pid: task.pid,
            tid: task.tid,
            cpu: view.sample_id().cpu.unwrap_or(0),
        };
        self.pairing.add(Mark {
            time: task.time,
            thread,
            change,
        });
    }

    /// Appends a wait as a sample, at once or when it is known for how many it
    /// stands.
    fn append(&mut self, wait: Waited, out: &mut Vec<u8>) {
        let length = wait.end.saturating_sub(wait.begin);
        if u128::from(length) < self.options.at_least.as_nanos() || length == 0 {
            self.account.short += 1;
            self.account.short_ns = self.account.short_ns.saturating_add(length);
            return;
        }
        self.last = self.last.max(wait.end);
        let thinner = self.thinner.as_ref();
        let halvings = thinner.map_or(0, |thinner| thinner.thinned(&wait));
        if halvings == 0 {
            let has_stack = self.write(&wait, 0, out);
            self.note(&wait, length, has_stack);
            return;
        }
        self.note(&wait, length, true);
        match wait
            .sample
            .as_deref()
            .is_some_and(|it| self.is_of_leaving(it))
        {
            true => {
                self.account.chosen += 1;
                self.batch.choose(wait, halvings);
            }
            false => {
                self.account.not_chosen += 1;
                self.batch.pass(&wait, halvings);
                self.append_bare(&wait, (0, length), out);
            }
        }
    }

    /// Appends what is known of chosen waits when a batch of them ends.
    fn end_batch(&mut self, follows: Follows, out: &mut Vec<u8>) {
        let told = self.batch.end(follows);
        for (wait, times) in &told.chosen {
            self.write(wait, *times, out);
        }
        for rest in told.rest {
            let wait = Waited::bare(rest.thread, rest.state, (rest.until, rest.until));
            self.append_bare(&wait, (rest.time, 0), out);
            self.rests += 1;
            let sum = &mut self.account.without_stack_ns;
            *sum = sum.saturating_add(rest.time);
        }
    }

    /// Whether a record is the kernel's sample of a leaving, not something that
    /// was read.
    fn is_of_leaving(&self, record: &[u8]) -> bool {
        let view = Record::new(record, 0, &self.events);
        let word = view.and_then(|view| {
            let sample = view.sample_of(self.events.get(self.event)?).ok()?;
            sample.transaction()
        });
        word.and_then(WaitWord::decode).is_none()
    }

    /// Appends a wait, or time of several, without its stack: its period and
    /// its own length, ns.
    fn append_bare(&self, wait: &Waited, (period, length): (u64, u64), out: &mut Vec<u8>) {
        let fields = AsWait {
            end: wait.end,
            period,
            address: 0,
            word: WaitWord {
                length: Some(length),
                ..word(wait, &Found::Nothing)
            }
            .encode(),
        };
        self.append_new(wait, fields, &[], out);
    }

    /// Appends a wait that stands for so many, in 64ths, or with 0 for itself;
    /// tells whether it has a stack.
    fn write(&self, wait: &Waited, times: u32, out: &mut Vec<u8>) -> bool {
        let length = wait.end.saturating_sub(wait.begin);
        let record = wait.sample.as_deref();
        let view = record.and_then(|record| Record::new(record, 0, &self.events));
        let found = self.found(wait, view.as_ref());
        let fields = AsWait {
            end: wait.end,
            period: match times {
                0 => length,
                times => period(wait, times),
            },
            address: match wait.state {
                WaitState::Blocked => found.address(),
                _ => 0,
            },
            word: WaitWord {
                stands_for: times,
                ..word(wait, &found)
            }
            .encode(),
        };
        match &found {
            Found::Switch(sample) | Found::Read(sample, _) => {
                let begin = out.len();
                as_wait(sample, fields, out);
                self.settle_names(wait, sample, (out, begin));
            }
            Found::NotRunYet(first) => {
                let chain = [CallchainContext::KERNEL.0, *first];
                self.append_new(wait, fields, &chain, out);
            }
            Found::Nearest(sample) => {
                let chain: Vec<u64> = sample.callchain().into_iter().flatten().collect();
                self.append_new(wait, fields, &chain, out);
            }
            Found::Nothing | Found::Told { .. } => self.append_new(wait, fields, &[], out),
        }
        !matches!(found, Found::Nothing | Found::Told { .. })
    }

    /// What is known of a wait, by its sample.
    fn found<'r>(&self, wait: &Waited, view: Option<&Record<'r>>) -> Found<'r> {
        let sample = view.and_then(|view| {
            let event = view.events().get(view.event_index()?)?;
            Some((
                view.event_index()? == self.event,
                view.sample_of(event).ok()?,
            ))
        });
        let Some((is_own, sample)) = sample else {
            return self.without_sample(wait);
        };
        let told = sample.transaction().and_then(WaitWord::decode);
        let has_stack = sample
            .callchain()
            .is_none_or(|mut chain| chain.next().is_some());
        match (is_own, told) {
            (false, _) => Found::Nearest(sample),
            (true, Some(told)) if has_stack => Found::Read(sample, told),
            (true, Some(word)) => Found::Told {
                word,
                address: sample.addr().unwrap_or(0),
            },
            (true, None) => Found::Switch(sample),
        }
    }

    /// What is known of a wait without a sample.
    fn without_sample<'r>(&self, wait: &Waited) -> Found<'r> {
        if wait.state != WaitState::Started || !self.has_kernel {
            return Found::Nothing;
        }
        let first = self.first_of_tasks.get_or_init(synthesize::first_of_tasks);
        first.map_or(Found::Nothing, Found::NotRunYet)
    }

    /// Adds a wait that was written to the account.
    fn note(&mut self, wait: &Waited, length: u64, has_stack: bool) {
        let account = &mut self.account;
        account.written += 1;
        let sum = match wait.state {
            WaitState::Unknown => &mut account.unknown_ns,
            state if state.is_runnable() => &mut account.runnable_ns,
            _ => &mut account.blocked_ns,
        };
        *sum = sum.saturating_add(length);
        if !has_stack {
            account.without_stack_ns = account.without_stack_ns.saturating_add(length);
            if self.has_no_nearest && wait.state == WaitState::Preempted {
                account.preempted_ns = account.preempted_ns.saturating_add(length);
            }
        }
        if wait.is_unsure {
            account.unsure_ns = account.unsure_ns.saturating_add(length);
        }
    }

    /// Appends a wait that no sample of its own stands for, with this chain.
    fn append_new(&self, wait: &Waited, fields: AsWait, chain: &[u64], out: &mut Vec<u8>) {
        // Without a chain all that is known is that it left in the kernel.
        let context = chain
            .first()
            .and_then(|&entry| CallchainContext::from_entry(entry));
        let fields = SampleFields {
            cpu_mode: context.map_or(CpuMode::Kernel, CallchainContext::cpu_mode),
            id: self.ids.first().copied().unwrap_or(0),
            // The first entry says which mode the others are of.
            ip: chain.get(1).copied().unwrap_or(0),
            callchain: chain,
            pid: wait.thread.pid.cast_unsigned(),
            tid: wait.thread.tid.cast_unsigned(),
            cpu: wait.thread.cpu,
            time: fields.end,
            period: fields.period,
            addr: fields.address,
            transaction: fields.word,
            ..SampleFields::default()
        };
        // A chain that came in a record fits into one.
        let _ = self.encoder.encode(&fields, out);
    }
}

fn misc(record: &[u8]) -> Misc {
    Misc(ByteOrder::NATIVE.u16(record, 4).unwrap_or(0))
}

/// Whether a switch record is of a thread that leaves its CPU.
fn leaves(record: &[u8]) -> bool {
    misc(record).has(Misc::SWITCH_OUT)
}

#[cfg(test)]
mod tests;
