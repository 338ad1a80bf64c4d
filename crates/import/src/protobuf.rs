//! Reading protocol buffers in place.

use crate::ImportError;

/// Fields of a message, as they come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'b> {
    rest: &'b [u8],
    /// Where `rest` ends in the file.
    end: usize,
}

/// What a field holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'b> {
    /// Also of fields of four and eight bytes.
    Number(u64),
    /// Text, bytes, a message, packed numbers.
    Bytes(Fields<'b>),
}

impl<'b> Fields<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self {
            rest: bytes,
            end: bytes.len(),
        }
    }

    fn damaged(&self, what: &'static str) -> ImportError {
        ImportError::Damaged {
            format: "pprof profile",
            what,
            offset: self.end.saturating_sub(self.rest.len()),
        }
    }

    /// The bytes as they are.
    pub(crate) fn bytes(&self) -> &'b [u8] {
        self.rest
    }

    fn take(&mut self, count: u64) -> Result<Self, ImportError> {
        let at = usize::try_from(count)
            .ok()
            .filter(|&at| at <= self.rest.len());
        let at = at.ok_or_else(|| self.damaged("a field ends behind its message"))?;
        let end = self.end - (self.rest.len() - at);
        let (taken, rest) = self.rest.split_at(at);
        self.rest = rest;
        Ok(Self { rest: taken, end })
    }

    pub(crate) fn varint(&mut self) -> Result<u64, ImportError> {
        let mut value = 0;
        for (place, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * place).min(63);
            if byte & 0x80 == 0 {
                self.rest = self.rest.get(place + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(self.damaged("a number does not end"))
    }

    fn fixed(&mut self, bytes: u64) -> Result<Value<'b>, ImportError> {
        let taken = self.take(bytes)?.rest.iter().rev();
        Ok(Value::Number(
            taken.fold(0, |all, &byte| all << 8 | u64::from(byte)),
        ))
    }

    /// The next field: its number, and what it holds.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Value<'b>)>, ImportError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.fixed(8)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.fixed(4)?,
            _ => return Err(self.damaged("a field of no known kind")),
        };
        Ok(Some((key >> 3, value)))
    }
}

impl Value<'_> {
    /// The number; 0 of what is none.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => 0,
        }
    }

    /// Adds the numbers of a repeated field, packed or not.
    pub(crate) fn numbers(self, to: &mut Vec<u64>) -> Result<(), ImportError> {
        match self {
            Self::Number(number) => to.push(number),
            Self::Bytes(mut packed) => {
                while !packed.bytes().is_empty() {
                    to.push(packed.varint()?);
                }
            }
        }
        Ok(())
    }
}
