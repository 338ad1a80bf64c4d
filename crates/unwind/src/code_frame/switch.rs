//! Where a `switch` goes on: a jump through a table of addresses.

use super::{CALLER_SAVED, ReadCode, dwarf, has_immediate, immediate};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Most entries of a table.
const MAX_CASES: u64 = 1024;
/// Instructions between the check of an index and the jump.
const MAX_TO_JUMP: u8 = 16;
/// The largest distance from a jump to where it goes, in bytes.
const FARTHEST: u64 = 1 << 20;

/// Where the cases of a `switch` are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    /// 4 bytes each: how far it is from here, where the table begins.
    Relative(u64),
    /// 8 bytes each, from here on.
    Absolute(u64),
}

/// What code has made ready for a jump through a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch {
    /// By register, in the order of DWARF: how far the address that was loaded is from
    /// `base`; 0 if none was.
    loaded: [i32; 16],
    base: u64,
    /// With what the flags come from a comparison.
    compared: Option<u64>,
    /// The last case that is possible, and for how many instructions that holds.
    last: Option<(u64, u8)>,
    /// The register that was loaded from a table.
    case: Option<(u8, Table)>,
}

impl Switch {
    /// Nothing yet, in the function at `base`.
    pub(super) fn none(base: u64) -> Self {
        Self {
            loaded: [0; 16],
            base,
            compared: None,
            last: None,
            case: None,
        }
    }

    /// Behind an instruction that does not jump.
    pub(super) fn after(mut self, instruction: &Instruction) -> Self {
        self.last = self
            .last
            .and_then(|(last, left)| Some((last, left.checked_sub(1)?)));
        if instruction.rflags_modified() != 0 {
            self.compared = None;
        }
        let is_register = instruction.op0_kind() == OpKind::Register;
        let target = is_register.then(|| dwarf(instruction.op0_register()));
        let target = target.flatten();
        let case = self.case.take();
        match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test => {
                let is_compared =
                    instruction.mnemonic() == Mnemonic::Cmp && has_immediate(instruction);
                self.compared = is_compared.then(|| immediate(instruction) as u64);
                self.case = case;
                return self;
            }
            Mnemonic::Call => {
                let loaded = self.loaded.iter_mut().enumerate();
                for (_, loaded) in loaded.filter(|(number, _)| CALLER_SAVED >> number & 1 == 1) {
                    *loaded = 0;
                }
                return self;
            }
            Mnemonic::Push => return self,
            Mnemonic::And if target.is_some() && has_immediate(instruction) => {
                let mask = immediate(instruction) as u64;
                let is_mask = mask.wrapping_add(1).is_power_of_two();
                self.last = is_mask.then_some((mask, MAX_TO_JUMP));
            }
            _ => {}
        }
        let Some(target) = target else {
            self.case = case;
            return self;
        };
        self.case = match instruction.mnemonic() {
            Mnemonic::Movsxd | Mnemonic::Mov => self.case_in(instruction).map(|it| (target, it)),
            Mnemonic::Add => case.and_then(|case| self.sum(instruction, case)),
            _ => None,
        };
        // What another register holds is still there.
        self.case = self.case.or(case.filter(|&(number, _)| number != target));
        let loaded = match instruction.mnemonic() {
            Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                let by = instruction.ip_rel_memory_address().wrapping_sub(self.base);
                i32::try_from(by.cast_signed()).unwrap_or(0)
            }
            _ => 0,
        };
        if let Some(place) = self.loaded.get_mut(usize::from(target)) {
            *place = loaded;
        }
        self
    }

    /// Where a conditional branch is taken, and where it is not.
    pub(super) fn branched(self, branch: &Instruction) -> (Self, Self) {
        let (mut taken, mut passed) = (self, self);
        let Some(compared) = self.compared else {
            return (taken, passed);
        };
        let up_to = |last: Option<u64>| last.map(|last| (last, MAX_TO_JUMP));
        match branch.mnemonic() {
            Mnemonic::Ja => passed.last = up_to(Some(compared)),
            Mnemonic::Jbe => taken.last = up_to(Some(compared)),
            Mnemonic::Jae => passed.last = up_to(compared.checked_sub(1)),
            Mnemonic::Jb => taken.last = up_to(compared.checked_sub(1)),
            _ => {}
        }
        (taken, passed)
    }

    /// Where a jump can go; nothing if that is not known for each case.
    pub(super) fn targets(&self, jump: &Instruction, read: &mut impl ReadCode) -> Vec<u64> {
        self.all_targets(jump, read).unwrap_or_default()
    }

    fn all_targets(&self, jump: &Instruction, read: &mut impl ReadCode) -> Option<Vec<u64>> {
        if jump.flow_control() != FlowControl::IndirectBranch {
            return None;
        }
        let table = match jump.op0_kind() {
            OpKind::Register => {
                let (number, table) = self.case?;
                (dwarf(jump.op0_register()) == Some(number)).then_some(table)
            }
            _ => absolute(jump),
        }?;
        let cases = self.last?.0.checked_add(1).filter(|&it| it <= MAX_CASES)?;
        let mut bytes = vec![0; cases as usize * table.width()];
        let got = read(table.start(), &mut bytes);
        if got != bytes.len() {
            return None;
        }
        let at = jump.ip();
        let targets = bytes.chunks_exact(table.width()).map(|entry| {
            let target = table.target(entry)?;
            (target.abs_diff(at) <= FARTHEST).then_some(target)
        });
        let mut targets = targets.collect::<Option<Vec<_>>>()?;
        targets.sort_unstable();
        targets.dedup();
        Some(targets)
    }

    /// The table that an instruction loads a case from.
    fn case_in(&self, load: &Instruction) -> Option<Table> {
        if load.op1_kind() != OpKind::Memory {
            return None;
        }
        let is_indexed = load.memory_index() != Register::None
            && load.memory_index_scale() == 4
            && load.memory_displacement64() == 0;
        match load.mnemonic() {
            Mnemonic::Movsxd if is_indexed => {
                self.address_in(load.memory_base()).map(Table::Relative)
            }
            Mnemonic::Mov => absolute(load),
            _ => None,
        }
    }

    /// The register that has the address after a case was added to the start of its
    /// table, or the other way round.
    fn sum(&self, add: &Instruction, case: (u8, Table)) -> Option<(u8, Table)> {
        let (number, table) = case;
        let Table::Relative(start) = table else {
            return None;
        };
        let (to, from) = (add.op0_register(), add.op1_register());
        let is_case = |register| dwarf(register) == Some(number);
        let is_start = |register| self.address_in(register) == Some(start);
        let adds = (is_case(to) && is_start(from)) || (is_start(to) && is_case(from));
        adds.then_some((dwarf(to)?, table))
    }

    /// The address that was loaded into a register.
    fn address_in(&self, register: Register) -> Option<u64> {
        let by = *self.loaded.get(usize::from(dwarf(register)?))?;
        (by != 0).then(|| self.base.wrapping_add_signed(by.into()))
    }
}

/// The table of addresses that an operand takes one from: `N(,%INDEX,8)`.
fn absolute(instruction: &Instruction) -> Option<Table> {
    let is_indexed = instruction.op_kinds().any(|kind| kind == OpKind::Memory)
        && instruction.memory_base() == Register::None
        && instruction.memory_index() != Register::None
        && instruction.memory_index_scale() == 8;
    is_indexed.then(|| Table::Absolute(instruction.memory_displacement64()))
}

impl Table {
    fn start(self) -> u64 {
        match self {
            Self::Relative(start) | Self::Absolute(start) => start,
        }
    }

    /// Bytes of an entry.
    fn width(self) -> usize {
        match self {
            Self::Relative(_) => 4,
            Self::Absolute(_) => 8,
        }
    }

    fn target(self, entry: &[u8]) -> Option<u64> {
        Some(match self {
            Self::Relative(start) => {
                let by = i32::from_le_bytes(*entry.first_chunk()?);
                start.wrapping_add_signed(by.into())
            }
            Self::Absolute(_) => u64::from_le_bytes(*entry.first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;
    use crate::code_frame::tests::reader;
    use crate::code_frame::{Wanted, follow};

    const AT: u64 = 0x1000;
    /// nop, three times; ud2: a case.
    const CASE: [u8; 5] = [0x90, 0x90, 0x90, 0x0f, 0x0b];

    /// Which of the places behind the code, every 5 bytes, are reached from its start:
    /// cases, behind which the table stands.
    fn reached(code: &[u8], cases: usize, table: &[u8]) -> Vec<usize> {
        let all = [code, &CASE.repeat(cases), table].concat();
        let leads_to = |case: &usize| {
            let place = AT + (code.len() + case * CASE.len() + 2) as u64;
            follow(Machine::X86_64, AT, Wanted::Exact(place), &mut reader(&all)).is_some()
        };
        (0..cases).filter(leads_to).collect()
    }

    /// Entries that tell how far cases are from where their table stands.
    fn relative(code: usize, of: usize, cases: &[usize]) -> Vec<u8> {
        let table = (code + of * CASE.len()) as i32;
        let entry = |case: &usize| (code + case * CASE.len()) as i32 - table;
        cases
            .iter()
            .flat_map(|case| entry(case).to_le_bytes())
            .collect()
    }

    /// `check`, with the other instructions that lead to the cases; the number that
    /// tells where the table is stands for the end of `of` cases.
    fn by_relative(check: &[u8], of: usize) -> Vec<u8> {
        // movslq (%rcx,%rdx,4),%rdx; add %rcx,%rdx; jmp *%rdx
        let jump = [0x48, 0x63, 0x14, 0x91, 0x48, 0x01, 0xca, 0xff, 0xe2];
        let to_table = (jump.len() + of * CASE.len()) as i32;
        // lea N(%rip),%rcx
        let lea = [&[0x48, 0x8d, 0x0d][..], &to_table.to_le_bytes()].concat();
        [check, &lea, &jump].concat()
    }

    #[test]
    fn each_case_up_to_the_last_is_a_way() {
        // cmp $2,%al; ja elsewhere
        let code = by_relative(&[0x3c, 2, 0x77, 0x70], 4);
        let table = relative(code.len(), 4, &[3, 0, 0, 1]);
        assert_eq!(reached(&code, 4, &table), [0, 3]);
        // cmp $4,%edx; jae elsewhere
        let code = by_relative(&[0x83, 0xfa, 4, 0x73, 0x70], 4);
        let table = relative(code.len(), 4, &[3, 0, 0, 1]);
        assert_eq!(reached(&code, 4, &table), [0, 1, 3]);
        // cmp $1,%edx; jbe on; ud2
        let code = by_relative(&[0x83, 0xfa, 1, 0x76, 2, 0x0f, 0x0b], 4);
        let table = relative(code.len(), 4, &[3, 2, 0, 1]);
        assert_eq!(reached(&code, 4, &table), [2, 3]);
        // cmpl $1,(%rdi); ja elsewhere
        let code = by_relative(&[0x83, 0x3f, 1, 0x77, 0x70], 4);
        let table = relative(code.len(), 4, &[3, 2, 0, 1]);
        assert_eq!(reached(&code, 4, &table), [2, 3]);
        // and $1,%edx
        let code = by_relative(&[0x83, 0xe2, 1], 4);
        let table = relative(code.len(), 4, &[3, 2, 0, 1]);
        assert_eq!(reached(&code, 4, &table), [2, 3]);
    }

    #[test]
    fn a_table_whose_end_or_start_is_unknown_leads_nowhere() {
        // No check; one whose flags are another's: cmp $2,%al; inc %eax; ja elsewhere;
        // and one of equality.
        let checks: [&[u8]; 3] = [
            &[],
            &[0x3c, 2, 0xff, 0xc0, 0x77, 0x70],
            &[0x3c, 2, 0x75, 0x70],
        ];
        for check in checks {
            let code = by_relative(check, 4);
            let table = relative(code.len(), 4, &[3, 0, 0, 1]);
            assert!(reached(&code, 4, &table).is_empty(), "{check:x?}");
        }
        let check = [0x3c, 2, 0x77, 0x70];
        let code = by_relative(&check, 4);
        let table = relative(code.len(), 4, &[3, 0]);
        assert!(reached(&code, 4, &table).is_empty(), "it is too short");
        let mut table = relative(code.len(), 4, &[3, 0, 1]);
        table[7] = 0x7f;
        assert!(reached(&code, 4, &table).is_empty(), "one is far away");
        // xor %ecx,%ecx before what loads the case
        let mut code = by_relative(&check, 4);
        code.splice(11..11, [0x31, 0xc9]);
        let table = relative(code.len(), 4, &[3, 0, 1]);
        assert!(reached(&code, 4, &table).is_empty(), "its start is lost");
    }

    #[test]
    fn tables_of_addresses_lead_to_them() {
        let cases = [3_u64, 1];
        // cmp $1,%eax; ja elsewhere; jmp *TABLE(,%rax,8)
        let jump = [0x83, 0xf8, 1, 0x77, 0x70, 0xff, 0x24, 0xc5];
        // The same by mov TABLE(,%rax,8),%rax; jmp *%rax
        let loads = [0x83, 0xf8, 1, 0x77, 0x70, 0x48, 0x8b, 0x04, 0xc5];
        for (code, rest) in [(&jump[..], &[][..]), (&loads, &[0xff, 0xe0])] {
            let len = code.len() + 4 + rest.len();
            let table = AT as u32 + (len + 4 * CASE.len()) as u32;
            let code = [code, &table.to_le_bytes(), rest].concat();
            let entry = |case: &u64| AT + len as u64 + case * CASE.len() as u64;
            let table: Vec<u8> = cases
                .iter()
                .flat_map(|case| entry(case).to_le_bytes())
                .collect();
            assert_eq!(reached(&code, 4, &table), [1, 3]);
        }
    }
}
