//! Why a transaction ended: TRANSACTION of a sample.

use std::fmt;

/// The value of TRANSACTION in a sample: flags below, the abort code in the
/// high 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Transaction(pub u64);

/// Names of the flags, lowest bit first, as perf's `transaction` column has
/// them.
const FLAGS: [&str; 8] = [
    "EL",
    "TX",
    "SYNC",
    "ASYNC",
    "RETRY",
    "CON",
    "CAP-WRITE",
    "CAP-READ",
];

impl Transaction {
    /// The code the program gave to the abort.
    pub(crate) fn abort_code(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// As perf prints it: `TX SYNC :2`; nothing for 0.
impl fmt::Display for Transaction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, name) in FLAGS.iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                write!(out, "{name} ")?;
            }
        }
        match self.abort_code() {
            0 => Ok(()),
            code => write!(out, ":{code:x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Transaction;

    #[test]
    fn flags_and_abort_code_are_told() {
        // covers unit: TXN-01, TXN-02
        assert_eq!(Transaction(0x6).to_string(), "TX SYNC ");
        assert_eq!(Transaction(0x2a_0000_0029).to_string(), "EL ASYNC CON :2a");
        assert_eq!(Transaction(0).to_string(), "");
    }
}
