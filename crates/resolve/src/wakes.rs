//! Who ended waits: what the tracepoints of waking tell.

use prof_abi::{ByteOrder, event_kind};
use prof_perfdata::body::Task;
use prof_perfdata::tracepoint::{EventFormat, TracingData};
use prof_perfdata::{Event, Features, Sample as RawSample};
use prof_profile::{Profile, StackId, TaskId, Wait, WaitKind, WaitState, Wake};
use rustc_hash::FxHashMap;

/// The tracepoints, which occur where the waker runs.
const NAMES: [&str; 2] = ["sched:sched_waking", "sched:sched_wakeup"];
/// Bits of `common_flags` that are set in interrupts (`TRACE_FLAG_HARDIRQ`,
/// `TRACE_FLAG_SOFTIRQ`).
const IN_INTERRUPT: u64 = 0x08 | 0x10;
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
        if event.attr.kind != event_kind::TRACEPOINT || !NAMES.contains(&name) {
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

    /// Adds the wakes of threads that ended: Linux 6.16 and later stop the
    /// events of a thread before its end wakes who waits for it. A wait for a
    /// thread or child whose end was not seen ended with the last one that ended
    /// meanwhile.
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
            let begin = sample.time.saturating_sub(wait.length(sample.period));
            let times = seen.get(&task.tid).map_or(&[][..], Vec::as_slice);
            let next = times.get(times.partition_point(|&time| time <= begin));
            if next.is_some_and(|&time| time <= sample.time) {
                continue;
            }
            let ended = match what(profile, wait, sample.stack) {
                Some(What::Thread) => ends.threads.get(&task.pid),
                Some(What::Child) => ends.children.get(&task.pid),
                None => None,
            };
            let ended = ended.and_then(|list| {
                let behind = list.partition_point(|&(time, _)| time <= sample.time);
                let last = list.get(behind.checked_sub(1)?)?;
                (last.0 > begin).then_some(*last)
            });
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

/// Whose end is waited for.
enum What {
    Thread,
    Child,
}

fn what(profile: &Profile, wait: &Wait, stack: StackId) -> Option<What> {
    match wait.kind {
        WaitKind::Child => Some(What::Child),
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
