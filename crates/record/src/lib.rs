//! Choosing events, opening them, draining rings, writing perf.data.
#![forbid(unsafe_code)]

mod allowance;
mod attach;
pub mod catalog;
mod control;
pub mod counting;
pub mod doctor;
mod drain;
mod error;
pub mod events;
mod foreign;
mod framing;
pub mod hints;
mod open;
pub mod options;
pub mod output;
mod plan;
pub mod registers;
mod rings;
mod rounds;
mod session;
mod setup;
pub mod snapshots;
pub mod stage;
mod stream;
mod summary;
pub mod synthesize;
mod tally;
mod tasks;
mod tracing_data;
mod trim;
pub mod unwinding;
mod why_empty;
mod writing;

pub use control::EndedBy;
pub use error::{NoThread, RecordError};
pub use foreign::KeptFiles;
pub use plan::DEFAULT_DUMP;
pub use rings::RingMemory;
pub use session::{Finished, record};
pub use summary::Summary;
pub use tally::Tally;
