//! Changes to what a recording says, its frame repaired.

use super::container::{Container, word};
use crate::mutation::Random;
use std::ops::Range;

/// Numbers that mean something to a reader: ends of ranges, markers of call
/// chains, error values.
pub(super) const NUMBERS: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    0x7f,
    0xff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    1 << 61,
    1 << 63,
    u64::MAX - 7,
    u64::MAX,
    -128_i64 as u64,
    -512_i64 as u64,
    -640_i64 as u64,
    0xffff_ffff_8100_0000,
];
/// Names that views must not print as they are.
pub(super) const NAMES: [&[u8]; 6] = [
    b"\x1b]0;title\x07\x1b[31m",
    b"=cmd|' /C calc'!A0",
    b"<script>alert(1)</script>",
    "\u{202e}\u{9b}31m".as_bytes(),
    b"../../../etc/passwd",
    b"a;b c;;\n\r\t",
];
/// Where an attr has fields that change the layout of records, or what is made
/// of them.
const ATTR_FIELDS: [usize; 14] = [0, 4, 8, 16, 24, 24, 24, 32, 40, 40, 72, 80, 88, 96];

/// One to three wounds.
pub(super) fn wounded(mut container: Container, random: &mut Random) -> Vec<u8> {
    const WOUNDS: [fn(&mut Container, &mut Random); 14] = [
        attr_bit,
        attr_number,
        id,
        record_number,
        record_number,
        record_size,
        record_place,
        record_kind,
        name,
        long_name,
        section,
        sample_head,
        sample_head,
        own_section,
    ];
    for _ in 0..=random.below(3) {
        WOUNDS[random.below(WOUNDS.len())](&mut container, random);
    }
    if random.below(5) == 0 {
        pack(&mut container, random);
    }
    container.bytes
}

/// Compresses a row of the kernel's records.
fn pack(container: &mut Container, random: &mut Random) {
    const COMPRESSED: u32 = 81;
    const FIRST_OF_PERF: u32 = 64;
    let records = container.records();
    let first = random.below(records.len());
    let row = records.iter().skip(first);
    let row = row.take_while(|(_, kind)| *kind < FIRST_OF_PERF);
    let row: Vec<_> = row.take(1 + random.below(500)).collect();
    let (Some((first, _)), Some((last, _))) = (row.first(), row.last()) else {
        return;
    };
    let place = first.start..last.end;
    let mut packed = zstd::bulk::compress(&container.bytes[place.clone()], 1).expect("memory");
    packed.resize(packed.len().next_multiple_of(8), 0);
    let Ok(size) = u16::try_from(8 + packed.len()) else {
        return;
    };
    let mut record = COMPRESSED.to_le_bytes().to_vec();
    record.extend([0, size].map(u16::to_le_bytes).concat());
    record.extend(packed);
    container.splice(place, &record);
}

pub(super) fn one_of<T: Clone>(list: &[T], random: &mut Random) -> Option<T> {
    (!list.is_empty()).then(|| list[random.below(list.len())].clone())
}

fn number(random: &mut Random) -> [u8; 8] {
    match random.below(3) {
        0 => random.next(),
        1 => random.below(300) as u64,
        _ => NUMBERS[random.below(NUMBERS.len())],
    }
    .to_le_bytes()
}

/// Another field in samples, another flag.
fn attr_bit(container: &mut Container, random: &mut Random) {
    let Some(attr) = one_of(&container.attrs(), random) else {
        return;
    };
    let at = attr.start + ATTR_FIELDS[random.below(ATTR_FIELDS.len())];
    let bit = 1 << random.below(40);
    let changed = word(&container.bytes, at).unwrap_or(0) ^ bit;
    container.put(at, &changed.to_le_bytes());
}

fn attr_number(container: &mut Container, random: &mut Random) {
    let Some(attr) = one_of(&container.attrs(), random) else {
        return;
    };
    let at = attr.start + ATTR_FIELDS[random.below(ATTR_FIELDS.len())];
    let width = [4, 8][random.below(2)];
    container.put(at, &number(random)[..width]);
}

/// An id of an event: in front of the attrs in a file, behind one in a stream.
fn id(container: &mut Container, random: &mut Random) {
    let Some(attr) = one_of(&container.attrs(), random) else {
        return;
    };
    let ids = attr.end.saturating_sub(16);
    let at = match random.below(2) {
        0 => word(&container.bytes, ids).unwrap_or(0) as usize,
        _ => attr.end.saturating_sub(8),
    };
    container.put(at, &number(random));
}

/// A number of what every sample begins with (ids, threads, times, addresses,
/// periods), or that of another one: whole in itself, at odds with the others.
fn sample_head(container: &mut Container, random: &mut Random) {
    const SAMPLE: u32 = 9;
    const WORDS: usize = 10;
    let samples = container.records().into_iter();
    let samples = samples.filter(|(_, kind)| *kind == SAMPLE);
    let samples: Vec<_> = samples.map(|(place, _)| place).collect();
    let (Some(to), Some(from)) = (one_of(&samples, random), one_of(&samples, random)) else {
        return;
    };
    let offset = 8 + 8 * random.below(WORDS.min((to.len() - 8) / 8));
    let other = word(&container.bytes, from.start + offset).unwrap_or(0);
    let new = match random.below(3) {
        0 => number(random),
        1 => other.to_le_bytes(),
        _ => (other ^ (1 << random.below(64))).to_le_bytes(),
    };
    let room = to.len().saturating_sub(offset).min(8);
    container.put(to.start + offset, &new[..room]);
}

fn record_number(container: &mut Container, random: &mut Random) {
    let Some((place, _)) = one_of(&container.records(), random) else {
        return;
    };
    let words = (place.len() - 8) / 4;
    let at = place.start + 8 + 4 * random.below(words);
    let width = [2, 4, 8][random.below(3)].min(place.end - at);
    container.put(at, &number(random)[..width]);
}

/// A record with more or less in it, its size as it then is.
fn record_size(container: &mut Container, random: &mut Random) {
    let Some((place, _)) = one_of(&container.records(), random) else {
        return;
    };
    let at = place.start + 8 + 8 * random.below((place.len() - 8) / 8 + 1);
    let at = at.min(place.end);
    let removed = (8 * random.below(5)).min(place.end - at);
    let added = match random.below(8) {
        0 => 8 * random.below(4000),
        _ => 8 * random.below(9),
    };
    let size = place.len() - removed + added;
    let Ok(size) = u16::try_from(size) else {
        return;
    };
    let filler = number(random);
    let new: Vec<u8> = filler.iter().copied().cycle().take(added).collect();
    container.splice(at..at + removed, &new);
    container.put(place.start + 6, &size.to_le_bytes());
}

/// A record twice, nowhere, or somewhere else.
fn record_place(container: &mut Container, random: &mut Random) {
    let records = container.records();
    let (Some((from, _)), Some((to, _))) = (one_of(&records, random), one_of(&records, random))
    else {
        return;
    };
    let record = container.bytes[from.clone()].to_vec();
    match random.below(3) {
        0 => container.splice(from, &[]),
        1 => container.splice(to.start..to.start, &record.repeat(1 + random.below(20))),
        _ => {
            let other = container.bytes[to.clone()].to_vec();
            let (first, second) = if from.start < to.start {
                ((from, other), (to, record))
            } else {
                ((to, record), (from, other))
            };
            if first.0 != second.0 {
                container.splice(second.0, &second.1);
                container.splice(first.0, &first.1);
            }
        }
    }
}

fn record_kind(container: &mut Container, random: &mut Random) {
    const KINDS: [u32; 3] = [0, 64, 32768];
    let Some((place, _)) = one_of(&container.records(), random) else {
        return;
    };
    match random.below(2) {
        0 => {
            let kind = KINDS[random.below(KINDS.len())] + random.below(24) as u32;
            container.put(place.start, &kind.to_le_bytes());
        }
        _ => {
            let misc = (random.next() & 0xf00f) as u16;
            container.put(place.start + 4, &misc.to_le_bytes());
        }
    }
}

/// A record that has a name, and where that begins.
fn named(container: &Container, random: &mut Random) -> Option<(Range<usize>, usize)> {
    const NAMED: [(u32, usize); 4] = [(1, 40), (3, 16), (10, 72), (17, 24)];
    let records = container.records();
    let named = records.into_iter().filter_map(|(place, kind)| {
        let (_, at) = NAMED.iter().find(|(named, _)| *named == kind)?;
        let at = place.start + at;
        (at < place.end).then_some((place, at))
    });
    one_of(&named.collect::<Vec<_>>(), random)
}

/// A name as wide as no column: each row of a table may show it.
fn long_name(container: &mut Container, random: &mut Random) {
    const LETTERS: [&str; 4] = ["w", "\u{6f22}", "e\u{301}", "/"];
    const LENGTHS: [usize; 4] = [80, 1000, 8000, 60_000];
    let Some((place, at)) = named(container, random) else {
        return;
    };
    let letters = LETTERS[random.below(LETTERS.len())];
    let mut longer = letters.repeat(LENGTHS[random.below(LENGTHS.len())] / letters.len());
    while !longer.len().is_multiple_of(8) {
        longer.push('x');
    }
    let Ok(size) = u16::try_from(place.len() + longer.len()) else {
        return;
    };
    container.splice(at..at, longer.as_bytes());
    container.put(place.start + 6, &size.to_le_bytes());
}

/// A name that does more than name, at the end of a record that has one.
fn name(container: &mut Container, random: &mut Random) {
    let Some((record, at)) = named(container, random) else {
        return;
    };
    let place = at..record.end;
    let name = NAMES[random.below(NAMES.len())].repeat(1 + random.below(3));
    let room = place.len().saturating_sub(1);
    container.put(place.start, &name[..name.len().min(room)]);
}

/// A feature section with another number, letter, or length.
fn section(container: &mut Container, random: &mut Random) {
    let Some((entry, place)) = one_of(&container.features(), random) else {
        return;
    };
    let mut section = container.bytes[place].to_vec();
    wound_bytes(&mut section, random);
    container.replace_section(entry, &section);
}

/// A section of our own; the names of one are unpacked for that.
fn own_section(container: &mut Container, random: &mut Random) {
    const NAMES_MARK: &[u8] = b"PROFSYM1";
    let mut sections = container.own_sections();
    let at = random.below(sections.len());
    let Some((number, section)) = sections.get_mut(at) else {
        return;
    };
    let packed = section.strip_prefix(NAMES_MARK).and_then(|it| it.get(8..));
    match packed.and_then(|packed| zstd::stream::decode_all(packed).ok()) {
        Some(mut names) if random.below(8) != 0 => {
            for _ in 0..=random.below(3) {
                wound_bytes(&mut names, random);
            }
            let packed = zstd::bulk::compress(&names, 1).expect("memory");
            *section = [NAMES_MARK, &(names.len() as u64).to_le_bytes(), &packed].concat();
        }
        _ if random.below(8) == 0 => *number = 200 + random.below(8) as u64,
        _ => wound_bytes(section, random),
    }
    container.replace_own(&sections);
}

/// Another number, letter, or length.
fn wound_bytes(section: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(section.len());
    match random.below(4) {
        0 => section.truncate(at),
        1 => section.extend(number(random)),
        2 => {
            for (byte, new) in section.iter_mut().skip(at / 4 * 4).zip(number(random)) {
                *byte = new;
            }
        }
        _ => {
            if let Some(byte) = section.get_mut(at) {
                *byte = match *byte {
                    b'0'..=b'9' => b'0' + random.below(10) as u8,
                    other => other ^ (1 << random.below(8)),
                };
            }
        }
    }
}
