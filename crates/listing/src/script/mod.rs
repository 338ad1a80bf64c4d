//! Lines of `perf script`: samples with what only their records have, and
//! records other than samples.

mod code;
mod records;
mod rows;

pub use records::{Layout, Shown, write as write_record, write_deferred};
pub use rows::Rows;
