//! Counts of events, with perf stat's layout: what was counted over one run or
//! several, what follows from it, as text and for programs.

pub(crate) mod derived;
pub(crate) mod figures;
pub(crate) mod label;
pub(crate) mod machine_readable;
pub(crate) mod metrics_alone;
pub(crate) mod rows;
pub(crate) mod text;
