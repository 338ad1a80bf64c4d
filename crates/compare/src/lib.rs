//! Recordings before and after a change, compared row by row.
//!
//! You give a [`Run`] for each recording, several a side if there are; you get
//! a [`Comparison`]: rows with shares and costs of both sides, the change with
//! its interval, and a verdict that holds (the statistics are
//! [`prof_stats`]'s). It is written as text, JSON or CSV.
//!
//! ```text
//! Profile ──► Run ─┐
//! Profile ──► Run ─┼─► comparable? ─► rows matched by name ─► Comparison ─► text, JSON, CSV
//! Profile ──► Run ─┘                                    └──► perf's figures
//! ```
//!
//! Limits: no file is opened here. A run keeps the rows of its table, not the
//! profile.
#![forbid(unsafe_code)]

mod comparable;
mod comparison;
mod csv;
mod json;
mod matching;
mod perf;
mod run;
mod text;
mod unit;

pub use comparable::Incomparable;
pub use comparison::{By, Comparison, ComparisonOptions, Row, Side};
pub use csv::csv;
pub use json::json;
pub use perf::{Computation, PerfOptions, perf_text};
pub use run::Run;
pub use text::text;
