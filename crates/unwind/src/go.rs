//! Frames of Go functions, by the table that Go programs carry.
//!
//! Go has no `.eh_frame`, and a stripped program no `.debug_frame`. Its own
//! table says at every instruction how far the stack pointer is below the
//! return address, at which functions a stack ends, and which functions
//! switch stacks, so that it cannot say it of them:
//!
//! ```text
//!   goroutine's stack                 system stack
//!   ┌──────────────────┐ goexit       ┌─────────────────┐
//!   │ caller           │              │                 │
//!   │  its return slot │◄─ rbp + 8    │ systemstack     │
//!   │  saved rbp       │◄─ rbp        │  (keeps rbp)    │
//!   ├──────────────────┤              ├─────────────────┤
//!   │ return address   │◄─ wanted     │ what it called  │
//!   └──────────────────┘              └─────────────────┘
//! ```

use crate::cursor::{Caller, DsoFrame};
use crate::{
    Base, CallBefore, CodeAt, Cursor, FpFrom, Machine, Process, StepBy, Unwinder, signal_frame,
};
use prof_profile::{Avma, ChainEnd, Svma};

/// Slots of a frame in which the call that switched stacks is looked for: the
/// functions that do so are small.
const SLOTS: u64 = 256;

/// The caller of a frame whose return address is the first of a function:
/// one that the kernel or the run-time library put there.
pub(crate) fn not_called(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = frame.cursor.registers();
    if let Some(caller) = signal_frame::interrupted(unwinder, frame.cursor, process) {
        return Ok(caller);
    }
    let as_entered = Cursor::innermost(*registers);
    let as_entered = DsoFrame {
        cursor: &as_entered,
        ..frame
    };
    unwinder.by_rules(as_entered, process)
}

/// Whether a frame at `at` is of a Go function that switches stacks.
pub(crate) fn switches_stacks(
    unwinder: &mut Unwinder,
    (place, at): (CodeAt, Avma),
    machine: Machine,
) -> bool {
    let CodeAt::Dso { id, bias } = place else {
        return false;
    };
    let dso = unwinder.dsos.get_mut(id);
    dso.is_some_and(|dso| dso.switches_stacks(bias.to_svma(at), machine))
}

/// Where the function of a frame starts.
pub(crate) fn start_of(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<u64> {
    let machine = cursor.registers().machine();
    let found = unwinder.function(machine, cursor.lookup(), process)?;
    Some(cursor.lookup().0.wrapping_sub(found.at.0 - found.start.0))
}

/// The caller of a function that has switched stacks, or may have.
pub(crate) fn switched(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let DsoFrame { cursor, id, bias } = frame;
    let registers = cursor.registers();
    let machine = registers.machine();
    let at = bias.to_svma(cursor.lookup());
    let dso = unwinder.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
    let start = dso.function(at, machine).ok_or(ChainEnd::Unproven)?;
    if let Some(caller) = crate::followed::in_known_function(unwinder, frame, start, process) {
        return Ok(caller);
    }
    if cursor.is_exact() {
        return Err(ChainEnd::Unproven);
    }
    let entry = cursor.lookup().0.wrapping_sub(at.0 - start.0);
    match by_only_call(unwinder, cursor, entry, process) {
        Some(caller) => Ok(caller),
        None => by_frame_of_caller(unwinder, cursor, entry, process),
    }
}

/// The caller of the function at `entry`, which left the frame pointer as it
/// was: it points into the frame of a function that is known by the call to
/// it, and that calls `entry` in one place only, or in one with the closure
/// that runs.
fn by_only_call(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    entry: u64,
    process: &mut impl Process,
) -> Option<Caller> {
    let registers = cursor.registers();
    let machine = registers.machine();
    let word = u64::from(machine.word());
    let fp = registers.fp().filter(|fp| fp.is_multiple_of(word))?;
    let outer = process.word(fp.checked_add(word)?, machine.word())?;
    let (back, size) = only_call(unwinder, machine, (entry, cursor.called()), outer, process)?;
    let sp = fp.checked_add(word)?.checked_sub(size)?;
    let mut caller = *registers;
    caller.set(machine.sp(), sp);
    caller.set_pc(back);
    Some(Caller {
        registers: caller,
        is_exact: false,
        by: StepBy::Frame,
        base: Base::Frame,
        fp: FpFrom::Callee,
        slot: sp.checked_sub(word),
    })
}

/// Of the function that the call before `outer` leads to, or that a goroutine starts
/// with: where its only call of the function at `entry` returns to, or the only one with
/// this closure, and the size of its frame there, right below whose end the frame pointer
/// is saved.
fn only_call(
    unwinder: &mut Unwinder,
    machine: Machine,
    (entry, closure): (u64, Option<u64>),
    outer: u64,
    process: &mut impl Process,
) -> Option<(u64, u64)> {
    let start = match unwinder.call_before(machine, outer, process)? {
        CallBefore::Direct(by) => Some(outer.wrapping_add_signed(by)),
        // A goroutine starts with that function.
        CallBefore::None => None,
        CallBefore::Indirect => return None,
    };
    let CodeAt::Dso { id, bias } = process.place(Avma(start.unwrap_or(outer))) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    let svma = |at| bias.to_svma(Avma(at));
    let (target, closure) = (svma(entry), closure.map(svma));
    let calls = match start {
        Some(start) => dso.calls_to(svma(start), (target, closure), machine),
        None => dso.calls_of_maker(svma(outer), (target, closure?), machine),
    };
    let &[Svma(back)] = calls.as_slice() else {
        return None;
    };
    let size = dso.go_frame_with_fp(Svma(back - 1), machine)?;
    // As far as the entry is from its place in the file.
    Some((back.wrapping_add(entry.wrapping_sub(target.0)), size))
}

/// Which kind of Go functions leaves the frame pointer to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutFp {
    /// It has no frame.
    Frameless,
    /// It switches stacks.
    Switches,
}

/// Of the Go function of this kind at `at`, which the function called that returns to
/// `outer`: where it returns to, and the size of the frame there, if that function
/// calls it in one place only, or in one with the closure that runs at `inner`.
pub(crate) fn caller_without_fp(
    unwinder: &mut Unwinder,
    (machine, kind): (Machine, WithoutFp),
    (inner, at, outer): (Option<Avma>, Avma, u64),
    process: &mut impl Process,
) -> Option<(u64, u64)> {
    let CodeAt::Dso { id, bias } = process.place(at) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    let svma = bias.to_svma(at);
    let is_it = match kind {
        WithoutFp::Frameless => dso.go_frame_size(svma)? == 0,
        WithoutFp::Switches => dso.switches_stacks(svma, machine),
    };
    if !is_it {
        return None;
    }
    let start = dso.function(svma, machine)?;
    let entry = at.0.wrapping_sub(svma.0.wrapping_sub(start.0));
    let closure = inner.and_then(|inner| {
        let found = unwinder.function(machine, inner, process)?;
        Some(inner.0.wrapping_sub(found.at.0 - found.start.0))
    });
    only_call(unwinder, machine, (entry, closure), outer, process)
}

/// The caller of the function at `entry`, which left the frame pointer as it
/// was: the one return address below it whose call goes to `entry` from a
/// frame that ends where the frame pointer says.
fn by_frame_of_caller(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    entry: u64,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = cursor.registers();
    let machine = registers.machine();
    let word = u64::from(machine.word());
    let fp = registers.fp().ok_or(ChainEnd::Unproven)?;
    if fp == 0 || !fp.is_multiple_of(word) {
        return Err(ChainEnd::Unproven);
    }
    let mut found = None;
    for number in 1..=SLOTS {
        let Some(slot) = fp.checked_sub(number * word) else {
            break;
        };
        let Some(pc) = process.word(slot, machine.word()) else {
            match number {
                1 => return Err(ChainEnd::StackCut),
                _ => break,
            }
        };
        if frame_below(unwinder, pc, process) != Some(fp - slot) {
            continue;
        }
        let call = unwinder.call_before(machine, pc, process);
        if !matches!(call, Some(CallBefore::Direct(by)) if pc.wrapping_add_signed(by) == entry) {
            continue;
        }
        if found.replace((slot, pc)).is_some() {
            return Err(ChainEnd::Unproven);
        }
    }
    let (slot, pc) = found.ok_or(ChainEnd::Unproven)?;
    let mut caller = *registers;
    caller.set(machine.sp(), slot.wrapping_add(word));
    caller.set_pc(pc);
    Ok(Caller {
        registers: caller,
        is_exact: false,
        by: StepBy::Frame,
        base: Base::Frame,
        fp: FpFrom::Callee,
        slot: Some(slot),
    })
}

/// Frame size of the Go function that `pc` returns to.
fn frame_below(unwinder: &mut Unwinder, pc: u64, process: &mut impl Process) -> Option<u64> {
    let before = Avma(pc.checked_sub(1)?);
    let CodeAt::Dso { id, bias } = process.place(before) else {
        return None;
    };
    let dso = unwinder.dsos.get_mut(id)?;
    dso.go_frame_size(bias.to_svma(before))
}
