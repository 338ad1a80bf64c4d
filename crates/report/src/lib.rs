//! Views of a profile: tables, folded stacks, SVG, text.
//!
//! You give a [`prof_profile::Profile`] and a [`model::Selection`]; you get
//! tables, call trees, folded stacks, pictures or text, equal for
//! equal input whatever the number of threads.
//!
//! Limits: no input file is opened here and no symbol looked up. Names come
//! from strangers; every output escapes them for the place they go to (see
//! [`escape`]).
#![forbid(unsafe_code)]

pub mod annotate;
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
