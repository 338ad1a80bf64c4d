//! Walking from a frame to its callers.

use crate::applied::apply;
use crate::cursor::{Caller, DsoFrame, Zero, lookup};
use crate::dso::Rules;
use crate::go::WithoutFp;
use crate::row::Cfa;
use crate::{
    CallBefore, CodeAt, Cursor, Machine, Process, Registers, Step, StepBy, Told, Unwinder, erlang,
    fallback, followed, go, haskell, leaving, lua, made, signal_frame, through_fp,
};
use prof_profile::{Avma, ChainEnd};

/// How often a walk may go on to a lower address: signal stacks, coroutines
/// and grown stacks lie anywhere, but an endless walk must end.
const MAX_STACK_SWITCHES: u32 = 64;

impl Unwinder {
    /// Appends the pc of every frame to `out`, innermost first, at most
    /// `max_frames`, and says why it ended there.
    pub fn unwind(
        &mut self,
        registers: Registers,
        process: &mut impl Process,
        max_frames: usize,
        out: &mut Vec<u64>,
    ) -> ChainEnd {
        let mut cursor = Cursor::innermost(registers);
        for _ in 0..max_frames {
            out.push(cursor.pc());
            if let Err(end) = self.step(&mut cursor, process) {
                return end;
            }
        }
        ChainEnd::DepthLimit
    }

    /// Moves to the caller.
    ///
    /// # Errors
    /// With the reason if there is no caller ([`ChainEnd::Root`], see
    /// [`Cursor::zero`]) or none that can be believed; the cursor then stays.
    pub fn step(
        &mut self,
        cursor: &mut Cursor,
        process: &mut impl Process,
    ) -> Result<Step, ChainEnd> {
        let caller = self.find_caller(cursor, process)?;
        let (old, new) = (cursor.registers.sp(), caller.registers.sp());
        if caller.registers.pc() == 0 {
            cursor.zero = Some(Zero {
                slot: caller.slot,
                base: caller.base,
            });
            return Err(ChainEnd::Root);
        }
        // Only an Arm function that has no frame leaves the stack as it is.
        let may_stay = cursor.is_exact && new == old;
        let switches = cursor.switches + u32::from(new <= old && !may_stay);
        if switches > MAX_STACK_SWITCHES {
            return Err(ChainEnd::BadUnwindInfo);
        }
        let (machine, pc) = (caller.registers.machine(), caller.registers.pc());
        if cursor.is_left
            && !caller.is_exact
            && self.call_before(machine, pc, process) == Some(CallBefore::None)
        {
            return Err(ChainEnd::Unproven);
        }
        let lookup = lookup(pc, caller.is_exact);
        let place = process.place(lookup);
        if place == CodeAt::Nothing {
            return Err(ChainEnd::Unproven);
        }
        let mut called = 0;
        if go::switches_stacks(self, (place, lookup), machine) {
            called = go::start_of(self, cursor, process).unwrap_or(0);
        }
        if place == CodeAt::Anonymous && self.makes_callers_frame(cursor, process) {
            called = cursor.pc();
        }
        // Field by field: registers are large, and copied for each frame.
        cursor.registers = caller.registers;
        cursor.is_exact = caller.is_exact;
        cursor.switches = switches;
        cursor.called = called;
        cursor.zero = None;
        cursor.is_left |= caller.by == StepBy::Leaving;
        Ok(Step {
            by: caller.by,
            base: caller.base,
            fp: caller.fp,
            slot: caller.slot,
        })
    }

    /// Whether a frame at `at` is of a Go function that switches stacks.
    pub fn switches_go_stacks(
        &mut self,
        machine: Machine,
        at: Avma,
        process: &mut impl Process,
    ) -> bool {
        let place = process.place(at);
        crate::go::switches_stacks(self, (place, at), machine)
    }

    /// Of the Go function at the first address, which has no frame, and which the
    /// function called that returns to the second: where it returns to, and the size of
    /// that frame as [`Unwinder::go_frame`] tells it. `None` unless there is one such
    /// call only.
    pub fn go_caller(
        &mut self,
        machine: Machine,
        (at, outer): (Avma, u64),
        process: &mut impl Process,
    ) -> Option<(u64, u64)> {
        let at = (None, at, outer);
        crate::go::caller_without_fp(self, (machine, WithoutFp::Frameless), at, process)
    }

    /// The same of the Go function at the second address, which switches stacks
    /// (`asmcgocall`, `systemstack`) and has called what the first one is in.
    pub fn go_switched(
        &mut self,
        machine: Machine,
        (inner, at, outer): (Avma, Avma, u64),
        process: &mut impl Process,
    ) -> Option<(u64, u64)> {
        let at = (Some(inner), at, outer);
        crate::go::caller_without_fp(self, (machine, WithoutFp::Switches), at, process)
    }

    /// Whether a frame is in the code of V8 that makes the frame of the
    /// function that called it.
    fn makes_callers_frame(&self, cursor: &Cursor, process: &mut impl Process) -> bool {
        let CodeAt::Dso { id, bias } = process.place(cursor.lookup()) else {
            return false;
        };
        let dso = self.dsos.get(id);
        dso.is_some_and(|dso| dso.makes_frame(bias.to_svma(cursor.lookup())))
    }

    /// The caller by the rules of a dso at the cursor's place.
    pub(crate) fn by_rules(
        &mut self,
        frame: DsoFrame<'_>,
        process: &mut impl Process,
    ) -> Result<Caller, ChainEnd> {
        let DsoFrame { cursor, id, bias } = frame;
        let at = bias.to_svma(cursor.lookup());
        let dso = self.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
        match dso.rules(at, cursor.registers.machine()) {
            Rules::Row(number) => self.by_row(frame, number, process),
            Rules::Switches => go::switched(self, frame, process),
            Rules::Damaged => Err(ChainEnd::BadUnwindInfo),
            Rules::Nothing => self.without_rules(frame, process),
        }
    }

    /// The caller by a row of a dso's rules.
    fn by_row(
        &mut self,
        frame: DsoFrame<'_>,
        number: u32,
        process: &mut impl Process,
    ) -> Result<Caller, ChainEnd> {
        let DsoFrame { cursor, id, bias } = frame;
        let dso = self.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
        let row = dso.row(number).ok_or(ChainEnd::BadUnwindInfo)?;
        let machine = cursor.registers.machine();
        let (at, pc) = (bias.to_svma(cursor.lookup()), Avma(cursor.pc()));
        let keeps_exception = row.keeps_exception;
        let is_by_fp = matches!(row.cfa, Cfa::Register { number, .. } if number == machine.fp());
        if is_by_fp
            && cursor.registers.fp().is_none()
            && let Some(start) = dso.function(at, machine)
        {
            // A frame on the way has lost it; the code may tell as much.
            let caller = followed::in_known_function(self, frame, start, process);
            return caller.ok_or(ChainEnd::Unproven);
        }
        if keeps_exception && dso.is_leaving(at, bias.to_svma(pc), machine) {
            return leaving::caller(self, frame, number, process);
        }
        let row = dso.row(number).ok_or(ChainEnd::BadUnwindInfo)?;
        let is_through_fp = through_fp::is_read_so(&row.cfa, machine);
        // Not taken apart: registers are large, and copied for each frame.
        let found = apply(row, &cursor.registers, process);
        if is_through_fp
            && let Ok(far) = &found
            && let Some(near) = through_fp::caller(self, frame, far, process)
        {
            return Ok(near);
        }
        // No thread starts in such a function: it has overwritten its frame.
        if keeps_exception && matches!(&found, Ok(caller) if caller.registers.pc() == 0) {
            return Err(ChainEnd::Unproven);
        }
        found
    }

    /// The caller of a frame that no rules of its dso cover.
    fn without_rules(
        &mut self,
        frame: DsoFrame<'_>,
        process: &mut impl Process,
    ) -> Result<Caller, ChainEnd> {
        let DsoFrame { cursor, id, bias } = frame;
        let machine = cursor.registers.machine();
        // No call stands before the first byte of a function that was put on
        // the stack as the last one to return to (`__start_context`).
        if !cursor.is_exact
            && self.call_before(machine, cursor.pc(), process) == Some(CallBefore::None)
            && let Some(dso) = self.dsos.get_mut(id)
            && let Rules::Row(number) = dso.rules(bias.to_svma(Avma(cursor.pc())), machine)
        {
            let caller = self.by_row(frame, number, process)?;
            // Nor was it called: what is above it on the stack is for it.
            let before = self.call_before(machine, caller.registers.pc(), process);
            return match before.is_some_and(CallBefore::is_call) {
                true => Ok(caller),
                false => Err(ChainEnd::Root),
            };
        }
        if machine == Machine::Aarch64 {
            return fallback::caller(self, cursor, process);
        }
        if let Some(caller) = signal_frame::interrupted(self, cursor, process) {
            return Ok(caller);
        }
        let at = bias.to_svma(cursor.lookup());
        let builtin = self.dsos.get_mut(id).and_then(|it| it.builtin(at));
        if let Some(start) = builtin {
            return followed::in_builtin(self, frame, start, process);
        }
        let by_runtime = haskell::known(self, frame, process);
        match by_runtime {
            Ok(Some(caller)) => return Ok(caller),
            // No other way leads on from there, and looking for one takes long.
            Err(cut) if cursor.is_exact() => return Err(cut),
            _ => {}
        }
        followed::caller(self, frame, process).or_else(|end| match (end, by_runtime) {
            // What is above what was copied may have told it.
            (ChainEnd::NoUnwindInfo, Err(cut)) => Err(cut),
            (ChainEnd::NoUnwindInfo | ChainEnd::StackCut, _) => {
                haskell::tried(self, frame, process).ok_or(end)
            }
            _ => Err(end),
        })
    }

    /// The caller of a frame whose maker told how it unwinds. What it tells is
    /// believed as far as it leads to where something was called; of code that
    /// it does not cover the frame pointer may tell.
    fn by_told(
        &mut self,
        frame: DsoFrame<'_>,
        process: &mut impl Process,
    ) -> Result<Caller, ChainEnd> {
        let DsoFrame { cursor, id, bias } = frame;
        let machine = cursor.registers.machine();
        // Older QEMU's rules hold for where it enters and leaves its code, too, which
        // they are not of.
        if cursor.is_exact()
            && machine == Machine::X86_64
            && let Some(caller) = made::by_epilogue(&cursor.registers, process)
            && let Some(before) = self.call_before(machine, caller.registers.pc(), process)
            && before.is_call()
        {
            return Ok(caller);
        }
        let dso = self.dsos.get_mut(id).ok_or(ChainEnd::NoUnwindInfo)?;
        let number = match dso.rules(bias.to_svma(cursor.lookup()), machine) {
            Rules::Row(number) => number,
            Rules::Damaged => return Err(ChainEnd::BadUnwindInfo),
            Rules::Switches | Rules::Nothing => return fallback::caller(self, cursor, process),
        };
        let caller = self.by_row(frame, number, process)?;
        let before = self.call_before(machine, caller.registers.pc(), process);
        match caller.is_exact || before.is_some_and(CallBefore::is_call) {
            true => Ok(caller),
            false => Err(ChainEnd::Unproven),
        }
    }

    fn find_caller(
        &mut self,
        cursor: &Cursor,
        process: &mut impl Process,
    ) -> Result<Caller, ChainEnd> {
        if let Some(registers) = signal_frame::before_handler(self, cursor, process) {
            let cursor = Cursor {
                registers,
                ..*cursor
            };
            return self.caller_in_place(&cursor, process);
        }
        self.caller_in_place(cursor, process)
    }

    /// The caller of a frame whose registers are as its code has them.
    fn caller_in_place(
        &mut self,
        cursor: &Cursor,
        process: &mut impl Process,
    ) -> Result<Caller, ChainEnd> {
        let machine = cursor.registers.machine();
        let place = process.place(cursor.lookup());
        if place == CodeAt::Anonymous
            && let Some(told) = process.told(cursor.lookup())
        {
            match told {
                Told::Rules(id, bias) => {
                    return self.by_told(DsoFrame { cursor, id, bias }, process);
                }
                Told::Erlang(erlang) => {
                    let frames = (erlang.has_frame_pointers, erlang.main);
                    if let Some(caller) = erlang::caller(self, cursor, frames, process) {
                        return caller;
                    }
                }
            }
        }
        match place {
            CodeAt::Dso { id, bias } => {
                let dso = self.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
                let pc = bias.to_svma(Avma(cursor.pc()));
                let frame = DsoFrame { cursor, id, bias };
                let starts_go = !cursor.is_exact() && dso.starts_go_function(pc, machine);
                if let Some(code) = dso.lua_at(pc)
                    && let Some(caller) = lua::in_interpreter(self, frame, code, process)
                {
                    return caller;
                }
                if starts_go {
                    return go::not_called(self, frame, process);
                }
                self.by_rules(frame, process)
            }
            CodeAt::Anonymous if cursor.called().is_some() => {
                fallback::just_called(self, cursor, process)
            }
            CodeAt::Anonymous => match lua::caller(self, cursor, process) {
                Some(caller) => caller,
                None => fallback::caller(self, cursor, process),
            },
            CodeAt::FileMissing => {
                fallback::caller(self, cursor, process).map_err(|end| match end {
                    ChainEnd::NoUnwindInfo => ChainEnd::FileMissing,
                    other => other,
                })
            }
            // A call through a wild pointer: the caller's address is on top.
            CodeAt::Nothing if cursor.is_exact => fallback::just_called(self, cursor, process),
            CodeAt::Nothing => Err(ChainEnd::Unproven),
        }
    }
}
