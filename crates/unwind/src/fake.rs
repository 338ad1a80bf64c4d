//! A process for unit tests: one stretch of anonymous code and one stack.

use crate::{CodeAt, Process};
use prof_profile::Avma;

/// The first address of the code.
pub(crate) const CODE: u64 = 0x7000_0000;
/// How many bytes from there are code, whether or not they can be read.
const CODE_LEN: u64 = 0x1000;
/// The lowest address of the stack.
pub(crate) const STACK: u64 = 0x1000;

/// A process of code at [`CODE`] and of a stack at [`STACK`].
#[derive(Default)]
pub(crate) struct FakeProcess {
    words: Vec<u64>,
    code: Vec<u8>,
}

impl FakeProcess {
    /// One with these words on its stack, whose code cannot be read.
    pub(crate) fn unreadable(words: Vec<u64>) -> Self {
        Self {
            words,
            ..Self::default()
        }
    }

    /// One with these words on its stack, whose code is `nop` but for these bytes,
    /// each with how far behind [`CODE`] they are.
    pub(crate) fn with_code(words: Vec<u64>, code: &[(usize, &[u8])]) -> Self {
        let mut bytes = vec![0x90; CODE_LEN as usize];
        for (offset, there) in code {
            bytes[*offset..*offset + there.len()].copy_from_slice(there);
        }
        Self { words, code: bytes }
    }

    /// One without a stack, whose code is these bytes and no more.
    pub(crate) fn of_code(code: Vec<u8>) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }
}

impl Process for FakeProcess {
    fn place(&mut self, pc: Avma) -> CodeAt {
        match (CODE..CODE + CODE_LEN).contains(&pc.0) {
            true => CodeAt::Anonymous,
            false => CodeAt::Nothing,
        }
    }

    fn word(&mut self, address: u64, size: u8) -> Option<u64> {
        let index = address.checked_sub(STACK)? / u64::from(size);
        self.words.get(index as usize).copied()
    }

    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
        let from = at.0.checked_sub(CODE).map(|from| from as usize);
        let there = from.and_then(|from| self.code.get(from..));
        let there = there.unwrap_or_default();
        let len = there.len().min(out.len());
        out[..len].copy_from_slice(&there[..len]);
        len
    }
}
