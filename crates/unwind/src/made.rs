//! Frames of code that a runtime made and tells of: HotSpot's.
//!
//! Of compiled code the size of the frame is known once it is made; before
//! and after, the code itself shows where the return address is. Frames of
//! the interpreter keep a frame pointer, but methods are entered and left
//! with the return address in a register.

use crate::code_frame::{self, CallerFp, CodeFrame, ReadCode, Slot, Wanted};
use crate::cursor::Caller;
use crate::{Base, CallBefore, CodeAt, Cursor, FpFrom, Machine, Process, Registers, Unwinder};
use prof_profile::{Avma, ChainEnd};
use prof_runtimes::RuntimeCode;

/// How far into a piece of the interpreter a method gets its frame, bytes.
const TO_FRAME: usize = 160;
/// How far before a place assembly may have made its frame, bytes.
const BACK_TO_FRAME: u64 = 4096;
/// Places at which it may have that are tried.
const MAX_BEGINNINGS: usize = 8;
/// The most by which an interpreted method's locals and arguments lie between
/// its frame and its caller's: 65 535 locals and the return address.
const MAX_LOCALS: u64 = (1 << 19) + 16;
/// Words between the frames of a virtual thread and the end of the frame that entered
/// it, with arguments on the stack.
const MAX_ENTRY: u64 = 64;
/// `push %rbp; mov %rsp,%rbp` as the assembler of HotSpot writes it.
const MAKES_FRAME: [u8; 4] = [0x55, 0x48, 0x8b, 0xec];
/// Numbers of registers in DWARF.
const RAX: u8 = 0;
const RBX: u8 = 3;
const R13: u8 = 13;

/// What is known of the code at a frame's place.
pub(crate) fn at(cursor: &Cursor, process: &mut impl Process) -> Option<RuntimeCode> {
    if cursor.registers().machine() != Machine::X86_64 {
        return None;
    }
    match cursor.is_exact() {
        true => process.runtime_code(Avma(cursor.pc())),
        false => returned_to(cursor.pc(), process),
    }
}

/// The code that a return address is of. That of the interpreter need not follow a
/// call, nor that of what brings frames of virtual threads back.
fn returned_to(pc: u64, process: &mut impl Process) -> Option<RuntimeCode> {
    use RuntimeCode::{Continuation, Interpreter};
    match process.runtime_code(Avma(pc)) {
        Some(code @ (Interpreter { .. } | Continuation { .. })) => Some(code),
        _ => process.runtime_code(Avma(pc.wrapping_sub(1))),
    }
}

/// The caller of a frame of such code.
pub(crate) fn caller(
    unwinder: &Unwinder,
    cursor: &Cursor,
    code: RuntimeCode,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = cursor.registers();
    let caller = match (code, cursor.is_exact()) {
        (RuntimeCode::Compiled { size, .. }, false) => sized(registers, size, process),
        (
            RuntimeCode::Compiled {
                start,
                complete,
                size,
                ..
            },
            true,
        ) => interrupted(registers, (start, complete, size), process),
        (RuntimeCode::Interpreter { is_entry, .. }, false) if !is_entry || has_frame(registers) => {
            interpreted(registers, process)
        }
        (RuntimeCode::Interpreter { start, is_entry }, true) => {
            in_interpreter(registers, (start, is_entry), process)
        }
        (RuntimeCode::Frameless, true) => at_slot(registers, 0, FpFrom::Callee, process),
        (RuntimeCode::Stub { start } | RuntimeCode::Continuation { start, .. }, true) => {
            in_stub(registers, start, process)
        }
        (RuntimeCode::Continuation { entry, .. }, false)
            if !follows_call(unwinder, cursor, process) =>
        {
            below_heap(unwinder, (registers, entry), process)
        }
        (RuntimeCode::Stub { .. } | RuntimeCode::Continuation { .. }, false) => {
            by_fp(registers, process)
        }
        _ => Err(ChainEnd::NoUnwindInfo),
    }?;
    match is_caller(unwinder, &caller.registers, process) {
        true => Ok(caller),
        false => Err(ChainEnd::Unproven),
    }
}

/// Whether a frame stands behind a call.
fn follows_call(unwinder: &Unwinder, cursor: &Cursor, process: &mut impl Process) -> bool {
    let before = unwinder.call_before(Machine::X86_64, cursor.pc(), process);
    before.is_some_and(CallBefore::is_call)
}

/// The caller of the frames of a virtual thread, the outer ones of which are in the heap:
/// a frame that returns to what brings them back stands right below that of
/// `Continuation.enterSpecial`. That holds what is known of the virtual thread, `entry`
/// bytes, then the frame pointer and the return address, which is of a method. In what is
/// known may be words of what was on the stack before, return addresses some.
fn below_heap(
    unwinder: &Unwinder,
    (registers, entry): (&Registers, u64),
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    for number in 1 + entry / 8..MAX_ENTRY {
        let to_return = number * 8;
        let slot = registers.sp().wrapping_add(to_return);
        let caller = at_slot(
            registers,
            to_return,
            FpFrom::Memory(slot.wrapping_sub(8)),
            process,
        )?;
        let registers = &caller.registers;
        if slot % 16 == 8
            && is_of_method(registers.pc(), process)
            && is_caller(unwinder, registers, process)
        {
            return Ok(caller);
        }
    }
    Err(ChainEnd::Unproven)
}

/// Whether a return address is in the code of a method.
fn is_of_method(pc: u64, process: &mut impl Process) -> bool {
    process.place(Avma(pc.wrapping_sub(1))) == CodeAt::Anonymous
        && matches!(
            returned_to(pc, process),
            Some(RuntimeCode::Interpreter { .. } | RuntimeCode::Compiled { .. })
        )
}

/// Whether a return address is one.
fn is_caller(unwinder: &Unwinder, caller: &Registers, process: &mut impl Process) -> bool {
    let pc = caller.pc();
    let follows_call = |process: &mut _| {
        let before = unwinder.call_before(Machine::X86_64, pc, process);
        before.is_some_and(CallBefore::is_call)
    };
    match process.place(Avma(pc.wrapping_sub(1))) {
        CodeAt::Nothing => false,
        CodeAt::Dso { .. } | CodeAt::FileMissing => follows_call(process),
        CodeAt::Anonymous => match returned_to(pc, process) {
            Some(RuntimeCode::Interpreter { .. }) => has_frame(caller),
            Some(RuntimeCode::Compiled { deopt, .. }) => pc == deopt || follows_call(process),
            Some(RuntimeCode::Frameless) => false,
            Some(RuntimeCode::Continuation { .. }) => true,
            Some(RuntimeCode::Stub { .. }) | None => follows_call(process),
        },
    }
}

/// Whether the frame pointer may be that of this frame.
fn has_frame(registers: &Registers) -> bool {
    let fp = registers.fp().unwrap_or(0);
    fp >= registers.sp() && fp.is_multiple_of(8)
}

/// The caller above a frame of `size` bytes with the return address, right
/// below which the frame pointer is saved.
fn sized(registers: &Registers, size: u64, process: &mut impl Process) -> Result<Caller, ChainEnd> {
    let to_return = size.checked_sub(8).ok_or(ChainEnd::BadUnwindInfo)?;
    let slot = registers.sp().wrapping_add(to_return);
    at_slot(
        registers,
        to_return,
        FpFrom::Memory(slot.wrapping_sub(8)),
        process,
    )
}

/// The caller whose return address is so far above the stack pointer.
fn at_slot(
    registers: &Registers,
    to_return: u64,
    fp: FpFrom,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let slot = registers.sp().checked_add(to_return);
    let slot = slot.ok_or(ChainEnd::BadUnwindInfo)?;
    let mut caller = *registers;
    caller.set_pc(process.word(slot, 8).ok_or(ChainEnd::StackCut)?);
    if let FpFrom::Memory(at) = fp {
        let saved = process.word(at, 8).ok_or(ChainEnd::StackCut)?;
        caller.set(Machine::X86_64.fp(), saved);
    }
    caller.set(Machine::X86_64.sp(), slot.wrapping_add(8));
    Ok(Caller {
        base: Base::Stack,
        ..Caller::found(caller, fp, slot)
    })
}

/// The caller by the frame pointer, which was made at the function's start.
fn by_fp(registers: &Registers, process: &mut impl Process) -> Result<Caller, ChainEnd> {
    let fp = registers.fp().filter(|_| has_frame(registers));
    let fp = fp.ok_or(ChainEnd::NoUnwindInfo)?;
    let to_return = fp.wrapping_sub(registers.sp()).wrapping_add(8);
    let caller = at_slot(registers, to_return, FpFrom::Memory(fp), process)?;
    Ok(Caller {
        base: Base::Frame,
        ..caller
    })
}

/// The caller of an interpreted method that has its frame.
fn interpreted(registers: &Registers, process: &mut impl Process) -> Result<Caller, ChainEnd> {
    let mut caller = by_fp(registers, process)?;
    let fp = registers.fp().unwrap_or(0);
    let sender = match fp == registers.sp() {
        // Just made, nothing below it yet.
        true => registers.known(R13),
        false => process.word(fp.wrapping_sub(8), 8),
    };
    let sender = sender.ok_or(ChainEnd::StackCut)?;
    let above = sender.wrapping_sub(fp);
    if !(16..=MAX_LOCALS).contains(&above) || !sender.is_multiple_of(8) {
        return Err(ChainEnd::Unproven);
    }
    caller.registers.set(Machine::X86_64.sp(), sender);
    Ok(caller)
}

/// Reads code, some more than is asked for.
pub(crate) fn reader(process: &mut impl Process) -> impl ReadCode {
    code_frame::ahead(|at: u64, out: &mut [u8]| process.code(Avma(at), out))
}

/// The caller of compiled code that was interrupted.
fn interrupted(
    registers: &Registers,
    (start, complete, size): (u64, u64, u64),
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let pc = registers.pc();
    let frame = {
        let mut read = reader(process);
        match pc < complete {
            true => code_frame::follow(Machine::X86_64, start, Wanted::Exact(pc), &mut read),
            false => code_frame::epilogue(Machine::X86_64, pc, &mut read),
        }
    };
    match frame {
        Some(frame) => by_code(registers, &frame, process),
        None if pc < complete => Err(ChainEnd::NoUnwindInfo),
        None => sized(registers, size, process),
    }
}

/// The caller of a frame behind which only pops and a return follow.
pub(crate) fn by_epilogue(registers: &Registers, process: &mut impl Process) -> Option<Caller> {
    let frame = code_frame::epilogue(Machine::X86_64, registers.pc(), &mut reader(process))?;
    by_code(registers, &frame, process).ok()
}

/// The caller by what the code shows.
pub(crate) fn by_code(
    registers: &Registers,
    frame: &CodeFrame,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let to_return = match frame.return_address {
        Slot::FromSp(offset) => u64::try_from(offset).ok(),
        Slot::FromFp(offset) => registers
            .fp()
            .and_then(|fp| fp.checked_add_signed(offset)?.checked_sub(registers.sp())),
        Slot::KeptIn(..) | Slot::KeptAt(..) => None,
    };
    let to_return = to_return.ok_or(ChainEnd::Unproven)?;
    let slot = registers.sp().wrapping_add(to_return);
    let fp = match frame.caller_fp {
        Some(CallerFp::InRegister) => FpFrom::Callee,
        Some(CallerFp::Saved(below)) => FpFrom::Memory(slot.wrapping_add_signed(-below)),
        None => return Err(ChainEnd::Unproven),
    };
    let caller = at_slot(registers, to_return, fp, process)?;
    let base = match frame.return_address {
        Slot::FromSp(_) => Base::Stack,
        Slot::FromFp(_) => Base::Frame,
        Slot::KeptIn(..) | Slot::KeptAt(..) => Base::Other,
    };
    Ok(Caller { base, ..caller })
}

/// The caller of assembly that was interrupted: what is left to do tells it, or the
/// nearest place before at which a frame was made; where none is, the next return
/// (`flush_icache_stub` is a loop without a frame).
fn in_stub(
    registers: &Registers,
    start: u64,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let pc = registers.pc();
    let machine = Machine::X86_64;
    let leaves = code_frame::epilogue(machine, pc, &mut reader(process));
    if let Some(frame) = leaves {
        return by_code(registers, &frame, process);
    }
    let first = pc.saturating_sub(BACK_TO_FRAME).max(start);
    let mut code = vec![0; (pc - first) as usize + MAKES_FRAME.len()];
    let got = process.code(Avma(first), &mut code);
    code.truncate(got);
    let makes_frame = |(_, bytes): &(usize, &[u8])| *bytes == MAKES_FRAME;
    let beginnings = code.windows(MAKES_FRAME.len()).enumerate().rev();
    let beginnings = beginnings.filter(makes_frame).take(MAX_BEGINNINGS);
    for (at, _) in beginnings {
        let entry = first + at as u64;
        let wanted = Wanted::Exact(pc);
        let frame = code_frame::follow(machine, entry, wanted, &mut reader(process));
        if let Some(frame) = frame {
            return by_code(registers, &frame, process);
        }
    }
    let returns = code_frame::by_next_return(machine, (pc, None), &mut reader(process));
    let frame = returns.ok_or(ChainEnd::NoUnwindInfo)?;
    by_code(registers, &frame, process)
}

/// The caller of an interpreted method that was interrupted.
fn in_interpreter(
    registers: &Registers,
    (start, is_entry): (u64, bool),
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    if let Some(caller) = leaving(registers, process) {
        return caller;
    }
    match is_entry {
        true => entering(registers, start, process),
        false => interpreted(registers, process),
    }
}

/// The caller at the end of a method, `pop R; mov %rbx,%rsp; jmp *R`: its
/// frame is gone, and its caller's stack pointer is in rbx.
fn leaving(registers: &Registers, process: &mut impl Process) -> Option<Result<Caller, ChainEnd>> {
    const RESTORES: [u8; 3] = [0x48, 0x8b, 0xe3];
    let mut code = [0; 8];
    let got = process.code(Avma(registers.pc()), &mut code);
    let code = code.get(..got)?;
    let (popped, rest) = match code {
        [0x41, pop @ 0x58..=0x5f, rest @ ..] => (Some(pop - 0x58 + 8), rest),
        _ => (None, code),
    };
    let (is_restored, rest) = match rest.strip_prefix(&RESTORES) {
        Some(rest) => (false, rest),
        None => (true, rest),
    };
    let [0x41, 0xff, jump @ 0xe0..=0xe7, ..] = rest else {
        return None;
    };
    let register = jump - 0xe0 + 8;
    if popped.is_some_and(|popped| popped != register || is_restored) {
        return None;
    }
    let pc = match popped {
        Some(_) => process.word(registers.sp(), 8),
        None => registers.known(register),
    };
    let sp = match is_restored {
        true => Some(registers.sp()),
        false => registers.known(RBX),
    };
    Some(in_registers(registers, pc, sp))
}

/// The caller that registers tell.
fn in_registers(
    registers: &Registers,
    pc: Option<u64>,
    sp: Option<u64>,
) -> Result<Caller, ChainEnd> {
    let mut caller = *registers;
    caller.set_pc(pc.ok_or(ChainEnd::Unproven)?);
    let sp = sp.filter(|sp| *sp >= registers.sp() && sp - registers.sp() <= MAX_LOCALS);
    caller.set(Machine::X86_64.sp(), sp.ok_or(ChainEnd::Unproven)?);
    // No slot: what comes further out is not taken as known by it.
    Ok(Caller {
        slot: None,
        base: Base::Other,
        ..Caller::found(caller, FpFrom::Callee, 0)
    })
}

/// The caller while a method is entered: its return address is taken off the
/// stack, locals are put there, and it is put back above the frame. The
/// caller's stack pointer is in r13.
fn entering(
    registers: &Registers,
    start: u64,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    const POP_RAX: u8 = 0x58;
    const PUSH_RAX: u8 = 0x50;
    let mut code = [0; TO_FRAME];
    let got = process.code(Avma(start), &mut code);
    let code = code.get(..got).unwrap_or_default();
    let made = code.windows(4).position(|bytes| bytes == MAKES_FRAME);
    let pushed = made.and_then(|at| at.checked_sub(1));
    // Methods without a frame of their own: `Math.sin`.
    let pushed = pushed.filter(|&at| code.get(at) == Some(&PUSH_RAX));
    let pushed = pushed.ok_or(ChainEnd::NoUnwindInfo)?;
    let before = code.get(..pushed).unwrap_or_default();
    // `pop %rax` is one byte, which may be part of another instruction: the
    // one behind which `lea -8(%rsp,%rcx,8),%r14` tells where locals are.
    const LOCALS: [u8; 6] = [POP_RAX, 0x4c, 0x8d, 0x74, 0xcc, 0xf8];
    let popped = before.windows(LOCALS.len()).position(|it| it == LOCALS);
    let popped = popped.ok_or(ChainEnd::NoUnwindInfo)? as u64;
    let at = registers.pc().wrapping_sub(start);
    let pushed = pushed as u64;
    let sender = registers.known(R13);
    match at {
        _ if at <= popped => in_registers(registers, process.word(registers.sp(), 8), sender),
        _ if at <= pushed => in_registers(registers, registers.known(RAX), sender),
        _ if at == pushed + 1 => in_registers(registers, process.word(registers.sp(), 8), sender),
        // `push %rbp` is done, and its value still in the register.
        _ if at == pushed + 2 => {
            let slot = registers.sp().wrapping_add(8);
            in_registers(registers, process.word(slot, 8), sender)
        }
        _ => interpreted(registers, process),
    }
}

#[cfg(test)]
mod tests {
    use crate::{CodeAt, Cursor, Machine, Process, Registers, Unwinder};
    use prof_profile::{Avma, ChainEnd};
    use prof_runtimes::RuntimeCode;
    use std::collections::HashMap;

    /// Where compiled code is, and where the interpreter.
    const COMPILED: u64 = 0x1000;
    const ENTRY: u64 = 0x2000;
    const LOOP: u64 = 0x3000;
    /// What brings frames of virtual threads back, and where they return to it.
    const THAWS: u64 = 0x4800;
    const BARRIER: u64 = THAWS + 16;
    /// Code of which no runtime tells.
    const TRAMPOLINE: u64 = 0x4002;
    const STUB: u64 = 0x5000;
    const SP: u64 = 0x7000;

    /// A virtual machine with a compiled method whose frame has 32 bytes, an
    /// entry of the interpreter, and a piece of it.
    struct Java {
        stack: HashMap<u64, u64>,
        code: HashMap<u64, Vec<u8>>,
        /// See [`RuntimeCode::Continuation`].
        entry: u64,
    }

    impl Java {
        fn new(stack: &[(u64, u64)]) -> Self {
            // push %rbp; sub $16,%rsp; call .; add $16,%rsp; pop %rbp;
            // cmp 0x338(%r15),%rsp; ja .; ret
            let mut compiled = vec![0x55, 0x48, 0x83, 0xec, 16, 0xe8, 0, 0, 0, 0];
            compiled.extend([0x48, 0x83, 0xc4, 16, 0x5d]);
            compiled.extend([
                0x49, 0x3b, 0xa7, 0x38, 3, 0, 0, 0x0f, 0x87, 1, 0, 0, 0, 0xc3,
            ]);
            // pop %rax; lea -8(%rsp,%rcx,8),%r14; push %rax; push %rbp;
            // mov %rsp,%rbp; push %r13
            let entry = [
                0x58, 0x4c, 0x8d, 0x74, 0xcc, 0xf8, 0x50, 0x55, 0x48, 0x8b, 0xec,
            ];
            // leave; pop %r13; mov %rbx,%rsp; jmp *%r13
            let leaves = [0xc9, 0x41, 0x5d, 0x48, 0x8b, 0xe3, 0x41, 0xff, 0xe5];
            let code = [
                (COMPILED, compiled),
                (ENTRY, [&entry[..], &[0x41, 0x55, 0x90]].concat()),
                (LOOP, [&[0x90; 16][..], &leaves[..]].concat()),
                // sub $8,%rsp; call *%rcx; add $8,%rsp; ret
                (
                    TRAMPOLINE & !0xfff,
                    vec![
                        0x90, 0x90, 0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3,
                    ],
                ),
                // 1: clflush (%rdi); add $64,%rdi; dec %esi; jne 1b; mfence;
                // mov %rdx,%rax; ret, as HotSpot flushes code.
                (
                    STUB,
                    vec![
                        0x0f, 0xae, 0x3f, 0x48, 0x83, 0xc7, 0x40, 0xff, 0xce, 0x75, 0xf5, 0x0f,
                        0xae, 0xf0, 0x48, 0x8b, 0xc2, 0xc3,
                    ],
                ),
            ];
            Self {
                stack: stack.iter().copied().collect(),
                code: code.into_iter().collect(),
                entry: 0,
            }
        }

        /// The caller's pc, sp and fp.
        fn caller(&mut self, registers: Registers) -> Result<(u64, u64, u64), ChainEnd> {
            let mut cursor = Cursor::innermost(registers);
            Unwinder::default().step(&mut cursor, self)?;
            let caller = cursor.registers();
            Ok((caller.pc(), caller.sp(), caller.fp().unwrap_or(0)))
        }
    }

    impl Process for Java {
        fn place(&mut self, pc: Avma) -> CodeAt {
            match pc.0 {
                0x1000..0x6000 => CodeAt::Anonymous,
                _ => CodeAt::Nothing,
            }
        }

        fn word(&mut self, address: u64, _: u8) -> Option<u64> {
            self.stack.get(&address).copied()
        }

        fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
            let Some(code) = self.code.get(&(at.0 & !0xfff)) else {
                return 0;
            };
            let from = code.get((at.0 & 0xfff) as usize..).unwrap_or_default();
            let len = from.len().min(out.len());
            out[..len].copy_from_slice(&from[..len]);
            len
        }

        fn runtime_code(&mut self, pc: Avma) -> Option<RuntimeCode> {
            match pc.0 & !0xfff {
                COMPILED => Some(RuntimeCode::Compiled {
                    start: COMPILED,
                    end: COMPILED + 29,
                    complete: COMPILED + 5,
                    size: 32,
                    deopt: 0,
                    method: 1,
                }),
                start @ (ENTRY | LOOP) => Some(RuntimeCode::Interpreter {
                    start,
                    is_entry: start == ENTRY,
                }),
                0x4000 if pc.0 >= THAWS => Some(RuntimeCode::Continuation {
                    start: THAWS,
                    entry: self.entry,
                }),
                STUB => Some(RuntimeCode::Stub { start: STUB }),
                _ => None,
            }
        }
    }

    fn at(pc: u64, fp: u64) -> Registers {
        let mut registers = Registers::new(Machine::X86_64, pc, SP);
        registers.set(6, fp);
        registers
    }

    /// Behind the call of the compiled method.
    const RETURN: u64 = COMPILED + 10;

    #[test]
    fn compiled_code_is_unwound_at_each_of_its_instructions() {
        let (before, pushed, whole) = (SP, SP + 8, SP + 24);
        for (offset, slot) in [
            (0, before),
            (1, pushed),
            (5, whole),
            (10, whole),
            (14, pushed),
            (15, before),
            (22, before),
            (28, before),
        ] {
            let mut java = Java::new(&[(slot, RETURN), (slot - 8, 0x7100)]);
            // Before and after, it is still or again in its register.
            let fp = match (5..15).contains(&offset) {
                true => 0x7100,
                false => 5,
            };
            let expected = Ok((RETURN, slot + 8, fp));
            assert_eq!(java.caller(at(COMPILED + offset, 5)), expected, "{offset}");
        }
        // What no call stands before is no return address.
        let mut java = Java::new(&[(SP + 24, RETURN + 1), (SP + 16, 0x7100)]);
        assert_eq!(java.caller(at(COMPILED + 5, 5)), Err(ChainEnd::Unproven));
    }

    #[test]
    fn an_interpreted_method_gives_its_callers_stack_pointer_back() {
        let fp = SP + 0x40;
        let stack = [(fp, 0x7200), (fp + 8, RETURN), (fp - 8, fp + 0x30)];
        let mut java = Java::new(&stack);
        let expected = Ok((RETURN, fp + 0x30, 0x7200));
        assert_eq!(java.caller(at(LOOP, fp)), expected);
        // Its caller need not be called by a `call` if it is interpreted, too.
        let mut java = Java::new(&[(fp, 0x7200), (fp + 8, LOOP), (fp - 8, fp + 0x30)]);
        assert_eq!(java.caller(at(LOOP, fp)), Ok((LOOP, fp + 0x30, 0x7200)));
        // Not where another frame would be below this one.
        let mut java = Java::new(&[(fp, 0x7200), (fp + 8, RETURN), (fp - 8, SP)]);
        assert_eq!(java.caller(at(LOOP, fp)), Err(ChainEnd::Unproven));
    }

    #[test]
    fn a_method_is_unwound_while_it_is_entered_and_left() {
        let sender = SP + 0x20;
        let callers = Ok((RETURN, sender, 0x7300));
        let with = |pc: u64, number: u8, value: u64| {
            let mut registers = at(pc, 0x7300);
            registers.set(13, sender);
            registers.set(number, value);
            registers
        };
        let mut java = Java::new(&[(SP, RETURN)]);
        assert_eq!(java.caller(with(ENTRY, 0, 0)), callers);
        assert_eq!(java.caller(with(ENTRY + 7, 0, 0)), callers);
        let mut in_rax = Java::new(&[]);
        assert_eq!(in_rax.caller(with(ENTRY + 1, 0, RETURN)), callers);
        assert_eq!(in_rax.caller(with(ENTRY + 6, 0, RETURN)), callers);
        let mut pushed = Java::new(&[(SP + 8, RETURN)]);
        assert_eq!(pushed.caller(with(ENTRY + 8, 0, 0)), callers);
        // rbx has its caller's stack pointer at the end.
        let mut left = Java::new(&[(SP, RETURN)]);
        assert_eq!(left.caller(with(LOOP + 17, 3, sender)), callers);
        let mut jumps = at(LOOP + 22, 0x7300);
        jumps.set(13, RETURN);
        assert_eq!(left.caller(jumps), Ok((RETURN, SP, 0x7300)));
    }

    #[test]
    fn of_a_virtual_thread_the_frames_in_the_heap_are_passed_over() {
        // A whole frame that returns to the barrier; then what is known of the virtual
        // thread, the frame pointer and return address of what entered it.
        let entry = SP + 32;
        let mut stack = [
            (SP + 16, 5),
            (SP + 24, BARRIER),
            (entry, 0),
            (entry + 8, 0x9_0000),
            // Where no return address of a frame can be.
            (entry + 16, RETURN),
            // What stood there before, of no method.
            (entry + 24, TRAMPOLINE + 6),
            (entry + 32, 0x7300),
            (entry + 40, RETURN),
        ];
        let carrier = |stack: &[_], told: u64| {
            let mut java = Java::new(stack);
            java.entry = told;
            let mut cursor = Cursor::innermost(at(COMPILED + 5, 5));
            let mut unwinder = Unwinder::default();
            unwinder.step(&mut cursor, &mut java).expect("the barrier");
            assert_eq!(cursor.registers().pc(), BARRIER);
            unwinder.step(&mut cursor, &mut java).expect("the carrier");
            let carrier = cursor.registers();
            (carrier.pc(), carrier.sp(), carrier.fp())
        };
        let expected = (RETURN, entry + 48, Some(0x7300));
        assert_eq!(carrier(&stack, 0), expected);
        assert_eq!(carrier(&stack, 32), expected);
        // Where the machine tells how much it knows, a method there is none, either.
        stack[5].1 = RETURN;
        assert_eq!(carrier(&stack, 32), expected);
    }

    #[test]
    fn assembly_that_makes_no_frame_has_its_return_address_on_top() {
        for offset in [0, 3, 7, 9, 11, 14, 17] {
            let mut java = Java::new(&[(SP, RETURN)]);
            let expected = Ok((RETURN, SP + 8, 5));
            assert_eq!(java.caller(at(STUB + offset, 5)), expected, "{offset}");
        }
        let mut java = Java::new(&[(SP, RETURN + 1)]);
        assert_eq!(java.caller(at(STUB, 5)), Err(ChainEnd::Unproven));
    }

    #[test]
    fn a_frame_behind_which_only_pops_follow_needs_no_frame_pointer() {
        let mut java = Java::new(&[(SP, TRAMPOLINE + 6), (SP + 16, RETURN)]);
        let mut chain = Vec::new();
        let innermost = at(COMPILED + 28, 5);
        Unwinder::default().unwind(innermost, &mut java, 3, &mut chain);
        assert_eq!(chain, [COMPILED + 28, TRAMPOLINE + 6, RETURN]);
    }
}
