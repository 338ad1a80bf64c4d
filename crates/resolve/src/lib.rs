//! Records in time order → process state → stacks → names → profile.
//!
//! You give a reader of records, not a path, and get a
//! [`prof_profile::Profile`]; or replay the records yourself against
//! [`prof_live::Processes`] to know what was mapped where at each moment.
#![forbid(unsafe_code)]

mod ahead;
mod chain_ends;
mod chain_key;
mod deferred;
mod details;
mod early_names;
mod found;
mod function_table;
mod jit_names;
mod jit_owners;
mod load;
mod loader;
mod module_files;
mod naming;
mod place_names;
mod progress;
mod reading;
mod recorded;
mod recorded_files;
mod stack_builder;
mod tables;
mod task_tree;
mod threads;
mod trusting;

pub use load::{LoadOptions, load};
pub use place_names::{FileCode, NamedPlace, PlaceNames, SourceLine};
pub use progress::{Phase, Progress};
pub use recorded_files::RecordedFiles;
pub use task_tree::{TreeLine, task_tree};
pub use threads::prepare_threads;
