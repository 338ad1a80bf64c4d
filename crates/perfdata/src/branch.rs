//! The entries of branch stacks.

use prof_abi::ByteOrder;

/// One branch: `perf_branch_entry`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch instruction (avma).
    pub from: u64,
    /// Where it went (avma).
    pub to: u64,
    /// Prediction, transaction, cycles and kind of the branch.
    pub flags: BranchFlags,
}

impl Branch {
    /// Bytes of one entry.
    pub const SIZE: usize = 24;
}

/// The bit-fields of a branch entry, in little-endian numbering: bit 0
/// mispredicted, 1 predicted, 2 in a transaction, 3 abort, 4-19 cycles, 20-23
/// type, 24-25 speculation, 26-29 new type, 30-32 privilege.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchFlags(pub u64);

/// (first bit in little-endian numbering, bits) of each field.
const BRANCH_FIELDS: [(u32, u32); 9] = [
    (0, 1),
    (1, 1),
    (2, 1),
    (3, 1),
    (4, 16),
    (20, 4),
    (24, 2),
    (26, 4),
    (30, 3),
];

impl BranchFlags {
    /// From the file's integer. C bit-fields of a big-endian machine start at
    /// the top: there `mispred` is bit 63.
    pub fn from_file(word: u64, order: ByteOrder) -> Self {
        Self(match order {
            ByteOrder::Little => word,
            ByteOrder::Big => each_field(|low, top, bits| (word >> top & bits) << low),
        })
    }

    /// The file's integer again.
    pub fn to_file(self, order: ByteOrder) -> u64 {
        match order {
            ByteOrder::Little => self.0,
            ByteOrder::Big => each_field(|low, top, bits| (self.0 >> low & bits) << top),
        }
    }

    fn bits(self, shift: u32, count: u32) -> u64 {
        self.0 >> shift & ((1 << count) - 1)
    }

    /// The target was mispredicted.
    pub fn mispredicted(self) -> bool {
        self.bits(0, 1) != 0
    }

    /// The target was predicted; neither bit: the machine does not tell.
    pub fn predicted(self) -> bool {
        self.bits(1, 1) != 0
    }

    /// In a transaction.
    pub fn in_transaction(self) -> bool {
        self.bits(2, 1) != 0
    }

    /// A transaction abort.
    pub fn abort(self) -> bool {
        self.bits(3, 1) != 0
    }

    /// Cycles since the branch before.
    pub fn cycles(self) -> u16 {
        self.bits(4, 16) as u16
    }

    /// `PERF_BR_*`.
    pub fn kind(self) -> u8 {
        self.bits(20, 4) as u8
    }

    /// `PERF_BR_SPEC_*`.
    pub fn speculation(self) -> u8 {
        self.bits(24, 2) as u8
    }

    /// `PERF_BR_NEW_*`, where [`BranchFlags::kind`] is 15.
    pub fn new_kind(self) -> u8 {
        self.bits(26, 4) as u8
    }

    /// `PERF_BR_PRIV_*`.
    pub fn privilege(self) -> u8 {
        self.bits(30, 3) as u8
    }
}

/// Joins what `part` makes of every field: its place from the bottom, its
/// place from the top, its bits; the reserved rest is one more field.
fn each_field(part: impl Fn(u32, u32, u64) -> u64) -> u64 {
    let reserved = (33, 31);
    let fields = BRANCH_FIELDS.iter().chain(std::iter::once(&reserved));
    fields.fold(0, |word, &(low, count)| {
        word | part(low, 64 - low - count, (1 << count) - 1)
    })
}
