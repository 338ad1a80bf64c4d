//! The process as the unwinder sees it: where its code is and what its
//! memory holds.

use prof_profile::{Avma, Bias};
use prof_runtimes::{ErlangMain, LuaJitTrace, LuaJitVm, RuntimeCode};
use std::ops::Range;

/// A handle to a dso of a [`UnwindDsos`](crate::UnwindDsos).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnwindDsoId(pub(crate) u32);

/// What kind of code is at an address of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeAt {
    /// Code of a file whose unwind information is at hand.
    Dso {
        /// The file.
        id: UnwindDsoId,
        /// Live address minus address in the file.
        bias: Bias,
    },
    /// Executable, but without a file: JIT code.
    Anonymous,
    /// Code of a file that could not be read.
    FileMissing,
    /// Nothing executable.
    Nothing,
}

/// How frames of one machine of Erlang are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erlang {
    /// All functions keep a frame pointer.
    pub has_frame_pointers: bool,
    /// The code of schedulers.
    pub main: Option<ErlangMain>,
    /// Code that is returned to without a call before it.
    pub returned_to: Range<u64>,
    /// In that, where a process goes that is done.
    pub exits: Vec<Range<u64>>,
}

/// What the maker of code tells of how it unwinds.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// Unwind information: where it is, and the live address minus that in it.
    Rules(UnwindDsoId, Bias),
    /// It is Erlang's code, whose frames are made so.
    Erlang(&'a Erlang),
}

/// A process at the time of a sample.
pub trait Process {
    /// What is at `pc`.
    fn place(&mut self, pc: Avma) -> CodeAt;

    /// The word of `size` bytes (4 or 8) at a stack or heap address, if it is
    /// known for the time of the sample.
    fn word(&mut self, address: u64, size: u8) -> Option<u64>;

    /// The same, if it was copied then, and is not of a later look.
    fn word_then(&mut self, address: u64, size: u8) -> Option<u64> {
        self.word(address, size)
    }

    /// Reads code that is not in a dso; how many bytes are there.
    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize;

    /// What its maker told of the code at `pc`, which is in no file.
    fn told(&mut self, _pc: Avma) -> Option<Told<'_>> {
        None
    }

    /// Where the function at `pc` is in code that is in no file, if its maker told.
    fn told_function(&mut self, _pc: Avma) -> Option<Range<u64>> {
        None
    }

    /// What the runtime that made the code at `pc` tells of it.
    fn runtime_code(&mut self, _pc: Avma) -> Option<RuntimeCode> {
        None
    }

    /// The compiled code of LuaJIT at `pc`, of the state whose dispatch table is
    /// at `dispatch`.
    fn lua_trace(&mut self, _pc: Avma, _dispatch: u64) -> Option<LuaJitTrace> {
        None
    }

    /// How much the compiled code of that state adds to the stack, as far as it
    /// is known: each amount once.
    fn lua_rooms(&mut self, _dispatch: u64) -> Vec<u64> {
        Vec::new()
    }

    /// Whether `state` is a state (a coroutine) of LuaJIT whose dispatch table is at
    /// `dispatch`.
    fn is_lua_state(&mut self, _state: u64, _dispatch: u64) -> bool {
        false
    }

    /// Whether an interpreter of LuaJIT should be looked for.
    fn wants_lua(&mut self) -> bool {
        false
    }

    /// An interpreter of LuaJIT was found.
    fn found_lua(&mut self, _vm: LuaJitVm) {}
}

/// A piece of stack, copied when the sample was taken.
#[derive(Debug, Clone, Copy)]
pub struct StackDump<'a> {
    /// Address of the first byte: the stack pointer.
    pub start: u64,
    /// The bytes from there upwards.
    pub bytes: &'a [u8],
}

impl StackDump<'_> {
    /// The little-endian word of `size` bytes at `address`, if copied.
    #[inline]
    pub fn word(&self, address: u64, size: u8) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let from = self.bytes.get(at..)?;
        match size {
            8 => from.first_chunk().map(|word| u64::from_le_bytes(*word)),
            4 => from
                .first_chunk()
                .map(|word| u64::from(u32::from_le_bytes(*word))),
            _ => None,
        }
    }

    /// The address behind the last byte.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::StackDump;

    #[test]
    fn a_dump_answers_only_for_what_it_holds() {
        let bytes: Vec<u8> = (0..16).collect();
        let dump = StackDump {
            start: 0x1000,
            bytes: &bytes,
        };
        assert_eq!(dump.word(0x1008, 8), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(dump.word(0x1004, 4), Some(0x0706_0504));
        assert_eq!(dump.word(0x1009, 8), None);
        assert_eq!(dump.word(0xfff, 8), None);
        assert_eq!(dump.word(u64::MAX, 4), None);
        assert_eq!(dump.end(), 0x1010);
    }
}
