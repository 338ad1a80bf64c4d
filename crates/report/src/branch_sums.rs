//! Sums over the branches in call chains.

use prof_profile::BranchFrame;

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
    pub(crate) fn of(frame: BranchFrame) -> Self {
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
    pub(crate) fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    #[must_use]
    pub(crate) fn times(self, count: u64) -> Self {
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
