//! What an unwinder knows of code, whatever stack it unwinds.

use crate::call::CallBefore;
use crate::dso::UnwindDsos;
use crate::made_frames::MadeFrames;
use crate::memory::{CodeAt, Process, UnwindDsoId};
use crate::registers::{Machine, Registers};
use crate::stretches::Stretches;
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

impl FunctionAt {
    /// Whether both addresses are in one function.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.dso, self.start) == (other.dso, other.start)
    }
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
    /// Frames of code that was made at run time.
    pub(crate) made_frames: MadeFrames,
    /// And of functions that are too large to follow all ways through them.
    pub(crate) stretches: Stretches,
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
        let mut code = [0; CallBefore::LONGEST];
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

    /// Where the function that begins at `start` jumps to, if it does nothing else
    /// with the stack: what is called by it may be found on top of what called it.
    pub fn stub_target(
        &self,
        machine: Machine,
        start: Avma,
        process: &mut impl Process,
    ) -> Option<Avma> {
        let mut code = [0; crate::call::MAX_STUB];
        let got = self.code(start, &mut code, process);
        let by = crate::call::stub_target(machine, code.get(..got)?)?;
        Some(Avma(start.0.checked_add_signed(by)?))
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

    /// Whether a thread that is in the kernel at `registers` asked it to run another
    /// program (`execve`, `execveat`), as the code before shows.
    pub fn is_in_exec(&self, registers: &Registers, process: &mut impl Process) -> bool {
        // mov $NUMBER,%eax; syscall.
        const X86_64: [[u8; 7]; 2] = [
            [0xb8, 59, 0, 0, 0, 0x0f, 0x05],
            [0xb8, 0x42, 0x01, 0, 0, 0x0f, 0x05],
        ];
        // mov x8, #NUMBER; svc #0.
        const AARCH64: [[u8; 8]; 2] = [
            [0xa8, 0x1b, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
            [0x28, 0x23, 0x80, 0xd2, 0x01, 0, 0, 0xd4],
        ];
        let mut code = [0; 8];
        let Some(before) = registers.pc().checked_sub(code.len() as u64) else {
            return false;
        };
        let got = self.code(Avma(before), &mut code, process);
        let ends_with = |call: &[u8]| got == code.len() && code.ends_with(call);
        match registers.machine() {
            Machine::X86_64 => X86_64.iter().any(|call| ends_with(call)),
            Machine::Aarch64 => AARCH64.iter().any(|call| ends_with(call)),
            Machine::X86 => false,
        }
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

#[cfg(test)]
mod tests {
    use super::Unwinder;
    use crate::fake::{CODE, FakeProcess};
    use crate::{Machine, Registers};

    #[test]
    fn a_call_of_exec_is_told_by_its_number() {
        let is = |machine: Machine, code: &[u8]| {
            let pc = CODE + 8 + code.len() as u64;
            let mut process = FakeProcess::of_code([&[0x90; 8][..], code].concat());
            let registers = Registers::new(machine, pc, 0x8000);
            Unwinder::default().is_in_exec(&registers, &mut process)
        };
        let x86 = |number: u8| [0xb8, number, 0, 0, 0, 0x0f, 0x05];
        assert!(is(Machine::X86_64, &x86(59)));
        assert!(is(Machine::X86_64, &[0xb8, 0x42, 0x01, 0, 0, 0x0f, 0x05]));
        assert!(!is(Machine::X86_64, &x86(60)));
        assert!(!is(Machine::X86, &x86(59)));
        let arm = [0xa8, 0x1b, 0x80, 0xd2, 0x01, 0, 0, 0xd4];
        assert!(is(Machine::Aarch64, &arm));
        assert!(!is(Machine::X86_64, &arm));
        let unreadable = Registers::new(Machine::X86_64, 4, 0x8000);
        let mut process = FakeProcess::default();
        assert!(!Unwinder::default().is_in_exec(&unreadable, &mut process));
    }
}
