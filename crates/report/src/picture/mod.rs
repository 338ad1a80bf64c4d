//! Flame graphs: folded stacks, SVG and HTML.
//!
//! All three come from the same walk over the call trees, so they show the
//! same samples. Folded lines are an output, never an interface: names may
//! hold anything and are escaped for the place they go to.

mod diff;
mod folded;
mod format;
mod formats;
mod head;
mod intervals;
mod labels;
mod page;
mod palette;
mod svg;

pub use diff::{DiffOptions, Drawable, Known, OfSide, change_colour};
pub use folded::{FOLDED, Roots, RootsError, folded};
pub use format::PictureFormat;
pub use formats::WrongName;
pub use page::{HTML, html};
pub use palette::{Kind, Scheme};
pub use svg::{SVG, svg};

use crate::model::Selection;
use std::io;
use thiserror::Error;

/// Names longer than this are cut in pictures, characters: a name in a
/// recording can be 64 KiB long and be drawn a thousand times.
const LONGEST_NAME: usize = 1024;

/// What a picture shows and how.
#[derive(Debug, Clone)]
pub struct PictureOptions {
    /// Which samples, of which event.
    pub selection: Selection,
    /// What the outermost frames are.
    pub roots: Roots,
    /// The title; `None` for one that names the event.
    pub title: Option<String>,
    /// Width in pixels; `None` for as wide as the window.
    pub width: Option<usize>,
    /// Frames of a smaller share are not drawn, percent.
    pub min_width: f64,
    /// Whether callers are drawn above what they call (an icicle).
    pub is_inverted: bool,
    /// Whether stacks are turned around: functions first, then who called.
    pub is_reversed: bool,
    /// What colours mean.
    pub scheme: Scheme,
}

impl Default for PictureOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            roots: Roots::default(),
            title: None,
            width: None,
            min_width: 0.01,
            is_inverted: false,
            is_reversed: false,
            scheme: Scheme::default(),
        }
    }
}

/// Why there is no picture.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The recording has no samples of the event.
    #[error(
        "there is nothing to draw: the recording has no samples of {event}\n  \
         the program may have been too short or asleep\n  try: {}",
        crate::trust::ways_to_samples(std::iter::once(event.as_str()))
    )]
    NoSamples {
        /// The event.
        event: String,
    },
    /// Filters hide all samples.
    #[error(
        "there is nothing to draw: the filters hide all {samples} samples of {event}\n  \
         try: prof report -i FILE --sort comm,pid   to see what there is"
    )]
    AllHidden {
        /// The event.
        event: String,
        /// How many samples it has.
        samples: u64,
    },
    /// The output cannot be written to.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[cfg(test)]
mod tests;
