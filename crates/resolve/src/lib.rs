//! Records in time order → process state → stacks → names → profile.
//!
//! You give a reader of records, not a path, and get a
//! [`prof_profile::Profile`]; or replay the records yourself against
//! [`Processes`] to know what was mapped where at each moment.
#![forbid(unsafe_code)]

mod address_space;
mod ahead;
mod chain_ends;
mod chain_key;
mod early_names;
mod found;
mod function_table;
mod jit_names;
mod jit_owners;
mod live;
mod load;
mod module_files;
mod modules;
mod naming;
mod place_names;
mod processes;
mod progress;
mod recorded;
mod replay;
mod stack_builder;
mod stacks;
mod tables;
mod task_tree;
mod threads;
mod trusting;

pub use address_space::{Access, AddressSpace, Mapping};
pub use live::{LiveFiles, LiveSummary, LiveUnwinder, MemorySnapshot, Switches, TargetMemory};
pub use load::{LoadOptions, load};
pub use modules::{Inode, Module, ModuleId, Modules};
pub use place_names::{FileCode, NamedPlace, PlaceNames, SourceLine};
pub use processes::{ForkEvent, MapEvent, Processes};
pub use progress::{Phase, Progress};
pub use stacks::{Beyond, OpenFile, RecordedFiles, StackUnwinder, UserState};
pub use task_tree::{TreeLine, task_tree};
pub use threads::prepare_threads;
