//! Names of the registers in samples, by machine.

/// A machine, as far as the numbering of its registers goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// x86, 32 and 64 bit.
    X86,
    /// 32-bit Arm.
    Arm,
    /// 64-bit Arm.
    Arm64,
    /// RISC-V.
    Riscv,
    /// PowerPC.
    Powerpc,
    /// s390x.
    S390,
    /// LoongArch.
    Loongarch,
}

const X86: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS",
    "GS", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];
/// Two register numbers each, from 32 on.
const X86_XMM: [&str; 16] = [
    "XMM0", "XMM1", "XMM2", "XMM3", "XMM4", "XMM5", "XMM6", "XMM7", "XMM8", "XMM9", "XMM10",
    "XMM11", "XMM12", "XMM13", "XMM14", "XMM15",
];
const ARM: [&str; 16] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc",
];
const ARM64: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "lr", "sp", "pc",
];
/// Vector granule of SVE, apart from the others.
const ARM64_VG: (u32, &str) = (46, "vg");
const RISCV: [&str; 32] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
    "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5",
    "t6",
];
const POWERPC: [&str; 45] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27",
    "r28", "r29", "r30", "r31", "nip", "msr", "orig_r3", "ctr", "link", "xer", "ccr", "softe",
    "trap", "dar", "dsisr", "sier", "mmcra",
];
const S390: [&str; 34] = [
    "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14",
    "R15", "FP0", "FP1", "FP2", "FP3", "FP4", "FP5", "FP6", "FP7", "FP8", "FP9", "FP10", "FP11",
    "FP12", "FP13", "FP14", "FP15", "MASK", "PC",
];
const LOONGARCH: [&str; 32] = [
    "PC", "%r1", "%r2", "%r3", "%r4", "%r5", "%r6", "%r7", "%r8", "%r9", "%r10", "%r11", "%r12",
    "%r13", "%r14", "%r15", "%r16", "%r17", "%r18", "%r19", "%r20", "%r21", "%r22", "%r23", "%r24",
    "%r25", "%r26", "%r27", "%r28", "%r29", "%r30", "%r31",
];

impl Arch {
    /// From what `uname -m` says on it; `None` if not known here.
    pub fn from_machine(machine: &str) -> Option<Self> {
        let starts = |prefix| machine.starts_with(prefix);
        Some(match machine {
            "x86_64" | "i386" | "i486" | "i586" | "i686" | "x86" => Self::X86,
            "aarch64" | "aarch64_be" | "arm64" => Self::Arm64,
            _ if starts("arm") => Self::Arm,
            _ if starts("riscv") => Self::Riscv,
            _ if starts("ppc") || starts("powerpc") => Self::Powerpc,
            _ if starts("s390") => Self::S390,
            _ if starts("loongarch") => Self::Loongarch,
            _ => return None,
        })
    }

    /// The name of the register with this bit in `sample_regs_user` and
    /// `sample_regs_intr`, as perf prints it. `None` if it has none.
    ///
    /// Source: `enum perf_event_*_regs` of each machine.
    pub fn register_name(self, bit: u32) -> Option<&'static str> {
        let index = bit as usize;
        match self {
            Self::X86 if bit >= 32 => X86_XMM.get((index - 32) / 2),
            Self::X86 => X86.get(index),
            Self::Arm => ARM.get(index),
            Self::Arm64 if bit == ARM64_VG.0 => Some(&ARM64_VG.1),
            Self::Arm64 => ARM64.get(index),
            Self::Riscv => RISCV.get(index),
            Self::Powerpc => POWERPC.get(index),
            Self::S390 => S390.get(index),
            Self::Loongarch => LOONGARCH.get(index),
        }
        .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Arch;

    #[test]
    fn registers_are_numbered_by_machine() {
        // covers unit: REG-03, REG-06
        let name = |machine, bit| Arch::from_machine(machine)?.register_name(bit);
        assert_eq!(name("x86_64", 7), Some("SP"));
        assert_eq!(name("i686", 8), Some("IP"));
        assert_eq!(name("x86_64", 23), Some("R15"));
        assert_eq!(name("x86_64", 24), None);
        assert_eq!(name("x86_64", 35), Some("XMM1"));
        assert_eq!(name("aarch64", 29), Some("x29"));
        assert_eq!(name("aarch64", 32), Some("pc"));
        assert_eq!(name("aarch64", 46), Some("vg"));
        assert_eq!(name("armv7l", 13), Some("sp"));
        assert_eq!(name("riscv64", 31), Some("t6"));
        assert_eq!(name("ppc64le", 32), Some("nip"));
        assert_eq!(name("s390x", 33), Some("PC"));
        assert_eq!(name("loongarch64", 3), Some("%r3"));
        assert_eq!(name("vax", 0), None);
    }
}
