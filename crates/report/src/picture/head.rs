//! What stands above the frames of an SVG: the trust line in as many lines as
//! its width needs, what colours mean, and what was left out.

use super::{Kind, PictureOptions, Scheme};
use crate::{escape, trust};
use prof_profile::Profile;
use std::fmt::Write;

/// How the picture looks beside its frames.
const STYLE: &str = include_str!("head.css");
/// Height of a line, pixels.
const LINE: usize = 15;
/// Width of a character, pixels.
const CHARACTER: f64 = 7.3;
/// A picture as wide as its window is made for this one, pixels.
const NARROW: usize = 800;
/// Where inferno writes the subtitle.
const SUBTITLE: &str = "<text id=\"subtitle\" x=\"50.0000%\" y=\"48.00\"></text>";

/// The picture with its head, which moves the frames down.
pub(super) fn written(
    picture: &str,
    profile: &Profile,
    options: &PictureOptions,
    (kinds, hidden): (&[Kind], u64),
) -> String {
    let width = options.width.unwrap_or(NARROW);
    let columns = (width.saturating_sub(20) as f64 / CHARACTER) as usize;
    let lines = trust::summary_lines(profile, columns);
    let mut head = String::new();
    for (place, line) in lines.iter().enumerate() {
        push_line("subtitle", place, &escape::markup(line.trim()), &mut head);
    }
    let mut count = lines.len();
    let notes = [legend(options.scheme, kinds), left_out(options, hidden)];
    for note in notes.iter().filter(|note| !note.is_empty()) {
        push_line("legend", count, note, &mut head);
        count += 1;
    }
    let picture = picture.replacen(SUBTITLE, &head, 1);
    moved(&picture, count.saturating_sub(1) * LINE)
}

/// The picture with these lines, markup, in the place of its head.
pub(super) fn with_lines(picture: &str, lines: &[String]) -> String {
    let mut head = String::new();
    for (place, line) in lines.iter().enumerate() {
        push_line("legend", place, line, &mut head);
    }
    let picture = picture.replacen(SUBTITLE, &head, 1);
    moved(&picture, lines.len().saturating_sub(1) * LINE)
}

fn push_line(class: &str, place: usize, markup: &str, out: &mut String) {
    let top = 48 + place * LINE;
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"50.0000%\" y=\"{top}.00\">{markup}</text>"
    );
}

/// Colours and what they mean, if they mean anything.
fn legend(scheme: Scheme, kinds: &[Kind]) -> String {
    if scheme != Scheme::Kind {
        return String::new();
    }
    let used = Kind::LEGEND.iter().filter(|(kind, _)| kinds.contains(kind));
    let words: Vec<String> = used
        .map(|&(kind, word)| {
            let colour = scheme.colour(kind, "", "");
            let (r, g, b) = (colour.r, colour.g, colour.b);
            format!("<tspan fill=\"rgb({r},{g},{b})\">\u{25a0}</tspan> {word}")
        })
        .collect();
    words.join(" \u{a0} ")
}

/// What is too narrow to be drawn.
fn left_out(options: &PictureOptions, hidden: u64) -> String {
    match hidden {
        0 => String::new(),
        1 => format!("1 frame hidden, less than {} %", options.min_width),
        _ => format!(
            "{hidden} frames hidden, each less than {} %",
            options.min_width
        ),
    }
}

/// The picture with all but the title and the lines below it further down.
/// What is changed stands before any name of the recording, but the title,
/// which has no `<`.
fn moved(picture: &str, by: usize) -> String {
    let mut out = picture.replacen("</style>", &format!("{STYLE}</style>"), 1);
    for (before, after) in [
        ("<svg version=\"1.1\" ", " height=\""),
        ("<svg version=\"1.1\" ", " viewBox=\"0 0 "),
        ("<rect x=\"0\" y=\"0\" width=\"100%\"", " height=\""),
        ("<text id=\"details\"", " y=\""),
        ("<text id=\"matched\"", " y=\""),
    ] {
        out = added(&out, before, after, by).unwrap_or(out);
    }
    out.replacen(
        "<svg id=\"frames\"",
        &format!("<svg id=\"frames\" y=\"{by}\""),
        1,
    )
}

/// `text` with `by` added to the last number between `attribute`, the first
/// one behind `element`, and the quote that ends it.
fn added(text: &str, element: &str, attribute: &str, by: usize) -> Option<String> {
    let start = text.find(element)?;
    let start = start + text.get(start..)?.find(attribute)? + attribute.len();
    let end = start + text.get(start..)?.find('"')?;
    let value = text.get(start..end)?;
    let number = value.rsplit(' ').next()?;
    let sum = number.parse::<f64>().ok()? + by as f64;
    let head = text.get(..end - number.len())?;
    Some(format!("{head}{sum}{}", text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::added;

    #[test]
    fn numbers_of_attributes_grow() {
        let text = "<a><b c=\"0 0 12 30\" y=\"4.00\"/><b y=\"1\"/>";
        let wider = added(text, "<b", " c=\"", 15).unwrap();
        assert_eq!(wider, "<a><b c=\"0 0 12 45\" y=\"4.00\"/><b y=\"1\"/>");
        let lower = added(text, "<b", " y=\"", 15).unwrap();
        assert_eq!(lower, "<a><b c=\"0 0 12 30\" y=\"19\"/><b y=\"1\"/>");
        assert_eq!(added(text, "<c", " y=\"", 15), None);
    }
}
