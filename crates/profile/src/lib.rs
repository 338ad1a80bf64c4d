//! Frames, stacks and samples go in, a profile comes out: what was sampled, each
//! part kept once.
//!
//! You give interned parts (names, dsos, tasks, stacks of locations) and one
//! row per sample; you get an immutable model that every view shares.
//!
//! ```
//! use prof_profile::{LocationId, Profile, StackId};
//!
//! let mut profile = Profile::default();
//! let name = profile.names.intern("main");
//! assert_eq!(profile.names.intern("main"), name);
//! let main = profile.stacks.push(StackId::EMPTY, LocationId(0));
//! let work = profile.stacks.push(main, LocationId(1));
//! // From the innermost frame outwards.
//! let locations: Vec<_> = profile.stacks.locations(work).collect();
//! assert_eq!(locations, [LocationId(1), LocationId(0)]);
//! ```
//!
//! Limits: at most `u32::MAX - 1` of each interned kind. No I/O, no clock, no
//! threads of its own.
#![forbid(unsafe_code)]

mod address;
mod branch_frame;
mod clocks;
mod detail;
mod dso;
mod location;
mod names;
mod payload;
mod plural;
mod profile;
mod redaction;
mod samples;
mod stacks;
mod tasks;
mod trust;
mod visible;
mod wait_frames;
mod waits;

pub use address::{Avma, Bias, FileOffset, Svma};
pub use branch_frame::{BranchFrame, BranchFrameId, BranchSource, BranchTarget, Leaves};
pub use clocks::{Clock, NoClock, WAKE_EVENTS};
pub use detail::{Counting, Detail, TakenBranch};
pub use dso::{Dso, DsoId, DsoKind};
pub use location::{
    Frame, FrameRange, Function, FunctionId, JitFileFault, Location, LocationId, UNKNOWN_PYTHON,
    UnnamedReason,
};
pub use names::{NameId, Names};
pub use payload::{FieldValue, Payload, PayloadId, Payloads, TraceField};
pub use plural::{plural, several, were};
pub use profile::{Event, EventGroup, Origin, Profile, ThreadCount};
pub use redaction::{OF_V8, Redaction};
pub use samples::{EventId, Sample, Samples, WaitId};
pub use stacks::{StackId, StackTree};
pub use tasks::{Lifetime, Task, TaskId, Thread};
pub use trust::{ChainEnd, ChainSource, Damage, DroppedCount, Trust};
pub use visible::{bytes_of_visible, visible};
pub use waits::{Counted, Futex, FutexId, StackSource, Variable, Wait, WaitKind, WaitState, Wake};
