//! The frame at a place by the ways that lead from there to a return.
//!
//! Where nothing tells at which address a function begins, as of assembly in a
//! stripped library, what is still to come tells as much: each way from the
//! place to a return must find the return address in the same slot. That is so
//! in code that is called and returns. A way that cannot be followed to its
//! end proves nothing, and with it none does.

use super::kept::written_by;
use super::{CallerFp, CodeFrame, Fp, ReadCode, Slot, State, decode, dwarf, is_fp, is_sp};
use crate::Machine;
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Instructions looked at for one place, those of called functions included.
const MAX_INSTRUCTIONS: usize = 4096;
/// And where one way is enough.
const MAX_TO_RETURN: usize = 1024;
/// The frame pointer of x86 of 64 bits.
const FP: u8 = 6;
/// Calls within calls that are followed.
const MAX_CALLS: u32 = 3;

/// A place on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) of: Of,
    /// So far above that, bytes.
    pub(super) above: i64,
}

/// An address that was known when a way began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// In the stack pointer.
    Sp,
    /// In the register of this number in DWARF.
    Register(u8),
    /// In the word so far above the stack pointer, bytes: where it was kept before the
    /// stack was aligned.
    Word(i64),
}

/// What the frame pointer register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// What it held at the place.
    Same,
    /// A word from the stack.
    From(At),
    Other,
}

/// Where a way has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) at: u64,
    pub(super) sp: At,
    pub(super) fp: Kept,
    /// Where the way has pushed the frame pointer that it began with.
    pub(super) pushed_fp: Option<At>,
    /// Registers that may have changed, a bit for each number.
    pub(super) written: u32,
}

/// The frame at `pc`, if all ways from there agree on it.
pub(crate) fn by_returns(machine: Machine, pc: u64, read: &mut impl ReadCode) -> Option<CodeFrame> {
    let mut ways = Ways::new(machine, read);
    let end = ways.from(pc, MAX_CALLS)?;
    match end.sp.of {
        Of::Word(above) if ways.stored.overlaps(above) => None,
        _ => frame_of(machine, end.sp, end.fp),
    }
}

/// The registers that the function at `entry` may change, with what it calls, a bit for
/// each number; `None` if not all ways through it can be followed.
pub(crate) fn written_by_function(
    machine: Machine,
    entry: u64,
    read: &mut impl ReadCode,
) -> Option<u32> {
    let mut ways = Ways::new(machine, read);
    let end = ways.from(entry, MAX_CALLS - 1)?;
    (end.sp == At::TOP).then_some(end.written)
}

/// The frame at an interrupted `pc`, if a way without a call leads from there to a
/// return. What such a way does to the stack is what will happen if it is taken, so
/// one is enough; behind a call there may be another function. A register may be
/// known to hold something there.
pub(crate) fn by_next_return(
    machine: Machine,
    (pc, constant): (u64, Option<Constant>),
    read: &mut impl ReadCode,
) -> Option<CodeFrame> {
    let mut open = VecDeque::from([(Way::from(pc), constant)]);
    let mut seen = FxHashSet::default();
    let mut info = InstructionInfoFactory::new();
    let mut stored = Stored::default();
    while let Some((way, constant)) = open.pop_front() {
        if seen.len() >= MAX_TO_RETURN {
            return None;
        }
        if !seen.insert(way.at) {
            continue;
        }
        let Some(instruction) = decode(machine, way.at, read) else {
            continue;
        };
        // It may free arguments.
        if instruction.mnemonic() == Mnemonic::Ret {
            // A return to what was pushed is a jump.
            if way.sp.of == Of::Sp && way.sp.above < 0 {
                continue;
            }
            let is_known = match way.sp.of {
                Of::Sp => true,
                Of::Register(number) => number == machine.fp(),
                Of::Word(above) => !stored.overlaps(above),
            };
            return frame_of(machine, way.sp, way.fp).filter(|_| is_known);
        }
        let Some(after) = way.after(&instruction) else {
            continue;
        };
        stored.note(&way, &instruction);
        let written = written_by(&mut info, &instruction);
        let next = Way {
            written: way.written | written,
            ..after
        };
        let to = |at: u64| (Way { at, ..next }, constant);
        match instruction.flow_control() {
            FlowControl::Next => {
                open.push_back((next, Constant::after(constant, &instruction, written)));
            }
            FlowControl::ConditionalBranch => {
                open.extend([(next, constant), to(instruction.near_branch_target())]);
            }
            FlowControl::UnconditionalBranch => {
                open.push_back(to(instruction.near_branch_target()));
            }
            FlowControl::IndirectBranch => {
                let register = dwarf(instruction.op0_register());
                let known = constant.filter(|it| register == Some(it.register));
                open.extend(known.map(|it| to(it.value)));
            }
            _ => {}
        }
    }
    None
}

/// A register that code has put a constant into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constant {
    /// Its number in DWARF.
    pub(crate) register: u8,
    pub(crate) value: u64,
}

impl Constant {
    /// The same behind an instruction that may have changed these registers. PyPy makes
    /// addresses that are far away so: `movabs $N,%r11; lea M(%r11),%r11; jmp *%r11`.
    fn after(before: Option<Self>, instruction: &Instruction, written: u32) -> Option<Self> {
        let register = dwarf(instruction.op0_register());
        let register = register.filter(|_| instruction.op0_kind() == OpKind::Register);
        let value = match instruction.code() {
            Code::Mov_r64_imm64 => Some(instruction.immediate64()),
            Code::Lea_r64_m if instruction.memory_index() == Register::None => {
                let base = dwarf(instruction.memory_base());
                let base = before.filter(|it| base == Some(it.register));
                base.map(|it| it.value.wrapping_add(instruction.memory_displacement64()))
            }
            _ => None,
        };
        match (register, value) {
            (Some(register), Some(value)) => Some(Self { register, value }),
            _ => before.filter(|it| written & (1 << it.register) == 0),
        }
    }
}

/// Whether an instruction puts into a register what it holds, as mono fills gaps:
/// `lea 0(%rbp),%rbp`.
fn is_padding(instruction: &Instruction) -> bool {
    instruction.code() == Code::Lea_r64_m
        && instruction.memory_base() == instruction.op0_register()
        && instruction.memory_index() == Register::None
        && instruction.memory_displacement64() == 0
}

/// Others free arguments, or return to elsewhere.
pub(super) fn is_plain_return(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Ret && instruction.op_count() == 0
}

/// The frame whose return address is at `sp` when it returns, with `fp` in the frame
/// pointer.
pub(super) fn frame_of(machine: Machine, sp: At, fp: Kept) -> Option<CodeFrame> {
    let return_address = match sp.of {
        // What is below the stack pointer is nobody's.
        Of::Sp if sp.above < 0 => return None,
        Of::Sp => Slot::FromSp(sp.above),
        Of::Register(number) if number == machine.fp() => Slot::FromFp(sp.above),
        Of::Register(number) => Slot::KeptIn(number, sp.above),
        Of::Word(above) => Slot::KeptAt(above, sp.above),
    };
    let caller_fp = match fp {
        Kept::Same => Some(CallerFp::InRegister),
        Kept::From(at) if at.of == sp.of && (at.of != Of::Sp || at.above >= 0) => {
            Some(CallerFp::Saved(sp.above.checked_sub(at.above)?))
        }
        _ => None,
    };
    Some(CodeFrame {
        return_address,
        caller_fp,
    })
}

/// What ways come to at their returns.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Where they find the return address.
    sp: At,
    /// What they return with in the frame pointer.
    fp: Kept,
    /// Registers that one of them may have changed, a bit for each number.
    written: u32,
}

struct Ways<'a, R> {
    machine: Machine,
    read: &'a mut R,
    /// Instructions that may still be looked at.
    left: usize,
    info: InstructionInfoFactory,
    stored: Stored,
}

/// What ways store to, above the stack pointer where they began: each place and its
/// length, bytes.
#[derive(Default)]
struct Stored(Vec<(i64, i64)>);

impl Stored {
    /// Notes where an instruction stores something.
    fn note(&mut self, way: &Way, instruction: &Instruction) {
        let stores = instruction.op0_kind() == OpKind::Memory
            && !matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        let at = way.address(instruction).filter(|at| at.of == Of::Sp);
        if let Some(at) = at.filter(|_| stores) {
            let length = instruction.memory_size().size() as i64;
            self.0.push((at.above, length));
        }
    }

    /// Whether part of the word so far above the stack pointer is among it.
    fn overlaps(&self, above: i64) -> bool {
        let is_part = |&(at, length): &(i64, i64)| at < above + 8 && above < at + length;
        self.0.iter().any(is_part)
    }
}

impl<'a, R: ReadCode> Ways<'a, R> {
    fn new(machine: Machine, read: &'a mut R) -> Self {
        Self {
            machine,
            read,
            left: MAX_INSTRUCTIONS,
            info: InstructionInfoFactory::new(),
            stored: Stored::default(),
        }
    }

    /// What all ways from a place come to at a return.
    fn from(&mut self, pc: u64, calls: u32) -> Option<End> {
        let mut open = vec![Way::from(pc)];
        let mut seen: FxHashMap<u64, Way> = FxHashMap::default();
        let mut found: Option<End> = None;
        while let Some(mut way) = open.pop() {
            if let Some(before) = seen.get(&way.at) {
                if before.sp != way.sp {
                    return None;
                }
                // A loop may change what it comes back with; what counts is what the ways
                // return with.
                if before.fp != way.fp {
                    way.fp = Kept::Other;
                }
                if before.pushed_fp != way.pushed_fp {
                    way.pushed_fp = None;
                }
                way.written |= before.written;
                if *before == way {
                    continue;
                }
            }
            seen.insert(way.at, way);
            self.left = self.left.checked_sub(1)?;
            let instruction = decode(self.machine, way.at, self.read)?;
            if instruction.flow_control() != FlowControl::Return {
                self.go_on(&way, &instruction, calls, &mut open)?;
                continue;
            }
            let end = found.get_or_insert(End {
                sp: way.sp,
                fp: way.fp,
                written: 0,
            });
            if end.sp != way.sp || !is_plain_return(&instruction) {
                return None;
            }
            if end.fp != way.fp {
                end.fp = Kept::Other;
            }
            end.written |= way.written;
        }
        found
    }

    /// Adds where an instruction leads; `None` if that is not known.
    fn go_on(
        &mut self,
        way: &Way,
        instruction: &Instruction,
        calls: u32,
        open: &mut Vec<Way>,
    ) -> Option<()> {
        let next = Way {
            written: way.written | written_by(&mut self.info, instruction),
            ..way.after(instruction)?
        };
        self.stored.note(way, instruction);
        let jump = Way {
            at: instruction.near_branch_target(),
            ..next
        };
        match instruction.flow_control() {
            FlowControl::Next => open.push(next),
            FlowControl::ConditionalBranch => open.extend([jump, next]),
            FlowControl::UnconditionalBranch => open.push(jump),
            FlowControl::Call => {
                // It must come back, with the stack as it was.
                let end = self.from(jump.at, calls.checked_sub(1)?)?;
                if end.sp != At::TOP {
                    return None;
                }
                // It need not follow the ABI: what it does not touch it keeps.
                let keeps_fp = end.fp == Kept::Same;
                open.push(Way {
                    fp: if keeps_fp { next.fp } else { Kept::Other },
                    written: next.written | end.written,
                    ..next
                });
            }
            _ => return None,
        }
        Some(())
    }
}

impl At {
    /// Where the stack pointer points to.
    const TOP: Self = Self {
        of: Of::Sp,
        above: 0,
    };
}

impl Way {
    /// At its beginning.
    pub(super) fn from(pc: u64) -> Self {
        Self {
            at: pc,
            sp: At::TOP,
            fp: Kept::Same,
            pushed_fp: None,
            written: 0,
        }
    }

    /// The stack behind an instruction; `None` if that is not known.
    pub(super) fn after(&self, instruction: &Instruction) -> Option<Self> {
        let state = self.state()?;
        let writes = instruction.op0_kind() == OpKind::Register;
        let target = instruction.op0_register();
        let is_move = instruction.mnemonic() == Mnemonic::Mov && writes;
        let sp = match (instruction.code(), instruction.op1_kind()) {
            // Where it was kept before the stack was aligned.
            (_, OpKind::Register) if is_move && is_sp(target) => {
                self.kept_sp(dwarf(instruction.op1_register())?)?
            }
            (Code::Mov_r64_rm64, OpKind::Memory) if is_sp(target) => {
                let word = self.address(instruction)?;
                let is_in_frame = word.of == Of::Sp && word.above >= 0;
                is_in_frame.then_some(At {
                    of: Of::Word(word.above),
                    above: 0,
                })?
            }
            (Code::Leaveq, _) => At {
                above: 8,
                ..self.kept_sp(FP)?
            },
            _ => At {
                above: state.after(instruction).depth?.checked_neg()?,
                ..self.sp
            },
        };
        let fp = match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push => self.fp,
            Mnemonic::Pop if is_fp(target) && self.pushed_fp == Some(self.sp) => Kept::Same,
            Mnemonic::Lea if is_padding(instruction) => self.fp,
            Mnemonic::Leave => Kept::From(self.kept_sp(FP)?),
            Mnemonic::Pop if writes && is_fp(target) => Kept::From(self.sp),
            Mnemonic::Mov
                if writes && is_fp(target) && instruction.op1_kind() == OpKind::Memory =>
            {
                self.address(instruction).map_or(Kept::Other, Kept::From)
            }
            Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Xadd
                if is_fp(instruction.op1_register()) =>
            {
                Kept::Other
            }
            _ if writes && is_fp(target) => Kept::Other,
            _ => self.fp,
        };
        let pushes_it = instruction.mnemonic() == Mnemonic::Push && is_fp(target);
        let pushed_fp = match self.fp {
            Kept::Same if writes && pushes_it => Some(sp),
            _ => self.pushed_fp,
        };
        Some(Self {
            at: instruction.next_ip(),
            sp,
            fp,
            pushed_fp,
            written: self.written,
        })
    }

    /// The stack as code from a function's start on has it.
    fn state(&self) -> Option<State> {
        Some(State {
            depth: Some(self.sp.above.checked_neg()?),
            // What it holds is not known, so nothing is computed from it.
            fp: Fp::Other,
            ..State::entered(self.at)
        })
    }

    /// Where a memory operand is, if that is on the stack.
    fn address(&self, instruction: &Instruction) -> Option<At> {
        let below = self.state()?.address(instruction)?;
        Some(At {
            above: below.checked_neg()?,
            ..self.sp
        })
    }

    /// A stack pointer that a register has held since the way began.
    fn kept_sp(&self, number: u8) -> Option<At> {
        let is_kept = self.written & (1 << number) == 0;
        is_kept.then_some(At {
            of: Of::Register(number),
            above: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Constant, by_next_return, by_returns, written_by_function};
    use crate::Machine;
    use crate::code_frame::tests::reader;
    use crate::code_frame::{CallerFp, CodeFrame, Slot};

    /// The frame at a place of this code by all ways.
    fn at(code: &[u8], place: u64) -> Option<CodeFrame> {
        by_returns(Machine::X86_64, 0x1000 + place, &mut reader(code))
    }

    #[test]
    fn one_way_to_a_return_without_a_call_is_enough_where_a_frame_was_interrupted() {
        let by_next =
            |code: &[u8]| by_next_return(Machine::X86_64, (0x1000, None), &mut reader(code));
        let saved = frame(24, Some(CallerFp::Saved(8)));
        let by_fp = Some(CodeFrame {
            return_address: Slot::FromFp(8),
            caller_fp: Some(CallerFp::Saved(8)),
        });
        let cases: [(&[u8], Option<CodeFrame>); 10] = [
            // jz 1f; ret; 1: jmp *%rax
            (
                &[0x74, 1, 0xc3, 0xff, 0xe0],
                frame(0, Some(CallerFp::InRegister)),
            ),
            // jz 1f; jmp *%rax; 1: add $16,%rsp; pop %rbp; ret
            (
                &[0x74, 2, 0xff, 0xe0, 0x48, 0x83, 0xc4, 16, 0x5d, 0xc3],
                saved,
            ),
            // call *%rax; ret
            (&[0xff, 0xd0, 0xc3], None),
            // push %rcx; ret
            (&[0x51, 0xc3], None),
            // jz 1f; push %rcx; ret; 1: add $8,%rsp; ret
            (
                &[0x74, 2, 0x51, 0xc3, 0x48, 0x83, 0xc4, 8, 0xc3],
                frame(8, Some(CallerFp::InRegister)),
            ),
            // ret $8
            (&[0xc2, 8, 0], frame(0, Some(CallerFp::InRegister))),
            // leave; ret, and behind what changes the register
            (&[0xc9, 0xc3], by_fp),
            (&[0x48, 0x89, 0xec, 0x5d, 0xc3], by_fp),
            (&[0xff, 0xc5, 0xc9, 0xc3], None),
            // mov %rcx,%rsp; ret
            (&[0x48, 0x89, 0xcc, 0xc3], None),
        ];
        for (code, expected) in cases {
            assert_eq!(by_next(code), expected, "{code:x?}");
        }
    }

    #[test]
    fn a_jump_to_what_a_register_is_known_to_hold_is_followed() {
        // At 0x100a: lea -8(%r11),%r11; jmp *%r11; at 0x1018: add $16,%rsp; ret
        let rest = [
            0x4d, 0x8d, 0x5b, 0xf8, 0x41, 0xff, 0xe3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
            0x48, 0x83, 0xc4, 16, 0xc3,
        ];
        let by_next = |first: [u8; 10], from: u64, held: Option<u64>| {
            let code = [&first[..], &rest].concat();
            let value = held.map(|value| Constant {
                register: 11,
                value,
            });
            by_next_return(Machine::X86_64, (0x1000 + from, value), &mut reader(&code))
        };
        let found = frame(16, Some(CallerFp::InRegister));
        // movabs $0x1020,%r11
        let movabs = [0x49, 0xbb, 0x20, 0x10, 0, 0, 0, 0, 0, 0];
        assert_eq!(by_next(movabs, 0, None), found);
        assert_eq!(by_next(movabs, 10, None), None);
        assert_eq!(by_next(movabs, 10, Some(0x1020)), found);
        // mov (%rax),%r11, and other registers.
        let loads = [0x4d, 0x8b, 0x18, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90];
        assert_eq!(by_next(loads, 0, Some(0x1020)), None);
        let movabs_r10 = [0x49, 0xba, 0x20, 0x10, 0, 0, 0, 0, 0, 0];
        assert_eq!(by_next(movabs_r10, 0, None), None);
    }

    fn frame(to_return: i64, caller_fp: Option<CallerFp>) -> Option<CodeFrame> {
        Some(CodeFrame {
            return_address: Slot::FromSp(to_return),
            caller_fp,
        })
    }

    #[test]
    fn a_loop_and_both_ways_behind_it_lead_to_the_same_return() {
        // push %rbp; sub $16,%rsp; 1: dec %ecx; jnz 1b; test %eax,%eax; jz 2f;
        // add $16,%rsp; pop %rbp; ret; 2: lea 16(%rsp),%rsp; pop %rbp; ret
        let code = [
            0x55, 0x48, 0x83, 0xec, 16, 0xff, 0xc9, 0x75, 0xfc, 0x85, 0xc0, 0x74, 6, 0x48, 0x83,
            0xc4, 16, 0x5d, 0xc3, 0x48, 0x8d, 0x64, 0x24, 16, 0x5d, 0xc3,
        ];
        let saved = frame(24, Some(CallerFp::Saved(8)));
        for place in [5, 7, 9, 11, 13, 19] {
            assert_eq!(at(&code, place), saved, "{place}");
        }
        assert_eq!(at(&code, 17), frame(8, Some(CallerFp::Saved(8))));
        assert_eq!(at(&code, 18), frame(0, Some(CallerFp::InRegister)));
        // Before the frame pointer is pushed, and is popped again.
        assert_eq!(at(&code, 1), frame(8, Some(CallerFp::Saved(8))));
        // One way frees less than the other.
        let mut wrong = code;
        wrong[23] = 8;
        assert_eq!(at(&wrong, 5), None);
        assert_eq!(at(&wrong, 13), saved, "that way is not on from here");
        // The code is cut.
        for len in 0..code.len() {
            assert_eq!(at(&code[..len], 5), None, "{len}");
        }
    }

    #[test]
    fn a_way_that_may_end_elsewhere_proves_nothing() {
        let cases: [&[u8]; 8] = [
            // jz 1f; ret; 1: jmp *%rax
            &[0x74, 1, 0xc3, 0xff, 0xe0],
            // jz 1f; ret; 1: call *%rax; ret
            &[0x74, 1, 0xc3, 0xff, 0xd0, 0xc3],
            // jz 1f; ret; 1: mov %rbp,%rsp; ret
            &[0x74, 1, 0xc3, 0x48, 0x89, 0xec, 0xc3],
            // mul %ebx; mov %rdx,%rsp; ret
            &[0xf7, 0xe3, 0x48, 0x89, 0xd4, 0xc3],
            // 1: mov %rcx,%rsp; ret; after a loop that changes it
            &[0x74, 4, 0x48, 0x89, 0xcc, 0xc3, 0xff, 0xc1, 0xeb, 0xf6],
            // ret $8
            &[0xc2, 8, 0],
            // 1: jmp 1b
            &[0xeb, 0xfe],
            // 1: push %rax; jmp 1b
            &[0x50, 0xeb, 0xfd],
        ];
        for code in cases {
            assert_eq!(at(code, 0), None, "{code:x?}");
        }
    }

    #[test]
    fn a_stack_pointer_that_a_register_keeps_is_taken_back_from_there() {
        // inc %eax; 1: mov %rcx,%rsp; pop %rbp; ret
        let code = [0xff, 0xc0, 0x48, 0x89, 0xcc, 0x5d, 0xc3];
        let by_rcx = Some(CodeFrame {
            return_address: Slot::KeptIn(2, 8),
            caller_fp: Some(CallerFp::Saved(8)),
        });
        assert_eq!((at(&code, 0), at(&code, 2)), (by_rcx, by_rcx));
        assert_eq!(at(&code, 5), frame(8, Some(CallerFp::Saved(8))));
        // mov %rbp,%rsp
        let by_fp = [0x48, 0x89, 0xec, 0xc3];
        assert_eq!(
            at(&by_fp, 0).map(|frame| frame.return_address),
            Some(Slot::FromFp(0))
        );
    }

    #[test]
    fn a_stack_pointer_that_the_stack_keeps_is_taken_back_from_there() {
        // and $-32,%rsp; sub $0xa0,%rsp; mov %r10,0x80(%rsp); 1: dec %edx; jnz 1b;
        // mov 0x80(%rsp),%rsp; pop %rbp; ret
        let code = [
            0x48, 0x83, 0xe4, 0xe0, 0x48, 0x81, 0xec, 0xa0, 0, 0, 0, 0x4c, 0x89, 0x94, 0x24, 0x80,
            0, 0, 0, 0xff, 0xca, 0x75, 0xfc, 0x48, 0x8b, 0xa4, 0x24, 0x80, 0, 0, 0, 0x5d, 0xc3,
        ];
        let by_next = |code: &[u8], place: u64| {
            by_next_return(Machine::X86_64, (0x1000 + place, None), &mut reader(code))
        };
        let kept = Some(CodeFrame {
            return_address: Slot::KeptAt(0x80, 8),
            caller_fp: Some(CallerFp::Saved(8)),
        });
        for place in [19, 21, 23] {
            assert_eq!((at(&code, place), by_next(&code, place)), (kept, kept));
        }
        assert_eq!(at(&code, 31), frame(8, Some(CallerFp::Saved(8))));
        // What is to be stored there is not there yet.
        for place in [0, 4, 11] {
            assert_eq!((at(&code, place), by_next(&code, place)), (None, None));
        }
        // It is stored to in a loop: mov %edx,0x84(%rsp)
        let stores = [0x89, 0x94, 0x24, 0x84, 0, 0, 0];
        let looped = [&code[..21], &stores, &[0x75, 0xf5], &code[23..]].concat();
        assert_eq!(at(&looped, 19), None);
        let beside = [&looped[..24], &[0x88], &looped[25..]].concat();
        assert_eq!(at(&beside, 19), kept);
        // Below the stack pointer: mov -8(%rsp),%rsp; ret
        assert_eq!(at(&[0x48, 0x8b, 0x64, 0x24, 0xf8, 0xc3], 0), None);
    }

    #[test]
    fn a_loop_may_use_the_frame_pointer_that_its_function_has_pushed() {
        // 1: mov %eax,%ebp; dec %ecx; jnz 1b; pop %rbp; ret
        let code = [0x89, 0xc5, 0xff, 0xc9, 0x75, 0xfa, 0x5d, 0xc3];
        for place in [0, 2, 4] {
            assert_eq!(at(&code, place), frame(8, Some(CallerFp::Saved(8))));
        }
        // push %rbx; push %rbp; mov %eax,%ebp; pop %rbp; pop %rbx; ret
        let pushes = [0x53, 0x55, 0x89, 0xc5, 0x5d, 0x5b, 0xc3];
        for (place, above) in [(0, 0), (1, 8)] {
            assert_eq!(at(&pushes, place), frame(above, Some(CallerFp::InRegister)));
        }
        assert_eq!(at(&pushes, 2), frame(16, Some(CallerFp::Saved(16))));
        // Another word is popped: push %rbp; push %rax; pop %rbp; pop %rax; ret
        let swaps = [0x55, 0x50, 0x5d, 0x58, 0xc3];
        assert_eq!(at(&swaps, 0), frame(0, None));
        // Where it is not popped, it is what it was only if the loop is not run again.
        let without = [0x89, 0xc5, 0xff, 0xc9, 0x75, 0xfa, 0xc3];
        assert_eq!(at(&without, 0), frame(0, None));
        assert_eq!(at(&without, 2), frame(0, None));
        assert_eq!(at(&without, 6), frame(0, Some(CallerFp::InRegister)));
    }

    #[test]
    fn a_call_keeps_the_registers_that_its_function_does_not_write() {
        // call 1f; mov %rcx,%rsp; ret; 1: inc %eax; ret
        let code = [0xe8, 4, 0, 0, 0, 0x48, 0x89, 0xcc, 0xc3, 0xff, 0xc0, 0xc3];
        let by_rcx = Some(CodeFrame {
            return_address: Slot::KeptIn(2, 0),
            caller_fp: Some(CallerFp::InRegister),
        });
        assert_eq!((at(&code, 0), at(&code, 5)), (by_rcx, by_rcx));
        let written = |code: &[u8]| written_by_function(Machine::X86_64, 0x1009, &mut reader(code));
        assert_eq!(written(&code), Some(1));
        // 1: inc %ecx; ret
        let mut changes = code;
        changes[10] = 0xc1;
        assert_eq!((at(&changes, 0), written(&changes)), (None, Some(1 << 2)));
        // 1: call 2f; ret; 2: mul %ecx; ret. A call writes the stack pointer.
        let nested = [&code[..9], &[0xe8, 1, 0, 0, 0, 0xc3, 0xf7, 0xe1, 0xc3]].concat();
        assert_eq!(
            (at(&nested, 0), written(&nested)),
            (by_rcx, Some(0b1000_0011))
        );
        // 1: call *%rax; ret, and what does not come back with the stack as it was.
        for unknown in [&[0xff, 0xd0, 0xc3][..], &[0x58, 0xc3]] {
            let code = [&code[..9], unknown].concat();
            assert_eq!((at(&code, 0), written(&code)), (None, None));
        }
    }

    #[test]
    fn what_is_called_must_come_back_with_the_stack_as_it_was() {
        // sub $8,%rsp; call 1f; add $8,%rsp; ret; 1: inc %eax; ret
        let code = [
            0x48, 0x83, 0xec, 8, 0xe8, 5, 0, 0, 0, 0x48, 0x83, 0xc4, 8, 0xc3, 0xff, 0xc0, 0xc3,
        ];
        assert_eq!(at(&code, 4), frame(8, Some(CallerFp::InRegister)));
        // 1: inc %ebp; ret
        let mut changes = code;
        changes[15] = 0xc5;
        assert_eq!(at(&changes, 4), frame(8, None));
        assert_eq!(at(&code, 9), frame(8, Some(CallerFp::InRegister)));
        // 1: pop %rax; ret
        let mut wrong = code;
        wrong[14] = 0x58;
        wrong[15] = 0x90;
        assert_eq!(at(&wrong, 4), None);
        // 1: call 1b
        let endless = [0xe8, 0xfb, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(at(&endless, 0), None);
    }
}
