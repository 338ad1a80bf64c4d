//! Frames of LuaJIT's compiled code.
//!
//! A trace is jumped to and has no return address. What is above it is the C
//! frame of the interpreter that it was entered from, as far up as the compiler
//! noted (see [`prof_runtimes::LuaJit`]); it counts if there is a return address
//! there behind a call of a function that makes such a frame, or behind a call
//! through a pointer, as that of a callback is.

use crate::cursor::{Caller, DsoFrame};
use crate::{Base, CallBefore, CodeAt, Cursor, FpFrom, Machine, Process, Registers, Unwinder};
use crate::{code_frame, made};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};
use prof_profile::{Avma, ChainEnd, Svma};
use prof_runtimes::{LuaJitEntry, LuaJitExit, LuaJitTrace, LuaJitVm};

/// Words of stack in which the interpreter's frame is looked for: a trace has at
/// most 1 KiB of its own.
const MAX_WORDS: u64 = 512;
/// Bytes of a trace's head, behind which its stack pointer stays.
const HEAD: usize = 256;
const BELOW_FRAME: u64 = LuaJitTrace::BELOW_FRAME;
/// Registers by their number in DWARF.
const RCX: u8 = 2;
const R12: u8 = 12;
const R13: u8 = 13;
const R14: u8 = 14;
/// Those that the interpreter saves below its return address, the first one
/// right below it: rbp, rbx, r15, r14.
const SAVED: [u8; 4] = [6, 3, 15, 14];

/// How far behind its first instruction a subroutine of the interpreter goes,
/// bytes.
const SUBROUTINE: u64 = 512;

/// Where the interpreter of LuaJIT is in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LuaCode {
    /// Where the interpreter begins, as its unwind information says.
    function: Svma,
    /// Addresses around it.
    start: Svma,
    end: Svma,
    /// Where code that leaves traces is, from [`LuaCode::start`] on.
    exit: LuaJitExit,
    /// The return address of the call in it, and bytes pushed there.
    returned: (Svma, u64),
    /// Where traces are entered and the stack pointer is as in them.
    entering: (Svma, Svma),
}

impl LuaCode {
    /// Of code that starts at `start`, if what leaves traces is in it.
    fn of(vm: &LuaJitVm, (function, start): (Svma, Svma), code: &[u8]) -> Option<Self> {
        let exit = LuaJitExit::in_code(code)?;
        let leaving = code.get(exit.start..exit.behind)?;
        let at = |offset: usize| start.0.checked_add(offset as u64);
        let (returned, pushed) = pushed(leaving, at(exit.start)?, None)?;
        let entering = vm.entering();
        Some(Self {
            function,
            start,
            end: Svma(at(code.len())?),
            exit,
            returned: (Svma(returned), pushed),
            entering: (Svma(at(entering.start)?), Svma(at(entering.end)?)),
        })
    }

    pub(crate) fn has(&self, at: Svma) -> bool {
        (self.start..self.end).contains(&at)
    }

    /// The address so far from the start.
    fn at(&self, offset: usize) -> Svma {
        Svma(self.start.0.saturating_add(offset as u64))
    }
}

/// What the code that leaves traces has pushed up to `pc`, or up to its call;
/// and that place, in the second case the one behind the call.
fn pushed(code: &[u8], start: u64, pc: Option<u64>) -> Option<(u64, u64)> {
    let mut pushed = LuaJitExit::PUSHED;
    for instruction in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if pc == Some(instruction.ip()) {
            return Some((instruction.ip(), pushed));
        }
        match instruction.mnemonic() {
            Mnemonic::Push => pushed += 8,
            Mnemonic::Call if pc.is_none() => return Some((instruction.next_ip(), pushed)),
            Mnemonic::Sub if instruction.op0_register() == Register::RSP => {
                pushed = pushed.checked_add(instruction.immediate(1))?;
            }
            _ if instruction.flow_control() != FlowControl::Next => return None,
            _ => {}
        }
    }
    None
}

/// The caller of a frame of the interpreter where its rules are wrong: in code
/// that leaves traces, and in subroutines that push nothing. `None` elsewhere.
pub(crate) fn in_interpreter(
    unwinder: &mut Unwinder,
    frame: DsoFrame<'_>,
    code: LuaCode,
    process: &mut impl Process,
) -> Option<Result<Caller, ChainEnd>> {
    let DsoFrame { cursor, id, bias } = frame;
    let registers = cursor.registers();
    let pc = bias.to_svma(Avma(cursor.pc()));
    let machine = registers.machine();
    let function = unwinder
        .dsos
        .get_mut(id)?
        .function(bias.to_svma(cursor.lookup()), machine);
    if machine != Machine::X86_64 || function != Some(code.function) {
        return None;
    }
    if (code.returned.0..code.at(code.exit.behind)).contains(&pc) {
        return Some(leaving(unwinder, registers, code.returned.1, process));
    }
    if !cursor.is_exact() {
        return None;
    }
    let first = code.at(code.exit.start);
    if (first..code.returned.0).contains(&pc) {
        let len = code.returned.0.0.checked_sub(first.0)?;
        let mut leaves = vec![0; usize::try_from(len).ok()?];
        let got = unwinder.dsos.get(id)?.code(first, &mut leaves);
        let pushed = pushed(leaves.get(..got)?, first.0, Some(pc.0));
        let (_, pushed) = pushed?;
        return Some(leaving(unwinder, registers, pushed, process));
    }
    let in_rcx = code.at(code.exit.behind + LuaJitExit::FRAME_IN_RCX);
    let is_entering = (code.entering.0..code.entering.1).contains(&pc);
    if is_entering || pc == code.at(code.exit.behind) {
        let frame = registers.sp().checked_add(BELOW_FRAME)?;
        return Some(above_frame(unwinder, registers, frame, process));
    }
    if (in_rcx..code.at(code.exit.behind + LuaJitExit::IN_FRAME)).contains(&pc) {
        return Some(above_frame(
            unwinder,
            registers,
            registers.known(RCX)?,
            process,
        ));
    }
    if let Some(caller) = at_either_end(unwinder, registers, process) {
        return Some(Ok(caller));
    }
    // The interpreter's own frame is at a multiple of 16.
    (!registers.sp().is_multiple_of(16))
        .then(|| in_subroutine(unwinder, registers, process).ok_or(ChainEnd::Unproven))
}

/// The caller of a function that enters the interpreter, while it saves registers
/// or gets them back: its unwind information knows the whole frame only.
fn at_either_end(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    let mut read = |at: u64, out: &mut [u8]| unwinder.code(Avma(at), out, process);
    let pc = registers.pc();
    let caller = match code_frame::epilogue(Machine::X86_64, pc, &mut read) {
        Some(frame) => made::by_code(registers, &frame, process).ok()?,
        None => {
            const BEFORE: usize = 2;
            let mut code = [0; BEFORE + LuaJitEntry::CODE];
            let got = read(pc.checked_sub(BEFORE as u64)?, &mut code);
            let saved = LuaJitEntry::saved_at(code.get(..got)?.split_at_checked(BEFORE)?)?;
            let slot = registers.sp().checked_add(saved as u64 * 8)?;
            let mut caller = *registers;
            caller.set_pc(process.word(slot, 8)?);
            caller.set(Machine::X86_64.sp(), slot.checked_add(8)?);
            // What is saved was not changed yet.
            Caller {
                base: Base::Stack,
                ..Caller::found(caller, FpFrom::Callee, slot)
            }
        }
    };
    let before = unwinder.call_before(Machine::X86_64, caller.registers.pc(), process);
    before.is_some_and(CallBefore::is_call).then_some(caller)
}

/// The caller of a subroutine of the interpreter that pushes nothing, known by
/// the call to it.
fn in_subroutine(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    let pc = process.word(registers.sp(), 8)?;
    let CallBefore::Direct(displacement) = unwinder.call_before(Machine::X86_64, pc, process)?
    else {
        return None;
    };
    let into = registers
        .pc()
        .checked_sub(pc.wrapping_add_signed(displacement))?;
    let mut caller = *registers;
    caller.set_pc(pc);
    caller.set(Machine::X86_64.sp(), registers.sp().checked_add(8)?);
    (into < SUBROUTINE).then(|| Caller {
        base: Base::Stack,
        ..Caller::found(caller, FpFrom::Callee, registers.sp())
    })
}

/// The caller where a trace is being left, which added one of the amounts that
/// traces add: the one at which there is a return address of the interpreter, if
/// there is no other.
fn leaving(
    unwinder: &Unwinder,
    registers: &Registers,
    pushed: u64,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let dispatch = registers.known(R14).ok_or(ChainEnd::Unproven)?;
    let mut found = None;
    for room in process.lua_rooms(dispatch) {
        let frame = registers.sp().checked_add(pushed + BELOW_FRAME + room);
        let frame = frame.ok_or(ChainEnd::Unproven)?;
        match (above_frame(unwinder, registers, frame, process), &found) {
            (Ok(caller), None) => found = Some(caller),
            (Ok(_), Some(_)) => return Err(ChainEnd::Unproven),
            (Err(ChainEnd::StackCut), _) => return Err(ChainEnd::StackCut),
            (Err(_), _) => {}
        }
    }
    let caller = found.ok_or(ChainEnd::Unproven)?;
    // By what traces there are now, not by what the code alone says.
    Ok(Caller {
        base: Base::Other,
        ..caller
    })
}

/// The caller of a frame of compiled Lua; `None` if it is none.
pub(crate) fn caller(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<Result<Caller, ChainEnd>> {
    let registers = cursor.registers();
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    // In traces it holds the address of the dispatch table all the time.
    let dispatch = registers.known(R14).filter(|it| it.is_multiple_of(8))?;
    if process.wants_lua()
        && let Some(vm) = interpreter(unwinder, registers.sp(), process)
    {
        process.found_lua(vm);
    }
    let trace = process.lua_trace(cursor.lookup(), dispatch)?;
    Some(out_of_trace(unwinder, cursor, trace, process))
}

/// Looks for the interpreter by the functions that enter it, one of which has
/// its return address on the stack.
fn interpreter(unwinder: &mut Unwinder, sp: u64, process: &mut impl Process) -> Option<LuaJitVm> {
    for index in 0..MAX_WORDS {
        let slot = sp.checked_add(index * 8)?;
        let pc = process.word(slot, 8)?;
        let is_code = matches!(process.place(Avma(pc.wrapping_sub(1))), CodeAt::Dso { .. });
        let entry = is_code
            .then(|| entry_called(unwinder, pc, process))
            .flatten();
        let Some((target, _)) = entry else {
            continue;
        };
        if let CodeAt::Dso { id, bias } = process.place(Avma(target))
            && let Some(dso) = unwinder.dsos.get_mut(id)
        {
            let (before, behind) = LuaJitVm::AROUND;
            let (start, code) = dso.code_around(bias.to_svma(Avma(target)), before, behind);
            if let Some(vm) = LuaJitVm::in_code(&code) {
                let function = dso.function(bias.to_svma(Avma(target)), Machine::X86_64);
                if let Some(code) = function.and_then(|it| LuaCode::of(&vm, (it, start), &code)) {
                    dso.has_lua(code);
                }
                return Some(vm);
            }
        }
    }
    None
}

/// The function that enters the interpreter and was called where a return
/// address says.
fn entry_called(
    unwinder: &Unwinder,
    pc: u64,
    process: &mut impl Process,
) -> Option<(u64, LuaJitEntry)> {
    let CallBefore::Direct(displacement) = unwinder.call_before(Machine::X86_64, pc, process)?
    else {
        return None;
    };
    let target = pc.wrapping_add_signed(displacement);
    let mut code = [0; LuaJitEntry::CODE];
    let got = unwinder.code(Avma(target), &mut code, process);
    let entry = LuaJitEntry::of_code(code.get(..got)?)?;
    Some((target, entry))
}

/// The caller of the interpreter in whose C frame a trace runs.
fn out_of_trace(
    unwinder: &Unwinder,
    cursor: &Cursor,
    trace: LuaJitTrace,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = cursor.registers();
    let added = match cursor.is_exact() {
        true => added(trace, registers.pc(), process).ok_or(ChainEnd::NoUnwindInfo)?,
        false => trace.spadjust,
    };
    let frame = registers.sp().checked_add(added + BELOW_FRAME);
    above_frame(
        unwinder,
        registers,
        frame.ok_or(ChainEnd::Unproven)?,
        process,
    )
}

/// The caller of the interpreter with this C frame.
fn above_frame(
    unwinder: &Unwinder,
    registers: &Registers,
    frame: u64,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    if !frame.is_multiple_of(16) {
        return Err(ChainEnd::Unproven);
    }
    for entry in LuaJitEntry::KINDS {
        let slot = frame.wrapping_add(entry.to_return);
        let pc = process.word(slot, 8).ok_or(ChainEnd::StackCut)?;
        if is_entered(unwinder, (pc, entry), process, |process| {
            is_frame(registers, frame, process)
        }) {
            let registers = restored(registers, (frame, slot), process);
            return Ok(Caller {
                base: Base::Stack,
                ..Caller::found(
                    registers.ok_or(ChainEnd::StackCut)?,
                    FpFrom::Memory(slot - 8),
                    slot,
                )
            });
        }
    }
    Err(ChainEnd::Unproven)
}

/// Whether a return address is that of the interpreter.
fn is_entered<P: Process>(
    unwinder: &Unwinder,
    (pc, entry): (u64, LuaJitEntry),
    process: &mut P,
    is_frame: impl FnOnce(&mut P) -> bool,
) -> bool {
    match unwinder.call_before(Machine::X86_64, pc, process) {
        Some(CallBefore::Direct(_)) => {
            let called = entry_called(unwinder, pc, process);
            called.is_some_and(|(_, called)| called == entry)
        }
        // A callback, or a function that ends by a jump into the interpreter. So is
        // much else called, of which return addresses are left on the stack.
        Some(CallBefore::Indirect) => entry == LuaJitEntry::KINDS[0] && is_frame(process),
        Some(CallBefore::None) | None => false,
    }
}

/// Whether there is what the interpreter writes into its C frame: the state that
/// runs in it, which may be gone when it is looked for; or else something like a
/// state, how many results are wanted, and the state's C frame before, if it has one.
fn is_frame(registers: &Registers, frame: u64, process: &mut impl Process) -> bool {
    const MOST_RESULTS: u64 = 1 << 8;
    const MOST_STACK: u64 = 1 << 23;
    let mut word = |offset: u64| process.word(frame.checked_add(offset)?, 8);
    let words = [LuaJitTrace::STATE_IN_FRAME, 8, 32].map(&mut word);
    let [Some(state), Some(wanted), Some(outer)] = words else {
        return false;
    };
    let dispatch = registers.known(R14).unwrap_or(0);
    if process.is_lua_state(state, dispatch) {
        return true;
    }
    // Beside it is what only some of the ways in write.
    let results = wanted & 0xffff_ffff;
    let stack = frame..frame.saturating_add(MOST_STACK);
    // The two lowest bits of a C frame's address are marks.
    let is_outer = outer == 0 || stack.contains(&outer) && outer & 0b1100 == 0;
    let low = frame.saturating_sub(MOST_STACK);
    let is_state = state.is_multiple_of(8) && state != 0 && !(low..stack.end).contains(&state);
    is_state && state >> 47 == 0 && results < MOST_RESULTS && is_outer
}

/// The registers of the caller.
fn restored(
    registers: &Registers,
    (frame, slot): (u64, u64),
    process: &mut impl Process,
) -> Option<Registers> {
    let mut caller = *registers;
    let mut word = |at: u64| process.word(at, 8);
    caller.set_pc(word(slot)?);
    caller.set(Machine::X86_64.sp(), slot.wrapping_add(8));
    caller.set(R12, word(frame)?);
    caller.set(R13, word(frame.wrapping_sub(8))?);
    for (index, number) in SAVED.into_iter().enumerate() {
        caller.set(number, word(slot.wrapping_sub(8 * (index as u64 + 1)))?);
    }
    Some(caller)
}

/// How much the trace has on the stack at `pc`, bytes: nothing before the
/// instruction at its start that makes room, what its parent has where the room
/// grows from there, and nothing behind the one at its end that gives it back.
fn added(trace: LuaJitTrace, pc: u64, process: &mut impl Process) -> Option<u64> {
    if trace.spadjust == 0 {
        return Some(0);
    }
    /// `add`, and `lea` where that was thought to be faster, then `jmp`.
    const MOST_BEFORE: u64 = 8;
    let mut tail = [0; MOST_BEFORE as usize + 1];
    let before = pc.saturating_sub(MOST_BEFORE).max(trace.start);
    let len = (pc - before) as usize;
    let code = tail.get_mut(..=len)?;
    if process.code(Avma(before), code) != code.len() {
        return None;
    }
    let (jump, code) = code.split_last()?;
    if *jump == 0xe9 && frees(code) == Some(trace.spadjust) {
        return Some(0);
    }
    let len = usize::try_from(trace.end - trace.start).ok()?.min(HEAD);
    let mut head = vec![0; len];
    let got = process.code(Avma(trace.start), &mut head);
    head.truncate(got);
    let head = head.get(..len)?;
    match made_room(head, trace.start) {
        Some((at, room)) if pc <= at => trace.spadjust.checked_sub(room),
        _ => Some(trace.spadjust),
    }
}

/// How much the instruction that ends a piece of code adds to the stack pointer.
fn frees(code: &[u8]) -> Option<u64> {
    let short = code.last().map(|byte| i64::from(byte.cast_signed()));
    let long = code
        .last_chunk()
        .map(|it| i64::from(i32::from_le_bytes(*it)));
    let before = |behind: usize| code.get(..code.len().checked_sub(behind)?);
    let ends = |behind: usize, with: &[u8]| before(behind).is_some_and(|it| it.ends_with(with));
    let is_short = ends(1, &[0x48, 0x83, 0xc4]) || ends(1, &[0x48, 0x8d, 0x64, 0x24]);
    let is_long = ends(4, &[0x48, 0x81, 0xc4]) || ends(4, &[0x48, 0x8d, 0xa4, 0x24]);
    let freed = match (is_short, is_long) {
        (true, _) => short,
        (false, true) => long,
        (false, false) => None,
    };
    freed.and_then(|freed| u64::try_from(freed).ok())
}

/// Where a trace makes room on the stack, and how much.
fn made_room(code: &[u8], start: u64) -> Option<(u64, u64)> {
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    for instruction in decoder {
        let is_next = instruction.flow_control() == FlowControl::Next;
        if instruction.code() == Code::INVALID || !is_next {
            return None;
        }
        if instruction.op_count() == 0
            || instruction.op0_kind() != OpKind::Register
            || instruction.op0_register() != Register::RSP
        {
            continue;
        }
        let change = match instruction.mnemonic() {
            Mnemonic::Sub => (instruction.immediate(1) as i64).wrapping_neg(),
            Mnemonic::Add => instruction.immediate(1) as i64,
            Mnemonic::Lea if instruction.memory_base() == Register::RSP => {
                instruction.memory_displacement64() as i64
            }
            // Anything else is no trace's.
            _ => continue,
        };
        let room = u64::try_from(change.checked_neg()?).ok()?;
        return Some((instruction.ip(), room));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{BELOW_FRAME, added, frees, made_room, pushed};
    use crate::{CodeAt, Cursor, Machine, Process, Registers, Unwinder};
    use prof_profile::{Avma, ChainEnd};
    use prof_runtimes::LuaJitTrace;
    use std::collections::HashMap;

    const DISPATCH: u64 = 0x8000;
    const STACK: u64 = 0x1000;
    const STATE: u64 = 0x7f00_0000_8800;
    /// The trace, `lua_call`, and the function that enters the interpreter.
    const TRACE: LuaJitTrace = LuaJitTrace {
        start: 0x10000,
        end: 0x10040,
        spadjust: 32,
    };
    const CALLER: u64 = 0x20000;
    const ENTRY: u64 = 0x20100;
    /// `push %rbp, %rbx, %r15, %r14; sub $40,%rsp`.
    const SAVES: [u8; 10] = [0x55, 0x53, 0x41, 0x57, 0x41, 0x56, 0x48, 0x83, 0xec, 0x28];

    /// A process with such code, a stack, and one trace.
    struct Lua {
        stack: HashMap<u64, u64>,
        code: Vec<(u64, Vec<u8>)>,
    }

    impl Process for Lua {
        fn place(&mut self, pc: Avma) -> CodeAt {
            match (0x10000..0x30000).contains(&pc.0) {
                true => CodeAt::Anonymous,
                false => CodeAt::Nothing,
            }
        }

        fn word(&mut self, address: u64, _: u8) -> Option<u64> {
            let is_there = (STACK..STACK + 0x400).contains(&address);
            is_there.then(|| self.stack.get(&address).copied().unwrap_or(0))
        }

        fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
            for (index, byte) in out.iter_mut().enumerate() {
                let at = at.0 + index as u64;
                let of = |(start, code): &(u64, Vec<u8>)| {
                    let from = usize::try_from(at.checked_sub(*start)?).ok()?;
                    code.get(from).copied()
                };
                *byte = self.code.iter().find_map(of).unwrap_or(0x90);
            }
            out.len()
        }

        fn lua_trace(&mut self, pc: Avma, dispatch: u64) -> Option<LuaJitTrace> {
            let is_it = dispatch == DISPATCH && (TRACE.start..TRACE.end).contains(&pc.0);
            is_it.then_some(TRACE)
        }

        fn is_lua_state(&mut self, state: u64, dispatch: u64) -> bool {
            (state, dispatch) == (STATE, DISPATCH)
        }
    }

    /// The process, where the C frame of the trace is `frame`.
    fn process(frame: u64, call: [u8; 5]) -> Lua {
        let saved = [(40, 14), (48, 15), (56, 3), (64, 6), (0, 12)];
        let saved = saved.map(|(offset, number)| (frame + offset, 0x100 + number));
        let mut stack = HashMap::from(saved);
        stack.insert(frame - 8, 0x100 + 13);
        stack.insert(frame + 72, CALLER + 5);
        stack.insert(frame + 16, STATE);
        let mut trace = vec![0x90; 0x40];
        // add $-32,%rsp after some loads; add $32,%rsp; jmp at its end.
        trace[3..7].copy_from_slice(&[0x48, 0x83, 0xc4, 0xe0]);
        trace[0x37..0x3c].copy_from_slice(&[0x48, 0x83, 0xc4, 0x20, 0xe9]);
        let code = vec![
            (TRACE.start, trace),
            (CALLER, call.to_vec()),
            (ENTRY, SAVES.to_vec()),
        ];
        Lua { stack, code }
    }

    const CALL: [u8; 5] = [0xe8, 0xfb, 0, 0, 0];

    /// The caller of the trace at `pc`, and what registers it has.
    fn caller(pc: u64, sp: u64, process: &mut Lua) -> Result<(u64, u64, Vec<u64>), ChainEnd> {
        let mut registers = Registers::new(Machine::X86_64, pc, sp);
        for number in [3, 6, 12, 13, 15] {
            registers.set(number, 0);
        }
        registers.set(14, DISPATCH);
        let mut cursor = Cursor::innermost(registers);
        Unwinder::default().step(&mut cursor, process)?;
        let of = |number: u8| cursor.registers().known(number).unwrap_or(0);
        let saved = [3, 6, 12, 13, 14, 15].map(of).to_vec();
        Ok((cursor.pc(), cursor.registers().sp(), saved))
    }

    #[test]
    fn a_trace_is_called_by_who_entered_the_interpreter() {
        let frame = STACK + 0x100;
        let saved = [3, 6, 12, 13, 14, 15].map(|number| 0x100 + number).to_vec();
        let expected = Ok((CALLER + 5, frame + 80, saved));
        let mut process = process(frame, CALL);
        // Before the room is made, with it, and behind the end of it.
        let below = frame - BELOW_FRAME;
        for (pc, sp) in [
            (0, below),
            (3, below),
            (7, below - 32),
            (0x37, below - 32),
            (0x3b, below),
        ] {
            let found = caller(TRACE.start + pc, sp, &mut process);
            assert_eq!(found, expected, "{pc:#x}");
        }
        // Where the frame is not, nothing is believed.
        for sp in [below - 48, below - 16, below - 40, below] {
            let found = caller(TRACE.start + 0x10, sp, &mut process);
            assert_eq!(found, Err(ChainEnd::Unproven), "{sp:#x}");
        }
        let found = caller(TRACE.start + 0x10, STACK + 0x3c0, &mut process);
        assert_eq!(found, Err(ChainEnd::StackCut));
    }

    #[test]
    fn only_a_call_of_what_makes_such_a_frame_or_by_a_pointer_counts() {
        let frame = STACK + 0x100;
        let sp = frame - BELOW_FRAME - 32;
        let by = |call: [u8; 5]| {
            let found = caller(TRACE.start + 0x10, sp, &mut process(frame, call));
            found.map(|(pc, ..)| pc)
        };
        assert_eq!(by(CALL), Ok(CALLER + 5));
        // Of another function; no call; call *%rax.
        assert_eq!(by([0xe8, 0xfa, 0, 0, 0]), Err(ChainEnd::Unproven));
        assert_eq!(by([0xe9, 0xfb, 0, 0, 0]), Err(ChainEnd::Unproven));
        const BY_POINTER: [u8; 5] = [0x90, 0x90, 0x90, 0xff, 0xd0];
        assert_eq!(by(BY_POINTER), Ok(CALLER + 5));
        // What any other call left there is no frame of the interpreter.
        let with = |words: [u64; 3]| {
            let mut other = process(frame, BY_POINTER);
            for (offset, word) in [16, 8, 32].into_iter().zip(words) {
                other.stack.insert(frame + offset, word);
            }
            caller(TRACE.start + 0x10, sp, &mut other).map(|(pc, ..)| pc)
        };
        const GONE: u64 = STATE + 8;
        const UNPROVEN: Result<u64, ChainEnd> = Err(ChainEnd::Unproven);
        assert_eq!(with([GONE, 2 | 48 << 32, frame + 0x101]), Ok(CALLER + 5));
        assert_eq!(with([GONE, 0xffff_ffff << 32, 0]), Ok(CALLER + 5));
        assert_eq!(with([0, 0, 0]), UNPROVEN, "no state");
        assert_eq!(with([frame + 0x40, 0, 0]), UNPROVEN, "on the stack");
        assert_eq!(with([GONE, CALLER, 0]), UNPROVEN, "so many results");
        assert_eq!(with([GONE, 0, 1 << 40]), UNPROVEN, "no frame outside it");
        assert_eq!(
            with([GONE, 0, frame + 0x108]),
            UNPROVEN,
            "not where frames are"
        );
    }

    #[test]
    fn room_is_made_and_freed_in_every_way_that_it_is_written() {
        let room = |code: &[u8]| made_room(code, 0x100);
        assert_eq!(room(&[0x48, 0x83, 0xc4, 0x80]), Some((0x100, 128)));
        assert_eq!(room(&[0x90, 0x48, 0x83, 0xec, 0x10]), Some((0x101, 16)));
        let long = [0x48, 0x81, 0xec, 0, 1, 0, 0];
        assert_eq!(room(&long), Some((0x100, 256)));
        assert_eq!(room(&[0x48, 0x8d, 0x64, 0x24, 0xf0]), Some((0x100, 16)));
        assert_eq!(
            room(&[0xeb, 0, 0x48, 0x83, 0xec, 0x10]),
            None,
            "behind a jump"
        );
        assert_eq!(frees(&[0x90, 0x48, 0x83, 0xc4, 0x10]), Some(16));
        assert_eq!(frees(&[0x48, 0x81, 0xc4, 0, 1, 0, 0]), Some(256));
        assert_eq!(frees(&[0x48, 0x8d, 0x64, 0x24, 0x20]), Some(32));
        assert_eq!(frees(&[0x48, 0x83, 0xc4]), None);
        assert_eq!(frees(&[]), None);
    }

    #[test]
    fn nothing_is_read_of_a_trace_that_adds_nothing() {
        let trace = LuaJitTrace {
            spadjust: 0,
            ..TRACE
        };
        let mut nothing = Lua {
            stack: HashMap::new(),
            code: Vec::new(),
        };
        assert_eq!(added(trace, TRACE.start + 5, &mut nothing), Some(0));
    }

    #[test]
    fn what_was_pushed_on_leaving_is_counted_up_to_a_place_or_the_call() {
        // push %r13, %rax; sub $128,%rsp; call
        let code = [
            0x41, 0x55, 0x50, 0x48, 0x81, 0xec, 0x80, 0, 0, 0, 0xe8, 0, 0, 0, 0,
        ];
        let at = |pc: Option<u64>| pushed(&code, 0x100, pc);
        assert_eq!(at(Some(0x100)), Some((0x100, 16)));
        assert_eq!(at(Some(0x102)), Some((0x102, 24)));
        assert_eq!(at(Some(0x101)), None, "within an instruction");
        assert_eq!(at(None), Some((0x10f, 16 + 16 + 128)));
    }
}
