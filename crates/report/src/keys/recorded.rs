//! What the records of samples tell beside the usual, as cells show it.

use super::SortKey;
use super::origin::{letter_of_mode, push_address};
use crate::model::{Identity, Row};
use prof_profile::{Detail, LocationId, Profile};
use std::fmt::Write;

/// What the record of a row's first sample tells, with what cells need to
/// know of the row.
pub(super) struct Recorded<'a> {
    pub(super) profile: &'a Profile,
    pub(super) detail: &'a Detail,
    /// The key of the column.
    pub(super) key: SortKey,
    /// Samples of the row.
    samples: u64,
    /// Letter of the mode its code ran in.
    pub(super) level: char,
    /// The place its first sample was taken at.
    pub(super) leaf: Option<LocationId>,
    /// Whether source files are told with their paths.
    pub(super) full_paths: bool,
}

impl<'a> Recorded<'a> {
    pub(super) fn of(
        profile: &'a Profile,
        key: SortKey,
        row: &Row,
        full_paths: bool,
    ) -> Option<Self> {
        let detail = profile.samples.detail(row.first as usize)?;
        let first = profile.samples.get(row.first as usize);
        let leaf = first.and_then(|first| profile.stacks.get(first.stack));
        Some(Self {
            profile,
            detail,
            key,
            samples: row.own.samples,
            level: letter_of_mode(detail.mode),
            leaf: leaf.map(|(_, leaf)| leaf),
            full_paths,
        })
    }

    /// A number of each sample, of all samples of the row.
    pub(super) fn times(&self, number: u64) -> u64 {
        number.saturating_mul(self.samples)
    }

    /// Writes an address with the letter of the mode.
    pub(super) fn write_address(&self, address: u64, out: &mut String) {
        let _ = write!(out, "[{}] ", self.level);
        push_address(address, out);
    }
}

/// What is told apart by one number.
pub(super) fn one(number: u64) -> Identity {
    [number, 0, 0]
}

/// What perf writes where something is not told.
pub(super) fn or_not_told(text: Option<&str>) -> &str {
    text.unwrap_or("N/A")
}

pub(super) fn number(number: u64, out: &mut String) {
    let _ = write!(out, "{number}");
}

/// As perf names a size: divided by 1024 as long as more than 1 is left.
pub(super) fn page_size(bytes: u64, out: &mut String) {
    if bytes == 0 {
        return out.push_str("N/A");
    }
    let mut left = bytes;
    let mut units = ['B', 'K', 'M', 'G'].into_iter();
    let mut unit = units.next();
    while left / 1024 > 1 {
        let Some(next) = units.next() else {
            break;
        };
        left /= 1024;
        unit = Some(next);
    }
    let _ = write!(out, "{left}{}", unit.unwrap_or('B'));
}

#[cfg(test)]
mod tests {
    use super::page_size;

    #[test]
    fn sizes_are_written_as_perf_does() {
        let text = |bytes| {
            let mut out = String::new();
            page_size(bytes, &mut out);
            out
        };
        let sizes = [0, 4096, 1 << 21, 1 << 30].map(text);
        assert_eq!(sizes, ["N/A", "4K", "2M", "1024M"]);
    }
}
