//! The interpreter: its pieces by address.
//!
//! They are made one after another while the virtual machine starts, so that who looks
//! early finds some of them.

use super::tables::Tables;
use crate::memory::{Memory, int, text, word};
use std::ops::Range;

/// Pieces of an interpreter.
const MAX_CODELETS: usize = 4096;
/// Code begins at a multiple of this behind a codelet's header, bytes.
const CODE_ALIGNMENT: u64 = 32;

/// A piece of the interpreter.
#[derive(Debug, Clone)]
pub(super) struct Codelet {
    pub(super) code: Range<u64>,
    /// Methods are entered here, before they have a frame.
    pub(super) is_entry: bool,
}

/// The interpreter, as far as it was made when it was read last.
#[derive(Debug)]
pub(super) struct Interpreter {
    codelets: Vec<Codelet>,
    /// The room for them.
    buffer: Range<u64>,
    /// The address of how many bytes of it are used, and how many that were.
    used_at: u64,
    used: u32,
    /// Where the next one begins.
    next: u64,
    /// Of a codelet: the length of its head, and offsets of its size and name, bytes.
    header: u64,
    size: u64,
    description: u64,
}

impl Interpreter {
    pub(super) fn of(tables: &Tables, memory: &mut impl Memory) -> Option<Self> {
        let field = |name: &str| tables.field(name);
        let queue = word(memory, field("AbstractInterpreter::_code")?)?;
        let place = |name: &str| queue.checked_add(field(name)?);
        let first = int(memory, place("StubQueue::_queue_begin")?)?;
        let limit = int(memory, place("StubQueue::_buffer_limit")?)?;
        let buffer = word(memory, place("StubQueue::_stub_buffer")?)?;
        let mut interpreter = Self {
            codelets: Vec::new(),
            buffer: buffer..buffer.checked_add(limit.into())?,
            used_at: place("StubQueue::_queue_end")?,
            used: 0,
            next: buffer.checked_add(first.into())?,
            header: tables.size("InterpreterCodelet")?,
            size: field("InterpreterCodelet::_size")?,
            description: field("InterpreterCodelet::_description")?,
        };
        interpreter.read_on(memory)?;
        Some(interpreter)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.codelets.is_empty()
    }

    /// The piece at an address. What was made since the last look is read if it is
    /// there.
    pub(super) fn codelet(&mut self, pc: u64, memory: &mut impl Memory) -> Option<Codelet> {
        if !self.buffer.contains(&pc) {
            return None;
        }
        if pc >= self.next {
            self.read_on(memory);
        }
        let behind = self.codelets.partition_point(|it| it.code.start <= pc);
        let codelet = self.codelets.get(behind.checked_sub(1)?)?;
        codelet.code.contains(&pc).then(|| codelet.clone())
    }

    /// Reads the pieces that were not read yet.
    fn read_on(&mut self, memory: &mut impl Memory) -> Option<()> {
        let used = int(memory, self.used_at)?;
        if used == self.used {
            return Some(());
        }
        self.used = used;
        let end = self.buffer.start.checked_add(used.into())?;
        while self.next < end && self.codelets.len() < MAX_CODELETS {
            let at = self.next;
            let size = int(memory, at.checked_add(self.size)?)?;
            let name = word(memory, at.checked_add(self.description)?)?;
            let is_entry = text(memory, name)?.starts_with("method entry point");
            let code = at.checked_add(self.header)?;
            let next = at.checked_add(size.into()).filter(|next| *next > code)?;
            self.codelets.push(Codelet {
                code: code.checked_next_multiple_of(CODE_ALIGNMENT)?..next,
                is_entry,
            });
            self.next = next;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::Interpreter;
    use crate::memory::tests::Image;

    /// Two codelets at 0x1000, of 0x80 bytes each: what stands in front of each is its
    /// size and the address of its name.
    fn image(used: u8) -> Image {
        let codelet = |at: u64, name: u64| {
            let head = [0x80_u64, name];
            let bytes = head.iter().flat_map(|word| word.to_le_bytes()).collect();
            (at, bytes)
        };
        Image(vec![
            (0x500, vec![used, 0, 0, 0]),
            codelet(0x1000, 0x600),
            codelet(0x1080, 0x680),
            (0x600, [&b"return entry points"[..], &[0; 64]].concat()),
            (
                0x680,
                [&b"method entry point (kind = zerolocals)"[..], &[0; 64]].concat(),
            ),
        ])
    }

    #[test]
    fn pieces_that_are_made_later_are_found_then() {
        let mut interpreter = Interpreter {
            codelets: Vec::new(),
            buffer: 0x1000..0x2000,
            used_at: 0x500,
            used: 0,
            next: 0x1000,
            header: 16,
            size: 0,
            description: 8,
        };
        let mut early = image(0x80);
        interpreter.read_on(&mut early).expect("the first");
        let found = interpreter.codelet(0x1030, &mut early).expect("the first");
        assert_eq!((found.code, found.is_entry), (0x1020..0x1080, false));
        assert!(interpreter.codelet(0x10b0, &mut early).is_none());
        let found = interpreter.codelet(0x10b0, &mut image(0xff)).map(|_| ());
        assert_eq!(found, Some(()), "as far as it can be read");
        let found = interpreter.codelet(0x10b0, &mut early).expect("the second");
        assert_eq!((found.code, found.is_entry), (0x10a0..0x1100, true));
        // Elsewhere nothing is read.
        assert!(
            interpreter
                .codelet(0x3000, &mut Image(Vec::new()))
                .is_none()
        );
    }
}
