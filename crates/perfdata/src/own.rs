//! Sections of prof's own, where every other reader passes over them.
//!
//! They are numbered like feature sections, from
//! [`FeatureBit::FIRST_OWN`](crate::FeatureBit::FIRST_OWN) on, but have no bit
//! in the header: `perf inject` takes each bit that is set for one of perf's.
//!
//! In a file they stand behind the last feature section, where nothing points
//! to (integers in the file's byte order):
//!
//! | offset | size | field                                                    |
//! |-------:|-----:|----------------------------------------------------------|
//! |      0 |      | zeros up to a multiple of 8, counted from the file's start |
//! |      0 |    8 | `prof-own`                                               |
//! |      8 |    8 | bytes of the sections that follow                        |
//! |     16 |    8 | number of a section                                      |
//! |     24 |    8 | its bytes, without the zeros behind it                   |
//! |     32 |    n | the section, padded to 8; then the next one              |
//!
//! In a stream they are records `EVENT_TYPE`, which no perf since 2013 looks
//! into and every perf steps over; a section may be in several of them, in
//! order. Their body:
//!
//! | offset | size | field                                                    |
//! |-------:|-----:|----------------------------------------------------------|
//! |      0 |    8 | `prof-own`                                               |
//! |      8 |    8 | number of the section                                    |
//! |     16 |    8 | bytes of the whole section                               |
//! |     24 |    8 | offset of this part in it                                |
//! |     32 |    n | the part; zeros up to 80 bytes of record and to 8        |

use crate::fields::Fields;
use prof_abi::ByteOrder;

/// What sections of our own begin with.
pub(crate) const MARK: &[u8; 8] = b"prof-own";
/// Bytes of the mark and of the size behind it.
pub(crate) const HEAD: u64 = 16;
/// The least bytes of an `EVENT_TYPE` record: its header, an id and a name of
/// 64 bytes, as perf declares it.
pub(crate) const LEAST_RECORD: usize = 80;

/// A part of a section, from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) number: u32,
    /// Bytes of the whole section.
    pub(crate) whole: u64,
    /// Where in it the part stands.
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Part<'a> {
    /// From the body of an `EVENT_TYPE` record; `None` if it is none of ours.
    pub(crate) fn decode(body: &'a [u8], order: ByteOrder) -> Option<Self> {
        let mut fields = Fields::new(body.strip_prefix(MARK)?, order);
        let number = u32::try_from(fields.u64().ok()?).ok()?;
        let (whole, at) = (fields.u64().ok()?, fields.u64().ok()?);
        let rest = fields.rest();
        let left = usize::try_from(whole.checked_sub(at)?).unwrap_or(usize::MAX);
        let bytes = rest.get(..left).unwrap_or(rest);
        Some(Self {
            number,
            whole,
            at,
            bytes,
        })
    }
}

/// A section whose parts are coming.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    number: u32,
    bytes: Vec<u8>,
}

impl Parts {
    /// Takes the next part; gives the section if it was the last one, and
    /// an error, in words, if a part is missing.
    pub(crate) fn add(&mut self, part: Part<'_>) -> Result<Option<Vec<u8>>, String> {
        if part.at == 0 {
            self.number = part.number;
            self.bytes.clear();
        }
        let there = self.bytes.len() as u64;
        if part.number != self.number || part.at != there {
            let Part { number, at, .. } = part;
            return Err(format!(
                "section {number} goes on at byte {at}, but there are {there} bytes of section {}",
                self.number
            ));
        }
        self.bytes.extend_from_slice(part.bytes);
        let is_whole = self.bytes.len() as u64 == part.whole;
        Ok(is_whole.then(|| std::mem::take(&mut self.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Part, Parts};
    use prof_abi::ByteOrder;

    fn part(at: u64, bytes: &[u8]) -> Part<'_> {
        Part {
            number: 200,
            whole: 5,
            at,
            bytes,
        }
    }

    #[test]
    fn a_part_is_told_by_its_mark_and_ends_where_its_section_does() {
        let mut body = b"prof-own".to_vec();
        for word in [200_u64, 5, 2] {
            body.extend(word.to_le_bytes());
        }
        body.extend(b"abc\0\0");
        let read = Part::decode(&body, ByteOrder::Little);
        assert_eq!(read, Some(part(2, b"abc")));
        assert_eq!(Part::decode(&body[1..], ByteOrder::Little), None);
        assert_eq!(Part::decode(&body[..24], ByteOrder::Little), None);
    }

    #[test]
    fn parts_make_a_section_and_a_gap_is_told() {
        let mut parts = Parts::default();
        assert_eq!(parts.add(part(0, b"ab")), Ok(None));
        assert_eq!(parts.add(part(2, b"cde")), Ok(Some(b"abcde".to_vec())));
        assert_eq!(parts.add(part(0, b"ab")), Ok(None));
        assert_eq!(parts.add(part(0, b"x")), Ok(None), "a new one begins");
        assert!(parts.add(part(3, b"de")).is_err());
    }
}
