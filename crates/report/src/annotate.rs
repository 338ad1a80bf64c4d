//! `prof annotate`: the code of a function as text, laid out like
//! `perf annotate --stdio`.

use crate::code::{CodeRow, Flow, FunctionView, Share};
use crate::escape;
use crate::keys::name_within;
use crate::model::percent_of;
use prof_profile::Profile;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What stands in front of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Figure {
    /// Its share of the function, percent.
    #[default]
    Local,
    /// Its share of everything, percent.
    Global,
    /// Its weight: samples.
    Samples,
    /// Its weight: events.
    Period,
}

impl Figure {
    /// Heading, and width of a column.
    fn heading(self) -> (&'static str, usize) {
        match self {
            Self::Local | Self::Global => ("Percent", 8),
            Self::Samples => ("Samples", 8),
            Self::Period => ("Period", 12),
        }
    }

    /// What a place with this weight has, of a function's.
    fn of(self, weight: u64, function: u64, all: u64) -> String {
        match self {
            Self::Local => format!("{:8.2}", percent_of(weight, function)),
            Self::Global => format!("{:8.2}", percent_of(weight, all)),
            Self::Samples => format!("{weight:8}"),
            Self::Period => format!("{weight:12}"),
        }
    }
}

/// Which weight of a place is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counts {
    /// Of samples that were taken right there.
    #[default]
    Own,
    /// That of what is called there, too: where a program waits, it is the
    /// kernel that does.
    WithCallees,
}

impl Counts {
    fn of(self, share: Share) -> u64 {
        match self {
            Self::Own => share.here,
            Self::WithCallees => share.total,
        }
    }
}

/// What the text shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Source lines between the instructions.
    pub with_source: bool,
    /// Leave out instructions without weight, except next to one with.
    pub only_hot: bool,
    /// What stands in front of each instruction.
    pub figure: Figure,
    /// Which weight that is of.
    pub counts: Counts,
    /// What weights are, as the heading calls it: `period` or `hits`.
    pub weights: &'static str,
    /// Whole paths of dsos and sources.
    pub full_paths: bool,
    /// The bytes of each instruction.
    pub raw_bytes: bool,
    /// First the source lines, heaviest first.
    pub line_summary: bool,
    /// Columns of the terminal that names of functions have to fit; `None` for
    /// whole names.
    pub columns: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            with_source: true,
            only_hot: false,
            figure: Figure::Local,
            counts: Counts::Own,
            weights: "period",
            full_paths: false,
            raw_bytes: false,
            line_summary: false,
            columns: None,
        }
    }
}

/// One function as text, with a column of figures for each of `views`: the
/// same function with the weights of one event each, whose `title` stands
/// above. Nothing without a view.
pub fn text(profile: &Profile, views: &[FunctionView], title: &str, options: Options) -> String {
    let Some(view) = views.first() else {
        return String::new();
    };
    let mut listing = Listing {
        profile,
        views,
        options,
        out: String::new(),
    };
    if options.line_summary {
        listing.line_summary(view);
    }
    listing.heading(view, title);
    let place = profile.function(view.host.unwrap_or(view.function));
    let start = place.start.0;
    let place = profile.name(place.name);
    let before = format!("   {start:016x} <");
    let shown = listing.name(place, listing.width() + 2 + before.len() + ">:".len());
    listing.between(&format!("{before}{shown}>:"));
    if view.host.is_some() {
        let name = profile.name(profile.function(view.function).name);
        let behind = " is inlined here";
        let name = listing.name(name, listing.width() + "   ".len() + 2 + behind.len());
        listing.between(&format!("   {name}{behind}"));
    }
    if let Some(reason) = &view.no_code {
        let reason = escape::terminal(reason).into_owned();
        listing.between(&format!("   no instructions: {reason}"));
    }
    if view.instructions.is_empty() {
        listing.source_only(view);
        return listing.out;
    }
    let mut shown_line = None;
    for (index, row) in view.instructions.iter().enumerate() {
        if options.only_hot && !listing.is_near_hot(index) {
            shown_line = None;
            continue;
        }
        if options.with_source && row.line != shown_line {
            listing.source_line(view, row, shown_line);
            shown_line = row.line;
        }
        listing.instruction(index, row, place);
    }
    listing.out
}

/// Instructions with no more than this share count for no line of the summary,
/// percent; as perf's.
const SMALLEST_IN_SUMMARY: f64 = 0.5;
/// Bytes of an instruction in a line, as objdump has them.
const BYTES_IN_LINE: usize = 7;

/// A text that grows.
struct Listing<'a> {
    profile: &'a Profile,
    views: &'a [FunctionView],
    options: Options,
    out: String,
}

impl Listing<'_> {
    fn push(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Width of all columns of figures.
    fn width(&self) -> usize {
        self.options.figure.heading().1 * self.views.len()
    }

    /// What stands in front of a place with this share.
    fn figure(&self, share: Share, view: &FunctionView) -> String {
        let function = self.weight(view.share);
        let weight = self.weight(share);
        self.options.figure.of(weight, function, view.all)
    }

    fn weight(&self, share: Share) -> u64 {
        self.options.counts.of(share)
    }

    /// A function's name, safe, in a line with so many other columns.
    fn name<'n>(&self, name: &'n str, taken: usize) -> Cow<'n, str> {
        let columns = self.options.columns;
        name_within(name, columns.map(|columns| columns.saturating_sub(taken)))
    }

    /// A line without figures.
    fn between(&mut self, text: &str) {
        let line = format!("{} :{text}", " ".repeat(self.width()));
        self.push(line.trim_end());
    }

    fn heading(&mut self, view: &FunctionView, title: &str) {
        let (profile, figure) = (self.profile, self.options.figure);
        let (word, width) = (figure.heading().0, self.width());
        let dso = profile.dso(profile.function(view.function).dso);
        let dso = if self.options.full_paths {
            dso.path
        } else {
            dso.short_name
        };
        let base = match figure {
            Figure::Global => "global",
            _ => "local",
        };
        let counted = match self.options.counts {
            Counts::Own => "",
            Counts::WithCallees => ", with what is called there",
        };
        let line = format!(
            " {word}{}|\tSource code & Disassembly of {} for {} ({:.2}% of all weight, percent: {base} {}{counted})",
            " ".repeat(width.saturating_sub(word.len())),
            escape::terminal(profile.name(dso)),
            escape::terminal(title),
            percent_of(self.weight(view.share), view.all),
            self.options.weights,
        );
        let dashes = line.chars().count() + 7;
        let dashes = "-".repeat(dashes.min(self.options.columns.unwrap_or(usize::MAX)));
        self.push(&line);
        self.push(&dashes);
    }

    fn is_near_hot(&self, index: usize) -> bool {
        let is_near = |view: &FunctionView| {
            let near = index.saturating_sub(2)..(index + 3).min(view.instructions.len());
            let rows = view.instructions.get(near).unwrap_or_default();
            rows.iter().any(|row| self.weight(row.share) > 0)
        };
        self.views.iter().any(is_near)
    }

    fn source_line(&mut self, view: &FunctionView, row: &CodeRow, shown: Option<(usize, u32)>) {
        let Some((file, line)) = row.line else { return };
        let Some(source) = view.files.get(file) else {
            return;
        };
        if shown.is_none_or(|(shown_file, _)| shown_file != file) {
            let path = escape::terminal(&source.path).into_owned();
            self.between(&format!("   {path}:"));
        }
        let text = escape::terminal(source.line(line)).into_owned();
        self.between(&format!(" {line:<6} {text}"));
    }

    fn instruction(&mut self, index: usize, row: &CodeRow, name: &str) {
        let mut line = String::new();
        for view in self.views {
            let row = view.instructions.get(index);
            line += &self.figure(row.map_or_else(Share::default, |row| row.share), view);
        }
        let one = &row.instruction;
        write!(line, " :   {:x}:   ", one.address.0).expect("writing to a String succeeds");
        let mut bytes = self.bytes_of(row);
        if let Some(first) = bytes.next() {
            write!(line, "{first:<24}").expect("writing to a String succeeds");
        }
        line += &escape::terminal(&one.text);
        let start = self.start();
        let (target, at) = match (one.flow, &row.target_name) {
            (Flow::Jump(Some(target)), _) if row.target_row.is_some() => {
                let at = format!("+{:#x}", target.0.wrapping_sub(start));
                (name, at)
            }
            (_, Some(target)) => (target.as_str(), String::new()),
            _ => ("", String::new()),
        };
        if !target.is_empty() {
            let taken = line.chars().count() + " <>".len() + at.len();
            line += &format!(" <{}{at}>", self.name(target, taken));
        }
        if let Some(data) = one.data {
            // As objdump, which has a comment there.
            line += &format!("        # {:x}", data.0);
            if let Some(name) = &row.data_name {
                let taken = line.chars().count() + " <>".len();
                line += &format!(" <{}>", self.name(name, taken));
            }
        }
        let more: Vec<String> = bytes.collect();
        self.push(&line);
        for (index, bytes) in more.iter().enumerate() {
            let at = one.address.0 + ((index + 1) * BYTES_IN_LINE) as u64;
            let none = |view| self.figure(Share::default(), view);
            let none: String = self.views.iter().map(none).collect();
            self.push(&format!("{none} :   {at:x}:   {bytes}"));
        }
    }

    /// Where the function shown starts.
    fn start(&self) -> u64 {
        let view = self.views.first();
        let function = view.map(|view| view.host.unwrap_or(view.function));
        function.map_or(0, |function| self.profile.function(function).start.0)
    }

    /// The bytes of an instruction as hex, a line's worth each; none if they
    /// are not to be shown.
    fn bytes_of(&self, row: &CodeRow) -> std::vec::IntoIter<String> {
        let view = self.views.first().filter(|_| self.options.raw_bytes);
        let at = row.instruction.address.0.wrapping_sub(self.start());
        let bytes = view.and_then(|view| {
            let at = usize::try_from(at).ok()?;
            view.code.get(at..at + usize::from(row.instruction.len))
        });
        let lines = bytes.unwrap_or_default().chunks(BYTES_IN_LINE).map(|line| {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            hex.join(" ")
        });
        lines.collect::<Vec<_>>().into_iter()
    }

    /// Lines with weight, where there are no instructions to put them between.
    fn source_only(&mut self, view: &FunctionView) {
        let profile = self.profile;
        for row in &view.lines {
            let Some(file) = view.files.get(row.file) else {
                continue;
            };
            let inlined = row.inlined.map_or(String::new(), |function| {
                format!("{}: ", profile.name(profile.function(function).name))
            });
            let of_event = |event: &FunctionView| {
                let mut rows = event.lines.iter();
                let same = rows.find(|other| {
                    let path = event.files.get(other.file).map(|file| &file.path);
                    path == Some(&file.path)
                        && (other.line, other.depth, other.inlined)
                            == (row.line, row.depth, row.inlined)
                });
                self.figure(same.map_or_else(Share::default, |row| row.share), event)
            };
            let figures: String = self.views.iter().map(of_event).collect();
            let line = format!(
                "{figures} : {}{}{}:{} {}",
                "  ".repeat(usize::from(row.depth)),
                escape::terminal(&inlined),
                escape::terminal(&file.path),
                row.line,
                escape::terminal(file.line(row.line)),
            );
            self.push(line.trim_end());
        }
    }

    /// Source lines by the weight of their instructions, heaviest first.
    fn line_summary(&mut self, view: &FunctionView) {
        let dso = self
            .profile
            .dso(self.profile.function(view.function).dso)
            .path;
        let dso = escape::terminal(self.profile.name(dso)).into_owned();
        self.push(&format!("\nSorted summary for file {dso}"));
        self.push("----------------------------------------------\n");
        let function = self.weight(view.share);
        let share = |weight: u64| percent_of(weight, function);
        let mut weights: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let counts = |row: &&CodeRow| share(self.weight(row.share)) > SMALLEST_IN_SUMMARY;
        for row in view.instructions.iter().filter(counts) {
            let line = row.line.filter(|&(_, line)| line > 0);
            if let Some(sum) = line.map(|line| weights.entry(line).or_default()) {
                *sum = sum.saturating_add(self.weight(row.share));
            }
        }
        let mut lines: Vec<_> = weights.into_iter().collect();
        lines.sort_by_key(|&(line, weight)| (Reverse(weight), line));
        if lines.is_empty() {
            self.push(&format!(" Nothing higher than {SMALLEST_IN_SUMMARY:.1}%"));
        }
        for ((file, line), weight) in lines {
            let path = view.files.get(file).map_or("", |file| &file.path);
            let last_part = path.rsplit('/').next().unwrap_or(path);
            let path = if self.options.full_paths {
                path
            } else {
                last_part
            };
            let path = escape::terminal(path);
            let share = share(weight);
            self.push(&format!(" {share:7.2} {path}:{line}"));
        }
    }
}
