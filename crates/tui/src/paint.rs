//! Putting text into the buffer.

use super::text;
use super::theme::Theme;
use prof_statistics::Interval;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Writes pieces from left to right into one row and never past it.
pub(super) struct Pen<'a> {
    buffer: &'a mut Buffer,
    theme: &'a Theme,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> Pen<'a> {
    /// At the start of row `row` of an area; writes nothing if there is none.
    pub(super) fn new(buffer: &'a mut Buffer, theme: &'a Theme, area: Rect, row: u16) -> Self {
        let area = area.intersection(buffer.area);
        let is_inside = row < area.height;
        Self {
            buffer,
            theme,
            x: area.x,
            y: area.y.saturating_add(row),
            end: if is_inside { area.right() } else { area.x },
        }
    }

    /// Columns left in the row.
    pub(super) fn room(&self) -> usize {
        usize::from(self.end.saturating_sub(self.x))
    }

    /// A name or text, made harmless, cut to what is left.
    pub(super) fn put(&mut self, words: &str, style: Style) -> &mut Self {
        let cut = text::fit(words, self.room(), self.theme.glyphs.ellipsis);
        self.raw(&cut, style)
    }

    /// A function's name, made harmless; type and method stay longest.
    pub(super) fn symbol(&mut self, name: &str, style: Style) -> &mut Self {
        self.symbol_within(name, self.room(), style)
    }

    /// [`Self::symbol`] in at most `width` columns.
    pub(super) fn symbol_within(&mut self, name: &str, width: usize, style: Style) -> &mut Self {
        let width = width.min(self.room());
        let short = text::symbol(name, width, self.theme.glyphs.ellipsis);
        self.raw(&short, style)
    }

    /// A path, made harmless, in what is left less `behind` columns; its end
    /// stays longest.
    pub(super) fn path(&mut self, path: &str, behind: usize, style: Style) -> &mut Self {
        let width = self.room().saturating_sub(behind);
        let short = text::path(path, width, self.theme.glyphs.ellipsis);
        self.raw(&short, style)
    }

    /// A text in exactly `width` columns, filled with spaces.
    pub(super) fn cell(&mut self, words: &str, width: usize, style: Style) -> &mut Self {
        let width = width.min(self.room());
        let filled = text::fill(words, width, self.theme.glyphs.ellipsis);
        self.raw(&filled, style)
    }

    /// A text at the right end of `width` columns.
    pub(super) fn right(&mut self, words: &str, width: usize, style: Style) -> &mut Self {
        let free = width.saturating_sub(text::width(words)).min(self.room());
        self.raw(&" ".repeat(free), style);
        self.put(words, style)
    }

    /// Spaces.
    pub(super) fn gap(&mut self, columns: usize) -> &mut Self {
        let columns = columns.min(self.room());
        self.raw(&" ".repeat(columns), Style::new())
    }

    /// A bar of `part / whole` in `width` columns, which goes on lightly up
    /// to `all / whole`.
    pub(super) fn bar(&mut self, part: u64, all: u64, whole: u64, width: usize) -> &mut Self {
        let style = self.theme.bar();
        let mut drawn = bar(part, whole, width, self.theme.glyphs.bar);
        let light = bar(all, whole, width, &[self.theme.glyphs.light_bar]);
        let used = text::width(&drawn);
        drawn.extend(light.chars().skip(used));
        self.cell(&drawn, width, style)
    }

    /// Gives the rest of the row a style.
    pub(super) fn fill(&mut self, style: Style) {
        let rest = " ".repeat(self.room());
        self.raw(&rest, style);
    }

    fn raw(&mut self, harmless: &str, style: Style) -> &mut Self {
        let room = self.room();
        if room > 0 {
            (self.x, _) = self
                .buffer
                .set_stringn(self.x, self.y, harmless, room, style);
        }
        self
    }
}

/// A bar in parts of a cell: `parts` are the glyphs from one part to full.
pub(super) fn bar(part: u64, whole: u64, width: usize, parts: &[&'static str]) -> String {
    if whole == 0 || parts.is_empty() {
        return String::new();
    }
    let steps = (width * parts.len()) as u128;
    let filled = (u128::from(part.min(whole)) * steps).div_ceil(u128::from(whole));
    let filled = usize::try_from(filled).unwrap_or(0);
    let full = parts.last().copied().unwrap_or_default();
    let mut text = full.repeat(filled / parts.len());
    if let Some(rest) = (filled % parts.len()).checked_sub(1) {
        text.push_str(parts.get(rest).copied().unwrap_or_default());
    }
    text
}

/// Gives a row of an area a style on top of what is drawn there.
pub(super) fn style_row(buffer: &mut Buffer, area: Rect, row: u16, style: Style) {
    if row < area.height {
        let line = Rect {
            y: area.y + row,
            height: 1,
            ..area
        };
        buffer.set_style(line, style);
    }
}

/// `12.34%`, right-aligned in 7 columns.
pub(super) fn percent(value: f64) -> String {
    format!("{value:6.2}%")
}

/// Where sampling the same run again would find a share, in percent without a
/// sign.
pub(super) fn between(interval: Interval) -> String {
    let interval = interval.scaled(100.0);
    format!("{:.1}-{:.1}", interval.low, interval.high)
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn a_bar_shows_something_for_anything() {
        let parts = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
        assert_eq!(bar(1, 1000, 4, &parts), "▏");
        assert_eq!(bar(1, 2, 4, &parts), "██");
        assert_eq!(bar(5, 16, 4, &parts), "█▎");
        assert_eq!(bar(9, 9, 4, &["#"]), "####");
        assert_eq!(bar(0, 9, 4, &["#"]), "");
        assert_eq!(bar(3, 0, 4, &["#"]), "");
    }
}
