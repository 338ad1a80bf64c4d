//! The lines of perf's text that are comments.

use crate::trust;
use std::fmt::Write;

/// Appends a comment, in several lines where a terminal needs it.
pub(super) fn comment(line: &str, columns: Option<usize>, out: &mut String) {
    let lines = match columns {
        Some(columns) => trust::wrapped(line, columns.saturating_sub("# ".len())),
        None => vec![line.to_owned()],
    };
    for line in lines {
        let _ = writeln!(out, "# {line}");
    }
}
