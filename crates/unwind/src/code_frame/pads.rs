//! Landing pads, which the unwinder enters and no code of their function.
//!
//! A pad is entered with the stack as it was at the call that threw. Which call
//! that was is not looked up: where all that are reached from the function's
//! start find the same stack, it is that one.
//!
//! ```text
//!   push %rbp; mov %rsp,%rbp; sub $24,%rsp
//!   call f          ◄─ 32 bytes below the return address
//!   jmp  end
//!   mov  %rax,%rbx  ◄─ no way leads here: a pad, the same
//!   call _Unwind_Resume
//! ```

use super::{CodeFrame, Fp, MAX_INSTRUCTIONS, ReadCode, State, Wanted, begins_function, decode};
use crate::Machine;
use iced_x86::FlowControl;
use std::collections::BTreeMap;

/// The frame at a place in a landing pad of the function at `entry`; `None` if
/// it may be one of several.
pub(crate) fn in_pad(
    machine: Machine,
    entry: u64,
    wanted: Wanted,
    read: &mut impl ReadCode,
) -> Option<CodeFrame> {
    let mut code = Reached::default();
    let mut at_calls = Same::Unseen;
    let start = State::entered(entry);
    if code.follow((machine, wanted), start, read, |state| at_calls.add(state)) {
        return None;
    }
    let Same::One(at_calls) = at_calls else {
        return None;
    };
    let (Wanted::Exact(end) | Wanted::Return(end)) = wanted;
    while let Some(at) = code.unreached(end) {
        let pad = State { at, ..at_calls };
        let mut found = None;
        let found_it = code.follow((machine, wanted), pad, read, |state| found = Some(*state));
        if found_it {
            return found?.frame();
        }
        // What cannot be read or decoded is no pad.
        code.instructions.entry(at).or_insert(at + 1);
    }
    None
}

/// What several states of the stack have in common: all, or they differ.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Same {
    Unseen,
    One(State),
    Differ,
}

impl Same {
    fn add(&mut self, state: &State) {
        *self = match self {
            // Calls before the frame is made throw from nowhere known.
            _ if state.depth.is_none() || !matches!(state.fp, Fp::Frame(_)) => Self::Differ,
            Self::Unseen => Self::One(*state),
            Self::One(other)
                if (other.depth, other.fp, other.saved) == (state.depth, state.fp, state.saved) =>
            {
                return;
            }
            _ => Self::Differ,
        };
    }
}

/// Code that was followed.
#[derive(Default)]
struct Reached {
    /// By address: where the instruction ends.
    instructions: BTreeMap<u64, u64>,
}

impl Reached {
    /// Follows code from a state; true if it came to what is wanted, of which
    /// `seen` was then told last. It is told the state at each call.
    fn follow(
        &mut self,
        (machine, wanted): (Machine, Wanted),
        from: State,
        read: &mut impl ReadCode,
        mut seen: impl FnMut(&State),
    ) -> bool {
        let (Wanted::Exact(end) | Wanted::Return(end)) = wanted;
        let mut open = vec![from];
        while let Some(state) = open.pop() {
            let is_new = !self.instructions.contains_key(&state.at);
            if self.instructions.len() >= MAX_INSTRUCTIONS || !is_new {
                continue;
            }
            if wanted == Wanted::Exact(state.at) {
                seen(&state);
                return true;
            }
            let Some(instruction) = decode(machine, state.at, read) else {
                continue;
            };
            // Before what is wanted nothing but this function is.
            let is_before = state.at < end;
            if !is_before && state.behind_call && begins_function(&instruction) {
                continue;
            }
            self.instructions.insert(state.at, instruction.next_ip());
            let is_call = matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            );
            if is_call {
                seen(&state);
                if wanted == Wanted::Return(instruction.next_ip()) {
                    return true;
                }
            }
            state.go_on(&instruction, &mut open);
        }
        false
    }

    /// The first address behind an instruction, and before `end`, to which no
    /// way led.
    fn unreached(&self, end: u64) -> Option<u64> {
        let is_full = self.instructions.len() >= MAX_INSTRUCTIONS;
        let mut behind = self.instructions.values().copied();
        let found = behind.find(|next| *next < end && !self.instructions.contains_key(next));
        found.filter(|_| !is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallerFp, CodeFrame, Slot, Wanted};
    use super::in_pad;
    use crate::Machine;

    const AT: u64 = 0x1000;

    fn at(code: &[u8], wanted: Wanted) -> Option<CodeFrame> {
        let mut read = |at: u64, out: &mut [u8]| {
            let rest = at.checked_sub(AT).and_then(|at| code.get(at as usize..));
            let rest = rest.unwrap_or_default();
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
            len
        };
        in_pad(Machine::X86_64, AT, wanted, &mut read)
    }

    /// 0: push %rbp; 1: mov %rsp,%rbp; 4: push %rbx; 5: sub $24,%rsp;
    /// 9: call; e: `between`; then jmp over a pad to leave; ret. The pad:
    /// mov %rax,%rdi; call.
    fn function(between: &[u8]) -> (Vec<u8>, u64) {
        let mut code = vec![0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x18];
        code.extend([0xe8, 0, 1, 0, 0]);
        code.extend(between);
        code.extend([0xeb, 8]);
        code.extend([0x48, 0x89, 0xc7, 0xe8, 0, 1, 0, 0]);
        let behind_pad = AT + code.len() as u64;
        code.extend([0xc9, 0xc3]);
        (code, behind_pad)
    }

    #[test]
    fn a_pad_has_the_stack_of_all_calls() {
        let (code, behind_pad) = function(&[]);
        let expected = CodeFrame {
            return_address: Slot::FromSp(40),
            caller_fp: Some(CallerFp::Saved(8)),
        };
        assert_eq!(at(&code, Wanted::Return(behind_pad)), Some(expected));
        assert_eq!(at(&code, Wanted::Exact(behind_pad - 5)), Some(expected));
    }

    #[test]
    fn calls_with_other_stacks_leave_open_which_it_is() {
        // push %rax; call; pop %rax.
        let (code, behind_pad) = function(&[0x50, 0xe8, 0, 1, 0, 0, 0x58]);
        assert_eq!(at(&code, Wanted::Return(behind_pad)), None);
        // sub %rax,%rsp; call: as alloca does.
        let (code, behind_pad) = function(&[0x48, 0x29, 0xc4, 0xe8, 0, 1, 0, 0]);
        assert_eq!(at(&code, Wanted::Return(behind_pad)), None);
    }

    #[test]
    fn what_code_leads_to_is_no_pad_and_what_is_cut_is_none() {
        let (code, behind_pad) = function(&[]);
        assert_eq!(at(&code, Wanted::Return(AT + 0xe)), None);
        for len in 0..code.len() - 2 {
            assert_eq!(at(&code[..len], Wanted::Return(behind_pad)), None, "{len}");
        }
    }
}
