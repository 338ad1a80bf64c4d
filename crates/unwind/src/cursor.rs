//! A frame while a stack is walked, and its caller as it was found.

use crate::memory::UnwindDsoId;
use crate::registers::Registers;
use prof_profile::{Avma, Bias};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A frame while the stack is walked from callee to caller.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    pub(crate) registers: Registers,
    /// The pc is where it executes, not where a call returns to.
    pub(crate) is_exact: bool,
    pub(crate) switches: u32,
    /// In a Go function that switches stacks: where the function starts that
    /// it called. In code that V8 made and that has no frame yet: the place in
    /// the function that will make it. Else 0.
    pub(crate) called: u64,
    pub(crate) zero: Option<Zero>,
    /// A function on the way here is leaving for a landing pad. At last it
    /// writes the pad's address below the frame that goes on there: over the
    /// return address of the frame that is left.
    pub(crate) is_left: bool,
}

/// A return address of 0, which marks a frame that nothing called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zero {
    /// The address it was read from; `None` if it was in a register.
    pub slot: Option<u64>,
    /// What that address was computed from.
    pub base: Base,
}

impl Cursor {
    /// The frame that was interrupted.
    pub fn innermost(registers: Registers) -> Self {
        Self {
            registers,
            is_exact: true,
            switches: 0,
            called: 0,
            zero: None,
            is_left: false,
        }
    }

    /// Its registers.
    #[inline]
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Gives the frame the frame pointer that its callee had saved, where that could
    /// not be read before.
    pub fn found_fp(&mut self, fp: u64) {
        self.registers.set(self.registers.machine().fp(), fp);
    }

    /// The instruction pointer; in callers, the return address.
    #[inline]
    pub fn pc(&self) -> u64 {
        self.registers.pc()
    }

    /// Whether the pc is that of an interrupted instruction (by a sample or a
    /// signal) and not a return address.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The zero return address that ended the walk, if that is how the last
    /// step found that there is no caller.
    pub fn zero(&self) -> Option<Zero> {
        self.zero
    }

    /// The start of the function that this one called, which switches stacks
    /// for it; `None` if that is not known.
    pub(crate) fn called(&self) -> Option<u64> {
        (self.called != 0).then_some(self.called)
    }

    /// A hash of everything that decides how the walk goes on while memory
    /// stays the same: the pc and the registers that calls preserve.
    pub fn key(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (self.pc(), self.is_exact, self.called).hash(&mut hasher);
        self.registers.hash_preserved(&mut hasher);
        hasher.finish()
    }

    /// The address to look up rules for: of a return address the byte before it.
    #[inline]
    pub fn lookup(&self) -> Avma {
        lookup(self.pc(), self.is_exact)
    }
}

/// The address to look up rules for: for a return address one byte before
/// it, since the call may be the last instruction of its function.
#[inline]
pub(crate) fn lookup(pc: u64, is_exact: bool) -> Avma {
    Avma(pc.wrapping_sub(u64::from(!is_exact)))
}

/// How the walk got from a frame to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The method.
    pub by: StepBy,
    /// What the address of the caller's frame was computed from.
    pub base: Base,
    /// Where the caller's frame pointer was found.
    pub fp: FpFrom,
    /// Where in memory the return address was read; `None` if it was in a
    /// register.
    pub slot: Option<u64>,
}

/// What a frame's size, and so the address of its return address, was computed
/// from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer alone: whenever the pc and stack pointer are the same,
    /// so is the address of the return address.
    Stack,
    /// The frame pointer.
    Frame,
    /// Something else: another register, memory.
    Other,
}

/// Where the caller's frame pointer was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FpFrom {
    /// In its register: the callee did not change it.
    Callee,
    /// At this address, where the callee saved it.
    Memory(u64),
    /// Computed from something else, or lost.
    Other,
}

/// The method by which a caller was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepBy {
    /// Unwind information.
    Rules,
    /// Code of a function that is leaving for a landing pad, which gives the
    /// size of the frame it has already removed; verified to follow a call of
    /// the function.
    Leaving,
    /// The frame pointer or the function's code; verified to follow a call
    /// where the code can be read.
    Frame,
}

/// A frame in the code of a dso.
#[derive(Clone, Copy)]
pub(crate) struct DsoFrame<'a> {
    pub(crate) cursor: &'a Cursor,
    /// The dso, and how far from its own addresses the process has it.
    pub(crate) id: UnwindDsoId,
    pub(crate) bias: Bias,
}

/// The caller of a frame, before it is believed.
pub(crate) struct Caller {
    pub(crate) registers: Registers,
    pub(crate) is_exact: bool,
    pub(crate) by: StepBy,
    pub(crate) base: Base,
    pub(crate) fp: FpFrom,
    pub(crate) slot: Option<u64>,
}

impl Caller {
    pub(crate) fn found(registers: Registers, fp: FpFrom, slot: u64) -> Self {
        Self {
            registers,
            is_exact: false,
            by: StepBy::Frame,
            base: Base::Frame,
            fp,
            slot: Some(slot),
        }
    }
}
