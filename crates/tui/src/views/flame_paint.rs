//! How frames of the flame graph look.

use super::flame_view::FlameView;
use crate::flame_layout::{Cell, CellPart, Spot};
use crate::paint::Pen;
use crate::shared::Shared;
use crate::text;
use crate::theme::Kind;
use prof_report::model::{Changed, NodeId, SiteId};
use prof_statistics::Verdict;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// At the end of a frame beside which there are narrower ones.
const MORE: &str = "+";

/// Draws cells of a graph.
pub(super) struct Painter<'a> {
    shared: &'a Shared,
    place: &'a FlameView<'a>,
    /// The function under the cursor, by its key.
    marked: Option<u32>,
}

/// How a cell stands out.
#[derive(Clone, Copy)]
struct CellLook {
    is_cursor: bool,
    is_found: bool,
    /// It is the function under the cursor.
    is_marked: bool,
    /// It is a caller of the zoomed frame.
    is_caller: bool,
    is_odd: bool,
    /// It stands for several frames that are too narrow for cells.
    is_merged: bool,
    /// What changed in it, of two recordings.
    changed: Option<Changed>,
}

impl<'a> Painter<'a> {
    /// `under` is the frame under the cursor.
    pub(super) fn new(shared: &'a Shared, place: &'a FlameView<'a>, under: Option<NodeId>) -> Self {
        let key = |node| place.seen.key(place.seen.site_at(node)?);
        let marked = under.and_then(key);
        Self {
            shared,
            place,
            marked,
        }
    }

    /// Draws a cell and what is beside it into its row.
    pub(super) fn draw(&self, spot: Spot, is_caller: bool, row: Rect, buffer: &mut Buffer) {
        let seen = self.place.seen;
        let Some(&cell) = self.place.layout.cell(spot) else {
            return;
        };
        let Some(id) = seen.site_at(cell.node) else {
            return;
        };
        let width = cell.right.saturating_sub(cell.left);
        let more = u16::from(cell.beside.frames > 0);
        let look = CellLook {
            is_cursor: self.place.cursor == Some(spot),
            is_found: self.is_found(spot),
            is_marked: self.marked.is_some() && seen.key(id) == self.marked,
            is_caller,
            is_odd: spot.index % 2 == 1,
            is_merged: cell.is_merged(),
            changed: self.changed(&cell),
        };
        let area = Rect {
            x: row.x + cell.left,
            width: width.saturating_sub(more),
            ..row
        };
        let pen = Pen::new(buffer, &self.shared.theme, area, 0);
        self.put_cell(id, look, pen);
        if more > 0 {
            let beside = Spot {
                part: CellPart::Beside,
                ..spot
            };
            // The only column of a cell is for both.
            let is_only = width == more;
            let look = CellLook {
                is_cursor: self.place.cursor == Some(beside) || (is_only && look.is_cursor),
                is_found: self.is_found(beside) || (is_only && look.is_found),
                ..look
            };
            let area = Rect {
                x: area.right(),
                width: more,
                ..row
            };
            let sign = if look.is_cursor {
                self.shared.theme.glyphs.cursor
            } else {
                MORE
            };
            Pen::new(buffer, &self.shared.theme, area, 0).put(sign, self.style(id, look));
        }
    }

    /// What changed in a frame; of merged ones it is not told.
    fn changed(&self, cell: &Cell) -> Option<Changed> {
        let changes = self.shared.changes.as_ref()?;
        let mut changed = *changes.paths.get(cell.node.index())?;
        if cell.is_merged() {
            changed.verdict = Verdict::Undecided { needs: None };
        }
        Some(changed)
    }

    fn is_found(&self, spot: Spot) -> bool {
        let found = self.shared.search.found.as_ref();
        found.is_some_and(|found| self.place.has_match(found, spot))
    }

    fn put_cell(&self, id: SiteId, look: CellLook, mut pen: Pen<'_>) {
        let (glyphs, seen) = (self.shared.theme.glyphs, self.place.seen);
        let style = self.style(id, look);
        if look.is_merged {
            if look.is_cursor {
                pen.put(glyphs.cursor, style);
            }
            pen.put(&glyphs.merged.repeat(pen.room()), style);
            return;
        }
        let site = seen.site(id);
        let kind = Kind::of(&seen.profile, site);
        let name = site.name(&seen.profile);
        let sign = if kind == Kind::User { "" } else { kind.sign() };
        let edge = if look.is_cursor {
            glyphs.cursor
        } else {
            glyphs.edge
        };
        let room = pen.room();
        pen.put(edge, style);
        // A name needs room to mean something.
        if room >= 4 {
            if text::width(sign) + 6 < room {
                pen.put(sign, style);
            }
            let more = match look.changed.map(|changed| changed.verdict) {
                Some(Verdict::Slower) => "+",
                Some(Verdict::Faster) => "-",
                _ => "",
            };
            pen.put(more, style);
            pen.symbol(name, style);
            if look.is_marked && !look.is_cursor && pen.room() > 3 {
                pen.put(" *", style);
            }
        }
        pen.fill(style);
    }

    fn style(&self, id: SiteId, look: CellLook) -> Style {
        let theme = &self.shared.theme;
        if look.is_cursor {
            return theme.cursor_cell();
        }
        if look.is_found {
            return theme.found();
        }
        let site = self.place.seen.site(id);
        let kind = Kind::of(&self.place.seen.profile, site);
        let shade = site.dso.0.wrapping_mul(2) + u32::from(look.is_odd);
        let mut style = match &look.changed {
            Some(changed) => theme.changed_frame(changed),
            None => theme.flame(kind, shade),
        };
        if look.is_marked {
            style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        }
        if look.is_caller {
            style = style.add_modifier(Modifier::DIM);
        }
        style
    }
}
