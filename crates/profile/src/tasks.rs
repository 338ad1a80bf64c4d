//! Threads and processes.

use crate::NameId;

/// A handle to a [`Task`] of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u32);

/// A thread under one name. A thread that changes its name (exec, prctl) is
/// two tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// Thread-group id; -1 if unknown.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Its name at the time.
    pub comm: NameId,
}

/// A thread, as of its end or the end of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Thread id.
    pub tid: i32,
    /// Thread-group id; -1 if unknown.
    pub pid: i32,
    /// The thread that made it, if a record tells.
    pub parent: Option<i32>,
    /// Its last name.
    pub comm: NameId,
}

/// When a thread began and ended, ns on the recording's clock; `None` if no
/// record says so, as for a thread that existed all the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// When it was created, or executed the recorded program.
    pub began: Option<u64>,
    /// When it ended.
    pub ended: Option<u64>,
}
