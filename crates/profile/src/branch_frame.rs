//! Branches as frames of call chains.

use crate::Avma;

/// A handle to a [`BranchFrame`] of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchFrameId(pub u32);

/// A frame that was merged into a call chain from a branch stack: the target of
/// a branch, or the branch instruction. The address of the sample itself is not
/// part of such a chain, but stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BranchFrame {
    /// Where the sample was taken: innermost in its stack, and no part of the
    /// chain.
    Sampled,
    /// Where a branch went.
    Target(BranchTarget),
    /// The branch instruction.
    Source(BranchSource),
}

/// What a branch stack says of a branch's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BranchTarget {
    /// Where it went.
    pub address: Avma,
    /// Whether it was predicted.
    pub is_predicted: bool,
    /// Whether it ended a transaction.
    pub is_abort: bool,
    /// `PERF_BR_*`; 0 if it is not told.
    pub kind: u8,
    /// `PERF_BR_NEW_*`, where the kind is the one for those.
    pub new_kind: u8,
    /// Whether it went to a higher address.
    pub is_forward: bool,
    /// The largest block of memory that the branch left.
    pub leaves: Leaves,
}

/// The largest area that a branch leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leaves {
    /// Nothing: it stayed in the same 4 KiB.
    Nothing,
    /// The 4 KiB page.
    Page,
    /// The 2 MiB page.
    LargePage,
}

/// What a branch stack says of the branch instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BranchSource {
    /// Of the instruction.
    pub address: Avma,
    /// Cycles since the branch before; 0 if it is not told.
    pub cycles: u16,
    /// Repeated rounds of the loop before it that were left out of the chain.
    pub rounds: u32,
    /// Cycles of the last round left out.
    pub round_cycles: u64,
}

impl BranchFrame {
    /// The live address; `None` for the sample's own.
    pub fn address(&self) -> Option<Avma> {
        match self {
            Self::Sampled => None,
            Self::Target(target) => Some(target.address),
            Self::Source(source) => Some(source.address),
        }
    }
}

impl BranchTarget {
    /// The target of a branch between two addresses, with its kind and new
    /// kind.
    pub fn between((from, to): (u64, u64), (kind, new_kind): (u8, u8)) -> Self {
        let leaves = |bits: u32| from >> bits != to >> bits;
        Self {
            address: Avma(to),
            is_predicted: false,
            is_abort: false,
            kind,
            new_kind,
            is_forward: to > from,
            leaves: match () {
                () if leaves(21) => Leaves::LargePage,
                () if leaves(12) => Leaves::Page,
                () => Leaves::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BranchTarget, Leaves};

    #[test]
    fn a_branch_leaves_the_largest_area_that_it_leaves() {
        let leaves = |from, to| BranchTarget::between((from, to), (1, 0)).leaves;
        assert_eq!(leaves(0x1000, 0x1fff), Leaves::Nothing);
        assert_eq!(leaves(0x1fff, 0x2000), Leaves::Page);
        assert_eq!(leaves(0x1f_ffff, 0x20_0000), Leaves::LargePage);
        assert!(!BranchTarget::between((2, 1), (1, 0)).is_forward);
    }
}
