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

impl Waited {
    /// A wait from `begin` to `end`, ns, of which nothing else is known.
    pub(super) fn bare(thread: Thread, state: WaitState, (begin, end): (u64, u64)) -> Self {
        Self {
            thread,
            nth: 0,
            begin,
            end,
            state,
            sample: None,
            was_read: false,
            holder: None,
            began_before: false,
            is_open: false,
            is_unsure: false,
        }
    }
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
        for mark in ready.drain(..later) {
            self.take(mark, waited);
        }
        // The room is for the next ones, but not that of a busy moment for ever.
        if ready.capacity() / 8 > later.max(ready.len()) {
            ready.shrink_to(2 * later);
        }
        self.marks = ready;
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
mod tests;
