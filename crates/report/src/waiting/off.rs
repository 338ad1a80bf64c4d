//! A time during which a thread did not run; and which of these end at a time and are
//! taken again and again at the same place: threads that look every 20 ms whether they
//! are to end, timers of runtimes, locks that are tried anew.
//!
//! How many there are follows from how long the rest takes, and not the rest from
//! them. Which of them decides when something ends is not recorded (a variable was
//! set), so it is told by when: what began to wait, or ended, during the last of
//! them.

use prof_profile::{Profile, StackId, WaitState};

/// A time during which a thread did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Off {
    /// ns.
    pub begin: u64,
    /// ns.
    pub end: u64,
    /// Its sample.
    pub row: usize,
    /// What kept it from running.
    pub state: WaitState,
    /// Index in `Profile::wakes` of what woke it, if it was blocked and that
    /// was recorded.
    pub wake: Option<usize>,
    /// How many waits in a row at the same place came right before it that a time
    /// ended.
    pub(super) ticks: u32,
    /// When the first of these began, or it itself, ns.
    pub(super) since: u64,
}

/// From so many in a row on they are taken for such.
const SEVERAL: u32 = 3;
/// Between two of them the thread ran or waited for a CPU for at most this part of
/// the one before, or so long, ns.
const MOST_BETWEEN: f64 = 0.1;
const SHORT: u64 = 300_000;

/// What a wait is the next of, for each of the waits of a thread, in their order.
///
/// Tells how many in a row at one place came before it that a time ended, and when
/// the first of them began.
pub(super) fn count(profile: &Profile, offs: &mut [Off]) {
    let mut row = Row::default();
    for off in offs {
        if off.state != WaitState::Blocked {
            continue;
        }
        let stack = profile.samples.get(off.row).map(|sample| sample.stack);
        if row.goes_on_with(off, stack) {
            (off.ticks, off.since) = (row.ticks, row.since);
        } else {
            row = Row {
                since: off.begin,
                stack,
                ..Row::default()
            };
        }
        let woken = off.wake.and_then(|index| profile.wakes.get(index));
        if woken.is_none_or(|wake| wake.in_interrupt) {
            row.ticks += 1;
            (row.last, row.ended) = (off.end.saturating_sub(off.begin), off.end);
        } else {
            row = Row::default();
        }
    }
}

/// Waits at one place that a time ended, without much between.
#[derive(Default)]
struct Row {
    ticks: u32,
    since: u64,
    stack: Option<StackId>,
    /// How long the last one was, ns.
    last: u64,
    ended: u64,
}

impl Row {
    fn goes_on_with(&self, off: &Off, stack: Option<StackId>) -> bool {
        let between = off.begin.saturating_sub(self.ended);
        let most = (self.last as f64 * MOST_BETWEEN) as u64;
        self.ticks > 0 && self.stack == stack && between <= most.max(SHORT)
    }
}

impl Off {
    /// Whether a time ended it, as it ended others before at the same place.
    pub(super) fn is_tick(&self, profile: &Profile) -> bool {
        let woken = self.wake.and_then(|index| profile.wakes.get(index));
        let by_time = woken.is_none_or(|wake| wake.in_interrupt);
        self.state == WaitState::Blocked && by_time && self.ticks + 1 >= SEVERAL
    }
}
