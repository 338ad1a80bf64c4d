//! What stands behind a place of a chain, of the branches with an end there.

use crate::branch_sums::BranchSums;
use prof_abi::branch_kind_name;
use prof_profile::{BranchFrame, Leaves};
use std::fmt::Write;

/// What branches tell that have an end in one place of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BranchesHere {
    sums: BranchSums,
    /// Samples with a branch that went here, and with one from here.
    targets: u64,
    sources: u64,
    /// Rounds that were left out before, and their cycles.
    rounds: u64,
    round_cycles: u64,
    /// Kinds of the branches that went here, a bit for each.
    kinds: u16,
    new_kinds: u16,
    forward: bool,
    backward: bool,
    from_page: bool,
    from_large_page: bool,
}

impl BranchesHere {
    /// Adds an end that so many samples have.
    pub(crate) fn add(&mut self, frame: BranchFrame, samples: u64) {
        if samples == 0 {
            return;
        }
        self.sums = self.sums.plus(BranchSums::of(frame).times(samples));
        match frame {
            BranchFrame::Sampled => {}
            BranchFrame::Source(source) => {
                self.sources = self.sources.saturating_add(samples);
                let rounds = u64::from(source.rounds).saturating_mul(samples);
                let cycles = source.round_cycles.saturating_mul(samples);
                self.rounds = self.rounds.saturating_add(rounds);
                self.round_cycles = self.round_cycles.saturating_add(cycles);
            }
            BranchFrame::Target(target) => {
                self.targets = self.targets.saturating_add(samples);
                match target.kind {
                    0 => return,
                    EXTENDED => self.new_kinds |= 1 << (target.new_kind & 15),
                    kind => self.kinds |= 1 << (kind & 15),
                }
                self.forward |= target.kind == CONDITIONAL && target.is_forward;
                self.backward |= target.kind == CONDITIONAL && !target.is_forward;
                self.from_page |= target.leaves == Leaves::Page;
                self.from_large_page |= target.leaves == Leaves::LargePage;
            }
        }
    }

    /// What stands behind the name of the place.
    pub(crate) fn note(&self) -> String {
        let mut note = Note::default();
        if self.sums.ends == 0 {
            note.0.push_str(" (calltrace");
        } else if self.targets > 0 {
            self.tell_targets(&mut note);
        } else {
            self.tell_sources(&mut note);
        }
        if !note.0.is_empty() {
            note.0.push(')');
        }
        note.0.truncate(LONGEST_NOTE);
        note.0
    }

    fn tell_targets(&self, note: &mut Note) {
        let is_of = |kinds: u16, kind: u8| kinds & 1 << kind != 0;
        let plain = (1..EXTENDED).filter(|&kind| kind != CONDITIONAL && is_of(self.kinds, kind));
        let plain = plain.filter_map(|kind| branch_kind_name(kind, 0));
        let new = (0..16).filter(|&kind| is_of(self.new_kinds, kind));
        let new = new.filter_map(|kind| branch_kind_name(EXTENDED, kind));
        let of = |is: bool, name| is.then_some(name);
        let conditional = [of(self.forward, "COND_FWD"), of(self.backward, "COND_BWD")];
        let crossing = [
            of(self.from_page, "CROSS_4K"),
            of(self.from_large_page, "CROSS_2M"),
        ];
        let kinds = conditional.into_iter().flatten().chain(plain).chain(new);
        for kind in kinds.chain(crossing.into_iter().flatten()) {
            note.word(kind);
        }
        let BranchSums {
            ends,
            predicted,
            aborts,
            ..
        } = self.sums;
        if predicted < ends {
            note.percent("predicted", self.sums.predicted_percent());
        }
        let aborted = crate::model::percent_of(aborts, ends);
        if aborted >= 0.1 {
            note.percent("abort", aborted);
        }
    }

    fn tell_sources(&self, note: &mut Note) {
        let cycles = self.sums.mean_cycles();
        if cycles > 0 {
            note.number("cycles", cycles);
        }
        // perf does not count the first sample that comes by.
        let rounds = self.rounds.checked_div(self.sources.saturating_sub(1));
        if let Some(rounds) = rounds.filter(|&rounds| rounds > 0) {
            note.number("iter", rounds);
            note.number("avg_cycles", self.round_cycles / self.rounds.max(1));
        }
    }
}

/// Characters of a note that perf has room for; all are ASCII.
const LONGEST_NOTE: usize = 63;

/// `PERF_BR_COND`.
const CONDITIONAL: u8 = 1;

/// `PERF_BR_EXTEND_ABI`.
const EXTENDED: u8 = 15;

/// Words in parentheses, without the last one.
#[derive(Default)]
struct Note(String);

impl Note {
    fn word(&mut self, word: &str) {
        let before = if self.0.is_empty() { " (" } else { " " };
        self.0.push_str(before);
        self.0.push_str(word);
    }

    fn number(&mut self, what: &str, number: u64) {
        self.word(what);
        let _ = write!(self.0, ":{number}");
    }

    fn percent(&mut self, what: &str, percent: f64) {
        self.word(what);
        let _ = write!(self.0, ":{percent:.1}%");
    }
}

#[cfg(test)]
mod tests {
    use super::{BranchSums, BranchesHere};
    use prof_profile::{Avma, BranchFrame, BranchSource, BranchTarget};

    fn noted(frames: &[(BranchFrame, u64)]) -> String {
        let mut here = BranchesHere::default();
        for &(frame, samples) in frames {
            here.add(frame, samples);
        }
        here.note()
    }

    fn went(kind: u8, is_predicted: bool) -> BranchFrame {
        BranchFrame::Target(BranchTarget {
            is_predicted,
            ..BranchTarget::between((0x10, 0x2000), (kind, 0))
        })
    }

    #[test]
    fn places_are_noted_as_perf_notes_them() {
        assert_eq!(noted(&[]), " (calltrace)");
        assert_eq!(noted(&[(went(0, true), 3)]), "");
        let mixed = [(went(1, true), 3), (went(4, false), 1)];
        let kinds = " (COND_FWD CALL CROSS_4K predicted:75.0%)";
        assert_eq!(noted(&mixed), kinds);
        let source = |cycles, rounds| {
            BranchFrame::Source(BranchSource {
                address: Avma(0x10),
                cycles,
                rounds,
                round_cycles: 12,
            })
        };
        assert_eq!(noted(&[(source(9, 0), 2)]), " (cycles:9)");
        let round = " (cycles:5 iter:2 avg_cycles:12)";
        assert_eq!(noted(&[(source(5, 1), 2)]), round);
        // The one sample is the first one.
        assert_eq!(noted(&[(source(5, 1), 1)]), " (cycles:5)");
    }

    #[test]
    fn sums_stay_within_their_bounds() {
        let most = BranchSums::of(went(0, true)).times(u64::MAX);
        assert_eq!(most.plus(most), most);
        assert!((most.predicted_percent() - 100.0).abs() < 1e-9);
        assert_eq!(BranchSums::default().mean_cycles(), 0);
    }
}
