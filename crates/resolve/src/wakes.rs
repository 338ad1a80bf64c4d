//! Who ended waits: what the tracepoints of waking tell.

use prof_abi::{ByteOrder, event_kind};
use prof_perfdata::body::Task;
use prof_perfdata::tracepoint::{EventFormat, TracingData};
use prof_perfdata::{Event, Features, Sample as RawSample};
use prof_profile::{Profile, StackId, TaskId, WAKE_EVENTS, Wait, WaitKind, WaitState, Wake};
use rustc_hash::FxHashMap;

/// Bits of `common_flags` that are set in interrupts (`TRACE_FLAG_HARDIRQ`,
/// `TRACE_FLAG_SOFTIRQ`).
const IN_INTERRUPT: u64 = 0x08 | 0x10;
/// A thread that the end of a child wakes by a signal runs within so long, ns:
/// it may have to wait for a CPU.
const SIGNALLED: u64 = 10_000_000;
/// The kernel's functions that pass a packet to its device, and that receive those
/// which came from no device of its own.
const SENDS: &str = "__dev_queue_xmit";
const RECEIVES_QUEUED: &str = "process_backlog";
/// More bytes of a payload than these tracepoints have.
const LONGEST: usize = 256;

/// A sample of one of them, until its format is known.
struct Met {
    time: u64,
    task: TaskId,
    stack: StackId,
    /// Number of the event.
    event: u64,
    payload: Box<[u8]>,
}

/// Collects them.
#[derive(Default)]
pub(crate) struct Wakes {
    met: Vec<Met>,
    /// When threads ended, ns: with their processes, in the order of time.
    exits: Vec<(u64, i32, i32)>,
    order: Option<ByteOrder>,
}

impl Wakes {
    /// Notes a sample, if it is of waking.
    pub(crate) fn note(&mut self, event: &Event, sample: &RawSample<'_>, of: (TaskId, StackId)) {
        let name = event.recorded_name.as_deref().unwrap_or_default();
        if event.attr.kind != event_kind::TRACEPOINT || !WAKE_EVENTS.contains(&name) {
            return;
        }
        let (Some(payload), Some(time)) = (sample.raw(), sample.time()) else {
            return;
        };
        self.order = Some(sample.order());
        self.met.push(Met {
            time,
            task: of.0,
            stack: of.1,
            event: event.attr.config,
            payload: payload.get(..LONGEST).unwrap_or(payload).into(),
        });
    }

    /// Notes the end of a thread.
    pub(crate) fn ended(&mut self, exit: &Task) {
        self.exits.push((exit.time, exit.pid, exit.tid));
    }

    /// What they tell, in the order of time.
    pub(crate) fn told(&mut self, features: &Features) -> Vec<Wake> {
        let tracing = features.tracing_data();
        let tracing = tracing.and_then(|bytes| TracingData::parse(bytes).ok());
        let (Some(tracing), Some(order)) = (tracing, self.order) else {
            return Vec::new();
        };
        let told = |met: &Met| {
            let format = tracing.event(met.event)?;
            let value = |format: &EventFormat, name: &str| {
                Some(format.field(name)?.value(&met.payload, order))
            };
            let flags = value(format, "common_flags").unwrap_or(0);
            Some(Wake {
                time: met.time,
                woken: value(format, "pid")? as i32,
                task: met.task,
                stack: met.stack,
                in_interrupt: flags & IN_INTERRUPT != 0,
            })
        };
        let mut wakes: Vec<Wake> = self.met.iter().filter_map(told).collect();
        wakes.sort_by_key(|wake| wake.time);
        wakes
    }

    /// Takes wakes by whoever sent something to a socket of the same machine for
    /// theirs: what goes over the loopback device is received in a soft interrupt
    /// that the sender itself runs before it goes on.
    pub(crate) fn credit_senders(profile: &mut Profile) {
        let mut wakes = std::mem::take(&mut profile.wakes);
        let mut known: FxHashMap<StackId, bool> = FxHashMap::default();
        for wake in wakes.iter_mut().filter(|wake| wake.in_interrupt) {
            let known = known.entry(wake.stack);
            wake.in_interrupt = !*known.or_insert_with(|| sends(profile, wake.stack));
        }
        profile.wakes = wakes;
    }

    /// Adds the wakes of threads that ended: Linux 6.16 and later stop the
    /// events of a thread before its end wakes who waits for it. A wait for a
    /// thread or child whose end was not seen ended with the last one that ended
    /// meanwhile. Whoever polls or waits for signals (`make -j`) is ended by the
    /// signal of the first child that ends, or by none.
    pub(crate) fn add_ends(self, profile: &mut Profile) {
        if profile.wakes.is_empty() {
            return;
        }
        let ends = Ends::of(&self.exits, profile);
        let mut seen: FxHashMap<i32, Vec<u64>> = FxHashMap::default();
        for wake in &profile.wakes {
            seen.entry(wake.woken).or_default().push(wake.time);
        }
        let mut found = Vec::new();
        for (row, sample) in profile.samples.iter().enumerate() {
            let wait = profile.samples.wait_at(row);
            let Some(wait) = wait.filter(|wait| wait.state == WaitState::Blocked) else {
                continue;
            };
            let task = profile.task(sample.task);
            let length = profile.samples.wait_length(row).unwrap_or(0);
            let begin = sample.time.saturating_sub(length);
            let times = seen.get(&task.tid).map_or(&[][..], Vec::as_slice);
            let next = times.get(times.partition_point(|&time| time <= begin));
            if next.is_some_and(|&time| time <= sample.time) {
                continue;
            }
            let Some(what) = what(profile, wait, sample.stack) else {
                continue;
            };
            let list = match what {
                What::Thread => ends.threads.get(&task.pid),
                What::Child | What::Signal => ends.children.get(&task.pid),
            };
            let ended = list.and_then(|list| what.ended(list, (begin, sample.time)));
            if let Some((time, tid)) = ended
                && let Some(&waker) = ends.tasks.get(&tid)
            {
                found.push(Wake {
                    time,
                    woken: task.tid,
                    task: waker,
                    stack: StackId::EMPTY,
                    in_interrupt: false,
                });
            }
        }
        profile.wakes.extend(found);
        profile.wakes.sort_by_key(|wake| wake.time);
    }
}

/// Whether a stack is of a thread that sends, and receives at once what it sent: the
/// queue of packets that need no device is worked off on top of sending.
fn sends(profile: &Profile, stack: StackId) -> bool {
    let locations = profile.stacks.locations(stack);
    let mut names = locations
        .flat_map(|at| profile.frames_at(at))
        .map(|frame| profile.name(profile.function(frame.function).name));
    names.any(|name| name == RECEIVES_QUEUED) && names.any(|name| name == SENDS)
}

/// Whose end is waited for.
enum What {
    Thread,
    Child,
    /// That of a child, by SIGCHLD, among other things.
    Signal,
}

impl What {
    /// Whose end, of those listed in the order of time, ended a wait of these
    /// times, ns.
    fn ended(&self, list: &[(u64, i32)], (begin, end): (u64, u64)) -> Option<(u64, i32)> {
        let first = list.partition_point(|&(time, _)| time <= begin);
        let behind = list.partition_point(|&(time, _)| time <= end);
        let meanwhile = list.get(first..behind)?;
        match self {
            Self::Thread | Self::Child => meanwhile.last().copied(),
            // Where the first signal ended nothing, none does.
            Self::Signal => meanwhile
                .first()
                .copied()
                .filter(|&(time, _)| end - time <= SIGNALLED),
        }
    }
}

fn what(profile: &Profile, wait: &Wait, stack: StackId) -> Option<What> {
    match wait.kind {
        WaitKind::Child => Some(What::Child),
        WaitKind::Poll | WaitKind::Signal => Some(What::Signal),
        WaitKind::Futex => {
            let locations = profile.stacks.locations(stack);
            let mut frames = locations.flat_map(|at| profile.frames_at(at));
            let joins = frames.any(|frame| {
                let name = profile.name(profile.function(frame.function).name);
                name.contains("join")
            });
            joins.then_some(What::Thread)
        }
        _ => None,
    }
}

/// Times and threads.
type Listed = Vec<(u64, i32)>;

/// Who ended when.
struct Ends {
    /// By process, of its threads.
    threads: FxHashMap<i32, Listed>,
    /// By process, of its children.
    children: FxHashMap<i32, Listed>,
    /// The last name of each thread.
    tasks: FxHashMap<i32, TaskId>,
}

impl Ends {
    fn of(exits: &[(u64, i32, i32)], profile: &Profile) -> Self {
        let mut threads: FxHashMap<i32, Listed> = FxHashMap::default();
        let mut children: FxHashMap<i32, Listed> = FxHashMap::default();
        for &(time, pid, tid) in exits {
            threads.entry(pid).or_default().push((time, tid));
            let parent = profile.thread(pid).and_then(|thread| thread.parent);
            let parent = parent.and_then(|parent| profile.thread(parent));
            if let Some(parent) = parent.filter(|_| tid == pid) {
                children.entry(parent.pid).or_default().push((time, tid));
            }
        }
        for list in threads.values_mut().chain(children.values_mut()) {
            list.sort_unstable();
        }
        let ids = (0_u32..).map(TaskId);
        let tasks = profile.tasks.iter().zip(ids);
        Self {
            threads,
            children,
            tasks: tasks.map(|(task, id)| (task.tid, id)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::What;

    #[test]
    fn a_poll_ends_with_the_first_child_and_other_waits_with_the_last() {
        const MS: u64 = 1_000_000;
        let list = [(10 * MS, 1), (50 * MS, 2), (52 * MS, 3), (90 * MS, 4)];
        let ended = |what: What, begin, end| Some(what.ended(&list, (begin * MS, end * MS))?.1);
        assert_eq!(ended(What::Child, 20, 55), Some(3));
        assert_eq!(ended(What::Thread, 60, 80), None);
        assert_eq!(ended(What::Signal, 20, 55), Some(2));
        // Its time was out: a child had ended long before.
        assert_eq!(ended(What::Signal, 20, 80), None);
        assert_eq!(ended(What::Signal, 5, 55), None);
        assert_eq!(ended(What::Signal, 53, 80), None);
        assert_eq!(ended(What::Signal, 90, 80), None);
    }
}
