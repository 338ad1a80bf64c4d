//! Walking from a frame to its callers.

use crate::dso::Rules;
use crate::row::{Cfa, Row, Save};
use crate::{
    CallBefore, CodeAt, Machine, Process, Registers, UnwindDsoId, UnwindDsos, expression, fallback,
    followed, go, leaving,
};
use prof_profile::{Avma, Bias, ChainEnd, Svma};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// How often a walk may go on to a lower address: signal stacks, coroutines
/// and grown stacks lie anywhere, but an endless walk must end.
const MAX_STACK_SWITCHES: u32 = 64;

/// A frame while the stack is walked from callee to caller.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    registers: Registers,
    /// The pc is where it executes, not where a call returns to.
    is_exact: bool,
    switches: u32,
    /// In a Go function that switches stacks: where the function starts that
    /// it called. In code that V8 made and that has no frame yet: the place in
    /// the function that will make it. Else 0.
    called: u64,
    zero: Option<Zero>,
    /// A function on the way here is leaving for a landing pad. At last it
    /// writes the pad's address below the frame that goes on there: over the
    /// return address of the frame that is left.
    is_left: bool,
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
        let registers = &self.registers;
        let preserved: &[u8] = match registers.machine() {
            Machine::X86_64 => &[3, 6, 7, 12, 13, 14, 15],
            Machine::X86 => &[3, 4, 5, 6, 7],
            Machine::Aarch64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31],
        };
        let mut hasher = FxHasher::default();
        (self.pc(), self.is_exact, self.called).hash(&mut hasher);
        for &number in preserved {
            registers.known(number).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The address to look up rules for: for a return address one byte before
    /// it, since the call may be the last instruction of its function.
    #[inline]
    pub fn lookup(&self) -> Avma {
        Avma(self.pc().wrapping_sub(u64::from(!self.is_exact)))
    }
}

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
        let mut next = Cursor {
            registers: caller.registers,
            is_exact: caller.is_exact,
            switches,
            called: 0,
            zero: None,
            is_left: cursor.is_left || caller.by == StepBy::Leaving,
        };
        if cursor.is_left
            && !caller.is_exact
            && self.call_before(next.registers.machine(), next.pc(), process)
                == Some(CallBefore::None)
        {
            return Err(ChainEnd::Unproven);
        }
        let place = process.place(next.lookup());
        if place == CodeAt::Nothing {
            return Err(ChainEnd::Unproven);
        }
        if go::switches_stacks(self, &next, process) {
            next.called = go::start_of(self, cursor, process).unwrap_or(0);
        }
        if place == CodeAt::Anonymous && self.makes_callers_frame(cursor, process) {
            next.called = cursor.pc();
        }
        *cursor = next;
        Ok(Step {
            by: caller.by,
            base: caller.base,
            fp: caller.fp,
            slot: caller.slot,
        })
    }

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

    /// Of the Go function at `at`, which has no frame, and which the function
    /// called that returns to `outer`: where it returns to, and the size of that
    /// frame as [`Unwinder::go_frame`] tells it. `None` unless there is one such
    /// call only.
    pub fn go_caller(
        &mut self,
        machine: Machine,
        (at, outer): (Avma, u64),
        process: &mut impl Process,
    ) -> Option<(u64, u64)> {
        crate::go::caller_of_frameless(self, machine, (at, outer), process)
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
        let caller = apply(row, &cursor.registers, process)?;
        // No thread starts in such a function: it has overwritten its frame.
        if keeps_exception && caller.registers.pc() == 0 {
            return Err(ChainEnd::Unproven);
        }
        Ok(caller)
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
        if let Some(caller) = fallback::from_signal(self, &cursor.registers, process) {
            return Ok(caller);
        }
        let at = bias.to_svma(cursor.lookup());
        let builtin = self.dsos.get_mut(id).and_then(|it| it.builtin(at));
        match builtin {
            Some(start) => followed::in_builtin(self, frame, start, process),
            None => followed::caller(self, frame, process),
        }
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
        let machine = cursor.registers.machine();
        let place = process.place(cursor.lookup());
        if place == CodeAt::Anonymous
            && let Some((id, bias)) = process.told_rules(cursor.lookup())
        {
            return self.by_told(DsoFrame { cursor, id, bias }, process);
        }
        match place {
            CodeAt::Dso { id, bias } => {
                let dso = self.dsos.get_mut(id).ok_or(ChainEnd::FileMissing)?;
                let pc = bias.to_svma(Avma(cursor.pc()));
                let frame = DsoFrame { cursor, id, bias };
                if !cursor.is_exact() && dso.starts_go_function(pc, machine) {
                    return go::not_called(self, frame, process);
                }
                self.by_rules(frame, process)
            }
            CodeAt::Anonymous if cursor.called().is_some() => {
                fallback::just_called(self, cursor, process)
            }
            CodeAt::Anonymous => fallback::caller(self, cursor, process),
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

/// Computes the caller's registers by a row of rules.
pub(crate) fn apply(
    row: &Row,
    registers: &Registers,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let machine = registers.machine();
    let cfa = match &row.cfa {
        Cfa::Register { number, offset } => registers
            .known(*number)
            // A frame on the way could not tell it.
            .ok_or(ChainEnd::Unproven)?
            .wrapping_add_signed(*offset),
        Cfa::Expression(code) => {
            expression::evaluate(code, registers, None, process).ok_or(ChainEnd::BadUnwindInfo)?
        }
    };
    let mut caller = *registers;
    let mut fp = FpFrom::Callee;
    // What is not saved elsewhere: the stack pointer is the CFA.
    caller.set(machine.sp(), cfa);
    for (number, save) in &row.saves {
        if is_popped(save, cfa, registers.sp()) {
            continue;
        }
        if *number == machine.fp() {
            fp = match save {
                Save::At(offset) => FpFrom::Memory(cfa.wrapping_add_signed(*offset)),
                _ => FpFrom::Other,
            };
        }
        match value_of(save, registers, cfa, process) {
            Ok(value) => caller.set(*number, value),
            Err(_) => caller.forget(*number),
        }
    }
    if row.return_address == Save::Undefined {
        return Err(ChainEnd::Root);
    }
    let pc = value_of(&row.return_address, registers, cfa, process)?;
    caller.set_pc(pc);
    Ok(Caller {
        registers: caller,
        is_exact: row.is_signal_frame,
        by: StepBy::Rules,
        base: match (&row.cfa, &row.return_address) {
            (Cfa::Register { number, .. }, Save::At(_)) if *number == machine.sp() => Base::Stack,
            (Cfa::Register { number, .. }, Save::At(_)) if *number == machine.fp() => Base::Frame,
            _ => Base::Other,
        },
        fp,
        slot: match row.return_address {
            Save::At(offset) => Some(cfa.wrapping_add_signed(offset)),
            _ => None,
        },
    })
}

/// Whether a register's slot lies below the stack pointer: an epilogue has
/// popped it and the register holds its value again. gcc describes only that
/// the CFA has changed there.
fn is_popped(save: &Save, cfa: u64, sp: u64) -> bool {
    matches!(save, Save::At(offset) if cfa.wrapping_add_signed(*offset) < sp)
}

/// The caller's value of a saved register.
fn value_of(
    save: &Save,
    registers: &Registers,
    cfa: u64,
    process: &mut impl Process,
) -> Result<u64, ChainEnd> {
    let word = registers.machine().word();
    let bad = ChainEnd::BadUnwindInfo;
    match save {
        Save::Undefined => Err(bad),
        Save::At(offset) => process
            .word(cfa.wrapping_add_signed(*offset), word)
            .ok_or(ChainEnd::StackCut),
        Save::Is(offset) => Ok(cfa.wrapping_add_signed(*offset)),
        Save::Register(number) => registers.known(*number).ok_or(bad),
        Save::AtExpression(code) => {
            let address = expression::evaluate(code, registers, Some(cfa), process).ok_or(bad)?;
            process.word(address, word).ok_or(ChainEnd::StackCut)
        }
        Save::IsExpression(code) => {
            expression::evaluate(code, registers, Some(cfa), process).ok_or(bad)
        }
        Save::Constant(value) => Ok(*value),
    }
}
