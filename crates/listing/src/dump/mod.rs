//! What is in a recording, record by record.

mod attr;
mod features;
mod header;
mod records;
mod stats;
mod values;

pub use header::{HeaderDetail, write_json as write_header_json, write_text as write_header};
pub use records::write as write_records;
pub use stats::Stats;
