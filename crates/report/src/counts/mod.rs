//! Counts of events, with perf stat's layout: what was counted over one run or
//! several, what follows from it, as text and for programs.

mod figures;
mod machine_readable;
mod text;

pub use figures::{
    Amount, Count, CountRow, CountedEvent, EventFigures, Metric, MetricStyle, Series, Times, rows,
};
pub use machine_readable::{json_lines, separated};
pub use text::{INTERVAL_HEADING, footer, heading, lines};
