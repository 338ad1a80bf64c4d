//! A cursor over bytes that hands out integers and never reads past its end.

use prof_abi::{ByteOrder, Misc, ReadFormat};

/// The bytes ran out: what was asked for and what was left, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Bytes that the next field needs.
    pub needs: u64,
    /// Bytes that are there.
    pub left: u64,
}

/// A part of a sample that did not fit into its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its {field} needs {} bytes, but {} are left", short.needs, short.left)]
pub struct BodyError {
    /// The field, as in the format's description.
    pub field: &'static str,
    /// The two numbers that disagree.
    pub short: Short,
}

/// Reads fields one after the other in the byte order of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
    /// `misc` of the record; some layouts depend on it.
    pub(crate) misc: Misc,
    /// `read_format` of the record's event; the layout of READ values.
    pub(crate) read_format: ReadFormat,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self {
            bytes,
            order,
            misc: Misc(0),
            read_format: ReadFormat(0),
        }
    }

    pub(crate) fn order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes not yet read.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Short> {
        match self.bytes.split_at_checked(len) {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(head)
            }
            None => Err(Short {
                needs: len as u64,
                left: self.bytes.len() as u64,
            }),
        }
    }

    /// `count` items of `width` bytes; the product is checked against what is
    /// left before it is formed.
    #[inline]
    pub(crate) fn items(&mut self, count: u64, width: usize) -> Result<&'a [u8], Short> {
        if width != 0 && count > (self.bytes.len() / width) as u64 {
            return Err(Short {
                needs: count.saturating_mul(width as u64),
                left: self.bytes.len() as u64,
            });
        }
        self.take(count as usize * width)
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let short = Short {
            needs: N as u64,
            left: self.bytes.len() as u64,
        };
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(short)?;
        self.bytes = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        self.array::<1>().map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Short> {
        let raw = self.array()?;
        Ok(match self.order {
            ByteOrder::Little => u16::from_le_bytes(raw),
            ByteOrder::Big => u16::from_be_bytes(raw),
        })
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        let raw = self.array()?;
        Ok(match self.order {
            ByteOrder::Little => u32::from_le_bytes(raw),
            ByteOrder::Big => u32::from_be_bytes(raw),
        })
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        let raw = self.array()?;
        Ok(match self.order {
            ByteOrder::Little => u64::from_le_bytes(raw),
            ByteOrder::Big => u64::from_be_bytes(raw),
        })
    }

    /// A string of the feature sections: u32 length, then that many bytes
    /// with a NUL and padding inside. Returned without them.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Short> {
        let len = self.u32()?;
        Ok(until_nul(self.items(len.into(), 1)?))
    }

    /// A NUL-terminated string; without the NUL. All that is left if there
    /// is no NUL.
    pub(crate) fn terminated(&mut self) -> &'a [u8] {
        let text = until_nul(self.bytes);
        self.bytes = self.bytes.get(text.len() + 1..).unwrap_or_default();
        text
    }
}

/// `bytes` up to the first NUL, or all of them.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes)
}

/// Writes fields in the byte order of a file: the other direction of
/// `Fields`.
#[derive(Debug)]
pub struct Encoder {
    out: Vec<u8>,
    /// Where the record or section begins: what padding counts from.
    start: usize,
    order: ByteOrder,
}

impl Encoder {
    /// An encoder without bytes.
    pub fn new(order: ByteOrder) -> Self {
        Self::behind(Vec::new(), 0, order)
    }

    /// An encoder that appends to `out`, in which the record begins at `start`.
    pub(crate) fn behind(out: Vec<u8>, start: usize, order: ByteOrder) -> Self {
        Self { out, start, order }
    }

    /// The order integers are written in.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.out.extend(self.order.bytes_u16(value));
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.out.extend(self.order.bytes_u32(value));
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.out.extend(self.order.bytes_u64(value));
    }

    /// Appends zeros up to the next multiple of 8.
    pub(crate) fn pad8(&mut self) {
        let len = (self.out.len() - self.start).next_multiple_of(8);
        self.out.resize(self.start + len, 0);
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}
