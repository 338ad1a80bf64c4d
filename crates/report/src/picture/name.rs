//! The formats of pictures: how each is drawn, and the end of its file's name.

use super::{PictureError, PictureOptions, folded, html, svg};
use prof_profile::Profile;
use std::path::Path;
use thiserror::Error;

/// What is written. A new one is a variant, an entry in the table below and an
/// arm of [`Format::draw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A picture with search and zoom.
    Svg,
    /// The picture in a page of its own.
    Html,
    /// A line for each stack.
    Folded,
}

/// What is fixed of a format.
struct Spec {
    format: Format,
    /// Ends of names, without the dot, the usual one first.
    ends: &'static [&'static str],
    /// For help.
    about: &'static str,
}

const SPECS: [Spec; 3] = [
    Spec {
        format: Format::Svg,
        ends: &["svg"],
        about: "A picture with search and zoom",
    },
    Spec {
        format: Format::Html,
        ends: &["html", "htm"],
        about: "The picture in a page of its own",
    },
    Spec {
        format: Format::Folded,
        ends: &["folded", "txt"],
        about: "A line for each stack",
    },
];

/// Ends of names that promise what is not made here.
const FOREIGN: &[&str] = &[
    "ai", "avif", "bmp", "bz2", "csv", "data", "dot", "eps", "gif", "gv", "gz", "ico", "jpeg",
    "jpg", "json", "md", "pb", "pdf", "png", "pprof", "ps", "svgz", "tif", "tiff", "tsv", "webp",
    "xml", "xz", "zip", "zst",
];

/// The name of a file would belie its contents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "cannot write {name}: {why}; there are .svg, .html and .folded (or .txt)\n  try: -o {instead}"
)]
pub struct WrongName {
    /// The name asked for.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
    /// A name with the right ending.
    pub instead: String,
}

impl Format {
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
        match self {
            Self::Svg => svg(profile, options, &mut out),
            Self::Html => html(profile, options, &mut out),
            Self::Folded => folded(profile, options, &mut out),
        }?;
        Ok(out)
    }

    /// The format that the name asks for, `None` if it does not say.
    ///
    /// # Errors
    /// If it is one that is not made here, or another than `asked`.
    pub fn of_name(path: &Path, asked: Option<Self>) -> Result<Option<Self>, WrongName> {
        let end = path.extension().and_then(|end| end.to_str());
        let Some(end) = end.map(str::to_ascii_lowercase) else {
            return Ok(None);
        };
        let named = SPECS.iter().find(|spec| spec.ends.contains(&end.as_str()));
        let named = named.map(|spec| spec.format);
        let why = match (named, asked) {
            (None, _) if FOREIGN.contains(&end.as_str()) => format!("no .{end} is made here"),
            (Some(named), Some(asked)) if named != asked => {
                format!("it would hold {}, which .{end} is not", asked.end())
            }
            _ => return Ok(named),
        };
        let instead = path.with_extension(asked.unwrap_or(Self::Svg).end());
        Err(WrongName {
            name: path.display().to_string(),
            why,
            instead: instead.display().to_string(),
        })
    }

    /// All formats, in the order of help.
    pub fn all() -> impl Iterator<Item = Self> {
        SPECS.iter().map(|spec| spec.format)
    }

    fn spec(self) -> &'static Spec {
        let found = SPECS.iter().find(|spec| spec.format == self);
        found.expect("each format has its entry")
    }

    /// The usual end of names, without the dot: what the format is called.
    pub fn end(self) -> &'static str {
        self.spec().ends.first().copied().unwrap_or_default()
    }

    /// What it is, in a few words.
    pub fn about(self) -> &'static str {
        self.spec().about
    }
}

#[cfg(test)]
mod tests {
    use super::Format;
    use std::path::Path;

    fn format(name: &str, asked: Option<Format>) -> Result<Option<Format>, String> {
        Format::of_name(Path::new(name), asked).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_says_its_format_or_nothing() {
        assert_eq!(format("a.svg", None), Ok(Some(Format::Svg)));
        assert_eq!(format("a.HTM", None), Ok(Some(Format::Html)));
        assert_eq!(
            format("a.txt", Some(Format::Folded)),
            Ok(Some(Format::Folded))
        );
        assert_eq!(format("flame.2024", None), Ok(None));
        assert_eq!(format("/dev/stdout", Some(Format::Html)), Ok(None));
    }

    #[test]
    fn a_name_of_another_format_is_refused_with_one_that_would_do() {
        let refused = format("x/a.png", None).expect_err("no pictures of dots");
        assert!(refused.contains("no .png is made here"), "{refused}");
        assert!(refused.ends_with("try: -o x/a.svg"), "{refused}");
        let refused = format("a.PDF", Some(Format::Html)).expect_err("no pages of paper");
        assert!(refused.ends_with("try: -o a.html"), "{refused}");
        let refused = format("a.svg", Some(Format::Folded)).expect_err("another");
        assert!(refused.contains("it would hold folded"), "{refused}");
    }
}
