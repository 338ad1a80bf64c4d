//! Writing protocol buffers.
//!
//! Both formats that are made of them (pprof, OTLP) are written while the
//! profile is gone through, a repeated field at a time, which generated
//! structs do not allow: those hold the whole message, a second copy of the
//! profile. What is left of the encoding is this file.
//!
//! Source: the "Encoding" page of the protocol buffers' documentation.

/// A message under construction.
#[derive(Debug, Default)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
}

/// How a field's value is laid out, the low three bits of its key.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Length = 2,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: Wire) {
        self.varint(u64::from(field) << 3 | wire as u64);
    }

    /// A number of any integer type but the signed ones of zigzag encoding;
    /// 0 is what a missing field means.
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, Wire::Varint);
            self.varint(value);
        }
    }

    /// A number of an optional field, or of a oneof, where 0 is not missing.
    pub(crate) fn present(&mut self, field: u32, value: u64) {
        self.key(field, Wire::Varint);
        self.varint(value);
    }

    /// A number of eight bytes.
    pub(crate) fn fixed(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.key(field, Wire::Fixed64);
            self.bytes.extend(value.to_le_bytes());
        }
    }

    /// Text, bytes or a message; also an empty one.
    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, Wire::Length);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// The beginning of a field whose `length` bytes are written elsewhere.
    pub(crate) fn length(&mut self, field: u32, length: u64) {
        self.key(field, Wire::Length);
        self.varint(length);
    }

    /// A message in this one.
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.key(field, Wire::Length);
        self.within(fill);
    }

    /// Numbers of a repeated field, packed.
    pub(crate) fn packed(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        self.filled(field, |it| values.for_each(|value| it.varint(value)));
    }

    /// Numbers of eight bytes of a repeated field, packed.
    pub(crate) fn packed_fixed(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        self.filled(field, |it| {
            values.for_each(|value| it.bytes.extend(value.to_le_bytes()));
        });
    }

    /// A field of what `fill` adds; none if that is nothing.
    fn filled(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.key(field, Wire::Length);
        if self.within(fill) == 0 {
            self.bytes.truncate(start);
        }
    }

    /// What `fill` adds, behind its length; how long that is. Room for a length
    /// of one byte is left, which most have: longer ones are moved.
    fn within(&mut self, fill: impl FnOnce(&mut Self)) -> usize {
        let start = self.bytes.len();
        self.bytes.push(0);
        fill(self);
        let length = self.bytes.len() - start - 1;
        let end = self.bytes.len();
        let more = varint_size(length as u64) - 1;
        if more > 0 {
            self.bytes.resize(end + more, 0);
            self.bytes.copy_within(start + 1..end, start + 1 + more);
        }
        let mut rest = length;
        for byte in self.bytes.iter_mut().skip(start).take(more + 1) {
            *byte = rest as u8 | 0x80;
            rest >>= 7;
        }
        if let Some(last) = self.bytes.get_mut(start + more) {
            *last &= 0x7f;
        }
        length
    }
}

/// How many bytes a number takes.
pub(crate) fn varint_size(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// A weight as the formats have it: they count in `i64`.
pub(crate) fn signed(value: u64) -> u64 {
    value.min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::{Message, varint_size};

    #[test]
    fn fields_are_laid_out_as_the_documentation_shows() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.packed(6, [3, 270, 86942].into_iter());
        message.number(7, 0);
        let expected = b"\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.bytes, expected);
        let mut message = Message::default();
        message.message(3, |inner| inner.fixed(1, 2));
        assert_eq!(message.bytes, b"\x1a\x09\x09\x02\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_message_of_any_length_stands_behind_it() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let text = vec![b'x'; length];
            let mut plain = Message::default();
            plain.bytes(1, &text);
            let mut expected = Message::default();
            expected.bytes(2, &plain.bytes);
            expected.number(3, 7);
            let mut message = Message::default();
            message.message(2, |it| it.bytes(1, &text));
            message.packed(5, std::iter::empty());
            message.number(3, 7);
            assert_eq!(message.bytes, expected.bytes, "{length}");
        }
        for value in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            let mut message = Message::default();
            message.varint(value);
            assert_eq!(message.bytes.len(), varint_size(value), "{value}");
        }
    }
}
