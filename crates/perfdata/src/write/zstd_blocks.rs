//! A zstd stream made by hand, of what repeats and what does not.
//!
//! Layout by RFC 8878. A block here has one sequence at most, so that no table
//! of probabilities is needed:
//!
//! ```text
//! stream   magic (4) · descriptor (1) · window (1) · block …
//! block    last, type, size (3) · content
//! content  of type 0: the bytes
//!          of type 2: literals' header (1 to 3) · literals · 1 · modes (1)
//!                     · codes of literals' length, distance, match length (3) · bits
//! ```

/// The frame's first bytes: no size, no checksum, no dictionary.
const MAGIC_AND_DESCRIPTOR: [u8; 5] = [0x28, 0xb5, 0x2f, 0xfd, 0];
/// How far back a match may lie, bytes: 512 KiB.
pub(super) const WINDOW: usize = 1 << WINDOW_LOG;
const WINDOW_LOG: u8 = 19;
/// A block's bits above its size's three: its type.
const STORED: u32 = 0;
const COMPRESSED: u32 = 2;
/// All three codes are given as themselves.
const MODES: u8 = 0b01_01_01_00;
/// The shortest match that the format knows, bytes.
const SHORTEST: usize = 3;
/// Distances below are meant as ones used before.
const DISTANCE_OFFSET: usize = 3;

/// Smallest lengths of literals that codes stand for, from code 16 on, with the
/// number of bits that tell how much longer they are; below that the code is the
/// length.
const LITERALS: [(usize, u32); 20] = [
    (16, 1),
    (18, 1),
    (20, 1),
    (22, 1),
    (24, 2),
    (28, 2),
    (32, 3),
    (40, 3),
    (48, 4),
    (64, 6),
    (128, 7),
    (256, 8),
    (512, 9),
    (1024, 10),
    (2048, 11),
    (4096, 12),
    (8192, 13),
    (16384, 14),
    (32768, 15),
    (65536, 16),
];
const FIRST_LITERALS: usize = 16;

/// The same of matches, from code 32 on; below, the code is the length less
/// [`SHORTEST`].
const MATCHES: [(usize, u32); 21] = [
    (35, 1),
    (37, 1),
    (39, 1),
    (41, 1),
    (43, 2),
    (47, 2),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 5),
    (131, 7),
    (259, 8),
    (515, 9),
    (1027, 10),
    (2051, 11),
    (4099, 12),
    (8195, 13),
    (16387, 14),
    (32771, 15),
    (65539, 16),
];
const FIRST_MATCHES: usize = 32;

/// Begins the stream.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC_AND_DESCRIPTOR);
    out.push((WINDOW_LOG - 10) << 3);
}

/// Appends bytes as they are, fewer than 128 KiB.
pub(super) fn stored(bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        header(STORED, bytes.len(), out);
        out.extend_from_slice(bytes);
    }
}

/// Appends `literals`, and behind them `length` bytes that stand `distance` before;
/// together fewer than 128 KiB.
pub(super) fn repeated(literals: &[u8], (distance, length): (usize, usize), out: &mut Vec<u8>) {
    let at = out.len();
    header(COMPRESSED, 0, out);
    literals_header(literals.len(), out);
    out.extend_from_slice(literals);
    let (literals_code, few) = code(literals.len(), (FIRST_LITERALS, 0), &LITERALS);
    let (match_code, more) = code(length, (FIRST_MATCHES, SHORTEST), &MATCHES);
    let offset = distance + DISTANCE_OFFSET;
    let far = Bits {
        value: (offset ^ (1 << offset.ilog2())) as u64,
        count: offset.ilog2(),
    };
    let codes = [literals_code, far.count as u8, match_code];
    out.extend_from_slice(&[1, MODES]);
    out.extend_from_slice(&codes);
    // Read from the end: a 1, the distance, the match's length, the literals'.
    let end = Bits { value: 1, count: 1 };
    let bits =
        [end, far, more, few]
            .into_iter()
            .fold(Bits { value: 0, count: 0 }, |before, next| Bits {
                value: before.value << next.count | next.value,
                count: before.count + next.count,
            });
    let bytes = bits.count.div_ceil(8) as usize;
    out.extend(bits.value.to_le_bytes().iter().take(bytes));
    let size = out.len() - at - HEADER;
    let mut whole = Vec::with_capacity(HEADER);
    header(COMPRESSED, size, &mut whole);
    if let Some(place) = out.get_mut(at..at + HEADER) {
        place.copy_from_slice(&whole);
    }
}

/// Bytes of a block's header.
const HEADER: usize = 3;

fn header(kind: u32, size: usize, out: &mut Vec<u8>) {
    let header = kind << 1 | (size as u32) << 3;
    out.extend(header.to_le_bytes().iter().take(HEADER));
}

/// Literals that are not packed.
fn literals_header(count: usize, out: &mut Vec<u8>) {
    let count = count as u32;
    let (header, bytes) = match count {
        ..32 => (count << 3, 1),
        32..4096 => (count << 4 | 1 << 2, 2),
        _ => (count << 4 | 3 << 2, 3),
    };
    out.extend(header.to_le_bytes().iter().take(bytes));
}

/// A number and how many bits it has.
#[derive(Debug, Clone, Copy)]
struct Bits {
    value: u64,
    count: u32,
}

/// The code of a length, and what it leaves to be told.
fn code(length: usize, (first, least): (usize, usize), table: &[(usize, u32)]) -> (u8, Bits) {
    let above = table.partition_point(|&(smallest, _)| smallest <= length);
    match above
        .checked_sub(1)
        .and_then(|at| Some((at, table.get(at)?)))
    {
        Some((at, &(smallest, count))) => {
            let value = (length - smallest) as u64;
            ((first + at) as u8, Bits { value, count })
        }
        None => {
            let code = length.saturating_sub(least) as u8;
            (code, Bits { value: 0, count: 0 })
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{begin, repeated, stored};
    use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

    /// What a decoder of zstd makes of a stream without an end.
    pub(in crate::write) fn unpacked(stream: &[u8], room: usize) -> Vec<u8> {
        let mut decoder = Decoder::new().expect("memory");
        let mut bytes = vec![0; room + 1];
        let mut output = OutBuffer::around(&mut bytes[..]);
        let mut input = InBuffer::around(stream);
        while input.pos() < stream.len() {
            let before = input.pos();
            decoder.run(&mut input, &mut output).expect("a stream");
            assert!(input.pos() > before, "too long");
        }
        while decoder.flush(&mut output).expect("a stream") > 0 && output.pos() < room {}
        let length = output.pos();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn a_decoder_finds_literals_and_matches_of_all_lengths() {
        let noise = |count: usize| (0..count).map(|at| ((at * at) >> 3) as u8 ^ at as u8);
        let around = |middle: usize| middle.saturating_sub(1)..middle + 2;
        let lengths = (0..17).map(|bits| 1_usize << bits).flat_map(around);
        let lengths: Vec<usize> = lengths.filter(|&it| it < 61_440).collect();
        let mut expected: Vec<u8> = noise(70_000).collect();
        let mut stream = Vec::new();
        begin(&mut stream);
        stored(&expected, &mut stream);
        stored(&[], &mut stream);
        for &literals in &lengths {
            for &length in lengths.iter().filter(|&&it| it >= 3) {
                let distance = 1 + (literals * 7919 + length) % 60_000;
                let new: Vec<u8> = noise(literals).collect();
                repeated(&new, (distance, length), &mut stream);
                expected.extend_from_slice(&new);
                let from = expected.len() - distance;
                // Also beyond where it began.
                (from..from + length).for_each(|at| expected.push(expected[at]));
            }
        }
        assert!(unpacked(&stream, expected.len()) == expected);
    }

    #[test]
    fn a_match_takes_fewer_bytes_than_four_words() {
        let mut out = Vec::new();
        repeated(&[1; 60], (500_000, 60_000), &mut out);
        let (header, literals) = (3, 2 + 60);
        assert!(out.len() - literals - header < 13, "{}", out.len());
    }
}
