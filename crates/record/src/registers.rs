//! Names of the registers that samples may carry, as perf spells them.

use prof_unwind::Machine;

/// The machine that this program was built for.
pub(crate) const MACHINE: Machine = if cfg!(target_arch = "aarch64") {
    Machine::Aarch64
} else {
    Machine::X86_64
};

/// x86-64 registers by number; the segment registers ds, es, fs and gs cannot
/// be sampled.
#[cfg(target_arch = "x86_64")]
const NAMES: &[(&str, u32)] = &[
    ("ax", 0),
    ("bx", 1),
    ("cx", 2),
    ("dx", 3),
    ("si", 4),
    ("di", 5),
    ("bp", 6),
    ("sp", 7),
    ("ip", 8),
    ("flags", 9),
    ("cs", 10),
    ("ss", 11),
    ("r8", 16),
    ("r9", 17),
    ("r10", 18),
    ("r11", 19),
    ("r12", 20),
    ("r13", 21),
    ("r14", 22),
    ("r15", 23),
];
/// arm64 registers by number.
#[cfg(not(target_arch = "x86_64"))]
const NAMES: &[(&str, u32)] = &[
    ("x0", 0),
    ("x1", 1),
    ("x2", 2),
    ("x3", 3),
    ("x4", 4),
    ("x5", 5),
    ("x6", 6),
    ("x7", 7),
    ("x8", 8),
    ("x9", 9),
    ("x10", 10),
    ("x11", 11),
    ("x12", 12),
    ("x13", 13),
    ("x14", 14),
    ("x15", 15),
    ("x16", 16),
    ("x17", 17),
    ("x18", 18),
    ("x19", 19),
    ("x20", 20),
    ("x21", 21),
    ("x22", 22),
    ("x23", 23),
    ("x24", 24),
    ("x25", 25),
    ("x26", 26),
    ("x27", 27),
    ("x28", 28),
    ("x29", 29),
    ("lr", 30),
    ("sp", 31),
    ("pc", 32),
];

/// All general registers of this machine, as a mask for `perf_event_attr`.
pub fn all_registers() -> u64 {
    NAMES.iter().fold(0, |mask, (_, number)| mask | 1 << number)
}

/// The mask of a list of names, whatever their case; the error is the name
/// that is none.
pub fn parse_registers(text: &str) -> Result<u64, String> {
    let mut mask = 0;
    for name in text.split(',').map(str::trim) {
        let known = NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (_, number) = known.ok_or_else(|| name.to_owned())?;
        mask |= 1 << number;
    }
    Ok(mask)
}

/// The names, for a message.
pub fn register_names() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{NAMES, all_registers, parse_registers};

    #[test]
    fn names_become_a_mask() {
        let (first, last) = (NAMES[0], NAMES[NAMES.len() - 1]);
        let both = format!("{},{}", first.0, last.0.to_uppercase());
        assert_eq!(parse_registers(&both), Ok(1 << first.1 | 1 << last.1));
        assert_eq!(parse_registers("ip2"), Err("ip2".to_owned()));
        assert_eq!(all_registers().count_ones() as usize, NAMES.len());
    }
}
