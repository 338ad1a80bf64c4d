//! Recordings before and after a change, compared row by row.
//!
//! You give a [`Run`] for each recording, several a side if there are; you get
//! a [`Comparison`]: rows with shares and costs of both sides, the change with
//! its interval, and a verdict that holds (the statistics are
//! [`prof_statistics`]'s). It is written as text, JSON or CSV.
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

mod both;
mod budget;
mod checked;
mod comparable;
mod comparison;
mod csv;
mod json;
mod matching;
mod measure;
mod moved;
mod moved_cost;
mod perf;
mod run;
mod text;
mod trial;
mod unit;

pub use both::{Named, both};
pub use budget::{Budget, Checked, Judged, Kept, More, judge};
pub use checked::{check_json, check_markdown, check_text, overall};
pub use comparable::Incomparable;
pub use comparison::{By, ComparedRow, Comparison, ComparisonOptions, OneSide, Total};
pub use csv::csv;
pub use json::{json, trial_json};
pub use matching::Side;
pub use matching::{Counterparts, Functions, Known};
pub use measure::{Measure, MeasureRow, MeasureUnit};
pub use moved::{Move, Moved};
pub use perf::{Computation, PerfOptions, perf_text};
pub use run::Run;
pub use text::text;
pub use trial::{Trial, trial_text};
