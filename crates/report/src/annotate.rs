//! `prof annotate`: the code of a function as text, laid out like
//! `perf annotate --stdio`.

use crate::code::{CodeRow, Flow, FunctionView};
use crate::escape;
use crate::model::percent_of;
use prof_profile::Profile;
use std::fmt::Write;

/// What the text shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Source lines between the instructions.
    pub with_source: bool,
    /// Leave out instructions without weight, except next to one with.
    pub only_hot: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            with_source: true,
            only_hot: false,
        }
    }
}

/// The view as text. Percentages are of the function's own weight, as perf's.
pub fn text(profile: &Profile, view: &FunctionView, event: &str, options: Options) -> String {
    let mut out = String::new();
    let function = profile.function(view.function);
    let name = escape::terminal(profile.name(function.name)).into_owned();
    let dso = escape::terminal(profile.name(profile.dso(function.dso).short_name)).into_owned();
    let title = format!(
        " Percent |\tSource code & Disassembly of {dso} for {} ({:.2}% of all weight, percent: local period)",
        escape::terminal(event),
        percent_of(view.share.here, view.all),
    );
    push(&mut out, &title);
    push(&mut out, &"-".repeat(title.chars().count() + 7));
    let place = profile.function(view.host.unwrap_or(view.function));
    let start = place.start.0;
    let place = escape::terminal(profile.name(place.name)).into_owned();
    push(&mut out, &format!("         :   {start:016x} <{place}>:"));
    if view.host.is_some() {
        push(&mut out, &format!("         :   {name} is inlined here"));
    }
    if let Some(reason) = &view.no_code {
        push(
            &mut out,
            &format!("         :   no instructions: {}", escape::terminal(reason)),
        );
    }
    if view.instructions.is_empty() {
        source_only(&mut out, profile, view);
        return out;
    }
    let mut shown_line = None;
    for (index, row) in view.instructions.iter().enumerate() {
        if options.only_hot && !is_near_hot(view, index) {
            shown_line = None;
            continue;
        }
        if options.with_source && row.line != shown_line {
            source_line(&mut out, view, row, shown_line);
            shown_line = row.line;
        }
        instruction(&mut out, view, row, &place, start);
    }
    out
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn is_near_hot(view: &FunctionView, index: usize) -> bool {
    let near = index.saturating_sub(2)..(index + 3).min(view.instructions.len());
    let rows = view.instructions.get(near).unwrap_or_default();
    rows.iter().any(|row| row.share.here > 0)
}

fn source_line(out: &mut String, view: &FunctionView, row: &CodeRow, shown: Option<(usize, u32)>) {
    let Some((file, line)) = row.line else { return };
    let Some(source) = view.files.get(file) else {
        return;
    };
    if shown.is_none_or(|(shown_file, _)| shown_file != file) {
        let path = escape::terminal(&source.path).into_owned();
        push(out, &format!("         :   {path}:"));
    }
    let text = source.line(line);
    let text = format!("         : {line:<6} {}", escape::terminal(text));
    push(out, text.trim_end());
}

fn instruction(out: &mut String, view: &FunctionView, row: &CodeRow, name: &str, start: u64) {
    let one = &row.instruction;
    let mut line = format!(
        "{:8.2} :   {:x}:   {}",
        percent_of(row.share.here, view.share.here),
        one.address.0,
        escape::terminal(&one.text)
    );
    let written = match (one.flow, &row.target_name) {
        (Flow::Jump(Some(target)), _) if row.target_row.is_some() => {
            write!(line, " <{name}+{:#x}>", target.0.wrapping_sub(start))
        }
        (_, Some(target)) => write!(line, " <{}>", escape::terminal(target)),
        _ => Ok(()),
    };
    written.expect("writing to a String succeeds");
    push(out, &line);
}

/// Lines with weight, where there are no instructions to put them between.
fn source_only(out: &mut String, profile: &Profile, view: &FunctionView) {
    for row in &view.lines {
        let Some(file) = view.files.get(row.file) else {
            continue;
        };
        let inlined = row.inlined.map_or(String::new(), |function| {
            format!("{}: ", profile.name(profile.function(function).name))
        });
        let line = format!(
            "{:8.2} : {}{}{}:{} {}",
            percent_of(row.share.here, view.share.here),
            "  ".repeat(usize::from(row.depth)),
            escape::terminal(&inlined),
            escape::terminal(&file.path),
            row.line,
            escape::terminal(file.line(row.line)),
        );
        push(out, line.trim_end());
    }
}
