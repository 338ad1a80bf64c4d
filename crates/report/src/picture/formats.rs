//! All formats of pictures, and which of them a file's name asks for.

use super::{FOLDED, HTML, PictureFormat, SVG};
use std::path::Path;
use thiserror::Error;

/// Ends of names that promise what is not made here.
const FOREIGN: &[&str] = &[
    "ai", "avif", "bmp", "bz2", "csv", "data", "dot", "eps", "gif", "gv", "gz", "ico", "jpeg",
    "jpg", "json", "md", "pb", "pdf", "png", "pprof", "ps", "svgz", "tif", "tiff", "tsv", "webp",
    "xml", "xz", "zip", "zst",
];

/// The name of a file would belie its contents.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot write {name}: {why}; there are {}\n  try: -o {instead}", told_of(&PictureFormat::ALL))]
pub struct WrongName {
    /// The name asked for.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
    /// A name with the right ending.
    pub instead: String,
}

/// The ends of formats, for a message: `.svg, .html and .folded (or .txt)`.
fn told_of(formats: &[PictureFormat]) -> String {
    let told: Vec<&str> = formats.iter().map(|format| format.0.told).collect();
    match told.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => told.concat(),
    }
}

impl PictureFormat {
    /// All formats, in the order of help.
    pub const ALL: [Self; 3] = [SVG, HTML, FOLDED];

    /// The format that the name asks for, `None` if it does not say.
    ///
    /// # Errors
    /// If it is one that is not made here, or another than `asked`.
    pub fn of_name(path: &Path, asked: Option<Self>) -> Result<Option<Self>, WrongName> {
        let end = path.extension().and_then(|end| end.to_str());
        let Some(end) = end.map(str::to_ascii_lowercase) else {
            return Ok(None);
        };
        let mut all = Self::ALL.into_iter();
        let named = all.find(|format| format.0.ends.contains(&end.as_str()));
        let why = match (named, asked) {
            (None, _) if FOREIGN.contains(&end.as_str()) => format!("no .{end} is made here"),
            (Some(named), Some(asked)) if named != asked => {
                format!("it would hold {}, which .{end} is not", asked.end())
            }
            _ => return Ok(named),
        };
        let instead = path.with_extension(asked.unwrap_or(SVG).end());
        Err(WrongName {
            name: path.display().to_string(),
            why,
            instead: instead.display().to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{FOLDED, HTML, PictureFormat, SVG};
    use std::collections::BTreeSet;
    use std::path::Path;

    fn format(name: &str, asked: Option<PictureFormat>) -> Result<Option<PictureFormat>, String> {
        PictureFormat::of_name(Path::new(name), asked).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_says_its_format_or_nothing() {
        assert_eq!(format("a.svg", None), Ok(Some(SVG)));
        assert_eq!(format("a.HTM", None), Ok(Some(HTML)));
        assert_eq!(format("a.txt", Some(FOLDED)), Ok(Some(FOLDED)));
        assert_eq!(format("flame.2024", None), Ok(None));
        assert_eq!(format("/dev/stdout", Some(HTML)), Ok(None));
    }

    #[test]
    fn a_name_of_another_format_is_refused_with_one_that_would_do() {
        let refused = format("x/a.png", None).expect_err("no pictures of dots");
        assert!(refused.contains("no .png is made here"), "{refused}");
        assert!(refused.ends_with("try: -o x/a.svg"), "{refused}");
        let refused = format("a.PDF", Some(HTML)).expect_err("no pages of paper");
        assert!(refused.ends_with("try: -o a.html"), "{refused}");
        let refused = format("a.svg", Some(FOLDED)).expect_err("another");
        assert!(refused.contains("it would hold folded"), "{refused}");
    }

    #[test]
    fn no_two_formats_have_an_end_in_common_and_messages_name_all() {
        let ends = || PictureFormat::ALL.iter().flat_map(|format| format.0.ends);
        let distinct: BTreeSet<_> = ends().collect();
        assert_eq!(distinct.len(), ends().count());
        let refused = format("a.png", None).expect_err("no pictures of dots");
        let named = "there are .svg, .html and .folded (or .txt)\n";
        assert!(refused.contains(named), "{refused}");
    }
}
