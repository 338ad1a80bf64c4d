//! Frames of code that Erlang's machine (BEAM) compiles.
//!
//! Each Erlang process has a stack in its heap, on which its functions run: the stack
//! pointer is there while they do. What is on it are values, which have one of the lower
//! two bits set, and return addresses, which have none: so the first of these above a
//! frame is its caller's. Where a function has just made its frame there may still be
//! old words; its code tells where its return address is.
//!
//! ```text
//!  stack of a process                   stack of the scheduler's thread
//!  ┌────────────────┐                   ┌────────────────┐
//!  │ normal_exit    │ nothing is above  │ return address │ into the scheduler
//!  │ values         │                   │ room           │ ─┐ of process_main
//!  │ return address │                   │ X registers    │◄─── rbx, in all code
//!  │ values         │                   │ …              │ ─┘
//!  └────────────────┘ ◄─ rsp            └────────────────┘ ◄─ rsp, where C is called
//! ```
//!
//! C functions run on the stack of the thread. What the process had called is then not
//! where the kernel copies: if it was not read otherwise, one frame stands for all of that
//! ([`ErlangMain::stands_for_others`]), and the scheduler follows, which has entered the
//! process.
//!
//! Source: `beam_asm.hpp`, `process_main.cpp` of Erlang/OTP 25 to 28 for x86-64.

use crate::cursor::{Caller, FpFrom};
use crate::{
    Base, CallBefore, CodeAt, Cursor, Machine, Process, Registers, Told, Unwinder, fallback,
};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind, Register};
use prof_profile::{Avma, ChainEnd};
use prof_runtimes::ErlangMain;

/// Most words of one frame.
const MAX_WORDS: u64 = 2048;
/// The bits by which values are told from return addresses.
const TAG: u64 = 3;
/// Registers: what points to the X registers, and others that calls preserve.
const RBX: u8 = 3;
const RBP: u8 = 6;
const R13: u8 = 13;
const OF_PROCESS: [u8; 5] = [6, 12, 13, 14, 15];

/// Bytes of a function, before a place in it, that are looked at for its frame. Where they
/// do not begin with an instruction, some are misread, but few.
const MOST_CODE: u64 = 1 << 10;
/// Bytes of code in which a function goes back to its stack.
const BACK: usize = 96;

/// The caller of a frame of Erlang's code; `None` of other code, and where frame pointers
/// tell.
pub(crate) fn caller(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    (has_frame_pointers, main): (bool, Option<ErlangMain>),
    process: &mut impl Process,
) -> Option<Result<Caller, ChainEnd>> {
    let registers = cursor.registers();
    if registers.machine() != Machine::X86_64 {
        return None;
    }
    if let Some(main) = main
        && registers.known(RBX) == registers.sp().checked_add(main.registers)
    {
        if (main.start..main.end).contains(&cursor.lookup().0) {
            return Some(of_scheduler(unwinder, registers, main, process));
        }
        return Some(
            match of_process(unwinder, cursor, has_frame_pointers, process) {
                Some(caller) => caller,
                None => Ok(all_others(registers, main)),
            },
        );
    }
    if has_frame_pointers {
        return by_record(unwinder, cursor, process).map(Ok);
    }
    let mut own = 0;
    if cursor.is_exact() {
        own = new_frame(unwinder, registers, process).unwrap_or(0);
        if own == 0
            && let Some(caller) = fallback::by_next_return(unwinder, cursor, process)
        {
            return Some(Ok(caller));
        }
    }
    let word = |process: &mut _, at| Process::word(process, at, 8);
    Some(by_values(unwinder, (registers, own), word, process))
}

/// Bytes of the frame of a function that has just made it, and called nothing since: what
/// is in it may be old. In the order of its code, as functions have one frame at a time.
fn new_frame(
    unwinder: &Unwinder,
    registers: &Registers,
    process: &mut impl Process,
) -> Option<u64> {
    let (start, code) = code_before(unwinder, registers.pc(), process)?;
    let mut size = None;
    for instruction in Decoder::with_ip(64, &code, start, DecoderOptions::NONE) {
        let is_of_stack = instruction.op0_register() == Register::RSP;
        match (instruction.flow_control(), instruction.mnemonic()) {
            (FlowControl::Next, Mnemonic::Sub) if is_of_stack => {
                size = instruction.try_immediate(1).ok();
            }
            (FlowControl::Next, Mnemonic::Add | Mnemonic::Mov | Mnemonic::Lea) if is_of_stack => {
                size = None;
            }
            (FlowControl::Next | FlowControl::ConditionalBranch, _) => {}
            _ => size = None,
        }
    }
    size
}

/// The code of a function before a place in it, and where that begins.
fn code_before(unwinder: &Unwinder, pc: u64, process: &mut impl Process) -> Option<(u64, Vec<u8>)> {
    let function = process.told_function(Avma(pc))?;
    let start = function.start.max(pc.saturating_sub(MOST_CODE));
    let mut code = vec![0; usize::try_from(pc.checked_sub(start)?).ok()?];
    (unwinder.code(Avma(start), &mut code, process) == code.len()).then_some((start, code))
}

/// The caller of an interrupted function that keeps frame pointers: they do so from their
/// first instruction on up to where they leave.
fn by_record(unwinder: &Unwinder, cursor: &Cursor, process: &mut impl Process) -> Option<Caller> {
    const MAKES: [u8; 4] = [0x55, 0x48, 0x89, 0xe5];
    if !cursor.is_exact() {
        return None;
    }
    let registers = cursor.registers();
    let (fp, sp) = (registers.fp()?, registers.sp());
    let (start, mut code) = code_before(unwinder, registers.pc(), process)?;
    // The last instruction may be half of what makes the frame.
    let mut next = [0; MAKES.len()];
    let got = unwinder.code(Avma(registers.pc()), &mut next, process);
    let ends = code.len();
    code.extend(next.get(..got)?);
    let begins = code.windows(MAKES.len()).rposition(|it| it == MAKES)?;
    let (slot, from) = match ends.checked_sub(begins)? {
        0 => (sp, FpFrom::Callee),
        1..4 => (sp.checked_add(8)?, FpFrom::Memory(sp)),
        _ => {
            let behind = code.get(begins + MAKES.len()..ends)?;
            let at = start + (begins + MAKES.len()) as u64;
            match is_left(behind, at) {
                true => (sp, FpFrom::Callee),
                false => (fp.checked_add(8)?, FpFrom::Memory(fp)),
            }
        }
    };
    let fp = match from {
        FpFrom::Memory(at) => process.word(at, 8)?,
        _ => fp,
    };
    let pc = process.word(slot, 8)?;
    let is_made = matches!(process.told(Avma(pc)), Some(Told::Erlang(_)));
    let before = unwinder.call_before(Machine::X86_64, pc, process);
    (is_made && before.is_some_and(CallBefore::is_call)).then_some(())?;
    let mut caller = *registers;
    caller.set_pc(pc);
    caller.set(Machine::X86_64.sp(), slot.wrapping_add(8));
    caller.set(Machine::X86_64.fp(), fp);
    Some(Caller::found(caller, from, slot))
}

/// Whether the frame pointer was taken down behind this code of a function, of which each
/// part behind a jump has it.
fn is_left(code: &[u8], at: u64) -> bool {
    let mut is_left = false;
    for instruction in Decoder::with_ip(64, code, at, DecoderOptions::NONE) {
        match (instruction.flow_control(), instruction.mnemonic()) {
            (_, Mnemonic::Leave) => is_left = true,
            (FlowControl::Return | FlowControl::UnconditionalBranch, _)
            | (FlowControl::IndirectBranch, _) => is_left = false,
            _ => {}
        }
    }
    is_left
}

/// The caller of a frame that has called C, if what the process had on its stack is known.
/// How deep that was, no word tells that stayed: all of it has to be of the sample's time.
fn of_process(
    unwinder: &mut Unwinder,
    cursor: &Cursor,
    has_frame_pointers: bool,
    process: &mut impl Process,
) -> Option<Result<Caller, ChainEnd>> {
    let mut registers = *cursor.registers();
    let sp = own_stack(unwinder, cursor, process)?;
    registers.set(Machine::X86_64.sp(), sp);
    let word = |process: &mut _, at| Process::word_then(process, at, 8);
    match by_values(unwinder, (&registers, 0), word, process) {
        // Found by way of memory, which may have changed the next time.
        Ok(mut caller) => {
            caller.base = Base::Other;
            // Each is saved below a return address.
            let saved = caller.slot.filter(|_| has_frame_pointers);
            if let Some(fp) = saved.and_then(|slot| process.word_then(slot.checked_sub(8)?, 8)) {
                caller.registers.set(Machine::X86_64.fp(), fp);
            }
            Some(Ok(caller))
        }
        Err(ChainEnd::Root) => Some(Err(ChainEnd::Root)),
        Err(_) => None,
    }
}

/// The stack pointer of the process where a function on the stack of the thread goes back
/// to its own: the code does so when C has returned, to where the process has it or, where
/// the process cannot have changed it, a register.
fn own_stack(unwinder: &Unwinder, cursor: &Cursor, process: &mut impl Process) -> Option<u64> {
    let registers = cursor.registers();
    let mut code = [0; BACK];
    let got = unwinder.code(Avma(cursor.pc()), &mut code, process);
    let code = code.get(..got)?;
    for instruction in Decoder::with_ip(64, code, cursor.pc(), DecoderOptions::NONE) {
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {}
            FlowControl::ConditionalBranch => {}
            _ => return None,
        }
        if instruction.mnemonic() != Mnemonic::Mov || instruction.op0_register() != Register::RSP {
            continue;
        }
        let is_kept = instruction.op1_kind() == OpKind::Register;
        return match (instruction.memory_base(), instruction.memory_index()) {
            _ if is_kept => (instruction.op1_register() == Register::RBP)
                .then(|| registers.known(RBP))
                .flatten(),
            (Register::R13, Register::None) => {
                let at = registers.known(R13)?;
                process.word_then(at.checked_add(instruction.memory_displacement64())?, 8)
            }
            _ => None,
        };
    }
    None
}

/// The caller by the first return address above so many bytes from the stack pointer on,
/// as `word` reads them.
fn by_values<P: Process>(
    unwinder: &Unwinder,
    (registers, own): (&Registers, u64),
    word: impl Fn(&mut P, u64) -> Option<u64>,
    process: &mut P,
) -> Result<Caller, ChainEnd> {
    for index in own / 8..MAX_WORDS {
        let slot = registers.sp().checked_add(index * 8);
        let slot = slot.ok_or(ChainEnd::NoUnwindInfo)?;
        let word = word(process, slot).ok_or(ChainEnd::StackCut)?;
        // 0 is what no value is.
        if word & TAG != 0 || word == 0 {
            continue;
        }
        let Some(Told::Erlang(erlang)) = process.told(Avma(word)) else {
            match process.place(Avma(word)) {
                // A frame pointer.
                CodeAt::Nothing if word > slot => continue,
                _ => return Err(ChainEnd::Unproven),
            }
        };
        if erlang.exits.iter().any(|exit| exit.contains(&word)) {
            return Err(ChainEnd::Root);
        }
        // Of functions that are traced: what they return to is above it.
        if erlang.returned_to.contains(&word) {
            continue;
        }
        let before = unwinder.call_before(Machine::X86_64, word, process);
        if !before.is_some_and(CallBefore::is_call) {
            return Err(ChainEnd::Unproven);
        }
        let mut caller = *registers;
        caller.set_pc(word);
        caller.set(Machine::X86_64.sp(), slot.wrapping_add(8));
        caller.forget(Machine::X86_64.fp());
        return Ok(Caller {
            base: Base::Stack,
            ..Caller::found(caller, FpFrom::Other, slot)
        });
    }
    Err(ChainEnd::NoUnwindInfo)
}

/// The frame that stands for what the process had called.
fn all_others(registers: &Registers, main: ErlangMain) -> Caller {
    let mut caller = *registers;
    caller.set_pc(main.stand_in());
    // They are the process's, and this frame is the same for all of a thread.
    for number in OF_PROCESS {
        caller.forget(number);
    }
    Caller {
        slot: None,
        base: Base::Other,
        ..Caller::found(caller, FpFrom::Other, 0)
    }
}

/// The scheduler, which called what takes room on its stack: the only return address of
/// such a call where the room may end.
fn of_scheduler(
    unwinder: &mut Unwinder,
    registers: &Registers,
    main: ErlangMain,
    process: &mut impl Process,
) -> Result<Caller, ChainEnd> {
    let mut found = None;
    // The stack is a multiple of 16 where something is called.
    for place in (8..main.align).step_by(16) {
        let slot = registers.sp().checked_add(main.room + place);
        let slot = slot.ok_or(ChainEnd::NoUnwindInfo)?;
        let pc = process.word(slot, 8).ok_or(ChainEnd::StackCut)?;
        if calls_main(unwinder, pc, process) && found.replace((slot, pc)).is_some() {
            return Err(ChainEnd::Unproven);
        }
    }
    let (slot, pc) = found.ok_or(ChainEnd::Unproven)?;
    let mut caller = *registers;
    caller.set_pc(pc);
    caller.set(Machine::X86_64.sp(), slot.wrapping_add(8));
    // It never returns, and keeps none of them.
    caller.forget(RBX);
    Ok(Caller {
        base: Base::Stack,
        ..Caller::found(caller, FpFrom::Other, slot)
    })
}

/// Whether an address follows a call of the function of the machine's own file that goes
/// on to what takes the room.
fn calls_main(unwinder: &mut Unwinder, pc: u64, process: &mut impl Process) -> bool {
    let Some(CallBefore::Direct(by)) = unwinder.call_before(Machine::X86_64, pc, process) else {
        return false;
    };
    let target = Avma(pc.wrapping_add_signed(by));
    let CodeAt::Dso { id, bias } = process.place(target) else {
        return false;
    };
    let main = unwinder.dsos.get_mut(id).and_then(|dso| dso.erlang_main());
    main == Some(bias.to_svma(target))
}

#[cfg(test)]
mod tests {
    use crate::fake::{CODE, FakeProcess, STACK};
    use crate::{CodeAt, Erlang, Machine, Process, Registers, Told, Unwinder};
    use prof_profile::{Avma, ChainEnd};
    use prof_runtimes::ErlangMain;
    use std::ops::Range;

    /// Values: a small integer, a list, an atom.
    const VALUES: [u64; 3] = [0x2f, 0x5001, 0x20b];
    /// Where a process goes that is done.
    const EXIT: u64 = CODE + 0xf00;
    /// From the stack pointer to what `rbx` holds, and where a process has its own.
    const REGISTERS: u64 = 0x80;
    const OWN: u64 = 0x58;
    const MAIN: ErlangMain = ErlangMain {
        start: CODE + 0xe00,
        end: CODE + 0xe80,
        room: 0x100,
        align: 64,
        registers: REGISTERS,
        stack: Some(OWN),
    };

    /// A machine whose code is at [`CODE`]: one function in each 256 bytes.
    struct Fake {
        memory: FakeProcess,
        erlang: Erlang,
        /// What was copied with the sample ends here.
        copied: u64,
    }

    impl Process for Fake {
        fn place(&mut self, pc: Avma) -> CodeAt {
            self.memory.place(pc)
        }

        fn word(&mut self, address: u64, size: u8) -> Option<u64> {
            self.memory.word(address, size)
        }

        fn word_then(&mut self, address: u64, size: u8) -> Option<u64> {
            let is_copied = address < self.copied;
            is_copied.then(|| self.word(address, size)).flatten()
        }

        fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
            self.memory.code(at, out)
        }

        fn told(&mut self, pc: Avma) -> Option<Told<'_>> {
            let is_code = self.memory.place(pc) == CodeAt::Anonymous;
            is_code.then_some(Told::Erlang(&self.erlang))
        }

        fn told_function(&mut self, pc: Avma) -> Option<Range<u64>> {
            let start = pc.0 - pc.0 % 256;
            Some(start..start + 256)
        }
    }

    /// What is on the stack, and the code besides `call` before 0x140, 0x240 and 0x340.
    fn fake(words: &[u64], code: &[(usize, &[u8])], has_frame_pointers: bool) -> Fake {
        let call: &[u8] = &[0xe8, 0, 0, 0, 0];
        let calls = [0x13b, 0x23b, 0x33b].map(|at| (at, call));
        let erlang = Erlang {
            has_frame_pointers,
            main: Some(MAIN),
            returned_to: EXIT..EXIT + 0x100,
            exits: std::iter::once(EXIT..EXIT + 0x20).collect(),
        };
        let code = [&calls[..], code].concat();
        Fake {
            memory: FakeProcess::with_code(words.to_vec(), &code),
            erlang,
            copied: u64::MAX,
        }
    }

    fn chain(registers: Registers, process: &mut Fake) -> (Vec<u64>, ChainEnd) {
        let mut chain = Vec::new();
        let end = Unwinder::default().unwind(registers, process, 20, &mut chain);
        let chain = chain.iter().map(|pc| pc - CODE).collect();
        (chain, end)
    }

    #[test]
    fn what_is_no_value_is_a_return_address() {
        let [a, b, c] = VALUES;
        let traced = EXIT + 0x40;
        let words = [
            a,
            b,
            CODE + 0x140,
            c,
            0,
            CODE + 0x240,
            traced,
            CODE + 0x340,
            a,
            EXIT,
        ];
        let registers = Registers::new(Machine::X86_64, CODE + 0x440, STACK);
        let (found, end) = chain(registers, &mut fake(&words, &[], false));
        assert_eq!(
            (found.as_slice(), end),
            (&[0x440, 0x140, 0x240, 0x340][..], ChainEnd::Root)
        );
        // What has the tag of one, but is none.
        let words = [a, CODE + 0x150, EXIT];
        let (found, end) = chain(registers, &mut fake(&words, &[], false));
        assert_eq!((found.as_slice(), end), (&[0x440][..], ChainEnd::Unproven));
        let (_, end) = chain(registers, &mut fake(&VALUES, &[], false));
        assert_eq!(end, ChainEnd::StackCut);
    }

    #[test]
    fn what_a_new_frame_has_from_before_counts_for_nothing() {
        let makes: &[u8] = &[0x48, 0x83, 0xec, 0x10];
        let words = [CODE + 0x340, 0x2f, CODE + 0x140, EXIT];
        let code = [(0x430, makes), (0x434, &[0x48, 0x8b, 0x3b])];
        let registers = Registers::new(Machine::X86_64, CODE + 0x437, STACK);
        let (found, end) = chain(registers, &mut fake(&words, &code, false));
        assert_eq!(
            (found.as_slice(), end),
            (&[0x437, 0x140][..], ChainEnd::Root)
        );
        // With frame pointers, too.
        let words = [CODE + 0x340, 0, 0, CODE + 0x140];
        let makes: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10];
        let code = [(0x430, makes), (0x43f, &[0xc9, 0xc3])];
        for (pc, sp, fp) in [
            (0x430, 24, 7),
            (0x431, 16, 7),
            (0x434, 16, 16),
            (0x43a, 0, 16),
            (0x440, 24, 7),
        ] {
            let mut registers = Registers::new(Machine::X86_64, CODE + pc, STACK + sp);
            registers.set(6, STACK + fp);
            let (found, _) = chain(registers, &mut fake(&words, &code, true));
            assert_eq!(found, [pc, 0x140], "{pc:#x}");
        }
    }

    #[test]
    fn where_c_was_called_the_process_knows_its_stack() {
        // Its stack, the process from 0x40 on, and the thread's.
        let mut words = vec![0x2f, CODE + 0x140, EXIT];
        words.resize(96, 0);
        words[8 + OWN as usize / 8] = STACK;
        let below = STACK + 0x100;
        let mut registers = Registers::new(Machine::X86_64, CODE + 0x440, below);
        registers.set(3, below + REGISTERS);
        registers.set(6, STACK);
        registers.set(13, STACK + 0x40);
        let by_process: &[u8] = &[0x49, 0x8b, 0x65, OWN as u8];
        let by_register: &[u8] = &[0x48, 0x89, 0xec];
        for back in [by_process, by_register] {
            let (found, end) = chain(registers, &mut fake(&words, &[(0x442, back)], false));
            assert_eq!(
                (found.as_slice(), end),
                (&[0x440, 0x140][..], ChainEnd::Root)
            );
        }
        // It is of a later look, or was not read: one frame stands for all.
        let stand_in = MAIN.stand_in() - CODE;
        for copied in [STACK + 16, STACK] {
            let mut process = fake(&words, &[(0x442, by_process)], false);
            process.copied = copied;
            let (found, _) = chain(registers, &mut process);
            assert_eq!(found, [0x440, stand_in]);
        }
        words[8 + OWN as usize / 8] = 0x1234_5678;
        let (found, end) = chain(registers, &mut fake(&words, &[(0x442, by_process)], false));
        assert_eq!(
            (found.as_slice(), end),
            (&[0x440, stand_in][..], ChainEnd::Unproven)
        );
    }
}
