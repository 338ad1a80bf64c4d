//! The registers of one frame, by their DWARF numbers.

use std::hash::Hasher;

/// The instruction sets whose stacks can be unwound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Machine {
    /// x86 in 64-bit mode.
    X86_64,
    /// x86 in 32-bit mode, on whatever kernel.
    X86,
    /// 64-bit Arm.
    Aarch64,
}

impl Machine {
    /// Bytes in a stack slot and in an address.
    pub const fn word(self) -> u8 {
        match self {
            Self::X86_64 | Self::Aarch64 => 8,
            Self::X86 => 4,
        }
    }

    /// DWARF number of the stack pointer.
    pub(crate) const fn sp(self) -> u8 {
        match self {
            Self::X86_64 => 7,
            Self::X86 => 4,
            Self::Aarch64 => 31,
        }
    }

    /// Number of the stack pointer in samples (`asm/perf_regs.h`).
    pub const fn sp_of_perf(self) -> u32 {
        match self {
            Self::X86_64 | Self::X86 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// DWARF number of the frame pointer, where one is kept.
    pub(crate) const fn fp(self) -> u8 {
        match self {
            Self::X86_64 => 6,
            Self::X86 => 5,
            Self::Aarch64 => 29,
        }
    }

    /// Most general registers: DWARF numbers below this are kept.
    const fn general(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::X86 => 8,
            Self::Aarch64 => 32,
        }
    }

    /// DWARF numbers of the registers that calls preserve.
    const fn preserved(self) -> &'static [u8] {
        match self {
            Self::X86_64 => &[3, 6, 7, 12, 13, 14, 15],
            Self::X86 => &[3, 4, 5, 6, 7],
            Self::Aarch64 => &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31],
        }
    }

    /// The bits an address may have; others are pointer authentication or
    /// tags.
    const fn address_mask(self) -> u64 {
        match self {
            Self::X86_64 => u64::MAX,
            Self::X86 => 0xffff_ffff,
            // 48 bits of user address, or 52 where the kernel gives more:
            // bit 55 is 0 for user addresses and authentication codes use
            // the bits above the address size.
            Self::Aarch64 => 0x0000_ffff_ffff_ffff,
        }
    }

    /// Maps perf's register numbers (`asm/perf_regs.h`) to DWARF's; 255 for
    /// those without use here.
    const fn dwarf_of_perf(self) -> &'static [u8] {
        match self {
            // ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8..r15
            Self::X86_64 => &[
                0, 3, 2, 1, 4, 5, 6, 7, PC, 255, 255, 255, 255, 255, 255, 255, 8, 9, 10, 11, 12,
                13, 14, 15,
            ],
            Self::X86 => &[0, 3, 1, 2, 6, 7, 5, 4, PC],
            Self::Aarch64 => &[
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                23, 24, 25, 26, 27, 28, 29, 30, 31, PC,
            ],
        }
    }
}

/// Where [`Registers`] keeps the program counter: above every DWARF number.
const PC: u8 = 32;

/// Register values of one frame; each is known or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    machine: Machine,
    known: u64,
    values: [u64; PC as usize + 1],
}

impl Registers {
    /// A frame of which only the instruction and stack pointers are known.
    pub fn new(machine: Machine, pc: u64, sp: u64) -> Self {
        let mut registers = Self::unknown(machine);
        registers.set(PC, pc);
        registers.set(machine.sp(), sp);
        registers
    }

    /// Reads `PERF_SAMPLE_REGS_USER`: the values of the bits in `mask`,
    /// lowest bit first. `None` if instruction or stack pointer are not
    /// among them.
    pub fn from_perf(
        machine: Machine,
        mask: u64,
        values: impl Iterator<Item = u64>,
    ) -> Option<Self> {
        let mut registers = Self::unknown(machine);
        let bits = (0_usize..64).filter(|bit| mask >> bit & 1 == 1);
        for (bit, value) in bits.zip(values) {
            if let Some(&number) = machine.dwarf_of_perf().get(bit) {
                registers.set(number, value);
            }
        }
        registers.known(PC)?;
        registers.known(machine.sp())?;
        Some(registers)
    }

    fn unknown(machine: Machine) -> Self {
        Self {
            machine,
            known: 0,
            values: [0; PC as usize + 1],
        }
    }

    /// The instruction set.
    #[inline]
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The instruction pointer; in callers, the return address.
    #[inline]
    pub fn pc(&self) -> u64 {
        self.values[PC as usize]
    }

    /// The stack pointer.
    #[inline]
    pub fn sp(&self) -> u64 {
        self.known(self.machine.sp()).unwrap_or(0)
    }

    /// The frame pointer register, whatever it holds.
    #[inline]
    pub fn fp(&self) -> Option<u64> {
        self.known(self.machine.fp())
    }

    /// The value of a register by DWARF number, if it is known.
    #[inline]
    pub fn known(&self, number: u8) -> Option<u64> {
        let known = self.known.checked_shr(u32::from(number)).unwrap_or(0) & 1 == 1;
        self.values
            .get(usize::from(number))
            .copied()
            .filter(|_| known)
    }

    /// Hashes which of the registers that calls preserve are known, and their values.
    pub(crate) fn hash_preserved(&self, hasher: &mut impl Hasher) {
        let preserved = self.machine.preserved();
        let mask = preserved.iter().fold(0, |mask, number| mask | 1 << number);
        hasher.write_u64(self.known & mask);
        for &number in preserved {
            hasher.write_u64(self.known(number).unwrap_or(0));
        }
    }

    /// Sets a register by DWARF number; numbers beyond the general ones are
    /// ignored.
    #[inline]
    pub fn set(&mut self, number: u8, value: u64) {
        let value = match (self.machine, number) {
            (Machine::X86, _) => value & 0xffff_ffff,
            (_, PC) => value & self.machine.address_mask(),
            _ => value,
        };
        if number != PC && number >= self.machine.general() {
            return;
        }
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value;
            self.known |= 1 << number;
        }
    }

    /// Sets where it executes; authentication bits are removed.
    #[inline]
    pub(crate) fn set_pc(&mut self, value: u64) {
        self.set(PC, value);
    }

    /// Says that a register's value cannot be known.
    #[inline]
    pub(crate) fn forget(&mut self, number: u8) {
        self.known &= !1_u64.checked_shl(u32::from(number)).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Registers};

    #[test]
    fn perf_and_dwarf_number_registers_differently() {
        // ax bx cx dx si di bp sp ip, then r8: bits 0 to 8 and 16.
        let mask = 0x1_01ff;
        let registers = Registers::from_perf(Machine::X86_64, mask, 100..110).expect("ip and sp");
        assert_eq!(registers.pc(), 108);
        assert_eq!(registers.sp(), 107);
        assert_eq!(registers.fp(), Some(106));
        assert_eq!(registers.known(1), Some(103), "dx is DWARF register 1");
        assert_eq!(registers.known(8), Some(109));
        assert_eq!(registers.known(12), None);
        assert_eq!(Registers::from_perf(Machine::X86_64, 0xff, 0..8), None);
    }

    #[test]
    fn a_signed_return_address_loses_its_code() {
        let mut registers = Registers::new(Machine::Aarch64, 0, 0x1000);
        registers.set_pc(0x003f_ffff_1234_5678);
        assert_eq!(registers.pc(), 0x0000_ffff_1234_5678);
        registers.set(200, 7);
        assert_eq!(registers.known(200), None);
    }
}
