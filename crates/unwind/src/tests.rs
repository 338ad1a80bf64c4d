//! Whole walks over a hand-made ELF file and its damaged copies.

use crate::dso::Rules;
use crate::{
    CodeAt, Machine, Process, Registers, Source, StackDump, UnwindDso, UnwindDsoId, Unwinder,
};
use prof_profile::{Avma, Bias, ChainEnd, Svma};

/// Where the file is loaded.
const BASE: u64 = 0x7f00_0000_0000;
/// Code of the file: one function of 0x100 bytes at each multiple of it.
const CODE: u64 = 0x1000;
const UNWIND: u64 = 0x2000;

/// A CIE for x86-64: code factor 1, data factor -8, return address in
/// column 16, pointers pc-relative in 4 bytes; CFA = rsp+8, ra at CFA-8.
fn cie(is_signal: bool) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, 1];
    body.extend(if is_signal {
        &b"zRS\0"[..]
    } else {
        &b"zR\0"[..]
    });
    body.extend([1, 0x78, 16, 1, 0x1b]);
    body.extend([0x0c, 7, 8, 0x90, 1]);
    padded(body)
}

/// Adds the length in front and nops behind.
fn padded(mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    let mut entry = (body.len() as u32).to_le_bytes().to_vec();
    entry.extend(body);
    entry
}

/// An ELF file whose function `n` has the call frame instructions
/// `functions[n]`, with a sorted table or without.
fn elf(functions: &[(bool, &[u8])]) -> Vec<u8> {
    let (mut eh_frame, mut table) = (Vec::new(), Vec::new());
    let hdr_len = 12 + 8 * functions.len() as u64;
    let frame_at = UNWIND + hdr_len;
    for (number, (is_signal, instructions)) in functions.iter().enumerate() {
        let cie_at = eh_frame.len();
        eh_frame.extend(cie(*is_signal));
        let fde_at = eh_frame.len();
        let code = CODE + 0x100 * number as u64;
        let mut body = ((fde_at + 4 - cie_at) as u32).to_le_bytes().to_vec();
        let field = frame_at + fde_at as u64 + 8;
        body.extend((code.wrapping_sub(field) as u32).to_le_bytes());
        body.extend(0x100_u32.to_le_bytes());
        body.push(0);
        body.extend(*instructions);
        eh_frame.extend(padded(body));
        table.extend((code.wrapping_sub(UNWIND) as u32).to_le_bytes());
        table.extend(((hdr_len + fde_at as u64) as u32).to_le_bytes());
    }
    let mut unwind = vec![1, 0x1b, 0x03, 0x3b];
    unwind.extend(((hdr_len - 4) as u32).to_le_bytes());
    unwind.extend((functions.len() as u32).to_le_bytes());
    unwind.extend(table);
    unwind.extend(&eh_frame);
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    file.extend([0, 64, 0].iter().flat_map(|word: &u64| word.to_le_bytes()));
    // flags, then sizes and numbers: header, program headers, no sections.
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    let len = UNWIND + unwind.len() as u64;
    for (kind, flags, at, size) in [(1_u32, 5_u32, 0, len), (0x6474_e550, 4, UNWIND, hdr_len)] {
        file.extend(kind.to_le_bytes());
        file.extend(flags.to_le_bytes());
        for word in [at, at, at, size, size, 1] {
            file.extend(word.to_le_bytes());
        }
    }
    file.resize(UNWIND as usize, 0xcc);
    file.extend(unwind);
    file
}

/// One dso at `BASE` and a stack at 0x1000.
struct OneDso<'a> {
    id: Option<UnwindDsoId>,
    stack: &'a [u8],
}

impl Process for OneDso<'_> {
    fn place(&mut self, pc: Avma) -> CodeAt {
        let is_in = (BASE + CODE..BASE + UNWIND).contains(&pc.0);
        match self.id.filter(|_| is_in) {
            Some(id) => CodeAt::Dso {
                id,
                bias: Bias::between(Avma(BASE), Svma(0)),
            },
            None => CodeAt::Nothing,
        }
    }

    fn word(&mut self, address: u64, size: u8) -> Option<u64> {
        let dump = StackDump {
            start: 0x1000,
            bytes: self.stack,
        };
        dump.word(address, size)
    }

    fn code(&mut self, _: Avma, _: &mut [u8]) -> usize {
        0
    }
}

/// The pc of function `number`, `into` bytes behind its start.
fn pc(number: u64, into: u64) -> u64 {
    BASE + CODE + 0x100 * number + into
}

/// Unwinds from function 0 with rsp = 0x1000 and rbp = 0x1010.
fn unwind(functions: &[(bool, &[u8])], stack: &[u64]) -> (Vec<u64>, ChainEnd) {
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    unwind_file(elf(functions), &bytes)
}

fn unwind_file(file: Vec<u8>, stack: &[u8]) -> (Vec<u64>, ChainEnd) {
    let mut unwinder = Unwinder::default();
    let id = UnwindDso::open(Source::Bytes(file.into()))
        .ok()
        .map(|dso| unwinder.dsos.add(dso));
    let mut registers = Registers::new(Machine::X86_64, pc(0, 0x20), 0x1000);
    registers.set(6, 0x1010);
    let mut chain = Vec::new();
    let end = unwinder.unwind(registers, &mut OneDso { id, stack }, 100, &mut chain);
    (chain, end)
}

/// `DW_CFA_undefined` of the return address: a thread's start.
const START: &[u8] = &[0x07, 16];

#[test]
fn a_frame_of_rsp_offset_leads_to_the_thread_start() {
    // Function 0 has pushed two words: CFA = rsp+24.
    let functions = [(false, &[0x0e, 24][..]), (false, START)];
    let (chain, end) = unwind(&functions, &[1, 2, pc(1, 9), 0]);
    assert_eq!(chain, [pc(0, 0x20), pc(1, 9)]);
    assert_eq!(end, ChainEnd::Root);
}

#[test]
fn a_callee_saved_register_carries_the_next_frames_cfa() {
    // 0: CFA = rsp+24, rbx (3) at CFA-16. 1: CFA = rbx+8. 2: start.
    let functions = [
        (false, &[0x0e, 24, 0x83, 2][..]),
        (false, &[0x0c, 3, 8]),
        (false, START),
    ];
    let (chain, end) = unwind(&functions, &[0, 0x1028, pc(1, 9), 0, 0, pc(2, 9)]);
    assert_eq!(chain, [pc(0, 0x20), pc(1, 9), pc(2, 9)]);
    assert_eq!(end, ChainEnd::Root);
}

#[test]
fn a_register_that_an_epilogue_has_popped_holds_its_value() {
    // 0: at its `ret`, CFA = rsp+8, rbp (6) still said to be at CFA-16, which
    // is below the stack pointer. 1: CFA = rbp+8. 2: start.
    let functions = [
        (false, &[0x86, 2][..]),
        (false, &[0x0c, 6, 8]),
        (false, START),
    ];
    let (chain, end) = unwind(&functions, &[pc(1, 9), 0, pc(2, 9)]);
    assert_eq!(chain, [pc(0, 0x20), pc(1, 9), pc(2, 9)]);
    assert_eq!(end, ChainEnd::Root);
}

#[test]
fn behind_a_signal_frame_the_pc_is_exact() {
    // 0 returns to 1, a signal frame: CFA = [rsp], ra at CFA-8. The signal
    // came at the very first byte of 3; a byte before is function 2, whose
    // rules would end the walk.
    let functions = [
        (false, &[][..]),
        (true, &[0x0f, 3, 0x77, 0, 0x06]),
        (false, START),
        (false, &[0x0e, 16]),
        (false, START),
    ];
    let stack = [pc(1, 9), 0x1020, 0, pc(3, 0), 0, pc(4, 9)];
    let (chain, end) = unwind(&functions, &stack);
    assert_eq!(chain, [pc(0, 0x20), pc(1, 9), pc(3, 0), pc(4, 9)]);
    assert_eq!(end, ChainEnd::Root);
}

#[test]
fn a_call_as_the_last_instruction_belongs_to_its_function() {
    // The return address is the first byte of function 2; the call is 1's.
    let functions = [(false, &[][..]), (false, START), (false, &[0x0e, 64])];
    let (chain, end) = unwind(&functions, &[pc(2, 0)]);
    assert_eq!((chain.len(), end), (2, ChainEnd::Root));
}

#[test]
fn a_walk_ends_with_its_reason() {
    let leaf = (false, &[][..]);
    assert_eq!(unwind(&[leaf], &[]).1, ChainEnd::StackCut);
    assert_eq!(unwind(&[leaf], &[0]).1, ChainEnd::Root);
    assert_eq!(unwind(&[leaf], &[0x1234]).1, ChainEnd::Unproven);
    // Recursion that never moves: CFA = rbp (6), ra at CFA-8.
    let stuck = (false, &[0x0c, 6, 0][..]);
    let (chain, end) = unwind(&[stuck], &[0, pc(0, 9)]);
    assert_eq!(end, ChainEnd::BadUnwindInfo);
    assert!(chain.len() < 70);
    // An expression that jumps to itself: DW_OP_lit0, DW_OP_skip -3.
    let endless = (false, &[0x0f, 4, 0x30, 0x2f, 0xfd, 0xff][..]);
    assert_eq!(unwind(&[endless], &[0]).1, ChainEnd::BadUnwindInfo);
}

#[test]
fn damaged_files_end_the_walk_and_nothing_else() {
    let functions = [
        (false, &[0x0e, 24, 0x83, 2][..]),
        (true, &[0x0f, 3, 0x77, 0, 0x06]),
        (false, &[0x0f, 4, 0x30, 0x2f, 0xfd, 0xff]),
        (false, START),
    ];
    let good = elf(&functions);
    let stack: Vec<u8> = (0..64_u64)
        .flat_map(|slot| pc(slot % 4, slot).to_le_bytes())
        .collect();
    let interesting = (0..176).chain(UNWIND as usize..good.len());
    for at in interesting {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let (chain, _) = unwind_file(bad, &stack);
            assert!(chain.len() <= 100);
        }
    }
    for len in 0..good.len() {
        unwind_file(good[..len].to_vec(), &stack);
    }
}

/// As PHP's compiler tells debuggers of a function of 0x8b bytes: addresses are
/// relative to its code, which is in no file.
#[test]
fn rules_of_code_that_was_made_may_be_relative_to_it() {
    let cie = [
        0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x23, 0x0c, 7, 8, 0x90, 1, 0,
        0,
    ];
    let fde = [
        0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 0x8b, 0, 0, 0, 0, 0x0e, 0xa0, 1, 0, 0, 0, 0,
    ];
    let mut dso = UnwindDso::of_eh_frame(Svma(0), [cie, fde].concat(), Svma(0x1000));
    let mut covers = |at: u64| matches!(dso.rules(Svma(at), Machine::X86_64), Rules::Row(_));
    assert!(covers(0x1000) && covers(0x108a));
    assert!(!covers(0x10) && !covers(0x108b));
}

/// As QEMU tells debuggers of all that it translates: addresses are those of the code.
#[test]
fn rules_of_code_that_was_made_may_be_those_of_debuggers() {
    let cie = [
        0x0c, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 1, 0x78, 16, 0, 0, 0,
    ];
    let mut fde = vec![0x24, 0, 0, 0, 0, 0, 0, 0];
    fde.extend(0x7000_1000_u64.to_le_bytes());
    fde.extend(0x800_0000_u64.to_le_bytes());
    // The frame is 0x4c0 bytes; six registers are saved below the return address.
    fde.extend([0x0c, 7, 0xc0, 0x09, 0x90, 1, 0x86, 2, 0x83, 3, 0x8c, 4]);
    fde.extend([0x8d, 5, 0x8e, 6]);
    fde.resize(0x28, 0);
    let mut dso = UnwindDso::of_debug_frame([&cie[..], &fde].concat());
    let mut covers = |at: u64| matches!(dso.rules(Svma(at), Machine::X86_64), Rules::Row(_));
    assert!(covers(0x7000_1000) && covers(0x7800_0fff));
    assert!(!covers(0x7000_0fff) && !covers(0x7800_1000));
}
