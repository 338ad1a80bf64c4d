//! Frames of signals: what the kernel leaves on the stack for a handler, and takes
//! back when that returns (`struct rt_sigframe`, arch/x86/kernel/signal_64.c).
//!
//! ```text
//!   sp of the handler ─► address of the code that ends the signal
//!                        struct ucontext: all registers of what was interrupted
//!                        struct siginfo, floating-point registers
//! ```
//!
//! The kernel writes the frame and then changes the registers, one after another; a
//! sample may fall in between.

use crate::cursor::Caller;
use crate::{Base, CodeAt, Cursor, FpFrom, Machine, Process, Registers, Unwinder};
use prof_profile::Avma;

/// `mov $15,%rax; syscall`, which ends a signal. musl and Go have it without unwind
/// information, and in the system call the pc is behind what glibc's covers.
const RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Bytes of it that are done before the system call, and with it.
const DONE: [u64; 2] = [7, 9];
/// Offset of `uc_mcontext.gregs` in `ucontext`, bytes.
const GREGS: u64 = 40;
/// DWARF numbers in the order of gregs: r8 to r15, di, si, bp, bx, dx, ax, cx, sp; the
/// pc, the flags and the segments follow.
const ORDER: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7];
/// Offsets in `ucontext`, bytes.
const PC: u64 = GREGS + 16 * 8;
const SEGMENTS: u64 = GREGS + 18 * 8;
/// Code and stack segments of 64-bit user code, where [`SEGMENTS`] has them (`cs` and,
/// since Linux 4.6, `ss`).
const USER_SEGMENTS: [u64; 2] = [0x002b_0000_0000_0033, 0x33];

/// The interrupted frame, if the cursor is at the end of a signal.
pub(crate) fn interrupted(
    unwinder: &Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<Caller> {
    let registers = cursor.registers();
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    let (pc, context) = (registers.pc(), registers.sp());
    let is_at_end = ends_signal(unwinder, pc, process) || {
        // The kernel takes the registers back one by one: the stack pointer may be that
        // of the interrupted frame already.
        cursor.is_exact()
            && DONE
                .iter()
                .any(|done| ends_signal(unwinder, pc.wrapping_sub(*done), process))
            && has_user_segments(context, process)
    };
    if !is_at_end {
        return None;
    }
    let caller = registers_of(registers, context, process)?;
    let slot = context.checked_add(GREGS + ORDER.len() as u64 * 8)?;
    Some(Caller {
        is_exact: true,
        base: Base::Other,
        ..Caller::found(caller, FpFrom::Other, slot)
    })
}

/// The registers of an interrupted frame where the kernel has written the signal's frame
/// and moved the stack pointer there, but has not yet set the pc to the handler: the code
/// is that of the interrupted frame, and so would be its caller, one frame too far out.
pub(crate) fn before_handler(
    unwinder: &Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<Registers> {
    let registers = cursor.registers();
    if !cursor.is_exact() || registers.machine() != Machine::X86_64 {
        return None;
    }
    let context = registers.sp().checked_add(8)?;
    let pc = process.word(context.checked_add(PC)?, 8)?;
    if pc != registers.pc() || !has_user_segments(context, process) {
        return None;
    }
    let end = process.word(registers.sp(), 8)?;
    let is_signal =
        process.place(Avma(end)) != CodeAt::Nothing && ends_signal(unwinder, end, process);
    is_signal
        .then(|| registers_of(registers, context, process))
        .flatten()
}

/// Whether a pc is behind the system call that ends a signal, which never comes back.
pub(crate) fn is_behind_end(unwinder: &Unwinder, pc: u64, process: &mut impl Process) -> bool {
    ends_signal(unwinder, pc.wrapping_sub(RETURN.len() as u64), process)
}

/// Whether the code at an address ends a signal.
fn ends_signal(unwinder: &Unwinder, at: u64, process: &mut impl Process) -> bool {
    let mut code = [0; RETURN.len()];
    let got = unwinder.code(Avma(at), &mut code, process);
    got == code.len() && code == RETURN
}

/// Whether a `ucontext` of 64-bit code may be at an address.
fn has_user_segments(context: u64, process: &mut impl Process) -> bool {
    let at = context.checked_add(SEGMENTS);
    let segments = at.and_then(|at| process.word(at, 8));
    segments.is_some_and(|it| USER_SEGMENTS.contains(&it))
}

/// The registers in the `ucontext` at an address.
fn registers_of(callee: &Registers, context: u64, process: &mut impl Process) -> Option<Registers> {
    let at = context.checked_add(GREGS)?;
    at.checked_add((ORDER.len() as u64 + 1) * 8)?;
    let mut word = |index: usize| process.word(at + index as u64 * 8, 8);
    let mut registers = *callee;
    for (index, number) in ORDER.into_iter().enumerate() {
        registers.set(number, word(index)?);
    }
    registers.set_pc(word(ORDER.len())?);
    Some(registers)
}

#[cfg(test)]
mod tests {
    use super::{GREGS, ORDER, PC, RETURN, SEGMENTS, USER_SEGMENTS};
    use crate::fake::{CODE, FakeProcess, STACK};
    use crate::{Cursor, Machine, Registers, Unwinder};

    /// The interrupted function, which calls at its start and has no frame. What ends
    /// the signal is before it, at `CODE`.
    const FUNCTION: u64 = CODE + 0x100;
    /// The interrupted stack.
    const SP: u64 = STACK + 0x200;

    /// A stack with the frame of a signal at its start, which came at the `ret`.
    fn stack(segments: u64) -> FakeProcess {
        let mut words = vec![0; 0x100];
        words[0] = CODE;
        let mut put = |offset: u64, word: u64| words[1 + offset as usize / 8] = word;
        put(PC, FUNCTION + 0x20);
        put(SEGMENTS, segments);
        let sp = ORDER.iter().position(|number| *number == 7).expect("there");
        put(GREGS + sp as u64 * 8, SP);
        words[(SP - STACK) as usize / 8] = FUNCTION + 5;
        // A call whose return address is FUNCTION + 5; a ret at FUNCTION + 0x20.
        let code: [(usize, &[u8]); 3] = [(0, &RETURN), (0x100, &[0xe8]), (0x120, &[0xc3])];
        FakeProcess::with_code(words, &code)
    }

    /// Where the walk gets in one step from a place with the stack pointer there.
    fn caller(pc: u64, sp: u64, mut process: FakeProcess) -> Option<(u64, u64)> {
        let mut cursor = Cursor::innermost(Registers::new(Machine::X86_64, pc, sp));
        let stepped = Unwinder::default().step(&mut cursor, &mut process);
        stepped
            .is_ok()
            .then(|| (cursor.pc(), cursor.registers().sp()))
    }

    #[test]
    fn a_signal_that_ends_leads_to_what_it_interrupted() {
        let interrupted = Some((FUNCTION + 0x20, SP));
        for done in [0, 7, 9] {
            let found = caller(CODE + done, STACK + 8, stack(USER_SEGMENTS[0]));
            assert_eq!(found, interrupted, "{done} bytes of it are done");
        }
        // The stack pointer is taken back already.
        assert_eq!(caller(CODE + 9, SP, stack(USER_SEGMENTS[0])), None);
    }

    #[test]
    fn a_signal_that_begins_is_no_callee_of_its_end() {
        // A `ret`: the word on top of the stack would be its caller.
        let of_function = Some((FUNCTION + 5, SP + 8));
        let pc = FUNCTION + 0x20;
        assert_eq!(caller(pc, SP, stack(USER_SEGMENTS[0])), of_function);
        assert_eq!(caller(pc, STACK, stack(USER_SEGMENTS[0])), of_function);
        assert_eq!(caller(pc, STACK, stack(USER_SEGMENTS[1])), of_function);
        assert_ne!(caller(pc, STACK, stack(0)), of_function, "no ucontext");
    }
}
