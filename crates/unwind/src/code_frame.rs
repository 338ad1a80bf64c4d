//! Where a function has its return address, found by reading its code.
//!
//! Code without unwind information need not keep a frame pointer, and what
//! its stack holds proves nothing: old return addresses lie about in it. What
//! proves a caller is the code: from the function that a call goes to, every
//! way through it is followed with how much it has pushed, until it comes to
//! the place of interest. Only x86.

mod abi;
mod ahead;
mod kept;
mod leaving;
mod pads;
mod reach;
mod returns;
mod straight;
mod stretch;
mod switch;
#[cfg(test)]
mod tests;

use crate::Machine;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use rustc_hash::FxHashSet;

pub(crate) use abi::by_abi;
pub(crate) use ahead::ahead;
pub(crate) use kept::{OwnFp, kept_fp};
pub(crate) use leaving::leaving;
pub(crate) use pads::in_pad;
pub(crate) use reach::{Reached, Reaches};
pub(crate) use returns::{Constant, by_next_return, by_returns, written_by_function};
pub(crate) use straight::{ends_all, fp_to_be, has_frame_made, makes_room, taken_down_by_fp};
pub use straight::{is_straight, keeps_on_stack};
pub(crate) use stretch::{LONGEST, Stretch, beginnings};
use switch::Switch;

/// Instructions looked at for one place: a kernel of matrix products has 6000.
const MAX_INSTRUCTIONS: usize = 1 << 14;
/// Registers that functions of x86-64 may change, a bit for each of DWARF's numbers: all
/// but `%rbx`, `%rbp`, `%rsp` and `%r12` to `%r15`.
const CALLER_SAVED: u32 = 0xffff & !(1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12);
/// Bytes of the longest instruction.
const MAX_LENGTH: usize = 15;
/// Instructions of an epilogue: pops of all registers, and what frees locals.
const MAX_EPILOGUE: usize = 16;

/// Where a function has what its caller needs, at one place in its code.
/// Offsets are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CodeFrame {
    /// The return address.
    pub(crate) return_address: Slot,
    /// The caller's frame pointer; `None` if that cannot be told.
    pub(crate) caller_fp: Option<CallerFp>,
}

/// A place on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// So far above the stack pointer.
    FromSp(i64),
    /// So far above the frame pointer.
    FromFp(i64),
    /// So far above the address that a register of this number holds, where
    /// the frame was interrupted, or behind a call that keeps it.
    KeptIn(u8, i64),
    /// So far above the address that is in the word so far above the stack pointer,
    /// which is the first of the two: where it was kept before the stack was aligned.
    KeptAt(i64, i64),
}

/// Where the caller's frame pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerFp {
    /// Still in its register.
    InRegister,
    /// So far below the return address.
    Saved(i64),
}

/// What the frame pointer register holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fp {
    Callers,
    /// An address so far below the return address.
    Frame(i64),
    Other,
}

/// The stack at an instruction.
#[derive(Debug, Clone, Copy)]
struct State {
    at: u64,
    /// How far the stack pointer is below the return address, if known.
    depth: Option<i64>,
    fp: Fp,
    /// How far below the return address the caller's frame pointer is kept.
    saved: Option<i64>,
    /// Another register, by its number in DWARF, that holds an address so far below the
    /// return address: what the stack pointer was before it was aligned.
    copy: Option<(u8, i64)>,
    /// The instruction before was a call.
    behind_call: bool,
    switch: Switch,
}

/// A place in code that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    /// Before the instruction there.
    Exact(u64),
    /// Behind the call that ends there.
    Return(u64),
}

/// Reads code: bytes from an address on, as many as there are.
pub(crate) trait ReadCode: FnMut(u64, &mut [u8]) -> usize {}
impl<F: FnMut(u64, &mut [u8]) -> usize> ReadCode for F {}

/// Follows the code of the function at `entry` to the place that is wanted;
/// `None` if no way leads there, or one on which the stack gets lost.
pub(crate) fn follow(
    machine: Machine,
    entry: u64,
    wanted: Wanted,
    read: &mut impl ReadCode,
) -> Option<CodeFrame> {
    search(machine, entry, wanted, read).ok().flatten()
}

/// The same; where no way leads there, what is met on all that there are.
pub(crate) fn search(
    machine: Machine,
    entry: u64,
    wanted: Wanted,
    read: &mut impl ReadCode,
) -> Result<Option<CodeFrame>, Reached> {
    find(machine, (entry, Calls::Keep), wanted, read).map(|state| state.frame())
}

/// The same in code that uses the frame pointer for nothing else: once it is
/// made it tells more than the stack pointer, by which loops push, and from
/// which calls take their arguments.
pub(crate) fn follow_kept(
    machine: Machine,
    entry: u64,
    wanted: Wanted,
    read: &mut impl ReadCode,
) -> Option<CodeFrame> {
    let mut by_fp = |calls| {
        let state = find(machine, (entry, calls), wanted, read).ok()?;
        let word = i64::from(machine.word());
        match state.fp {
            Fp::Frame(below) if below != word => None,
            Fp::Frame(_) => Some(State {
                depth: None,
                ..state
            }),
            _ => Some(state),
        }
    };
    let found = by_fp(Calls::End).or_else(|| by_fp(Calls::Lose));
    found.and_then(|state| state.frame())
}

/// Whether a way through the function at `entry` leads to the place that is
/// wanted.
pub(crate) fn reaches(
    machine: Machine,
    entry: u64,
    wanted: Wanted,
    read: &mut impl ReadCode,
) -> bool {
    find(machine, (entry, Calls::Keep), wanted, read).is_ok()
}

/// What calls do to the stack of the function that makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// Nothing.
    Keep,
    /// They may free some of it.
    Lose,
    /// Unknown: what is behind them is not looked at.
    End,
}

/// The stack at the place that is wanted, by the first way that leads there; if none
/// does, what was met. Ways on which the stack gets lost come last: code that copies
/// arguments and leaves by a jump has the return address where the way beside the copying
/// has it. So do those that leave the function for another.
fn find(
    machine: Machine,
    (entry, calls): (u64, Calls),
    wanted: Wanted,
    read: &mut impl ReadCode,
) -> Result<State, Reached> {
    let (mut open, mut last) = (vec![State::entered(entry)], Vec::new());
    let mut seen = FxHashSet::default();
    let mut reached = Reached::default();
    while let Some(state) = open.pop().or_else(|| last.pop()) {
        if calls != Calls::Keep && state.is_lost() {
            continue;
        }
        if state.has_only_copy() && !open.is_empty() {
            last.push(state);
            continue;
        }
        if wanted == Wanted::Exact(state.at) {
            return Ok(state);
        }
        reached.places.push(state.at);
        if seen.len() >= MAX_INSTRUCTIONS || !seen.insert(state.at) {
            continue;
        }
        let Some(instruction) = decode(machine, state.at, read) else {
            continue;
        };
        let is_call = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        if is_call && wanted == Wanted::Return(instruction.next_ip()) {
            return Ok(state);
        }
        if is_call {
            reached.returns.push(instruction.next_ip());
        }
        if state.behind_call && begins_function(&instruction) {
            continue;
        }
        let state = match calls {
            Calls::End if is_call => continue,
            Calls::Lose if is_call => State {
                depth: None,
                ..state
            },
            _ => state,
        };
        let is_left = state.depth == Some(0)
            && instruction.flow_control() == FlowControl::UnconditionalBranch;
        // Functions that are jumped to may be many.
        state.go_on(&instruction, if is_left { &mut last } else { &mut open });
        if instruction.flow_control() == FlowControl::IndirectBranch {
            let cases = state.switch.targets(&instruction, read);
            reached.leaves |= cases.is_empty() && state.depth == Some(0);
            open.extend(cases.into_iter().map(|at| State { at, ..state }));
        }
    }
    Err(reached)
}

/// The frame at `pc` if only pops, loads and a return follow: certain without
/// knowing the function.
pub(crate) fn epilogue(machine: Machine, pc: u64, read: &mut impl ReadCode) -> Option<CodeFrame> {
    let mut state = State::entered(pc);
    // Depths count from the pc here: what is freed makes them negative.
    let mut popped_fp = None;
    for _ in 0..MAX_EPILOGUE {
        let instruction = decode(machine, state.at, read)?;
        match instruction.mnemonic() {
            Mnemonic::Ret => {
                let to_return = state.depth?.checked_neg()?;
                return Some(CodeFrame {
                    return_address: Slot::FromSp(to_return),
                    caller_fp: Some(match popped_fp {
                        Some(at) => CallerFp::Saved(to_return.checked_sub(at)?),
                        None => CallerFp::InRegister,
                    }),
                });
            }
            Mnemonic::Pop if instruction.op0_kind() == OpKind::Register => {
                if is_fp(instruction.op0_register()) {
                    popped_fp = state.depth?.checked_neg();
                }
            }
            Mnemonic::Add if is_sp(instruction.op0_register()) && has_immediate(&instruction) => {}
            // What looks whether a thread is to stop, as Java's does: the
            // stack is the same whether it goes on here or elsewhere.
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Vzeroupper => {}
            // What Java until 15 looks at, it loads the address of: mov N(%r15),%r10; others
            // load what they return.
            Mnemonic::Mov if loads_other(&instruction) => {}
            _ if instruction.flow_control() == FlowControl::ConditionalBranch => {}
            _ => return None,
        }
        state = state.after(&instruction);
        state.depth?;
    }
    None
}

/// Whether a move is into a register that has nothing to do with the stack.
fn loads_other(instruction: &Instruction) -> bool {
    let target = instruction.op0_register();
    instruction.op0_kind() == OpKind::Register && !is_sp(target) && !is_fp(target)
}

/// Instructions before a frame is made, of what looks first whether the
/// function is to run; and at the end of one that frees its arguments.
const MAX_AROUND: usize = 32;

/// Whether the code at `pc` goes on to make a frame: `push %rbp; mov
/// %rsp,%rbp`, with nothing before that moves the stack.
pub(crate) fn will_make_frame(machine: Machine, pc: u64, read: &mut impl ReadCode) -> bool {
    let mut at = pc;
    for _ in 0..MAX_AROUND {
        let Some(instruction) = decode(machine, at, read) else {
            return false;
        };
        at = instruction.next_ip();
        let target = instruction.op0_register();
        let writes = instruction.op0_kind() == OpKind::Register;
        if instruction.mnemonic() == Mnemonic::Push && writes && is_fp(target) {
            let next = decode(machine, at, read);
            return next.is_some_and(|next| {
                let is_made = is_fp(next.op0_register()) && is_sp(next.op1_register());
                next.mnemonic() == Mnemonic::Mov && is_made
            });
        }
        let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        let is_passed = match instruction.flow_control() {
            FlowControl::Next => {
                let moves = writes && (is_sp(target) || is_fp(target));
                compares || (!moves && !instruction.is_stack_instruction())
            }
            FlowControl::ConditionalBranch => true,
            _ => false,
        };
        if !is_passed {
            return false;
        }
    }
    false
}

/// The number that DWARF gives a register of 64 bits.
fn dwarf(register: Register) -> Option<u8> {
    Some(match register.full_register() {
        Register::RAX => 0,
        Register::RDX => 1,
        Register::RCX => 2,
        Register::RBX => 3,
        Register::RSI => 4,
        Register::RDI => 5,
        Register::RBP => 6,
        Register::RSP => 7,
        Register::R8 => 8,
        Register::R9 => 9,
        Register::R10 => 10,
        Register::R11 => 11,
        Register::R12 => 12,
        Register::R13 => 13,
        Register::R14 => 14,
        Register::R15 => 15,
        _ => return None,
    })
}

impl State {
    /// That of a function at its first instruction.
    fn entered(at: u64) -> Self {
        Self {
            at,
            depth: Some(0),
            fp: Fp::Callers,
            saved: None,
            copy: None,
            behind_call: false,
            switch: Switch::none(at),
        }
    }

    /// Nothing tells where the return address is.
    fn is_lost(&self) -> bool {
        self.has_only_copy() && self.copy.is_none()
    }

    /// No more than a copy of the stack pointer tells where the return address is.
    fn has_only_copy(&self) -> bool {
        self.depth.is_none() && !matches!(self.fp, Fp::Frame(_))
    }

    fn frame(&self) -> Option<CodeFrame> {
        let return_address = match (self.depth, self.fp) {
            // Not where the return address has been taken off.
            (Some(depth), _) => Slot::FromSp(u64::try_from(depth).ok()?.cast_signed()),
            (None, Fp::Frame(below)) => Slot::FromFp(below),
            (None, _) => {
                let (register, below) = self.copy?;
                Slot::KeptIn(register, below)
            }
        };
        let caller_fp = match (self.fp, self.saved) {
            (Fp::Callers, _) => Some(CallerFp::InRegister),
            (_, Some(saved)) => Some(CallerFp::Saved(saved)),
            (_, None) => None,
        };
        Some(CodeFrame {
            return_address,
            caller_fp,
        })
    }

    /// Adds the instructions that can come next.
    fn go_on(&self, instruction: &Instruction, open: &mut Vec<Self>) {
        let next = self.after(instruction);
        let jump = || Self {
            at: instruction.near_branch_target(),
            behind_call: false,
            ..next
        };
        match instruction.flow_control() {
            // Between functions there may be padding.
            FlowControl::Next => open.push(Self {
                behind_call: self.behind_call && instruction.mnemonic() == Mnemonic::Nop,
                ..next
            }),
            FlowControl::Call | FlowControl::IndirectCall => open.push(Self {
                behind_call: true,
                ..next
            }),
            FlowControl::ConditionalBranch => {
                let (taken, passed) = self.switch.branched(instruction);
                let (jump, next) = (jump(), next);
                let jump = Self {
                    switch: taken,
                    ..jump
                };
                open.extend([
                    jump,
                    Self {
                        switch: passed,
                        ..next
                    },
                ]);
            }
            FlowControl::UnconditionalBranch => open.push(jump()),
            // System calls come back.
            FlowControl::Interrupt if instruction.code() == Code::Int_imm8 => open.push(next),
            _ => {}
        }
    }

    /// The stack behind an instruction that does not jump.
    fn after(&self, instruction: &Instruction) -> Self {
        let mut next = Self {
            at: instruction.next_ip(),
            behind_call: false,
            switch: self.switch.after(instruction),
            copy: self.new_copy(instruction),
            ..*self
        };
        let target = instruction.op0_register();
        let writes = instruction.op0_kind() == OpKind::Register;
        match instruction.mnemonic() {
            // `call` to what follows only pushes the place.
            Mnemonic::Call if instruction.near_branch_target() == instruction.next_ip() => {
                next.depth = self.moved_by(-instruction.stack_pointer_increment());
            }
            Mnemonic::Call | Mnemonic::Cmp | Mnemonic::Test => {}
            Mnemonic::Push => {
                next.depth = self.moved_by(-instruction.stack_pointer_increment());
                if self.fp == Fp::Callers && writes && is_fp(target) && self.saved.is_none() {
                    next.saved = next.depth;
                }
            }
            Mnemonic::Leave => {
                let frame = match self.fp {
                    Fp::Frame(below) => Some(below),
                    _ => None,
                };
                next.depth = frame.and_then(|below| below.checked_sub(word(instruction)));
                next.fp = self.popped_fp(frame);
            }
            Mnemonic::Pop => {
                next.depth = self.moved_by(-instruction.stack_pointer_increment());
                if writes && is_fp(target) {
                    next.fp = self.popped_fp(self.depth);
                } else if writes && is_sp(target) {
                    next.depth = None;
                }
            }
            // `mov %rbp,N(%rsp)` keeps it as a push does.
            Mnemonic::Mov if self.fp == Fp::Callers && is_fp(instruction.op1_register()) => {
                next.saved = match instruction.op0_kind() {
                    OpKind::Memory if self.saved.is_none() => self.address(instruction),
                    _ => self.saved,
                };
                if writes && is_sp(target) {
                    next.depth = None;
                }
            }
            _ if writes && is_sp(target) => next.depth = self.new_sp(instruction),
            _ if writes && is_fp(target) => next.fp = self.new_fp(instruction),
            _ if instruction.is_stack_instruction() => {
                next.depth = self.moved_by(-instruction.stack_pointer_increment());
            }
            Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Xadd
                if is_sp(instruction.op1_register()) || is_fp(instruction.op1_register()) =>
            {
                (next.depth, next.fp) = (None, Fp::Other);
            }
            _ => {}
        }
        next.without_lost()
    }

    /// Without what is below the stack pointer: that is another's.
    fn without_lost(self) -> Self {
        let is_lost = |saved: &i64| self.depth.is_some_and(|depth| depth < *saved);
        Self {
            saved: self.saved.filter(|saved| !is_lost(saved)),
            ..self
        }
    }

    fn moved_by(&self, by: i32) -> Option<i64> {
        self.depth?.checked_add(i64::from(by))
    }

    /// What the frame pointer holds after it was loaded from so far below the
    /// return address.
    fn popped_fp(&self, from: Option<i64>) -> Fp {
        match (self.saved, from) {
            (Some(saved), Some(from)) if saved == from => Fp::Callers,
            _ => Fp::Other,
        }
    }

    /// The depth after an instruction that writes the stack pointer.
    fn new_sp(&self, instruction: &Instruction) -> Option<i64> {
        let by_fp = match self.fp {
            Fp::Frame(below) => Some(below),
            _ => None,
        };
        match instruction.mnemonic() {
            Mnemonic::Sub if has_immediate(instruction) => {
                self.depth?.checked_add(immediate(instruction))
            }
            Mnemonic::Add if has_immediate(instruction) => {
                self.depth?.checked_sub(immediate(instruction))
            }
            Mnemonic::Lea => self.address(instruction),
            Mnemonic::Mov if is_fp(instruction.op1_register()) => by_fp,
            Mnemonic::Mov => match self.copy {
                Some((copy, below)) if dwarf(instruction.op1_register()) == Some(copy) => {
                    Some(below)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The register that holds what the stack pointer was, behind an instruction. A
    /// function may keep one so long as it is not the frame pointer.
    fn new_copy(&self, instruction: &Instruction) -> Option<(u8, i64)> {
        let (target, from) = (instruction.op0_register(), instruction.op1_register());
        let writes = instruction.op0_kind() == OpKind::Register;
        let reads = matches!(
            instruction.mnemonic(),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push
        );
        if instruction.mnemonic() == Mnemonic::Mov
            && writes
            && from.full_register() == from
            && is_sp(from)
            && !is_fp(target)
        {
            let copy = dwarf(target).filter(|copy| matches!(copy, 3 | 8..=15))?;
            return Some((copy, self.depth?));
        }
        self.copy.filter(|&(copy, _)| {
            let is_call = matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            );
            let is_written = writes && !reads && dwarf(target) == Some(copy);
            // Instructions that write such a register without naming it first.
            let may_write = matches!(
                instruction.mnemonic(),
                Mnemonic::Xchg
                    | Mnemonic::Xadd
                    | Mnemonic::Cmpxchg
                    | Mnemonic::Cpuid
                    | Mnemonic::Syscall
            );
            let is_kept = CALLER_SAVED >> copy & 1 == 0;
            !is_written && !may_write && (is_kept || !is_call)
        })
    }

    /// What an instruction that writes the frame pointer puts there.
    fn new_fp(&self, instruction: &Instruction) -> Fp {
        let below = match instruction.mnemonic() {
            Mnemonic::Mov if is_sp(instruction.op1_register()) => self.depth,
            Mnemonic::Lea => self.address(instruction),
            // `mov N(%rsp),%rbp` loads it back.
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Memory => {
                return self.popped_fp(self.address(instruction));
            }
            _ => None,
        };
        below.map_or(Fp::Other, Fp::Frame)
    }

    /// How far below the return address a memory operand is.
    fn address(&self, instruction: &Instruction) -> Option<i64> {
        if instruction.memory_index() != Register::None {
            return None;
        }
        let base = instruction.memory_base();
        let from = if is_sp(base) {
            self.depth
        } else if is_fp(base) {
            match self.fp {
                Fp::Frame(below) => Some(below),
                _ => None,
            }
        } else {
            None
        };
        let displacement = instruction.memory_displacement64();
        from?.checked_sub(match base.size() {
            4 => i64::from(displacement as i32),
            _ => displacement as i64,
        })
    }
}

fn decode(machine: Machine, at: u64, read: &mut impl ReadCode) -> Option<Instruction> {
    let mut bytes = [0; MAX_LENGTH];
    let got = read(at, &mut bytes);
    let bitness = u32::from(machine.word()) * 8;
    let mut decoder = Decoder::with_ip(bitness, bytes.get(..got)?, at, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// Whether an instruction behind a call shows that the call never returns
/// and another function begins there.
fn begins_function(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Push | Mnemonic::Endbr64 | Mnemonic::Endbr32 | Mnemonic::Int3
    )
}

fn is_sp(register: Register) -> bool {
    register.full_register() == Register::RSP
}

fn is_fp(register: Register) -> bool {
    register.full_register() == Register::RBP
}

fn has_immediate(instruction: &Instruction) -> bool {
    instruction.op_kinds().skip(1).any(|kind| {
        matches!(
            kind,
            OpKind::Immediate8
                | OpKind::Immediate32
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    })
}

/// The immediate second operand; to be called where there is one.
fn immediate(instruction: &Instruction) -> i64 {
    match instruction.op1_kind() {
        OpKind::Immediate8to32 => i64::from(instruction.immediate8to32()),
        OpKind::Immediate32 => i64::from(instruction.immediate32() as i32),
        _ => instruction.immediate(1) as i64,
    }
}

/// Bytes that `leave` takes off the stack.
fn word(instruction: &Instruction) -> i64 {
    match instruction.code() {
        Code::Leaved => 4,
        _ => 8,
    }
}
