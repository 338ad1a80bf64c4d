//! Counter values, as read(2) of an event and READ records lay them out.

use prof_abi::{ByteOrder, ReadFormat};

/// One counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Events, unscaled.
    pub value: u64,
    /// The event's id, if asked for.
    pub id: Option<u64>,
    /// Samples of this event that found no room, if asked for.
    pub lost: Option<u64>,
}

/// What a read of an event or of a group gives:
///
/// | format | u64 words |
/// |---|---|
/// | alone | value, \[enabled\], \[running\], \[id\], \[lost\] |
/// | GROUP | nr, \[enabled\], \[running\], nr × (value, \[id\], \[lost\]) |
///
/// Source: perf_event_open(2), "Reading results".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// ns for which the event was enabled.
    pub enabled: Option<u64>,
    /// ns for which it was on the hardware; 0 means not counted.
    pub running: Option<u64>,
    /// The event's value, or one per member, leader first.
    pub values: Vec<Count>,
}

impl Counts {
    /// Decodes the bytes of a read; `None` if they are too few, as after a
    /// read of a pinned event that lost its place.
    pub fn decode(bytes: &[u8], format: ReadFormat) -> Option<Self> {
        let mut words = Words { bytes, at: 0 };
        if !format.has(ReadFormat::GROUP) {
            let value = words.next()?;
            return Some(Self {
                enabled: words.next_if(format.has(ReadFormat::TOTAL_TIME_ENABLED))?,
                running: words.next_if(format.has(ReadFormat::TOTAL_TIME_RUNNING))?,
                values: vec![Count {
                    value,
                    id: words.next_if(format.has(ReadFormat::ID))?,
                    lost: words.next_if(format.has(ReadFormat::LOST))?,
                }],
            });
        }
        let members = words.next()?;
        let enabled = words.next_if(format.has(ReadFormat::TOTAL_TIME_ENABLED))?;
        let running = words.next_if(format.has(ReadFormat::TOTAL_TIME_RUNNING))?;
        let mut values = Vec::new();
        for _ in 0..members {
            values.push(Count {
                value: words.next()?,
                id: words.next_if(format.has(ReadFormat::ID))?,
                lost: words.next_if(format.has(ReadFormat::LOST))?,
            });
        }
        Some(Self {
            enabled,
            running,
            values,
        })
    }
}

impl Counts {
    /// The first event's value as if it had been on the hardware all the time;
    /// `None` if it never was, or the format has no times.
    pub fn scaled(&self) -> Option<u64> {
        scaled(self.values.first()?.value, self.enabled?, self.running?)
    }
}

/// A count as if its event had been on the hardware all the time that it was
/// enabled: value × enabled / running, to the nearest whole one; `None` if it
/// never was on. Times in ns. Source: perf_event_open(2), "Reading results".
pub fn scaled(value: u64, enabled: u64, running: u64) -> Option<u64> {
    if running == 0 {
        return None;
    }
    if enabled <= running {
        return Some(value);
    }
    let (enabled, running) = (u128::from(enabled), u128::from(running));
    // At most 2^128 - 1 - 2^65 + 2^63, so nothing overflows.
    let scaled = (u128::from(value) * enabled + running / 2) / running;
    Some(u64::try_from(scaled).unwrap_or(u64::MAX))
}

struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        let word = ByteOrder::NATIVE.u64(self.bytes, self.at)?;
        self.at += 8;
        Some(word)
    }

    /// A word that is there only if `present`; the outer `None` means missing.
    fn next_if(&mut self, present: bool) -> Option<Option<u64>> {
        if present {
            self.next().map(Some)
        } else {
            Some(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, scaled};
    use prof_abi::ReadFormat;

    #[test]
    fn scaling_is_that_of_the_manual_and_never_overflows() {
        // covers unit: RF-02, RF-09, RDP-04, BUG-15
        // The header's form, exact where nothing is rounded.
        let quotients = |count: u64, enabled: u64, running: u64| {
            let (quotient, rest) = (count / running, count % running);
            quotient * enabled + rest * enabled / running
        };
        for count in [0, 1, 999, 1_000_000, 123_456_789] {
            for (enabled, running) in [(2, 1), (4000, 1000), (3_000_000, 1_999_999)] {
                let exact = scaled(count, enabled, running).expect("it ran");
                let header = quotients(count, enabled, running);
                assert!(exact >= header && exact - header <= 1, "{exact} {header}");
            }
        }
        assert_eq!(scaled(7, 10, 0), None, "not counted, which is not 0");
        assert_eq!(scaled(7, 10, 10), Some(7));
        assert_eq!(scaled(7, 9, 10), Some(7), "never down");
        assert_eq!(scaled(u64::MAX, u64::MAX, 1), Some(u64::MAX));
    }

    #[test]
    fn all_32_formats_have_the_length_that_the_manual_gives() {
        // covers unit: RF-01, RF-02, RF-03, RF-04, RF-05, RF-06
        for bits in 0..32 {
            let format = ReadFormat(bits);
            let per_value = 1 + (bits >> 2 & 1) + (bits >> 4 & 1);
            let times = (bits & 1) + (bits >> 1 & 1);
            let (members, words) = if format.has(ReadFormat::GROUP) {
                (3, 1 + times + 3 * per_value)
            } else {
                (1, times + per_value)
            };
            let mut bytes: Vec<u8> = (0..words).flat_map(|_| 3_u64.to_ne_bytes()).collect();
            let counts = Counts::decode(&bytes, format).expect("whole");
            assert_eq!(counts.values.len(), members, "format {bits}");
            bytes.pop();
            assert_eq!(Counts::decode(&bytes, format), None, "format {bits}");
        }
    }

    #[test]
    fn a_pinned_event_that_lost_its_place_reads_as_nothing() {
        // covers unit: RF-08
        // read(2) gives 0 bytes then.
        for bits in 0..32 {
            assert_eq!(Counts::decode(&[], ReadFormat(bits)), None);
        }
    }

    #[test]
    fn a_huge_member_count_costs_nothing() {
        let bytes = u64::MAX.to_ne_bytes();
        assert_eq!(Counts::decode(&bytes, ReadFormat::GROUP), None);
    }
}
