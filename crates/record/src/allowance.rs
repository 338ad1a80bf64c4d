//! How much CPU time a thread of ours may use beside what is recorded.

use std::time::{Duration, Instant};

/// Time over which a share is taken.
const WINDOW: Duration = Duration::from_millis(100);

/// A share of the time, taken window by window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// One in so many.
    share: u32,
    began: Instant,
    /// CPU time of the thread when the window began.
    used_before: Duration,
}

impl Allowance {
    /// One in `share` of the time from `now` on.
    pub(crate) fn new(share: u32, now: Instant) -> Self {
        Self {
            share: share.max(1),
            began: now,
            used_before: Duration::ZERO,
        }
    }

    /// From now on it is one in `share`.
    pub(crate) fn set_share(&mut self, share: u32) {
        self.share = share.max(1);
    }

    /// How long to pause if the thread has used what it may; `used` is its CPU
    /// time so far.
    pub(crate) fn pause(&mut self, now: Instant, used: Duration) -> Option<Duration> {
        let left = WINDOW.saturating_sub(now.saturating_duration_since(self.began));
        if left.is_zero() {
            self.began = now;
            self.used_before = used;
            return None;
        }
        let since = used.saturating_sub(self.used_before);
        (since >= WINDOW / self.share).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, WINDOW};
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_used_up_is_back_with_the_next_window() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut allowance = Allowance::new(10, start);
        assert_eq!(allowance.pause(start + ms(5), ms(9)), None);
        assert_eq!(allowance.pause(start + ms(20), ms(10)), Some(ms(80)));
        // However much it was.
        assert_eq!(allowance.pause(start + WINDOW, ms(50)), None);
        assert_eq!(allowance.pause(start + WINDOW + ms(1), ms(59)), None);
        assert_eq!(
            allowance.pause(start + WINDOW + ms(1), ms(60)),
            Some(ms(99))
        );
        allowance.set_share(5);
        assert_eq!(allowance.pause(start + WINDOW + ms(2), ms(69)), None);
        assert!(allowance.pause(start + WINDOW + ms(2), ms(70)).is_some());
    }
}
