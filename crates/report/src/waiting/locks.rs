//! Locks: waits for futexes by the word in memory that they were at.

use super::kept::Kept;
use super::lives::Lives;
use super::off::Off;
use super::places;
use prof_profile::{Counted, FutexId, Profile, StackId, StackSource, TaskId, Wait, WaitKind, Wake};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// The kind of synchronization object that a futex belongs to, told by the
/// functions that wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// Nothing tells.
    Unknown,
    /// One thread at a time.
    Mutex,
    /// One writer or many readers.
    ReadWrite,
    /// A condition variable.
    Condition,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// The end of a thread.
    Join,
    /// Something that is done once.
    Once,
    /// The parking lot of a user-space scheduler (Go, tokio).
    Park,
    /// What `synchronized` of Java takes.
    Monitor,
}

/// How the names of functions begin that wait at locks. Of several that fit,
/// the first.
const WAITING: &[(&str, LockKind)] = &[
    ("pthread_mutex_", LockKind::Mutex),
    ("pthread_rwlock_", LockKind::ReadWrite),
    ("pthread_cond_", LockKind::Condition),
    ("cnd_", LockKind::Condition),
    ("mtx_", LockKind::Mutex),
    ("lll_lock_wait", LockKind::Mutex),
    ("sem_", LockKind::Semaphore),
    ("new_sem_", LockKind::Semaphore),
    ("pthread_barrier_", LockKind::Barrier),
    ("pthread_join", LockKind::Join),
    ("pthread_timedjoin", LockKind::Join),
    ("pthread_clockjoin", LockKind::Join),
    ("thrd_join", LockKind::Join),
    ("pthread_once", LockKind::Once),
    ("call_once", LockKind::Once),
    ("std::sys::sync::mutex", LockKind::Mutex),
    ("std::sys::sync::rwlock", LockKind::ReadWrite),
    ("std::sys::sync::condvar", LockKind::Condition),
    ("std::sys::sync::once", LockKind::Once),
    ("std::sync::condvar", LockKind::Condition),
    ("std::sync::poison::mutex", LockKind::Mutex),
    ("std::thread::park", LockKind::Park),
    ("parking_lot::", LockKind::Mutex),
    ("parking_lot_core::", LockKind::Park),
    ("runtime.lock", LockKind::Mutex),
    ("runtime.stopm", LockKind::Park),
    ("runtime.notesleep", LockKind::Park),
    ("PyThread_acquire_lock", LockKind::Mutex),
    ("take_gil", LockKind::Mutex),
];

impl LockKind {
    /// One word.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "futex",
            Self::Mutex => "mutex",
            Self::ReadWrite => "rwlock",
            Self::Condition => "condition",
            Self::Semaphore => "semaphore",
            Self::Barrier => "barrier",
            Self::Join => "join",
            Self::Once => "once",
            Self::Park => "park",
            Self::Monitor => "monitor",
        }
    }

    /// By the functions that wait, innermost first.
    pub(super) fn of(names: &[String]) -> Self {
        let told = |name: &String| {
            let name = plain(name);
            let fits = |&&(begin, _): &&(&str, Self)| name.starts_with(begin);
            WAITING.iter().find(fits).map(|&(_, kind)| kind)
        };
        names.iter().find_map(told).unwrap_or(Self::Unknown)
    }
}

/// The functions of the JVM that wait for a monitor, or how their names begin.
const TAKING_MONITORS: [&str; 5] = [
    "_complete_monitor_locking_Java",
    "monitorenter ",
    "ObjectMonitor::enter",
    "ObjectSynchronizer::enter",
    "InterpreterRuntime::monitorenter",
];
/// How names of Java's functions begin that wait for whoever calls them.
const OF_JAVA: [&str; 4] = [
    "java.util.concurrent.",
    "jdk.internal.",
    "sun.misc.",
    "java.lang.",
];

/// Of a thread of Java's that waits for a monitor or is parked, where: there each
/// thread waits at a futex of its own, and which lock that was for is not known.
fn java_place(names: &[String]) -> Option<(LockKind, String)> {
    let takes = |name: &String| TAKING_MONITORS.iter().any(|begin| name.starts_with(begin));
    let parks = |name: &String| name.ends_with("Unsafe.park");
    let (kind, at) = match names.iter().rposition(takes) {
        Some(at) => (LockKind::Monitor, at),
        None => (LockKind::Park, names.iter().rposition(parks)?),
    };
    let is_own = |name: &&String| {
        let of_java = OF_JAVA.iter().any(|begin| name.starts_with(begin));
        name.contains('.') && !name.contains("::") && !of_java
    };
    Some((kind, names.get(at + 1..)?.iter().find(is_own)?.clone()))
}

/// What waits are added up by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The word in memory.
    Futex(FutexId),
    /// The process, and the function of Java's that waits in it.
    Place(i32, &'static str, String),
}

impl Key {
    fn place(pid: i32, (kind, function): &(LockKind, String)) -> Self {
        Self::Place(pid, kind.text(), function.clone())
    }
}

/// Waits for one lock with the same functions in their stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiters {
    /// One of their stacks.
    pub stack: StackId,
    /// User functions, innermost first.
    pub functions: Vec<String>,
    /// Time waited, ns.
    pub ns: u64,
    /// How many waits.
    pub waits: u64,
}

/// Wake-ups of waiters by one thread in the same functions, where that was
/// recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Releaser {
    /// Who; `None` for interrupts.
    pub task: Option<TaskId>,
    /// One of their stacks.
    pub stack: StackId,
    /// User functions, innermost first.
    pub functions: Vec<String>,
    /// Time of the waits that it ended, ns.
    pub ns: u64,
    /// How many.
    pub waits: u64,
}

/// A thread that held a mutex while others waited for it, as it was seen once
/// in each of their waits that lasted a ms or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Tid of who held it.
    pub tid: i32,
    /// Total time of the waits during which it was seen to hold the mutex, ns.
    pub ns: u64,
    /// How many.
    pub waits: u64,
}

/// A futex and the waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Which; of several, one.
    pub futex: FutexId,
    /// How many: threads of Java's that take a lock in one function wait at one each.
    pub futexes: usize,
    /// That function.
    pub place: Option<String>,
    /// What it is part of.
    pub kind: LockKind,
    /// Time waited in all threads, ns.
    pub ns: u64,
    /// How many waits.
    pub waits: u64,
    /// The longest, ns.
    pub longest: u64,
    /// How many threads waited.
    pub threads: usize,
    /// Where they waited, most time first.
    pub waiters: Vec<Waiters>,
    /// Who woke the waiters, most time first; empty where that was not
    /// recorded.
    pub releasers: Vec<Releaser>,
    /// Who held it during the waits, most time first; empty where that is not
    /// known.
    pub holders: Vec<Holder>,
}

/// The locks of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Locks {
    /// Most time first.
    pub list: Vec<Lock>,
    /// Time waited for futexes whose address is not known, ns.
    pub unknown_ns: u64,
    /// How many waits.
    pub unknown: u64,
    /// Time that pool threads waited for work, which is for no lock, ns; 0 where such
    /// waits are not folded.
    pub idle_ns: u64,
    /// How many waits.
    pub idle: u64,
    /// Time of waits of which no stack was recorded, and for which no others stand, ns:
    /// for what they were is not known.
    pub unseen_ns: u64,
    /// Numbers of waits are estimates: of some, those that were chosen stand for others.
    pub is_estimated: bool,
    /// Whether it was recorded who ends waits.
    pub has_wakes: bool,
}

/// What is added up for one futex.
#[derive(Default)]
struct Sum {
    /// In 64ths.
    waits: u64,
    ns: u64,
    longest: u64,
    futexes: FxHashSet<FutexId>,
    place: Option<(LockKind, String)>,
    threads: FxHashSet<i32>,
    by_stack: FxHashMap<StackId, Waited>,
    by_waker: FxHashMap<(Option<TaskId>, StackId), Waited>,
    by_holder: FxHashMap<i32, Waited>,
}

/// The futexes that threads waited at, in the waits that are kept.
pub fn locks(profile: &Profile, kept: &Kept) -> Locks {
    let mut sums: FxHashMap<Key, Sum> = FxHashMap::default();
    let (mut unknown, mut idle) = ((0_u64, 0_u64), (0_u64, 0_u64));
    let mut is_estimated = false;
    let lives = Lives::of(profile);
    let mut stacks = LockStacks::of(profile);
    for (tid, off) in lives
        .threads()
        .flat_map(|(tid, offs)| offs.iter().map(move |off| (tid, off)))
        .filter(|(_, off)| kept.has(off.row))
    {
        let (Some(sample), Some(wait)) = (
            profile.samples.get(off.row),
            profile.samples.wait_at(off.row),
        ) else {
            continue;
        };
        if wait.kind != WaitKind::Futex {
            continue;
        }
        let (ns, times) = (sample.period, wait.times());
        is_estimated |= times != u64::from(Wait::ITSELF);
        if stacks.is_folded(sample.stack) {
            add(&mut idle, (ns, times));
            continue;
        }
        let Some(futex) = wait.futex else {
            add(&mut unknown, (ns, times));
            continue;
        };
        let place = stacks.place(sample.stack);
        let key = match place {
            Some(place) => Key::place(profile.task(sample.task).pid, place),
            None => Key::Futex(futex),
        };
        let sum = sums.entry(key).or_default();
        sum.place = place.clone();
        sum.waited((tid, off), (futex, sample.stack), (ns, times));
        if let Some(tid) = wait.holder
            && stacks.is_of_mutex(sample.stack)
        {
            add(sum.by_holder.entry(tid).or_default(), (ns, times));
        }
        if let Some(wake) = off.wake.and_then(|index| profile.wakes.get(index)) {
            sum.ended_by(wake, (ns, times));
        }
    }
    let sums = sums.into_values();
    let mut list: Vec<Lock> = sums.filter_map(|sum| sum.lock(profile)).collect();
    list.sort_by_key(|lock| (Reverse(lock.ns), lock.futex));
    Locks {
        list,
        unknown_ns: unknown.0,
        unknown: rounded(unknown.1),
        idle_ns: idle.0,
        idle: rounded(idle.1),
        unseen_ns: unseen_ns(profile, kept),
        is_estimated,
        has_wakes: !profile.wakes.is_empty(),
    }
}

/// The time of waits without a stack, for which no others stand, ns.
fn unseen_ns(profile: &Profile, kept: &Kept) -> u64 {
    let rows = profile.samples.iter().enumerate();
    let unseen = rows.filter(|(row, _)| {
        let wait = profile.samples.wait_at(*row);
        let is_unseen = wait.is_some_and(|wait| {
            wait.source == StackSource::None
                && wait.counted != Counted::ByOthers
                && wait.kind == WaitKind::Unknown
                && !wait.state.is_runnable()
        });
        is_unseen && kept.has(*row)
    });
    unseen.fold(0, |sum, (_, sample)| sum.saturating_add(sample.period))
}

/// What is known of stacks that wait; each is looked at once.
struct LockStacks<'a> {
    profile: &'a Profile,
    folded: FxHashMap<StackId, bool>,
    java: FxHashMap<StackId, Option<(LockKind, String)>>,
    of_mutex: FxHashMap<StackId, bool>,
}

impl<'a> LockStacks<'a> {
    fn of(profile: &'a Profile) -> Self {
        Self {
            profile,
            folded: FxHashMap::default(),
            java: FxHashMap::default(),
            of_mutex: FxHashMap::default(),
        }
    }

    /// Whether it is a wait of a pool's thread for work, which is for no lock.
    fn is_folded(&mut self, stack: StackId) -> bool {
        let known = self.folded.entry(stack);
        *known.or_insert_with(|| places::is_folded(self.profile, stack))
    }

    /// The lock of Java that is waited for, if it is one.
    fn place(&mut self, stack: StackId) -> &Option<(LockKind, String)> {
        let known = self.java.entry(stack);
        known.or_insert_with(|| java_place(&places::names(self.profile, stack)))
    }

    /// Whether it waits for a mutex of libc, whose word tells its owner.
    fn is_of_mutex(&mut self, stack: StackId) -> bool {
        let known = self.of_mutex.entry(stack);
        *known.or_insert_with(|| is_of_mutex_of_libc(self.profile, stack))
    }
}

/// Whether a stack waits in libc for a mutex, whose word then has an owner
/// behind it: in `pthread_mutex_lock` and its like, but for what these call.
fn is_of_mutex_of_libc(profile: &Profile, stack: StackId) -> bool {
    is_of_mutex(&places::names(profile, stack))
}

fn is_of_mutex(names: &[String]) -> bool {
    let inner = ["lll_", "futex_"];
    let mut outer = names
        .iter()
        .map(|name| plain(name))
        .skip_while(|name| inner.iter().any(|begin| name.starts_with(begin)));
    outer
        .next()
        .is_some_and(|name| name.starts_with("pthread_mutex_"))
}

/// A name of libc's without the marks for its own use.
fn plain(name: &str) -> &str {
    let name = name.trim_start_matches('_').trim_start_matches("GI_");
    name.trim_start_matches('_')
}

fn add(sum: &mut Waited, (ns, times): Waited) {
    *sum = (sum.0.saturating_add(ns), sum.1.saturating_add(times));
}

/// A number in 64ths as a whole one.
fn rounded(times: u64) -> u64 {
    times.saturating_add(32) / 64
}

impl Sum {
    /// A wait of a thread at a futex, with a stack.
    fn waited(
        &mut self,
        (tid, off): (i32, &Off),
        (futex, stack): (FutexId, StackId),
        (ns, times): Waited,
    ) {
        self.futexes.insert(futex);
        self.waits = self.waits.saturating_add(times);
        self.ns = self.ns.saturating_add(ns);
        self.longest = self.longest.max(off.end - off.begin);
        self.threads.insert(tid);
        add(self.by_stack.entry(stack).or_default(), (ns, times));
    }

    fn ended_by(&mut self, wake: &Wake, waited: Waited) {
        let who = match wake.in_interrupt {
            true => (None, StackId::EMPTY),
            false => (Some(wake.task), wake.stack),
        };
        add(self.by_waker.entry(who).or_default(), waited);
    }

    fn lock(self, profile: &Profile) -> Option<Lock> {
        let futex = *self.futexes.iter().min()?;
        let (kind, place) = self.place.unzip();
        let stacks = self.by_stack.into_iter();
        let by_functions = merged(stacks.map(|(stack, sum)| {
            let functions = places::names(profile, stack);
            ((functions, ()), stack, sum)
        }));
        let waiters: Vec<Waiters> = by_functions
            .into_iter()
            .map(|((functions, ()), stack, (ns, times))| Waiters {
                stack,
                functions,
                ns,
                waits: rounded(times),
            })
            .collect();
        let first = waiters.first();
        let holders = self.by_holder.into_iter();
        let holders = holders.map(|(tid, (ns, times))| Holder {
            tid,
            ns,
            waits: rounded(times),
        });
        let mut holders: Vec<Holder> = holders.collect();
        holders.sort_by_key(|holder| (Reverse(holder.ns), holder.tid));
        let wakers = self.by_waker.into_iter();
        let releasers = merged(wakers.map(|((task, stack), sum)| {
            let functions = task.map_or_else(Vec::new, |_| places::names(profile, stack));
            ((functions, task), stack, sum)
        }));
        let told = || first.map_or(LockKind::Unknown, |first| LockKind::of(&first.functions));
        Some(Lock {
            futex,
            futexes: self.futexes.len(),
            place,
            kind: kind.unwrap_or_else(told),
            ns: self.ns,
            waits: rounded(self.waits),
            longest: self.longest,
            threads: self.threads.len(),
            holders,
            waiters,
            releasers: releasers
                .into_iter()
                .map(|((functions, task), stack, (ns, times))| Releaser {
                    task,
                    stack,
                    functions,
                    ns,
                    waits: rounded(times),
                })
                .collect(),
        })
    }
}

/// Time, ns, and number of waits, in 64ths.
type Waited = (u64, u64);

/// Sums of equal keys with one stack of each, most time first.
fn merged<K: std::hash::Hash + Eq + Ord>(
    sums: impl Iterator<Item = (K, StackId, Waited)>,
) -> Vec<(K, StackId, Waited)> {
    let mut known: FxHashMap<K, (StackId, Waited)> = FxHashMap::default();
    for (key, stack, sum) in sums {
        let (first, known) = known.entry(key).or_insert((stack, (0, 0)));
        *first = (*first).min(stack);
        add(known, sum);
    }
    let listed = known.into_iter();
    let mut list: Vec<_> = listed
        .map(|(key, (stack, sum))| (key, stack, sum))
        .collect();
    list.sort_by(|(a, _, a_sum), (b, _, b_sum)| b_sum.cmp(a_sum).then_with(|| a.cmp(b)));
    list
}

#[cfg(test)]
mod tests {
    use super::{LockKind, is_of_mutex, java_place};

    #[test]
    fn functions_tell_what_a_futex_is_part_of() {
        let kind = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            LockKind::of(&names)
        };
        let of_mutex = ["__lll_lock_wait", "___pthread_mutex_lock", "work"];
        assert_eq!(kind(&of_mutex), LockKind::Mutex);
        let of_condition = ["__futex_abstimed_wait_common", "___pthread_cond_wait"];
        assert_eq!(kind(&of_condition), LockKind::Condition);
        assert_eq!(kind(&["__pthread_clockjoin_ex"]), LockKind::Join);
        assert_eq!(kind(&["syscall", "my_lock"]), LockKind::Unknown);
    }

    #[test]
    fn locks_of_java_are_known_by_where_they_are_taken() {
        let place = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            java_place(&names)
        };
        let futex = ["__futex_abstimed_wait_common", "pthread_cond_wait"];
        let monitor = [
            "_complete_monitor_locking_Java",
            "Bank.slowLog",
            "Bank.main",
        ];
        let told = place(&[&futex[..], &monitor].concat());
        assert_eq!(told, Some((LockKind::Monitor, "Bank.slowLog".into())));
        let runtime = [
            "ObjectMonitor::enter",
            "SharedRuntime::monitor_enter_helper",
        ];
        let told = place(&[&futex[..], &runtime, &monitor].concat());
        assert_eq!(told, Some((LockKind::Monitor, "Bank.slowLog".into())));
        let parked = [
            "jdk.internal.misc.Unsafe.park",
            "java.util.concurrent.locks.LockSupport.park",
            "java.util.concurrent.locks.ReentrantLock.lock",
            "Bank.transfer",
        ];
        let told = place(&[&futex[..], &parked].concat());
        assert_eq!(told, Some((LockKind::Park, "Bank.transfer".into())));
        assert_eq!(place(&[&futex[..], &["work"]].concat()), None);
    }

    #[test]
    fn only_mutexes_of_libc_have_an_owner_behind_their_word() {
        let is_it = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            is_of_mutex(&names)
        };
        assert!(is_it(&["__lll_lock_wait", "___pthread_mutex_lock", "work"]));
        assert!(is_it(&[
            "futex_wait",
            "__GI___lll_lock_wait",
            "lll_mutex_lock_optimized",
            "pthread_mutex_lock"
        ]));
        assert!(is_it(&[
            "futex_wait",
            "__GI___lll_lock_wait",
            "pthread_mutex_lock@@GLIBC_2.2.5"
        ]));
        assert!(is_it(&["__pthread_mutex_cond_lock", "__pthread_cond_wait"]));
        // stdio's locks have a pointer there; a condition has counts.
        assert!(!is_it(&["__lll_lock_wait_private", "puts"]));
        assert!(!is_it(&[
            "__futex_abstimed_wait_common",
            "___pthread_cond_wait"
        ]));
        assert!(!is_it(&["my_wait", "pthread_mutex_lock"]));
    }
}
