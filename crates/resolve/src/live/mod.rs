//! Unwinding while recording: samples with registers and a piece of stack
//! become samples with a call chain.
//!
//! What the piece does not hold comes from a snapshot taken before the thread
//! went on, if there is one, or is read from the running process and believed
//! only if it verifies, see `chains`. A frame that nothing proves is left out
//! and the chain says so.

mod alive;
mod chains;
mod files;
mod links;
mod memory;
mod outbox;
mod outer;
mod stage;
mod summary;
mod wanted;

pub use files::LiveFiles;
pub use memory::{MemorySnapshot, TargetMemory};
pub use stage::{LiveUnwinder, Switches};
pub use summary::LiveSummary;
