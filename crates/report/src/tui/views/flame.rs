//! The flame graph: every stack at once, a frame as wide as its share.

use super::View;
use crate::model::{NodeId, SiteId};
use crate::tui::action::Action;
use crate::tui::app::{App, Selected};
use crate::tui::data::{Found, Seen};
use crate::tui::flame_layout::{Cell, Layout};
use crate::tui::frame::share;
use crate::tui::paint::Pen;
use crate::tui::text;
use crate::tui::theme::Kind;
use prof_profile::FunctionId;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Where the roots are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Roots {
    /// At the top: an icicle graph.
    #[default]
    Top,
    /// At the bottom: flames.
    Bottom,
}

/// The tab.
#[derive(Debug, Default)]
pub(in crate::tui) struct Flame {
    roots: Roots,
    /// The frame that has the whole width, from a root; empty for all.
    zoom: Vec<NodeId>,
    /// Zooms before.
    before: Vec<Vec<NodeId>>,
    /// The frame under the cursor, from a root.
    cursor: Vec<NodeId>,
    /// First row shown.
    top: usize,
    /// What to zoom into when new data come.
    wanted: Option<FunctionId>,
}

/// Deeper frames are not laid out: no screen scrolls that far.
const DEPTH: usize = 4096;

impl Flame {
    /// New data: nodes have new numbers, so zooms end.
    pub(in crate::tui) fn renew(app: &mut App) {
        let flame = &mut app.flame;
        flame.zoom.clear();
        flame.before.clear();
        flame.cursor.clear();
        flame.top = 0;
        let Some(seen) = &app.seen else { return };
        flame.cursor = seen
            .tree
            .children(NodeId::ROOT)
            .first()
            .copied()
            .into_iter()
            .collect();
        if let Some(function) = flame.wanted.take() {
            Self::open(app, function);
        }
    }

    /// Shows the heaviest frame of a function.
    pub(in crate::tui) fn open(app: &mut App, function: FunctionId) {
        let Some(seen) = &app.seen else { return };
        let mut heaviest: Option<NodeId> = None;
        seen.tree.walk(|node| {
            let is_it = seen
                .site_at(node)
                .is_some_and(|site| seen.site(site).function == function);
            let weight = |node: NodeId| seen.tree.total(node).period;
            if is_it && heaviest.is_none_or(|best| weight(node) > weight(best)) {
                heaviest = Some(node);
            }
        });
        let path = heaviest.map(|node| seen.path(node));
        app.show(View::Flame);
        match path {
            Some(path) => {
                app.flame.cursor = path;
                app.flame.zoom_to_see();
                Self::settle(app);
            }
            None => app.say("it is in no stack of this selection"),
        }
    }

    /// Zooms so far in that the cursor's frame has a cell.
    fn zoom_to_see(&mut self) {
        let parents = self.cursor.len().saturating_sub(1);
        if !self.cursor.starts_with(&self.zoom) {
            self.before.push(std::mem::take(&mut self.zoom));
            self.zoom = self.cursor.get(..parents).unwrap_or_default().to_vec();
        }
    }

    fn layout(&self, seen: &Seen, columns: u16) -> Layout {
        Layout::new(&*seen.tree, &self.zoom, columns, DEPTH)
    }

    /// The layout down to what the screen shows.
    fn layout_of(app: &App) -> Option<Layout> {
        let seen = app.seen.as_ref()?;
        Some(app.flame.layout(seen, app.area.width))
    }

    pub(in crate::tui) fn selected(&self, app: &App) -> Selected {
        let site = self
            .cursor
            .last()
            .and_then(|&node| app.seen.as_ref()?.site_at(node));
        Selected { site, task: None }
    }

    /// The zoom before; whether there was one.
    pub(in crate::tui) fn zoom_out(app: &mut App) -> bool {
        if app.view != View::Flame {
            return false;
        }
        let flame = &mut app.flame;
        let before = flame.before.pop();
        let has_zoom = before.is_some() || !flame.zoom.is_empty();
        flame.zoom = before.unwrap_or_default();
        Self::settle(app);
        has_zoom
    }

    pub(in crate::tui) fn wheel(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows);
    }

    pub(in crate::tui) fn act(app: &mut App, action: Action) {
        let towards_leaves = match app.flame.roots {
            Roots::Top => Action::Down,
            Roots::Bottom => Action::Up,
        };
        match action {
            Action::Invert => {
                app.flame.roots = match app.flame.roots {
                    Roots::Top => Roots::Bottom,
                    Roots::Bottom => Roots::Top,
                };
            }
            Action::Enter => Self::zoom_in(app),
            Action::Up | Action::Down if action == towards_leaves => Self::deeper(app),
            Action::Up | Action::Down => {
                let callers = app.flame.cursor.len().saturating_sub(1).max(1);
                app.flame.cursor.truncate(callers);
            }
            Action::Left => Self::sideways(app, -1),
            Action::Right => Self::sideways(app, 1),
            Action::PageDown => (0..10).for_each(|_| Self::deeper(app)),
            Action::PageUp => {
                let len = app.flame.cursor.len().saturating_sub(10).max(1);
                app.flame.cursor.truncate(len);
            }
            Action::Home => app.flame.cursor.truncate(1),
            Action::End => (0..DEPTH).for_each(|_| Self::deeper(app)),
            _ => {}
        }
        Self::settle(app);
    }

    fn zoom_in(app: &mut App) {
        let flame = &mut app.flame;
        if flame.zoom == flame.cursor {
            flame.before.push(std::mem::take(&mut flame.zoom));
        } else {
            let before = std::mem::replace(&mut flame.zoom, flame.cursor.clone());
            flame.before.push(before);
        }
    }

    /// To the hottest callee.
    fn deeper(app: &mut App) {
        let Some(seen) = &app.seen else { return };
        let at = app.flame.cursor.last().copied().unwrap_or(NodeId::ROOT);
        app.flame.cursor.extend(seen.tree.children(at).first());
    }

    /// To the neighbour in the same row.
    fn sideways(app: &mut App, step: isize) {
        let Some(layout) = Self::layout_of(app) else {
            return;
        };
        let Some((row, index)) = layout.find(&app.flame.cursor) else {
            return;
        };
        let next = index.saturating_add_signed(step);
        let has_next = layout.rows.get(row).is_some_and(|cells| next < cells.len());
        if has_next {
            app.flame.cursor = layout.path(row, next);
        }
    }

    /// Scrolls such that the cursor is on the screen.
    fn settle(app: &mut App) {
        let height = usize::from(crate::tui::frame::layout(app).body.height).max(1);
        let flame = &mut app.flame;
        let row = flame.cursor.len().saturating_sub(1);
        flame.top = flame.top.min(row).max((row + 1).saturating_sub(height));
    }

    pub(in crate::tui) fn click(app: &mut App, column: u16, row: u16) {
        let height = crate::tui::frame::layout(app).body.height;
        let Some(layout) = Self::layout_of(app) else {
            return;
        };
        let row = match app.flame.roots {
            Roots::Top => row,
            Roots::Bottom => height.saturating_sub(1 + row),
        };
        let row = usize::from(row) + app.flame.top;
        let Some((index, _)) = layout.at(row, column) else {
            return;
        };
        let path = layout.path(row, index);
        if app.flame.cursor == path {
            Self::zoom_in(app);
        }
        app.flame.cursor = path;
    }

    /// The next cell that matches, row by row.
    pub(in crate::tui) fn find(app: &mut App, found: &Found, forwards: bool) -> bool {
        let (Some(layout), Some(seen)) = (Self::layout_of(app), app.seen.clone()) else {
            return false;
        };
        let here = layout.find(&app.flame.cursor);
        let mut hits: Vec<(usize, usize)> = Vec::new();
        for (row, cells) in layout.rows.iter().enumerate() {
            for (index, cell) in cells.iter().enumerate() {
                let is_hit = seen
                    .site_at(cell.node)
                    .is_some_and(|site| found.holds(site));
                if is_hit && Some((row, index)) != here {
                    hits.push((row, index));
                }
            }
        }
        let split = hits.partition_point(|&hit| Some(hit) < here);
        let next = if forwards {
            hits.get(split).or(hits.first())
        } else {
            split
                .checked_sub(1)
                .and_then(|at| hits.get(at))
                .or(hits.last())
        };
        let Some(&(row, index)) = next else {
            return false;
        };
        app.flame.cursor = layout.path(row, index);
        Self::settle(app);
        true
    }

    /// Share of the selected frame, and of its function wherever it is.
    pub(in crate::tui) fn detail(&self, app: &App) -> Option<String> {
        let seen = app.seen.as_ref()?;
        let &node = self.cursor.last()?;
        let mut words = format!("here {}", share(app, seen.tree.total(node)).trim());
        let key = seen.key(seen.site_at(node)?);
        let total = seen.hot.iter().find(|hot| seen.key(hot.site) == key);
        if let Some(hot) = total {
            words.push_str(&format!(", everywhere {}", share(app, hot.total).trim()));
            words.push_str(&format!(", self {}", share(app, hot.own).trim()));
        }
        let layout = Self::layout_of(app)?;
        let (row, index) = layout.find(&self.cursor)?;
        let cell = layout.rows.get(row)?.get(index)?;
        if cell.is_merged() {
            words.push_str(&format!(
                " (one cell for {} frames, together {:.2}%)",
                cell.frames,
                percent_of(cell.weight, app.whole().period),
            ));
        }
        if cell.beside.frames > 0 {
            words.push_str(&format!(
                " (+{} narrower beside it, {:.2}%)",
                cell.beside.frames,
                percent_of(cell.beside.weight, app.whole().period),
            ));
        }
        Some(words)
    }

    pub(in crate::tui) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
        let (flame, Some(seen)) = (&app.flame, &app.seen) else {
            return;
        };
        let layout = flame.layout(seen, area.width);
        let marked = flame
            .cursor
            .last()
            .and_then(|&node| seen.key(seen.site_at(node)?));
        let here = layout.find(&flame.cursor);
        for at in 0..area.height {
            let row = usize::from(at) + flame.top;
            let Some(cells) = layout.rows.get(row) else {
                break;
            };
            let y = match flame.roots {
                Roots::Top => at,
                Roots::Bottom => area.height - 1 - at,
            };
            for (index, cell) in cells.iter().enumerate() {
                let look = CellLook {
                    is_cursor: here == Some((row, index)),
                    is_marked: marked.is_some()
                        && seen.site_at(cell.node).and_then(|site| seen.key(site)) == marked,
                    is_caller: row + 1 < flame.zoom.len(),
                    is_odd: index % 2 == 1,
                };
                draw_cell(app, seen, area, y, cell, look, buffer);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn percent_of(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

/// At the end of a frame beside which there are narrower ones.
const MORE: &str = "+";

/// How a cell stands out.
#[derive(Clone, Copy)]
struct CellLook {
    is_cursor: bool,
    /// It is the function under the cursor.
    is_marked: bool,
    /// It is a caller of the zoomed frame.
    is_caller: bool,
    is_odd: bool,
}

fn draw_cell(
    app: &App,
    seen: &Seen,
    area: Rect,
    y: u16,
    cell: &Cell,
    look: CellLook,
    buffer: &mut Buffer,
) {
    let theme = &app.theme;
    let Some(id) = seen.site_at(cell.node) else {
        return;
    };
    let place = Rect {
        x: area.x + cell.left,
        y: area.y + y,
        width: cell.right.saturating_sub(cell.left),
        height: 1,
    };
    let style = cell_style(app, seen, id, cell, look);
    if cell.is_merged() {
        let mut pen = Pen::new(buffer, theme, place, 0);
        let merged = theme.glyphs.merged.repeat(pen.room());
        pen.put(&merged, style);
        return;
    }
    let site = seen.site(id);
    let kind = Kind::of(&seen.profile, site);
    let name = site.name(&seen.profile);
    let sign = if kind == Kind::User { "" } else { kind.sign() };
    // Its last column tells of those beside it.
    let has_more = cell.beside.frames > 0;
    let more = Rect {
        x: place.right().saturating_sub(1),
        width: u16::from(has_more),
        ..place
    };
    let mut pen = Pen::new(
        buffer,
        theme,
        Rect {
            width: place.width - more.width,
            ..place
        },
        0,
    );
    let edge = if look.is_cursor {
        theme.glyphs.cursor
    } else {
        theme.glyphs.edge
    };
    let room = pen.room();
    pen.put(edge, style);
    // A name needs room to mean something.
    if room >= 4 {
        let label = if text::width(sign) + 6 < room {
            format!("{sign}{name}")
        } else {
            name.into()
        };
        pen.symbol(&label, style);
        if look.is_marked && !look.is_cursor && pen.room() > 3 {
            pen.put(" *", style);
        }
    }
    pen.fill(style);
    Pen::new(buffer, theme, more, 0).put(MORE, style);
}

fn cell_style(app: &App, seen: &Seen, id: SiteId, cell: &Cell, look: CellLook) -> Style {
    let theme = &app.theme;
    let site = seen.site(id);
    let kind = Kind::of(&seen.profile, site);
    if look.is_cursor {
        return theme.cursor_cell();
    }
    let is_found = app
        .search
        .found
        .as_ref()
        .is_some_and(|found| found.holds(id));
    if is_found && !cell.is_merged() {
        return theme.found();
    }
    let shade = site.dso.0.wrapping_mul(2) + u32::from(look.is_odd);
    let mut style = theme.flame(kind, shade);
    if look.is_marked {
        style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    }
    if look.is_caller {
        style = style.add_modifier(Modifier::DIM);
    }
    style
}
