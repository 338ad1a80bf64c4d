//! What all views share: which samples count, and the tables and trees
//! derived from them.
//!
//! ```text
//! Profile ──Selection──► Scene ─┬─► rows(sort keys)        tables
//!                               ├─► tree()                 top-down call tree
//!                               ├─► Growth (lazy)          bottom-up, callers, callees
//!                               └─► Heat                   samples over time
//! ```
//!
//! A [`Scene`] is made once per selection and never changes.

mod apart;
mod certainty;
mod changes;
mod cut;
mod first_places;
mod grow;
mod heat;
mod judge;
mod parents;
mod parts;
mod paths;
mod rows;
mod scene;
mod select;
mod sides;
mod site;
mod tally;
mod time;
mod trace;
mod transform;
mod tree;

pub use apart::{Apart, FrameLook, InlineRows};
pub(crate) use apart::{By, Identity, Samples, UNKNOWN};
pub use certainty::{Certainty, Sure};
pub(crate) use certainty::{shares_of_groups, shares_of_paths};
pub use changes::{Changed, ChangedFunction, Changes, Judging};
pub(crate) use changes::{changed, figures};
pub(crate) use first_places::first_places;
pub use grow::{Direction, GrowId, Growth, Seed};
pub use heat::{Heat, HeatRow, HeatRows};
pub(crate) use judge::EventsInScope;
pub use judge::{any_sample_passes, shown_rows};
pub use parts::{Part, Parts};
pub use paths::NodeId;
pub use rows::{Row, RowKey, Rows, RowsOptions};
pub use scene::Scene;
pub use select::{
    Cut, Filter, Granularity, ModeFilter, ParentPattern, Recursion, Scope, Selection, SelfOf,
    StackEnd, Transform,
};
pub use sides::{EventsOfSides, RunsOfSides};
pub use site::{Site, SiteId, SiteKind, Sites};
pub(crate) use tally::rows_in_scope;
pub use tally::{GroupId, Weight, percent_of};
pub use time::{TimeRange, TimeSpecError, parse_time_ranges};
pub use tree::CallTree;

#[cfg(test)]
pub(crate) mod tests;
