//! Profiles of other tools with wounds in what they say: pprof's messages with
//! their lengths repaired, values in the Firefox Profiler's JSON, words in
//! lines of text; packed again behind that.

use super::wounds::{NAMES, NUMBERS, one_of};
use crate::mutation::{Random, mutate};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write;

/// Entries that a list may be given more.
const MORE: usize = 3000;
/// Bytes of what is put into a list once more, at most.
const MOST_BYTES: usize = 16 << 20;

/// A profile taken apart.
#[derive(Clone)]
pub(super) enum Profile {
    Pprof(Message),
    Json(Value),
    Text(String),
}

impl Profile {
    /// From what `prof export` or `prof script` wrote, unpacked.
    pub(super) fn of(bytes: &[u8]) -> Self {
        if let Ok(value) = serde_json::from_slice(bytes) {
            return Self::Json(value);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text.to_owned()),
            _ => Self::Pprof(message(bytes, &[])),
        }
    }

    /// One to four wounds; the bytes, and how many they are unpacked.
    pub(super) fn wounded(mut self, random: &mut Random) -> (Vec<u8>, u64) {
        for _ in 0..=random.below(4) {
            match &mut self {
                Self::Pprof(message) => wound_message(message, random),
                Self::Json(value) => wound_value(value, random),
                Self::Text(text) => wound_text(text, random),
            }
        }
        let mut bytes = match self {
            Self::Pprof(message) => encoded(&message),
            Self::Json(value) => value.to_string().into_bytes(),
            Self::Text(text) => text.into_bytes(),
        };
        if random.below(8) == 0 {
            bytes = mutate(&bytes, random);
        }
        let plain = bytes.len() as u64;
        let bytes = match random.below(12) {
            0..=3 => gzipped(&bytes),
            4 => gzipped(&gzipped(&bytes)),
            5 => mutate(&gzipped(&bytes), random),
            _ => bytes,
        };
        (bytes, plain)
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

/// Fields of a message of pprof, with their numbers.
type Message = Vec<(u64, Field)>;

#[derive(Clone)]
pub(super) enum Field {
    Number(u64),
    Packed(Vec<u64>),
    Bytes(Vec<u8>),
    Message(Message),
}

/// What a field is that has a length, by the numbers that lead to it. Source:
/// proto/profile.proto of google/pprof.
fn field(path: &[u64], bytes: &[u8]) -> Field {
    match path {
        [1..=5 | 11] | [2, 3] | [4, 4] => Field::Message(message(bytes, path)),
        [2, 1 | 2] => {
            let mut rest = bytes;
            let mut numbers = Vec::new();
            while !rest.is_empty() {
                numbers.push(varint(&mut rest));
            }
            Field::Packed(numbers)
        }
        _ => Field::Bytes(bytes.to_vec()),
    }
}

/// Takes a message of ours apart, which is whole.
fn message(bytes: &[u8], path: &[u64]) -> Message {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        let value = varint(&mut rest);
        let path = [path, &[tag >> 3]].concat();
        let value = match tag & 7 {
            0 => Field::Number(value),
            2 => {
                let (inner, behind) = rest.split_at(value as usize);
                rest = behind;
                field(&path, inner)
            }
            wire => panic!("wire type {wire}"),
        };
        fields.push((tag >> 3, value));
    }
    fields
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let (byte, behind) = rest.split_first().expect("a whole number");
        *rest = behind;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, value) in message {
        let bytes = match value {
            Field::Number(value) => {
                put_varint(&mut out, number << 3);
                put_varint(&mut out, *value);
                continue;
            }
            Field::Packed(numbers) => {
                let mut packed = Vec::new();
                numbers.iter().for_each(|it| put_varint(&mut packed, *it));
                packed
            }
            Field::Bytes(bytes) => bytes.clone(),
            Field::Message(inner) => encoded(inner),
        };
        put_varint(&mut out, number << 3 | 2);
        put_varint(&mut out, bytes.len() as u64);
        out.extend(bytes);
    }
    out
}

/// A number that is telling, small, or any.
fn telling(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.next(),
        1 => random.below(300) as u64,
        _ => NUMBERS[random.below(NUMBERS.len())],
    }
}

/// A name that does more than name, or is longer than any.
fn name(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 => "w\u{6f22}/;".repeat(1 << random.below(14)).into_bytes(),
        _ => NAMES[random.below(NAMES.len())].repeat(1 + random.below(3)),
    }
}

/// One wound to a field of a message, or of one in it.
fn wound_message(message: &mut Message, random: &mut Random) {
    let at = random.below(message.len());
    let Some((number, value)) = message.get_mut(at) else {
        return;
    };
    if let Field::Message(inner) = value
        && random.below(4) != 0
    {
        return wound_message(inner, random);
    }
    match random.below(6) {
        0 => *number = random.below(16) as u64,
        1 => _ = message.remove(at),
        2 => {
            let most = if random.below(8) == 0 { MORE } else { 3 };
            let copies = 1 + random.below(most);
            let again = vec![message[at].clone(); copies];
            message.splice(at..at, again);
        }
        3 => {
            let other = random.below(message.len());
            message.swap(at, other);
        }
        _ => wound_field(value, random),
    }
}

fn wound_field(value: &mut Field, random: &mut Random) {
    match value {
        Field::Number(number) => *number = telling(random),
        Field::Packed(numbers) => wound_numbers(numbers, random),
        Field::Bytes(bytes) => *bytes = name(random),
        Field::Message(_) => *value = Field::Number(telling(random)),
    }
}

fn wound_numbers(numbers: &mut Vec<u64>, random: &mut Random) {
    let at = random.below(numbers.len());
    match random.below(4) {
        0 => numbers.truncate(at),
        1 => {
            let more = one_of(numbers, random).unwrap_or_else(|| telling(random));
            numbers.extend(vec![more; random.below(MORE)]);
        }
        _ => {
            if let Some(number) = numbers.get_mut(at) {
                *number = telling(random);
            }
        }
    }
}

/// One wound to a value, or to one in it.
fn wound_value(value: &mut Value, random: &mut Random) {
    let goes_deeper = random.below(6) != 0;
    match value {
        Value::Array(list) if goes_deeper && !list.is_empty() => {
            let at = random.below(list.len());
            return wound_value(&mut list[at], random);
        }
        Value::Object(fields) if goes_deeper && !fields.is_empty() => {
            let at = random.below(fields.len());
            let field = fields.values_mut().nth(at);
            return wound_value(field.expect("a field"), random);
        }
        Value::Array(list) => return wound_list(list, random),
        Value::Object(fields) if random.below(2) == 0 => {
            let name = fields.keys().nth(random.below(fields.len())).cloned();
            name.and_then(|name| fields.remove(&name));
            return;
        }
        _ => {}
    }
    *value = match random.below(8) {
        0 => Value::Null,
        1 => Value::String(String::from_utf8_lossy(&name(random)).into_owned()),
        2 => serde_json::json!([[telling(random)], {}]),
        3 => serde_json::json!([0.5, -1.0, 1e300, -1e-300, 9007199254740993.0][random.below(5)]),
        _ => telling(random).into(),
    };
}

/// A table that is shorter or longer than those beside it, or in another order.
fn wound_list(list: &mut Vec<Value>, random: &mut Random) {
    let at = random.below(list.len());
    match random.below(4) {
        0 => list.truncate(at),
        1 => list.rotate_left(at),
        2 => {
            let deep = (0..200).fold(Value::Null, |inner, _| vec![inner].into());
            list.insert(at, deep);
        }
        _ => {
            let more = one_of(list, random).unwrap_or_else(|| telling(random).into());
            // It may be a list of as many itself.
            let most = MOST_BYTES / more.to_string().len().max(1);
            list.splice(at..at, vec![more; random.below(MORE).min(most)]);
        }
    }
}

/// One wound to a line.
fn wound_text(text: &mut String, random: &mut Random) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = random.below(lines.len());
    let other = random.below(lines.len());
    let Some(line) = lines.get_mut(at) else {
        return;
    };
    match random.below(8) {
        0 => _ = lines.remove(at),
        1 => lines.swap(at, other),
        2 => {
            let again = vec![line.clone(); 1 + random.below(MORE)];
            lines.splice(at..at, again);
        }
        3 => *line = line.repeat(1 + random.below(MORE) / 4),
        4 | 5 => put_number(line, random),
        _ => {
            let ends: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
            let at = one_of(&ends, random).unwrap_or(0);
            line.insert_str(at, &String::from_utf8_lossy(&name(random)));
        }
    }
    *text = lines.join("\n");
    text.push('\n');
}

/// Another number in place of one in the line.
fn put_number(line: &mut String, random: &mut Random) {
    let is_digit = |at: usize| line.as_bytes()[at].is_ascii_digit();
    let starts = (0..line.len()).filter(|&at| is_digit(at) && (at == 0 || !is_digit(at - 1)));
    let Some(start) = one_of(&starts.collect::<Vec<_>>(), random) else {
        return;
    };
    let digits = line[start..].bytes().take_while(u8::is_ascii_digit).count();
    let new = match random.below(3) {
        0 => format!("{0}{0}", telling(random)),
        1 => format!("-{}.{}", telling(random), telling(random)),
        _ => telling(random).to_string(),
    };
    line.replace_range(start..start + digits, &new);
}
