//! What an event has counted: a number and for how long it did.

/// What one event has counted, over all its threads or CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Events, unscaled.
    pub value: u64,
    /// ns for which the event was enabled.
    pub enabled: u64,
    /// ns for which it was on the hardware.
    pub running: u64,
}

impl Reading {
    /// Events as if it had been on the hardware all the time, to the nearest
    /// whole one; `None` if it never was.
    pub fn scaled(&self) -> Option<u64> {
        prof_sys::scaled(self.value, self.enabled, self.running)
    }

    /// A time that was measured, not counted, while `elapsed` passed; both in
    /// ns.
    pub fn of_time(time: u64, elapsed: u64) -> Self {
        Self {
            value: time,
            enabled: elapsed,
            running: elapsed,
        }
    }

    /// What came since an earlier reading of the same event.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            value: self.value.saturating_sub(earlier.value),
            enabled: self.enabled.saturating_sub(earlier.enabled),
            running: self.running.saturating_sub(earlier.running),
        }
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
        self.value = self.value.saturating_add(other.value);
        self.enabled = self.enabled.saturating_add(other.enabled);
        self.running = self.running.saturating_add(other.running);
    }
}

#[cfg(test)]
mod tests {
    use super::Reading;

    fn reading(value: u64, enabled: u64, running: u64) -> Reading {
        Reading {
            value,
            enabled,
            running,
        }
    }

    #[test]
    fn scaling_is_exact_and_never_down() {
        assert_eq!(reading(10, 100, 100).scaled(), Some(10));
        assert_eq!(reading(10, 300, 100).scaled(), Some(30));
        assert_eq!(reading(1, 3, 2).scaled(), Some(2), "1.5 is nearest to 2");
        assert_eq!(reading(10, 0, 0).scaled(), None);
        // Clocks of several CPUs may differ by some ns.
        assert_eq!(reading(10, 99, 100).scaled(), Some(10));
        // Past what a double holds.
        let large = (1 << 60) + 1;
        assert_eq!(reading(large, 1 << 62, 1 << 61).scaled(), Some(2 * large));
        assert_eq!(reading(u64::MAX, 2, 1).scaled(), Some(u64::MAX));
    }

    #[test]
    fn an_interval_is_the_difference_of_two_readings() {
        let interval = reading(30, 20, 10).since(&reading(10, 10, 5));
        assert_eq!(interval, reading(20, 10, 5));
        assert_eq!(reading(1, 1, 1).since(&reading(2, 2, 2)), reading(0, 0, 0));
    }
}
