//! Records on their way out, in order, some still on trial.
//!
//! A chain that rests on memory read later than the sample is written only
//! after some more drains, if none of its slots was seen to change unseen
//! meanwhile and all were seen often enough; else its proven part is. All
//! behind it waits too, so that the order of time stays.

use crate::links::{Call, Link};
use crate::mapped_dsos::MappedDsoId;
use crate::spares::Spares;
use crate::threads::Whose;
use crate::user_chain::ChainRecord;
use prof_profile::ChainEnd;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Drains that a chain is on trial.
const TRIAL: u64 = 8;
/// The same for one that needs to be seen more often: a thread that shares its
/// CPU with five others comes to run six times.
const LONGEST_TRIAL: u64 = 64;
/// Chains on trial that are looked at again in one drain: a busy machine has thousands.
const LOOKS: usize = 256;
/// A part of ready records is closed from so many bytes on. With the longest record
/// behind, it fills a buffer of 256 KiB and makes none of twice that.
const LONGEST_PART: usize = 192 << 10;
/// Buffers of parts that are kept for reuse, and the most bytes of these: as many as
/// may wait behind a trial, or a recording of many records takes fresh memory for each.
const SPARE: usize = MOST_WAITING / LONGEST_PART;
const SPARE_PART_BYTES: usize = 8 << 20;
/// The same of records on trial, and the most bytes of all of these.
const SPARE_RECORDS: usize = 256;
const SPARE_BYTES: usize = 2 << 20;
/// Most bytes that wait; more ends the trials early.
const MOST_WAITING: usize = 6 << 20;

/// What a chain rests on beyond its sample's copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) whose: Whose,
    /// Lowest and highest slot that was read.
    pub(super) slots: RangeInclusive<u64>,
    /// Slots between them that had changed unseen before, and are of no frame of the
    /// chain or were copied with this sample.
    pub(super) copied: Vec<u64>,
    /// Frames that do not rest on it.
    pub(super) proven: usize,
    /// Slots that were not seen often enough yet, with what they held.
    pub(super) unsure: Vec<(u64, u64)>,
    /// What is learnt of calls if it turns out to be sure.
    pub(super) links: Vec<Link>,
    /// And who called whom.
    pub(super) calls: Vec<Call>,
    /// How it ends with what is proven alone.
    pub(super) otherwise: ChainEnd,
    /// How it stood when its thread ended, or began to run another program.
    pub(super) ended: Option<Verdict>,
}

impl Trial {
    /// Nothing more will be seen of its thread.
    fn end(&mut self, verdict: Verdict) {
        let is_open = !self.unsure.is_empty();
        self.ended.get_or_insert(match verdict {
            Verdict::Unsure if is_open => Verdict::Failed,
            // What has changed last, it may have left.
            Verdict::Unsure => Verdict::Sure,
            decided => decided,
        });
    }
}

/// How a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing speaks against the chain, and all of it was seen often enough.
    Sure,
    /// Nothing speaks against it yet.
    Unsure,
    /// A slot has changed unseen.
    Failed,
}

/// How a chain ended, and in which dso its outermost frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Ended {
    pub(super) end: ChainEnd,
    pub(super) dso: Option<MappedDsoId>,
}

/// A record as it may be written.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) ended: Ended,
    /// Of the record, ns.
    pub(super) time: u64,
    pub(super) record: ChainRecord,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "few hundred at a time: a box for each sample on trial would cost more"
)]
enum Part {
    /// Records to be written as they are.
    Ready {
        records: Vec<u8>,
        /// The earliest time among them, ns.
        earliest: u64,
    },
    OnTrial {
        trial: Trial,
        since: u64,
        /// With the whole chain, and with the proven part.
        whole: Candidate,
        proven: Candidate,
    },
}

/// The queue.
#[derive(Debug)]
pub(super) struct Outbox {
    parts: VecDeque<Part>,
    /// Bytes of records in it, those of the last part not counted while it
    /// grows.
    waiting: usize,
    /// The part whose trial is to be looked at again next.
    looked_at: usize,
    /// Buffers for parts to come.
    spare: Spares,
    /// And for records on trial.
    spare_records: Spares,
    /// For the one that is put together to be written.
    whole: Vec<u8>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            parts: VecDeque::new(),
            waiting: 0,
            looked_at: 0,
            spare: Spares::new(SPARE, SPARE_PART_BYTES),
            spare_records: Spares::new(SPARE_RECORDS, SPARE_BYTES),
            whole: Vec::new(),
        }
    }
}

impl Outbox {
    /// Where to append a record of this time, in ns, that needs no trial.
    pub(super) fn ready(&mut self, time: u64) -> &mut Vec<u8> {
        let is_open = match self.parts.back() {
            Some(Part::Ready { records, .. }) => records.len() < LONGEST_PART,
            _ => false,
        };
        if !is_open {
            self.close_last();
            self.parts.push_back(Part::Ready {
                records: self.spare.take(),
                earliest: time,
            });
        }
        match self.parts.back_mut() {
            Some(Part::Ready { records, earliest }) => {
                *earliest = time.min(*earliest);
                records
            }
            _ => unreachable!("just pushed"),
        }
    }

    /// Adds a record of this time, in ns, that needs no trial.
    pub(super) fn put(&mut self, time: u64, record: ChainRecord) {
        record.append_to(self.ready(time));
        self.give_back(record);
    }

    /// An empty buffer for a record of a sample.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare_records.take()
    }

    /// Takes the buffer of a record back.
    fn give_back(&mut self, record: ChainRecord) {
        self.spare_records.give_back(record.bytes);
    }

    /// Frees the buffers that wait for use.
    pub(super) fn give_up_spares(&mut self) {
        self.spare.give_up();
        self.spare_records.give_up();
        self.whole = Vec::new();
    }

    /// The earliest time of the records in it, ns.
    pub(super) fn earliest(&self) -> Option<u64> {
        let times = self.parts.iter().map(|part| match part {
            Part::Ready { earliest, .. } => *earliest,
            Part::OnTrial { whole, .. } => whole.time,
        });
        times.min()
    }

    /// The last part may still grow: it counts when it is closed.
    fn open_last(&mut self) {
        if let Some(Part::Ready { records, .. }) = self.parts.back() {
            self.waiting = self.waiting.saturating_sub(records.len());
        }
    }

    fn close_last(&mut self) {
        if let Some(Part::Ready { records, .. }) = self.parts.back() {
            self.waiting += records.len();
        }
    }

    /// Whether it holds so much that it should be released.
    pub(super) fn is_full(&self) -> bool {
        self.waiting >= MOST_WAITING
    }

    /// Adds a record on trial since drain `now`.
    pub(super) fn try_out(&mut self, trial: Trial, now: u64, whole: Candidate, proven: Candidate) {
        self.close_last();
        self.waiting += whole.record.len() + proven.record.len();
        self.parts.push_back(Part::OnTrial {
            trial,
            since: now,
            whole,
            proven,
        });
    }

    /// A thread ended, or began to run another program: its trials stay as they stand
    /// by `judge`. They may have to wait for others until nothing is known of it.
    pub(super) fn ended(&mut self, tid: i32, judge: impl Fn(&Trial) -> Verdict) {
        for part in &mut self.parts {
            if let Part::OnTrial { trial, .. } = part
                && trial.whose.tid == tid
                && trial.ended.is_none()
            {
                trial.end(judge(trial));
            }
        }
    }

    /// Looks which slots of chains on trial are sure by now. A trial may have to wait for
    /// others until its thread has left those frames, and then nothing tells any more.
    pub(super) fn look_again(&mut self, is_sure: impl Fn(Whose, (u64, u64)) -> bool) {
        let parts = self.parts.len();
        // The next ones each time.
        let first = std::mem::replace(&mut self.looked_at, 0) % parts.max(1);
        let mut looks = LOOKS;
        for at in (first..parts).chain(0..first) {
            let Some(Part::OnTrial { trial, .. }) = self.parts.get_mut(at) else {
                continue;
            };
            if trial.unsure.is_empty() || trial.ended.is_some() {
                continue;
            }
            if looks == 0 {
                self.looked_at = at;
                break;
            }
            looks -= 1;
            let whose = trial.whose;
            trial.unsure.retain(|&slot| !is_sure(whose, slot));
        }
    }

    /// Gives `out` all before the first record that is still on trial at drain
    /// `now`, or more if it is full. `judge` says how a trial stands;
    /// `decided` is told how each chain ends, and what a confirmed one rested on.
    pub(super) fn release(
        &mut self,
        now: u64,
        judge: impl Fn(&Trial) -> Verdict,
        mut decided: impl FnMut(Ended, Option<&Trial>),
        out: &mut dyn FnMut(&[u8]),
    ) {
        self.close_last();
        while let Some(part) = self.parts.pop_front() {
            match part {
                Part::Ready { records, .. } => {
                    self.waiting = self.waiting.saturating_sub(records.len());
                    out(&records);
                    self.spare.give_back(records);
                }
                Part::OnTrial {
                    trial,
                    since,
                    whole,
                    proven,
                } => {
                    let verdict = judge(&trial);
                    let lasts = match verdict {
                        Verdict::Sure => TRIAL,
                        Verdict::Unsure => LONGEST_TRIAL,
                        Verdict::Failed => 0,
                    };
                    if now.saturating_sub(since) < lasts && self.waiting < MOST_WAITING {
                        self.parts.push_front(Part::OnTrial {
                            trial,
                            since,
                            whole,
                            proven,
                        });
                        self.open_last();
                        return;
                    }
                    let both = whole.record.len() + proven.record.len();
                    self.waiting = self.waiting.saturating_sub(both);
                    self.decide((verdict, &trial), (whole, proven), &mut decided, out);
                }
            }
        }
    }

    /// Gives `out` the record that the verdict chooses, and tells `decided` of it.
    fn decide(
        &mut self,
        (verdict, trial): (Verdict, &Trial),
        (whole, proven): (Candidate, Candidate),
        decided: &mut impl FnMut(Ended, Option<&Trial>),
        out: &mut dyn FnMut(&[u8]),
    ) {
        let (chosen, other) = match verdict {
            Verdict::Sure => (whole, proven),
            Verdict::Unsure | Verdict::Failed => (proven, whole),
        };
        if chosen.record.outer.is_empty() {
            out(&chosen.record.bytes);
        } else {
            self.whole.clear();
            chosen.record.append_to(&mut self.whole);
            out(&self.whole);
        }
        decided(chosen.ended, (verdict == Verdict::Sure).then_some(trial));
        self.give_back(chosen.record);
        self.give_back(other.record);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Candidate, Ended, LONGEST_TRIAL, LOOKS, Outbox, Part, TRIAL, Trial, Verdict, Whose,
    };
    use prof_profile::ChainEnd;

    fn trial(tid: i32) -> Trial {
        Trial {
            whose: Whose { tid, has_fp: true },
            slots: 0x1000..=0x2000,
            copied: Vec::new(),
            proven: 1,
            unsure: Vec::new(),
            links: vec![5],
            calls: Vec::new(),
            otherwise: ChainEnd::Unproven,
            ended: None,
        }
    }

    fn outbox() -> Outbox {
        let mut outbox = Outbox::default();
        outbox.ready(5).push(1);
        let candidate = |end, byte| Candidate {
            ended: Ended { end, dso: None },
            time: 4,
            record: vec![byte].into(),
        };
        let whole = candidate(ChainEnd::Root, 2);
        outbox.try_out(trial(7), 10, whole, candidate(ChainEnd::Unproven, 3));
        outbox.ready(3).push(4);
        outbox
    }

    fn released(outbox: &mut Outbox, now: u64, verdict: Verdict) -> (Vec<u8>, Vec<ChainEnd>) {
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        outbox.release(
            now,
            |_| verdict,
            |ended, sure| {
                ends.push(ended.end);
                assert_eq!(sure.is_some(), verdict == Verdict::Sure);
            },
            &mut |records| out.extend_from_slice(records),
        );
        (out, ends)
    }

    #[test]
    fn what_is_behind_a_trial_waits_for_its_end() {
        let mut outbox = outbox();
        let sure = Verdict::Sure;
        assert_eq!(released(&mut outbox, 10, sure), (vec![1], vec![]));
        assert_eq!(released(&mut outbox, 9 + TRIAL, sure), (vec![], vec![]));
        assert_eq!(
            released(&mut outbox, 10 + TRIAL, sure),
            (vec![2, 4], vec![ChainEnd::Root])
        );
    }

    #[test]
    fn the_earliest_time_is_that_of_what_waits() {
        let mut outbox = outbox();
        assert_eq!(outbox.earliest(), Some(3));
        released(&mut outbox, 10, Verdict::Sure);
        assert_eq!(outbox.earliest(), Some(3));
        outbox.ready(2).push(5);
        assert_eq!(outbox.earliest(), Some(2));
        released(&mut outbox, 10 + TRIAL, Verdict::Sure);
        assert_eq!(outbox.earliest(), None);
    }

    #[test]
    fn what_stays_unsure_leaves_the_proven_part() {
        let mut outbox = outbox();
        let unsure = Verdict::Unsure;
        assert_eq!(released(&mut outbox, 9 + LONGEST_TRIAL, unsure).0, [1]);
        assert_eq!(
            released(&mut outbox, 10 + LONGEST_TRIAL, unsure),
            (vec![3, 4], vec![ChainEnd::Unproven])
        );
    }

    /// With a trial that waits for these slots to be seen more often.
    fn waiting(unsure: &[u64]) -> Outbox {
        let mut outbox = outbox();
        for part in &mut outbox.parts {
            if let Part::OnTrial { trial, .. } = part {
                trial.unsure = unsure.iter().map(|&slot| (slot, 1)).collect();
            }
        }
        outbox
    }

    /// What is written by what the outbox itself has kept of a trial.
    fn kept(outbox: &mut Outbox, now: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let judge = |trial: &Trial| match trial.unsure.as_slice() {
            _ if trial.ended.is_some() => trial.ended.expect("just asked"),
            [] => Verdict::Sure,
            _ => Verdict::Unsure,
        };
        outbox.release(now, judge, |_, _| (), &mut |bytes| {
            out.extend_from_slice(bytes)
        });
        out
    }

    #[test]
    fn slots_that_were_sure_once_stay_so_whatever_the_thread_does_then() {
        let mut outbox = waiting(&[0x1000, 0x1008]);
        // It has left the frame of each before the other is looked at.
        outbox.look_again(|whose, (slot, _)| whose.tid == 7 && slot == 0x1000);
        assert_eq!(kept(&mut outbox, 10 + TRIAL), [1]);
        outbox.look_again(|_, (slot, _)| slot == 0x1008);
        assert_eq!(kept(&mut outbox, 10 + TRIAL), [2, 4]);
    }

    #[test]
    fn a_trial_stays_as_it_stood_when_its_thread_ended() {
        let ended = |unsure: &[u64], tid, verdict| {
            let mut outbox = waiting(unsure);
            outbox.ended(tid, |_| verdict);
            // Another thread of that number.
            outbox.ended(tid, |_| Verdict::Failed);
            kept(&mut outbox, 10 + TRIAL)
        };
        assert_eq!(ended(&[0x1000], 7, Verdict::Sure), [1, 2, 4]);
        assert_eq!(ended(&[0x1000], 7, Verdict::Unsure), [1, 3, 4]);
        // All was sure; what has changed since, it may have left at its end.
        assert_eq!(ended(&[], 7, Verdict::Unsure), [1, 2, 4]);
        assert_eq!(ended(&[], 7, Verdict::Failed), [1, 3, 4]);
        // That of another thread goes on.
        assert_eq!(ended(&[0x1000], 8, Verdict::Failed), [1]);
    }

    #[test]
    fn all_trials_are_looked_at_again_in_turns() {
        let mut outbox = Outbox::default();
        let candidate = || Candidate {
            ended: Ended {
                end: ChainEnd::Root,
                dso: None,
            },
            time: 4,
            record: vec![0].into(),
        };
        let many = 3 * LOOKS + 1;
        for slot in 0..many as u64 {
            let trial = Trial {
                unsure: vec![(slot, 1), (slot, 2)],
                ..trial(7)
            };
            outbox.try_out(trial, 10, candidate(), candidate());
        }
        let looked = |outbox: &mut Outbox| {
            let looked = std::cell::RefCell::new(std::collections::BTreeSet::new());
            outbox.look_again(|_, (slot, _)| {
                looked.borrow_mut().insert(slot);
                false
            });
            looked.into_inner()
        };
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..4 {
            let some = looked(&mut outbox);
            assert_eq!(some.len(), LOOKS);
            all.extend(some);
        }
        assert_eq!(all.len(), many);
    }

    #[test]
    fn a_failed_trial_leaves_the_proven_part() {
        let mut outbox = outbox();
        assert_eq!(
            released(&mut outbox, 11, Verdict::Failed),
            (vec![1, 3, 4], vec![ChainEnd::Unproven])
        );
    }
}
