//! The last instructions of functions that return by an address in a register.

use super::{MAX_AROUND, ReadCode, decode, dwarf, is_fp, is_sp};
use crate::Machine;
use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

/// Where a function returns to that is about to, by an address that no slot of its frame
/// holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// The number of the register that has the return address; `None` while it
    /// is on top of the stack.
    pub(crate) register: Option<u8>,
    /// The stack pointer of the caller.
    pub(crate) sp: u64,
}

/// Where the function at `pc` returns to, if it is about to by such an address. `known`
/// gives the value of a register by its number.
pub(crate) fn leaving(
    pc: u64,
    known: impl Fn(u8) -> Option<u64>,
    read: &mut impl ReadCode,
) -> Option<Leaving> {
    freeing(pc, &known, read).or_else(|| pushing(pc, known, read))
}

/// The end of a function that frees its arguments: `pop R; lea N(R1,R2,S),%rsp`
/// or `add R1,%rsp`, `push R; ret`, or what is left of it from `pc` on. `known` gives the value of
/// a register by its number.
fn freeing(
    pc: u64,
    known: impl Fn(u8) -> Option<u64>,
    read: &mut impl ReadCode,
) -> Option<Leaving> {
    let machine = Machine::X86_64;
    let mut at = pc;
    let mut next = || {
        let instruction = decode(machine, at, read)?;
        at = instruction.next_ip();
        Some(instruction)
    };
    let mut instruction = next()?;
    let mut sp = known(machine.sp())?;
    let popped = match instruction.mnemonic() {
        Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => {
            let popped = instruction.op0_register();
            sp = sp.checked_add(8)?;
            instruction = next()?;
            Some(popped)
        }
        _ => None,
    };
    let moves = is_sp(instruction.op0_register());
    match instruction.mnemonic() {
        Mnemonic::Lea if moves => {
            sp = instruction.virtual_address(1, 0, |register, _, _| match register {
                register if is_sp(register) => Some(sp),
                register => known(dwarf(register)?),
            })?;
            instruction = next()?;
        }
        Mnemonic::Add if moves && instruction.op1_kind() == OpKind::Register => {
            sp = sp.checked_add(known(dwarf(instruction.op1_register())?)?)?;
            instruction = next()?;
        }
        _ if popped.is_some() => return None,
        _ => {}
    }
    let pushed = instruction.op0_register();
    let pushes = instruction.mnemonic() == Mnemonic::Push
        && instruction.op0_kind() == OpKind::Register
        && popped.is_none_or(|popped| popped == pushed);
    if !pushes || next()?.mnemonic() != Mnemonic::Ret {
        return None;
    }
    Some(Leaving {
        register: match popped {
            Some(_) => None,
            None => Some(dwarf(pushed)?),
        },
        sp,
    })
}

/// The end of a function whose return address is in a register all along: it pushes
/// others, for whom it returns to, and then that one. V8 sets frames up so.
fn pushing(
    pc: u64,
    known: impl Fn(u8) -> Option<u64>,
    read: &mut impl ReadCode,
) -> Option<Leaving> {
    let machine = Machine::X86_64;
    let (mut at, mut sp) = (pc, known(machine.sp())?);
    let (mut written, mut last) = (0_u32, None);
    for _ in 0..MAX_AROUND {
        let instruction = decode(machine, at, read)?;
        at = instruction.next_ip();
        let register = match instruction.op0_kind() {
            OpKind::Register => instruction.op0_register(),
            _ => Register::None,
        };
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let number = dwarf(register).filter(|&number| written >> number & 1 == 0);
                last = Some(Leaving {
                    register: number,
                    sp,
                });
                sp = sp.checked_sub(8)?;
            }
            Mnemonic::Ret => return last.filter(|last| last.register.is_some()),
            Mnemonic::Cmp | Mnemonic::Test => {}
            _ if is_sp(register) || is_fp(register) || instruction.is_stack_instruction() => {
                return None;
            }
            _ => written |= dwarf(register).map_or(0, |number| 1 << number),
        }
        match instruction.flow_control() {
            // It branches to what it does where the stack has no room.
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            _ => return None,
        }
    }
    None
}
