//! How far long work has come, for whoever shows it.

/// A phase of loading, and what its progress is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading records; counted in bytes of the file.
    Reading,
    /// Looking up names; counted in addresses.
    Naming,
}

/// Receives news of long work, from any thread, many times a second.
pub trait Progress: Sync {
    /// `done` of `total` units of this phase are finished; the total is
    /// unknown for a pipe.
    fn update(&self, phase: Phase, done: u64, total: Option<u64>);
}

/// Shows nothing.
impl Progress for () {
    fn update(&self, _phase: Phase, _done: u64, _total: Option<u64>) {}
}
