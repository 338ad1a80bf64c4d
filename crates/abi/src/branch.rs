//! Names of what a branch entry says.

/// `PERF_BR_*`, by number, as perf prints them; 0 is unknown.
const KINDS: [&str; 16] = [
    "N/A",
    "COND",
    "UNCOND",
    "IND",
    "CALL",
    "IND_CALL",
    "RET",
    "SYSCALL",
    "SYSRET",
    "COND_CALL",
    "COND_RET",
    "ERET",
    "IRQ",
    "SERROR",
    "NO_TX",
    "EXTEND_ABI",
];

/// `PERF_BR_NEW_*`, by number, where the kind is `EXTEND_ABI`; the last four
/// are the machine's own (debugging, on arm64).
const NEW_KINDS: [&str; 8] = [
    "FAULT_ALGN",
    "FAULT_DATA",
    "FAULT_INST",
    "ARCH_1",
    "ARCH_2",
    "ARCH_3",
    "ARCH_4",
    "ARCH_5",
];

/// `PERF_BR_SPEC_*`, by number.
const SPECULATIONS: [&str; 4] = [
    "N/A",
    "SPEC_WRONG_PATH",
    "NON_SPEC_CORRECT_PATH",
    "SPEC_CORRECT_PATH",
];

/// `PERF_BR_PRIV_*`, by number.
const PRIVILEGES: [&str; 4] = ["N/A", "USER", "KERNEL", "HV"];

/// The kind of a branch: `kind` if that says it, else `new_kind`. `None` if
/// the number is not known here.
pub fn branch_kind_name(kind: u8, new_kind: u8) -> Option<&'static str> {
    const EXTENDED: u8 = 15;
    let (names, number): (&[&str], u8) = if kind == EXTENDED {
        (&NEW_KINDS, new_kind)
    } else {
        (&KINDS, kind)
    };
    names.get(usize::from(number)).copied()
}

/// How a branch was speculated; `None` if the number is not known here.
///
/// ```
/// assert_eq!(prof_abi::branch_speculation_name(1), Some("SPEC_WRONG_PATH"));
/// ```
pub fn branch_speculation_name(number: u8) -> Option<&'static str> {
    SPECULATIONS.get(usize::from(number)).copied()
}

/// Where a branch went, as privilege; `None` if the number is not known here.
///
/// ```
/// assert_eq!(prof_abi::branch_privilege_name(1), Some("USER"));
/// ```
pub fn branch_privilege_name(number: u8) -> Option<&'static str> {
    PRIVILEGES.get(usize::from(number)).copied()
}

#[cfg(test)]
mod tests {
    use super::{branch_kind_name, branch_privilege_name, branch_speculation_name};

    #[test]
    fn an_extended_kind_is_named_by_the_new_field() {
        // covers unit: BR-17, BR-18, BR-19, BR-20
        assert_eq!(branch_kind_name(1, 7), Some("COND"));
        assert_eq!(branch_kind_name(15, 1), Some("FAULT_DATA"));
        assert_eq!(branch_kind_name(15, 9), None);
        assert_eq!(branch_speculation_name(3), Some("SPEC_CORRECT_PATH"));
        assert_eq!(branch_privilege_name(2), Some("KERNEL"));
        assert_eq!(branch_privilege_name(7), None);
    }
}
