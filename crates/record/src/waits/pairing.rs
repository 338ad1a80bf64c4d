//! Which leaving of a CPU belongs to which coming back.
//!
//! ```text
//!  CPU 0   sample·out                    in            out: the thread leaves
//!  CPU 1               in ─── sample·out               in:  it runs again
//!               └wait─┘          └─────┘
//! ```
//!
//! Records of a thread stand in the rings of several CPUs, which are not
//! drained at the same instant: what happened later may come earlier. So marks
//! wait until nothing older can come ([`Pairing::pair`]), and are then taken in
//! the order of time.

use prof_profile::WaitState;
use prof_sys::AskedFor;
use rustc_hash::FxHashMap;

/// What a record says about whether a thread runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A sample was taken because it is about to leave: the record.
    Sampled(Box<[u8]>),
    /// Its stack was read while it slept, until then, ns: the record.
    Read { until: u64, record: Box<[u8]> },
    /// It was seen to wait for what a thread held, until then, ns: which thread.
    Held { until: u64, by: u32 },
    /// It ran, and was sampled: the record.
    Passed(Box<[u8]>),
    /// It leaves its CPU; whether it would go on if it could.
    Leaves { preempted: bool },
    /// It was woken: from here on it waits for a CPU.
    Woken,
    /// It has got a CPU.
    Runs,
    /// It was made, and waits for its first CPU.
    Made,
    /// It has ended.
    Ends,
    /// From here on, of all threads: what happens is recorded.
    Begin,
    /// From here on it is not.
    End,
    /// Records of any thread were dropped before this.
    Lost,
}

/// What a record says, of whom and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// ns.
    pub(super) time: u64,
    pub(super) thread: Thread,
    pub(super) change: Change,
}

/// A thread where it last was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Thread {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) cpu: u32,
}

/// A time when a thread did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) thread: Thread,
    /// How often the kernel was asked to sample the thread's leavings when it began, this
    /// time included.
    pub(super) nth: u64,
    /// ns.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) state: WaitState,
    /// The sample that it left with, or that was read meanwhile.
    pub(super) sample: Option<Box<[u8]>>,
    /// Whether its stack was read meanwhile, with a sample of leaving or without.
    pub(super) was_read: bool,
    /// The thread that held what it waited for.
    pub(super) holder: Option<u32>,
    pub(super) began_before: bool,
    pub(super) is_open: bool,
    pub(super) is_unsure: bool,
}

/// What is known of a thread.
#[derive(Debug, Default)]
struct Known {
    /// Its last sample, with its time, until it leaves.
    sample: Option<(u64, Box<[u8]>)>,
    /// What was sampled since it ran, the last.
    passed: Option<Box<[u8]>>,
    /// What was read of it while it slept.
    read: Option<Reading<Box<[u8]>>>,
    /// Who was seen to hold what it waited for.
    held: Option<Reading<u32>>,
    place: ThreadState,
    /// What the kernel counted when it last left a CPU.
    nth: u64,
    /// When it came to run, ns.
    ran_at: u64,
    at: Thread,
    /// What was true at the last change is of this part of the recording.
    part: u32,
}

/// What was read of a thread that slept: from when until when, ns.
#[derive(Debug)]
struct Reading<T> {
    from: u64,
    until: u64,
    what: T,
}

impl<T> Reading<T> {
    /// What it told, if a wait of these times holds the whole reading.
    fn within(self, begin: u64, end: u64) -> Option<T> {
        (begin <= self.from && self.until <= end).then_some(self.what)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
enum ThreadState {
    /// No record has told yet.
    #[default]
    Unseen,
    Runs,
    /// It has ended, and may still be seen to leave its CPU.
    Ended,
    Waits {
        since: u64,
        state: WaitState,
        sample: Option<Box<[u8]>>,
    },
}

/// Makes waits of marks.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    /// Not taken yet; not in order.
    marks: Vec<Mark>,
    threads: FxHashMap<i32, Known>,
    /// Those that have ended since that was last asked for.
    ended: Vec<i32>,
    asked: AskedFor,
    /// When this part of the recording began, ns.
    begin: u64,
    is_on: bool,
    /// Parts so far.
    part: u32,
    whole_cpus: bool,
    /// When records were last found lost, ns.
    lost: u64,
    /// Times that a thread left or came twice: a record between was lost.
    pub(super) broken: u64,
}

impl Pairing {
    /// For records of whole CPUs, or else of tasks.
    pub(super) fn new(whole_cpus: bool) -> Self {
        Self {
            whole_cpus,
            asked: AskedFor::new(),
            ..Self::default()
        }
    }

    /// Takes a mark.
    pub(super) fn add(&mut self, mark: Mark) {
        self.marks.push(mark);
    }

    /// The time of the earliest mark that was not taken in yet, ns.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.marks.iter().map(|mark| mark.time).min()
    }

    /// Nothing older than `horizon`, ns, comes any more: gives `waited` the waits
    /// that have ended by then.
    pub(super) fn pair(&mut self, horizon: u64, waited: &mut dyn FnMut(Waited)) {
        if self.marks.is_empty() {
            return;
        }
        let mut ready = std::mem::take(&mut self.marks);
        // Of equal times the order of the ring holds.
        ready.sort_by_key(|mark| mark.time);
        let later = ready.partition_point(|mark| mark.time <= horizon);
        self.marks = ready.split_off(later);
        for mark in ready {
            self.take(mark, waited);
        }
    }

    /// Threads that have ended since this was last called: no wait of them comes any
    /// more.
    pub(super) fn take_ended(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.ended)
    }

    /// Threads that wait now.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        let waits = |known: &&Known| matches!(known.place, ThreadState::Waits { .. });
        self.threads.values().filter(waits).count()
    }

    fn take(&mut self, mark: Mark, waited: &mut dyn FnMut(Waited)) {
        let Mark {
            time,
            thread,
            change,
        } = mark;
        match change {
            Change::Begin => self.begin(time),
            Change::End => self.end(time, waited),
            Change::Lost => self.lost = time,
            Change::Ends => self.ends(thread),
            _ if !self.is_on => {}
            Change::Made => {
                let known = self.known(thread);
                known.place = ThreadState::Waits {
                    since: time,
                    state: WaitState::Started,
                    sample: None,
                };
            }
            Change::Sampled(record) => self.known(thread).sample = Some((time, record)),
            Change::Passed(record) => self.known(thread).passed = Some(record),
            Change::Read { until, record } => {
                let known = self.known(thread);
                // The first: later ones are of waits to come.
                known.read.get_or_insert(Reading {
                    from: time,
                    until,
                    what: record,
                });
            }
            Change::Held { until, by } => {
                let known = self.known(thread);
                known.held.get_or_insert(Reading {
                    from: time,
                    until,
                    what: by,
                });
            }
            Change::Woken => {
                if let Some(wait) = self.woken(time, thread) {
                    waited(wait);
                }
            }
            Change::Leaves { preempted } => self.leaves(time, thread, preempted),
            Change::Runs => {
                if let Some(wait) = self.runs(time, thread) {
                    waited(wait);
                }
            }
        }
    }

    /// The thread, as far as it is known in this part.
    fn known(&mut self, thread: Thread) -> &mut Known {
        let part = self.part;
        let known = self.threads.entry(thread.tid).or_default();
        if known.part != part {
            *known = Known {
                part,
                nth: known.nth,
                ..Known::default()
            };
        }
        known.at = thread;
        known
    }

    /// Nothing comes of it any more, unless whole CPUs are recorded.
    fn ends(&mut self, thread: Thread) {
        self.ended.push(thread.tid);
        self.asked.ended(thread.tid.cast_unsigned());
        match self.whole_cpus {
            true => self.known(thread).place = ThreadState::Ended,
            false => _ = self.threads.remove(&thread.tid),
        }
    }

    fn leaves(&mut self, time: u64, thread: Thread, preempted: bool) {
        let nth = self.asked.next(thread.tid.cast_unsigned());
        let known = self.known(thread);
        if known.place == ThreadState::Ended {
            if !preempted {
                self.threads.remove(&thread.tid);
            }
            return;
        }
        known.nth = nth;
        known.read = None;
        known.held = None;
        let sample = known.sample.take();
        // One from before it last came is of another leaving.
        let sample = sample.filter(|(taken, _)| *taken >= known.ran_at);
        let sample = sample.map(|(_, record)| record);
        // What it did just before is about where it was when it lost its CPU.
        let passed = known.passed.take().filter(|_| preempted);
        let is_broken = matches!(known.place, ThreadState::Waits { .. });
        known.place = ThreadState::Waits {
            since: time,
            state: match preempted {
                true => WaitState::Preempted,
                false => WaitState::Blocked,
            },
            sample: sample.or(passed),
        };
        self.broken += u64::from(is_broken);
    }

    /// The blocked part of a wait, if it is in one: the rest is for a CPU. Two
    /// may wake it; the first did.
    fn woken(&mut self, time: u64, of: Thread) -> Option<Waited> {
        let (part, lost) = (self.part, self.lost);
        let known = self.threads.get_mut(&of.tid);
        let known = known.filter(|known| known.part == part)?;
        let ThreadState::Waits {
            since,
            state: state @ WaitState::Blocked,
            sample,
        } = &mut known.place
        else {
            return None;
        };
        let read = known.read.take();
        let read = read.and_then(|read| read.within(*since, time));
        let was_read = read.is_some();
        *sample = sample.take().or(read);
        let held = known.held.take();
        let wait = Waited {
            thread: known.at,
            nth: known.nth,
            begin: *since,
            end: time,
            state: WaitState::Blocked,
            sample: sample.clone(),
            was_read,
            holder: held.and_then(|held| held.within(*since, time)),
            began_before: false,
            is_open: false,
            is_unsure: lost > *since,
        };
        (*since, *state) = (time, WaitState::Woken);
        Some(wait)
    }

    fn runs(&mut self, time: u64, thread: Thread) -> Option<Waited> {
        let (begin, lost) = (self.begin, self.lost);
        let known = self.known(thread);
        if known.place == ThreadState::Ended {
            return None;
        }
        known.ran_at = time;
        known.passed = None;
        let (read, held) = (known.read.take(), known.held.take());
        let within = |begin| read.and_then(|read| read.within(begin, time));
        let held_within = |begin| held.and_then(|held| held.within(begin, time));
        match std::mem::replace(&mut known.place, ThreadState::Runs) {
            ThreadState::Unseen => {
                let sample = within(begin);
                Some(Waited {
                    thread,
                    nth: known.nth,
                    begin: begin.min(time),
                    end: time,
                    state: of_unseen(sample.is_some()),
                    was_read: sample.is_some(),
                    sample,
                    holder: held_within(begin),
                    began_before: true,
                    is_open: false,
                    is_unsure: lost > begin,
                })
            }
            ThreadState::Waits {
                since,
                state,
                sample,
            } => {
                let read = within(since);
                Some(Waited {
                    thread,
                    nth: known.nth,
                    begin: since.min(time),
                    end: time,
                    state,
                    was_read: read.is_some(),
                    sample: sample.or(read),
                    holder: held_within(since),
                    began_before: false,
                    is_open: false,
                    is_unsure: lost > since,
                })
            }
            ThreadState::Runs | ThreadState::Ended => {
                self.broken += 1;
                None
            }
        }
    }

    fn begin(&mut self, time: u64) {
        self.is_on = true;
        self.begin = time;
        self.part += 1;
    }

    /// Waits that are not over are told as far as they came.
    fn end(&mut self, time: u64, waited: &mut dyn FnMut(Waited)) {
        if !std::mem::replace(&mut self.is_on, false) {
            return;
        }
        let mut open: Vec<Waited> = Vec::new();
        for known in self.threads.values_mut() {
            if known.part != self.part {
                continue;
            }
            let (read, held) = (known.read.take(), known.held.take());
            let within = |begin| read.and_then(|read| read.within(begin, time));
            let (since, state, sample, read, began_before) = match std::mem::take(&mut known.place)
            {
                ThreadState::Waits {
                    since,
                    state,
                    sample,
                } => (since, state, sample, within(since), false),
                // It was seen to sleep, and nothing else. Of all threads that there are
                // these would be most, and who sleeps all the time is of no interest.
                ThreadState::Unseen if self.whole_cpus => continue,
                ThreadState::Unseen => match within(self.begin) {
                    None => continue,
                    read => (self.begin, WaitState::Blocked, None, read, true),
                },
                ThreadState::Runs | ThreadState::Ended => continue,
            };
            open.push(Waited {
                thread: known.at,
                nth: known.nth,
                begin: since.min(time),
                end: time,
                state,
                was_read: read.is_some(),
                sample: sample.or(read),
                holder: held.and_then(|held| held.within(since, time)),
                began_before,
                is_open: true,
                is_unsure: self.lost > since,
            });
        }
        open.sort_by_key(|wait| (wait.begin, wait.thread.tid));
        open.into_iter().for_each(waited);
    }

    /// Whether a record of this part told of the thread.
    pub(super) fn has_seen(&self, tid: i32) -> bool {
        let known = self.threads.get(&tid);
        known.is_some_and(|known| known.part == self.part)
    }

    /// When this part began, ns.
    pub(super) fn began(&self) -> u64 {
        self.begin
    }
}

/// What kept a thread from running of which nothing was seen before it ran:
/// one that was read slept.
fn of_unseen(was_read: bool) -> WaitState {
    match was_read {
        true => WaitState::Blocked,
        false => WaitState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Mark, Pairing, Thread, Waited};
    use prof_profile::WaitState;

    const LEAVES: Change = Change::Leaves { preempted: false };

    fn mark(time: u64, tid: i32, change: Change) -> Mark {
        let thread = Thread {
            pid: 1,
            tid,
            cpu: 0,
        };
        Mark {
            time,
            thread,
            change,
        }
    }

    fn sampled(what: u8) -> Change {
        Change::Sampled(vec![what].into())
    }

    /// What comes of drains, each with the horizon behind it.
    fn waits(drains: Vec<(Vec<Mark>, u64)>) -> (Vec<Waited>, Pairing) {
        let mut pairing = Pairing::default();
        let mut waits = Vec::new();
        pairing.add(mark(0, 0, Change::Begin));
        for (marks, horizon) in drains {
            marks.into_iter().for_each(|mark| pairing.add(mark));
            pairing.pair(horizon, &mut |wait| waits.push(wait));
        }
        (waits, pairing)
    }

    /// Begin, end, the sample's byte.
    fn told(waits: &[Waited]) -> Vec<(u64, u64, Option<u8>)> {
        let sample = |wait: &Waited| wait.sample.as_ref().and_then(|it| it.first().copied());
        waits
            .iter()
            .map(|wait| (wait.begin, wait.end, sample(wait)))
            .collect()
    }

    #[test]
    fn a_wait_lasts_from_leaving_to_coming_back() {
        let marks = vec![
            mark(9, 7, sampled(1)),
            mark(10, 7, LEAVES),
            mark(25, 7, Change::Runs),
            mark(29, 7, sampled(2)),
            mark(30, 7, Change::Leaves { preempted: true }),
            mark(31, 7, Change::Runs),
        ];
        let (waits, pairing) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(10, 25, Some(1)), (30, 31, Some(2))]);
        let states: Vec<WaitState> = waits.iter().map(|wait| wait.state).collect();
        assert_eq!(states, [WaitState::Blocked, WaitState::Preempted]);
        assert_eq!((pairing.waiting(), pairing.broken), (0, 0));
    }

    #[test]
    fn who_was_woken_waits_for_a_cpu_from_then_on() {
        let marks = vec![
            mark(9, 7, sampled(1)),
            mark(10, 7, LEAVES),
            mark(20, 7, Change::Woken),
            // Of another that came later.
            mark(21, 7, Change::Woken),
            mark(25, 7, Change::Runs),
            // It runs.
            mark(26, 7, Change::Woken),
            mark(30, 7, Change::Leaves { preempted: true }),
            mark(31, 7, Change::Woken),
            mark(32, 7, Change::Runs),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        let expected = [(10, 20, Some(1)), (20, 25, Some(1)), (30, 32, None)];
        assert_eq!(told(&waits), expected);
        let states: Vec<WaitState> = waits.iter().map(|wait| wait.state).collect();
        let (blocked, woken) = (WaitState::Blocked, WaitState::Woken);
        assert_eq!(states, [blocked, woken, WaitState::Preempted]);
    }

    #[test]
    fn rings_that_are_drained_one_after_the_other_do_not_mix_waits_up() {
        // On CPU 1 at 2, 3 and 6, on CPU 0 at 1, 4 and 5, drained too early.
        let of_one = vec![
            mark(2, 7, Change::Runs),
            mark(3, 7, LEAVES),
            mark(6, 7, Change::Runs),
        ];
        let of_zero = vec![
            mark(1, 7, LEAVES),
            mark(4, 7, Change::Runs),
            mark(5, 7, LEAVES),
        ];
        let (waits, pairing) = waits(vec![(of_one, 0), (of_zero, 6)]);
        let expected = [(1, 2, None), (3, 4, None), (5, 6, None)];
        assert_eq!(told(&waits), expected);
        assert_eq!(pairing.broken, 0);
    }

    #[test]
    fn a_sample_of_an_earlier_leaving_is_not_taken() {
        let marks = vec![
            mark(1, 7, LEAVES),
            mark(2, 7, Change::Runs),
            mark(3, 7, sampled(1)),
            mark(4, 7, LEAVES),
            mark(5, 7, Change::Runs),
            // Its own sample was lost.
            mark(6, 7, LEAVES),
            mark(7, 7, Change::Runs),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(1, 2, None), (4, 5, Some(1)), (6, 7, None)]);
    }

    #[test]
    fn what_began_before_or_is_not_over_is_told_as_such() {
        let marks = vec![
            mark(5, 7, Change::Runs),
            mark(8, 7, LEAVES),
            mark(9, 8, LEAVES),
            mark(10, 8, Change::Ends),
            mark(20, 0, Change::End),
        ];
        let (waits, pairing) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(0, 5, None), (8, 20, None)]);
        let edges: Vec<_> = waits
            .iter()
            .map(|wait| (wait.began_before, wait.is_open))
            .collect();
        assert_eq!(edges, [(true, false), (false, true)]);
        assert_eq!(pairing.waiting(), 0);
    }

    #[test]
    fn a_preempted_thread_has_the_stack_of_its_last_sample_since_it_ran() {
        let passed = |what: u8| Change::Passed(vec![what].into());
        let preempted = || Change::Leaves { preempted: true };
        let marks = vec![
            mark(1, 7, passed(1)),
            mark(2, 7, passed(2)),
            mark(3, 7, preempted()),
            mark(4, 7, Change::Runs),
            mark(5, 7, preempted()),
            mark(6, 7, Change::Runs),
            mark(7, 7, passed(3)),
            mark(8, 7, LEAVES),
            mark(9, 7, Change::Runs),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(3, 4, Some(2)), (5, 6, None), (8, 9, None)]);
    }

    fn read(until: u64, what: u8) -> Change {
        let record = vec![what].into();
        Change::Read { until, record }
    }

    #[test]
    fn a_stack_that_was_read_is_of_the_wait_that_holds_the_whole_reading() {
        let marks = vec![
            // Slept before the recording.
            mark(1, 6, read(3, 1)),
            mark(5, 6, Change::Runs),
            // Woke while it was read.
            mark(10, 7, LEAVES),
            mark(15, 7, read(21, 2)),
            mark(20, 7, Change::Runs),
            // Read in time.
            mark(30, 7, LEAVES),
            mark(31, 7, read(33, 3)),
            mark(35, 7, Change::Runs),
            // The reading is older than the wait.
            mark(36, 7, read(37, 4)),
            mark(40, 7, LEAVES),
            mark(45, 7, Change::Runs),
            // Slept all the time.
            mark(50, 8, read(55, 5)),
            mark(60, 0, Change::End),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        let expected = [
            (0, 5, Some(1)),
            (10, 20, None),
            (30, 35, Some(3)),
            (40, 45, None),
            (0, 60, Some(5)),
        ];
        assert_eq!(told(&waits), expected);
        assert!(waits.iter().all(|wait| wait.state == WaitState::Blocked));
        let was_read: Vec<bool> = waits.iter().map(|wait| wait.was_read).collect();
        assert_eq!(was_read, [true, false, true, false, true]);
    }

    #[test]
    fn a_sample_of_leaving_counts_more_than_what_was_read_and_that_it_was_is_known() {
        let marks = vec![
            mark(9, 7, sampled(1)),
            mark(10, 7, LEAVES),
            mark(12, 7, read(14, 2)),
            mark(20, 7, Change::Runs),
            mark(29, 7, sampled(3)),
            mark(30, 7, LEAVES),
            mark(32, 7, read(41, 4)),
            mark(40, 7, Change::Runs),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(10, 20, Some(1)), (30, 40, Some(3))]);
        assert_eq!([waits[0].was_read, waits[1].was_read], [true, false]);
    }

    #[test]
    fn of_whole_cpus_a_thread_that_was_seen_to_sleep_counts_once_it_has_run() {
        let mut pairing = Pairing::new(true);
        let marks = [
            mark(0, 0, Change::Begin),
            mark(1, 7, read(3, 1)),
            mark(1, 8, read(3, 2)),
            mark(5, 7, Change::Runs),
            mark(9, 0, Change::End),
        ];
        marks.into_iter().for_each(|mark| pairing.add(mark));
        let mut waits = Vec::new();
        pairing.pair(100, &mut |wait| waits.push(wait));
        assert_eq!(told(&waits), [(0, 5, Some(1))]);
        assert_eq!(waits[0].state, WaitState::Blocked);
    }

    #[test]
    fn a_holder_is_of_the_blocked_wait_that_holds_the_whole_look() {
        let held = |until, by| Change::Held { until, by };
        let marks = vec![
            mark(10, 7, LEAVES),
            mark(12, 7, held(13, 1)),
            mark(20, 7, Change::Woken),
            mark(25, 7, Change::Runs),
            // It woke while that was looked at.
            mark(30, 7, LEAVES),
            mark(34, 7, held(36, 2)),
            mark(35, 7, Change::Runs),
            // The look is older than the wait.
            mark(37, 7, held(38, 3)),
            mark(40, 7, LEAVES),
            mark(45, 7, Change::Runs),
            mark(50, 7, LEAVES),
            mark(51, 7, held(52, 4)),
            mark(60, 0, Change::End),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        let holders: Vec<_> = waits.iter().map(|wait| (wait.end, wait.holder)).collect();
        let expected = [
            (20, Some(1)),
            (25, None),
            (35, None),
            (45, None),
            (60, Some(4)),
        ];
        assert_eq!(holders, expected);
    }

    #[test]
    fn a_pause_belongs_to_no_wait() {
        let marks = vec![
            mark(1, 7, LEAVES),
            mark(10, 0, Change::End),
            mark(12, 7, Change::Runs),
            mark(13, 7, LEAVES),
            mark(20, 0, Change::Begin),
            mark(24, 7, Change::Runs),
        ];
        let (waits, _) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(1, 10, None), (20, 24, None)]);
    }

    #[test]
    fn a_thread_that_has_ended_waits_for_nothing() {
        let mut pairing = Pairing::new(true);
        let marks = [
            mark(0, 0, Change::Begin),
            mark(1, 7, Change::Made),
            mark(2, 7, Change::Ends),
            mark(3, 7, Change::Leaves { preempted: true }),
            mark(4, 7, Change::Runs),
            mark(5, 7, LEAVES),
            mark(9, 0, Change::End),
        ];
        marks.into_iter().for_each(|mark| pairing.add(mark));
        pairing.pair(100, &mut |wait| panic!("{wait:?}"));
        assert!(pairing.threads.is_empty());
    }

    #[test]
    fn a_new_thread_waits_for_its_first_cpu() {
        let marks = vec![mark(3, 7, Change::Made), mark(5, 7, Change::Runs)];
        let (waits, _) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(3, 5, None)]);
        assert_eq!(waits[0].state, WaitState::Started);
    }

    #[test]
    fn lost_records_make_waits_unsure_and_doubled_ones_are_counted() {
        let marks = vec![
            mark(1, 7, LEAVES),
            mark(2, 8, LEAVES),
            mark(3, 8, Change::Runs),
            mark(4, 0, Change::Lost),
            mark(5, 7, Change::Runs),
            mark(6, 8, LEAVES),
            mark(7, 8, LEAVES),
            mark(8, 8, Change::Runs),
        ];
        let (waits, pairing) = waits(vec![(marks, 100)]);
        assert_eq!(told(&waits), [(2, 3, None), (1, 5, None), (7, 8, None)]);
        let unsure: Vec<bool> = waits.iter().map(|wait| wait.is_unsure).collect();
        assert_eq!(unsure, [false, true, false]);
        assert_eq!(pairing.broken, 1);
    }
}
