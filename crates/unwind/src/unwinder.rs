//! What an unwinder knows of code, whatever stack it unwinds.

use crate::call::CallBefore;
use crate::dso::UnwindDsos;
use crate::memory::{CodeAt, Process, UnwindDsoId};
use crate::registers::Machine;
use prof_profile::{Avma, Svma};

/// A function, identified by its file and its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FunctionAt {
    /// The file.
    pub dso: UnwindDsoId,
    /// Its first address.
    pub start: Svma,
    /// The address that was asked for.
    pub at: Svma,
}

/// Unwinds stacks of any number of processes that share dsos.
///
/// ```
/// use prof_unwind::{Machine, UnwindDsoId, CodeAt, Process, Registers, Unwinder};
/// use prof_profile::{Avma, ChainEnd};
///
/// /// JIT code that keeps frame pointers: one frame and its caller.
/// struct Jit;
/// impl Process for Jit {
///     fn place(&mut self, _: Avma) -> CodeAt { CodeAt::Anonymous }
///     fn word(&mut self, address: u64, _: u8) -> Option<u64> {
///         // Behind the second frame nothing is known.
///         match address { 0x7000 => Some(0x7100), 0x7008 => Some(0x1234), _ => None }
///     }
///     fn code(&mut self, _: Avma, _: &mut [u8]) -> usize { 0 }
/// }
///
/// let mut registers = Registers::new(Machine::X86_64, 0x1000, 0x6ff0);
/// registers.set(6, 0x7000); // rbp
/// let mut chain = Vec::new();
/// let end = Unwinder::default().unwind(registers, &mut Jit, 100, &mut chain);
/// assert_eq!((chain.as_slice(), end), (&[0x1000, 0x1234][..], ChainEnd::StackCut));
/// ```
#[derive(Debug, Default)]
pub struct Unwinder {
    /// The files with unwind information.
    pub dsos: UnwindDsos,
}

impl Unwinder {
    /// The call instruction before the return address `pc`; `None` if the code
    /// cannot be read.
    pub fn call_before(
        &self,
        machine: Machine,
        pc: u64,
        process: &mut impl Process,
    ) -> Option<CallBefore> {
        let mut code = [0; crate::call::MAX_CALL];
        let len = code.len() as u64;
        let got = self.code(Avma(pc.checked_sub(len)?), &mut code, process);
        (got == code.len()).then(|| CallBefore::decode(machine, &code))
    }

    /// The start of the function that holds `at`, by unwind information; the
    /// cold part of a function counts as a function.
    pub fn function(
        &mut self,
        machine: Machine,
        at: Avma,
        process: &mut impl Process,
    ) -> Option<FunctionAt> {
        let CodeAt::Dso { id, bias } = process.place(at) else {
            return None;
        };
        let dso = self.dsos.get_mut(id)?;
        let svma = bias.to_svma(at);
        let start = dso.function(svma, machine)?;
        Some(FunctionAt {
            dso: id,
            start,
            at: svma,
        })
    }

    /// Whether the function at `at` is one that Go's runtime places as the
    /// outermost frame of a new stack, so that nothing called it.
    pub fn begins_goroutines(
        &mut self,
        machine: Machine,
        at: Avma,
        process: &mut impl Process,
    ) -> bool {
        let CodeAt::Dso { id, bias } = process.place(at) else {
            return false;
        };
        let dso = self.dsos.get_mut(id);
        dso.is_some_and(|dso| dso.begins_goroutines(bias.to_svma(at), machine))
    }

    /// For a Go function that has saved the frame pointer right below its
    /// return address: the size of its frame at `at` in bytes, without return
    /// address and arguments.
    pub fn go_frame(
        &mut self,
        machine: Machine,
        at: Avma,
        process: &mut impl Process,
    ) -> Option<u64> {
        let CodeAt::Dso { id, bias } = process.place(at) else {
            return None;
        };
        let dso = self.dsos.get_mut(id)?;
        dso.go_frame_with_fp(bias.to_svma(at), machine)
    }

    /// Copies code from a dso's file or the process.
    pub(crate) fn code(&self, at: Avma, out: &mut [u8], process: &mut impl Process) -> usize {
        match process.place(at) {
            CodeAt::Dso { id, bias } => self
                .dsos
                .get(id)
                .map_or(0, |dso| dso.code(bias.to_svma(at), out)),
            _ => process.code(at, out),
        }
    }
}
