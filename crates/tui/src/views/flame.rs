//! The flame graph: every stack at once, a frame as wide as its share.

use super::View;
use super::flame_paint::Painter;
use crate::action::Action;
use crate::app::{App, Selected};
use crate::data::{Found, Seen};
use crate::flame_layout::{Layout, Part, Spot};
use crate::frame::share;
use crate::memory::Trail;
use prof_profile::FunctionId;
use prof_report::model::{NodeId, percent_of};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

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
pub(crate) struct Flame {
    roots: Roots,
    /// The frame that has the whole width, from a root; empty for all.
    zoom: Vec<NodeId>,
    /// Zooms before.
    before: Vec<Vec<NodeId>>,
    /// The frame under the cursor, from a root.
    cursor: Vec<NodeId>,
    /// First row shown.
    top: usize,
    zoom_trail: Trail,
    cursor_trail: Trail,
}

/// Deeper frames are not laid out: no screen scrolls that far.
const DEPTH: usize = 4096;

impl Flame {
    /// New data: zoom and cursor stay, by name.
    pub(crate) fn renew(app: &mut App, before: Option<&Seen>) {
        let Some(seen) = &app.seen else { return };
        let flame = &mut app.flame;
        if let Some(before) = before {
            flame.zoom_trail.remember(before, &flame.zoom);
            flame.cursor_trail.remember(before, &flame.cursor);
        }
        flame.before.clear();
        flame.zoom = flame.zoom_trail.find(seen);
        flame.cursor = flame.cursor_trail.find(seen);
        if flame.cursor.is_empty() {
            let outermost = seen.tree.children(NodeId::ROOT);
            flame.cursor = outermost.first().copied().into_iter().collect();
        }
        flame.zoom_trail.set(&flame.zoom);
        flame.cursor_trail.set(&flame.cursor);
        Self::settle(app);
    }

    /// Shows the heaviest frame of a function.
    pub(crate) fn open(app: &mut App, function: FunctionId) {
        let Some(seen) = app.seen.clone() else { return };
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
                app.flame.zoom_to_see(&seen, app.area.width);
                Self::settle(app);
            }
            None => app.say("it is in no stack of this selection"),
        }
    }

    /// Zooms so far in that the cursor's frame has a cell of its own.
    fn zoom_to_see(&mut self, seen: &Seen, columns: u16) {
        let callers = self.cursor.len().saturating_sub(1);
        let callers = self.cursor.get(..callers).unwrap_or_default();
        let ways = [&self.zoom, callers, &self.cursor];
        let is_seen = |zoom: &&[NodeId]| {
            let place = Place::new(seen, zoom, columns, &self.cursor);
            place.cursor.is_some_and(|spot| place.is_alone(spot))
        };
        let zoom = ways.into_iter().find(is_seen).unwrap_or(&self.cursor);
        if *zoom != *self.zoom {
            let zoom = zoom.to_vec();
            self.before.push(std::mem::replace(&mut self.zoom, zoom));
        }
    }

    /// What the screen shows, and where on it the cursor is.
    fn place(app: &App) -> Option<Place<'_>> {
        Self::place_on(app, app.area.width)
    }

    fn place_on(app: &App, columns: u16) -> Option<Place<'_>> {
        let flame = &app.flame;
        let seen = app.seen.as_ref()?;
        Some(Place::new(seen, &flame.zoom, columns, &flame.cursor))
    }

    pub(crate) fn selected(&self, app: &App) -> Selected {
        let site = self
            .cursor
            .last()
            .and_then(|&node| app.seen.as_ref()?.site_at(node));
        Selected { site, task: None }
    }

    /// The zoom before; whether there was one.
    pub(crate) fn zoom_out(app: &mut App) -> bool {
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

    /// Scrolls as far as there are frames.
    pub(crate) fn wheel(app: &mut App, rows: isize) {
        let height = usize::from(crate::frame::layout(app).body.height);
        let Some(place) = Self::place(app) else {
            return;
        };
        let last = place.layout.rows.len().saturating_sub(height);
        let flame = &mut app.flame;
        let rows = match flame.roots {
            Roots::Top => rows,
            Roots::Bottom => rows.saturating_neg(),
        };
        flame.top = flame.top.saturating_add_signed(rows).min(last);
    }

    pub(crate) fn act(app: &mut App, action: Action) {
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
            Action::Up | Action::Down if action == towards_leaves => Self::deeper(app, 1),
            Action::Up | Action::Down => Self::outwards(app, 1),
            Action::Left => Self::sideways(app, -1),
            Action::Right => Self::sideways(app, 1),
            Action::PageDown => Self::deeper(app, 10),
            Action::PageUp => Self::outwards(app, 10),
            Action::Home => app.flame.cursor.truncate(1),
            Action::End => Self::deeper(app, DEPTH),
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

    /// To the hottest callee, so many times, as far as it is drawn.
    fn deeper(app: &mut App, rows: usize) {
        let Some(place) = Self::place(app) else {
            return;
        };
        let (layout, tree) = (&place.layout, &*place.seen.tree);
        let Some(mut spot) = place.cursor else { return };
        if !place.is_alone(spot) {
            return app.say("what these call is too narrow to be drawn; Enter zooms in");
        }
        let mut path = app.flame.cursor.clone();
        for _ in 0..rows {
            let at = path.last().copied().unwrap_or(NodeId::ROOT);
            let Some(&hottest) = tree.children(at).first() else {
                break;
            };
            let Some(next) = layout.below(tree, spot, hottest) else {
                break;
            };
            path.push(hottest);
            spot = next;
            if !place.is_alone(spot) {
                break;
            }
        }
        app.flame.cursor = path;
    }

    /// To the callers that are so many rows further out.
    fn outwards(app: &mut App, rows: usize) {
        let spot = Self::place(app).and_then(|place| place.cursor);
        // The cursor may be on a frame that no row is drawn for.
        let row = spot.map_or(app.flame.cursor.len(), |spot| spot.row + 1);
        app.flame.cursor.truncate(row.saturating_sub(rows).max(1));
    }

    /// To the neighbour in the same row.
    fn sideways(app: &mut App, step: isize) {
        let Some(place) = Self::place(app) else {
            return;
        };
        let Some(here) = place.cursor else { return };
        let spots: Vec<Spot> = place.layout.spots(here.row).collect();
        let at = spots.iter().position(|&spot| spot == here);
        let next = at.and_then(|at| spots.get(at.checked_add_signed(step)?));
        if let Some(&next) = next {
            app.flame.cursor = place.path(next);
        }
    }

    /// Scrolls such that the cursor is on the screen.
    fn settle(app: &mut App) {
        let height = usize::from(crate::frame::layout(app).body.height).max(1);
        let flame = &mut app.flame;
        let row = flame.cursor.len().saturating_sub(1);
        flame.top = flame.top.min(row).max((row + 1).saturating_sub(height));
    }

    pub(crate) fn click(app: &mut App, column: u16, row: u16) {
        let height = crate::frame::layout(app).body.height;
        let Some(place) = Self::place(app) else {
            return;
        };
        let row = match app.flame.roots {
            Roots::Top => row,
            Roots::Bottom => height.saturating_sub(1 + row),
        };
        let row = usize::from(row) + app.flame.top;
        let Some(spot) = place.layout.at(row, column) else {
            return;
        };
        let path = place.path(spot);
        if place.cursor == Some(spot) {
            return Self::zoom_in(app);
        }
        app.flame.cursor = path;
    }

    /// The next place with a match, row by row: a frame that matches, or
    /// merged ones that match or call what does. Of those the cursor gets on
    /// the heaviest match.
    pub(crate) fn find(app: &mut App, found: &Found, forwards: bool) -> bool {
        let Some(place) = Self::place(app) else {
            return false;
        };
        let is_on_match = || {
            let node = app.flame.cursor.last()?;
            Some(found.holds(place.seen.site_at(*node)?))
        };
        let passed = place.cursor.filter(|_| is_on_match() == Some(true));
        let rows = 0..place.layout.rows.len();
        let spots = rows.flat_map(|row| place.layout.spots(row));
        let hits = spots.filter(|&spot| Some(spot) != passed && place.has_match(found, spot));
        let hits: Vec<Spot> = hits.collect();
        let split = hits.partition_point(|&hit| Some(hit) < place.cursor);
        let next = if forwards {
            hits.get(split).or(hits.first())
        } else {
            split
                .checked_sub(1)
                .and_then(|at| hits.get(at))
                .or(hits.last())
        };
        let Some(path) = next.and_then(|&hit| place.path_to_match(found, hit)) else {
            return Self::find_outside(app, found);
        };
        app.flame.cursor = path;
        Self::settle(app);
        true
    }

    /// The heaviest match, if none is in what is zoomed into.
    fn find_outside(app: &mut App, found: &Found) -> bool {
        let Some(seen) = &app.seen else { return false };
        let is_zoom = |node: Option<&NodeId>| node.is_some_and(|&node| found.leads(node));
        if app.flame.zoom.is_empty() || is_zoom(app.flame.zoom.last()) {
            return false;
        }
        let outermost = seen.tree.children(NodeId::ROOT);
        let Some(node) = found.heaviest(&seen.tree, outermost) else {
            return false;
        };
        app.flame.cursor = seen.path(node);
        let zoom = std::mem::take(&mut app.flame.zoom);
        app.flame.before.push(zoom);
        Self::settle(app);
        true
    }

    /// Share of the selected frame, and of its function wherever it is.
    pub(crate) fn detail(&self, app: &App) -> Option<String> {
        let seen = app.seen.as_ref()?;
        let &node = self.cursor.last()?;
        let mut words = format!("here {}", share(app, seen.tree.total(node)).trim());
        let key = seen.key(seen.site_at(node)?);
        let total = seen.hot.iter().find(|hot| seen.key(hot.site) == key);
        if let Some(hot) = total {
            words.push_str(&format!(", everywhere {}", share(app, hot.total).trim()));
            words.push_str(&format!(", self {}", share(app, hot.own).trim()));
        }
        let others = Self::place(app).and_then(|place| place.others(app));
        words.push_str(&others.unwrap_or_default());
        Some(words)
    }

    pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
        let Some(place) = Self::place_on(app, area.width) else {
            return;
        };
        let flame = &app.flame;
        let painter = Painter::new(app, &place, flame.cursor.last().copied());
        for at in 0..area.height {
            let row = usize::from(at) + flame.top;
            let Some(cells) = place.layout.rows.get(row) else {
                break;
            };
            let y = match flame.roots {
                Roots::Top => at,
                Roots::Bottom => area.height - 1 - at,
            };
            let line = Rect {
                y: area.y + y,
                height: 1,
                ..area
            };
            let is_caller = row + 1 < flame.zoom.len();
            for index in 0..cells.len() {
                let spot = Spot {
                    row,
                    index,
                    part: Part::Cell,
                };
                painter.draw(spot, is_caller, line, buffer);
            }
        }
    }
}

/// The graph laid out, and where the cursor is in it.
pub(super) struct Place<'a> {
    pub(super) seen: &'a Seen,
    pub(super) layout: Layout,
    pub(super) cursor: Option<Spot>,
}

impl<'a> Place<'a> {
    fn new(seen: &'a Seen, zoom: &[NodeId], columns: u16, cursor: &[NodeId]) -> Self {
        let layout = Layout::new(&*seen.tree, zoom, columns, DEPTH);
        let cursor = layout.find(&*seen.tree, cursor);
        Self {
            seen,
            layout,
            cursor,
        }
    }

    fn path(&self, spot: Spot) -> Vec<NodeId> {
        self.layout.path(&*self.seen.tree, spot)
    }

    /// The frames that a spot stands for.
    pub(super) fn frames(&self, spot: Spot) -> &'a [NodeId] {
        self.layout.frames(&*self.seen.tree, spot)
    }

    /// Whether a spot is one frame's, so that its callees are drawn.
    fn is_alone(&self, spot: Spot) -> bool {
        let cell = self.layout.cell(spot);
        spot.part == Part::Cell && cell.is_some_and(|cell| !cell.is_merged())
    }

    /// Whether the search leads to a spot: its frame matches, or one of
    /// those merged matches or calls what does.
    pub(super) fn has_match(&self, found: &Found, spot: Spot) -> bool {
        let frames = self.frames(spot);
        if self.is_alone(spot) {
            let site = frames.first().and_then(|&node| self.seen.site_at(node));
            return site.is_some_and(|site| found.holds(site));
        }
        frames.iter().any(|&node| found.leads(node))
    }

    fn path_to_match(&self, found: &Found, spot: Spot) -> Option<Vec<NodeId>> {
        let node = found.heaviest(&self.seen.tree, self.frames(spot))?;
        Some(self.seen.path(node))
    }

    /// What is to be said of frames in or beside the cursor's cell.
    fn others(&self, app: &App) -> Option<String> {
        let spot = self.cursor?;
        let cell = self.layout.cell(spot)?;
        let whole = app.whole().period;
        let beside = cell.beside;
        let mut words = match spot.part {
            Part::Beside if beside.frames == 1 => {
                return Some(" (narrower than a column; Enter zooms in)".into());
            }
            Part::Beside => format!(
                " (one of {} narrower than a column, together {:.2}%",
                beside.frames,
                percent_of(beside.weight, whole),
            ),
            Part::Cell if cell.is_merged() => format!(
                " (one cell for {} frames, together {:.2}%",
                cell.frames,
                percent_of(cell.weight, whole),
            ),
            Part::Cell if beside.frames > 0 => {
                let share = percent_of(beside.weight, whole);
                return Some(format!(
                    " (+{} narrower beside it, {share:.2}%)",
                    beside.frames
                ));
            }
            Part::Cell => return None,
        };
        if let Some(found) = &app.search.found {
            let frames = self.frames(spot).iter();
            let leading = frames.filter(|&&node| found.leads(node)).count();
            match leading {
                0 => {}
                1 => words.push_str(", 1 leads to a match"),
                _ => words.push_str(&format!(", {leading} lead to a match")),
            }
        }
        words.push_str("; Enter zooms in)");
        Some(words)
    }
}
