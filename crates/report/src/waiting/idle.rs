//! Waits of pool threads for work: which waits these are, and how they are
//! folded, so that views tell of what was waited for by who had something to do.
//!
//! A wait is one for work if the thread is blocked at a condition variable, a
//! semaphore or where its own scheduler parks it, no function on its stack takes
//! a lock, and either
//!
//! - it is in a function in which threads of a runtime wait for nothing but work
//!   (`NAMED`, `LOOPS`), or
//! - it is not the first thread of its process, another such thread waited at the
//!   same condition variable or semaphore, and the function that waits there is
//!   the thread's loop: 99 % of the time that the thread ran or was blocked is
//!   below it.
//!
//! A wait for a lock, a file, the network, a time or a CPU is none of these,
//! whoever waits. Rows and their weights stay; their stacks become one frame.

use super::locks::LockKind;
pub use super::places::FOLDED;
use super::places::{names, time};
use prof_abi::CpuMode;
use prof_profile::{
    Clock, DroppedCount, FunctionId, LocationId, Profile, StackId, StackTree, Wait, WaitKind,
    WaitState, several,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// How much waiting was folded into [`FOLDED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idle {
    /// ns.
    pub ns: u64,
    /// How many waits.
    pub waits: u64,
    /// Of how many threads.
    pub threads: usize,
}

/// Functions in which threads of runtimes wait for nothing but work.
const NAMED: [&str; 5] = [
    // Go: a thread without a goroutine to run.
    "runtime.stopm",
    "java.util.concurrent.ThreadPoolExecutor.getTask",
    "java.util.concurrent.ForkJoinPool.awaitWork",
    // Java's threads that hand out references which nothing refers to any more.
    "java.lang.ref.Reference.waitForReferencePendingList",
    "java.lang.ref.ReferenceQueue.remove",
];

/// HotSpot's own loops, which also do the work: those that wait themselves.
const LOOPS: [&str; 14] = [
    "GangWorker::loop",
    "WorkerThread::run",
    "CompileQueue::get",
    "VMThread::wait_for_operation",
    "G1ConcurrentMarkThread::run_service",
    "G1ConcurrentMarkThread::wait_for_next_cycle",
    "G1ConcurrentRefineThread::run_service",
    "G1ServiceThread::sleep_before_next_cycle",
    "os::signal_wait",
    "NMethodSweeper::sweeper_loop",
    "NotificationThread::notification_thread_entry",
    "ServiceThread::service_thread_entry",
    "MonitorDeflationThread::monitor_deflation_thread_entry",
    "WatcherThread::sleep",
];

/// How the names of functions begin by which these wait.
const MEANS: [&str; 4] = [
    "PosixSemaphore::",
    "Semaphore::",
    "Monitor::wait",
    "os::Platform",
];

/// The loop of Python's pools, where several wait at one queue.
const OF_SEVERAL: &str = "_queue_SimpleQueue_get";

/// What names of functions have in them that take a lock.
const LOCKING: [&str; 8] = [
    "lll_lock_wait",
    "pthread_mutex_",
    "pthread_rwlock_",
    "AbstractQueuedSynchronizer.acquire",
    "ObjectMonitor::enter",
    "Mutex::lock",
    "take_gil",
    "runtime.lock",
];

/// How the names of functions begin that wait at a condition variable for
/// whoever calls them.
const WRAPPERS: [&str; 5] = [
    "wait<",
    "wait_for<",
    "wait_until<",
    "std::condition_variable",
    "std::counting_semaphore",
];
/// How the names of files begin whose functions do.
const WRAPPING: [&str; 5] = ["libc.so", "libc-", "libpthread", "ld-musl", "libstdc++"];

/// Both words of a condition variable are within so many bytes.
const NEAR: u64 = 16;

/// A wait that may be one for work.
struct Candidate {
    row: usize,
    tid: i32,
    /// The condition variable or semaphore: its process and about where it is.
    place: Option<(i32, u64)>,
    /// Functions from the root to the one that waits.
    path: Vec<FunctionId>,
    told: Told,
}

/// What the names of its functions tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// The thread waits for work.
    Work,
    /// The thread waits for work if others wait at the same place.
    WorkOfSeveral,
    Nothing,
}

/// Replaces the stacks of waits for work by one frame, and adds a note to the
/// profile's trust account.
pub fn fold(profile: &mut Profile) -> Idle {
    let rows = idle_rows(profile);
    let mut idle = Idle::default();
    if rows.is_empty() {
        return idle;
    }
    let place = profile.add_wait_place(FOLDED);
    let Some(stack) = add_stack(profile, place) else {
        return idle;
    };
    let mut threads = FxHashSet::default();
    for row in rows {
        profile.samples.set_stack(row, stack);
        if let Some(sample) = profile.samples.get(row) {
            idle.ns = idle.ns.saturating_add(sample.period);
            idle.waits += 1;
            threads.insert(profile.task(sample.task).tid);
        }
    }
    idle.threads = threads.len();
    profile.trust.notes.push(DroppedCount {
        what: format!(
            "threads of pools waited for work, {} in {}; shown as one frame, {FOLDED} (--idle shows \
             them)",
            time(idle.ns),
            several(idle.threads as u64, "thread"),
        ),
        count: idle.waits,
        clock: Some(Clock::Off),
    });
    idle
}

/// The rows that are waits for work.
fn idle_rows(profile: &Profile) -> Vec<usize> {
    if !profile.samples.has_waits() {
        return Vec::new();
    }
    let mut known: FxHashMap<StackId, Option<(Vec<FunctionId>, Told)>> = FxHashMap::default();
    let mut candidates = Vec::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let wait = profile.samples.wait_at(row);
        let Some(wait) = wait.filter(|wait| is_blocked_at_futex(wait)) else {
            continue;
        };
        let known = known.entry(sample.stack);
        let Some((path, told)) = known.or_insert_with(|| looked_at(profile, sample.stack)) else {
            continue;
        };
        let futex = wait.futex.and_then(|id| profile.futexes.get(id.0 as usize));
        candidates.push(Candidate {
            row,
            tid: profile.task(sample.task).tid,
            place: futex.map(|futex| (futex.pid, futex.address.0 / NEAR)),
            path: path.clone(),
            told: *told,
        });
    }
    let shared = shared_places(profile, &candidates);
    let is_shared = |candidate: &Candidate| {
        let near = |(pid, place): (i32, u64)| {
            let places = [place.saturating_sub(1), place, place + 1];
            places.iter().any(|&place| shared.contains(&(pid, place)))
        };
        !is_first(profile, candidate.tid) && candidate.place.is_some_and(near)
    };
    let shares = Shares::of(profile, &candidates);
    let is_idle = |candidate: &&Candidate| match candidate.told {
        Told::Work => true,
        Told::WorkOfSeveral => is_shared(candidate),
        Told::Nothing => is_shared(candidate) && shares.is_loop(candidate),
    };
    candidates.iter().filter(is_idle).map(|it| it.row).collect()
}

fn is_blocked_at_futex(wait: &Wait) -> bool {
    wait.state == WaitState::Blocked && wait.kind == WaitKind::Futex
}

/// What a stack tells of a wait with it; `None` if it is none for work.
fn looked_at(profile: &Profile, stack: StackId) -> Option<(Vec<FunctionId>, Told)> {
    let names = names(profile, stack);
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    let waits_at = LockKind::of(&names);
    let may = [LockKind::Condition, LockKind::Semaphore, LockKind::Park];
    if !may.contains(&waits_at) || LOCKING.iter().any(|part| has(part)) {
        return None;
    }
    let path = path_to_waiting(profile, stack);
    let is_named = names.iter().any(|name| NAMED.contains(&name.as_str()));
    let own = names.iter().skip_while(|name| {
        let of_libc = |name: &str| LockKind::of(&[name.to_owned()]) != LockKind::Unknown;
        let inner = name.starts_with("__futex") || of_libc(name);
        inner || MEANS.iter().any(|means| name.starts_with(means))
    });
    let waits_itself = own.take(1).any(|name| LOOPS.contains(&name.as_str()));
    let told = match (is_named || waits_itself, has(OF_SEVERAL)) {
        (true, _) => Told::Work,
        (_, true) => Told::WorkOfSeveral,
        _ => Told::Nothing,
    };
    Some((path, told))
}

/// The user functions of a stack from its root to the one that waits: without
/// those of libraries that wait for it.
fn path_to_waiting(profile: &Profile, stack: StackId) -> Vec<FunctionId> {
    let mut path = functions(profile, stack);
    let wraps = |&id: &FunctionId| {
        let function = profile.function(id);
        let name = profile.name(function.name);
        let file = profile.name(profile.dso(function.dso).short_name);
        WRAPPERS.iter().any(|begin| name.starts_with(begin))
            || WRAPPING.iter().any(|begin| file.starts_with(begin))
    };
    while path.last().is_some_and(wraps) {
        path.pop();
    }
    path
}

/// The user functions of a stack, outermost first.
fn functions(profile: &Profile, stack: StackId) -> Vec<FunctionId> {
    let locations = profile.stacks.locations(stack);
    let user = locations.filter(|&at| profile.location(at).mode != CpuMode::Kernel);
    let frames = user.flat_map(|at| profile.frames_at(at));
    let mut list: Vec<FunctionId> = frames.map(|frame| frame.function).collect();
    list.reverse();
    list
}

/// The places at which more than one thread waited that is not the first of its
/// process.
fn shared_places(profile: &Profile, candidates: &[Candidate]) -> FxHashSet<(i32, u64)> {
    let mut waited: FxHashMap<(i32, u64), FxHashSet<i32>> = FxHashMap::default();
    for candidate in candidates {
        let is_first = is_first(profile, candidate.tid);
        if let Some(place) = candidate.place.filter(|_| !is_first) {
            waited.entry(place).or_default().insert(candidate.tid);
        }
    }
    let several = waited.into_iter().filter(|(_, threads)| threads.len() > 1);
    several.map(|(place, _)| place).collect()
}

/// Whether a thread is the first one of its process.
fn is_first(profile: &Profile, tid: i32) -> bool {
    profile.thread(tid).is_some_and(|thread| thread.pid == tid)
}

/// How much of the time of threads was below functions that wait.
struct Shares {
    /// By thread and path: ns below it.
    below: FxHashMap<(i32, Vec<FunctionId>), u64>,
    /// By thread: ns in all.
    all: FxHashMap<i32, u64>,
}

impl Shares {
    fn of(profile: &Profile, candidates: &[Candidate]) -> Self {
        let mut paths: FxHashMap<i32, FxHashSet<&[FunctionId]>> = FxHashMap::default();
        let unnamed = candidates.iter().filter(|it| it.told == Told::Nothing);
        for candidate in unnamed {
            let paths = paths.entry(candidate.tid).or_default();
            paths.insert(&candidate.path);
        }
        let mut shares = Self {
            below: FxHashMap::default(),
            all: FxHashMap::default(),
        };
        let mut known: FxHashMap<StackId, Vec<FunctionId>> = FxHashMap::default();
        for (row, sample) in profile.samples.iter().enumerate() {
            let tid = profile.task(sample.task).tid;
            // Where it lost its CPU says nothing of what it does.
            let wait = profile.samples.wait_at(row);
            if wait.is_some_and(|wait| wait.state.is_runnable()) {
                continue;
            }
            let event = profile.events.get(usize::from(sample.event.0));
            let is_time = event.is_some_and(|event| event.weight_is_ns);
            let Some(paths) = paths.get(&tid).filter(|_| is_time) else {
                continue;
            };
            // Of what has no stack, such as the wait for the first CPU, nothing
            // is known.
            let of_stack = known.entry(sample.stack);
            let of_stack = of_stack.or_insert_with(|| functions(profile, sample.stack));
            if of_stack.is_empty() {
                continue;
            }
            let add = |sum: &mut u64| *sum = sum.saturating_add(sample.period);
            add(shares.all.entry(tid).or_default());
            for path in paths.iter().filter(|path| of_stack.starts_with(path)) {
                add(shares.below.entry((tid, path.to_vec())).or_default());
            }
        }
        shares
    }

    /// Whether the function that waits is the loop of the thread.
    fn is_loop(&self, candidate: &Candidate) -> bool {
        let all = self.all.get(&candidate.tid).copied().unwrap_or(0);
        let key = (candidate.tid, candidate.path.clone());
        let below = self.below.get(&key).copied().unwrap_or(0);
        !candidate.path.is_empty() && u128::from(below) * 100 >= u128::from(all) * 99
    }
}

/// Adds a stack of one place. A tree that is frozen takes none: it is grown
/// anew, in the same order, so that all stacks keep their numbers; `None` if two
/// of them are equal.
fn add_stack(profile: &mut Profile, place: LocationId) -> Option<StackId> {
    let mut tree = StackTree::default();
    for index in 1..profile.stacks.len() {
        let old = StackId(index as u32);
        let (caller, location) = profile.stacks.get(old)?;
        if tree.push(caller, location) != old {
            return None;
        }
    }
    let stack = tree.push(StackId::EMPTY, place);
    tree.freeze();
    profile.stacks = tree;
    Some(stack)
}

#[cfg(test)]
mod tests {
    use super::{FOLDED, LockKind, fold};
    use crate::waiting::Kept;
    use crate::waiting::locks;
    use prof_profile::{
        Avma, Event, EventId, Futex, FutexId, Profile, Sample, Thread, Wait, WaitKind, WaitState,
    };
    use prof_sketch::Sketch;

    const MS: u64 = 1_000_000;

    /// Threads of one process, of which 1 is the first, with waits of a ms:
    /// thread, stack, and where the futex is.
    fn profile(waits: &[(i32, &str, u64)]) -> Profile {
        let mut sketch = Sketch::new();
        sketch.profile.events[0].weight_is_ns = true;
        sketch.profile.events.push(Event {
            name: "offcpu-time".to_owned(),
            weight_is_ns: true,
            is_off_cpu: true,
            ..Event::default()
        });
        let comm = sketch.profile.names.intern("app");
        for (time, &(tid, stack, address)) in (1..).zip(waits) {
            let task = sketch.task(1, tid, "app");
            let stack = sketch.stack(stack);
            let thread = Thread {
                tid,
                pid: 1,
                parent: None,
                comm,
            };
            let profile = &mut sketch.profile;
            if profile.threads.iter().all(|known| known.tid != tid) {
                profile.threads.push(thread);
            }
            profile.futexes.push(Futex {
                pid: 1,
                address: Avma(address),
                variable: None,
            });
            let wait = profile.samples.wait_id(Wait {
                state: WaitState::Blocked,
                kind: WaitKind::Futex,
                futex: Some(FutexId(profile.futexes.len() as u32 - 1)),
                ..Wait::default()
            });
            profile.samples.push(Sample {
                time: time * MS,
                period: MS,
                task,
                stack,
                cpu: Some(0),
                event: EventId(1),
                wait: Some(wait),
            });
        }
        sketch.profile.threads.sort_by_key(|thread| thread.tid);
        sketch.profile
    }

    /// Of each wait whether it is folded.
    fn folded(waits: &[(i32, &str, u64)]) -> Vec<bool> {
        let mut profile = profile(waits);
        let told = fold(&mut profile);
        let is_folded = |sample: Sample| {
            let leaf = profile.stacks.locations(sample.stack).next();
            leaf.is_some_and(|leaf| {
                let frame = profile.frames_at(leaf)[0];
                profile.name(profile.function(frame.function).name) == FOLDED
            })
        };
        let list: Vec<bool> = profile.samples.iter().map(is_folded).collect();
        let count = list.iter().filter(|&&is_it| is_it).count() as u64;
        assert_eq!((told.waits, told.ns), (count, count * MS));
        let noted: u64 = profile.trust.notes.iter().map(|note| note.count).sum();
        assert_eq!(noted, count);
        list
    }

    const LOOP: &str = "app:start;app:worker;libc.so.6:pthread_cond_wait";
    const QUEUE: u64 = 0x1008;

    #[test]
    fn pool_threads_at_one_condition_wait_for_work_and_their_locks_stay() {
        let lock = "app:start;app:worker;app:job;libc.so.6:pthread_mutex_lock";
        let again = "app:start;app:worker;libc.so.6:pthread_cond_wait;libc.so.6:lll_lock_wait";
        // Both words of the condition variable.
        let waits = [(2, LOOP, QUEUE), (3, LOOP, QUEUE), (3, LOOP, QUEUE + 4)];
        assert_eq!(folded(&waits), [true; 3]);
        let wrapped = "app:start;app:worker;app:wait<queue;libc.so.6:pthread_cond_wait";
        let waits = [
            (2, wrapped, QUEUE),
            (3, wrapped, QUEUE),
            (3, lock, 64),
            (2, again, 72),
        ];
        assert_eq!(folded(&waits), [true, true, false, false]);
    }

    #[test]
    fn threads_that_wait_for_work_wait_for_no_lock() {
        let lock = "app:start;app:worker;app:job;libc.so.6:pthread_mutex_lock";
        let waits = [(2, LOOP, QUEUE), (3, LOOP, QUEUE), (3, lock, 64)];
        let mut profile = profile(&waits);
        assert_eq!(locks(&profile, &Kept::default()).list.len(), 3);
        fold(&mut profile);
        let told = locks(&profile, &Kept::default());
        assert_eq!((told.idle, told.idle_ns), (2, 2 * MS));
        assert_eq!(told.list.len(), 1);
        assert_eq!(told.list[0].kind, LockKind::Mutex);
    }

    #[test]
    fn times_that_sum_past_64_bits_are_folded_without_a_fault() {
        let mut profile = profile(&[(2, LOOP, QUEUE), (3, LOOP, QUEUE)]);
        for row in [0, 0, 1, 1] {
            let sample = profile.samples.get(row).expect("a wait");
            let period = u64::MAX - 1;
            profile.samples.push(Sample { period, ..sample });
        }
        assert_eq!(fold(&mut profile).ns, u64::MAX);
    }

    #[test]
    fn whoever_waits_for_something_else_is_shown() {
        // Alone at its condition, the first thread, an answer within a job, and
        // a function that is not the loop.
        assert_eq!(folded(&[(2, LOOP, QUEUE)]), [false]);
        assert_eq!(folded(&[(1, LOOP, QUEUE), (2, LOOP, QUEUE)]), [false; 2]);
        let answer = "app:start;app:worker;app:job;app:ask;libc.so.6:pthread_cond_wait";
        let of_each = [(2, answer, 0x5000), (3, answer, 0x6000)];
        assert_eq!(folded(&of_each), [false; 2]);
        let both = [
            (2, LOOP, QUEUE),
            (3, LOOP, QUEUE),
            (2, answer, 0x5000),
            (3, answer, 0x5000),
        ];
        assert_eq!(folded(&both), [true, true, false, false]);
    }

    #[test]
    fn runtimes_name_where_their_threads_wait_for_work() {
        let go = "app:runtime.schedule;app:runtime.stopm;app:runtime.notesleep";
        let of_another = "app:runtime.schedule;app:runtime.stoplockedm;app:runtime.notesleep";
        let task =
            "java:java.util.concurrent.ThreadPoolExecutor.getTask;libc.so.6:pthread_cond_wait";
        let lock = "java:java.util.concurrent.ThreadPoolExecutor.getTask;\
                    java:java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire;\
                    libc.so.6:pthread_cond_wait";
        let gang = "jvm:GangWorker::loop;jvm:PosixSemaphore::wait;libc.so.6:sem_wait";
        let at_work =
            "jvm:GangWorker::loop;jvm:G1Task::work;jvm:PosixSemaphore::wait;libc.so.6:sem_wait";
        let signals = "jvm:signal_thread_entry;jvm:os::signal_wait;jvm:PosixSemaphore::wait;\
                       libc.so.6:sem_wait";
        let references = "java:java.lang.ref.Finalizer$FinalizerThread.run;\
                          java:java.lang.ref.ReferenceQueue.remove;java:java.lang.Object.wait;\
                          jvm:ObjectMonitor::wait;libc.so.6:pthread_cond_wait";
        let waits = [
            (2, go, 1 << 10),
            (2, of_another, 1 << 10),
            (2, task, 1 << 11),
            (2, lock, 1 << 12),
            (2, gang, 1 << 13),
            (2, at_work, 1 << 13),
            (2, signals, 1 << 14),
            (2, references, 1 << 15),
        ];
        let expected = [true, false, true, false, true, false, true, true];
        assert_eq!(folded(&waits), expected);
        let queue = "py:thread_run;py:_queue_SimpleQueue_get;libc.so.6:sem_wait";
        assert_eq!(folded(&[(2, queue, 8)]), [false]);
        assert_eq!(folded(&[(2, queue, 8), (3, queue, 8)]), [true; 2]);
    }
}
