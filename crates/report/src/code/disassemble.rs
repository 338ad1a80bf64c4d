//! Bytes to instructions as text.

use super::Arch;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, IntelFormatter,
    MemorySizeOptions, Mnemonic, OpKind, Register,
};
use prof_profile::Svma;
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64;

/// What an instruction does to the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Goes on with the next.
    Next,
    /// Jumps, always or on a condition; the target if it is in the code.
    Jump(Option<Svma>),
    /// Calls; the target if it is in the code.
    Call(Option<Svma>),
    /// Returns.
    Return,
}

/// How instructions of x86 are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Syntax {
    /// As the GNU assembler's, AT&T's: `mov %rsp,%rbp`.
    #[default]
    Att,
    /// As Intel's manuals: `mov rbp,rsp`.
    Intel,
}

/// One instruction as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Where it stands.
    pub address: Svma,
    /// Its length in bytes, at least 1.
    pub len: u8,
    /// Mnemonic and operands, as objdump writes them. Bytes that
    /// are no instruction are `(bad)`.
    pub text: String,
    /// Where it leads.
    pub flow: Flow,
    /// The address that an operand refers to relative to the instruction, if
    /// there is one.
    pub data: Option<Svma>,
}

/// Decodes `bytes`, the first of which stands at `start`. Every byte belongs
/// to exactly one instruction of the result.
pub(crate) fn disassemble(
    arch: Arch,
    syntax: Syntax,
    start: Svma,
    bytes: &[u8],
) -> Vec<Instruction> {
    match arch {
        Arch::X86_64 => x86(64, syntax, start, bytes),
        Arch::X86 => x86(32, syntax, start, bytes),
        Arch::Aarch64 => arm64(start, bytes),
    }
}

/// What writes instructions as objdump does: `$0x1`, `0x0(%rax,%rax,1)`; in
/// the other syntax `0x1`, `QWORD PTR [rax+rax*1+0x0]`.
fn x86_formatter(syntax: Syntax) -> Box<dyn Formatter> {
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(false);
    options.set_uppercase_hex(false);
    options.set_first_operand_char_index(7);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_show_zero_displacements(true);
    options.set_branch_leading_zeros(false);
    options.set_displacement_leading_zeros(false);
    options.set_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_always_show_scale(true);
    options.set_show_useless_prefixes(true);
    if syntax == Syntax::Intel {
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_keywords(true);
        options.set_memory_size_options(MemorySizeOptions::Always);
        options.set_show_branch_size(false);
    }
    formatter
}

fn x86(bits: u32, syntax: Syntax, start: Svma, bytes: &[u8]) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, bytes, start.0, DecoderOptions::NONE);
    let mut formatter = x86_formatter(syntax);
    let mut all = Vec::new();
    let mut instruction = iced_x86::Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let mut text = String::new();
        // Without an index, nothing is scaled: `0x8(%rip)`.
        let has_index = instruction.memory_index() != Register::None;
        formatter.options_mut().set_always_show_scale(has_index);
        formatter.format(&instruction, &mut text);
        text = operands_as_objdump(&instruction, text, syntax);
        let data = instruction.is_ip_rel_memory_operand();
        if syntax == Syntax::Intel {
            text = strings_as_objdump(&instruction, text);
        }
        let at = usize::try_from(instruction.ip().wrapping_sub(start.0)).unwrap_or(usize::MAX);
        text = prefixes_as_objdump(&instruction, bytes.get(at..).unwrap_or_default(), text);
        let flow = x86_flow(&instruction);
        if let Flow::Jump(Some(target)) | Flow::Call(Some(target)) = flow {
            text = text.replace(&format!("{:#x}", target.0), &format!("{:x}", target.0));
        }
        all.push(Instruction {
            address: Svma(instruction.ip()),
            len: u8::try_from(instruction.len()).unwrap_or(1),
            text,
            flow,
            data: data.then(|| Svma(instruction.ip_rel_memory_address())),
        });
    }
    all
}

/// What objdump writes in another way of operands: a shift by one, what is
/// before the instruction, and a product that goes to its factor, whose
/// register it writes twice.
fn operands_as_objdump(
    instruction: &iced_x86::Instruction,
    mut text: String,
    syntax: Syntax,
) -> String {
    if is_shift_by_one(instruction) {
        text = match syntax {
            Syntax::Intel => text.replace(",0x1", ",1"),
            Syntax::Att => text.replacen("$0x1,", "", 1),
        };
    }
    if syntax == Syntax::Intel && instruction.is_ip_rel_memory_operand() {
        let offset = instruction
            .memory_displacement64()
            .wrapping_sub(instruction.next_ip());
        let below = format!("[rip-{:#x}]", offset.wrapping_neg());
        text = text.replacen(&below, &format!("[rip+{offset:#x}]"), 1);
    }
    if syntax == Syntax::Att {
        for name in ["jmp", "call", "push", "pop"] {
            if let Some(operand) = text.strip_prefix(&format!("{name}q ")) {
                text = format!("{name:<6} {}", operand.trim_start());
            }
        }
        // Only strings are there.
        let kinds = [
            (OpKind::MemoryESRDI, "(%rdi)", "%es:(%rdi)"),
            (OpKind::MemorySegRSI, "(%rsi)", "%ds:(%rsi)"),
        ];
        for (kind, bare, whole) in kinds {
            if instruction.op_kinds().any(|it| it == kind) && !text.contains(&format!(":{bare}")) {
                text = text.replacen(bare, whole, 1);
            }
        }
    }
    let is_by_constant = instruction.mnemonic() == Mnemonic::Imul && instruction.op_count() == 3;
    if !is_by_constant || text.matches(',').count() != 1 {
        return text;
    }
    let register = format!("{:?}", instruction.op0_register()).to_lowercase();
    match syntax {
        Syntax::Intel => text.replacen(',', &format!(",{register},"), 1),
        Syntax::Att => format!("{text},%{register}"),
    }
}

/// Whether it is a shift that has its one bit in the opcode.
fn is_shift_by_one(instruction: &iced_x86::Instruction) -> bool {
    let is_shift = matches!(
        instruction.mnemonic(),
        Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Sal
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
    );
    is_shift && format!("{:?}", instruction.code()).ends_with("_1")
}

/// What objdump writes in another way in Intel's syntax: moves of 64-bit
/// constants, and strings with all their operands.
fn strings_as_objdump(instruction: &iced_x86::Instruction, text: String) -> String {
    if instruction.code() == Code::Mov_r64_imm64 {
        return text.replacen("mov    ", "movabs ", 1);
    }
    let name = match instruction.mnemonic() {
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => "stos",
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsq => "movs",
        Mnemonic::Movsd if instruction.is_string_instruction() => "movs",
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => "lods",
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => "scas",
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsq => "cmps",
        Mnemonic::Cmpsd if instruction.is_string_instruction() => "cmps",
        _ => return text,
    };
    let (size, register) = match instruction.memory_size().size() {
        1 => ("BYTE", "al"),
        2 => ("WORD", "ax"),
        4 => ("DWORD", "eax"),
        _ => ("QWORD", "rax"),
    };
    let wide = match instruction
        .op_kinds()
        .any(|kind| matches!(kind, OpKind::MemoryESRDI | OpKind::MemorySegRSI))
    {
        true => "r",
        false => "e",
    };
    let to = format!("{size} PTR es:[{wide}di]");
    let segment = format!("{:?}", instruction.memory_segment()).to_lowercase();
    let from = format!("{size} PTR {segment}:[{wide}si]");
    let operands = match name {
        "stos" => format!("{to},{register}"),
        "movs" => format!("{to},{from}"),
        "lods" => format!("{register},{from}"),
        "scas" => format!("{register},{to}"),
        _ => format!("{from},{to}"),
    };
    // As objdump, the name is padded where it stands first.
    match (
        instruction.has_rep_prefix() || instruction.has_repe_prefix(),
        instruction.has_repne_prefix(),
    ) {
        (_, true) => format!("repnz {name} {operands}"),
        (true, _) if matches!(name, "scas" | "cmps") => format!("repz {name} {operands}"),
        (true, _) => format!("rep {name} {operands}"),
        _ => format!("{name:<6} {operands}"),
    }
}

/// What objdump writes in another way of prefixes without effect: those of
/// paddings, and that of a return.
fn prefixes_as_objdump(instruction: &iced_x86::Instruction, bytes: &[u8], text: String) -> String {
    const DATA16: u8 = 0x66;
    let pads = instruction.mnemonic() == Mnemonic::Nop && instruction.op_count() > 0;
    if pads && instruction.segment_prefix() == Register::CS {
        let sizes = bytes.iter().take_while(|&&byte| byte == DATA16).count();
        let text = text.replacen("%cs:", "", 1).replacen("cs:", "", 1);
        let words: Vec<&str> = text.splitn(2, ' ').map(str::trim).collect();
        return format!(
            "{}cs {}",
            "data16 ".repeat(sizes.saturating_sub(1)),
            words.join(" ")
        );
    }
    match text.strip_prefix("rep ret") {
        Some(rest) => format!("repz ret{rest}"),
        None => text,
    }
}

fn x86_flow(instruction: &iced_x86::Instruction) -> Flow {
    let is_direct = instruction.op_count() > 0
        && matches!(
            instruction.op0_kind(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        );
    let target = is_direct.then(|| Svma(instruction.near_branch_target()));
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch
        | FlowControl::ConditionalBranch
        | FlowControl::XbeginXabortXend => Flow::Jump(target),
        FlowControl::IndirectBranch => Flow::Jump(None),
        FlowControl::Call => Flow::Call(target),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::Return => Flow::Return,
        FlowControl::Next | FlowControl::Interrupt | FlowControl::Exception => Flow::Next,
    }
}

fn arm64(start: Svma, bytes: &[u8]) -> Vec<Instruction> {
    let decoder = a64::InstDecoder::default();
    let mut all = Vec::with_capacity(bytes.len() / 4);
    let mut address = start;
    for word in bytes.chunks(4) {
        let decoded = decoder.decode(&mut U8Reader::new(word)).ok();
        let (text, flow) = match &decoded {
            Some(instruction) => arm64_text(instruction, address),
            None => (bad_word(word), Flow::Next),
        };
        let len = u8::try_from(word.len()).unwrap_or(4);
        all.push(Instruction {
            address,
            len,
            text,
            flow,
            data: None,
        });
        address = address.plus(u64::from(len));
    }
    all
}

/// An undecodable word, as objdump shows it.
fn bad_word(word: &[u8]) -> String {
    match <[u8; 4]>::try_from(word) {
        Ok(word) => format!(".word {:#010x}", u32::from_le_bytes(word)),
        Err(_) => "(bad)".to_string(),
    }
}

fn arm64_text(instruction: &a64::Instruction, address: Svma) -> (String, Flow) {
    use a64::Opcode;
    let offset = instruction
        .operands
        .iter()
        .find_map(|operand| match operand {
            a64::Operand::PCOffset(offset) => Some(*offset),
            _ => None,
        });
    let target = offset.map(|offset| Svma(address.0.wrapping_add_signed(offset)));
    let flow = match instruction.opcode {
        Opcode::B
        | Opcode::Bcc(_)
        | Opcode::CBZ
        | Opcode::CBNZ
        | Opcode::TBZ
        | Opcode::TBNZ
        | Opcode::BR => Flow::Jump(target),
        Opcode::BL | Opcode::BLR => Flow::Call(target),
        Opcode::RET => Flow::Return,
        _ => Flow::Next,
    };
    let text = instruction.to_string();
    // The decoder writes `$+0x10`; people read addresses.
    let text = match (text.find('$'), target, flow) {
        (Some(at), Some(target), Flow::Jump(_) | Flow::Call(_)) => {
            format!("{}{:x}", text.get(..at).unwrap_or_default(), target.0)
        }
        _ => text,
    };
    (text, flow)
}

#[cfg(test)]
mod tests {
    use super::{Arch, Flow, Syntax, disassemble};
    use prof_profile::Svma;
    use proptest::prelude::*;

    fn texts(arch: Arch, bytes: &[u8]) -> Vec<String> {
        texts_in(Syntax::Att, arch, bytes)
    }

    fn texts_in(syntax: Syntax, arch: Arch, bytes: &[u8]) -> Vec<String> {
        disassemble(arch, syntax, Svma(0x1000), bytes)
            .into_iter()
            .map(|instruction| instruction.text)
            .collect()
    }

    #[test]
    fn x86_is_written_in_intels_syntax_as_objdump_does() {
        // push %rbp; mov %rsp,%rbp; jne 0x1000; call 0x1011; ret;
        // movl $0x1,-0x8(%rbp); lea 0x0(,%rax,4),%rax; nopw 0x0(%rax,%rax,1)
        let bytes = [
            0x55, 0x48, 0x89, 0xe5, 0x75, 0xfa, 0xe8, 0x06, 0, 0, 0, 0xc3, 0xc7, 0x45, 0xf8, 1, 0,
            0, 0, 0x48, 0x8d, 0x04, 0x85, 0, 0, 0, 0, 0x66, 0x0f, 0x1f, 0x44, 0, 0,
        ];
        assert_eq!(
            texts_in(Syntax::Intel, Arch::X86_64, &bytes),
            [
                "push   rbp",
                "mov    rbp,rsp",
                "jne    1000",
                "call   1011",
                "ret",
                "mov    DWORD PTR [rbp-0x8],0x1",
                "lea    rax,[rax*4+0x0]",
                "nop    WORD PTR [rax+rax*1+0x0]",
            ]
        );
    }

    #[test]
    fn operands_are_written_as_objdump_does() {
        // objdump 2.40 of these bytes.
        let both: [(&[u8], &str, &str); 7] = [
            (
                &[0x8b, 0x47, 0x08],
                "mov    0x8(%rdi),%eax",
                "mov    eax,DWORD PTR [rdi+0x8]",
            ),
            (
                &[0x8b, 0x05, 0xaa, 0x2e, 0, 0],
                "mov    0x2eaa(%rip),%eax",
                "mov    eax,DWORD PTR [rip+0x2eaa]",
            ),
            (
                &[0x48, 0x8d, 0x35, 0xd8, 0xff, 0xff, 0xff],
                "lea    -0x28(%rip),%rsi",
                "lea    rsi,[rip+0xffffffffffffffd8]",
            ),
            (&[0x48, 0xd1, 0xea], "shr    %rdx", "shr    rdx,1"),
            (
                &[0x48, 0x69, 0xc0, 0x1f, 0x85, 0xeb, 0x51],
                "imul   $0x51eb851f,%rax,%rax",
                "imul   rax,rax,0x51eb851f",
            ),
            (
                &[0xff, 0xa0, 0x40, 1, 0, 0],
                "jmp    *0x140(%rax)",
                "jmp    QWORD PTR [rax+0x140]",
            ),
            (
                &[0x41, 0xff, 0x72, 0xf8],
                "push   -0x8(%r10)",
                "push   QWORD PTR [r10-0x8]",
            ),
        ];
        for (bytes, att, intel) in both {
            assert_eq!(texts_in(Syntax::Att, Arch::X86_64, bytes), [att]);
            assert_eq!(texts_in(Syntax::Intel, Arch::X86_64, bytes), [intel]);
        }
        let lea = disassemble(Arch::X86_64, Syntax::Att, Svma(0x1000), both[2].0);
        assert_eq!(lea[0].data, Some(Svma(0x1000 + 7 - 0x28)));
    }

    #[test]
    fn prefixes_without_effect_are_written_as_objdump_does() {
        // data16 cs nopw; cs nopw; repz ret; bnd jmp; notrack jmp
        let bytes = [
            0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0,
            0, 0, 0, 0xf3, 0xc3, 0xf2, 0xe9, 0, 0, 0, 0, 0x3e, 0xff, 0xe0,
        ];
        assert_eq!(
            texts(Arch::X86_64, &bytes),
            [
                "data16 cs nopw 0x0(%rax,%rax,1)",
                "cs nopw 0x0(%rax,%rax,1)",
                "repz ret",
                "bnd jmp 101d",
                "notrack jmp *%rax",
            ]
        );
        assert_eq!(
            texts_in(Syntax::Intel, Arch::X86_64, &bytes),
            [
                "data16 cs nop WORD PTR [rax+rax*1+0x0]",
                "cs nop WORD PTR [rax+rax*1+0x0]",
                "repz ret",
                "bnd jmp 101d",
                "notrack jmp rax",
            ]
        );
    }

    #[test]
    fn strings_and_wide_constants_are_written_as_objdump_does() {
        // rep stos; movs; repz cmps; repnz scas; lods; movabs; movsd of a register
        let bytes = [
            0xf3, 0xaa, 0x48, 0xa5, 0xf3, 0xa6, 0xf2, 0xae, 0x66, 0xad, 0x49, 0xb9, 0x15, 0x7c,
            0x4a, 0x7f, 0xb9, 0x79, 0x37, 0x9e, 0xf2, 0x0f, 0x10, 0xc1,
        ];
        assert_eq!(
            texts_in(Syntax::Intel, Arch::X86_64, &bytes),
            [
                "rep stos BYTE PTR es:[rdi],al",
                "movs   QWORD PTR es:[rdi],QWORD PTR ds:[rsi]",
                "repz cmps BYTE PTR ds:[rsi],BYTE PTR es:[rdi]",
                "repnz scas al,BYTE PTR es:[rdi]",
                "lods   ax,WORD PTR ds:[rsi]",
                "movabs r9,0x9e3779b97f4a7c15",
                "movsd  xmm0,xmm1",
            ]
        );
    }

    #[test]
    fn x86_reads_as_objdump_writes_it() {
        // push %rbp; mov %rsp,%rbp; jne 0x1000; call 0x1011; ret
        let bytes = [
            0x55, 0x48, 0x89, 0xe5, 0x75, 0xfa, 0xe8, 0x06, 0, 0, 0, 0xc3,
        ];
        assert_eq!(
            texts(Arch::X86_64, &bytes),
            [
                "push   %rbp",
                "mov    %rsp,%rbp",
                "jne    1000",
                "call   1011",
                "ret"
            ]
        );
        let flows: Vec<_> = disassemble(Arch::X86_64, Syntax::Att, Svma(0x1000), &bytes)
            .into_iter()
            .map(|instruction| instruction.flow)
            .collect();
        assert_eq!(flows.get(2), Some(&Flow::Jump(Some(Svma(0x1000)))));
        assert_eq!(flows.get(3), Some(&Flow::Call(Some(Svma(0x1011)))));
        assert_eq!(flows.get(4), Some(&Flow::Return));
    }

    #[test]
    fn arm64_branches_show_where_they_go() {
        // b.eq +8; bl +0x100; ret; an unallocated word
        let bytes = [
            0x40, 0, 0, 0x54, 0x40, 0, 0, 0x94, 0xc0, 0x03, 0x5f, 0xd6, 0, 0, 0, 0,
        ];
        let all = texts(Arch::Aarch64, &bytes);
        assert_eq!(all.first().map(String::as_str), Some("b.eq 1008"));
        assert_eq!(all.get(1).map(String::as_str), Some("bl 1104"));
        assert_eq!(all.get(2).map(String::as_str), Some("ret"));
        assert_eq!(all.len(), 4);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Damaged or hostile bytes decode to something, and to all of it.
        #[test]
        fn every_byte_belongs_to_one_instruction(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            for arch in [Arch::X86_64, Arch::X86, Arch::Aarch64] {
                let all = disassemble(arch, Syntax::Att, Svma(0xffff_ffff_ffff_ff80), &bytes);
                let sum: usize = all.iter().map(|one| usize::from(one.len)).sum();
                prop_assert_eq!(sum, bytes.len());
            }
        }
    }
}
