//! A profile as files of other tools.
//!
//! You give a profile, an [`ExportFormat`] and what of it to take; the file is written
//! as the profile is gone through, with no second copy of it in memory. Totals,
//! weights of functions and numbers of samples in the file are those of the
//! profile; what a format has no place for is said in words.
//!
//! ```
//! use prof_export::{Choice, ExportError, ExportFormat, export};
//!
//! let profile = prof_profile::Profile::default();
//! let mut file = Vec::new();
//! let written = export(&profile, ExportFormat::Pprof, &Choice::default(), &mut file);
//! assert!(matches!(written, Err(ExportError::Nothing { hidden: 0 })));
//! ```
//!
//! Limits: weights over `i64::MAX` are that much. Names are written as they
//! were recorded, escaped as the format asks for.
#![forbid(unsafe_code)]

mod bolt;
mod callgrind;
mod choice;
mod columns;
mod error;
mod firefox;
mod folded;
mod format;
mod gzip;
mod otlp;
mod parquet;
mod pprof;
mod protobuf;
mod speedscope;
mod thinned;
mod used;

pub use choice::Choice;
pub use error::ExportError;
pub use format::{ExportFormat, MadeOf, export};
