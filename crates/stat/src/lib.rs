//! Counting events: what to count goes in, counts with perf stat's layout come
//! out, and files that `perf stat report` reads.
//!
//! You give an [`Options`] and a place to write to; [`count`] launches, counts,
//! waits and writes. [`report`] does the same from a file that [`count`] or
//! `perf stat record` wrote. Counts are grouped by CPU, core, socket and so on
//! by [`Mode`], and what follows from them stands beside them.
//!
//! ```
//! let events = prof_stat::default_events(true, 0);
//! assert!(events.iter().any(|event| event.name == "page-faults"));
//! ```
//!
//! Limits: opening events is `prof_record::counting`; this crate knows no
//! sample.
#![forbid(unsafe_code)]

mod aggregate;
mod defaults;
mod metric;
mod metrics;
mod options;
mod places;
mod report;
mod run;
mod selection;
mod session;
mod shown;
mod stored;
mod tool_times;
mod units;
mod waiting;

pub use aggregate::Mode;
pub use defaults::default_events;
pub use metrics::{Counted, Grouping, Metrics, MetricsError, Needed};
pub use options::{Delay, Form, Options, Showing};
pub use places::Topology;
pub use report::{ReportError, ReportOptions, Reported, report};
pub use run::{Finished, launch_failure};
pub use selection::{Selection, SelectionError};
pub use session::count;
