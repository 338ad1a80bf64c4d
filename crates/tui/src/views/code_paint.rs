//! How source and instructions of a function look.

use super::code_rows::{CodeLine, Jump, LANES, absent_line, has_own, share, weight, words};
use crate::paint::{Pen, percent};
use crate::shared::Shared;
use crate::theme::Kind;
use prof_profile::Profile;
use prof_report::code::{FunctionView, SourceRow};
use prof_report::model::percent_of;
use ratatui::style::Style;

/// Keys of the view, behind the heading.
const HINT: &str = " (Tab: next hottest, s: source)";
/// Columns of the heading that the function's name has at least.
const LEAST_NAME: usize = 20;

/// Draws the rows of a function.
pub(super) struct Painter<'a> {
    /// The row of the cursor.
    pub(super) cursor: usize,
    pub(super) jumps: &'a [Jump],
    pub(super) shared: &'a Shared,
    pub(super) profile: &'a Profile,
    pub(super) view: &'a FunctionView,
}

impl Painter<'_> {
    /// Names the function, with its weight.
    pub(super) fn draw_heading(&self, mut pen: Pen<'_>) {
        let (theme, profile, view) = (&self.shared.theme, self.profile, self.view);
        let name = profile.name(profile.function(view.function).name);
        let heading = match has_own(view) {
            true => "Of self",
            false => "Of all",
        };
        pen.right(heading, 7, theme.dim()).gap(1);
        let whole = self.shared.whole().period;
        let mut words = format!(
            ": self {}, total {}",
            percent(percent_of(view.share.here, whole)).trim(),
            percent(percent_of(view.share.total, whole)).trim(),
        );
        if view.other_build.total > 0 {
            let share = percent(percent_of(view.other_build.here, whole));
            words.push_str(&format!("; self {} in another build", share.trim()));
        }
        // Where it would be cut, it says nothing.
        let least = name.chars().take(LEAST_NAME).count();
        if pen.room() >= least + words.len() + HINT.len() {
            words.push_str(HINT);
        }
        let room = pen.room().saturating_sub(words.len());
        let each = room.max(LEAST_NAME) / if view.host.is_some() { 2 } else { 1 };
        pen.symbol_within(name, each, theme.heading());
        if let Some(host) = view.host {
            let host = profile.name(profile.function(host).name);
            pen.put(" in ", theme.dim());
            pen.symbol_within(host, each.saturating_sub(4), theme.heading());
        }
        pen.put(&words, theme.heading());
    }

    /// Draws row number `index`.
    pub(super) fn draw_row(&self, index: usize, row: CodeLine, mut pen: Pen<'_>) {
        let theme = &self.shared.theme;
        self.draw_share(row, &mut pen);
        pen.gap(1);
        let words = words(self.view, row);
        match row {
            CodeLine::File(file) => {
                let file = self.view.files.get(file);
                let remark = file.and_then(|file| file.remark());
                let remark = remark.map_or_else(String::new, |remark| format!(" ({remark})"));
                pen.path(&words, remark.len(), theme.heading())
                    .put(&remark, theme.dim());
            }
            CodeLine::Line(_, line, _) => {
                pen.right(&line.to_string(), 6, theme.dim())
                    .gap(1)
                    .put(&words, theme.source());
            }
            CodeLine::Source(at) => {
                if let Some(line) = self.view.lines.get(at) {
                    self.draw_source(line, &words, &mut pen);
                }
            }
            CodeLine::Instruction(at) => self.draw_instruction(index, at, &words, &mut pen),
            CodeLine::NoLines => {
                pen.put(&words, theme.warning());
            }
            CodeLine::NoCode => {
                pen.put("no instructions: ", theme.warning())
                    .put(&words, theme.warning());
            }
        }
    }

    fn draw_share(&self, row: CodeLine, pen: &mut Pen<'_>) {
        let theme = &self.shared.theme;
        let weight = |share| weight(self.view, share);
        let here = share(self.view, row).map_or(0, weight);
        if here == 0 {
            pen.gap(7);
            return;
        }
        let value = percent_of(here, weight(self.view.share));
        let style = if matches!(row, CodeLine::Line(..)) {
            theme.dim()
        } else {
            theme.share(value)
        };
        pen.put(&percent(value), style);
    }

    /// A source line, behind the name of what is inlined at it.
    fn draw_source(&self, line: &SourceRow, words: &str, pen: &mut Pen<'_>) {
        let (theme, profile) = (&self.shared.theme, self.profile);
        pen.right(&line.line.to_string(), 6, theme.dim()).gap(1);
        pen.gap(usize::from(line.depth) * 2);
        if let Some(function) = line.inlined {
            let name = profile.name(profile.function(function).name);
            let kind = Kind::Inlined;
            pen.put(kind.sign(), theme.kind(kind)).gap(1);
            let room = pen.room() / 2;
            pen.symbol_within(name, room, theme.kind(kind));
            pen.put(": ", theme.kind(kind));
        }
        pen.put(words, theme.source());
    }

    /// Instruction `at` in row `index`: address, arrows, text.
    fn draw_instruction(&self, index: usize, at: usize, words: &str, pen: &mut Pen<'_>) {
        let (theme, view) = (&self.shared.theme, self.view);
        let row = view.instructions.get(at);
        let address = row.map_or(0, |row| row.instruction.address.0);
        pen.right(&format!("{address:x}"), 12, theme.dim()).gap(1);
        self.draw_lanes(index, pen);
        pen.put(words, Style::new());
        let place = absent_line(view, at).and_then(|(file, line)| {
            let path = &view.files.get(file)?.path;
            let name = path.rsplit('/').next().unwrap_or(path);
            Some(format!("  {name}:{line}"))
        });
        pen.put(&place.unwrap_or_default(), theme.dim());
    }

    /// The arrows that pass or end at a row. The selected jump stands out.
    fn draw_lanes(&self, row: usize, pen: &mut Pen<'_>) {
        let theme = &self.shared.theme;
        let glyphs = theme.glyphs;
        let cursor = self.cursor;
        let mut cells = [(" ", Style::new()); LANES + 1];
        for jump in self.jumps {
            let (first, last) = jump.span();
            if !(first..=last).contains(&row) {
                continue;
            }
            let is_selected = jump.from == cursor || jump.to == cursor;
            let style = if is_selected {
                theme.key()
            } else {
                theme.dim()
            };
            let column = LANES - 1 - jump.lane;
            let glyph = if row == first {
                glyphs.corner_down
            } else if row == last {
                glyphs.corner_up
            } else {
                glyphs.vertical
            };
            let is_end = row == first || row == last;
            for (at, cell) in cells.iter_mut().enumerate().skip(column) {
                if at == column {
                    *cell = (glyph, style);
                } else if is_end && (cell.0 == " " || is_selected) {
                    let tip = if at == LANES && row == jump.to {
                        glyphs.arrow
                    } else {
                        glyphs.horizontal
                    };
                    *cell = (tip, style);
                }
            }
        }
        for (glyph, style) in cells {
            pen.put(glyph, style);
        }
        pen.gap(1);
    }
}
