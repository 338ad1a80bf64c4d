//! Flame graphs as SVG, drawn by `inferno`.

use super::diff::diff_svg;
use super::folded::{FoldedLine, Folder, Frames, scene_of};
use super::format::Spec;
use super::labels::{ADDED, SCRIPT_END};
use super::{Kind, PictureError, PictureFormat, PictureOptions, Scheme, head, intervals, labels};
use crate::escape;
use crate::model::{Scene, SiteId};
use crate::trust;
use inferno::flamegraph::color::PaletteMap;
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};
use prof_profile::Profile;
use std::io;

/// A picture with search and zoom.
pub const SVG: PictureFormat = PictureFormat::of(&Spec {
    ends: &["svg"],
    told: ".svg",
    about: "A picture with search and zoom",
    is_text: false,
    draw: |profile, options, out| svg(profile, options, out),
    draw_diff: Some(diff_svg),
});

/// Writes an SVG with search and zoom. Its subtitle is the trust line; the
/// whole account is in its `desc` element.
///
/// # Errors
/// If there is nothing to draw, or `out` cannot be written to.
pub fn svg(
    profile: &Profile,
    options: &PictureOptions,
    out: &mut impl io::Write,
) -> Result<(), PictureError> {
    let picture = draw(profile, options)?;
    out.write_all(picture.as_bytes())?;
    Ok(())
}

/// The SVG as text.
fn draw(profile: &Profile, options: &PictureOptions) -> Result<String, PictureError> {
    let scene = scene_of(profile, options)?;
    let total = scene.total().period;
    // Periods can be larger than what inferno draws exactly.
    let least = (total as f64 * options.min_width / 100.0).ceil() as u64;
    let mut folder = Folder::new(&scene, options, least);
    let mut lines = Vec::new();
    folder.run(&mut |FoldedLine { stack, weight }| {
        lines.push((stack.to_owned(), weight.period));
        Ok(())
    })?;
    let frames = Frames::new(&scene);
    let name_of = |site| title_name(&frames, site);
    let names = names(&folder.used, &name_of);
    let scale = Scale::of(lines.iter().map(|(_, period)| *period));
    let lines: Vec<String> = lines
        .into_iter()
        .map(|(stack, period)| format!("{stack} {}", period >> scale.shift))
        .collect();
    let hidden = folder.hidden;
    let (mut colours, kinds) = colours(&scene, options.scheme, &folder.used);
    for root in folder.root_names {
        let colour = options.scheme.colour(Kind::Task, &root, "");
        colours.insert(root, colour);
    }
    let mut settings = settings(&scene, options, &scale);
    settings.palette_map = Some(&mut colours);
    let mut drawn = Vec::new();
    let lines = lines.iter().rev().map(String::as_str);
    flamegraph::from_lines(&mut settings, lines, &mut drawn)?;
    let drawn = String::from_utf8(drawn).map_err(io::Error::other)?;
    let drawn = shown(&drawn);
    let drawn = drawn.replacen(SCRIPT_END, &format!("{ADDED}{SCRIPT_END}"), 1);
    let drawn = head::written(&drawn, profile, options, (&kinds, hidden));
    let drawn = intervals::told(&drawn, &scene, &names, &name_of);
    let drawn = labels::shortened(&drawn, names.iter().map(String::as_str));
    Ok(with_description(&drawn, profile))
}

/// How inferno is to draw; colours are left to be given.
fn settings<'a>(scene: &Scene<'_>, options: &PictureOptions, scale: &Scale) -> Options<'a> {
    let name = scene.event().map_or("", |event| event.name.as_str());
    let is_time = scene.event().is_some_and(|event| event.weight_is_ns);
    let mut settings = Options::default();
    settings.title = title(options, name);
    // A place for the lines that follow.
    settings.subtitle = Some(String::new());
    settings.count_name = scale.unit(if is_time {
        "ns".into()
    } else {
        format!("{} events", escape::terminal(name))
    });
    settings.name_type = "Function:".into();
    settings.image_width = options.width;
    settings.min_width = 0.0;
    // What is left of a name begins with what tells it apart.
    settings.text_truncate_direction = TextTruncateDirection::Right;
    settings.direction = if options.is_inverted {
        Direction::Inverted
    } else {
        Direction::Straight
    };
    settings.deterministic = true;
    // Lines come in the order of the tree. The order of text, which inferno
    // would sort into, splits frames whose callees have a space in their
    // name; this mode takes the order as it is, last line first.
    settings.flame_chart = true;
    settings
}

/// By how many bits weights are smaller than periods in what inferno adds up:
/// its sums end with a panic at 2^64.
struct Scale {
    shift: u32,
}

impl Scale {
    fn of(periods: impl Iterator<Item = u64>) -> Self {
        let sum: u128 = periods.map(u128::from).sum();
        let bits = u128::BITS - sum.leading_zeros();
        Self {
            shift: bits.saturating_sub(u64::BITS - 1),
        }
    }

    /// The unit of the weights that are shown.
    fn unit(&self, of_periods: String) -> String {
        match self.shift {
            0 => of_periods,
            shift => format!("×2^{shift} {of_periods}"),
        }
    }
}

pub(super) fn title(options: &PictureOptions, event: &str) -> String {
    let title = options.title.clone().unwrap_or_else(|| {
        let what = match (options.is_reversed, options.is_inverted) {
            (false, false) => "Flame graph",
            (false, true) => "Icicle graph",
            (true, _) => "Reverse flame graph",
        };
        format!("{what}: {event}")
    });
    escape::terminal(&title).into_owned()
}

/// Text of a picture with the sign that only folded stacks have to escape.
fn shown(text: &str) -> String {
    text.replace("\\u{3b}", ";")
}

/// The name of each frame that is drawn.
fn names(used: &[bool], name_of: &dyn Fn(SiteId) -> String) -> Vec<String> {
    let used = used.iter().enumerate().filter(|(_, used)| **used);
    used.map(|(index, _)| name_of(SiteId(index as u32)))
        .collect()
}

/// The name of a frame as its title has it.
fn title_name(frames: &Frames<'_>, site: SiteId) -> String {
    let drawn = frames.drawn(site);
    let end = drawn.text.len().saturating_sub(drawn.kind.mark().len());
    shown(drawn.text.get(..end).unwrap_or_default())
}

/// The colour of each frame that is drawn, by its text, and their kinds.
fn colours(scene: &Scene<'_>, scheme: Scheme, used: &[bool]) -> (PaletteMap, Vec<Kind>) {
    let frames = Frames::new(scene);
    let mut kinds = Vec::new();
    let mut colours = PaletteMap::default();
    for (index, _) in used.iter().enumerate().filter(|(_, used)| **used) {
        let drawn = frames.drawn(SiteId(index as u32));
        let colour = scheme.colour(drawn.kind, &drawn.text, &drawn.dso);
        colours.insert(drawn.text, colour);
        if !kinds.contains(&drawn.kind) {
            kinds.push(drawn.kind);
        }
    }
    (colours, kinds)
}

/// Adds what screen readers and curious people find: the whole account, and
/// what colours mean.
fn with_description(svg: &str, profile: &Profile) -> String {
    let mut text: Vec<String> = trust::lines(profile);
    let legend = Kind::LEGEND.map(|(kind, word)| {
        let colour = Scheme::Kind.colour(kind, "", "");
        format!("{word} #{:02x}{:02x}{:02x}", colour.r, colour.g, colour.b)
    });
    text.push(format!("colours by kind: {}", legend.join(", ")));
    let text: Vec<String> = text.iter().map(|line| escape::markup(line)).collect();
    let description = format!("<desc>{}</desc>", text.join("\n"));
    let place = svg
        .find("<svg")
        .and_then(|start| Some(start + svg.get(start..)?.find('>')? + 1));
    match place.and_then(|place| Some((svg.get(..place)?, svg.get(place..)?))) {
        Some((before, after)) => format!("{before}{description}{after}"),
        None => svg.to_owned(),
    }
}
