//! Frames of code that GHC compiles.
//!
//! Haskell's functions keep their frames in objects of the heap and jump to each other:
//! none has a return address on the thread's stack, and they have no unwind information.
//! The runtime enters them by `StgRun`, which leaves 16 KiB for what C functions they call
//! and jumps; its unwind information says where, above that, its own return address is.
//! So a frame of theirs has the caller of `StgRun` that far above the stack pointer: it
//! counts where an address stands there behind a call to a function whose unwind
//! information has a place, behind its prologue, that says the same.
//!
//! The functions that a Haskell function returns to are in the heap, and not told.
//!
//! Source: `rts/StgCRun.c` of GHC (x86-64).

use crate::applied::apply;
use crate::cursor::{Caller, DsoFrame};
use crate::dso::{Haskell, Rules};
use crate::row::{Cfa, Save};
use crate::{CallBefore, CodeAt, Machine, Process, Unwinder};
use prof_profile::{Avma, ChainEnd, Svma};

/// From the stack pointer of a Haskell function to the return address of `StgRun`:
/// `RESERVED_C_STACK_BYTES`, and six registers.
const RESERVED: u64 = 16384 + 48;
/// Words below that at which the stack pointer may be: what aligns it around a call of C,
/// and arguments on the stack.
const MAX_WORDS: u64 = 16;
/// Bytes of the prologue of `StgRun`, at most.
const PROLOGUE: u64 = 64;
/// What is spent on frames of a file before it counts as none of GHC, what one costs that
/// is of other code, and one above which too little was copied.
const MAX_TRIED: u16 = 1024;
const OTHER: u16 = 16;
const CUT: u16 = 1;

/// The caller of a frame that no unwind information covers, if its file is known to have
/// code of GHC; `None` of other code in it.
///
/// # Errors
/// If the stack was not copied as far up.
pub(crate) fn known(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Option<Caller>, ChainEnd> {
    let dso = unwinder.dsos.get_mut(frame.id);
    match dso.is_some_and(|dso| dso.haskell == Haskell::Yes) {
        true => caller(unwinder, frame, process),
        false => Ok(None),
    }
}

/// The same of a file of which that is not known.
pub(crate) fn tried(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Option<Caller> {
    let Haskell::Unknown(spent @ 0..MAX_TRIED) = unwinder.dsos.get_mut(frame.id)?.haskell else {
        return None;
    };
    let found = caller(unwinder, frame, process);
    unwinder.dsos.get_mut(frame.id)?.haskell = match found {
        Ok(Some(_)) => Haskell::Yes,
        Ok(None) => Haskell::Unknown(spent + OTHER),
        Err(_) => Haskell::Unknown(spent + CUT),
    };
    found.ok().flatten()
}

/// The caller of `StgRun`, if it stands where that has it.
fn caller(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Option<Caller>, ChainEnd> {
    let machine = frame.cursor.registers.machine();
    if machine != Machine::X86_64 {
        return Ok(None);
    }
    let sp = frame.cursor.registers.sp();
    for words in 0..=MAX_WORDS {
        let Some(slot) = sp.checked_add(RESERVED + words * 8) else {
            return Ok(None);
        };
        let pc = process.word(slot, 8).ok_or(ChainEnd::StackCut)?;
        let Some(CallBefore::Direct(by)) = unwinder.call_before(machine, pc, process) else {
            continue;
        };
        let target = Avma(pc.wrapping_add_signed(by));
        let Some(found) = by_run(unwinder, frame, (target, slot), process) else {
            continue;
        };
        if found.registers.pc() == pc {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The caller by the unwind information of the function at `target`, if that says that
/// behind its prologue the return address is as far up as in `StgRun`.
fn by_run(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    (target, slot): (Avma, u64),
    process: &mut impl Process,
) -> Option<Caller> {
    let machine = frame.cursor.registers.machine();
    let CodeAt::Dso { id, bias } = process.place(target) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    let start = bias.to_svma(target);
    let number = (0..PROLOGUE).find_map(|offset| {
        let Rules::Row(number) = dso.rules(Svma(start.0.checked_add(offset)?), machine) else {
            return None;
        };
        let row = dso.row(number)?;
        let is_at_sp =
            matches!(row.cfa, Cfa::Register { number, offset: 0 } if number == machine.sp());
        let is_far = row.return_address == Save::At(RESERVED.cast_signed());
        (is_at_sp && is_far).then_some(number)
    })?;
    let mut registers = frame.cursor.registers;
    registers.set(machine.sp(), slot.checked_sub(RESERVED)?);
    apply(dso.row(number)?, &registers, process).ok()
}
