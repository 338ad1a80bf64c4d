//! Every sample as text, in `perf script`'s format, which many tools read.
//!
//! You give a profile and, sample by sample, what the profile does not keep
//! ([`Details`]); you get the bytes that perf 6.1 prints.

mod blocks;
mod clock;
mod details;
mod fields;
mod sample;

pub use blocks::{
    BlockOptions, CodeAt, LONGEST_INSTRUCTION, TakenBranch, WayHere, instruction_length,
    push_blocks,
};
pub use clock::{TimeOrigin, Times};
pub use details::{Branch, Details, Leaf, NamedAddress};
pub use fields::{EventKind, Field, FieldError, Fields, Selection};
pub use sample::{Options, ScriptWriter, push_frame};
