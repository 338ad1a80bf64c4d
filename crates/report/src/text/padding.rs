//! Cells flushed right.

use crate::keys::char_count;
use std::iter::repeat_n;

/// Appends spaces. Widths that come from input are made of these: those of
/// `format!` end at 65 535 characters, with a panic.
pub(super) fn pad(out: &mut String, spaces: usize) {
    out.extend(repeat_n(' ', spaces));
}

/// Appends `cell` flushed right in `width` characters.
pub(super) fn push_right(cell: &str, width: usize, out: &mut String) {
    pad(out, width.saturating_sub(char_count(cell)));
    out.push_str(cell);
}
