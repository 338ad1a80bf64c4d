//! Fields of a payload.

use super::payload::{number, sign_extended};
use prof_abi::ByteOrder;

/// Where the bytes of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldStorage {
    /// At the field itself.
    Inline,
    /// `__data_loc`: the field holds `length << 16 | offset` from the start
    /// of the payload.
    DataLoc,
    /// `__rel_loc`: the same, offset from the end of the field.
    RelLoc,
}

/// A field of a payload: `field:TYPE NAME; offset:N; size:N; signed:N;`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// C type as written, without name and array brackets.
    pub type_name: String,
    /// Its name.
    pub name: String,
    /// Bytes from the start of the payload.
    pub offset: usize,
    /// Length in bytes; 0 for an array that ends with the payload.
    pub size: usize,
    /// Whether it is a signed number.
    pub is_signed: bool,
    /// Whether it is an array.
    pub is_array: bool,
    /// Where its bytes are.
    pub storage: FieldStorage,
    /// Bytes of one element of an array, else of the field.
    pub element_size: usize,
}

impl Field {
    /// Reads one line of a format file.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let (_, declaration) = parts.next()?.split_once(':')?;
        let (mut offset, mut size, mut signed) = (None, None, None);
        for part in parts {
            match part.split_once(':') {
                Some(("offset", value)) => offset = value.trim().parse().ok(),
                Some(("size", value)) => size = value.trim().parse().ok(),
                Some(("signed", value)) => signed = Some(value.trim() == "1"),
                _ => {}
            }
        }
        let size: usize = size?;
        let (storage, declaration) = storage_of(declaration.trim());
        let (type_name, name, is_array) = split_declaration(declaration)?;
        let is_array = is_array || storage != FieldStorage::Inline;
        let element_size = if is_array {
            element_size(&type_name, declaration, size)
        } else {
            size
        };
        Some(Self {
            type_name,
            name,
            offset: offset?,
            size,
            is_signed: signed.unwrap_or(false),
            is_array,
            storage,
            element_size,
        })
    }

    /// Whether every event has it (`common_pid`).
    pub fn is_common(&self) -> bool {
        self.name.starts_with("common_")
    }

    /// Whether it is an array of characters.
    pub fn is_text(&self) -> bool {
        let is_char = ["char", "u8", "s8"]
            .iter()
            .any(|name| self.type_name.split_whitespace().any(|word| word == *name));
        self.is_array && is_char
    }

    fn is_pointer(&self) -> bool {
        self.type_name.contains('*')
    }

    fn is_long(&self) -> bool {
        self.type_name.split_whitespace().any(|word| word == "long")
    }

    /// Its bytes in `payload`; shorter where the payload ends.
    pub fn bytes<'a>(&self, payload: &'a [u8], order: ByteOrder) -> &'a [u8] {
        let (start, len) = match self.storage {
            FieldStorage::Inline if self.size == 0 => (self.offset, payload.len()),
            FieldStorage::Inline => (self.offset, self.size),
            FieldStorage::DataLoc | FieldStorage::RelLoc => {
                let place = number(payload, self.offset, 4, order) as u32;
                let base = match self.storage {
                    FieldStorage::RelLoc => self.offset.saturating_add(self.size),
                    _ => 0,
                };
                let start = base.saturating_add((place & 0xffff) as usize);
                (start, (place >> 16) as usize)
            }
        };
        let rest = payload.get(start..).unwrap_or_default();
        rest.get(..len).unwrap_or(rest)
    }

    /// Its value as a number, zero-extended; of an array, the word where it
    /// stands.
    pub fn value(&self, payload: &[u8], order: ByteOrder) -> u64 {
        number(payload, self.offset, self.size, order)
    }

    /// Appends its value the way libtraceevent lists fields.
    pub fn print(&self, payload: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
        if self.is_array {
            self.print_array(self.bytes(payload, order), out);
            return;
        }
        let value = self.value(payload, order);
        let signed = sign_extended(value, self.size);
        let text = if self.is_pointer() || (self.is_long() && !(self.is_signed && self.size == 8)) {
            format!("0x{value:x}")
        } else if self.is_signed && self.size == 2 {
            format!("{signed:2}")
        } else if self.is_signed {
            signed.to_string()
        } else {
            value.to_string()
        };
        out.extend(text.as_bytes());
    }

    /// Its value as a reader of the printed payload (`printed`) sees it: what follows
    /// `NAME=` or `NAME: ` there (`prev_state=R+`, `flags: 0x80000,`), else as
    /// [`Field::print`] has it. Strings are those of the payload, as a blank in them does
    /// not end them there.
    pub fn shown(&self, payload: &[u8], order: ByteOrder, printed: Option<&[u8]>) -> Vec<u8> {
        let told = |printed: &[u8]| {
            let mut words = printed.split(|&byte| byte == b' ');
            loop {
                match words.next()?.strip_prefix(self.name.as_bytes()) {
                    // Flags of which none is set are nothing.
                    Some([b'=', told @ ..]) => return Some(told.to_vec()),
                    Some([b':']) => {
                        let told = words.next()?;
                        return Some(told.strip_suffix(b",").unwrap_or(told).to_vec());
                    }
                    _ => {}
                }
            }
        };
        let printed = printed.filter(|_| !self.is_text());
        printed.and_then(told).unwrap_or_else(|| {
            let mut out = Vec::new();
            self.print(payload, order, &mut out);
            out
        })
    }

    fn print_array(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let text = super::payload::until_nul(bytes);
        let printable = |byte: &u8| (0x20..0x7f).contains(byte) || byte.is_ascii_whitespace();
        if self.is_text() && text.iter().all(printable) {
            out.extend(text);
            return;
        }
        out.extend(b"ARRAY[");
        for (index, byte) in bytes.iter().enumerate() {
            if index > 0 {
                out.extend(b", ");
            }
            out.extend(format!("{byte:02x}").as_bytes());
        }
        out.push(b']');
    }
}

fn storage_of(declaration: &str) -> (FieldStorage, &str) {
    if let Some(rest) = declaration.strip_prefix("__data_loc") {
        (FieldStorage::DataLoc, rest.trim())
    } else if let Some(rest) = declaration.strip_prefix("__rel_loc") {
        (FieldStorage::RelLoc, rest.trim())
    } else {
        (FieldStorage::Inline, declaration)
    }
}

/// `char comm[16]`, `char[] name` and `struct a *b` into type, name, array.
fn split_declaration(declaration: &str) -> Option<(String, String, bool)> {
    let is_array = declaration.contains('[');
    let mut plain = String::with_capacity(declaration.len());
    let mut depth = 0_u32;
    for letter in declaration.chars() {
        match letter {
            '[' => depth += 1,
            ']' => {
                depth = depth.saturating_sub(1);
                plain.push(' ');
            }
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let plain = plain.trim();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let name_at = plain
        .rfind(|letter| !is_name(letter))
        .map_or(0, |at| at + 1);
    let (type_name, name) = (plain.get(..name_at)?, plain.get(name_at..)?);
    (!name.is_empty()).then(|| (type_name.trim().to_owned(), name.to_owned(), is_array))
}

/// Size of an element by its type, else by the count in brackets.
fn element_size(type_name: &str, declaration: &str, size: usize) -> usize {
    let known = size_of_type(type_name);
    if let Some(known) = known {
        return known;
    }
    let count = declaration
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .and_then(|(count, _)| count.trim().parse::<usize>().ok());
    match count {
        Some(count) if count > 0 => size / count,
        _ => 1,
    }
}

/// Bytes of a number of this C type; `None` for what is not known.
pub(super) fn size_of_type(type_name: &str) -> Option<usize> {
    let words = || type_name.split_whitespace();
    let has = |word: &str| words().any(|other| other == word);
    if type_name.contains('*') {
        return Some(8);
    }
    let exact = words().find_map(|word| match word.trim_start_matches("__") {
        "u8" | "s8" | "char" | "bool" | "uint8_t" | "int8_t" | "_Bool" => Some(1),
        "u16" | "s16" | "short" | "uint16_t" | "int16_t" => Some(2),
        "u32" | "s32" | "uint32_t" | "int32_t" | "pid_t" | "gfp_t" => Some(4),
        "u64" | "s64" | "uint64_t" | "int64_t" | "size_t" => Some(8),
        _ => None,
    });
    exact.or_else(|| {
        if has("long") {
            Some(8)
        } else if has("int") || has("unsigned") || has("signed") {
            Some(4)
        } else {
            None
        }
    })
}
