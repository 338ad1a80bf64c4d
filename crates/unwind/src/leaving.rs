//! Callers of functions that are on their way to a landing pad.
//!
//! What such a function saved on entry is overwritten, register by register and
//! the return address last, with what the frame has that handles the exception
//! (see [`crate::eh_return`]). At no place in the code is it known how far that
//! is. But the overwritten return address is that of another call: as long as
//! it follows a call to the very function that is leaving, it is its own. And
//! before anything is overwritten the function takes down where it was called
//! from, side by side:
//!
//! ```text
//!   | its CFA | its return address |     in its frame: `struct _Unwind_Context`
//! ```
//!
//! The registers may be either frame's, and count as lost. Right before it goes
//! it writes the address of the landing pad below the frame that has the pad,
//! where a frame that is left has its return address: one that follows no call
//! ends the chain.

use crate::applied::apply;
use crate::cursor::{Caller, DsoFrame};
use crate::row::Cfa;
use crate::{CallBefore, CodeAt, FpFrom, Machine, Process, StepBy, Unwinder};
use prof_profile::{Avma, ChainEnd};
use std::ops::Range;

/// Bytes of the largest frame that is looked through.
const LARGEST: u64 = 4096;
/// Bytes of a linkage stub that are looked at.
const STUB: usize = 16;

/// The caller of a frame that is leaving, by row `number` of its dso.
pub(crate) fn caller(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    number: u32,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let DsoFrame { cursor, id, bias } = frame;
    let registers = cursor.registers();
    let machine = registers.machine();
    let dso = unwinder.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
    let own = dso.function(bias.to_svma(cursor.lookup()), machine);
    let own = own.ok_or(ChainEnd::Unproven)?;
    let row = dso.row(number).ok_or(ChainEnd::BadUnwindInfo)?;
    // At the very end even the frame is that of the other.
    let is_by_fp = matches!(row.cfa, Cfa::Register { number, .. } if number == machine.fp());
    if !is_by_fp || machine != Machine::X86_64 {
        return Err(ChainEnd::Unproven);
    }
    let mut caller = apply(row, registers, process)?;
    for (number, _) in &row.saves {
        caller.registers.forget(*number);
    }
    caller.fp = FpFrom::Other;
    caller.by = StepBy::Leaving;
    let from = registers.sp()..caller.registers.sp();
    let leads_here = |unwinder: &Unwinder, process: &mut _, pc: u64| {
        let target = called_before(unwinder, pc, process);
        target.is_some_and(|target| {
            let here = CodeAt::Dso { id, bias };
            Process::place(process, target) == here && bias.to_svma(target) == own
        })
    };
    let mut noted = None;
    for pc in noted_beside(from, process) {
        if leads_here(unwinder, process, pc) && noted.replace(pc).is_some_and(|other| other != pc) {
            // One is of an earlier call.
            return Err(ChainEnd::Unproven);
        }
    }
    match noted {
        Some(pc) => caller.registers.set_pc(pc),
        None if leads_here(unwinder, process, caller.registers.pc()) => {}
        None => return Err(ChainEnd::Unproven),
    }
    Ok(caller)
}

/// What stands in a frame right above the address at which the frame ends.
fn noted_beside(frame: Range<u64>, process: &mut impl Process) -> Vec<u64> {
    let word = u64::from(Machine::X86_64.word());
    let start = frame.start.max(frame.end.saturating_sub(LARGEST));
    let mut noted = Vec::new();
    let mut at = start.next_multiple_of(word);
    while at < frame.end {
        let [first, second] = [at, at + word].map(|at| process.word(at, Machine::X86_64.word()));
        if first == Some(frame.end) {
            noted.extend(second);
        }
        at += word;
    }
    noted
}

/// Where the call before the return address `pc` leads, through a linkage stub
/// or a slot that is filled by the linker.
fn called_before(unwinder: &Unwinder, pc: u64, process: &mut impl Process) -> Option<Avma> {
    match unwinder.call_before(Machine::X86_64, pc, process)? {
        CallBefore::Direct(by) => {
            let target = Avma(pc.wrapping_add_signed(by));
            let mut code = [0; STUB];
            let got = unwinder.code(target, &mut code, process);
            let jump = code.get(..got).and_then(jump_through);
            match jump {
                Some(behind) => linked(Avma(target.0.wrapping_add(behind)), process),
                None => Some(target),
            }
        }
        CallBefore::Indirect => {
            // call *slot(%rip)
            let mut code = [0; 6];
            let start = Avma(pc.checked_sub(code.len() as u64)?);
            let got = unwinder.code(start, &mut code, process);
            let [0xff, 0x15, offset @ ..] = code else {
                return None;
            };
            let offset = i64::from(i32::from_le_bytes(offset));
            let slot = Avma(pc.wrapping_add_signed(offset));
            (got == code.len()).then(|| linked(slot, process))?
        }
        CallBefore::None => None,
    }
}

/// Of a stub that jumps through a slot: where that is, from the stub's start.
fn jump_through(code: &[u8]) -> Option<u64> {
    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let rest = code.strip_prefix(&ENDBR).unwrap_or(code);
    // With a prefix that once stood for bounds.
    let rest = rest.strip_prefix(&[0xf2]).unwrap_or(rest);
    let offset = rest.strip_prefix(&[0xff, 0x25])?.first_chunk()?;
    let behind = (code.len() - rest.len() + 6) as u64;
    Some(behind.wrapping_add_signed(i64::from(i32::from_le_bytes(*offset))))
}

/// What the linker put into a slot, in the process as it is now: it stays.
fn linked(slot: Avma, process: &mut impl Process) -> Option<Avma> {
    let mut word = [0; 8];
    let got = process.code(slot, &mut word);
    (got == word.len()).then(|| Avma(u64::from_le_bytes(word)))
}

#[cfg(test)]
mod tests {
    use super::jump_through;

    #[test]
    fn stubs_of_every_kind_tell_their_slot() {
        let jump = [0xff, 0x25, 0x10, 0, 0, 0];
        let endbr = [0xf3, 0x0f, 0x1e, 0xfa];
        let bnd = [&endbr[..], &[0xf2], &jump].concat();
        let back = [0xff, 0x25, 0xf0, 0xff, 0xff, 0xff];
        let cases = [
            (jump.to_vec(), Some(0x16)),
            ([&endbr[..], &jump].concat(), Some(0x1a)),
            (bnd, Some(0x1b)),
            (back.to_vec(), Some(0_u64.wrapping_sub(10))),
            (jump[..5].to_vec(), None),
            (vec![0x55, 0x48, 0x89, 0xe5], None),
            (Vec::new(), None),
        ];
        for (code, slot) in cases {
            assert_eq!(jump_through(&code), slot, "{code:x?}");
        }
    }
}
