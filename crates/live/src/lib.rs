//! Records in time order → process state → user stacks, also while the
//! processes run.
//!
//! You give the records of all rings, drain by drain, and get them back in
//! order of time, samples with registers and a piece of stack as samples with
//! a call chain ([`LiveUnwinder`]); or replay the records yourself against
//! [`Processes`], to know what was mapped where at each moment, and unwind
//! single samples in it ([`StackUnwinder`]).
//!
//! What the piece does not hold comes from a snapshot taken before the thread
//! went on, if there is one, or is read from the running process and believed
//! only if it verifies, see `chains`. A frame that nothing proves is left out
//! and the chain says so.
//!
//! ```
//! use prof_abi::CpuMode;
//! use prof_live::{Access, MapEvent, Processes};
//! use prof_profile::{Avma, FileOffset};
//!
//! let mut processes = Processes::default();
//! processes.map(&MapEvent {
//!     pid: 7,
//!     mode: CpuMode::User,
//!     start: Avma(0x40_0000),
//!     length: 0x1000,
//!     offset: FileOffset(0x2000),
//!     inode: None,
//!     build_id: None,
//!     access: Access::of(5, 2),
//!     path: b"/bin/app",
//! });
//! let mapping = processes.find(7, CpuMode::User, Avma(0x40_0010)).expect("mapped");
//! assert_eq!(mapping.file_offset(Avma(0x40_0010)), FileOffset(0x2010));
//! ```
#![forbid(unsafe_code)]

mod address_space;
mod alive;
mod chains;
mod drained;
mod files;
mod frames;
mod jitdump_name;
mod known_frame;
mod left_out;
mod links;
mod mapped_dsos;
mod memory;
mod nearby;
mod outbox;
mod outer;
mod popped;
mod processes;
pub mod provisional;
mod replay;
mod slot_history;
mod snapshots;
mod spares;
mod stack_starts;
mod stacks;
mod summary;
mod thread_sample;
mod threads;
mod told;
mod unwinder;
mod user_chain;
mod wanted;

pub use address_space::{Access, AddressSpace, Mapping};
pub use alive::user_of;
pub use files::LiveFiles;
pub use jitdump_name::jitdump_pid;
pub use left_out::{FEWEST_FRAMES, MOST_FRAMES, is_left_out};
pub use mapped_dsos::{
    Inode, MappedDso, MappedDsoId, MappedDsos, is_anonymous, runtime_function, without_stand_ins,
};
pub use memory::{MemorySnapshot, TargetMemory, WantedMemory};
pub use processes::{ForkEvent, MapEvent, Processes};
pub use prof_runtimes::LinkedList;
pub use spares::Spares;
pub use stack_starts::StackStarts;
pub use stacks::{Beyond, OpenFile, StackUnwinder, UserState, is_build, open_elf, own_vdso};
pub use summary::LiveSummary;
pub use unwinder::{LiveUnwinder, Switches};
