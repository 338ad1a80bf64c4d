//! Counter values of READ records and samples, laid out by `read_format`.

use crate::fields::{Fields, Short};
use prof_abi::{ByteOrder, ReadFormat};

/// Counter values, read in place.
///
/// Without GROUP: value, \[enabled\], \[running\], \[id\], \[lost\]. With
/// GROUP: nr, \[enabled\], \[running\], then nr times value, \[id\], \[lost\].
/// All u64. Source: perf_event_open(2), "Reading results".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadValues<'a> {
    bytes: &'a [u8],
    format: ReadFormat,
    order: ByteOrder,
}

/// One counter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadValue {
    /// What it counted.
    pub value: u64,
    /// Event id.
    pub id: Option<u64>,
    /// Samples of this event that were lost.
    pub lost: Option<u64>,
}

impl<'a> ReadValues<'a> {
    pub(crate) fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        let format = fields.read_format;
        let order = fields.order();
        let optional = |bits: &[ReadFormat]| bits.iter().filter(|&&bit| format.has(bit)).count();
        let times = optional(&[
            ReadFormat::TOTAL_TIME_ENABLED,
            ReadFormat::TOTAL_TIME_RUNNING,
        ]);
        let each = 1 + optional(&[ReadFormat::ID, ReadFormat::LOST]);
        let mut ahead = *fields;
        let words = if format.has(ReadFormat::GROUP) {
            let nr = ahead.u64()?;
            ahead.items(times as u64, 8)?;
            ahead.items(nr, each * 8)?;
            1 + times + nr as usize * each
        } else {
            times + each
        };
        Ok(Self {
            bytes: fields.take(words * 8)?,
            format,
            order,
        })
    }

    /// The values as they stand in the file.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn word(&self, slot: usize) -> Option<u64> {
        self.order.u64(self.bytes, slot * 8)
    }

    /// Time enabled, ns.
    pub fn time_enabled(&self) -> Option<u64> {
        self.format
            .has(ReadFormat::TOTAL_TIME_ENABLED)
            .then_some(())?;
        self.word(1)
    }

    /// Time running, ns; less than enabled if the event shared a counter.
    pub fn time_running(&self) -> Option<u64> {
        self.format
            .has(ReadFormat::TOTAL_TIME_RUNNING)
            .then_some(())?;
        let enabled = self.format.has(ReadFormat::TOTAL_TIME_ENABLED);
        self.word(1 + usize::from(enabled))
    }

    /// The counters: one, or all of a group.
    pub fn values(&self) -> impl Iterator<Item = ReadValue> + 'a {
        let own = *self;
        let has = move |bit| usize::from(own.format.has(bit));
        let times = has(ReadFormat::TOTAL_TIME_ENABLED) + has(ReadFormat::TOTAL_TIME_RUNNING);
        let (id, lost) = (has(ReadFormat::ID), has(ReadFormat::LOST));
        let group = own.format.has(ReadFormat::GROUP);
        let each = 1 + id + lost;
        let count = if group {
            (own.bytes.len() / 8).saturating_sub(1 + times) / each
        } else {
            1
        };
        (0..count).filter_map(move |index| {
            // Alone, the value stands before the times.
            let (value, rest) = if group {
                let first = 1 + times + index * each;
                (first, first + 1)
            } else {
                (0, 1 + times)
            };
            Some(ReadValue {
                value: own.word(value)?,
                id: if id == 1 { own.word(rest) } else { None },
                lost: if lost == 1 { own.word(rest + id) } else { None },
            })
        })
    }
}
