//! The formats of a report that are not pictures.

use crate::text::TextOptions;
use crate::{csv, json, text};
use prof_profile::Profile;
use std::io;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Laid out as perf's; see [`text::report`].
    Text,
    /// Comma-separated values; see [`csv::csv`].
    Csv,
    /// For programs; see [`json::json`].
    Json,
}

impl Format {
    /// Writes a report.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub fn write(
        self,
        profile: &Profile,
        options: &TextOptions,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let mut out = out;
        match self {
            Self::Text => text::report(profile, options, &mut out),
            Self::Csv => csv::csv(profile, options, &mut out),
            Self::Json => json::json(profile, options, &mut out),
        }
    }
}
