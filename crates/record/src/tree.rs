//! Samples of whole CPUs, of which only those of a process tree are kept.
//!
//! A task's own event samples when its task has run for a whole period, and a
//! child's period begins with the child: of tasks that live shorter nothing is
//! ever seen. An event of a CPU goes on whoever runs there, so that short tasks
//! get their share. Whose a sample is says its process, and which processes
//! belong to the tree say the records of tasks, which the kernel passes on
//! from parent to child and writes for nobody else.
//!
//! A process is there before its first sample: its `FORK` is in a ring, though
//! maybe in another one. So the rings are looked at twice. And since records come
//! ring by ring, the `EXIT` of a short process may come before its `FORK`: both
//! count, in whatever order, or the process would be there for ever, and so
//! would be whoever gets its number next.
//!
//! ```text
//! 1. where does each ring end now?       ring 0  ····S·|
//! 2. look at the records of tasks,       ring 1  ··F···|··
//!    however far they go                           └─► tree
//! 3. take what was there in 1, samples by what the tree says
//! ```

use crate::rounds;
use prof_abi::{ByteOrder, EventAttr, Misc, RecordType, SampleType};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a process that ended stays known, ns: it runs on for a little
/// after its `EXIT`.
const LINGERS: u64 = 1_000_000_000;
/// Ended processes are forgotten when so many more are known than before, or half
/// as many more.
const MANY: usize = 256;
/// Strangers that are remembered.
const MOST_STRANGERS: usize = 1 << 16;
/// How far up parents are looked for.
const MOST_PARENTS: usize = 64;

/// The processes of which samples are kept.
#[derive(Debug)]
pub(crate) struct Tree {
    members: HashMap<u32, Member>,
    /// The command's process, until its first record.
    launched: Option<u32>,
    places: Places,
    /// Records of tasks may be missing.
    has_lost: bool,
    /// Processes that /proc was asked for since.
    strangers: HashSet<u32>,
    /// Members when the ended ones were last forgotten.
    swept: usize,
    /// Of the latest record of a task, ns.
    now: u64,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// When it began to belong to the tree, ns.
    since: u64,
    /// Its threads, the first one counted, also where its `FORK` is still to come;
    /// below 0 where ends came first.
    threads: i64,
    /// When its last thread ended, ns.
    ended: Option<u64>,
    /// Its own `FORK` was there.
    is_forked: bool,
}

impl Member {
    fn new(since: u64, threads: u32) -> Self {
        Self {
            since,
            threads: threads.into(),
            ended: None,
            is_forked: true,
        }
    }

    /// One whose `FORK` is still to come, or was lost; of samples before `since`
    /// it has none.
    fn to_come(since: u64) -> Self {
        Self {
            is_forked: false,
            ..Self::new(since, 1)
        }
    }

    /// Whether its number may be another process's at a time.
    fn is_over(&self, time: u64) -> bool {
        self.ended
            .is_some_and(|ended| ended.saturating_add(LINGERS) < time)
    }

    /// Takes a thread more, or less, at a time.
    fn count(&mut self, threads: i64, time: u64) {
        self.threads = self.threads.saturating_add(threads);
        let last = self.ended.unwrap_or(0).max(time);
        self.ended = (self.threads <= 0).then_some(last);
    }
}

/// Where in a record is what is asked for, bytes.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// From a sample's start.
    pid: usize,
    time: usize,
    /// From a record's end.
    time_of_record: usize,
}

impl Places {
    fn of(attr: &EventAttr) -> Self {
        let has = |field: SampleType| 8 * usize::from(attr.sample_type.has(field));
        let pid = 8 + has(SampleType::IDENTIFIER) + has(SampleType::IP);
        let behind =
            SampleType::ID | SampleType::STREAM_ID | SampleType::CPU | SampleType::IDENTIFIER;
        let behind = (attr.sample_type.0 & behind.0).count_ones() as usize;
        Self {
            pid,
            time: pid + 8,
            time_of_record: 8 + 8 * behind,
        }
    }
}

impl Tree {
    /// Of a command that was not executed yet, and all its children. Samples
    /// have process and time and begin as `attr` says.
    pub(crate) fn of_command(pid: u32, attr: &EventAttr) -> Self {
        Self {
            launched: Some(pid),
            ..Self::of_processes(&[], attr)
        }
    }

    /// Of processes that run, with so many threads, and all children that they
    /// will have.
    pub(crate) fn of_processes(processes: &[(u32, u32)], attr: &EventAttr) -> Self {
        let members = processes.iter();
        Self {
            members: members
                .map(|&(pid, threads)| (pid, Member::new(0, threads)))
                .collect(),
            launched: None,
            places: Places::of(attr),
            has_lost: false,
            strangers: HashSet::new(),
            swept: 0,
            now: 0,
        }
    }

    /// What of records that were read while attaching is of the tree.
    pub(crate) fn kept(&mut self, records: &[u8]) -> Vec<u8> {
        rounds::each(records, |_, record| self.note(record));
        let mut kept = Vec::new();
        rounds::each(records, |kind, record| {
            // What was lost while there were no tasks yet is nobody's.
            let is_kept = match kind {
                RecordType::SAMPLE => self.has(record),
                kind => kind != RecordType::LOST,
            };
            if is_kept {
                kept.extend_from_slice(record);
            }
        });
        kept
    }

    /// Learns from a record that is no sample.
    pub(crate) fn note(&mut self, record: &[u8]) {
        let order = ByteOrder::NATIVE;
        let kind = RecordType(order.u32(record, 0).unwrap_or(0));
        let (pid, parent) = match kind {
            RecordType::FORK | RecordType::EXIT => (order.u32(record, 8), order.u32(record, 12)),
            RecordType::COMM => (order.u32(record, 8), None),
            RecordType::LOST => {
                self.has_lost = true;
                return;
            }
            _ => return,
        };
        let Some(pid) = pid else {
            return;
        };
        let at = record.len().checked_sub(self.places.time_of_record);
        let time = at.and_then(|at| order.u64(record, at)).unwrap_or(0);
        self.now = self.now.max(time);
        match kind {
            RecordType::FORK if parent == Some(pid) => self.thread(pid, time),
            RecordType::FORK => self.forked(pid, time),
            RecordType::EXIT => self.ended(pid, time),
            _ if self.launched == Some(pid) => {
                // The kernel enables events and then names the program. A
                // thread that names itself comes later, but perhaps in a ring
                // that is read earlier; it counts if the exec may be lost.
                let misc = Misc(order.u16(record, 4).unwrap_or(0));
                let since = match misc.has(Misc::COMM_EXEC) {
                    true => time,
                    false if self.has_lost => 0,
                    false => return,
                };
                self.launched = None;
                self.members.insert(pid, Member::new(since, 1));
            }
            _ => {}
        }
    }

    /// A process began. What came of it before is of records of other rings.
    fn forked(&mut self, pid: u32, time: u64) {
        self.strangers.remove(&pid);
        let came_before = |member: &&mut Member| {
            !member.is_forked && member.ended.is_none_or(|ended| ended >= time)
        };
        match self.members.get_mut(&pid).filter(came_before) {
            Some(member) => {
                member.is_forked = true;
                member.since = time;
            }
            None => {
                self.members.insert(pid, Member::new(time, 1));
            }
        }
    }

    /// A thread of the process began.
    fn thread(&mut self, pid: u32, time: u64) {
        self.running(pid, time).count(1, time);
    }

    /// A thread of the process ended.
    fn ended(&mut self, pid: u32, time: u64) {
        self.running(pid, u64::MAX).count(-1, time);
    }

    /// The process that has a number now, of whose `FORK` it may not be known yet.
    fn running(&mut self, pid: u32, since: u64) -> &mut Member {
        let now = self.now;
        let member = self.members.entry(pid);
        let member = member.or_insert(Member::to_come(since));
        if member.is_over(now) {
            *member = Member::to_come(since);
        }
        member
    }

    /// Forgets processes that ended a while ago; their numbers may come again.
    pub(crate) fn sweep(&mut self) {
        if self.members.len() < self.swept + MANY.max(self.swept / 2) {
            return;
        }
        let now = self.now;
        self.members.retain(|_, member| !member.is_over(now));
        self.swept = self.members.len();
    }

    /// Whether a sample is of the tree.
    pub(crate) fn has(&mut self, sample: &[u8]) -> bool {
        let order = ByteOrder::NATIVE;
        let (pid, time) = (
            order.u32(sample, self.places.pid),
            order.u64(sample, self.places.time),
        );
        let (Some(pid), Some(time)) = (pid, time) else {
            return false;
        };
        match self.members.get(&pid) {
            Some(member) if !member.is_over(time) => time >= member.since,
            _ => {
                self.members.remove(&pid);
                self.has_lost && self.adopts(pid)
            }
        }
    }

    /// A sample of a thread that has given its number back, with the number that
    /// it had: that of the thread of its process that `ended` last where it
    /// ran, or else the process's own.
    pub(crate) fn named(&self, sample: &[u8], ended: Option<(u32, u32)>) -> Option<Vec<u8>> {
        let order = ByteOrder::NATIVE;
        let place = self.places.pid + 4..self.places.pid + 8;
        let pid = order.u32(sample, self.places.pid)?;
        if order.u32(sample, place.start)? != u32::MAX {
            return None;
        }
        let tid = match ended {
            Some((process, tid)) if process == pid => tid,
            _ => pid,
        };
        let mut named = sample.to_vec();
        named.get_mut(place)?.copy_from_slice(&tid.to_ne_bytes());
        Some(named)
    }

    /// Whether a process of which no record told descends from a member, as
    /// /proc has it.
    fn adopts(&mut self, pid: u32) -> bool {
        if pid == 0 || self.strangers.contains(&pid) {
            return false;
        }
        let parents = std::iter::successors(Some(pid), |&pid| parent_of(pid));
        let mut parents = parents.take(MOST_PARENTS);
        let is_member = parents.any(|pid| self.members.contains_key(&pid));
        if is_member {
            self.members.insert(pid, Member::new(0, 1));
        } else {
            if self.strangers.len() >= MOST_STRANGERS {
                self.strangers.clear();
            }
            self.strangers.insert(pid);
        }
        is_member
    }
}

/// The process that started this one, if both are there.
fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok().filter(|&parent| parent != 0)
}

/// What part of each ring's samples is the tree's. What a ring lost is nobody's;
/// the tree's part of it is told as large as its part of the samples that stood in
/// the ring just before: a tree that had the CPU before that has no part in what
/// others lost there later.
#[derive(Debug, Default)]
pub(crate) struct Shares(Vec<Mutex<Share>>);

#[derive(Debug, Default)]
struct Share {
    /// Of the newest samples, about [`NEWEST`].
    kept: f64,
    dropped: f64,
    /// Whether there were others' at any time.
    has_dropped: bool,
    /// What records told as lost, of that the tree's part, and how much of it was
    /// told.
    lost: u64,
    part: f64,
    told: u64,
}

/// Of so many samples the tree's part is taken.
const NEWEST: f64 = 256.0;

impl Share {
    /// The tree's part of what is lost now, 0 to 1.
    fn now(&self) -> f64 {
        match self.kept + self.dropped {
            all if all > 0.0 => self.kept / all,
            _ => 1.0,
        }
    }

    fn add(&mut self, kept: u64, dropped: u64) {
        let came = (kept + dropped) as f64;
        let before = self.kept + self.dropped;
        if before > 0.0 {
            // What is old gives way to what came.
            let stays = ((NEWEST - came).max(0.0) / before).min(1.0);
            self.kept *= stays;
            self.dropped *= stays;
        }
        self.kept += kept as f64;
        self.dropped += dropped as f64;
        self.has_dropped |= dropped > 0;
    }

    /// A record tells of so many: what part of it is to be told, so that all parts
    /// together are rounded up once.
    fn lose(&mut self, lost: u64) -> u64 {
        self.lost = self.lost.saturating_add(lost);
        self.part += lost as f64 * self.now();
        let part = (self.part.ceil() as u64).saturating_sub(self.told);
        self.told += part;
        part
    }

    /// The tree's part of all that was lost, of which records may have told some,
    /// rounded up.
    fn part_of(&self, lost: u64) -> u64 {
        let part = match self.lost {
            told if told > lost => self.part * lost as f64 / told as f64,
            told => self.part + (lost - told) as f64 * self.now(),
        };
        (part.ceil() as u64).min(lost)
    }
}

impl Shares {
    pub(crate) fn of_rings(rings: usize) -> Self {
        Self((0..rings).map(|_| Mutex::default()).collect())
    }

    fn of(&self, ring: usize) -> Option<MutexGuard<'_, Share>> {
        let share = self.0.get(ring)?;
        Some(share.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what a drain of a ring gave.
    pub(crate) fn add(&self, ring: usize, kept: u64, dropped: u64) {
        if let Some(mut share) = self.of(ring) {
            share.add(kept, dropped);
        }
    }

    /// The tree's part of `lost` records of a ring, rounded up.
    pub(crate) fn part_of(&self, ring: usize, lost: u64) -> u64 {
        self.of(ring).map_or(lost, |share| share.part_of(lost))
    }

    /// The record `LOST` of a ring with the tree's part of its count; `None` if
    /// that is nothing.
    pub(crate) fn part_of_record(&self, ring: usize, record: &[u8]) -> Option<Vec<u8>> {
        // Behind the header and the event's id.
        let count = 16..24;
        let lost = ByteOrder::NATIVE.u64(record, count.start)?;
        let part = self.of(ring).map_or(lost, |mut share| share.lose(lost));
        let mut record = record.to_vec();
        let place = record.get_mut(count)?;
        place.copy_from_slice(&ByteOrder::NATIVE.bytes_u64(part));
        (part > 0).then_some(record)
    }

    /// Whether samples of others were dropped.
    pub(crate) fn have_dropped(&self) -> bool {
        (0..self.0.len()).any(|ring| self.of(ring).is_some_and(|share| share.has_dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::{LINGERS, MANY, Shares, Tree};
    use prof_abi::{AttrFlags, ByteOrder, EventAttr, Misc, SampleType};
    use prof_perfdata::body::{Body, Comm, Lost, Name, Task};
    use prof_perfdata::write::{SampleEncoder, SampleFields, Trailer, append_short};

    fn attr() -> EventAttr {
        EventAttr {
            sample_type: SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CPU,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..EventAttr::default()
        }
    }

    fn record(body: &Body<'_>, misc: Misc, time: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let trailer = Trailer {
            time,
            ..Trailer::of(&attr())
        };
        append_short(body, misc, &trailer, &mut bytes);
        bytes
    }

    fn task(pid: i32, tid: i32, parent: i32, time: u64) -> Task {
        Task {
            pid,
            parent_pid: parent,
            tid,
            parent_tid: parent,
            time,
        }
    }

    fn fork(pid: i32, tid: i32, parent: i32, time: u64) -> Vec<u8> {
        record(&Body::Fork(task(pid, tid, parent, time)), Misc(0), time)
    }

    fn exit(pid: i32, tid: i32, time: u64) -> Vec<u8> {
        record(&Body::Exit(task(pid, tid, 1, time)), Misc(0), time)
    }

    fn exec(pid: i32, time: u64) -> Vec<u8> {
        named(pid, pid, Misc::COMM_EXEC, time)
    }

    fn named(pid: i32, tid: i32, misc: Misc, time: u64) -> Vec<u8> {
        let name = Name::of_thread(b"app");
        record(&Body::Comm(Comm { pid, tid, name }), misc, time)
    }

    fn sample(pid: i32, time: u64) -> Vec<u8> {
        let fields = SampleFields {
            ip: 7,
            pid: pid.cast_unsigned(),
            tid: pid.cast_unsigned(),
            time,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        SampleEncoder::new(&attr())
            .encode(&fields, &mut record)
            .expect("short");
        record
    }

    /// Rings are read one after the other, not in the order of time.
    #[test]
    fn a_thread_that_names_itself_is_no_exec() {
        let thread = named(7, 8, Misc(0), 20);
        let mut tree = Tree::of_command(7, &attr());
        tree.note(&thread);
        tree.note(&exec(7, 10));
        assert!(tree.has(&sample(7, 11)) && !tree.has(&sample(7, 9)));
        // The exec may be what was lost.
        let mut tree = Tree::of_command(7, &attr());
        tree.note(&record(&Body::Lost(Lost { id: 1, lost: 3 }), Misc(0), 15));
        tree.note(&thread);
        assert!(tree.has(&sample(7, 11)));
    }

    #[test]
    fn a_command_belongs_to_the_tree_from_its_exec_on() {
        let mut tree = Tree::of_command(7, &attr());
        assert!(!tree.has(&sample(7, 5)));
        tree.note(&exec(7, 10));
        assert!(!tree.has(&sample(7, 9)), "before it was executed");
        assert!(tree.has(&sample(7, 10)) && tree.has(&sample(7, 11)));
        assert!(!tree.has(&sample(8, 11)), "a stranger");
        // The idle task, and what has no number in our namespace.
        assert!(!tree.has(&sample(0, 11)) && !tree.has(&sample(-1, 11)));
    }

    #[test]
    fn children_and_theirs_belong_to_it() {
        let mut tree = Tree::of_processes(&[(7, 1)], &attr());
        tree.note(&fork(8, 8, 7, 10));
        tree.note(&fork(9, 9, 8, 20));
        assert!(tree.has(&sample(7, 1)));
        assert!(tree.has(&sample(8, 15)) && !tree.has(&sample(8, 5)));
        assert!(tree.has(&sample(9, 20)));
    }

    #[test]
    fn a_thread_that_is_no_more_has_its_last_number() {
        let tree = Tree::of_processes(&[(7, 1)], &attr());
        let tid_of = |sample: &[u8], ended| {
            let named = tree.named(sample, ended)?;
            prof_abi::ByteOrder::NATIVE.u32(&named, 20)
        };
        let mut numberless = sample(7, 5);
        numberless[20..24].fill(0xff);
        assert_eq!(tid_of(&numberless, Some((7, 9))), Some(9));
        assert_eq!(tid_of(&numberless, Some((8, 9))), Some(7));
        assert_eq!(tid_of(&sample(7, 5), Some((7, 9))), None);
    }

    #[test]
    fn a_process_is_forgotten_a_while_after_its_last_thread() {
        let mut tree = Tree::of_processes(&[(7, 1)], &attr());
        tree.note(&fork(7, 8, 7, 10));
        tree.note(&exit(7, 7, 20));
        for pid in 0..MANY as i32 {
            tree.note(&fork(1000 + pid, 1000 + pid, 7, 30));
        }
        tree.note(&exit(1000, 1000, 30));
        tree.note(&exit(1001, 1001, 31 + LINGERS));
        tree.sweep();
        assert!(tree.has(&sample(7, 40)), "a thread is left");
        assert!(!tree.has(&sample(1000, 40)), "its number is free");
        assert!(tree.has(&sample(1001, 40)), "its last samples may come");
    }

    /// A process with a thread on three CPUs, in whatever order their rings are
    /// read, and then a stranger with its number.
    #[test]
    fn the_order_of_rings_does_not_matter() {
        let records = [
            fork(8, 8, 7, 10),
            fork(8, 9, 8, 12),
            exit(8, 8, 15),
            exit(8, 9, 20),
        ];
        // Which of them comes first, second, ...
        let orders = (0..256_usize).map(|digits| [0, 2, 4, 6].map(|at| digits >> at & 3));
        let orders = orders.filter(|order| (0..4).all(|record| order.contains(&record)));
        let mut tried = 0;
        for order in orders {
            let mut tree = Tree::of_processes(&[(7, 1)], &attr());
            order.iter().for_each(|&at| tree.note(&records[at]));
            assert!(
                tree.has(&sample(8, 10)) && tree.has(&sample(8, 30)),
                "{order:?}"
            );
            assert!(!tree.has(&sample(8, 9)), "{order:?}: before it began");
            assert!(!tree.has(&sample(8, 21 + LINGERS)), "{order:?}: a stranger");
            tree.note(&fork(10, 10, 7, 21 + LINGERS));
            tree.swept = 0;
            (0..MANY as i32).for_each(|pid| tree.note(&fork(1000 + pid, 1, 7, 21 + LINGERS)));
            tree.sweep();
            assert!(!tree.members.contains_key(&8), "{order:?}");
            // The number comes again in the tree.
            tree.note(&fork(8, 8, 7, 5 * LINGERS));
            assert!(tree.has(&sample(8, 9 * LINGERS)), "{order:?}");
            tried += 1;
        }
        assert_eq!(tried, 24);
    }

    #[test]
    fn a_thread_that_ends_does_not_end_a_process_told_of_later() {
        let mut tree = Tree::of_processes(&[(7, 1)], &attr());
        tree.note(&fork(8, 9, 8, 12));
        tree.note(&exit(8, 9, 20));
        tree.note(&fork(8, 8, 7, 10));
        assert!(tree.has(&sample(8, 9 * LINGERS)));
    }

    #[test]
    fn where_records_were_lost_proc_is_asked_for_parents() {
        let parent = std::os::unix::process::parent_id();
        let own = std::process::id() as i32;
        let mut tree = Tree::of_processes(&[(parent, 1)], &attr());
        assert!(!tree.has(&sample(own, 1)));
        tree.note(&record(&Body::Lost(Lost { id: 1, lost: 1 }), Misc(0), 1));
        assert!(tree.has(&sample(own, 1)));
        assert!(!tree.has(&sample(1, 1)), "nobody's child");
    }

    #[test]
    fn what_was_lost_is_shared_as_what_was_not() {
        let shares = Shares::of_rings(2);
        assert_eq!(shares.part_of(0, 10), 10);
        assert!(!shares.have_dropped());
        shares.add(0, 1, 3);
        assert_eq!((shares.part_of(0, 100), shares.part_of(0, 1)), (25, 1));
        assert_eq!(shares.part_of(1, 10), 10);
        shares.add(1, 0, 9);
        assert_eq!(shares.part_of(1, 10), 0);
        assert!(shares.have_dropped());
    }

    fn lost(count: u64) -> Vec<u8> {
        let lost = Lost { id: 1, lost: count };
        record(&Body::Lost(lost), Misc(0), 1)
    }

    fn told(shares: &Shares, count: u64) -> u64 {
        let record = shares.part_of_record(0, &lost(count));
        record.map_or(0, |record| {
            ByteOrder::NATIVE.u64(&record, 16).expect("a count")
        })
    }

    #[test]
    fn what_others_lose_later_is_not_the_trees() {
        let shares = Shares::of_rings(1);
        shares.add(0, 1100, 0);
        assert_eq!(told(&shares, 10), 10);
        // Then others have the CPU.
        for _ in 0..30 {
            shares.add(0, 1, 99);
        }
        assert_eq!(told(&shares, 740), 8);
        assert_eq!(shares.part_of(0, 750), 18);
        assert_eq!(shares.part_of(0, 850), 19, "of 100 no record told");
        // Those of other events are among what records told.
        assert_eq!(shares.part_of(0, 375), 9);
    }

    #[test]
    fn parts_of_many_small_losses_are_rounded_together() {
        let shares = Shares::of_rings(1);
        shares.add(0, 25, 75);
        let all: u64 = (0..100).map(|_| told(&shares, 1)).sum();
        assert_eq!(all, 25);
    }
}
