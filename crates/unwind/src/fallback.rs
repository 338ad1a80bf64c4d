//! Frames of code without unwind information and without a file: JIT code.
//!
//! A frame pointer is believed only as far as it verifies: it points upwards
//! into the stack, and what it leads to follows a call wherever that code can
//! be read. At the innermost frame the code itself tells whether the function
//! has already pushed its frame pointer, or has popped it again; where only
//! pops and a return follow, in any frame, they tell all (the trampolines of
//! CPython's `-X perf`). Where no frame pointer is kept, the next return tells.

use crate::code_frame::{self, CallerFp, CodeFrame, Slot};
use crate::cursor::Caller;
use crate::{Base, CallBefore, CodeAt, Cursor, FpFrom, Machine, Process, Registers, Unwinder};
use crate::{made, signal_frame};
use prof_profile::{Avma, ChainEnd};

/// How far behind a call's target an address counts as the same function.
const SAME_FUNCTION: u64 = 4096;

/// The caller of a frame without rules.
pub(crate) fn caller(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = cursor.registers();
    if let Some(code) = made::at(cursor, process) {
        return made::caller(unwinder, cursor, code, process);
    }
    if let Some(caller) = signal_frame::interrupted(unwinder, cursor, process) {
        return Ok(caller);
    }
    if cursor.is_exact()
        && let Some(caller) = by_code(unwinder, registers, process)
    {
        return Ok(caller);
    }
    if registers.machine() == Machine::X86_64
        && let Some(caller) = made::by_epilogue(registers, process)
        && follows_call(unwinder, &caller.registers, process)
    {
        return Ok(caller);
    }
    if let Some(caller) = by_next_return(unwinder, cursor, process) {
        return Ok(caller);
    }
    if let Some(caller) = by_usual_frame(unwinder, cursor, process) {
        return Ok(caller);
    }
    let by_fp = match cursor.is_exact() && !has_proven_frame(unwinder, registers, process) {
        true => Err(ChainEnd::Unproven),
        false => by_frame_pointer(unwinder, cursor, process),
    };
    match by_fp {
        Err(end @ (ChainEnd::Unproven | ChainEnd::NoUnwindInfo)) if cursor.is_exact() => {
            by_stretch(unwinder, registers, process).ok_or(end)
        }
        other => other,
    }
}

/// The caller of a function that is too large to follow all ways through it, or that
/// jumps through tables, by its code from its start on. It must have been called by a
/// call to that start, or through a register or memory.
fn by_stretch(
    unwinder: &mut Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    let (start, frame) = unwinder.stretches.frame(registers.pc(), process)?;
    let (caller, before) = by_made_frame(unwinder, registers, &frame, process)?;
    let may_call = match before {
        CallBefore::Indirect => true,
        CallBefore::Direct(by) => caller.registers.pc().wrapping_add_signed(by) == start,
        CallBefore::None => false,
    };
    may_call.then_some(caller)
}

/// The caller by the next return in the code of a compiler that keeps no frame
/// pointer (PCRE2's, Ruby's, mono's): the word where that finds its address must
/// follow a call. The frame pointer may be that of a frame further out.
pub(crate) fn by_next_return(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<Caller> {
    let registers = cursor.registers();
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    let frame = unwinder.made_frames.by_next_return(cursor, process)?;
    let (caller, before) = by_made_frame(unwinder, registers, &frame, process)?;
    before.is_call().then_some(caller)
}

/// The caller by such a frame, and what stands before it.
fn by_made_frame(
    unwinder: &Unwinder,
    registers: &Registers,
    frame: &CodeFrame,
    process: &mut impl Process,
) -> Option<(Caller, CallBefore)> {
    let known = CodeFrame {
        caller_fp: frame.caller_fp.or(Some(CallerFp::InRegister)),
        ..*frame
    };
    let mut caller = made::by_code(registers, &known, process).ok()?;
    if frame.caller_fp.is_none() {
        // It was overwritten; the caller may do without.
        caller.registers.forget(Machine::X86_64.fp());
        caller.fp = FpFrom::Other;
    }
    let before = unwinder.call_before(Machine::X86_64, caller.registers.pc(), process)?;
    // The code was not followed for what else it saves.
    for number in [3, 12, 13, 14, 15] {
        caller.registers.forget(number);
    }
    Some((caller, before))
}

/// The caller by the frame that all code around has, where no way without a call leads
/// to a return. What the frame leads to must follow a call: through a register, or one
/// in a file of a function that goes on to such code by a jump, as PyPy has both.
fn by_usual_frame(
    unwinder: &Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Option<Caller> {
    let registers = cursor.registers();
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    let usual = unwinder.made_frames.usual(cursor.pc())?;
    let makes_it =
        cursor.is_exact() && code_frame::makes_room(registers.pc(), &mut made::reader(process));
    let frame = match makes_it {
        true => CodeFrame {
            return_address: Slot::FromSp(0),
            caller_fp: Some(CallerFp::InRegister),
        },
        false => usual,
    };
    let (caller, before) = by_made_frame(unwinder, registers, &frame, process)?;
    let at = Avma(caller.registers.pc().wrapping_sub(1));
    let may_call = match before {
        CallBefore::Indirect => true,
        CallBefore::Direct(_) => matches!(process.place(at), CodeAt::Dso { .. }),
        CallBefore::None => false,
    };
    may_call.then_some(caller)
}

/// Whether an interrupted function has its frame, as far as that can be told:
/// where its code cannot be read, as of a process that has ended, it has none
/// for sure if a return address may be on top of the stack, or behind the
/// frame pointer that was just pushed.
fn has_proven_frame(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> bool {
    let machine = registers.machine();
    if machine == Machine::Aarch64 {
        return true;
    }
    let word = u64::from(machine.word());
    let mut pushed = |index: u64| {
        let slot = registers.sp().checked_add(index * word)?;
        process.word(slot, machine.word())
    };
    let (top, next) = (pushed(0), pushed(1));
    let behind_fp = next.filter(|_| top == registers.fp());
    let mut is_code = |at: u64| process.place(Avma(at)) != CodeAt::Nothing;
    let is_doubtful = top.is_some_and(&mut is_code) || behind_fp.is_some_and(&mut is_code);
    !is_doubtful || unwinder.code(Avma(registers.pc()), &mut [0], process) == 1
}

/// The caller of a function that has not pushed anything yet.
pub(crate) fn just_called(
    unwinder: &Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    popped(unwinder, cursor.registers(), 0, process).ok_or(ChainEnd::Unproven)
}

/// The caller by the frame record: the caller's frame pointer, and behind it
/// the return address.
fn by_frame_pointer(
    unwinder: &Unwinder,
    cursor: &Cursor,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let registers = cursor.registers();
    let machine = registers.machine();
    let word = u64::from(machine.word());
    let fp = registers.fp().ok_or(ChainEnd::NoUnwindInfo)?;
    if fp == 0 && machine == Machine::Aarch64 && !cursor.is_exact() {
        // Thread starts clear it, and nothing else may: x29 is no general
        // register, as that of x86 is.
        return Err(ChainEnd::Root);
    }
    if fp < registers.sp() || !fp.is_multiple_of(word) {
        return Err(ChainEnd::NoUnwindInfo);
    }
    let saved_fp = process.word(fp, machine.word());
    let pc = fp
        .checked_add(word)
        .and_then(|at| process.word(at, machine.word()));
    let (Some(saved_fp), Some(pc)) = (saved_fp, pc) else {
        return Err(ChainEnd::StackCut);
    };
    let mut caller = *registers;
    caller.set(machine.sp(), fp.wrapping_add(word * 2));
    caller.set(machine.fp(), saved_fp);
    caller.set_pc(pc);
    if pc != 0 && !follows_call(unwinder, &caller, process) {
        return match begins_here(cursor, saved_fp, pc, process) {
            true => Err(ChainEnd::Root),
            false => Err(ChainEnd::NoUnwindInfo),
        };
    }
    let slot = fp.wrapping_add(word);
    Ok(Caller::found(caller, FpFrom::Memory(fp), slot))
}

/// Whether a frame record in run-time code is the outermost of a stack that its
/// runtime made: it links to no other, and what is to run when its function is
/// done was called by nobody, but is code that was made at run time as well
/// (`normal_exit` of Erlang's processes). The zero is read from a record that
/// other records led to; a register that is zero proves nothing.
fn begins_here(cursor: &Cursor, saved_fp: u64, pc: u64, process: &mut impl Process) -> bool {
    let mut is_made = |pc: u64| process.place(Avma(pc)) == CodeAt::Anonymous;
    saved_fp == 0 && !cursor.is_exact() && is_made(cursor.pc()) && is_made(pc)
}

/// The caller as the code at the pc shows it: before and after the frame
/// pointer is kept, and in functions that never keep one.
fn by_code(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    if registers.machine() == Machine::Aarch64 {
        return None;
    }
    let mut code = [0; 8];
    let got = unwinder.code(Avma(registers.pc()), &mut code, process);
    let code = code.get(..got)?;
    let (machine, pc) = (registers.machine(), registers.pc());
    let mut read = made::reader(process);
    if machine == Machine::X86_64
        && (code_frame::will_make_frame(machine, pc, &mut read)
            || code_frame::has_frame_made(pc, &mut read))
    {
        drop(read);
        return popped(unwinder, registers, 0, process);
    }
    drop(read);
    if let Some(caller) = leaving(unwinder, registers, process) {
        return Some(caller);
    }
    if let Some(caller) = making_frame(unwinder, registers, process) {
        return Some(caller);
    }
    match code {
        // push %rbp; endbr64 and endbr32; ret; rep ret.
        [0x55, ..] | [0xf3, 0x0f, 0x1e, 0xfa | 0xfb, ..] | [0xc3 | 0xc2, ..] | [0xf3, 0xc3, ..] => {
            popped(unwinder, registers, 0, process)
        }
        // mov %rsp,%rbp in both encodings and sizes, behind push %rbp.
        [0x48, 0x89, 0xe5, ..] | [0x48, 0x8b, 0xec, ..] | [0x89, 0xe5, ..] | [0x8b, 0xec, ..] => {
            popped(unwinder, registers, 1, process)
        }
        // pop %rbp; ret.
        [0x5d, 0xc3, ..] => popped(unwinder, registers, 1, process),
        _ => without_frame(unwinder, registers, process),
    }
}

/// The caller of a function that has saved the frame pointer, and is about to set its
/// own: what it saved still is in the register.
fn making_frame(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    let above = code_frame::fp_to_be(registers.pc(), &mut made::reader(process))?;
    let saved = registers.sp().checked_add(u64::try_from(above).ok()?)?;
    let fp = registers.fp()?;
    (process.word(saved, 8)? == fp).then_some(())?;
    let slot = saved.checked_add(8)?;
    let mut caller = *registers;
    caller.set_pc(process.word(slot, 8)?);
    caller.set(Machine::X86_64.sp(), slot.checked_add(8)?);
    let found = Caller::found(caller, FpFrom::Memory(saved), slot);
    follows_call(unwinder, &found.registers, process).then_some(found)
}

/// The caller of a function at its end that returns by an address in a register.
pub(crate) fn leaving(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    let (pc, known) = (registers.pc(), |number| registers.known(number));
    let found = match process.place(Avma(pc)) {
        CodeAt::Dso { .. } => {
            let mut read = |at: u64, out: &mut [u8]| unwinder.code(Avma(at), out, process);
            code_frame::leaving(pc, known, &mut read)
        }
        _ => code_frame::leaving(pc, known, &mut made::reader(process)),
    }?;
    let mut caller = *registers;
    caller.set_pc(match found.register {
        Some(number) => registers.known(number)?,
        None => process.word(registers.sp(), 8)?,
    });
    caller.set(Machine::X86_64.sp(), found.sp);
    follows_call(unwinder, &caller, process).then(|| Caller {
        // No slot: what comes further out is not taken as known by it.
        slot: None,
        base: Base::Other,
        ..Caller::found(caller, FpFrom::Callee, 0)
    })
}

/// The caller of a function that keeps no frame: on top of the stack is an
/// address behind a call that goes a little before the pc.
fn without_frame(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<Caller> {
    let machine = registers.machine();
    let pc = process.word(registers.sp(), machine.word())?;
    let CallBefore::Direct(displacement) = unwinder.call_before(machine, pc, process)? else {
        return None;
    };
    let into = registers
        .pc()
        .checked_sub(pc.wrapping_add_signed(displacement))?;
    (into < SAME_FUNCTION)
        .then(|| popped(unwinder, registers, 0, process))
        .flatten()
}

/// The caller if the return address is `pushed` words up the stack; one word
/// is the saved frame pointer.
fn popped(
    unwinder: &Unwinder,
    registers: &Registers,
    pushed: u64,
    process: &mut impl Process,
) -> Option<Caller> {
    let machine = registers.machine();
    if machine == Machine::Aarch64 {
        return None;
    }
    let word = u64::from(machine.word());
    let slot = registers.sp().checked_add(pushed * word)?;
    let mut caller = *registers;
    let mut fp = FpFrom::Callee;
    if pushed > 0 {
        caller.set(machine.fp(), process.word(registers.sp(), machine.word())?);
        fp = FpFrom::Memory(registers.sp());
    }
    caller.set_pc(process.word(slot, machine.word())?);
    caller.set(machine.sp(), slot.checked_add(word)?);
    follows_call(unwinder, &caller, process).then(|| Caller::found(caller, fp, slot))
}

/// Whether the caller's pc follows a call, or that cannot be told.
fn follows_call(unwinder: &Unwinder, caller: &Registers, process: &mut impl Process) -> bool {
    unwinder
        .call_before(caller.machine(), caller.pc(), process)
        .is_none_or(CallBefore::is_call)
}

#[cfg(test)]
mod tests {
    use crate::fake::{CODE, FakeProcess, STACK};
    use crate::{Cursor, Machine, Registers, Unwinder};
    use prof_profile::ChainEnd;

    #[test]
    fn a_frame_pointer_of_unreadable_code_counts_where_no_return_address_may_be_above() {
        let fp = STACK + 32;
        let caller = |top: u64, next: u64| {
            let stack = vec![top, next, 0, 0, 0, CODE + 0x80];
            let mut registers = Registers::new(Machine::X86_64, CODE, STACK);
            registers.set(6, fp);
            let mut cursor = Cursor::innermost(registers);
            let mut process = FakeProcess::unreadable(stack);
            let stepped = Unwinder::default().step(&mut cursor, &mut process);
            stepped.map(|_| cursor.pc())
        };
        assert_eq!(caller(1, 2), Ok(CODE + 0x80));
        assert_eq!(caller(1, CODE + 0x40), Ok(CODE + 0x80), "a local");
        // Before the frame pointer is pushed, and behind.
        assert_eq!(caller(CODE + 0x40, 2), Err(ChainEnd::Unproven));
        assert_eq!(caller(fp, CODE + 0x40), Err(ChainEnd::Unproven));
    }

    /// A call, behind which is `CODE + 0x80`.
    const CALL: (usize, &[u8]) = (0x7b, &[0xe8]);

    #[test]
    fn code_that_keeps_no_frame_pointer_is_not_taken_for_its_callers() {
        // What is interrupted: add $8,%rsp; ret. Its caller keeps a frame pointer.
        let freeing = [0x48, 0x83, 0xc4, 8, 0xc3];
        let stack = vec![1, CODE + 0x80, 0, 0, STACK + 80, CODE + 0x80, 0];
        let mut registers = Registers::new(Machine::X86_64, CODE + 0x200, STACK);
        registers.set(6, STACK + 32);
        let mut cursor = Cursor::innermost(registers);
        let mut process = FakeProcess::with_code(stack, &[CALL, (0x200, &freeing)]);
        let stepped = Unwinder::default().step(&mut cursor, &mut process);
        assert!(stepped.is_ok() && cursor.pc() == CODE + 0x80);
        assert_eq!(cursor.registers().sp(), STACK + 16);
        assert_eq!(cursor.registers().fp(), Some(STACK + 32));
    }

    #[test]
    fn code_whose_frames_are_all_of_one_size_is_unwound_by_that() {
        // jz 1f; nop; 1: add $16,%rsp; ret at many places; call *%r11; nops at 0x400; sub $16,%rsp; call
        // at 0x500. Behind 0x80 and 0x90 was called, directly and through a register.
        let mut code = vec![CALL, (0x8e, &[0xff, 0xd0]), (0x400, &[0x41, 0xff, 0xd3])];
        let leaves = [0x74, 1, 0x90, 0x48, 0x83, 0xc4, 16, 0xc3];
        code.extend((0..16).map(|place| (0x200 + 16 * place, &leaves[..])));
        code.push((0x500, &[0x48, 0x83, 0xec, 16, 0x41, 0xff, 0xd3]));
        let mut unwinder = Unwinder::default();
        let mut step = |at: u64, stack: [u64; 3]| {
            let registers = Registers::new(Machine::X86_64, CODE + at, STACK);
            let mut cursor = Cursor::innermost(registers);
            let mut process = FakeProcess::with_code(stack.to_vec(), &code);
            let stepped = unwinder.step(&mut cursor, &mut process);
            stepped.ok().map(|_| (cursor.pc(), cursor.registers().sp()))
        };
        let (called, entered) = (CODE + 0x80, CODE + 0x90);
        assert_eq!(step(0x400, [1, 2, entered]), None);
        for place in 0..16 {
            let found = step(0x200 + 16 * place, [1, 2, called]);
            assert_eq!(found, Some((called, STACK + 24)));
        }
        assert_eq!(step(0x400, [1, 2, entered]), Some((entered, STACK + 24)));
        assert_eq!(step(0x400, [1, 2, called]), None, "not how it is entered");
        assert_eq!(step(0x400, [1, entered, 2]), None);
        // Its frame is yet to be made.
        assert_eq!(step(0x500, [entered, 1, 2]), Some((entered, STACK + 8)));
    }

    #[test]
    fn a_function_that_is_about_to_set_its_frame_pointer_is_not_skipped() {
        // push %rbp; push %rbx; sub $8,%rsp; lea 16(%rsp),%rbp
        let begins = [0x55, 0x53, 0x48, 0x83, 0xec, 8, 0x48, 0x8d, 0x6c, 0x24, 16];
        let fp = STACK + 48;
        for (at, above) in [(0, None), (1, Some(0)), (2, Some(1)), (6, Some(2))] {
            let pushed = above.map_or(0, |above| above + 1);
            let mut stack = vec![0; pushed];
            stack.extend([CODE + 0x80, 0, 0]);
            stack.resize(8, 0);
            stack[6..].copy_from_slice(&[STACK + 96, CODE + 0x300]);
            if let Some(above) = above {
                stack[above] = fp;
            }
            let mut registers = Registers::new(Machine::X86_64, CODE + 0x200 + at, STACK);
            registers.set(6, fp);
            let mut cursor = Cursor::innermost(registers);
            let called_outside = (0x2fb, CALL.1);
            let code = [CALL, called_outside, (0x200, &begins)];
            let mut process = FakeProcess::with_code(stack, &code);
            let stepped = Unwinder::default().step(&mut cursor, &mut process);
            assert!(stepped.is_ok() && cursor.pc() == CODE + 0x80, "{at}");
            let sp = STACK + 8 * (pushed as u64 + 1);
            assert_eq!(cursor.registers().sp(), sp, "{at}");
            assert_eq!(cursor.registers().fp(), Some(fp));
        }
    }

    #[test]
    fn a_function_of_v8_whose_frame_another_makes_is_not_taken_for_its_caller() {
        // mov $3,%ebx; movabs $…,%r12; call …: what made the frame pointer is the caller.
        let begins = [
            0xbb, 3, 0, 0, 0, 0x49, 0xbc, 1, 2, 3, 4, 5, 6, 7, 8, 0xe8, 1, 2, 3, 4,
        ];
        for at in [0, 5, 15] {
            let stack = vec![CODE + 0x80, 0, 0, 0, STACK + 80, CODE + 0x300, 0];
            let mut registers = Registers::new(Machine::X86_64, CODE + 0x200 + at, STACK);
            registers.set(6, STACK + 32);
            let mut cursor = Cursor::innermost(registers);
            let called_outside = (0x2fb, CALL.1);
            let code = [CALL, called_outside, (0x200, &begins)];
            let mut process = FakeProcess::with_code(stack, &code);
            let stepped = Unwinder::default().step(&mut cursor, &mut process);
            assert!(stepped.is_ok() && cursor.pc() == CODE + 0x80, "{at}");
            assert_eq!(cursor.registers().fp(), Some(STACK + 32));
        }
    }

    #[test]
    fn a_record_that_links_to_nothing_begins_a_stack_of_run_time_code() {
        let end = |link: u64, last: u64| {
            let fp = STACK + 32;
            let stack = vec![1, 2, 0, 0, fp + 32, CODE + 0x80, 0, 0, link, last];
            let mut registers = Registers::new(Machine::X86_64, CODE + 0x20, STACK);
            registers.set(6, fp);
            let mut cursor = Cursor::innermost(registers);
            let mut process = FakeProcess::with_code(stack, &[CALL]);
            let mut unwinder = Unwinder::default();
            let stepped = unwinder.step(&mut cursor, &mut process);
            assert!(stepped.is_ok() && cursor.pc() == CODE + 0x80);
            unwinder.step(&mut cursor, &mut process).map(|_| ())
        };
        assert_eq!(end(0, CODE + 0x100), Err(ChainEnd::Root));
        assert_eq!(end(0, CODE + 0x80), Ok(()), "called");
        assert_eq!(end(STACK + 80, CODE + 0x100), Err(ChainEnd::NoUnwindInfo));
    }
}
