//! Why a session could not run or ended.

use std::io;
use thiserror::Error;

/// Why a session could not run or ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The terminal refused something.
    #[error("cannot use the terminal: {0}; --stdio prints a report instead")]
    Terminal(#[source] io::Error),
    /// Signal handlers could not be installed.
    #[error("cannot handle signals: {0}")]
    Signals(#[source] io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The profile could not be loaded.
    #[error("{0}")]
    Load(String),
}
