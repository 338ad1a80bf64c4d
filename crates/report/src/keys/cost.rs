//! Keys of what samples cost: weights, latencies, pages.

use super::recorded::{Recorded, number, one, page_size};
use super::{Measure, Order, SortKey, Spec, Text, USUAL};
use crate::model::By;
use prof_abi::Transaction;
use std::fmt::Write;

/// Weight of a sample.
pub(crate) const LOCAL_WEIGHT: SortKey = SortKey(&Spec {
    name: "local_weight",
    heading: "Local Weight",
    width: 12,
    text: Text::OfRecord(|of, out| number(of.detail.weight, out)),
    ..BY_WEIGHT
});

/// The same, times the row's samples.
pub(super) const WEIGHT: SortKey = SortKey(&Spec {
    name: "weight",
    heading: "Weight",
    width: 12,
    text: Text::OfRecord(|of, out| number(of.times(of.detail.weight), out)),
    ..BY_WEIGHT
});

const BY_WEIGHT: Spec = Spec {
    pads: true,
    by: By::Detail(|_, it| one(it.weight)),
    order: Order::LargestFirst,
    ..USUAL
};

/// How a transaction ended.
pub(super) const TRANSACTION: SortKey = SortKey(&Spec {
    name: "transaction",
    heading: "Transaction                ",
    width: 27,
    pads: true,
    by: By::Detail(|_, it| one(it.transaction)),
    order: Order::LargestFirst,
    text: Text::OfRecord(|of, out| out.push_str(&transaction(of.detail.transaction))),
    measure: Measure::OfRecord(|of| (of.detail.transaction != 0).then_some(LONGEST_TRANSACTION)),
    ..USUAL
});

/// Characters of the flags of a transaction that go together, and of a code.
const LONGEST_TRANSACTION: usize = "EL ASYNC RETRY CON CAP-READ :XX ".len();

/// As perf's column has it: told, too, where the abort was neither the
/// instruction's own doing nor another's.
fn transaction(value: u64) -> String {
    const SYNC_OR_ASYNC: u64 = 0xc;
    let flags = Transaction(value & 0xffff_ffff).to_string();
    let neither = if value != 0 && value & SYNC_OR_ASYNC == 0 {
        "NEITHER "
    } else {
        ""
    };
    let code = Transaction(value & !0xffff_ffff).to_string();
    format!("{flags}{neither}{code}")
}

/// Size of the page that the code is in.
pub(super) const CODE_PAGE_SIZE: SortKey = SortKey(&Spec {
    name: "code_page_size",
    heading: "Code Page Size",
    width: 14,
    pads: true,
    by: By::Detail(|_, it| one(it.code_page_size)),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| page_size(of.detail.code_page_size, out)),
    ..USUAL
});

/// Cycles from an instruction's issue to its end.
pub(crate) const LOCAL_INS_LAT: SortKey = SortKey(&Spec {
    name: "local_ins_lat",
    heading: "Local INSTR Latency",
    width: 19,
    text: Text::OfRecord(|of, out| number(of.detail.instruction_latency.into(), out)),
    ..BY_INSTRUCTION
});

/// The same, times the row's samples.
pub(super) const INS_LAT: SortKey = SortKey(&Spec {
    name: "ins_lat",
    heading: "INSTR Latency",
    width: 13,
    text: Text::OfRecord(|of, out| number(of.times(of.detail.instruction_latency.into()), out)),
    ..BY_INSTRUCTION
});

const BY_INSTRUCTION: Spec = Spec {
    pads: true,
    by: By::Detail(|_, it| one(it.instruction_latency.into())),
    order: Order::LargestFirst,
    ..USUAL
};

/// Cycles in a stage of the pipeline.
pub(super) const LOCAL_STAGE_CYCLES: SortKey = SortKey(&Spec {
    name: "local_p_stage_cyc",
    heading: "Local Pipeline Stage Cycle",
    width: 26,
    text: Text::OfRecord(stage),
    ..BY_STAGE
});

/// The same, times the row's samples.
pub(super) const STAGE_CYCLES: SortKey = SortKey(&Spec {
    name: "p_stage_cyc",
    heading: "Pipeline Stage Cycle",
    width: 20,
    text: Text::OfRecord(stages),
    ..BY_STAGE
});

/// Cycles from an instruction's end to its retirement.
pub(super) const LOCAL_RETIRE_LAT: SortKey = SortKey(&Spec {
    name: "local_retire_lat",
    heading: "Local Retire Latency",
    width: 20,
    text: Text::OfRecord(stage),
    ..BY_STAGE
});

/// The same, times the row's samples.
pub(super) const RETIRE_LAT: SortKey = SortKey(&Spec {
    name: "retire_lat",
    heading: "Retire Latency",
    width: 14,
    text: Text::OfRecord(stages),
    ..BY_STAGE
});

const BY_STAGE: Spec = Spec {
    pads: true,
    by: By::Detail(|_, it| one(it.stage_latency.into())),
    order: Order::LargestFirst,
    ..USUAL
};

fn stage(of: &Recorded<'_>, out: &mut String) {
    number(of.detail.stage_latency.into(), out);
}

fn stages(of: &Recorded<'_>, out: &mut String) {
    number(of.times(of.detail.stage_latency.into()), out);
}

/// Vector instructions, which no record of today tells.
pub(super) const SIMD: SortKey = SortKey(&Spec {
    name: "simd",
    heading: "Simd   ",
    width: 7,
    by: By::Detail(|_, _| one(0)),
    order: Order::Signed,
    text: Text::OfRecord(|_, out| out.push_str("[.] n/a")),
    ..USUAL
});

/// How many threads ran.
pub const PARALLELISM: SortKey = SortKey(&Spec {
    name: "parallelism",
    heading: "Parallelism",
    width: 11,
    pads: true,
    by: By::Detail(|_, it| one(it.parallelism.into())),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| {
        let _ = write!(out, "{:>11}", of.detail.parallelism);
    }),
    ..USUAL
});

#[cfg(test)]
mod tests {
    use super::transaction;

    #[test]
    fn transactions_are_written_as_perf_does() {
        assert_eq!(transaction(0x6), "TX SYNC ");
        assert_eq!(transaction(0x2a_0000_0003), "EL TX NEITHER :2a");
        assert_eq!(transaction(0), "");
    }
}
