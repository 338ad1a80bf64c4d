//! Values by address: pairs of differences, each a variable-length number.
//!
//! A value holds up to an address: `value += zigzag(first)` and
//! `address += second * quantum`, until a first of 0 ends the list. The value
//! begins as -1, and the first pair's difference may be 0.
//!
//! Source: `runtime.pcvalue` and `runtime.step`.

use crate::Loaded;

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

impl Kind {
    /// The offset of the list; 0 if there is none.
    pub(crate) fn offset(self) -> u32 {
        let (Self::Frame(offset) | Self::File(offset) | Self::Line(offset) | Self::Inlined(offset)) =
            self;
        offset
    }
}

/// A list of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    /// Where it is.
    pub(crate) place: u64,
    /// The address that its values begin at: the function's first.
    pub(crate) start: u64,
    /// What differences of addresses are multiples of, bytes.
    pub(crate) quantum: u8,
}

/// The value of a list that holds at an address.
pub(crate) fn value_at(file: &impl Loaded, list: List, at: u64) -> Option<i32> {
    let mut numbers = Numbers::new(file, list.place);
    let (mut value, mut address) = (-1_i32, list.start);
    for pair in 0..MOST_PAIRS {
        let first = numbers.next()?;
        if first == 0 && pair > 0 {
            return None;
        }
        let difference = (first >> 1) as i32 ^ -((first & 1) as i32);
        value = value.wrapping_add(difference);
        let length = u64::from(numbers.next()?) * u64::from(list.quantum);
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
