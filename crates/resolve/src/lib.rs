//! Records in the order of their times go in, a profile comes out: process
//! state is replayed, stacks are unwound where that was left to the reader,
//! addresses get names.
//!
//! You give records from wherever they are ([`profile_of`]), or a reader of a
//! recording, which is the same with the reading done ahead ([`load`]), a
//! [`prof_symbolize::Symbolizer`] and [`LoadOptions`]; you get a
//! [`prof_profile::Profile`] that any view can show.
//!
//! ```no_run
//! use prof_perfdata::Reader;
//! use prof_resolve::{LoadOptions, load};
//! use prof_symbolize::{Sources, Symbolizer};
//!
//! let reader = Reader::open_file(std::fs::File::open("perf.data")?)?;
//! let symbolizer = Symbolizer::new(Sources::default());
//! let (profile, reader) = load(reader, &symbolizer, &LoadOptions::default(), &())?;
//! println!("{} samples", profile.samples.len());
//! for damage in reader.damages() {
//!     eprintln!("{damage}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: paths are never opened to be written or executed, a file of another
//! build gives no names, and what is damaged or unknown is in the profile's
//! [`prof_profile::Trust`] instead of an error.
#![forbid(unsafe_code)]

mod about;
mod ahead;
mod branch_history;
mod chain_ends;
mod chain_key;
mod deferred;
mod details;
mod dso_files;
mod early_names;
mod found;
mod function_table;
mod futexes;
mod jit_names;
mod jit_owners;
mod known_chains;
mod load;
mod loader;
mod lookups;
mod naming;
mod options;
mod payloads;
mod place_names;
mod progress;
mod raw_locations;
mod reading;
mod recent_places;
mod recorded;
mod recorded_files;
mod sample_stacks;
mod stack_builder;
mod starts;
mod tables;
mod tally;
mod task_table;
mod task_tree;
mod threads;
mod trusting;
mod wait_kinds;
mod wakes;

pub use about::About;
pub use branch_history::BranchHistory;
pub use load::{load, profile_of, take_embedded};
pub use options::LoadOptions;
pub use place_names::{FileCode, NamedPlace, PlaceNames, ProcessAddress, SourceLine};
pub use progress::{Phase, Progress};
pub use recorded_files::RecordedFiles;
pub use task_tree::{TreeLine, task_tree};
pub use threads::prepare_threads;
