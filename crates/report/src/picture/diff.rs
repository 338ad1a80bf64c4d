//! Flame graphs of two sides: what changed is coloured by how much, what is not
//! sure stays grey, and what vanished is drawn too.

use super::labels::{ADDED, SCRIPT_END};
use super::{LONGEST_NAME, PictureError, head, labels};
use crate::escape;
use crate::model::{
    Changed, Judging, NodeId, Scene, Selection, Site, changed, figures, shares_of_paths,
};
use inferno::flamegraph::color::{Color, PaletteMap};
use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection};
use prof_profile::{EventId, Profile};
use prof_statistics::{Figure, Kind, Pairing, Verdict};
use rustc_hash::FxHashMap;
use std::io;

/// How two sides are drawn.
pub struct DiffOptions<'a> {
    /// The title; `None` for one that names the event.
    pub title: Option<String>,
    /// Width in pixels; `None` for as wide as the window.
    pub width: Option<usize>,
    /// Frames of a smaller share of both sides are not drawn, percent.
    pub min_width: f64,
    /// Whether callers are drawn above what they call.
    pub is_inverted: bool,
    /// A change smaller than this, percent of the total before, counts as none.
    pub bound: f64,
    /// Whether runs of both sides form pairs.
    pub pairing: Pairing,
    /// Identifies a function on both sides, by side, dso and name.
    pub known: &'a dyn Fn(OfSide, &str, &str) -> Known,
}

/// Which side something is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfSide {
    /// Before the change.
    Before,
    /// After it.
    After,
}

/// The identity of a function on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Dso and name that are equal for the function on both sides.
    pub same: (String, String),
    /// The name to draw, `NEW (was OLD)`, if the function had another name
    /// before.
    pub renamed: Option<String>,
}

/// A profile reduced to what a comparison needs: a call tree of names with
/// costs.
#[derive(Debug, Clone, Default)]
pub struct Drawable {
    /// Name of the event.
    event: String,
    /// Dso and name of each function.
    functions: Vec<(String, String)>,
    /// Callers before what they call.
    nodes: Vec<DrawableNode>,
    /// The weight of all samples.
    total: f64,
}

#[derive(Debug, Clone)]
struct DrawableNode {
    /// The caller's place.
    up: Option<usize>,
    /// Its place in [`Drawable::functions`].
    function: usize,
    /// Of the samples through it.
    share: Figure,
}

impl Drawable {
    /// Reduces one event of a profile.
    pub fn new(profile: &Profile, event: EventId) -> Self {
        let selection = Selection {
            event,
            ..Selection::default()
        };
        let scene = Scene::new(profile, selection);
        let (shares, total) = shares_of_paths(&scene);
        let (parents, sites) = (&scene.paths().parents, &scene.paths().sites);
        // By path: where it is in `nodes`.
        let mut places: Vec<Option<usize>> = vec![None; parents.len()];
        let mut nodes = Vec::new();
        let mut functions = Vec::new();
        let mut index: FxHashMap<(String, String), usize> = FxHashMap::default();
        for (path, share) in shares.iter().enumerate() {
            let (Some(&parent), Some(&site)) = (parents.get(path), sites.get(path)) else {
                continue;
            };
            if path == NodeId::ROOT.0 as usize || share.samples == 0 {
                continue;
            }
            let own = named(scene.sites().get(site), profile);
            let function = *index.entry(own.clone()).or_insert_with(|| {
                functions.push(own);
                functions.len() - 1
            });
            if let Some(place) = places.get_mut(path) {
                *place = Some(nodes.len());
            }
            nodes.push(DrawableNode {
                up: places.get(parent.0 as usize).copied().flatten(),
                function,
                share: share.figure(),
            });
        }
        let about = scene.event();
        Self {
            event: about.map_or_else(String::new, |event| event.name.clone()),
            functions,
            nodes,
            total,
        }
    }
}

/// Dso and name of a site; of a name that is very long, the beginning.
fn named(site: &Site, profile: &Profile) -> (String, String) {
    let name = site.name(profile);
    let end = name
        .char_indices()
        .nth(LONGEST_NAME)
        .map_or(name.len(), |(at, _)| at);
    let dso = profile.name(profile.dso(site.dso).short_name);
    (
        dso.to_owned(),
        name.get(..end).unwrap_or_default().to_owned(),
    )
}

/// A frame of both sides.
struct Node {
    up: usize,
    name: String,
    /// By run: part of the run's total.
    before: Vec<Figure>,
    after: Vec<Figure>,
    children: Vec<usize>,
}

/// What a frame is called.
enum Name<'a> {
    Own(&'a str),
    /// What both names together are.
    Renamed(String),
}

impl Name<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Own(name) => name,
            Self::Renamed(name) => name,
        }
    }
}

/// Numbers of functions, equal where they are the same on both sides.
#[derive(Default)]
struct Keys(FxHashMap<(String, String), usize>);

impl Keys {
    /// Number and name of each function of a run.
    fn of<'d>(
        &mut self,
        drawable: &'d Drawable,
        side: OfSide,
        options: &DiffOptions<'_>,
    ) -> Vec<(usize, Name<'d>)> {
        let functions = drawable.functions.iter().map(|(dso, name)| {
            let known = (options.known)(side, dso, name);
            let next = self.0.len();
            let key = *self.0.entry(known.same).or_insert(next);
            let name = known.renamed.map_or(Name::Own(name), Name::Renamed);
            (key, name)
        });
        functions.collect()
    }
}

struct Merged {
    nodes: Vec<Node>,
}

impl Merged {
    /// The trees of all runs put on each other, by what both sides know
    /// functions as.
    fn new(before: &[Drawable], after: &[Drawable], options: &DiffOptions<'_>) -> Self {
        let root = Node {
            up: 0,
            name: String::new(),
            before: vec![Figure::default(); before.len()],
            after: vec![Figure::default(); after.len()],
            children: Vec::new(),
        };
        let mut merged = Self { nodes: vec![root] };
        let mut keys = Keys::default();
        let mut index: FxHashMap<(usize, usize), usize> = FxHashMap::default();
        let of = |runs, side| std::iter::zip(runs, std::iter::repeat(side));
        let runs = of(before.iter().enumerate(), OfSide::Before);
        let runs = runs.chain(of(after.iter().enumerate(), OfSide::After));
        for ((run, drawable), side) in runs {
            let functions = keys.of(drawable, side, options);
            let mut places = Vec::with_capacity(drawable.nodes.len());
            for node in &drawable.nodes {
                let up = node.up.and_then(|up| places.get(up).copied()).unwrap_or(0);
                let (key, name) = functions
                    .get(node.function)
                    .expect("a node's function is one of its run");
                let next = merged.nodes.len();
                let place = *index.entry((up, *key)).or_insert(next);
                match name {
                    _ if place == next => merged.add(up, name.text(), (before.len(), after.len())),
                    Name::Renamed(name) => merged.rename(place, name),
                    Name::Own(_) => {}
                }
                merged.count(place, (run, side), node.share);
                places.push(place);
            }
        }
        merged
    }

    /// Gives a frame its name of both sides.
    fn rename(&mut self, place: usize, name: &str) {
        if let Some(node) = self.nodes.get_mut(place)
            && node.name != name
        {
            name.clone_into(&mut node.name);
        }
    }

    fn add(&mut self, up: usize, name: &str, (before, after): (usize, usize)) {
        let place = self.nodes.len();
        if let Some(node) = self.nodes.get_mut(up) {
            node.children.push(place);
        }
        self.nodes.push(Node {
            up,
            name: name.to_owned(),
            before: vec![Figure::default(); before],
            after: vec![Figure::default(); after],
            children: Vec::new(),
        });
    }

    fn count(&mut self, place: usize, (run, side): (usize, OfSide), share: Figure) {
        let Some(node) = self.nodes.get_mut(place) else {
            return;
        };
        let list = match side {
            OfSide::Before => &mut node.before,
            OfSide::After => &mut node.after,
        };
        if let Some(sum) = list.get_mut(run) {
            sum.value += share.value;
            sum.variance += share.variance;
        }
    }

    /// What is known of each frame; of those that are drawn, a twentieth of
    /// what is said may be false.
    fn known(&self, sides: [&[Drawable]; 2], options: &DiffOptions<'_>) -> Vec<Changed> {
        let mean = |runs: &[Drawable]| {
            runs.iter().map(|run| run.total).sum::<f64>() / runs.len().max(1) as f64
        };
        let whole = mean(sides[0]).max(f64::MIN_POSITIVE);
        // By run, then by node.
        let scaled = |runs: &[Drawable], of: &dyn Fn(&Node) -> &[Figure]| -> Vec<Vec<Figure>> {
            let scaled = runs.iter().enumerate().map(|(run, drawable)| {
                let shares = self.nodes.iter().map(|node| of(node).get(run).copied());
                let shares: Vec<Figure> = shares.map(Option::unwrap_or_default).collect();
                figures(&shares, 100.0 * drawable.total / whole)
            });
            scaled.collect()
        };
        let before = scaled(sides[0], &|node| &node.before);
        let after = scaled(sides[1], &|node| &node.after);
        let of = |runs: &[Vec<Figure>], node: usize| -> Vec<Figure> {
            runs.iter()
                .filter_map(|run| run.get(node).copied())
                .collect()
        };
        let both: Vec<_> = (0..self.nodes.len())
            .map(|node| (of(&before, node), of(&after, node)))
            .collect();
        let judging = Judging {
            least: options.min_width,
            bound: options.bound,
            pairing: options.pairing,
        };
        changed(&both, judging)
    }
}

/// Steps of a change, percent of the total before, with the colours of more and
/// of less: orange and purple, which all eyes tell apart (ColorBrewer's PuOr).
const STEPS: [(f64, Color, Color); 3] = [
    (5.0, rgb(179, 88, 6), rgb(84, 39, 136)),
    (1.0, rgb(241, 163, 64), rgb(153, 142, 195)),
    (0.0, rgb(254, 210, 150), rgb(206, 202, 228)),
];
const UNSURE: Color = rgb(216, 216, 216);
const SAME: Color = rgb(244, 244, 238);

const fn rgb(r: u8, g: u8, b: u8) -> Color {
    Color { r, g, b }
}

/// The colour of a change: red, green and blue.
pub fn change_colour(changed: &Changed) -> (u8, u8, u8) {
    let Color { r, g, b } = colour(changed);
    (r, g, b)
}

fn colour(changed: &Changed) -> Color {
    let size = changed.change.value.abs();
    let step = STEPS
        .iter()
        .find(|(least, ..)| size >= *least)
        .unwrap_or(&STEPS[2]);
    match changed.verdict {
        Verdict::Slower => step.1,
        Verdict::Faster => step.2,
        Verdict::Same => SAME,
        Verdict::Undecided { .. } => UNSURE,
    }
}

/// In parentheses behind the name; without any inside, which scripts look for.
fn account(changed: &Changed) -> String {
    let interval = changed.interval();
    let (before, after, change) = (changed.before, changed.after, changed.change.value);
    format!(
        "{before:.2} % -> {after:.2} % of the total before: {change:+.2} % [{:+.2}, {:+.2}], {}",
        interval.low,
        interval.high,
        changed.word()
    )
}

/// Where inferno's titles have the number of a frame, which makes each name one
/// of its own: private signs, which [`clean`] takes out of names.
const MARK: char = '\u{f8f0}';
const END: char = '\u{f8f1}';

/// A name without what would end a frame or look like our marks.
fn clean(name: &str) -> String {
    let name: String = name
        .chars()
        .filter(|sign| ![MARK, END].contains(sign))
        .collect();
    escape::folded(&name).into_owned()
}

/// Draws two sides of one or several runs as an SVG with search and zoom.
///
/// # Errors
/// If there is nothing to draw.
pub(super) fn diff_svg(
    before: &[Drawable],
    after: &[Drawable],
    options: &DiffOptions<'_>,
) -> Result<String, PictureError> {
    let event = before.first().map_or("", |run| run.event.as_str());
    if before.iter().chain(after).any(|run| run.nodes.is_empty())
        || before.is_empty()
        || after.is_empty()
    {
        return Err(PictureError::NoSamples {
            event: event.to_owned(),
        });
    }
    let merged = Merged::new(before, after, options);
    let known = merged.known([before, after], options);
    let mut lines = Vec::new();
    let mut colours = PaletteMap::default();
    let hidden = merged.fold(&known, options, (&mut lines, &mut colours));
    let mut settings = Options::default();
    settings.title = options
        .title
        .clone()
        .unwrap_or_else(|| format!("Differential flame graph: {event}"));
    settings.title = escape::terminal(&settings.title).into_owned();
    settings.subtitle = Some(String::new());
    settings.count_name = "parts".into();
    settings.name_type = "Function:".into();
    settings.image_width = options.width;
    settings.min_width = 0.0;
    settings.text_truncate_direction = TextTruncateDirection::Right;
    if options.is_inverted {
        settings.direction = Direction::Inverted;
    }
    settings.deterministic = true;
    settings.flame_chart = true;
    settings.palette_map = Some(&mut colours);
    let mut drawn = Vec::new();
    flamegraph::from_lines(
        &mut settings,
        lines.iter().rev().map(String::as_str),
        &mut drawn,
    )?;
    let drawn = String::from_utf8(drawn)
        .map_err(io::Error::other)?
        .replace("\\u{3b}", ";");
    let drawn = told(&drawn, &known);
    let drawn = drawn.replacen(SCRIPT_END, &format!("{}{SCRIPT_END}", ADDED), 1);
    let kind = match before.len() + after.len() {
        2 => Kind::TheseRuns,
        _ => Kind::AnotherRun,
    };
    let drawn = head::with_lines(&drawn, &about(kind, options, hidden));
    let drawn = drawn.replacen("</style>", &format!("{}</style>", on_dark_steps()), 1);
    let names: Vec<String> = merged.nodes.iter().map(|node| clean(&node.name)).collect();
    Ok(labels::shortened(&drawn, names.iter().map(String::as_str)))
}

impl Merged {
    /// The lines for inferno, in the order of the tree, with the colour of each
    /// frame; how many frames were left out.
    fn fold(
        &self,
        known: &[Changed],
        options: &DiffOptions<'_>,
        (lines, colours): (&mut Vec<String>, &mut PaletteMap),
    ) -> usize {
        /// Parts of a percent that inferno counts.
        const PARTS: f64 = 1e6;
        let width = |place: usize| {
            let known = known.get(place);
            known.map_or(0.0, |known| f64::midpoint(known.before, known.after))
        };
        let mut hidden = 0;
        let mut open = vec![(0_usize, String::new())];
        while let Some((place, outer)) = open.pop() {
            let Some(node) = self.nodes.get(place) else {
                continue;
            };
            let mut stack = outer;
            if place > 0 {
                let frame = format!("{}{MARK}{place}{END}", clean(&node.name));
                if let Some(known) = known.get(place) {
                    colours.insert(frame.clone(), colour(known));
                }
                if !stack.is_empty() {
                    stack.push(';');
                }
                stack.push_str(&frame);
            }
            let mut heavy = node.children.clone();
            heavy.retain(|&child| width(child) >= options.min_width);
            hidden += node.children.len() - heavy.len();
            let inner: f64 = heavy.iter().map(|&child| width(child)).sum();
            let own = ((width(place) - inner).max(0.0) * PARTS).round();
            if own > 0.0 && place > 0 {
                lines.push(format!("{stack} {own:.0}"));
            }
            let name = |place: &usize| self.nodes.get(*place).map(|node| node.name.as_str());
            heavy.sort_by(|a, b| name(b).cmp(&name(a)));
            debug_assert!(heavy.iter().all(|child| self.nodes[*child].up == place));
            open.extend(heavy.into_iter().map(|child| (child, stack.clone())));
        }
        hidden
    }
}

/// The picture with what is known of each frame where its number stands: in a
/// title, inferno's own account in parentheses is replaced. A label too long for its
/// frame may be cut within the number.
fn told(drawn: &str, known: &[Changed]) -> String {
    let mut out = String::with_capacity(drawn.len());
    let mut rest = drawn;
    while let Some((before, behind)) = rest.split_once(MARK) {
        out.push_str(before);
        let digits = behind
            .find(|sign: char| !sign.is_ascii_digit())
            .unwrap_or(behind.len());
        let (number, after) = behind.split_at(digits);
        rest = after;
        let Some(after) = after.strip_prefix(END) else {
            continue;
        };
        rest = after;
        let known = number
            .parse()
            .ok()
            .and_then(|place: usize| known.get(place));
        if let (Some(known), Some((own, after))) = (known, after.split_once(')'))
            && own.starts_with(" (")
        {
            out.push_str(&format!(" ({})", escape::markup(&account(known))));
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Style of names on the darkest colours, which black could not be read on.
fn on_dark_steps() -> String {
    let (_, more, less) = STEPS[0];
    [more, less]
        .map(|Color { r, g, b }| {
            format!("rect[fill=\"rgb({r},{g},{b})\"] + text {{ fill:white; }}\n")
        })
        .concat()
}

/// What stands above the frames: what widths and colours mean.
fn about(kind: Kind, options: &DiffOptions<'_>, hidden: usize) -> Vec<String> {
    let square = |colour: Color, words: &str| {
        let Color { r, g, b } = colour;
        format!(
            "<tspan fill=\"rgb({r},{g},{b})\" stroke=\"#666\" stroke-width=\"0.5\">\u{25a0}</tspan> {words}"
        )
    };
    let mut legend = vec![
        square(STEPS[0].2, "5 % less"),
        square(STEPS[1].2, "1 %"),
        square(STEPS[2].2, "less"),
        square(SAME, &format!("same within {} %", options.bound)),
        square(UNSURE, "not sure"),
        square(STEPS[2].1, "more"),
        square(STEPS[1].1, "1 %"),
        square(STEPS[0].1, "5 % more"),
    ];
    legend.dedup();
    let of = match kind {
        Kind::TheseRuns => "between these two recordings; how much runs differ is not known",
        Kind::AnotherRun => "what other runs would show; 5 % of what is coloured may be false",
    };
    let mut lines = vec![
        "width: mean of both sides; colour: change with callees, percent of the total before"
            .to_owned(),
        of.to_owned(),
        legend.join(" \u{a0} "),
    ];
    if hidden > 0 {
        lines.push(format!(
            "{hidden} frames hidden with what they call, each less than {} %",
            options.min_width
        ));
    }
    lines
}

/// The same in a page of its own.
///
/// # Errors
/// As [`diff_svg`].
pub(super) fn diff_html(
    before: &[Drawable],
    after: &[Drawable],
    options: &DiffOptions<'_>,
) -> Result<String, PictureError> {
    let svg = diff_svg(before, after, options)?;
    // What stands before the element is of a file of its own.
    let start = svg.find("<svg").unwrap_or(0);
    let title = options
        .title
        .as_deref()
        .unwrap_or("Differential flame graph");
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{}</title>\n\
         <style>body{{margin:0;background:#fff}}body>svg{{display:block;width:100%}}\n\
         @media (prefers-color-scheme:dark){{body{{background:rgb(26,27,30)}}}}</style></head>\n<body>\n{}\n\
         </body></html>\n",
        escape::markup(title),
        svg.get(start..).unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::{
        Color, DiffOptions, Drawable, Known, OfSide, SAME, STEPS, UNSURE, diff_html, diff_svg,
    };
    use prof_profile::EventId;
    use prof_sketch::Sketch;
    use prof_statistics::Pairing;

    fn drawable(parts: &[(&str, u64)]) -> Drawable {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        let mut at = 0;
        for &(stack, count) in parts {
            for _ in 0..count {
                at += 1_000_000;
                sketch.sample(task, stack, at, 1_000_000);
            }
        }
        sketch.profile.events[0].weight_is_ns = true;
        Drawable::new(&sketch.profile, EventId(0))
    }

    const OPTIONS: DiffOptions<'static> = DiffOptions {
        title: None,
        width: Some(1000),
        min_width: 0.1,
        is_inverted: false,
        bound: 2.0,
        pairing: Pairing::Independent,
        known: &by_name,
    };

    fn by_name(_: OfSide, dso: &str, name: &str) -> Known {
        Known {
            same: (dso.to_owned(), name.to_owned()),
            renamed: None,
        }
    }

    fn drawn(before: &[(&str, u64)], after: &[(&str, u64)]) -> String {
        let (before, after) = ([drawable(before)], [drawable(after)]);
        assert!(
            diff_html(&before, &after, &OPTIONS)
                .unwrap()
                .contains("<!DOCTYPE html>")
        );
        diff_svg(&before, &after, &OPTIONS).unwrap()
    }

    /// The colour of a frame and what its title says.
    fn frame(svg: &str, name: &str) -> (String, String) {
        let title = svg
            .split("<title>")
            .find(|part| part.starts_with(&format!("{name} (")))
            .unwrap();
        let (told, rest) = title.split_once("</title>").unwrap();
        let fill = rest
            .split("fill=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        (fill.to_owned(), told.to_owned())
    }

    #[test]
    fn what_grew_is_orange_what_vanished_is_purple_and_the_rest_is_not() {
        let svg = drawn(
            &[
                ("app:main;app:f", 500),
                ("app:main;app:gone", 100),
                ("app:main;app:g", 400),
            ],
            &[("app:main;app:f", 650), ("app:main;app:g", 402)],
        );
        assert_eq!(frame(&svg, "f").0, "rgb(179,88,6)");
        assert_eq!(frame(&svg, "gone").0, "rgb(84,39,136)");
        assert_eq!(frame(&svg, "g").0, "rgb(244,244,238)");
        assert!(
            frame(&svg, "f").1.contains("50.00 % -&gt; 65.00 %"),
            "{:?}",
            frame(&svg, "f")
        );
        assert!(!svg.contains('\u{f8f0}') && svg.contains("not sure"));
        assert!(!svg.contains("NaN") && !svg.contains("inf,"));
    }

    #[test]
    fn a_function_of_two_names_is_one_frame_with_both() {
        let known = |side: OfSide, dso: &str, name: &str| match (side, name) {
            (OfSide::After, "new") => Known {
                same: (dso.to_owned(), "old".to_owned()),
                renamed: Some("new (was old)".to_owned()),
            },
            _ => by_name(side, dso, name),
        };
        let options = DiffOptions {
            known: &known,
            ..OPTIONS
        };
        let side = |name: &str| {
            let called = format!("app:main;app:{name};app:leaf");
            [drawable(&[(&called, 500), ("app:main", 500)])]
        };
        let svg = diff_svg(&side("old"), &side("new"), &options).unwrap();
        let (colour, told) = frame(&svg, "new (was old)");
        assert_eq!(colour, "rgb(244,244,238)");
        assert!(told.contains("50.00 % -&gt; 50.00 %"), "{told}");
        // What it calls is one frame, too, and nothing else is drawn.
        assert_eq!(svg.matches("<title>").count(), 4, "{svg}");
    }

    #[test]
    fn what_is_not_sure_is_grey() {
        let few = |f: usize| -> Vec<(&str, u64)> {
            (0..60)
                .map(|at| {
                    if at % f == 0 {
                        ("app:f", 1)
                    } else {
                        ("app:g", 1)
                    }
                })
                .collect()
        };
        let svg = drawn(&few(3), &few(4));
        assert_eq!(frame(&svg, "f").0, "rgb(216,216,216)");
    }

    #[test]
    fn a_label_may_be_cut_anywhere() {
        let names = (0..40).map(|at| format!("app:main;app:{}", "f".repeat(at + 1)));
        let stacks: Vec<String> = names.collect();
        let parts: Vec<(&str, u64)> = stacks.iter().map(|stack| (stack.as_str(), 5)).collect();
        let side = [drawable(&parts)];
        for width in 300..400 {
            let options = DiffOptions {
                width: Some(width * 4),
                ..OPTIONS
            };
            let svg = diff_svg(&side, &side, &options).unwrap();
            assert!(!svg.contains(['\u{f8f0}', '\u{f8f1}']), "{width}");
            let count = |what: &str| svg.matches(what).count();
            // All of the tree, its root, and the frame of everything.
            assert_eq!(count("<title>"), 42, "{width}");
            assert_eq!(count("<title>"), count("</title>"), "{width}");
            assert_eq!(count("<text "), count("</text>"), "{width}");
        }
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(diff_svg(&[drawable(&[])], &[drawable(&[("app:f", 2)])], &OPTIONS).is_err());
    }

    /// How much lighter or darker than a text its ground is, as WCAG counts it.
    fn contrast(ground: Color, text: f64) -> f64 {
        let linear = |value: u8| (f64::from(value) / 255.0).powf(2.2);
        let ground =
            0.2126 * linear(ground.r) + 0.7152 * linear(ground.g) + 0.0722 * linear(ground.b);
        (ground.max(text) + 0.05) / (ground.min(text) + 0.05)
    }

    #[test]
    fn names_can_be_read_on_every_colour() {
        let svg = drawn(&[("app:f", 1)], &[("app:f", 1)]);
        let colours = STEPS.iter().flat_map(|&(_, more, less)| [more, less]);
        for colour in colours.chain([SAME, UNSURE]) {
            let Color { r, g, b } = colour;
            let rule = format!("rect[fill=\"rgb({r},{g},{b})\"] + text {{ fill:white; }}");
            let text = if svg.contains(&rule) { 1.0 } else { 0.0 };
            let contrast = contrast(colour, text);
            assert!(contrast > 4.5, "{r} {g} {b}: {contrast:.1}");
        }
        // That is where the name stands.
        let (_, frame) = svg.split_once("<title>f (").unwrap();
        let (_, rect) = frame.split_once("<rect ").unwrap();
        assert!(rect.split_once("/>").unwrap().1.starts_with("<text "));
    }
}
