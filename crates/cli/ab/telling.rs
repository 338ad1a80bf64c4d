//! How far a trial has come, on stderr.

use crate::outcome::say;
use std::io::{self, IsTerminal, Write};

/// A line on a terminal that is written over; nothing elsewhere but what
/// stays.
pub(super) struct Telling {
    is_terminal: bool,
}

impl Telling {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// What is being done now.
    pub(super) fn line(&self, text: &str) {
        if self.is_terminal {
            // Nowhere to report a failure of stderr to.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{text}\r");
        }
    }

    /// What stays to be read.
    pub(super) fn stays(&self, text: &str) {
        self.clear();
        say(text);
    }

    pub(super) fn clear(&self) {
        self.line("");
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.clear();
    }
}
