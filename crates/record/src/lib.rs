//! Recording: what to record goes in, a perf.data recording comes out.
//!
//! You give [`options::Options`]: a command to launch, tasks or the whole
//! machine, events, how to get call stacks. You get a file or a stream
//! ([`record`]), or the same records handed to a [`Consumer`] of your own
//! ([`record_into`]), and a [`Finished`] that says what there is and what was
//! lost. Stacks are unwound on the way if that is asked for.
//!
//! ```no_run
//! use prof_record::options::{Options, Stacks, Target};
//! use prof_record::output::Destination;
//!
//! let command = vec!["ls".into(), "-lR".into(), "/usr".into()];
//! let file = Destination::File("perf.data".into());
//! let mut options = Options::new(Target::Command(command), file);
//! options.stacks = Stacks::auto(options.sampling); // prof record -g
//! let finished = prof_record::record(&options, &mut |notice| eprintln!("{notice}"))?;
//! println!("{}", finished.summary.line());
//! # Ok::<(), prof_record::RecordError>(())
//! ```
//!
//! Also here, since they open the same events: counting without samples
//! ([`counting`]), what this machine has ([`catalog`]) and what a user may do
//! on it ([`doctor`]).
//!
//! Limits: one recording at a time in a process, since it takes the process's
//! signals; no symbol is ever looked up.
#![forbid(unsafe_code)]

mod affinity;
mod allowance;
mod attach;
pub mod branches;
pub mod catalog;
pub mod cgroup;
mod choosing;
pub mod commands;
mod consumer;
mod control;
pub mod counting;
pub mod cpu_list;
mod descendants;
pub mod doctor;
mod drain;
mod error;
pub mod events;
mod filter;
mod flight;
mod follower;
mod foreign;
mod framing;
pub mod hints;
mod kernel;
mod late_tasks;
mod left_over;
mod no_thread;
mod occasions;
mod open;
pub mod options;
pub mod output;
mod output_error;
mod own_threads;
mod peeking;
mod placing;
mod plan;
mod planned;
mod program_file;
mod queue;
mod reading;
mod recording;
pub mod registers;
mod rights;
mod ring_terms;
mod rings;
mod rounds;
mod runtime_code;
mod sampling_attr;
mod sampling_cost;
mod series;
mod session;
mod setup;
mod shallow;
mod snapshots;
mod stamp;
mod stream;
mod summary;
mod switching;
pub mod synthesize;
mod tally;
mod task_state;
mod tasks;
mod traces;
mod tracing_data;
mod trapped;
mod tree;
mod trim;
mod unwinding;
mod waits;
mod why_empty;
mod witness;
mod writing;

pub use consumer::{Consume, Consumer};
pub use control::{CommandUsed, EndedBy};
pub use error::RecordError;
pub use foreign::{KeptFiles, OpenForeign};
pub use no_thread::NoThread;
pub use options::{DEFAULT_DUMP, WaitOptions};
pub use output_error::OutputError;
pub use rings::{RingLimit, RingMemory};
pub use session::{Finished, record, record_into};
pub use summary::Summary;
pub use tally::Tally;
pub use trapped::trapped;
pub use waits::{WAKING, WaitAccount};
