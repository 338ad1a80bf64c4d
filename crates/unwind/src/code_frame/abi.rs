//! The frame at a place by the ways to a return, where what is called is believed to
//! keep the stack, as the ABI of x86 of 64 bits asks.
//!
//! Of a function in a stripped file nobody may know where it begins: it was called
//! through a pointer, or its frame is larger than what is looked through for a call to
//! it. What is to come tells where it returns. A call may never come back; then what
//! stands behind it is another function, and a way through that finds the return
//! address where a function has it that has not pushed anything. No function that calls
//! has it there: the stack pointer is a multiple of 16 at a call, and so it is 8 less
//! where a return address stands.

use super::kept::written_by;
use super::returns::{At, Kept, Of, Way, frame_of, is_plain_return};
use super::{CALLER_SAVED, CodeFrame, ReadCode, begins_function, decode};
use crate::Machine;
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic};
use rustc_hash::FxHashMap;

/// Instructions looked at for one place.
const MAX_INSTRUCTIONS: usize = 4096;

/// The frame at the place `pc` of x86-64 code, if all ways from there that come to a
/// return agree on it. The stack pointer is `beyond_16` above a multiple of 16 there.
/// `behind_call`: a call ends at `pc`, which may be the last of its function.
pub(crate) fn by_abi(
    (pc, beyond_16): (u64, u8),
    behind_call: bool,
    read: &mut impl ReadCode,
) -> Option<CodeFrame> {
    const MACHINE: Machine = Machine::X86_64;
    let mut open = vec![(Way::from(pc), behind_call)];
    let mut seen: FxHashMap<u64, At> = FxHashMap::default();
    let mut info = InstructionInfoFactory::new();
    let (mut found, mut is_fp_sure) = (None, true);
    while let Some((way, behind_call)) = open.pop() {
        match seen.insert(way.at, way.sp) {
            Some(before) if before != way.sp => return None,
            Some(_) => continue,
            None => {}
        }
        if seen.len() > MAX_INSTRUCTIONS {
            return None;
        }
        let Some(instruction) = decode(MACHINE, way.at, read) else {
            continue;
        };
        if behind_call && begins_function(&instruction) {
            continue;
        }
        if instruction.flow_control() == FlowControl::Return {
            let is_place = way.sp.of == Of::Sp
                && way.sp.above >= 0
                && (way.sp.above + i64::from(beyond_16)) % 16 == 8;
            if !is_place || !is_plain_return(&instruction) {
                continue;
            }
            let (sp, fp) = *found.get_or_insert((way.sp, way.fp));
            if sp != way.sp {
                return None;
            }
            is_fp_sure &= fp == way.fp;
            continue;
        }
        let Some(after) = way.after(&instruction) else {
            continue;
        };
        let written = way.written | written_by(&mut info, &instruction);
        let next = Way { written, ..after };
        let jump = Way {
            at: instruction.near_branch_target(),
            ..next
        };
        match instruction.flow_control() {
            // Between functions there may be padding.
            FlowControl::Next => {
                open.push((next, behind_call && instruction.mnemonic() == Mnemonic::Nop));
            }
            FlowControl::ConditionalBranch => open.extend([(jump, false), (next, false)]),
            FlowControl::UnconditionalBranch => open.push((jump, false)),
            FlowControl::Call | FlowControl::IndirectCall => {
                let written = written | CALLER_SAVED;
                open.push((Way { written, ..next }, true));
            }
            _ => {}
        }
    }
    let (sp, fp) = found?;
    frame_of(MACHINE, sp, if is_fp_sure { fp } else { Kept::Other })
}

#[cfg(test)]
mod tests {
    use super::by_abi;
    use crate::code_frame::tests::reader;
    use crate::code_frame::{CallerFp, CodeFrame, Slot};

    /// The frame behind a call at the start of this code.
    fn behind_call(code: &[u8]) -> Option<CodeFrame> {
        at(code, 0, true)
    }

    fn at(code: &[u8], beyond_16: u8, behind_call: bool) -> Option<CodeFrame> {
        by_abi((0x1000, beyond_16), behind_call, &mut reader(code))
    }

    fn frame(above: i64, caller_fp: CallerFp) -> Option<CodeFrame> {
        Some(CodeFrame {
            return_address: Slot::FromSp(above),
            caller_fp: Some(caller_fp),
        })
    }

    /// add $24,%rsp; ret
    const FREE_24: [u8; 5] = [0x48, 0x83, 0xc4, 24, 0xc3];

    #[test]
    fn calls_on_the_way_to_a_return_keep_the_stack() {
        assert_eq!(behind_call(&FREE_24), frame(24, CallerFp::InRegister));
        // One to what cannot be read, and one through a pointer: call; call *%rax
        let calls = [0xe8, 0, 0, 1, 0, 0xff, 0xd0];
        let code = [&calls[..], &FREE_24].concat();
        assert_eq!(behind_call(&code), frame(24, CallerFp::InRegister));
        // add $8,%rsp; pop %rbx; pop %rbp; ret
        let pops = [0x48, 0x83, 0xc4, 8, 0x5b, 0x5d, 0xc3];
        let code = [&calls[..], &pops].concat();
        assert_eq!(behind_call(&code), frame(24, CallerFp::Saved(8)));
    }

    #[test]
    fn a_return_that_no_function_has_there_is_not_its_own() {
        // Behind a call that never comes back stands the next function:
        // sub $8,%rsp; add $8,%rsp; ret
        let next = [0x48, 0x83, 0xec, 8, 0x48, 0x83, 0xc4, 8, 0xc3];
        assert_eq!(behind_call(&next), None);
        // push %rbx; sub $16,%rsp; add $48,%rsp; ret
        let pushes = [0x53, 0x48, 0x83, 0xec, 16, 0x48, 0x83, 0xc4, 48, 0xc3];
        assert_eq!(behind_call(&pushes), None);
        // Beside such a way another counts: je next; add $24,%rsp; ret; next: …
        let code = [&[0x74, 5][..], &FREE_24, &next].concat();
        assert_eq!(behind_call(&code), frame(24, CallerFp::InRegister));
        // An interrupted function may have made no frame, or half of it.
        assert_eq!(at(&[0xc3], 8, false), frame(0, CallerFp::InRegister));
        assert_eq!(at(&[0xc3], 0, false), None);
    }

    #[test]
    fn ways_that_do_not_agree_prove_nothing() {
        // je other; add $24,%rsp; ret; other: add $40,%rsp; ret
        let other = [0x48, 0x83, 0xc4, 40, 0xc3];
        let code = [&[0x74, 5][..], &FREE_24, &other].concat();
        assert_eq!(behind_call(&code), None);
        // What frees arguments is none of C's: ret $8
        assert_eq!(behind_call(&[0x48, 0x83, 0xc4, 24, 0xc2, 8, 0]), None);
        // ud2
        assert_eq!(behind_call(&[0x0f, 0x0b]), None);
    }
}
