//! Columns of a group of rows, as Parquet encodes them: numbers as they are,
//! words by their number in a dictionary, stacks by what they do not share with
//! the one before.
//!
//! Source: `Encodings.md` of apache/parquet-format.

use super::thrift::Compact;
use rustc_hash::FxHashMap;

/// How values of a page are written; the numbers are the format's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// One after the other, texts behind their lengths.
    Plain = 0,
    /// Texts less what they share with the one before.
    DeltaByteArray = 7,
    /// Numbers of texts in a page before.
    RleDictionary = 8,
}

/// The values of a column.
#[derive(Debug)]
pub(super) enum Column {
    /// Little-endian bytes.
    Numbers(Vec<u8>),
    /// Texts of which there are few.
    Words(Words),
    /// Texts that begin as the one before.
    Paths(Paths),
}

impl Column {
    /// Adds a number, if it has such.
    pub(super) fn number(&mut self, bytes: &[u8]) {
        if let Self::Numbers(numbers) = self {
            numbers.extend_from_slice(bytes);
        }
    }

    /// Adds a word, if it has such; see [`Words::add`].
    pub(super) fn word<T: AsRef<str>>(&mut self, key: u32, text: impl FnOnce() -> T) {
        if let Self::Words(words) = self {
            words.add(key, text);
        }
    }

    /// The values as a page, and how they are encoded.
    pub(super) fn page(self) -> (Vec<u8>, Encoding) {
        match self {
            Self::Numbers(bytes) => (bytes, Encoding::Plain),
            Self::Words(words) => (words.page(), Encoding::RleDictionary),
            Self::Paths(paths) => (paths.page(), Encoding::DeltaByteArray),
        }
    }

    /// The page that stands before it, and how many texts that has.
    pub(super) fn dictionary(&self) -> Option<(&[u8], usize)> {
        match self {
            Self::Words(words) => Some((&words.texts, words.numbers.len())),
            Self::Numbers(_) | Self::Paths(_) => None,
        }
    }
}

/// Texts of which there are few, each once.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// As the plain encoding has them.
    texts: Vec<u8>,
    numbers: FxHashMap<String, u32>,
    /// By the key that the text was given under.
    by_key: FxHashMap<u32, u32>,
    /// Of the rows.
    rows: Vec<u32>,
}

impl Words {
    /// Adds a row with the text of this key; `text` is asked for new ones.
    fn add<T: AsRef<str>>(&mut self, key: u32, text: impl FnOnce() -> T) {
        let (numbers, texts) = (&mut self.numbers, &mut self.texts);
        let number = *self.by_key.entry(key).or_insert_with(|| {
            let text = text();
            let text = text.as_ref();
            let next = numbers.len() as u32;
            *numbers.entry(text.to_owned()).or_insert_with(|| {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                texts.extend(length.to_le_bytes());
                texts.extend(text.bytes().take(length as usize));
                next
            })
        });
        self.rows.push(number);
    }

    /// The width of numbers in bits, then a run of them: one number and how
    /// often, or all of them packed.
    fn page(&self) -> Vec<u8> {
        let largest = self.numbers.len().saturating_sub(1) as u32;
        let width = width_of(largest).max(1);
        let mut out = Compact::default();
        out.bytes.push(width as u8);
        if largest == 0 {
            out.varint((self.rows.len() as u64) << 1);
            out.bytes.push(0);
        } else {
            out.varint((self.rows.len().div_ceil(8) as u64) << 1 | 1);
            pack(&self.rows, (width, 8), &mut out.bytes);
        }
        out.bytes
    }
}

/// Texts that begin as the one before, most of them.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// By row: bytes shared with the one before.
    shared: Vec<u32>,
    /// By row: bytes of its own.
    own: Vec<u32>,
    bytes: Vec<u8>,
}

impl Paths {
    /// Adds a row of this one's first `shared` bytes, and then what `fill` adds.
    pub(super) fn add(&mut self, shared: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        fill(&mut self.bytes);
        self.shared.push(shared);
        self.own.push((self.bytes.len() - before) as u32);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    fn page(&self) -> Vec<u8> {
        let mut out = Compact::default();
        deltas(&self.shared, &mut out);
        deltas(&self.own, &mut out);
        out.bytes.extend_from_slice(&self.bytes);
        out.bytes
    }
}

/// Differences in a block, ...
const BLOCK: usize = 128;
/// ... and in the parts of it that have a width of their own.
const PART: usize = 32;

/// Numbers as differences from one to the next (`DELTA_BINARY_PACKED`): the
/// size of a block, its parts, how many numbers, the first of them; then by
/// block its least difference, the widths of its parts, and how much more than
/// the least each difference is.
fn deltas(numbers: &[u32], out: &mut Compact) {
    out.varint(BLOCK as u64);
    out.varint((BLOCK / PART) as u64);
    out.varint(numbers.len() as u64);
    out.zigzag(numbers.first().map_or(0, |&first| first.into()));
    let pairs = numbers.iter().zip(numbers.iter().skip(1));
    let differences: Vec<i64> = pairs
        .map(|(&one, &next)| i64::from(next) - i64::from(one))
        .collect();
    for block in differences.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        out.zigzag(least);
        let more: Vec<u32> = block.iter().map(|&it| (it - least) as u32).collect();
        let widths = out.bytes.len();
        out.bytes.resize(widths + BLOCK / PART, 0);
        for (number, part) in more.chunks(PART).enumerate() {
            let width = width_of(part.iter().copied().max().unwrap_or(0));
            if let Some(place) = out.bytes.get_mut(widths + number) {
                *place = width as u8;
            }
            pack(part, (width, PART), &mut out.bytes);
        }
    }
}

/// Bits of a number without the zeros in front.
fn width_of(number: u32) -> u32 {
    u32::BITS - number.leading_zeros()
}

/// Adds numbers of so many bits, the lowest first, and zeros up to a multiple
/// of so many numbers.
fn pack(numbers: &[u32], (width, multiple): (u32, usize), out: &mut Vec<u8>) {
    let zeros = numbers.len().next_multiple_of(multiple) - numbers.len();
    let (mut waiting, mut bits) = (0_u64, 0);
    for &number in numbers.iter().chain(std::iter::repeat_n(&0, zeros)) {
        waiting |= u64::from(number) << bits;
        bits += width;
        while bits >= 8 {
            out.push(waiting as u8);
            waiting >>= 8;
            bits -= 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::thrift::Compact;
    use super::{Column, Encoding, Paths, Words, deltas};

    #[test]
    fn differences_are_packed_as_the_format_shows() {
        // The first example of Encodings.md: all differences are 1.
        let mut out = Compact::default();
        deltas(&[1, 2, 3, 4, 5], &mut out);
        assert_eq!(out.bytes, b"\x80\x01\x04\x05\x02\x02\0\0\0\0");
        // The second one: -2, -2, -2, 1, 2, 3 and the least of them.
        let mut out = Compact::default();
        deltas(&[7, 5, 3, 1, 2, 3, 4, 5], &mut out);
        let head = b"\x80\x01\x04\x08\x0e\x03\x02\0\0\0";
        assert_eq!(out.bytes.get(..10), Some(&head[..]));
        assert_eq!(out.bytes.get(10..12), Some(&[0b1100_0000, 0b0011_1111][..]));
        assert_eq!(out.bytes.len(), 10 + 32 * 2 / 8);
    }

    #[test]
    fn differences_of_any_size_have_room() {
        let mut out = Compact::default();
        deltas(&[0, u32::MAX, 0, 1 << 31], &mut out);
        let width = out.bytes.get(9..13);
        // From -(2^32 - 1) to 2^32 - 1 would be 33 bits; lengths are below 2^31.
        assert!(width.is_some());
    }

    #[test]
    fn words_are_there_once_and_rows_name_them() {
        let mut words = Words::default();
        words.add(7, || "ab");
        assert_eq!(words.page(), [1, 1 << 1, 0]);
        words.add(8, || "c");
        words.add(7, || -> &str { unreachable!("known") });
        // Another key of a text that is there.
        words.add(9, || "c");
        let column = Column::Words(words);
        let expected: &[u8] = b"\x02\0\0\0ab\x01\0\0\0c";
        assert_eq!(column.dictionary(), Some((expected, 2)));
        // Four rows, packed as eight: 0, 1, 0, 1.
        let (page, encoding) = column.page();
        assert_eq!(
            (page, encoding),
            (vec![1, 1 << 1 | 1, 0b1010], Encoding::RleDictionary)
        );
    }

    #[test]
    fn paths_say_what_they_share() {
        let mut paths = Paths::default();
        assert!(paths.is_empty());
        paths.add(0, |out| out.extend(b"main;work"));
        paths.add(4, |out| out.extend(b";idle"));
        let (page, encoding) = Column::Paths(paths).page();
        assert_eq!(encoding, Encoding::DeltaByteArray);
        let shared: &[u8] = b"\x80\x01\x04\x02\x00\x08\0\0\0\0";
        let own: &[u8] = b"\x80\x01\x04\x02\x12\x07\0\0\0\0";
        assert_eq!(page, [shared, own, b"main;work;idle"].concat());
    }
}
