//! The flame graph: every stack at once, a frame as wide as its share.

use super::changes::said;
use super::flame_paint::Painter;
use super::flame_view::FlameView;
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Found, Seen};
use crate::flame_layout::{CellPart, Spot};
use crate::memory::Trail;
use crate::shared::{Selected, Shared, TabId};
use crate::tab::{About, Fresh, Subject, Tab};
use prof_profile::FunctionId;
use prof_report::model::NodeId;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

pub(super) const ABOUT: About = About {
    title: "Flame graph",
    word: "flame",
    command: "view flame graph",
    help: "All stacks at a glance",
    scope: KeyScope::Flame,
    subject: Subject::Samples,
    shown_by: Some(Action::ShowInFlame),
    idle: &[],
};

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

impl Tab for Flame {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// New data: zoom and cursor stay, by name.
    fn renew(&mut self, shared: &mut Shared, fresh: &mut Fresh<'_>) {
        let Some(seen) = &shared.seen else { return };
        if let Some(before) = fresh.before {
            self.zoom_trail.remember(before, &self.zoom);
            self.cursor_trail.remember(before, &self.cursor);
        }
        self.before.clear();
        self.zoom = self.zoom_trail.find(seen);
        self.cursor = self.cursor_trail.find(seen);
        if self.cursor.is_empty() {
            let outermost = seen.tree.children(NodeId::ROOT);
            self.cursor = outermost.first().copied().into_iter().collect();
        }
        self.zoom_trail.set(&self.zoom);
        self.cursor_trail.set(&self.cursor);
        self.settle(shared);
    }

    fn selected(&self, shared: &Shared) -> Selected {
        let site = self
            .cursor
            .last()
            .and_then(|&node| shared.seen.as_ref()?.site_at(node));
        Selected { site, task: None }
    }

    /// Share of the selected frame, and of its function wherever it is.
    fn detail(&self, shared: &Shared) -> Option<String> {
        let seen = shared.seen.as_ref()?;
        let &node = self.cursor.last()?;
        let mut words = format!("here {}", shared.share(seen.tree.total(node)).trim());
        let key = seen.key(seen.site_at(node)?);
        let total = seen.hot.iter().find(|hot| seen.key(hot.site) == key);
        if let Some(hot) = total {
            words.push_str(&format!(", everywhere {}", shared.share(hot.total).trim()));
            words.push_str(&format!(", self {}", shared.share(hot.own).trim()));
        }
        let changed = shared.changes.as_ref();
        if let Some(changed) = changed.and_then(|it| it.paths.get(node.index())) {
            words.push_str(&format!(", {}", said(changed)));
        }
        let others = self.place(shared).and_then(|place| place.others(shared));
        words.push_str(&others.unwrap_or_default());
        Some(words)
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        let towards_leaves = match self.roots {
            Roots::Top => Action::Down,
            Roots::Bottom => Action::Up,
        };
        match action {
            Action::Invert => {
                self.roots = match self.roots {
                    Roots::Top => Roots::Bottom,
                    Roots::Bottom => Roots::Top,
                };
            }
            Action::Enter => self.zoom_in(),
            Action::Up | Action::Down if action == towards_leaves => self.deeper(shared, 1),
            Action::Up | Action::Down => self.outwards(shared, 1),
            Action::Left => self.sideways(shared, -1),
            Action::Right => self.sideways(shared, 1),
            Action::PageDown => self.deeper(shared, 10),
            Action::PageUp => self.outwards(shared, 10),
            Action::Home => self.cursor.truncate(1),
            Action::End => self.deeper(shared, DEPTH),
            _ => {}
        }
        self.settle(shared);
    }

    /// Shows the heaviest frame of a function.
    fn open(&mut self, shared: &mut Shared, function: FunctionId, _from: Option<TabId>) {
        let Some(seen) = shared.seen.clone() else {
            return;
        };
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
        match heaviest.map(|node| seen.path(node)) {
            Some(path) => {
                self.cursor = path;
                self.zoom_to_see(&seen, shared.area.width);
                self.settle(shared);
            }
            None => shared.say("it is in no stack of this selection"),
        }
    }

    /// The zoom before; whether there was one.
    fn back(&mut self, shared: &mut Shared) -> bool {
        let before = self.before.pop();
        let has_zoom = before.is_some() || !self.zoom.is_empty();
        self.zoom = before.unwrap_or_default();
        self.settle(shared);
        has_zoom
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let height = shared.body(self).height;
        let Some(place) = self.place(shared) else {
            return;
        };
        let row = match self.roots {
            Roots::Top => at.y,
            Roots::Bottom => height.saturating_sub(1 + at.y),
        };
        let row = usize::from(row) + self.top;
        let Some(spot) = place.layout.at(row, at.x) else {
            return;
        };
        let path = place.path(spot);
        if place.cursor == Some(spot) {
            return self.zoom_in();
        }
        self.cursor = path;
    }

    /// Scrolls as far as there are frames.
    fn wheel(&mut self, shared: &mut Shared, rows: isize) {
        let height = usize::from(shared.body(self).height);
        let Some(place) = self.place(shared) else {
            return;
        };
        let last = place.layout.rows.len().saturating_sub(height);
        let rows = match self.roots {
            Roots::Top => rows,
            Roots::Bottom => rows.saturating_neg(),
        };
        self.top = self.top.saturating_add_signed(rows).min(last);
    }

    /// The next place with a match, row by row: a frame that matches, or
    /// merged ones that match or call what does. Of those the cursor gets on
    /// the heaviest match.
    fn find(&mut self, shared: &mut Shared, found: &Found, forwards: bool) -> bool {
        let Some(place) = self.place(shared) else {
            return false;
        };
        let is_on_match = || {
            let node = self.cursor.last()?;
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
            return self.find_outside(shared, found);
        };
        self.cursor = path;
        self.settle(shared);
        true
    }

    /// Scrolls such that the cursor is on the screen.
    fn written_rows(&self) -> Option<usize> {
        None
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let Some(place) = self.place_on(shared, area.width) else {
            return;
        };
        let painter = Painter::new(shared, &place, self.cursor.last().copied());
        for at in 0..area.height {
            let row = usize::from(at) + self.top;
            let Some(cells) = place.layout.rows.get(row) else {
                break;
            };
            let y = match self.roots {
                Roots::Top => at,
                Roots::Bottom => area.height - 1 - at,
            };
            let line = Rect {
                y: area.y + y,
                height: 1,
                ..area
            };
            let is_caller = row + 1 < self.zoom.len();
            for index in 0..cells.len() {
                let spot = Spot {
                    row,
                    index,
                    part: CellPart::Cell,
                };
                painter.draw(spot, is_caller, line, buffer);
            }
        }
    }
}

impl Flame {
    /// Zooms so far in that the cursor's frame has a cell of its own.
    fn zoom_to_see(&mut self, seen: &Seen, columns: u16) {
        let callers = self.cursor.len().saturating_sub(1);
        let callers = self.cursor.get(..callers).unwrap_or_default();
        let ways = [&self.zoom, callers, &self.cursor];
        let is_seen = |zoom: &&[NodeId]| {
            let place = FlameView::new(seen, zoom, columns, &self.cursor);
            place.cursor.is_some_and(|spot| place.is_alone(spot))
        };
        let zoom = ways.into_iter().find(is_seen).unwrap_or(&self.cursor);
        if *zoom != *self.zoom {
            let zoom = zoom.to_vec();
            self.before.push(std::mem::replace(&mut self.zoom, zoom));
        }
    }

    /// What the screen shows, and where on it the cursor is.
    fn place<'a>(&self, shared: &'a Shared) -> Option<FlameView<'a>> {
        self.place_on(shared, shared.area.width)
    }

    fn place_on<'a>(&self, shared: &'a Shared, columns: u16) -> Option<FlameView<'a>> {
        let seen = shared.seen.as_ref()?;
        Some(FlameView::new(seen, &self.zoom, columns, &self.cursor))
    }

    fn zoom_in(&mut self) {
        if self.zoom == self.cursor {
            self.before.push(std::mem::take(&mut self.zoom));
        } else {
            let before = std::mem::replace(&mut self.zoom, self.cursor.clone());
            self.before.push(before);
        }
    }

    /// To the hottest callee, so many times, as far as it is drawn.
    fn deeper(&mut self, shared: &mut Shared, rows: usize) {
        let Some(place) = self.place(shared) else {
            return;
        };
        let (layout, tree) = (&place.layout, &*place.seen.tree);
        let Some(mut spot) = place.cursor else { return };
        if !place.is_alone(spot) {
            return shared.say("what these call is too narrow to be drawn; Enter zooms in");
        }
        let mut path = self.cursor.clone();
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
        self.cursor = path;
    }

    /// To the callers that are so many rows further out.
    fn outwards(&mut self, shared: &Shared, rows: usize) {
        let spot = self.place(shared).and_then(|place| place.cursor);
        // The cursor may be on a frame that no row is drawn for.
        let row = spot.map_or(self.cursor.len(), |spot| spot.row + 1);
        self.cursor.truncate(row.saturating_sub(rows).max(1));
    }

    /// To the neighbour in the same row.
    fn sideways(&mut self, shared: &Shared, step: isize) {
        let Some(place) = self.place(shared) else {
            return;
        };
        let Some(here) = place.cursor else { return };
        let spots: Vec<Spot> = place.layout.spots(here.row).collect();
        let at = spots.iter().position(|&spot| spot == here);
        let next = at.and_then(|at| spots.get(at.checked_add_signed(step)?));
        if let Some(&next) = next {
            self.cursor = place.path(next);
        }
    }

    fn settle(&mut self, shared: &Shared) {
        let height = usize::from(shared.body(self).height).max(1);
        let row = self.cursor.len().saturating_sub(1);
        self.top = self.top.min(row).max((row + 1).saturating_sub(height));
    }

    /// The heaviest match, if none is in what is zoomed into.
    fn find_outside(&mut self, shared: &Shared, found: &Found) -> bool {
        let Some(seen) = &shared.seen else {
            return false;
        };
        let is_zoom = |node: Option<&NodeId>| node.is_some_and(|&node| found.leads(node));
        if self.zoom.is_empty() || is_zoom(self.zoom.last()) {
            return false;
        }
        let outermost = seen.tree.children(NodeId::ROOT);
        let Some(node) = found.heaviest(&seen.tree, outermost) else {
            return false;
        };
        self.cursor = seen.path(node);
        let zoom = std::mem::take(&mut self.zoom);
        self.before.push(zoom);
        self.settle(shared);
        true
    }
}
