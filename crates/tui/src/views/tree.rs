//! The call tree, from the roots down or from the callees up.

use super::rows::{self, FrameRow, Rank, Shift, draw_headings, draw_outline};
use crate::action::Action;
use crate::app::{App, Selected};
use crate::data::{Found, Grown, GrownTree, Seen, TopDown};
use crate::memory::{Folds, Name};
use crate::outline::{Forest, Opened, Outline, Row};
use prof_report::model::{GrowId, NodeId, SiteId};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::sync::Arc;

/// Which way the tree is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Way {
    #[default]
    TopDown,
    BottomUp,
}

/// The tab.
#[derive(Default)]
pub(crate) struct TreeView {
    way: Way,
    top_down: Option<(TopDown, Outline)>,
    bottom_up: Option<(Grown, Outline)>,
    top_down_folds: Folds,
    bottom_up_folds: Folds,
}

impl TreeView {
    /// New data: what was open and where the cursor was stay, by name.
    pub(crate) fn renew(app: &mut App, bottom_up: GrownTree, before: Option<&Seen>) {
        let least = app.least();
        let Some(seen) = app.seen.clone() else { return };
        let view = &mut app.tree;
        if let Some(before) = before {
            if let Some((_, outline)) = &view.top_down {
                let name = |node| Name::of(before, before.site_at(NodeId(node)));
                view.top_down_folds.remember(outline, name);
            }
            if let Some((forest, outline)) = &view.bottom_up {
                let name = |node| Name::of(before, forest.site(before, node));
                view.bottom_up_folds.remember(outline, name);
            }
        }
        let mut forest = TopDown {
            tree: Arc::clone(&seen.tree),
            least,
        };
        let name = |_: &TopDown, node| Name::of(&seen, seen.site_at(NodeId(node)));
        let outline = view.top_down_folds.outline(&mut forest, name);
        view.top_down = Some((forest, outline));
        let mut forest = Grown {
            growth: bottom_up,
            least,
        };
        let name = |forest: &Grown, node| Name::of(&seen, forest.site(&seen, node));
        let outline = view.bottom_up_folds.outline(&mut forest, name);
        view.bottom_up = Some((forest, outline));
    }

    fn outline(&self) -> Option<&Outline> {
        match self.way {
            Way::TopDown => self.top_down.as_ref().map(|(_, outline)| outline),
            Way::BottomUp => self.bottom_up.as_ref().map(|(_, outline)| outline),
        }
    }

    fn outline_mut(&mut self) -> Option<&mut Outline> {
        match self.way {
            Way::TopDown => self.top_down.as_mut().map(|(_, outline)| outline),
            Way::BottomUp => self.bottom_up.as_mut().map(|(_, outline)| outline),
        }
    }

    fn site(&self, seen: &Seen, row: Row) -> Option<SiteId> {
        match self.way {
            Way::TopDown => seen.site_at(NodeId(row.node)),
            Way::BottomUp => self.bottom_up.as_ref()?.0.site(seen, row.node),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.outline().map_or(0, |outline| outline.rows().len())
    }

    pub(crate) fn selected(&self, app: &App) -> Selected {
        let row = self.outline().and_then(Outline::selected);
        let site = row.and_then(|row| self.site(app.seen.as_ref()?, row));
        Selected { site, task: None }
    }

    pub(crate) fn wheel(&mut self, rows: isize, height: usize) {
        if let Some(outline) = self.outline_mut() {
            outline.scroll.wheel(rows, height);
        }
    }

    pub(crate) fn act(app: &mut App, action: Action) {
        if action == Action::Invert {
            app.tree.way = match app.tree.way {
                Way::TopDown => Way::BottomUp,
                Way::BottomUp => Way::TopDown,
            };
            return app.say(match app.tree.way {
                Way::TopDown => "from the roots down",
                Way::BottomUp => "from the callees up",
            });
        }
        let height = app.body_rows();
        let opened = app.tree.move_or_fold(action, height);
        rows::say_opened(app, opened.unwrap_or(Opened::All));
    }

    fn move_or_fold(&mut self, action: Action, height: usize) -> Option<Opened> {
        match self.way {
            Way::TopDown => {
                let (forest, outline) = self.top_down.as_mut()?;
                rows::act(outline, forest, action, height)
            }
            Way::BottomUp => {
                let (forest, outline) = self.bottom_up.as_mut()?;
                rows::act(outline, forest, action, height)
            }
        }
    }

    pub(crate) fn click(app: &mut App, column: u16, row: u16) {
        let area = crate::frame::layout(app).body;
        let Some(row) = row.checked_sub(u16::from(app.switches.headings)) else {
            return;
        };
        let height = app.body_rows();
        let Some(outline) = app.tree.outline_mut() else {
            return;
        };
        outline.scroll.settle(height);
        let shift = Shift::of(area, outline);
        let at = outline.scroll.top(height) + usize::from(row);
        let Some(hit) = outline.rows().get(at).copied() else {
            return;
        };
        let was_there = outline.scroll.cursor() == at;
        outline.scroll.go_to(at);
        let fold = shift.fold_column(area, hit.depth);
        if was_there || (fold..fold + 2).contains(&column) {
            Self::act(app, Action::Toggle);
        }
    }

    /// The next match in the tree, also where it is closed; from the callees
    /// up, among the rows shown.
    pub(crate) fn find(app: &mut App, found: &Found, forwards: bool) -> bool {
        let Some(seen) = app.seen.clone() else {
            return false;
        };
        let view = &mut app.tree;
        if view.way == Way::BottomUp {
            let Some((forest, outline)) = &mut view.bottom_up else {
                return false;
            };
            return rows::find(outline, found, forwards, |row| forest.site(&seen, row.node));
        }
        let Some((forest, outline)) = &mut view.top_down else {
            return false;
        };
        let from = outline.selected().map(|row| NodeId(row.node));
        let Some(next) = next_match(&seen, forest, found, from, forwards) else {
            return false;
        };
        let path: Vec<u32> = seen.path(next).iter().map(|node| node.0).collect();
        outline.reveal(forest, &path);
        true
    }

    pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
        let (Some(outline), Some(seen)) = (app.tree.outline(), &app.seen) else {
            return;
        };
        let mut body = area;
        if app.switches.headings {
            draw_headings(app, area, None, buffer);
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        draw_outline(app, body, outline, true, buffer, |row| {
            app.tree.describe(seen, row)
        });
    }

    fn describe(&self, seen: &Seen, row: Row) -> Option<FrameRow> {
        let site = self.site(seen, row)?;
        let (own, total, has_children) = match self.way {
            Way::TopDown => {
                let node = NodeId(row.node);
                let forest = &self.top_down.as_ref()?.0;
                let own = seen.tree.own(node);
                (
                    Some(own),
                    seen.tree.total(node),
                    forest.has_children(row.node),
                )
            }
            Way::BottomUp => {
                let forest = &self.bottom_up.as_ref()?.0;
                let total = forest.growth.total(GrowId(row.node));
                // The outermost rows are what was sampled.
                let own = (row.depth == 0).then_some(total);
                (own, total, forest.has_children(row.node))
            }
        };
        Some(FrameRow {
            site,
            own,
            total,
            bar: (total, total),
            depth: row.depth,
            is_open: has_children.then_some(row.is_open),
            rank: Rank::Step,
        })
    }
}

/// The match after or before `from` in the order of a fully open tree.
fn next_match(
    seen: &Seen,
    forest: &TopDown,
    found: &Found,
    from: Option<NodeId>,
    forwards: bool,
) -> Option<NodeId> {
    let is_hit = |node: NodeId| {
        seen.site_at(node).is_some_and(|site| found.holds(site))
            && seen.tree.total(node).period >= forest.least
    };
    let (mut first, mut last, mut before, mut after) = (None, None, None, None);
    let mut is_past = false;
    seen.tree.walk(|node| {
        if Some(node) == from {
            is_past = true;
            return;
        }
        if !is_hit(node) {
            return;
        }
        first = first.or(Some(node));
        last = Some(node);
        if is_past {
            after = after.or(Some(node));
        } else {
            before = Some(node);
        }
    });
    if forwards {
        after.or(first)
    } else {
        before.or(last)
    }
}
