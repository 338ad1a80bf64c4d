//! Numbers of reasons and faults in the embedded bytes: never change one,
//! add new ones at the end.

use crate::perf_map::LineFault;
use prof_profile::{JitFileFault, UnnamedReason};

/// Numbered from 1.
const REASONS: &[UnnamedReason] = &[
    UnnamedReason::NoMapping,
    UnnamedReason::FileMissing,
    UnnamedReason::FileDenied,
    UnnamedReason::BuildIdMismatch,
    UnnamedReason::FileDamaged,
    UnnamedReason::NoSymbolThere,
    UnnamedReason::Stripped,
    UnnamedReason::KernelHidden,
    UnnamedReason::NoPerfMap,
    UnnamedReason::NotInPerfMap,
    UnnamedReason::PerfMapRefused(JitFileFault::OtherOwner),
    UnnamedReason::PerfMapRefused(JitFileFault::Writable),
    UnnamedReason::PerfMapRefused(JitFileFault::SymbolicLink),
    UnnamedReason::PerfMapRefused(JitFileFault::HardLinks),
    UnnamedReason::PerfMapRefused(JitFileFault::Fifo),
    UnnamedReason::PerfMapRefused(JitFileFault::Directory),
    UnnamedReason::PerfMapRefused(JitFileFault::Device),
    UnnamedReason::PerfMapRefused(JitFileFault::Socket),
    UnnamedReason::PerfMapRefused(JitFileFault::TooLarge),
    UnnamedReason::PerfMapRefused(JitFileFault::Denied),
    UnnamedReason::PerfMapRefused(JitFileFault::Unreadable),
    UnnamedReason::PerfMapRefused(JitFileFault::Damaged),
];

/// Numbered from 0.
const FAULTS: &[LineFault] = &[
    LineFault::NoStart,
    LineFault::NoSize,
    LineFault::Empty,
    LineFault::NoName,
    LineFault::PastEnd,
];

/// A reason's number; that of the plainest for one that has none.
pub(super) fn number_of(reason: UnnamedReason) -> u64 {
    let found = REASONS.iter().position(|&known| known == reason);
    found.map_or(6, |at| at as u64 + 1)
}

pub(super) fn reason_of(number: u64) -> Option<UnnamedReason> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    REASONS.get(at).copied()
}

pub(super) fn number_of_fault(fault: LineFault) -> u64 {
    let found = FAULTS.iter().position(|&known| known == fault);
    found.unwrap_or(0) as u64
}

pub(super) fn fault_of(number: u64) -> Option<LineFault> {
    FAULTS.get(usize::try_from(number).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::{REASONS, number_of, reason_of};

    #[test]
    fn each_reason_has_a_number_that_gives_it_back() {
        for &reason in REASONS {
            assert_eq!(reason_of(number_of(reason)), Some(reason));
        }
        assert_eq!(reason_of(0), None);
        assert_eq!(reason_of(u64::MAX), None);
    }
}
