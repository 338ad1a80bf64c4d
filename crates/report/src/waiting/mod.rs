//! What threads waited for, beyond sums by stack: the locks they waited at,
//! who ended their waits, and what of it set the elapsed time.

mod lives;
pub mod locks;
mod places;
pub mod text;

pub use lives::{Lives, Off};
pub use locks::{Lock, LockKind, Locks, Releaser, Waiters, locks};
