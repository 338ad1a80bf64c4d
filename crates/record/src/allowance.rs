//! How much CPU time a thread of ours may use beside what is recorded.

use std::time::{Duration, Instant};

/// The time whose share may be used at once: what matters most comes first, before
/// anything is known of a program.
const BURST: Duration = Duration::from_secs(1);
/// How long nothing may be used after that.
const PAUSE: Duration = Duration::from_millis(100);

/// A share of the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// One in so many.
    share: u32,
    /// What was used and is not yet back, at a time.
    spent: Duration,
    at: Instant,
    /// CPU time of the thread then.
    used_before: Duration,
    paused_until: Instant,
}

impl Allowance {
    /// One in `share` of the time from `now` on.
    pub(crate) fn new(share: u32, now: Instant) -> Self {
        Self {
            share: share.max(1),
            spent: Duration::ZERO,
            at: now,
            used_before: Duration::ZERO,
            paused_until: now,
        }
    }

    /// From now on it is one in `share`.
    pub(crate) fn set_share(&mut self, share: u32) {
        self.share = share.max(1);
    }

    /// How long to pause if the thread has used what it may; `used` is its CPU
    /// time so far.
    pub(crate) fn pause(&mut self, now: Instant, used: Duration) -> Option<Duration> {
        let back = now.saturating_duration_since(self.at) / self.share;
        let since = used.saturating_sub(self.used_before);
        self.spent = self.spent.saturating_sub(back) + since;
        (self.at, self.used_before) = (now, used);
        let most = BURST / self.share;
        if now >= self.paused_until && self.spent >= most {
            // However much more it was: one reading cannot be stopped half way.
            self.spent = most;
            self.paused_until = now + PAUSE;
        }
        let left = self.paused_until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, BURST, PAUSE};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_used_up_comes_back_by_and_by() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut allowance = Allowance::new(10, start);
        // A tenth of the first second at once, and a tenth of what goes by.
        assert_eq!(allowance.pause(start + ms(50), ms(99)), None);
        assert_eq!(allowance.pause(start + ms(50), ms(150)), Some(PAUSE));
        assert_eq!(allowance.pause(start + ms(60), ms(150)), Some(ms(90)));
        // What was more is forgiven.
        let next = start + ms(50) + PAUSE;
        assert_eq!(allowance.pause(next, ms(159)), None);
        assert_eq!(allowance.pause(next, ms(160)), Some(PAUSE));
        // A larger share from now on.
        allowance.set_share(5);
        assert_eq!(allowance.pause(next + PAUSE, ms(161)), None);
        // All of it is back after a while, and no more than that.
        let later = next + 100 * BURST;
        assert_eq!(allowance.pause(later, ms(161)), None);
        assert_eq!(allowance.pause(later, ms(360)), None);
        assert_eq!(allowance.pause(later, ms(361)), Some(PAUSE));
    }

    #[test]
    fn in_the_long_run_it_is_the_share() {
        let (mut now, mut used) = (Instant::now(), Duration::ZERO);
        let end = now + Duration::from_secs(60);
        let mut allowance = Allowance::new(5, now);
        while now < end {
            match allowance.pause(now, used) {
                Some(pause) => now += pause,
                None => {
                    let reading = Duration::from_millis(1);
                    (now, used) = (now + reading, used + reading);
                }
            }
        }
        let share = used.as_secs_f64() / 60.0;
        assert!((0.19..0.22).contains(&share), "{share}");
    }
}
