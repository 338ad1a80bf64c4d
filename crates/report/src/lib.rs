//! A profile goes in, views of it come out: tables, call trees, text, JSON,
//! CSV, folded stacks, SVG and a page.
//!
//! You give a [`prof_profile::Profile`] and a [`model::Selection`]; you get
//! tables, call trees, folded stacks, pictures or text, equal for
//! equal input whatever the number of threads.
//!
//! ```
//! use prof_report::picture::{PictureOptions, folded};
//!
//! let mut sketch = prof_sketch::Sketch::new();
//! let app = sketch.task(7, 7, "app");
//! sketch.sample(app, "main;work", 0, 2);
//! sketch.sample(app, "main;work", 1, 3);
//! let mut lines = Vec::new();
//! folded(&sketch.profile, &PictureOptions::default(), &mut lines).expect("there are samples");
//! assert_eq!(lines, b"app;main;work 5\n");
//! ```
//!
//! Limits: no input file is opened here and no symbol looked up. Names come
//! from strangers; every output escapes them for the place they go to (see
//! [`escape`]).
#![forbid(unsafe_code)]

pub mod annotate;
pub mod asked;
mod branch_sums;
pub mod code;
pub mod csv;
pub mod escape;
mod format;
pub mod harmless_json;
pub mod json;
pub mod keys;
pub mod measured;
pub mod missing;
pub mod model;
pub mod picture;
pub mod script;
pub mod short;
pub mod text;
pub mod trust;
pub mod waiting;

pub use format::Format;
