//! What profiling is possible here for this user, and what would enable the
//! rest: the environment as /proc and /sys tell it, and what follows.

mod attempts;
mod environment;
mod findings;
mod refused;

pub(crate) use attempts::sampling_of_own_works;
pub use attempts::{Attempts, Tried};
pub use environment::{Capability, Environment};
pub(crate) use findings::NO_ATTACH;
pub use findings::{Finding, State, findings};
