//! Whether a function keeps a frame pointer, by what its code does with the
//! register from a place on.
//!
//! Of a function in a stripped file nobody may know where it begins: it was
//! called through a pointer, and is longer than what can be followed. What it
//! does next tells as much. A register that is left alone may be its caller's;
//! one below which it has its locals, by which it sets the stack pointer, or
//! which it pops from where the frame record lies, is its own. One way from the
//! place on is enough for that, since all code of a function shares its frame.
//! Only x86 of 64 bits.

use super::{Fp, ReadCode, State, begins_function, decode, dwarf, is_fp, is_sp};
use crate::Machine;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// Instructions looked at for one place.
const MAX_INSTRUCTIONS: usize = 1024;

/// How the function at a place keeps its frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnFp {
    /// It has locals below it, or the stack pointer is set by it.
    Used,
    /// It is popped from so far above where the stack pointer is at the place,
    /// bytes.
    PoppedFrom(i64),
}

/// Where a way has come.
#[derive(Debug, Clone, Copy)]
struct Way {
    at: u64,
    /// How far the stack pointer is below where it was at the place, bytes;
    /// `None` if that is lost.
    depth: Option<i64>,
    /// Registers with addresses made of the frame pointer, a bit for each number.
    derived: u32,
    behind_call: bool,
}

/// How the function at `pc` keeps its frame pointer; `None` if it does not, or
/// that cannot be told. `behind_call`: a call ends at `pc`, which may be the
/// last of its function.
pub(crate) fn kept_fp(pc: u64, behind_call: bool, read: &mut impl ReadCode) -> Option<OwnFp> {
    let mut open = VecDeque::from([Way {
        at: pc,
        depth: Some(0),
        derived: 0,
        behind_call,
    }]);
    let mut seen = FxHashSet::default();
    let mut info = InstructionInfoFactory::new();
    while let Some(way) = open.pop_front() {
        if seen.len() >= MAX_INSTRUCTIONS {
            return None;
        }
        if !seen.insert(way.at) {
            continue;
        }
        let Some(instruction) = decode(Machine::X86_64, way.at, read) else {
            continue;
        };
        if way.behind_call && begins_function(&instruction) {
            continue;
        }
        if way.uses_frame(&instruction) {
            return Some(OwnFp::Used);
        }
        let writes = instruction.op0_kind() == OpKind::Register;
        if instruction.mnemonic() == Mnemonic::Pop && writes && is_fp(instruction.op0_register()) {
            match way.depth.and_then(i64::checked_neg) {
                Some(above) if above >= 0 => return Some(OwnFp::PoppedFrom(above)),
                _ => continue,
            }
        }
        let written = written_by(&mut info, &instruction);
        if written & bit(Register::RBP) == 0 {
            way.go_on(&instruction, written, &mut open);
        }
    }
    None
}

impl Way {
    /// Whether the instruction has something below the frame pointer, or sets
    /// the stack pointer by it.
    fn uses_frame(&self, instruction: &Instruction) -> bool {
        let has_memory = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        let base = instruction.memory_base();
        let is_below = (instruction.memory_displacement64().cast_signed()) < 0;
        if has_memory && base == Register::RBP && is_below {
            return true;
        }
        let sets_sp = instruction.op0_kind() == OpKind::Register
            && is_sp(instruction.op0_register())
            && match instruction.mnemonic() {
                Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                    self.is_derived(instruction.op1_register())
                }
                Mnemonic::Lea => self.is_derived(base),
                _ => false,
            };
        sets_sp || instruction.mnemonic() == Mnemonic::Leave
    }

    fn is_derived(&self, register: Register) -> bool {
        is_fp(register) || self.derived & bit(register) != 0
    }

    /// Adds what can come next.
    fn go_on(&self, instruction: &Instruction, written: u32, open: &mut VecDeque<Self>) {
        let before = State {
            depth: self.depth,
            // What it holds is not known, so nothing is computed from it.
            fp: Fp::Other,
            ..State::entered(self.at)
        };
        let made = match self.derives(instruction) {
            true => bit(instruction.op0_register()),
            false => 0,
        };
        let is_call = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        let next = Self {
            at: instruction.next_ip(),
            depth: before.after(instruction).depth,
            derived: match is_call {
                true => 0,
                false => self.derived & !written | made,
            },
            behind_call: is_call || (self.behind_call && instruction.mnemonic() == Mnemonic::Nop),
        };
        let jump = || Self {
            at: instruction.near_branch_target(),
            behind_call: false,
            ..next
        };
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
                open.push_back(next);
            }
            FlowControl::ConditionalBranch => open.extend([next, jump()]),
            FlowControl::UnconditionalBranch => open.push_back(jump()),
            _ => {}
        }
    }

    /// Whether the instruction puts an address made of the frame pointer into
    /// the register that it writes.
    fn derives(&self, instruction: &Instruction) -> bool {
        let is_register = instruction.op0_kind() == OpKind::Register;
        let by_operand = || {
            instruction.op1_kind() == OpKind::Register
                && self.is_derived(instruction.op1_register())
        };
        is_register
            && match instruction.mnemonic() {
                Mnemonic::Mov => by_operand(),
                Mnemonic::Add => by_operand() || self.is_derived(instruction.op0_register()),
                Mnemonic::Sub | Mnemonic::And => self.is_derived(instruction.op0_register()),
                Mnemonic::Lea => {
                    let (base, index) = (instruction.memory_base(), instruction.memory_index());
                    self.is_derived(base) || self.is_derived(index)
                }
                _ => false,
            }
    }
}

/// The bit of a register of 64 bits; none for others.
fn bit(register: Register) -> u32 {
    dwarf(register).map_or(0, |number| 1 << number)
}

/// The registers that an instruction may change.
pub(super) fn written_by(info: &mut InstructionInfoFactory, instruction: &Instruction) -> u32 {
    let used = info.info(instruction).used_registers().iter();
    let written = used.filter(|used| {
        use OpAccess::{CondRead, NoMemAccess, None, Read};
        !matches!(used.access(), Read | CondRead | NoMemAccess | None)
    });
    written.fold(0, |all, used| all | bit(used.register()))
}

#[cfg(test)]
mod tests {
    use super::{OwnFp, kept_fp};
    use crate::code_frame::tests::reader;

    /// What is told of a place of this code, which stands at 0x1000.
    fn at(code: &[u8], place: u64, behind_call: bool) -> Option<OwnFp> {
        kept_fp(0x1000 + place, behind_call, &mut reader(code))
    }

    #[test]
    fn a_frame_pointer_is_kept_where_it_is_used_or_popped() {
        let cases: [(&[u8], Option<OwnFp>); 12] = [
            // mov -8(%rbp),%rax; mov 16(%rbp),%rax; ret
            (&[0x48, 0x8b, 0x45, 0xf8], Some(OwnFp::Used)),
            (&[0x48, 0x8b, 0x45, 0x10, 0xc3], None),
            // leave; mov %rbp,%rsp; lea -40(%rbp),%rsp
            (&[0xc9], Some(OwnFp::Used)),
            (&[0x48, 0x89, 0xec], Some(OwnFp::Used)),
            (&[0x48, 0x8d, 0x65, 0xd8], Some(OwnFp::Used)),
            // neg %rdx; add %rbp,%rdx; mov %rdx,%rsp
            (
                &[0x48, 0xf7, 0xda, 0x48, 0x01, 0xea, 0x48, 0x89, 0xd4],
                Some(OwnFp::Used),
            ),
            // add %rbp,%rdx; mov (%rcx),%rdx; mov %rdx,%rsp
            (
                &[0x48, 0x01, 0xea, 0x48, 0x8b, 0x11, 0x48, 0x89, 0xd4],
                None,
            ),
            // add $24,%rsp; pop %rbx; pop %rbp; ret
            (
                &[0x48, 0x83, 0xc4, 24, 0x5b, 0x5d, 0xc3],
                Some(OwnFp::PoppedFrom(32)),
            ),
            // push %rax; pop %rbp: below the stack pointer of the place
            (&[0x50, 0x5d, 0xc3], None),
            // mov %rsp,%rbp; mov -8(%rbp),%rax
            (&[0x48, 0x89, 0xe5, 0x48, 0x8b, 0x45, 0xf8], None),
            // xchg %rax,%rbp; mov -8(%rbp),%rax
            (&[0x48, 0x95, 0x48, 0x8b, 0x45, 0xf8], None),
            // jmp *%rax; leave
            (&[0xff, 0xe0, 0xc9], None),
        ];
        for (code, kept) in cases {
            assert_eq!(at(code, 0, false), kept, "{code:x?}");
        }
    }

    #[test]
    fn any_way_will_do_but_not_into_the_next_function() {
        // jz 1f; jmp *%rax; 1: call f; pop %rbp; ret
        let code = [0x74, 2, 0xff, 0xe0, 0xe8, 1, 0, 0, 0, 0x5d, 0xc3];
        assert_eq!(at(&code, 0, true), Some(OwnFp::PoppedFrom(0)));
        // call abort; nop; push %rbx; mov -8(%rbp),%rax
        let code = [0xe8, 0, 0, 0, 0, 0x90, 0x53, 0x48, 0x8b, 0x45, 0xf8];
        assert_eq!(at(&code, 0, false), None);
        assert_eq!(at(&code, 5, true), None);
        assert_eq!(at(&code, 6, false), Some(OwnFp::Used));
        // 1: inc %eax; jmp 1b
        assert_eq!(at(&[0xff, 0xc0, 0xeb, 0xfc], 0, false), None);
    }
}
