//! Code of one function, read from one end to the other.

use super::{
    CallerFp, CodeFrame, MAX_AROUND, ReadCode, Slot, ahead, decode, has_immediate, immediate,
};
use crate::Machine;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Instructions before the call that is the last one of a stack.
const MAX_BEFORE_LAST: usize = 3;
/// Instructions that are looked at for the end of a frame.
const MAX_AHEAD: usize = 64;
/// Most bytes between two places of a function.
const LONGEST: u64 = 1 << 14;

/// Whether the x86-64 code at `pc` pushes `%rdi`, as it is there, before it calls or
/// leaves: a function that keeps in its frame what its caller gave it.
pub fn keeps_on_stack(pc: u64, read: impl FnMut(u64, &mut [u8]) -> usize) -> bool {
    let mut read = ahead(read);
    if has_frame_made(pc, &mut read) {
        return true;
    }
    let mut at = pc;
    for _ in 0..MAX_AROUND {
        let Some(instruction) = decode(Machine::X86_64, at, &mut read) else {
            return false;
        };
        at = instruction.next_ip();
        let is_register = instruction.op0_kind() == OpKind::Register;
        let target = instruction.op0_register();
        if instruction.mnemonic() == Mnemonic::Push && is_register && target == Register::RDI {
            return true;
        }
        let compares = matches!(
            instruction.mnemonic(),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push
        );
        let changes = is_register && !compares && target.full_register() == Register::RDI;
        let goes_on = matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::ConditionalBranch
        );
        if changes || !goes_on || instruction.mnemonic() == Mnemonic::Pop {
            return false;
        }
    }
    false
}

/// Whether x86 code at `pc` goes on to one call that does not return, as `hlt` or `ud2`
/// behind it tells: `xor %rdi,%rdi; call _exit; hlt`.
pub(crate) fn ends_all(machine: Machine, pc: u64, read: &mut impl ReadCode) -> bool {
    let mut at = pc;
    for _ in 0..=MAX_BEFORE_LAST {
        let Some(instruction) = decode(machine, at, read) else {
            return false;
        };
        at = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::Next if !matches!(instruction.mnemonic(), Mnemonic::Hlt) => {}
            FlowControl::Call | FlowControl::IndirectCall => {
                let behind = decode(machine, at, read).map(|it| it.mnemonic());
                return matches!(behind, Some(Mnemonic::Hlt | Mnemonic::Ud2));
            }
            _ => return false,
        }
    }
    false
}

/// Whether the x86-64 code at `pc` goes on to have its frame made by a function that it
/// calls for that, as the code does that V8 makes of bytecode alone: `mov N,%ebx; movabs
/// BYTECODE,%r12; call BaselineOutOfLinePrologue`. Its caller's frame is the latest then,
/// and `%rdi` holds the function.
pub(crate) fn has_frame_made(pc: u64, read: &mut impl ReadCode) -> bool {
    let mut at = pc;
    let mut has_bytecode = is_bytecode_before(pc, read);
    for _ in 0..3 {
        let Some(instruction) = decode(Machine::X86_64, at, read) else {
            return false;
        };
        at = instruction.next_ip();
        let target = match instruction.op0_kind() {
            OpKind::Register => instruction.op0_register(),
            _ => Register::None,
        };
        match (instruction.mnemonic(), target) {
            (Mnemonic::Call, _) => return has_bytecode,
            (Mnemonic::Mov | Mnemonic::Xor, Register::EBX) if !has_bytecode => {}
            (Mnemonic::Mov, Register::R12) if instruction.op1_kind() == OpKind::Immediate64 => {
                has_bytecode = true;
            }
            _ => return false,
        }
    }
    false
}

/// Where x86-64 code is about to point its frame pointer, in bytes above the stack
/// pointer at `pc`: `lea N(%rsp),%rbp` or `mov %rsp,%rbp`, behind nothing but what
/// makes room on the stack (`push`, `sub`). Compilers that put locals below the saved
/// frame pointer first make the room (.NET's). Negative if that is yet to be pushed.
pub(crate) fn fp_to_be(pc: u64, read: &mut impl ReadCode) -> Option<i64> {
    const WORD: i64 = 8;
    let (mut at, mut sp) = (pc, 0_i64);
    for _ in 0..MAX_AROUND {
        let instruction = decode(Machine::X86_64, at, read)?;
        at = instruction.next_ip();
        let target = match instruction.op0_kind() {
            OpKind::Register => instruction.op0_register(),
            _ => Register::None,
        };
        match (instruction.mnemonic(), target) {
            (Mnemonic::Push, register) if register.is_gpr64() => sp -= WORD,
            (Mnemonic::Sub, Register::RSP) if has_immediate(&instruction) => {
                sp = sp.checked_sub(immediate(&instruction))?;
            }
            (Mnemonic::Mov, Register::RBP) if instruction.op1_kind() == OpKind::Register => {
                return (instruction.op1_register() == Register::RSP).then_some(sp);
            }
            (Mnemonic::Lea, Register::RBP) => {
                let is_plain = instruction.memory_base() == Register::RSP
                    && instruction.memory_index() == Register::None;
                let above = instruction.memory_displacement64().cast_signed();
                return is_plain.then(|| sp.checked_add(above)).flatten();
            }
            (Mnemonic::Vzeroupper | Mnemonic::Nop | Mnemonic::Endbr64, _) => {}
            _ => return None,
        }
    }
    None
}

/// Whether the x86-64 instruction at `pc` makes room on the stack: `sub $N,%rsp`.
pub(crate) fn makes_room(pc: u64, read: &mut impl ReadCode) -> bool {
    decode(Machine::X86_64, pc, read).is_some_and(|instruction| {
        instruction.mnemonic() == Mnemonic::Sub
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register() == Register::RSP
            && has_immediate(&instruction)
    })
}

/// The frame of the x86-64 code at `pc`, if what follows takes it down by the frame
/// pointer before it makes another: it is its own then, however it was made.
pub(crate) fn taken_down_by_fp(pc: u64, read: &mut impl ReadCode) -> Option<CodeFrame> {
    const WORD: i64 = 8;
    let mut at = pc;
    for _ in 0..MAX_AHEAD {
        let instruction = decode(Machine::X86_64, at, read)?;
        at = instruction.next_ip();
        let target = match instruction.op0_kind() {
            OpKind::Register => instruction.op0_register(),
            _ => Register::None,
        };
        let is_from_fp = match instruction.op1_kind() {
            OpKind::Register => instruction.op1_register() == Register::RBP,
            _ => false,
        };
        let is_linked = instruction.op1_kind() == OpKind::Memory
            && instruction.memory_base() == Register::RBP
            && instruction.memory_displacement64() == 0;
        let is_down = match (instruction.mnemonic(), target) {
            (Mnemonic::Leave, _) => true,
            (Mnemonic::Mov, Register::RSP) => is_from_fp,
            (Mnemonic::Mov, Register::RBP) => is_linked,
            _ => false,
        };
        if is_down {
            return Some(CodeFrame {
                return_address: Slot::FromFp(WORD),
                caller_fp: Some(CallerFp::Saved(WORD)),
            });
        }
        let makes_another = target == Register::RBP;
        match instruction.flow_control() {
            _ if makes_another => return None,
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            FlowControl::Call | FlowControl::IndirectCall => {}
            FlowControl::UnconditionalBranch => at = instruction.near_branch_target(),
            _ => return None,
        }
    }
    None
}

/// Whether right before a place the bytecode was put into its register.
fn is_bytecode_before(pc: u64, read: &mut impl ReadCode) -> bool {
    let mut code = [0; 10];
    let before = pc.checked_sub(code.len() as u64);
    before.is_some_and(|at| read(at, &mut code) == code.len()) && code.starts_with(&[0x49, 0xbc])
}

/// Whether x86-64 code goes on from the instruction at `from` to that at `to`, with
/// nothing between that no compiler makes, as stands between functions.
pub fn is_straight(from: u64, to: u64, mut read: impl FnMut(u64, &mut [u8]) -> usize) -> bool {
    let Some(length) = to.checked_sub(from).filter(|&length| length <= LONGEST) else {
        return false;
    };
    let mut code = vec![0; length as usize];
    if read(from, &mut code) != code.len() {
        return false;
    }
    let mut decoder = Decoder::with_ip(64, &code, from, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let at = instruction.ip().wrapping_sub(from) as usize;
        // Zeros: the upper halves of pointers and small numbers.
        let is_data = code.get(at..at + 2) == Some(&[0, 0]);
        let is_made = !instruction.is_invalid() && !instruction.is_privileged();
        if is_data || !is_made || instruction.mnemonic() == Mnemonic::Int3 {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{fp_to_be, has_frame_made, is_straight, keeps_on_stack, taken_down_by_fp};
    use crate::code_frame::tests::reader;

    const AT: u64 = 0x1000;

    #[test]
    fn a_function_that_will_keep_its_own_object_is_told_from_others() {
        // mov -0x20(%rcx),%rbx; testb $1,0x2f(%rbx); jne …; push %rbp; mov %rsp,%rbp;
        // push %rsi; push %rdi
        let made = [
            0x48, 0x8b, 0x59, 0xe0, 0xf6, 0x43, 0x2f, 0x01, 0x75, 0x40, 0x55, 0x48, 0x89, 0xe5,
            0x56, 0x57, 0x50,
        ];
        let keeps = |from: u64, code: &[u8]| keeps_on_stack(AT + from, reader(code));
        for from in [0, 4, 8, 10, 11, 14, 15] {
            assert!(keeps(from, &made), "{from}");
        }
        assert!(!keeps(16, &made), "it has done so");
        // mov %rax,%rdi; push %rdi
        assert!(!keeps(0, &[0x48, 0x89, 0xc7, 0x57]));
        // xor %edi,%edi; push %rdi
        assert!(!keeps(0, &[0x31, 0xff, 0x57]));
        // pop %rbp; ret; push %rdi
        assert!(!keeps(0, &[0x5d, 0xc3, 0x57]));
        // call …; push %rdi
        assert!(!keeps(0, &[0xe8, 0, 0, 0, 0, 0x57]));
        assert!(!keeps(0, &[]));
    }

    #[test]
    fn a_function_whose_frame_is_made_by_another_is_at_its_beginning() {
        // mov $3,%ebx; movabs $…,%r12; call …; mov -0x30(%rbp),%rbx
        let made = [
            0xbb, 3, 0, 0, 0, 0x49, 0xbc, 0x59, 0x11, 0xe8, 0xfd, 0xab, 0x1d, 0, 0, 0xe8, 1, 2, 3,
            4, 0x48, 0x8b, 0x5d, 0xd0,
        ];
        let is_made = |from: u64, code: &[u8]| has_frame_made(AT + from, &mut reader(code));
        for from in [0, 5, 15] {
            assert!(is_made(from, &made), "{from}");
            assert!(keeps_on_stack(AT + from, reader(&made)), "{from}");
        }
        assert!(!is_made(20, &made), "it has its frame");
        // xor %ebx,%ebx before it; and a call without bytecode.
        assert!(is_made(0, &[&[0x33, 0xdb], &made[5..]].concat()));
        assert!(!is_made(0, &[&made[..5], &made[15..]].concat()));
        assert!(!is_made(0, &made[..15]));
    }

    #[test]
    fn a_frame_pointer_that_is_yet_to_be_set_has_its_place() {
        // push %rbp; push %r15; push %rbx; sub $16,%rsp; lea 0x20(%rsp),%rbp
        let begins = [
            0x55, 0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x10, 0x48, 0x8d, 0x6c, 0x24, 0x20,
        ];
        let to_be = |from: u64, code: &[u8]| fp_to_be(AT + from, &mut reader(code));
        for (from, above) in [(0, -8), (1, 0), (3, 8), (4, 16), (8, 32)] {
            assert_eq!(to_be(from, &begins), Some(above), "{from}");
        }
        // vzeroupper; mov %rsp,%rbp
        assert_eq!(to_be(0, &[0xc5, 0xf8, 0x77, 0x48, 0x89, 0xe5]), Some(0));
        // mov (%rdi),%rbp as its funclets do; lea 8(%rsp,%rax),%rbp; ret.
        assert_eq!(to_be(0, &[0x48, 0x8b, 0x2f]), None);
        assert_eq!(to_be(0, &[0x48, 0x8d, 0x6c, 0x04, 0x08]), None);
        assert_eq!(to_be(0, &[0xc3]), None);
        assert_eq!(to_be(0, &begins[..8]), None);
    }

    #[test]
    fn a_frame_that_is_taken_down_by_its_pointer_is_told_from_one_that_is_to_come() {
        let is_own =
            |from: u64, code: &[u8]| taken_down_by_fp(AT + from, &mut reader(code)).is_some();
        // mov %rax,%rcx; pop %rax; mov %rbp,%rsp; pop %rbp; push %rcx; ret
        let down = [0x48, 0x89, 0xc1, 0x58, 0x48, 0x89, 0xec, 0x5d, 0x51, 0xc3];
        assert!(is_own(0, &down) && is_own(4, &down));
        assert!(!is_own(7, &down) && !is_own(8, &down), "it is gone");
        // jne …; leave; and a call and a jump back to that.
        assert!(is_own(0, &[0x75, 0x40, 0xc9]));
        assert!(is_own(3, &[0xc9, 0x90, 0x90, 0xff, 0xd0, 0xeb, 0xf9]));
        // mov 0(%rbp),%rbp
        assert!(is_own(0, &[0x48, 0x8b, 0x6d, 0]));
        // push %rbp; mov %rsp,%rbp; leave: one is to come.
        let made = [0x55, 0x48, 0x89, 0xe5, 0xc9, 0xc3];
        assert!(!is_own(0, &made) && !is_own(1, &made) && is_own(4, &made));
        assert!(!is_own(0, &[0x90, 0xc3]) && !is_own(0, &[0xff, 0xe0, 0xc9]));
        // A loop without an end.
        assert!(!is_own(0, &[0xeb, 0xfe]));
    }

    #[test]
    fn code_goes_on_over_returns_but_not_over_what_stands_between_functions() {
        let straight =
            |from: u64, to: u64, code: &[u8]| is_straight(AT + from, AT + to, reader(code));
        // mov %rbp,%rsp; pop %rbp; ret; nop; call …
        let code = [0x48, 0x89, 0xec, 0x5d, 0xc3, 0x90, 0xe8, 1, 0, 0, 0];
        assert!(straight(0, 4, &code) && straight(3, 11, &code) && straight(4, 4, &code));
        // Not to the middle of an instruction, back, or behind what can be read.
        assert!(!straight(0, 2, &code) && !straight(4, 3, &code) && !straight(0, 40, &code));
        for between in [&[0xcc][..], &[0, 0], &[0xf4], &[0x06]] {
            let code = [&[0x5d, 0xc3], between, &[0x55, 0x57]].concat();
            assert!(!straight(0, code.len() as u64, &code), "{between:x?}");
        }
        // Zeros in an instruction are its own: mov $0,%eax.
        assert!(straight(0, 5, &[0xb8, 0, 0, 0, 0]));
    }
}
