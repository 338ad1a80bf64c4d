//! The terminal UI: a session in which a profile is looked at.
//!
//! You give a stream of [`Update`]s, a [`CodeSource`](prof_report::code::CodeSource) and [`Options`]; the
//! session runs until the user leaves.
//!
//! ```text
//! keys, clicks ──► App: tabs over what they share ──► frame::draw ──► terminal
//!                   │      ▲
//!              asks │      │ answers, with a generation number
//!                   ▼      │
//!                  worker (scene, trees, tables, code)
//! ```
//!
//! The state knows no terminal and no thread, and drawing is a function from
//! state to buffer: both are tested without a terminal. Whatever takes time
//! is the worker's; while nothing happens, everything sleeps.

mod action;
mod ahead;
mod app;
mod background;
mod binding_table;
mod bindings;
mod data;
mod error;
mod filters;
mod flame_layout;
mod frame;
mod keys;
mod layout;
mod memory;
mod message;
mod outline;
mod overlay;
mod paint;
mod prompt;
mod scroll;
mod search;
mod session;
mod shared;
mod tab;
mod terminal;
mod text;
mod theme;
mod views;
mod worker;
mod writing;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use binding_table::bindings;
pub use bindings::{Binding, KeyScope};
pub use error::Error;
pub use keys::manual;
pub use session::run;
pub use terminal::Mouse;
pub use theme::{Background, Charset, Colours, Look};

use prof_profile::Profile;
use prof_report::model::RunsOfSides;
use std::sync::Arc;

/// What whoever loads the profile says while loading.
#[derive(Debug, Clone)]
pub enum Update {
    /// What is being done: `reading 40%`, `looking up names 3 of 90 files`.
    Progress(String),
    /// What is there so far; a later one replaces it.
    Profile(Arc<Profile>),
    /// Loading failed: the session ends and returns the message.
    Failed(String),
}

/// How a session looks and behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is looked at, shown at the top: a file's name.
    pub title: String,
    /// What the terminal can show.
    pub look: Look,
    /// Whether the terminal is asked what background it has (OSC 11).
    pub asks_background: bool,
    /// Who gets the mouse at first.
    pub mouse: Mouse,
    /// Of how many recordings before and after the profile is, if it is of such.
    pub sides: Option<RunsOfSides>,
    /// The editor's command line, as in `$VISUAL` or `$EDITOR`.
    pub editor: Option<String>,
    /// A function whose code is shown at first; an empty name for the
    /// hottest.
    pub function: Option<String>,
    /// Filters with which the session begins, as they would be typed.
    pub filters: Vec<String>,
    /// What the user is told when it begins.
    pub notice: Option<String>,
    /// The user's home directory, for `~` in names of files.
    pub home: Option<String>,
}
