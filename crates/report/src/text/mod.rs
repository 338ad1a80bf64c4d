//! The report as text, laid out like `perf report --stdio`.
//!
//! Scripts that read perf's text read ours: the same comment lines, columns,
//! percentages and call graphs. What is ours alone are the lines of
//! [`crate::trust`], which are comments too.

mod allowance;
mod blocks;
mod branch_notes;
mod branches;
mod chain;
mod column;
mod comment;
mod compare;
mod content;
mod fitted;
mod graph;
mod group;
mod hierarchy;
mod layout;
mod options;
mod padding;
mod percent;
mod report;
mod table;
mod threads;

pub use blocks::blocks;
pub use fitted::{CUT, Fitted};
pub use group::{tables as event_tables, title as events_title};
pub use options::{
    CallGraph, CallGraphError, ChainKey, ChainOrder, ChainStyle, ChainValue, Grouping, TextOptions,
};
pub use report::report;
pub use table::Table;
pub(crate) use table::{is_silent, scene_of};
