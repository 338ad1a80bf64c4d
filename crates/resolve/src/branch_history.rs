//! Branch stacks put into call chains, as `perf report --branch-history`.
//!
//! The last branches say how the code got to the sample, finer than its
//! callers do. Each gives two frames, where it went and where it came from;
//! rounds of a loop are left out but the first, and the call chain follows:
//!
//! ```text
//!   branches   from0 -> to0, from1 -> to1          (newest first)
//!   chain      USER u0 u1 u2
//!   callees first   to0 from0 to1 from1 u0 u1 u2
//!   callers first   to1 from1 to0 from0 u2 u1 u0
//! ```
//!
//! As in perf, the chain loses as many entries at its far end as there are
//! branches, and those that a branch tells, too.

use prof_abi::{CallchainContext, CpuMode};
use prof_perfdata::{Branch, Sample};
use prof_profile::{Avma, BranchFrame, BranchSource, BranchTarget};

/// In which order a call chain is read when branches are merged into it. The
/// order decides where chain and branches overlap, and which repeated rounds of
/// a loop are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchHistory {
    /// The newest branch first.
    CalleesFirst,
    /// The oldest branch first.
    CallersFirst,
}

/// Branch stacks with more entries are damaged.
const MOST_BRANCHES: usize = 127;

/// A frame of such a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An end of a branch.
    Branch(BranchFrame),
    /// An entry of the call chain, and the mode it is in.
    Chain(u64, CpuMode),
}

/// A branch, and what was left out before it.
#[derive(Debug, Clone, Copy)]
struct Step {
    branch: Branch,
    rounds: u32,
    round_cycles: u64,
}

/// The frames of a sample in the order they are read; at most `most` branches
/// and `most` entries of the chain.
pub(crate) fn entries(sample: &Sample<'_>, order: BranchHistory, most: usize) -> Vec<Entry> {
    let chain: Vec<u64> = sample.callchain().into_iter().flatten().collect();
    let branches: Vec<Branch> = sample
        .branches()
        .map(|list| list.iter().take(MOST_BRANCHES + 1).collect())
        .unwrap_or_default();
    let branches = match branches.len() {
        0..=MOST_BRANCHES => branches,
        _ => Vec::new(),
    };
    let taken = branches.len().min(most);
    let (mut steps, told): (Vec<Branch>, usize) = match order {
        BranchHistory::CalleesFirst => {
            let steps: Vec<Branch> = branches.into_iter().take(taken).collect();
            let told = told_by_both(&steps, &chain);
            (steps, told)
        }
        BranchHistory::CallersFirst => (branches.into_iter().rev().take(taken).collect(), 0),
    };
    let steps = without_rounds(&mut steps);
    let mut entries: Vec<Entry> = steps.iter().flat_map(Step::frames).collect();
    let left = chain.len().saturating_sub(steps.len());
    let modes = modes(&chain);
    let of_chain = chain.into_iter().zip(modes);
    let mut of_chain: Vec<(u64, CpuMode)> = match order {
        BranchHistory::CalleesFirst => of_chain.take(left).skip(told).collect(),
        BranchHistory::CallersFirst => of_chain.rev().take(left).collect(),
    };
    of_chain.retain(|&(entry, _)| CallchainContext::from_entry(entry).is_none());
    of_chain.truncate(most);
    entries.extend(
        of_chain
            .into_iter()
            .map(|(ip, mode)| Entry::Chain(ip, mode)),
    );
    entries
}

/// How many entries the chain begins with that branches tell, too: markers,
/// and returns to at most 8 bytes behind a branch.
fn told_by_both(branches: &[Branch], chain: &[u64]) -> usize {
    let mut told = 0;
    for branch in branches {
        let Some(&entry) = chain.get(told) else {
            break;
        };
        let is_marker = CallchainContext::from_entry(entry).is_some();
        let is_behind = branch.from < entry && branch.from >= entry.wrapping_sub(8);
        told += usize::from(is_marker || is_behind);
    }
    told
}

/// The mode of each entry.
fn modes(chain: &[u64]) -> Vec<CpuMode> {
    let mut mode = CpuMode::User;
    let modes = chain.iter().map(|&entry| {
        if let Some(context) = CallchainContext::from_entry(entry) {
            mode = context.cpu_mode();
        }
        mode
    });
    modes.collect()
}

/// Leaves out the rounds of loops. As in perf, a branch is compared with one
/// earlier one alone, and places are not corrected for what was left out.
fn without_rounds(branches: &mut [Branch]) -> Vec<Step> {
    let mut steps: Vec<Step> = branches
        .iter()
        .map(|&branch| Step {
            branch,
            rounds: 0,
            round_cycles: 0,
        })
        .collect();
    let mut seen_at = [None; SLOTS];
    let mut at = 0;
    while let Some(step) = steps.get(at).copied() {
        if let Some(seen) = seen_at.get_mut(slot(step.branch.from)) {
            let before = *seen.get_or_insert(at);
            let from = |index: usize| steps.get(index).map(|step| step.branch.from);
            let round = (at - before).min(steps.len() - at);
            let is_same = before < at
                && (0..round).all(|step| from(before + step) == from(at + step))
                && from(before) == from(at);
            if is_same {
                leave_out(&mut steps, at, round);
            }
        }
        at += 1;
    }
    steps
}

/// Leaves out a round, and notes that at what follows it.
fn leave_out(steps: &mut Vec<Step>, at: usize, length: usize) {
    let left_out = steps.drain(at..at + length);
    let cycles = left_out.map(|step| u64::from(step.branch.flags.cycles()));
    let cycles = cycles.sum();
    if let Some(next) = steps.get_mut(at) {
        next.rounds += 1;
        next.round_cycles = cycles;
    }
}

/// Slots that branches are looked for in; one that is taken by another
/// address stays that one's.
const SLOTS: usize = 127;

fn slot(address: u64) -> usize {
    const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;
    (address.wrapping_mul(GOLDEN_RATIO) >> 57) as usize % SLOTS
}

impl Step {
    fn frames(&self) -> [Entry; 2] {
        let Branch { from, to, flags } = self.branch;
        let target = BranchTarget {
            is_predicted: flags.predicted(),
            is_abort: flags.abort(),
            ..BranchTarget::between((from, to), (flags.kind(), flags.new_kind()))
        };
        let source = BranchSource {
            address: Avma(from),
            cycles: flags.cycles(),
            rounds: self.rounds,
            round_cycles: self.round_cycles,
        };
        let target = match from {
            // As perf, which takes this for no target.
            0 => BranchFrame::Source(BranchSource {
                address: Avma(to),
                cycles: flags.cycles(),
                rounds: 0,
                round_cycles: 0,
            }),
            _ => BranchFrame::Target(target),
        };
        [
            Entry::Branch(target),
            Entry::Branch(BranchFrame::Source(source)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, told_by_both, without_rounds};
    use prof_abi::CallchainContext;
    use prof_perfdata::{Branch, BranchFlags};

    fn branch(from: u64, cycles: u64) -> Branch {
        Branch {
            from,
            to: from + 100,
            flags: BranchFlags(cycles << 4),
        }
    }

    fn kept(steps: &[Step]) -> Vec<(u64, u32, u64)> {
        let of = |step: &Step| (step.branch.from, step.rounds, step.round_cycles);
        steps.iter().map(of).collect()
    }

    #[test]
    fn rounds_of_a_loop_are_left_out_and_counted_where_they_end() {
        let mut loops = [(1, 5), (2, 6), (1, 7), (2, 8), (3, 9)].map(|(at, it)| branch(at, it));
        let steps = without_rounds(&mut loops);
        assert_eq!(kept(&steps), [(1, 0, 0), (2, 0, 0), (3, 1, 15)]);
    }

    #[test]
    fn another_way_back_is_no_round() {
        let mut other = [1, 2, 4, 1, 3, 5].map(|from| branch(from, 0));
        assert_eq!(without_rounds(&mut other).len(), 6);
        // As for perf, what is cut off at the end is a round as far as it goes.
        let mut cut = [1, 2, 4, 1, 3, 4].map(|from| branch(from, 0));
        assert_eq!(without_rounds(&mut cut).len(), 5);
        assert!(without_rounds(&mut []).is_empty());
    }

    #[test]
    fn what_a_branch_and_the_chain_both_tell_is_skipped() {
        let chain = [CallchainContext::USER.0, 0x1005, 0x2000];
        let branches = [branch(0x9, 0), branch(0x1000, 0), branch(0x1ff7, 0)];
        assert_eq!(told_by_both(&branches, &chain), 2);
        assert_eq!(told_by_both(&branches, &[]), 0);
    }
}
