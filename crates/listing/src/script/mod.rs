//! Lines of `perf script`: samples with what only their records have, and
//! records other than samples.

mod choice;
mod code;
mod fields;
mod head;
mod late_chains;
mod order;
mod printing;
mod records;
mod rows;
mod sampled;

pub use choice::{Asked, Choice};
pub use fields::FieldError;
pub use head::Head;
pub use printing::{ByEvent, CHUNK, Form, Printing, Wanted};
pub use records::Shown;
