//! Frames whose unwind information reads their place through the frame pointer.
//!
//! Code that calls into another language may push its frame pointer for a frame
//! that the callee goes on to use as its own, and say that the CFA is what that word
//! points to (SBCL's `call_into_lisp`). Seen from the callee, which gives the word
//! back as it leaves, that is one frame too far: the register points to the frame
//! itself.

use crate::cursor::{Caller, DsoFrame};
use crate::row::Cfa;
use crate::{Base, CallBefore, FpFrom, Machine, Process, Unwinder};
use prof_profile::Avma;

/// `DW_OP_breg6 0; DW_OP_deref`: the word that rbp points to.
const READ_THROUGH_FP: [u8; 3] = [0x76, 0, 0x06];

/// Whether a place is read so.
pub(crate) fn is_read_so(cfa: &Cfa, machine: Machine) -> bool {
    let is_it = |code: &[u8]| code.starts_with(&READ_THROUGH_FP);
    machine == Machine::X86_64 && matches!(cfa, Cfa::Expression(code) if is_it(code))
}

/// The caller that the frame pointer leads to, where its call leads to the frame's
/// function and that of the caller that was found does not.
pub(crate) fn caller(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    found: &Caller,
    process: &mut impl Process,
) -> Option<Caller> {
    const WORD: u64 = 8;
    let registers = frame.cursor.registers();
    if frame.cursor.is_exact() || leads(unwinder, frame, found.registers.pc(), process) {
        return None;
    }
    let fp = registers.fp()?;
    let slot = fp.checked_add(WORD)?;
    let mut caller = *registers;
    caller.set_pc(process.word(slot, 8)?);
    caller.set(Machine::X86_64.sp(), slot.checked_add(WORD)?);
    caller.set(Machine::X86_64.fp(), process.word(fp, 8)?);
    // Where the function saved the others is not told.
    for number in [3, 12, 13, 14, 15] {
        caller.forget(number);
    }
    let is_it = leads(unwinder, frame, caller.pc(), process);
    is_it.then(|| Caller {
        base: Base::Frame,
        ..Caller::found(caller, FpFrom::Memory(fp), slot)
    })
}

/// Whether the call before a return address goes to the function of a frame, straight
/// or by a stub.
fn leads(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    pc: u64,
    process: &mut impl Process,
) -> bool {
    let machine = Machine::X86_64;
    let call = unwinder.call_before(machine, pc, process);
    let Some(CallBefore::Direct(by)) = call else {
        return false;
    };
    let target = Avma(pc.wrapping_add_signed(by));
    let own = unwinder.function(machine, frame.cursor.lookup(), process);
    let is_own = |unwinder: &mut Unwinder, at: Avma, process: &mut _| {
        let there = unwinder.function(machine, at, process);
        own.is_some_and(|own| there.is_some_and(|there| there.is_same(&own)))
    };
    if is_own(unwinder, target, process) {
        return true;
    }
    let behind = unwinder.stub_target(machine, target, process);
    behind.is_some_and(|at| is_own(unwinder, at, process))
}
