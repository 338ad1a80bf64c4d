//! Payloads as text.

use super::eval::{PayloadScope, element_at, field_bytes, pointed, value};
use super::expr::Expr;
use super::payload::{sign_extended, until_nul};
use super::printf::{Amount, Conversion, Internet, Kind, Piece};
use std::io::Write as _;

/// The widest field that is printed, bytes.
const WIDEST: usize = 4096;

/// Appends what `pieces` say about a payload.
pub(super) fn pieces(pieces: &[Piece], scope: PayloadScope<'_>, out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend(text),
            Piece::Value(conversion, argument) => scope.print(conversion, argument, out),
        }
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to memory");
}

impl PayloadScope<'_> {
    fn print(self, conversion: &Conversion, argument: &Expr, out: &mut Vec<u8>) {
        match conversion.kind {
            Kind::Text => {
                let mut text = Vec::new();
                self.text(argument, &mut text);
                self.pad_text(conversion, &text, out);
            }
            Kind::Pointer => match value(argument, self) {
                0 => self.pad_text(conversion, b"(nil)", out),
                value => self.pad_text(conversion, format!("0x{value:x}").as_bytes(), out),
            },
            Kind::Function { with_offset } => self.function(argument, with_offset, out),
            Kind::Hardware(between) => hardware(self.bytes(argument), between, out),
            Kind::Internet(internet) => self.internet(internet, argument, out),
            Kind::Uuid { upper, little } => uuid(self.bytes(argument), upper, little, out),
            Kind::Bytes(between) => {
                let bytes = self.bytes(argument);
                let count = self
                    .amount(conversion.width.as_ref())
                    .unwrap_or(bytes.len());
                hex(bytes.get(..count).unwrap_or(bytes), between, out);
            }
            Kind::Letter => {
                let letter = [value(argument, self) as u8];
                self.pad_text(conversion, &letter, out);
            }
            _ => self.integer(conversion, value(argument, self), out),
        }
    }

    fn amount(self, amount: Option<&Amount>) -> Option<usize> {
        Some(match amount? {
            Amount::Fixed(amount) => *amount,
            Amount::Argument(argument) => (value(argument, self) as u32 as usize).min(WIDEST),
        })
    }

    fn bytes<'a>(&'a self, argument: &Expr) -> &'a [u8] {
        pointed(argument, *self).map_or(&[], |(bytes, _)| bytes)
    }

    fn pad_text(self, conversion: &Conversion, text: &[u8], out: &mut Vec<u8>) {
        let most = self.amount(conversion.precision.as_ref());
        let text = most.and_then(|most| text.get(..most)).unwrap_or(text);
        let width = self.amount(conversion.width.as_ref()).unwrap_or(0);
        let fill = width.saturating_sub(text.len());
        if conversion.left {
            out.extend(text);
            out.resize(out.len() + fill, b' ');
        } else {
            out.resize(out.len() + fill, b' ');
            out.extend(text);
        }
    }

    /// A number as printf(3) has it.
    fn integer(self, conversion: &Conversion, value: u64, out: &mut Vec<u8>) {
        let size = match conversion.size {
            0 => self.around.long_size,
            size => size,
        };
        let signed = sign_extended(value, size.into());
        let unsigned = match size {
            1 => value & 0xff,
            2 => value & 0xffff,
            4 => value & 0xffff_ffff,
            _ => value,
        };
        let (sign, mut digits) = match conversion.kind {
            Kind::Hex => (&b""[..], format!("{unsigned:x}")),
            Kind::UpperHex => (&b""[..], format!("{unsigned:X}")),
            Kind::Octal => (&b""[..], format!("{unsigned:o}")),
            Kind::Unsigned => (&b""[..], unsigned.to_string()),
            _ if signed < 0 => (&b"-"[..], signed.unsigned_abs().to_string()),
            _ => (conversion.sign.as_slice(), signed.to_string()),
        };
        let mut head = sign.to_vec();
        if conversion.prefix && unsigned != 0 {
            head.extend(match conversion.kind {
                Kind::Hex => &b"0x"[..],
                Kind::UpperHex => b"0X",
                Kind::Octal => b"0",
                _ => b"",
            });
        }
        let width = self.amount(conversion.width.as_ref()).unwrap_or(0);
        let least = match self.amount(conversion.precision.as_ref()) {
            Some(least) => least,
            None if conversion.zeros && !conversion.left => width.saturating_sub(head.len()),
            None => 0,
        };
        if digits.len() < least {
            digits.insert_str(0, &"0".repeat(least - digits.len()));
        }
        head.extend(digits.as_bytes());
        let fill = width.saturating_sub(head.len());
        if !conversion.left {
            out.resize(out.len() + fill, b' ');
        }
        out.extend(&head);
        if conversion.left {
            out.resize(out.len() + fill, b' ');
        }
    }

    /// What `%s` prints.
    fn text(self, argument: &Expr, out: &mut Vec<u8>) {
        match argument {
            Expr::Text(text) => out.extend(text),
            Expr::Word(word) => out.extend(word.as_bytes()),
            Expr::Number(number) => put(out, format_args!("{number}")),
            Expr::Field(index) => self.field_text(*index, out),
            Expr::Str(index) | Expr::Array(index) => {
                out.extend(until_nul(field_bytes(*index, self)));
            }
            Expr::Bitmask(index) => self.bitmask(field_bytes(*index, self), out),
            Expr::Flags(inner, delimiter, table) => {
                flags(value(inner, self), delimiter, table, out);
            }
            Expr::Symbolic(inner, table) => {
                let value = value(inner, self);
                match table.iter().find(|(number, _)| *number == value) {
                    Some((_, name)) => out.extend(name),
                    None => put(out, format_args!("0x{value:x}")),
                }
            }
            Expr::Hex(bytes, count, apart) => {
                let bytes = self.bytes(bytes);
                let count = value(count, self) as usize;
                let between = apart.then_some(b' ');
                hex(bytes.get(..count).unwrap_or(bytes), between, out);
            }
            Expr::Numbers(array, count, size) => {
                self.numbers(array, value(count, self), value(size, self), out);
            }
            Expr::Choice(condition, one, other) => {
                let chosen = if value(condition, self) != 0 {
                    one
                } else {
                    other
                };
                self.text(chosen, out);
            }
            Expr::Cast(_, inner) | Expr::Pointer(_, inner) => self.text(inner, out),
            _ => {}
        }
    }

    fn field_text(self, index: usize, out: &mut Vec<u8>) {
        let Some(field) = self.format.fields.get(index) else {
            return;
        };
        if !field.is_array && field.size == usize::from(self.around.long_size) {
            let address = field.value(self.payload, self.around.order);
            match self.around.texts.get(address) {
                Some(text) => out.extend(text),
                None => put(out, format_args!("{address:x}")),
            }
        } else {
            out.extend(until_nul(field_bytes(index, self)));
        }
    }

    fn function(self, argument: &Expr, with_offset: bool, out: &mut Vec<u8>) {
        let address = value(argument, self);
        match (self.around.function)(address) {
            Some((name, start)) => {
                out.extend(name.as_bytes());
                if with_offset {
                    put(out, format_args!("+0x{:x}", address.wrapping_sub(start)));
                }
            }
            None => put(out, format_args!("0x{address:x}")),
        }
    }

    /// Words from the highest down, as the kernel prints CPU masks.
    fn bitmask(self, bytes: &[u8], out: &mut Vec<u8>) {
        let size = usize::from(self.around.long_size).max(1);
        let words = bytes.chunks_exact(size).rev();
        for (index, word) in words.enumerate() {
            let value = element_at(word, 0, size, self.around.order);
            if size == 8 {
                put(
                    out,
                    format_args!("{:08x},{:08x}", value >> 32, value as u32),
                );
            } else {
                put(out, format_args!("{value:08x}"));
            }
            if (index + 1) * size < bytes.len() {
                out.push(b',');
            }
        }
    }

    fn numbers(self, array: &Expr, count: u64, size: u64, out: &mut Vec<u8>) {
        let bytes = self.bytes(array);
        let size = (size as usize).clamp(1, 8);
        out.push(b'{');
        for index in 0..(bytes.len() / size).min(count as usize) {
            if index > 0 {
                out.push(b',');
            }
            let number = element_at(bytes, index * size, size, self.around.order);
            put(out, format_args!("0x{number:x}"));
        }
        out.push(b'}');
    }

    fn internet(self, internet: Internet, argument: &Expr, out: &mut Vec<u8>) {
        let bytes = self.bytes(argument);
        if internet.version != b'S' {
            address(internet, bytes, out);
            return;
        }
        // struct sockaddr: family in host order, port in network order.
        let family = element_at(bytes, 0, 2, self.around.order);
        let port = element_at(bytes, 2, 2, prof_abi::ByteOrder::Big);
        let (version, at) = if family == 2 { (b'4', 4) } else { (b'6', 8) };
        let is_v6 = version == b'6';
        if is_v6 && internet.port {
            out.push(b'[');
        }
        let of_version = Internet {
            version,
            ..internet
        };
        address(of_version, bytes.get(at..).unwrap_or_default(), out);
        if is_v6 && internet.port {
            out.push(b']');
        }
        if internet.port {
            put(out, format_args!(":{port}"));
        }
    }
}

fn flags(mut value: u64, delimiter: &[u8], table: &[(u64, Vec<u8>)], out: &mut Vec<u8>) {
    let start = out.len();
    for (bits, name) in table {
        if value == 0 && *bits == 0 {
            out.extend(name);
            break;
        }
        if *bits != 0 && value & bits == *bits {
            if out.len() > start {
                out.extend(delimiter);
            }
            out.extend(name);
            value &= !bits;
        }
    }
    if value != 0 {
        if out.len() > start {
            out.extend(delimiter);
        }
        put(out, format_args!("0x{value:x}"));
    }
}

fn hex(bytes: &[u8], between: Option<u8>, out: &mut Vec<u8>) {
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.extend(between);
        }
        put(out, format_args!("{byte:02x}"));
    }
}

fn hardware(bytes: &[u8], between: Option<u8>, out: &mut Vec<u8>) {
    match bytes.get(..6) {
        Some(bytes) => hex(bytes, between, out),
        None => out.extend(b"INVALIDMAC"),
    }
}

fn address(internet: Internet, bytes: &[u8], out: &mut Vec<u8>) {
    if internet.version == b'4' {
        match bytes {
            [a, b, c, d, ..] if internet.raw => {
                put(out, format_args!("{a:03}.{b:03}.{c:03}.{d:03}"));
            }
            [a, b, c, d, ..] => put(out, format_args!("{a}.{b}.{c}.{d}")),
            _ => out.extend(b"INVALIDIPv4"),
        }
        return;
    }
    let Some(bytes) = bytes.first_chunk::<16>() else {
        out.extend(b"INVALIDIPv6");
        return;
    };
    if internet.short {
        put(out, format_args!("{}", std::net::Ipv6Addr::from(*bytes)));
        return;
    }
    for (index, pair) in bytes.chunks_exact(2).enumerate() {
        if index > 0 && !internet.raw {
            out.push(b':');
        }
        hex(pair, None, out);
    }
}

fn uuid(bytes: &[u8], upper: bool, little: bool, out: &mut Vec<u8>) {
    /// Where each byte comes from if the first three parts are reversed.
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let Some(bytes) = bytes.first_chunk::<16>() else {
        out.extend(b"INVALIDUUID");
        return;
    };
    let start = out.len();
    for (index, from) in LITTLE.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        let byte = bytes.get(if little { from } else { index });
        put(out, format_args!("{:02x}", byte.copied().unwrap_or(0)));
    }
    if upper && let Some(text) = out.get_mut(start..) {
        text.make_ascii_uppercase();
    }
}
