//! Callers and callees of one function, one list above the other.

use super::rows::{self, FrameRow, OutlineRows, Rank, draw_headings, draw_outline};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask, Found, Grown, GrownTree, Seen};
use crate::filters::Remap;
use crate::memory::{Folds, Name};
use crate::outline::{Outline, OutlineRow};
use crate::paint::Pen;
use crate::shared::{Selected, Shared, TabId};
use crate::tab::{About, Fresh, NO_ORDER, NO_REVERSE, NO_TURNING, Subject, Tab};
use prof_profile::FunctionId;
use prof_report::model::{Direction, GrowId};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

pub(super) const ABOUT: About = About {
    title: "Callers",
    word: "calls",
    command: "view callers",
    help: "Callers and callees of the selected function, or the last one",
    scope: KeyScope::Tree,
    subject: Subject::Function,
    shown_by: Some(Action::Callers),
    idle: &[NO_TURNING, NO_ORDER, NO_REVERSE],
};

/// A list whose root is the function itself.
struct Side {
    direction: Direction,
    forest: Grown,
    outline: Outline,
}

impl Side {
    /// Open to the first callers or callees, or as it was left: see
    /// [`Folds`].
    fn new(direction: Direction, mut forest: Grown, seen: &Seen, folds: &mut Folds) -> Self {
        let name = |forest: &Grown, node| Name::of(seen, forest.site(seen, node));
        let outline = folds.outline_or(&mut forest, name, |forest| {
            let mut outline = Outline::closed(forest);
            outline.open(forest, 0);
            outline
        });
        Self {
            direction,
            forest,
            outline,
        }
    }

    fn describe(&self, seen: &Seen, row: OutlineRow) -> Option<FrameRow> {
        let own = self.forest.growth.own(GrowId(row.node));
        Some(FrameRow {
            own: (self.direction == Direction::Callees).then_some(own),
            rank: Rank::Node,
            ..FrameRow::of_grown(&self.forest, seen, row, row.node)?
        })
    }
}

/// Callers and callees of the function, in this order.
struct Sides {
    lists: [Side; 2],
    /// Which list the cursor is in.
    at: usize,
}

impl Sides {
    fn side(&self) -> Option<&Side> {
        self.lists.get(self.at)
    }

    fn side_mut(&mut self) -> Option<&mut Side> {
        self.lists.get_mut(self.at)
    }
}

/// The lists as the user left them.
#[derive(Default)]
struct Left {
    folds: [Folds; 2],
    at: usize,
}

/// The tab.
#[derive(Default)]
pub(crate) struct Callers {
    /// The function's key.
    key: Option<u32>,
    sides: Option<Sides>,
    /// What was open in each list, and which one the cursor was in, while
    /// another profile or selection is on its way.
    left: Left,
    /// Functions shown before, for the way back.
    trail: Vec<u32>,
    /// The view it was opened from.
    came_from: Option<TabId>,
}

impl Tab for Callers {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// New data: the lists are asked for again. What was open and where the
    /// cursor was stay, by name.
    fn renew(&mut self, _shared: &mut Shared, fresh: &mut Fresh<'_>) {
        let (Some(sides), Some(before)) = (self.sides.take(), fresh.before) else {
            return;
        };
        for (folds, side) in self.left.folds.iter_mut().zip(&sides.lists) {
            let name = |node| Name::of(before, side.forest.site(before, node));
            folds.remember(&side.outline, name);
        }
        self.left.at = sides.at;
    }

    /// Another profile came: functions have other numbers.
    fn remap(&mut self, remap: &Remap<'_>) {
        let new = |key: u32| remap.function(FunctionId(key)).map(|id| id.0);
        self.key = self.key.and_then(new);
        self.trail = self.trail.iter().copied().filter_map(new).collect();
    }

    /// The tab is shown: of the hottest function if none was chosen.
    fn shown(&mut self, shared: &mut Shared) {
        if self.sides.is_some() {
            return;
        }
        let hottest = shared.seen.as_ref().and_then(|seen| {
            let hot = seen.hot.iter().max_by_key(|hot| hot.own)?;
            seen.key(hot.site)
        });
        self.key = self.key.or(hottest);
        shared.asks.extend(self.key.map(Ask::Around));
    }

    /// Whether callers and callees are on their way.
    fn is_waiting(&self) -> bool {
        self.sides.is_none() && self.key.is_some()
    }

    fn take(&mut self, shared: &mut Shared, answer: Answer) -> Option<Answer> {
        let around = match answer {
            // It may be asked for twice, before and after names came: what the
            // user did in between stays.
            Answer::Around(around) if self.is_waiting() && self.key == Some(around.key) => *around,
            other => return Some(other),
        };
        let seen = shared.seen.as_ref()?;
        let least = shared.least();
        let [above, below] = &mut self.left.folds;
        let grown = |growth: GrownTree| Grown { growth, least };
        self.sides = Some(Sides {
            lists: [
                Side::new(Direction::Callers, grown(around.callers), seen, above),
                Side::new(Direction::Callees, grown(around.callees), seen, below),
            ],
            at: self.left.at,
        });
        None
    }

    fn selected(&self, shared: &Shared) -> Selected {
        let site = self.sides.as_ref().and_then(|sides| {
            let side = sides.side()?;
            side.forest
                .site(shared.seen.as_ref()?, side.outline.selected()?.node)
        });
        Selected { site, task: None }
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        let area = shared.body(self);
        // Enter on another function shows that one.
        if action == Action::Enter
            && let (Some(seen), Some(site)) = (&shared.seen, self.selected(shared).site)
            && let Some(key) = seen.key(site).filter(|&key| Some(key) != self.key)
        {
            self.open(shared, FunctionId(key), None);
            return self.shown(shared);
        }
        let Some(sides) = &mut self.sides else {
            return;
        };
        let height = usize::from(Self::panes(area, sides.lists.first())[sides.at.min(1)].height);
        let Some(side) = sides.side_mut() else { return };
        let cursor = side.outline.scroll.cursor();
        let opened = rows::act(&mut side.outline, &mut side.forest, action, height);
        let is_stuck = side.outline.scroll.cursor() == cursor;
        match action {
            Action::Down if is_stuck => sides.at = 1,
            Action::Up if is_stuck => sides.at = 0,
            _ => {}
        }
        if let Some(opened) = opened {
            rows::say_opened(shared, opened);
        }
    }

    fn open(&mut self, _shared: &mut Shared, function: FunctionId, from: Option<TabId>) {
        if from.is_some() {
            self.trail.clear();
            self.came_from = from;
        } else {
            self.trail.extend(self.key);
        }
        self.set(function.0);
    }

    /// Back to the function before, or to the view it was opened from;
    /// whether there was one.
    fn back(&mut self, shared: &mut Shared) -> bool {
        if let Some(key) = self.trail.pop() {
            self.set(key);
            self.shown(shared);
            return true;
        }
        shared.to_show = self.came_from.take();
        shared.to_show.is_some()
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let body = shared.body(self);
        let Some(sides) = &mut self.sides else {
            return;
        };
        let panes = Self::panes(body, sides.lists.first());
        for (index, pane) in panes.into_iter().enumerate() {
            let Some(row) = (body.y + at.y)
                .checked_sub(pane.y)
                .filter(|&row| row < pane.height)
            else {
                continue;
            };
            sides.at = index;
            let Some(side) = sides.side_mut() else { return };
            let height = usize::from(pane.height);
            if rows::click(&mut side.outline, body, height, (at.x, row)) {
                self.act(shared, Action::Toggle);
            }
            return;
        }
    }

    fn wheel(&mut self, shared: &mut Shared, rows: isize) {
        let height = shared.body_rows(self);
        if let Some(side) = self.sides.as_mut().and_then(Sides::side_mut) {
            side.outline.scroll.wheel(rows, height / 2);
        }
    }

    fn find(&mut self, shared: &mut Shared, found: &Found, forwards: bool) -> bool {
        let (Some(seen), Some(sides)) = (&shared.seen, &mut self.sides) else {
            return false;
        };
        for _ in 0..2 {
            let Some(side) = sides.side_mut() else { break };
            let forest = &side.forest;
            if rows::find(&mut side.outline, found, forwards, |row| {
                forest.site(seen, row.node)
            }) {
                return true;
            }
            sides.at = 1 - sides.at.min(1);
        }
        false
    }

    /// Rows of a screen that has both lists whole.
    fn written_rows(&self) -> Option<usize> {
        let rows = self.sides.as_ref().map_or(0, |sides| {
            let [callers, callees] = sides.lists.each_ref().map(|side| side.outline.rows().len());
            (callers + callees).max(2 * callers) + 3
        });
        Some(rows)
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let theme = &shared.theme;
        let (Some(sides), Some(seen)) = (&self.sides, &shared.seen) else {
            Pen::new(buffer, theme, area, 0)
                .gap(2)
                .put("computing", theme.dim());
            return;
        };
        draw_headings(shared, area, None, buffer);
        let panes = Self::panes(area, sides.lists.first());
        let titles = ["called by", "calls"];
        for (index, ((side, pane), title)) in sides.lists.iter().zip(panes).zip(titles).enumerate()
        {
            let above = Rect {
                y: pane.y.saturating_sub(1),
                height: 1,
                ..pane
            };
            let mut pen = Pen::new(buffer, theme, above, 0);
            let line = theme.glyphs.horizontal;
            pen.put(&line.repeat(2), theme.dim())
                .gap(1)
                .put(title, theme.heading())
                .gap(1);
            let rest = line.repeat(pen.room());
            pen.put(&rest, theme.dim());
            let rows = OutlineRows {
                outline: &side.outline,
                has_focus: index == sides.at,
                describe: |row| side.describe(seen, row),
            };
            draw_outline(shared, &rows, pane, buffer);
        }
    }
}

impl Callers {
    fn set(&mut self, key: u32) {
        self.key = Some(key);
        self.sides = None;
        self.left = Left::default();
    }

    /// The rows of the two lists: half each, or less for callers if few.
    fn panes(area: Rect, callers: Option<&Side>) -> [Rect; 2] {
        // Two titles and the headings.
        let rows = area.height.saturating_sub(3);
        let wanted = callers.map_or(0, |side| side.outline.rows().len());
        let upper = u16::try_from(wanted)
            .unwrap_or(u16::MAX)
            .min(rows / 2)
            .max(1);
        let strip = |y: u16, height: u16| Rect {
            y: area.y + y,
            height,
            ..area
        };
        [
            strip(2, upper),
            strip(3 + upper, rows.saturating_sub(upper)),
        ]
    }
}
