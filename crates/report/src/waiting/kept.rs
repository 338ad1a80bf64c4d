//! Which samples filters let pass.

use crate::model::{Scope, Selection, shown_rows};
use prof_profile::Profile;
use rustc_hash::FxHashSet;

/// The samples that views of waits tell of: those of a selection, whatever its event.
#[derive(Debug, Default)]
pub struct Kept {
    /// By row; `None` for all.
    rows: Option<Vec<bool>>,
    /// Of these times and CPUs.
    scope: Scope,
}

impl Kept {
    /// What a selection shows.
    pub fn of(profile: &Profile, selection: &Selection) -> Self {
        let rows = shown_rows(profile, selection);
        Self {
            rows: Some(rows).filter(|rows| rows.contains(&false)),
            scope: selection.scope.clone(),
        }
    }

    /// Whether nothing is left out.
    pub(super) fn is_all(&self) -> bool {
        self.rows.is_none()
    }

    /// Whether a sample is told of.
    pub(super) fn has(&self, row: usize) -> bool {
        let rows = self.rows.as_ref();
        rows.is_none_or(|rows| rows.get(row).copied().unwrap_or(false))
    }

    /// Whether what happened at a time is told of.
    pub(super) fn holds_time(&self, time: u64) -> bool {
        self.scope.holds_time(time)
    }

    /// The threads that have such samples.
    pub(super) fn threads(&self, profile: &Profile) -> FxHashSet<i32> {
        let samples = profile.samples.iter().enumerate();
        let kept = samples.filter(|&(row, _)| self.has(row));
        kept.map(|(_, sample)| profile.task(sample.task).tid)
            .collect()
    }
}
