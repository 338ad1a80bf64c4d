//! A recording line by line: every record with its fields, the header, and
//! every sample as perf script prints it.
//!
//! You give a [`prof_perfdata::Reader`], or its records in the order of their
//! times; you get text or JSON. What a profile keeps of a sample is printed
//! by [`prof_report::script`]; here stands what only its record has, and what
//! only the files have that ran.
//!
//! ```no_run
//! let file = std::fs::File::open("perf.data")?;
//! let mut reader = prof_perfdata::Reader::open_file(file)?;
//! let as_json = false;
//! prof_listing::dump::write_records(&mut reader, as_json, &mut std::io::stdout())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: records are read one at a time, so a recording of any size needs
//! the same memory.
#![forbid(unsafe_code)]

pub mod build_ids;
pub mod code_files;
pub mod dump;
pub mod events;
pub mod script;

mod rust_source;
mod switching;

pub use switching::{NoSuchEvent, Switch, SwitchEvents};

use std::io;

/// Why a recording could not be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It could not be read.
    #[error("{0}")]
    Recording(#[from] prof_perfdata::Error),
    /// Writing the lines failed.
    #[error("{0}")]
    Output(#[from] io::Error),
}
