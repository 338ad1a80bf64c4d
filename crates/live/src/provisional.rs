//! Addresses of names that count only if they prove right.
//!
//! What a thread runs is named by its memory. That of a function that was not
//! seen before may have been used again between the sample and the reading,
//! unless the thread stood still all the while. Of a thread that waits it is
//! known only when the wait is over whether it did.

/// Addresses of names begin here: no address of a process, nor of a kernel.
pub(crate) const FIRST: u64 = 1 << 60;
/// Addresses of one name.
pub(crate) const EACH: u64 = 1 << 16;
/// Set in addresses of names that count if the thread stood still.
const PROVISIONAL: u64 = 1 << 59;

/// The address of a name that counts only if its thread stood still until it
/// was read.
pub(crate) fn provisional(address: u64) -> u64 {
    address | PROVISIONAL
}

/// Whether an entry of a chain is the address of such a name.
pub fn is_provisional(entry: u64) -> bool {
    entry & !(PROVISIONAL - 1) == FIRST | PROVISIONAL
}

/// The address that counts where `entry` is one of a provisional name: its own if
/// the thread stood still until it was read, else that of what has no name.
pub fn settled(entry: u64, stood_still: bool) -> u64 {
    match (is_provisional(entry), stood_still) {
        (false, _) => entry,
        (true, true) => entry & !PROVISIONAL,
        // The first name stands for all that is unknown.
        (true, false) => FIRST | entry & (EACH - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{EACH, FIRST, is_provisional, provisional, settled};

    #[test]
    fn a_provisional_name_becomes_its_own_or_none() {
        let name = FIRST + 7 * EACH + 1;
        let entry = provisional(name);
        assert!(is_provisional(entry) && !is_provisional(name));
        assert_eq!(settled(entry, true), name);
        assert_eq!(settled(entry, false), FIRST + 1);
        // Addresses of the process, of the kernel, and marks of chains.
        for other in [
            0x7f00_1234_5678,
            0xffff_ffff_8100_0000,
            u64::MAX - 511,
            name,
        ] {
            assert_eq!(settled(other, false), other);
        }
    }
}
