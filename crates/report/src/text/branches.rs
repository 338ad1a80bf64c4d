//! What is told of the branches in call chains, as `perf report
//! --branch-history` tells it.

use super::chain::{Chains, Flow, Places, Walk};
use crate::model::{CallTree, NodeId, Row, SiteId};
use prof_abi::branch_kind_name;
use prof_profile::{BranchFrame, Leaves};
use std::fmt::Write;

/// Sums over the ends of branches in the chains of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BranchSums {
    /// Ends, each as often as samples have it.
    pub(crate) ends: u64,
    /// Of them, where a predicted branch went.
    pub(crate) predicted: u64,
    /// Of them, where an aborted transaction went.
    pub(crate) aborts: u64,
    /// Cycles before branches.
    pub(crate) cycles: u64,
}

impl BranchSums {
    /// What one end tells.
    fn of(frame: BranchFrame) -> Self {
        match frame {
            BranchFrame::Sampled => Self::default(),
            BranchFrame::Target(target) => Self {
                ends: 1,
                predicted: target.is_predicted.into(),
                aborts: target.is_abort.into(),
                cycles: 0,
            },
            BranchFrame::Source(source) => Self {
                ends: 1,
                cycles: source.cycles.into(),
                ..Self::default()
            },
        }
    }

    fn each(self, other: Self, by: fn(u64, u64) -> u64) -> Self {
        Self {
            ends: by(self.ends, other.ends),
            predicted: by(self.predicted, other.predicted),
            aborts: by(self.aborts, other.aborts),
            cycles: by(self.cycles, other.cycles),
        }
    }

    #[must_use]
    fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    #[must_use]
    fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    #[must_use]
    fn times(self, count: u64) -> Self {
        let count = Self {
            ends: count,
            predicted: count,
            aborts: count,
            cycles: count,
        };
        self.each(count, u64::saturating_mul)
    }

    /// Share of predicted branches among the ends, percent.
    pub(crate) fn predicted_percent(&self) -> f64 {
        crate::model::percent_of(self.predicted, self.ends)
    }

    /// Cycles by end.
    pub(crate) fn mean_cycles(&self) -> u64 {
        self.cycles.checked_div(self.ends).unwrap_or(0)
    }
}

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

/// By node of a call tree: sums of the branches around it, and in it.
struct TreeSums {
    /// Of the frames from the outermost one to the node, once.
    path: Vec<BranchSums>,
    /// Of the chains of all samples in and under the node.
    inside: Vec<BranchSums>,
}

impl Chains<'_> {
    /// The end of a branch that a frame is.
    pub(super) fn branch_of(&self, site: SiteId) -> Option<BranchFrame> {
        let id = self.scene().sites().get(site).branch?;
        let frames = &self.scene().profile().branch_frames;
        frames.get(id.0 as usize).copied()
    }

    /// Sums over the chains of rows that places are known of.
    pub(crate) fn sums<'r>(
        &'r self,
        rows: impl Iterator<Item = &'r Row>,
    ) -> impl Iterator<Item = (&'r Row, BranchSums)> {
        let mut of_groups = rustc_hash::FxHashMap::default();
        rows.filter_map(move |row| {
            let (tree, places) = self.tree_and_places(row)?;
            let sums = of_groups
                .entry(row.key.group)
                .or_insert_with(|| self.tree_sums(tree));
            Some((row, Walk::new(self, tree, places, row).sums(sums)))
        })
    }

    fn tree_sums(&self, tree: &CallTree) -> TreeSums {
        let mut path = vec![BranchSums::default(); tree.len()];
        let mut inside = path.clone();
        // A node's parent has a smaller id.
        for index in 1..tree.len() {
            let node = NodeId(index as u32);
            let end = tree.site(node).and_then(|site| self.branch_of(site));
            let own = end.map(BranchSums::of).unwrap_or_default();
            let parent = tree.parent(node).unwrap_or(NodeId::ROOT);
            let sum = path.get(parent.index()).copied().unwrap_or_default();
            let sum = sum.plus(own);
            if let (Some(path), Some(inside)) = (path.get_mut(index), inside.get_mut(index)) {
                *path = sum;
                *inside = sum.times(tree.own(node).samples);
            }
        }
        for index in (1..tree.len()).rev() {
            let below = inside.get(index).copied().unwrap_or_default();
            let parent = tree.parent(NodeId(index as u32)).unwrap_or(NodeId::ROOT);
            if let Some(above) = inside.get_mut(parent.index()) {
                *above = above.plus(below);
            }
        }
        TreeSums { path, inside }
    }
}

impl TreeSums {
    fn path(&self, node: NodeId) -> BranchSums {
        self.path.get(node.index()).copied().unwrap_or_default()
    }

    fn inside(&self, node: NodeId) -> BranchSums {
        self.inside.get(node.index()).copied().unwrap_or_default()
    }
}

impl Walk<'_> {
    /// Sums over all chains of the row.
    fn sums(&self, sums: &TreeSums) -> BranchSums {
        let mut all = BranchSums::default();
        for flow in self.starts() {
            let samples = self.noted(flow);
            all = all.plus(match flow {
                _ if samples == 0 => continue,
                Flow::Outwards(node, ..) => sums.path(node).times(samples),
                // Theirs are added below.
                Flow::Selves(_) => continue,
                Flow::Others(node, _) => {
                    let parent = self.tree.parent(node).unwrap_or(NodeId::ROOT);
                    let of_own =
                        self.own_sums(sums, |leaf| self.tree.outwards(leaf).any(|at| at == node));
                    let around = sums.path(parent).times(samples);
                    sums.inside(node).minus(of_own).minus(around)
                }
            });
        }
        if self.is_inwards() {
            all = all.plus(self.own_sums(sums, |leaf| self.is_noted(leaf)));
        }
        all
    }

    /// Sums over the chains of the row's own samples at these leaves.
    fn own_sums(&self, sums: &TreeSums, takes: impl Fn(NodeId) -> bool) -> BranchSums {
        let Places { leaves, .. } = self.places;
        let own = leaves.iter().filter(|&&leaf| takes(leaf));
        let own = own.map(|&leaf| sums.path(leaf).times(self.tree.own(leaf).samples));
        own.fold(BranchSums::default(), BranchSums::plus)
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
