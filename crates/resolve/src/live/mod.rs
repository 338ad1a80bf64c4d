//! Unwinding while recording: samples with registers and a piece of stack
//! become samples with a call chain.
//!
//! What the piece does not hold is read from the running process and believed
//! only if it verifies, see `chains`. A frame that nothing proves is left out
//! and the chain says so.

mod chains;
mod files;
mod links;
mod memory;
mod outbox;
mod outer;
mod stage;
mod summary;

pub use files::LiveFiles;
pub use memory::TargetMemory;
pub use stage::LiveUnwinder;
pub use summary::LiveSummary;
