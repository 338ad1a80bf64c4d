//! A format of pictures: how it is drawn, and the end of its file's name.

use super::diff::{DiffOptions, Drawable};
use super::{PictureError, PictureOptions};
use prof_profile::Profile;
use std::fmt;

/// A format of pictures. A new one is a file with a constant, and its line in
/// [`PictureFormat::ALL`].
#[derive(Clone, Copy)]
pub struct PictureFormat(pub(super) &'static Spec);

/// Draws a profile.
type Draw = fn(&Profile, &PictureOptions, &mut Vec<u8>) -> Result<(), PictureError>;
/// Draws what changed between two sides.
type DrawDiff = fn(&[Drawable], &[Drawable], &DiffOptions<'_>) -> Result<String, PictureError>;

/// All that there is to say of a format.
pub(super) struct Spec {
    /// Ends of names, without the dot, the usual one first.
    pub(super) ends: &'static [&'static str],
    /// Ends as messages name them.
    pub(super) told: &'static str,
    /// For help.
    pub(super) about: &'static str,
    /// Whether it is lines of text, which may be shown on a terminal.
    pub(super) is_text: bool,
    pub(super) draw: Draw,
    /// How two sides are drawn, if it can show them.
    pub(super) draw_diff: Option<DrawDiff>,
}

impl PictureFormat {
    pub(super) const fn of(spec: &'static Spec) -> Self {
        Self(spec)
    }

    /// Draws a profile, as the bytes of a file.
    ///
    /// # Errors
    /// If there is nothing to draw.
    pub fn draw(
        self,
        profile: &Profile,
        options: &PictureOptions,
    ) -> Result<Vec<u8>, PictureError> {
        let mut out = Vec::new();
        (self.0.draw)(profile, options, &mut out)?;
        Ok(out)
    }

    /// Draws what changed between two sides of one or several runs; `None` if
    /// the format cannot show that.
    ///
    /// # Errors
    /// If there is nothing to draw.
    pub fn draw_diff(
        self,
        [before, after]: [&[Drawable]; 2],
        options: &DiffOptions<'_>,
    ) -> Option<Result<String, PictureError>> {
        let draw = self.0.draw_diff?;
        Some(draw(before, after, options))
    }

    /// The usual end of names, without the dot: what the format is called.
    pub fn end(self) -> &'static str {
        self.0.ends.first().copied().unwrap_or_default()
    }

    /// What it is, in a few words.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    /// Whether it is lines of text, which may be shown on a terminal.
    pub fn is_text(self) -> bool {
        self.0.is_text
    }
}

impl PartialEq for PictureFormat {
    fn eq(&self, other: &Self) -> bool {
        self.end() == other.end()
    }
}

impl Eq for PictureFormat {}

impl fmt::Debug for PictureFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.end())
    }
}
