//! Time ranges, as `--time` takes them.

use thiserror::Error;

/// A range of sample times, ns, both ends inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// First time inside, ns.
    pub start: u64,
    /// Last time inside, ns.
    pub end: u64,
}

impl TimeRange {
    /// Whether `time` is inside.
    pub fn holds(self, time: u64) -> bool {
        self.start <= time && time <= self.end
    }
}

/// Why a `--time` argument cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimeSpecError {
    /// Neither seconds nor a percentage.
    #[error(
        "cannot read {part:?} as a time range: \
         write START,STOP in seconds, 10%/2 (the second tenth) or 0%-10%"
    )]
    Syntax {
        /// The part that is wrong.
        part: String,
    },
    /// The end is before the start.
    #[error("the time range {part:?} ends before it starts")]
    Backwards {
        /// The part that is wrong.
        part: String,
    },
    /// A share needs the times of the first and the last sample.
    #[error("a share of the time needs sample times, but this recording has none")]
    NoTimes,
}

/// Reads a `--time` argument: `START,STOP` in seconds (either may be empty),
/// `N%/I` (the I-th slice of N percent), `A%-B%`, and several of the last two
/// separated by commas. `span` is the time of the first and last sample, ns.
///
/// # Errors
/// If it is none of these, or a share is asked of a recording without times.
pub fn parse_time_ranges(
    text: &str,
    span: Option<(u64, u64)>,
) -> Result<Vec<TimeRange>, TimeSpecError> {
    if text.contains('%') {
        let (first, last) = span.ok_or(TimeSpecError::NoTimes)?;
        return text
            .split(',')
            .filter(|part| !part.trim().is_empty())
            .map(|part| percent_range(part.trim(), first, last))
            .collect();
    }
    text.split_whitespace()
        .map(seconds_range)
        .collect::<Result<Vec<_>, _>>()
        .and_then(|ranges| {
            if ranges.is_empty() {
                Err(syntax(text))
            } else {
                Ok(ranges)
            }
        })
}

fn syntax(part: &str) -> TimeSpecError {
    TimeSpecError::Syntax { part: part.into() }
}

fn seconds_range(part: &str) -> Result<TimeRange, TimeSpecError> {
    let (start, end) = part.split_once(',').unwrap_or((part, ""));
    let start = match start {
        "" => 0,
        text => seconds(text).ok_or_else(|| syntax(part))?,
    };
    let end = match end {
        "" => u64::MAX,
        text => seconds(text).ok_or_else(|| syntax(part))?,
    };
    if end < start {
        return Err(TimeSpecError::Backwards { part: part.into() });
    }
    Ok(TimeRange { start, end })
}

/// Seconds with up to nine decimals, as ns.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1_000_000_000)?.checked_add(nanos)
}

fn percent_range(part: &str, first: u64, last: u64) -> Result<TimeRange, TimeSpecError> {
    let percent = |text: &str| -> Option<f64> {
        let value: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
        (0.0..=100.0).contains(&value).then_some(value / 100.0)
    };
    let (from, to) = if let Some((size, index)) = part.split_once('/') {
        let size = percent(size).ok_or_else(|| syntax(part))?;
        let index: u32 = index.trim().parse().map_err(|_| syntax(part))?;
        if index == 0 || size * f64::from(index - 1) >= 1.0 {
            return Err(syntax(part));
        }
        (size * f64::from(index - 1), size * f64::from(index))
    } else if let Some((from, to)) = part.split_once('-') {
        (
            percent(from).ok_or_else(|| syntax(part))?,
            percent(to).ok_or_else(|| syntax(part))?,
        )
    } else {
        (0.0, percent(part).ok_or_else(|| syntax(part))?)
    };
    if to < from {
        return Err(TimeSpecError::Backwards { part: part.into() });
    }
    let length = last.saturating_sub(first);
    let at = |share: f64| first.saturating_add((share * length as f64).round() as u64);
    // Slices do not overlap: each ends just before the next, but the last
    // one holds the last sample.
    let end = if to >= 1.0 {
        last
    } else {
        at(to).saturating_sub(1)
    };
    Ok(TimeRange {
        start: at(from),
        end,
    })
}

#[cfg(test)]
mod tests {
    use super::{TimeRange, TimeSpecError, parse_time_ranges};

    fn one(text: &str) -> (u64, u64) {
        let ranges = parse_time_ranges(text, Some((1000, 2000))).unwrap();
        assert_eq!(ranges.len(), 1);
        (ranges[0].start, ranges[0].end)
    }

    #[test]
    fn seconds_may_leave_either_end_open() {
        assert_eq!(one("1.5,2"), (1_500_000_000, 2_000_000_000));
        assert_eq!(one(",2"), (0, 2_000_000_000));
        assert_eq!(one("1,"), (1_000_000_000, u64::MAX));
    }

    #[test]
    fn slices_cover_the_span_once() {
        assert_eq!(one("10%/1"), (1000, 1099));
        assert_eq!(one("10%/10"), (1900, 2000));
        assert_eq!(one("0%-50%"), (1000, 1499));
        let halves = parse_time_ranges("50%/1,50%/2", Some((0, 9))).unwrap();
        for time in 0..=9 {
            let holders = halves.iter().filter(|range| range.holds(time)).count();
            assert_eq!(holders, 1, "time {time}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_what_would_work() {
        for text in ["", "x", "1,x", "200%", "10%/0", "10%/12", "a%-b%"] {
            let error = parse_time_ranges(text, Some((0, 10))).unwrap_err();
            assert!(matches!(error, TimeSpecError::Syntax { .. }), "{text}");
        }
        assert!(matches!(
            parse_time_ranges("2,1", None),
            Err(TimeSpecError::Backwards { .. })
        ));
        assert_eq!(parse_time_ranges("10%", None), Err(TimeSpecError::NoTimes));
        let whole = TimeRange { start: 0, end: 1 };
        assert!(whole.holds(1));
    }
}
