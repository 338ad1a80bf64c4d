//! What threads waited for, beyond sums by stack: the locks they waited at,
//! who ended their waits, and what of it set the elapsed time.

pub mod chains;
mod critical;
pub mod idle;
mod kept;
mod lane_map;
pub mod lanes;
mod lives;
pub mod locks;
mod off;
pub mod path_text;
mod places;
mod runs;
#[cfg(test)]
mod tests;
pub mod text;
mod what_if;

pub use chains::chains;
pub use kept::Kept;
pub use lane_map::{Cell, LaneMap};
pub use lanes::{Doing, Lane, Lanes, Span};
pub use lives::Lives;
pub use locks::{Holder, Lock, LockKind, Locks, Releaser, Waiters, locks};
pub use off::Off;
pub use path_text::{Change, Critical, critical};
pub use places::{line, shown};
