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
    use super::Counts;
    use prof_abi::ReadFormat;

    #[test]
    fn all_32_formats_have_the_length_that_the_manual_gives() {
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
    fn a_huge_member_count_costs_nothing() {
        let bytes = u64::MAX.to_ne_bytes();
        assert_eq!(Counts::decode(&bytes, ReadFormat::GROUP), None);
    }
}
