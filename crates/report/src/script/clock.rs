//! How times are printed.

use std::io::Write as _;

/// From when times count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeOrigin {
    /// The event's clock.
    #[default]
    Clock,
    /// The first time that is printed.
    First,
    /// The time printed before.
    Previous,
}

/// Prints times; what one prints may depend on those before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    origin: TimeOrigin,
    nanoseconds: bool,
    /// The first or the previous one, by `origin`.
    since: Option<u64>,
}

impl Times {
    /// Times from `origin` on, to the ns rather than the µs if `nanoseconds`.
    pub fn new(origin: TimeOrigin, nanoseconds: bool) -> Self {
        Self {
            origin,
            nanoseconds,
            since: None,
        }
    }

    /// Appends `time`, in ns, as perf does.
    pub fn push(&mut self, time: u64, out: &mut Vec<u8>) {
        // As perf: a time of 0 is none to count from.
        let since = self.since.filter(|&since| since != 0);
        let shown = match self.origin {
            TimeOrigin::Clock => time,
            TimeOrigin::First | TimeOrigin::Previous => time.wrapping_sub(since.unwrap_or(time)),
        };
        if self.origin == TimeOrigin::Previous || since.is_none() {
            self.since = Some(time);
        }
        let (seconds, nanoseconds) = (shown / 1_000_000_000, shown % 1_000_000_000);
        let written = if self.nanoseconds {
            write!(out, "{seconds:5}.{nanoseconds:09}: ")
        } else {
            write!(out, "{seconds:5}.{:06}: ", nanoseconds / 1000)
        };
        written.expect("writing to memory");
    }
}
