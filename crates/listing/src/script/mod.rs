//! Lines of `perf script`: samples with what only their records have, and
//! records other than samples.

mod choice;
mod code;
mod fields;
mod late_chains;
mod order;
mod printing;
mod records;
mod rows;

pub use choice::{Asked, Choice};
pub use fields::FieldError;
pub use printing::{ByEvent, CHUNK, Form, Head, Printing, Wanted};
pub use records::Shown;
