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
/// Between two of them the thread ran for at most this part of the one before, or so
/// long, ns; and did not for at most as long as that one (Python's threads wait for
/// their interpreter).
const MOST_BETWEEN: f64 = 0.1;
const SHORT: u64 = 300_000;

/// What a wait is the next of, for each of the waits of a thread, in their order.
///
/// Tells how many in a row at one place came before it that a time ended, and when
/// the first of them began.
pub(super) fn count(profile: &Profile, offs: &mut [Off]) {
    // One behind the other, the one that went on last at the end.
    let mut rows: Vec<Row> = Vec::new();
    for off in offs {
        let stack = profile.samples.get(off.row).map(|sample| sample.stack);
        let is_blocked = off.state == WaitState::Blocked;
        let own = rows.iter().position(|row| row.stack == stack);
        let own = own.filter(|_| is_blocked).map(|at| rows.remove(at));
        let length = off.end.saturating_sub(off.begin);
        let next = own.filter(|row| row.goes_on_with(off));
        if let Some(row) = &next {
            (off.ticks, off.since) = (row.ticks, row.since);
        }
        for row in &mut rows {
            row.away = row.away.saturating_add(length);
        }
        if is_blocked && off.is_ended_by_time(profile) {
            if rows.len() >= MOST_ROWS {
                rows.remove(0);
            }
            rows.push(Row {
                ticks: off.ticks + 1,
                since: off.since,
                stack,
                last: length,
                ended: off.end,
                away: 0,
            });
        }
    }
}

/// Places at which a thread waits in turns, at most.
const MOST_ROWS: usize = 4;

/// Waits at one place that a time ended, without much between.
struct Row {
    ticks: u32,
    since: u64,
    stack: Option<StackId>,
    /// How long the last one was, ns.
    last: u64,
    ended: u64,
    /// How long the thread has waited since for something else, ns.
    away: u64,
}

impl Row {
    fn goes_on_with(&self, off: &Off) -> bool {
        let between = off.begin.saturating_sub(self.ended);
        let ran = between.saturating_sub(self.away);
        let most = (self.last as f64 * MOST_BETWEEN) as u64;
        ran <= most.max(SHORT) && self.away <= self.last
    }
}

impl Off {
    /// Whether a time ended it, as it ended others before at the same place.
    pub(super) fn is_tick(&self, profile: &Profile) -> bool {
        self.state == WaitState::Blocked
            && self.ticks + 1 >= SEVERAL
            && self.is_ended_by_time(profile)
    }

    /// Whether no thread was seen to end it.
    pub(super) fn is_ended_by_time(&self, profile: &Profile) -> bool {
        let woken = self.wake.and_then(|index| profile.wakes.get(index));
        woken.is_none_or(|wake| wake.in_interrupt)
    }
}
