//! The fields of a sample and of the `sample_id` trailer, in file order: the
//! one place that says it. Layout, reading, writing, rewriting and listing
//! walk these tables.

use prof_abi::SampleType;

/// How the bytes of a field are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// u64.
    Word,
    /// u32, u32.
    Halves,
    /// Counter values, by `read_format`.
    Counters,
    /// u64 count, then so many u64.
    Words,
    /// u32 size, then so many bytes.
    Raw,
    /// u64 count, hardware index if asked for, the entries, a counter for
    /// each if asked for.
    Branches,
    /// u64 ABI; unless that is 0, a u64 for each bit of the event's mask.
    Registers,
    /// u64 size, then so many bytes and, unless there are none, u64: how many
    /// of them are valid.
    Stack,
    /// u64 size, then so many bytes.
    Bytes,
}

/// Declares the fields: the bits of `sample_type` that ask for one, its
/// shape, its name in listings, its name in messages.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident: $($bit:ident)|+, $shape:ident, $listed:literal, $text:literal;)*) => {
        /// A field of a sample.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum SamplePart {
            $($(#[$doc])* $part,)*
        }

        impl SamplePart {
            /// All of them, in file order. Source: perf_event_open(2),
            /// PERF_RECORD_SAMPLE.
            pub(crate) const ORDER: &'static [Self] = &[$(Self::$part,)*];

            /// The bits of `sample_type`, any of which asks for it.
            const fn bits(self) -> u64 {
                match self {
                    $(Self::$part => $(SampleType::$bit.0)|+,)*
                }
            }

            /// How it is laid out.
            pub(crate) const fn shape(self) -> Shape {
                match self {
                    $(Self::$part => Shape::$shape,)*
                }
            }

            /// Its name in listings.
            pub(crate) const fn listed(self) -> &'static str {
                match self {
                    $(Self::$part => $listed,)*
                }
            }

            /// Its name in messages.
            pub(crate) const fn text(self) -> &'static str {
                match self {
                    $(Self::$part => $text,)*
                }
            }
        }
    };
}

parts! {
    /// Event id, at a place that is the same for all events.
    Identifier: IDENTIFIER, Word, "identifier", "fixed part";
    /// Instruction pointer.
    Ip: IP, Word, "ip", "fixed part";
    /// Process id, thread id.
    Tid: TID, Halves, "tid", "fixed part";
    /// Time, ns.
    Time: TIME, Word, "time", "fixed part";
    /// Data address.
    Addr: ADDR, Word, "addr", "fixed part";
    /// Event id, of the group leader.
    Id: ID, Word, "id", "fixed part";
    /// Event id, of the event itself.
    StreamId: STREAM_ID, Word, "stream_id", "fixed part";
    /// CPU number, and a half without meaning.
    Cpu: CPU, Halves, "cpu", "fixed part";
    /// Events the sample stands for.
    Period: PERIOD, Word, "period", "fixed part";
    /// Counter values. From here on sizes differ from sample to sample.
    Read: READ, Counters, "read", "counter values";
    /// Call chain with context markers.
    Callchain: CALLCHAIN, Words, "callchain", "call chain";
    /// Opaque bytes.
    Raw: RAW, Raw, "raw", "raw data";
    /// Branch stack.
    Branches: BRANCH_STACK, Branches, "branches", "branch stack";
    /// User registers.
    RegsUser: REGS_USER, Registers, "regs_user", "user registers";
    /// User stack.
    StackUser: STACK_USER, Stack, "stack_user", "user stack";
    /// Weight, in either form.
    Weight: WEIGHT | WEIGHT_STRUCT, Word, "weight", "weight";
    /// Where the data came from.
    DataSrc: DATA_SRC, Word, "data_src", "data source";
    /// Why a transaction ended.
    Transaction: TRANSACTION, Word, "transaction", "transaction";
    /// Registers at the interrupt.
    RegsIntr: REGS_INTR, Registers, "regs_intr", "interrupt registers";
    /// Physical data address.
    PhysAddr: PHYS_ADDR, Word, "phys_addr", "physical address";
    /// Cgroup id.
    Cgroup: CGROUP, Word, "cgroup", "cgroup";
    /// Page size of the data address.
    DataPageSize: DATA_PAGE_SIZE, Word, "data_page_size", "page size";
    /// Page size of the instruction address.
    CodePageSize: CODE_PAGE_SIZE, Word, "code_page_size", "page size";
    /// A piece of the AUX area.
    Aux: AUX, Bytes, "aux", "AUX data";
}

impl SamplePart {
    /// How many fields of eight bytes stand first.
    pub(crate) const FIXED: usize = Self::Read as usize;

    /// How many follow, whose places differ from sample to sample.
    pub(crate) const VARIABLE: usize = Self::ORDER.len() - Self::FIXED;

    /// The fields of the `sample_id` trailer, in file order. Source:
    /// perf_event_open(2), `struct sample_id`.
    pub(crate) const TRAILER: &'static [Self] = &[
        Self::Tid,
        Self::Time,
        Self::Id,
        Self::StreamId,
        Self::Cpu,
        Self::Identifier,
    ];

    /// Whether samples of this type have it.
    pub(crate) const fn is_in(self, sample_type: SampleType) -> bool {
        sample_type.0 & self.bits() != 0
    }

    /// Those of `order` that samples of this type have.
    pub(crate) fn of(
        order: &'static [Self],
        sample_type: SampleType,
    ) -> impl Iterator<Item = Self> {
        let parts = order.iter().copied();
        parts.filter(move |part| part.is_in(sample_type))
    }

    /// Where it stands among those of variable size; `None` if its place is
    /// the same in each sample of an event.
    pub(crate) const fn variable_index(self) -> Option<usize> {
        (self as usize).checked_sub(Self::FIXED)
    }
}

#[cfg(test)]
mod tests {
    use super::SamplePart;
    use prof_abi::SampleType;

    #[test]
    fn every_bit_of_sample_type_asks_for_one_part() {
        let bits = SamplePart::ORDER.iter().map(|part| part.bits());
        let all = bits.fold(0, |all, bits| {
            assert_eq!(all & bits, 0, "a bit asks for two parts");
            all | bits
        });
        assert_eq!(all, (1 << 25) - 1);
    }

    #[test]
    fn a_part_is_there_if_any_of_its_bits_is() {
        let asked = SampleType::WEIGHT_STRUCT | SampleType::TIME | SampleType::TID;
        let parts: Vec<_> = SamplePart::of(SamplePart::ORDER, asked).collect();
        let expected = [SamplePart::Tid, SamplePart::Time, SamplePart::Weight];
        assert_eq!(parts, expected);
    }
}
