//! Values by address: pairs of differences, each a variable-length number.
//!
//! A value holds up to an address: `value += zigzag(first)` and
//! `address += second * quantum`, until a first of 0 ends the list. The value
//! begins as -1, and the first pair's difference may be 0.
//!
//! Source: `runtime.pcvalue` and `runtime.step`.

use crate::{Loaded, Table};

/// More pairs than the longest function has.
const MOST_PAIRS: usize = 1 << 18;

/// What a list says of addresses, and its offset among the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes between the stack pointer and where it was on entry.
    Frame(u32),
    /// Which file of the compilation unit.
    File(u32),
    /// The source line.
    Line(u32),
    /// Which inlined call, or -1.
    Inlined(u32),
}

/// The value that holds at an address of the function that begins at `start`.
pub(crate) fn value_at(
    table: &Table,
    file: &impl Loaded,
    kind: Kind,
    start: u64,
    at: u64,
) -> Option<i32> {
    let (Kind::Frame(offset) | Kind::File(offset) | Kind::Line(offset) | Kind::Inlined(offset)) =
        kind;
    if offset == 0 {
        return None;
    }
    let mut numbers = Numbers::new(file, table.values.checked_add(offset.into())?);
    let (mut value, mut address) = (-1_i32, start);
    for pair in 0..MOST_PAIRS {
        let first = numbers.next()?;
        if first == 0 && pair > 0 {
            return None;
        }
        let difference = (first >> 1) as i32 ^ -((first & 1) as i32);
        value = value.wrapping_add(difference);
        let length = u64::from(numbers.next()?) * u64::from(table.quantum);
        address = address.checked_add(length)?;
        if at < address {
            return Some(value);
        }
    }
    None
}

/// Variable-length numbers: seven bits a byte, the lowest first; the highest
/// bit says that another byte follows.
struct Numbers<'a, F> {
    file: &'a F,
    next: u64,
    piece: [u8; 64],
    len: usize,
    used: usize,
}

impl<'a, F: Loaded> Numbers<'a, F> {
    fn new(file: &'a F, at: u64) -> Self {
        Self {
            file,
            next: at,
            piece: [0; 64],
            len: 0,
            used: 0,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.used == self.len {
            self.len = self.file.read(self.next, &mut self.piece);
            self.next = self.next.checked_add(self.len as u64)?;
            self.used = 0;
        }
        let byte = *self.piece.get(..self.len)?.get(self.used)?;
        self.used += 1;
        Some(byte)
    }

    fn next(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
