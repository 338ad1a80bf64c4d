//! Records on their way out, in order, some still on trial.
//!
//! A chain that rests on memory read later than the sample is written only
//! after some more drains, if none of its slots was seen to change unseen
//! meanwhile; else its proven part is. All behind it waits too, so that the
//! order of time stays.

use prof_profile::ChainEnd;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Drains that a chain is on trial.
const TRIAL: u64 = 8;
/// Most bytes that wait; more ends the trials early.
const MOST_WAITING: usize = 8 << 20;

/// What a chain rests on beyond its sample's copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) tid: i32,
    /// Lowest and highest slot that was read.
    pub(super) slots: RangeInclusive<u64>,
    /// Frames that do not rest on it.
    pub(super) proven: usize,
}

#[derive(Debug)]
enum Part {
    /// Records to be written as they are.
    Ready(Vec<u8>),
    OnTrial {
        trial: Trial,
        until: u64,
        end: ChainEnd,
        /// The record with the whole chain, and with the proven part.
        whole: Vec<u8>,
        proven: Vec<u8>,
    },
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    parts: VecDeque<Part>,
    waiting: usize,
}

impl Outbox {
    /// Where to append records that need no trial.
    pub(super) fn ready(&mut self) -> &mut Vec<u8> {
        if !matches!(self.parts.back(), Some(Part::Ready(_))) {
            self.parts.push_back(Part::Ready(Vec::new()));
        }
        match self.parts.back_mut() {
            Some(Part::Ready(records)) => records,
            _ => unreachable!("just pushed"),
        }
    }

    /// Adds a record on trial since drain `now`.
    pub(super) fn try_out(
        &mut self,
        trial: Trial,
        now: u64,
        end: ChainEnd,
        whole: Vec<u8>,
        proven: Vec<u8>,
    ) {
        self.waiting += whole.len() + proven.len();
        self.parts.push_back(Part::OnTrial {
            trial,
            until: now + TRIAL,
            end,
            whole,
            proven,
        });
    }

    /// Appends to `out` all before the first record that is still on trial
    /// at drain `now`. `is_doubtful` says whether a trial has failed;
    /// `decided` is told how each chain ends.
    pub(super) fn release(
        &mut self,
        now: u64,
        is_doubtful: impl Fn(&Trial) -> bool,
        mut decided: impl FnMut(ChainEnd),
        out: &mut Vec<u8>,
    ) {
        while let Some(part) = self.parts.pop_front() {
            match part {
                Part::Ready(records) => out.extend(records),
                Part::OnTrial {
                    trial,
                    end,
                    whole,
                    proven,
                    until,
                } => {
                    let has_failed = is_doubtful(&trial);
                    if !has_failed && now < until && self.waiting < MOST_WAITING {
                        self.parts.push_front(Part::OnTrial {
                            trial,
                            end,
                            whole,
                            proven,
                            until,
                        });
                        return;
                    }
                    self.waiting = self.waiting.saturating_sub(whole.len() + proven.len());
                    if has_failed {
                        out.extend(proven);
                        decided(ChainEnd::Unproven);
                    } else {
                        out.extend(whole);
                        decided(end);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outbox, TRIAL, Trial};
    use prof_profile::ChainEnd;

    fn trial(tid: i32) -> Trial {
        Trial {
            tid,
            slots: 0x1000..=0x2000,
            proven: 1,
        }
    }

    fn outbox() -> Outbox {
        let mut outbox = Outbox::default();
        outbox.ready().push(1);
        outbox.try_out(trial(7), 10, ChainEnd::Root, vec![2], vec![3]);
        outbox.ready().push(4);
        outbox
    }

    fn released(outbox: &mut Outbox, now: u64, doubtful: i32) -> (Vec<u8>, Vec<ChainEnd>) {
        let (mut out, mut ends) = (Vec::new(), Vec::new());
        outbox.release(
            now,
            |trial| trial.tid == doubtful,
            |end| ends.push(end),
            &mut out,
        );
        (out, ends)
    }

    #[test]
    fn what_is_behind_a_trial_waits_for_its_end() {
        let mut outbox = outbox();
        assert_eq!(released(&mut outbox, 10, 0), (vec![1], vec![]));
        assert_eq!(released(&mut outbox, 9 + TRIAL, 0), (vec![], vec![]));
        assert_eq!(
            released(&mut outbox, 10 + TRIAL, 0),
            (vec![2, 4], vec![ChainEnd::Root])
        );
    }

    #[test]
    fn a_failed_trial_leaves_the_proven_part() {
        let mut outbox = outbox();
        assert_eq!(
            released(&mut outbox, 11, 7),
            (vec![1, 3, 4], vec![ChainEnd::Unproven])
        );
    }
}
