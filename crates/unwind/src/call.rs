//! Does a return address follow a call? Decided from the bytes before it.

use crate::Machine;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// The kind of call instruction that ends right before an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallBefore {
    /// A call to a fixed target, bytes relative to the return address.
    Direct(i64),
    /// A call through a register or memory.
    Indirect,
    /// No call.
    None,
}

impl CallBefore {
    /// The longest call instruction, in bytes.
    pub const LONGEST: usize = 8;

    /// Decodes the code that ends at a return address; `code` should have
    /// [`Self::LONGEST`] bytes.
    pub fn decode(machine: Machine, code: &[u8]) -> Self {
        match machine {
            Machine::X86_64 | Machine::X86 => decode_x86(code),
            Machine::Aarch64 => decode_aarch64(code),
        }
    }

    /// Whether there is a call.
    pub(crate) fn is_call(self) -> bool {
        self != Self::None
    }
}

/// Bytes of a function in which [`stub_target`] looks for its jump.
pub(crate) const MAX_STUB: usize = 64;

/// Where a function goes that does no more than to get something ready and jump
/// elsewhere, bytes from its first one: so begins a call that is not seen on the
/// stack.
pub(crate) fn stub_target(machine: Machine, code: &[u8]) -> Option<i64> {
    let bits = match machine {
        Machine::X86_64 => 64,
        Machine::X86 => 32,
        Machine::Aarch64 => return branch_of_stub(code),
    };
    for instruction in Decoder::with_ip(bits, code, 0, DecoderOptions::NONE) {
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::UnconditionalBranch => {
                return Some(instruction.near_branch_target().cast_signed());
            }
            _ => return None,
        }
    }
    None
}

/// The same of `b`, before which nothing branches: of branches, exceptions and hints
/// bits 28 to 26 are 101.
fn branch_of_stub(code: &[u8]) -> Option<i64> {
    const NOP: u32 = 0xd503_201f;
    const BTI: u32 = 0xd503_241f;
    let is_hint = |word: u32| word == NOP || word & !0xc0 == BTI;
    let words = code.chunks_exact(4).filter_map(|word| word.first_chunk());
    let words = words.map(|word| u32::from_le_bytes(*word));
    let mut branches = words
        .zip((0_i64..).step_by(4))
        .filter(|&(word, _)| word >> 26 & 7 == 5 && !is_hint(word));
    let (word, at) = branches.next()?;
    // A word of 26 bits, with its sign, counts instructions.
    let by = i64::from((word << 6).cast_signed() >> 4);
    (word >> 26 == 0b00_0101).then_some(at + by)
}

fn decode_x86(code: &[u8]) -> CallBefore {
    // An indirect call may end in bytes that look like the displacement of a
    // direct one; both are calls, and a direct one tells more.
    if let Some([0xe8, displacement @ ..]) = code.last_chunk::<5>() {
        return CallBefore::Direct(i64::from(i32::from_le_bytes(*displacement)));
    }
    for len in 2..=7 {
        let call = code.len().checked_sub(len).and_then(|at| code.get(at..));
        if call.is_some_and(is_indirect_x86) {
            return CallBefore::Indirect;
        }
    }
    CallBefore::None
}

/// Whether the whole of `code` is one `call r/m` (FF /2), possibly after a
/// REX prefix, which then only makes it longer.
fn is_indirect_x86(code: &[u8]) -> bool {
    let &[0xff, modrm, ref rest @ ..] = code else {
        return false;
    };
    if modrm >> 3 & 7 != 2 {
        return false;
    }
    let (mode, rm) = (modrm >> 6, modrm & 7);
    let has_sib = mode != 3 && rm == 4;
    let sib_base = rest.first().map_or(0, |sib| sib & 7);
    let displacement = match mode {
        0 if rm == 5 || (has_sib && sib_base == 5) => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    rest.len() == usize::from(has_sib) + displacement
}

fn decode_aarch64(code: &[u8]) -> CallBefore {
    let Some(word) = code.last_chunk().map(|word| u32::from_le_bytes(*word)) else {
        return CallBefore::None;
    };
    if word >> 26 == 0b10_0101 {
        // BL: 26 bits of words, relative to the instruction itself.
        let words = i64::from(((word << 6) as i32) >> 6);
        return CallBefore::Direct(words * 4 - 4);
    }
    // BLR, BLRAAZ, BLRABZ, BLRAA, BLRAB.
    let blr = word & 0xffff_fc1f == 0xd63f_0000
        || word & 0xffff_f81f == 0xd63f_081f
        || word & 0xffff_f800 == 0xd73f_0800;
    if blr {
        CallBefore::Indirect
    } else {
        CallBefore::None
    }
}

#[cfg(test)]
mod tests {
    use super::{CallBefore, stub_target};
    use crate::Machine;

    fn x86(code: &[u8]) -> CallBefore {
        CallBefore::decode(Machine::X86_64, code)
    }

    #[test]
    fn every_form_of_call_is_one_and_jumps_are_not() {
        assert_eq!(
            x86(&[0x90, 0xe8, 0xfb, 0xff, 0xff, 0xff]),
            CallBefore::Direct(-5)
        );
        // call *%rax; call *8(%rax); call *(%rsp); call *0x12345678(%rip)
        for code in [
            &[0x90, 0xff, 0xd0][..],
            &[0xff, 0x50, 0x08],
            &[0xff, 0x14, 0x24],
            &[0xff, 0x15, 0x78, 0x56, 0x34, 0x12],
            &[0x41, 0xff, 0x94, 0xc4, 0x00, 0x01, 0x00, 0x00],
        ] {
            assert_eq!(x86(code), CallBefore::Indirect, "{code:x?}");
        }
        // jmp *%rax; jmp rel32; nop; nothing.
        for code in [&[0x90, 0xff, 0xe0][..], &[0xe9, 1, 0, 0, 0], &[0x90], &[]] {
            assert_eq!(x86(code), CallBefore::None, "{code:x?}");
        }
    }

    #[test]
    fn arm_calls_are_branches_with_link() {
        let arm = |word: u32| CallBefore::decode(Machine::Aarch64, &word.to_le_bytes());
        assert_eq!(arm(0x9400_0002), CallBefore::Direct(4));
        assert_eq!(arm(0x97ff_ffff), CallBefore::Direct(-8));
        assert_eq!(arm(0xd63f_0100), CallBefore::Indirect);
        assert_eq!(arm(0x1400_0002), CallBefore::None);
        assert_eq!(arm(0xd65f_03c0), CallBefore::None);
    }

    #[test]
    fn a_stub_jumps_behind_nothing_but_plain_instructions() {
        let x86 = |code: &[u8]| stub_target(Machine::X86_64, code);
        // mov 0x2ac11(%rip),%rax; mov %fs:(%rax),%rcx; jmp -0x20
        let stub = [
            0x48, 0x8b, 0x05, 0x11, 0xac, 2, 0, 0x64, 0x48, 0x8b, 8, 0xe9, 0xe0, 0xff, 0xff, 0xff,
        ];
        assert_eq!(x86(&stub), Some(16 - 0x20));
        assert_eq!(x86(&[0xeb, 0x10]), Some(0x12));
        assert_eq!(x86(&[0xc3, 0xeb, 0x10]), None, "it returns");
        assert_eq!(x86(&[0x74, 2, 0xeb, 0x10]), None, "it has a choice");
        assert_eq!(x86(&[0xe8, 0, 0, 0, 0, 0xeb, 0x10]), None, "it calls");
        assert_eq!(x86(&[0xff, 0xe0]), None, "by a register");
        assert_eq!(x86(&[0x90; 64]), None);
        let arm = |code: &[u32]| {
            let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            stub_target(Machine::Aarch64, &code)
        };
        // bti c; nop; b -8
        assert_eq!(arm(&[0xd503_245f, 0xd503_201f, 0x17ff_fffe]), Some(0));
        assert_eq!(arm(&[0xd503_233f, 0x17ff_fffe]), None, "paciasp");
        assert_eq!(arm(&[0xaa00_03e1, 0x17ff_fffe]), Some(4 - 8));
        assert_eq!(arm(&[0x1400_0004]), Some(0x10));
        assert_eq!(arm(&[0x9400_0004, 0x1400_0004]), None, "bl");
    }
}
