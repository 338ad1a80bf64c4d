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
    use super::{Candidate, Ended, LONGEST_TRIAL, Outbox, TRIAL, Trial, Verdict, Whose};
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

    #[test]
    fn a_failed_trial_leaves_the_proven_part() {
        let mut outbox = outbox();
        assert_eq!(
            released(&mut outbox, 11, Verdict::Failed),
            (vec![1, 3, 4], vec![ChainEnd::Unproven])
        );
    }
}
