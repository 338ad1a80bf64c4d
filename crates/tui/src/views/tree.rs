//! The call tree, from the roots down or from the callees up.

use super::rows::{self, Clicked, FrameRow, OutlineRows, Rank, draw_headings, draw_outline};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Found, Grown, Seen, TopDown};
use crate::memory::{Folds, Name};
use crate::outline::{Forest, Opened, Outline, OutlineRow};
use crate::scroll::Scroll;
use crate::shared::{Selected, Shared};
use crate::tab::{About, Fresh, NO_ORDER, NO_REVERSE, Subject, Tab};
use prof_report::model::{CallTree, NodeId, SiteId};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::sync::Arc;

pub(super) const ABOUT: About = About {
    title: "Call tree",
    word: "tree",
    command: "view call tree",
    help: "Calls from the root down, or from the callees up",
    scope: KeyScope::Tree,
    subject: Subject::Samples,
    shown_by: None,
    idle: &[NO_ORDER, NO_REVERSE],
};

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

impl Tab for TreeView {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// New data: what was open and where the cursor was stay, by name.
    fn renew(&mut self, shared: &mut Shared, fresh: &mut Fresh<'_>) {
        let least = shared.least();
        let (Some(seen), Some(bottom_up)) = (&shared.seen, fresh.bottom_up.take()) else {
            return;
        };
        if let Some(before) = fresh.before {
            if let Some((_, outline)) = &self.top_down {
                let name = |node| Name::of(before, before.site_at(NodeId(node)));
                self.top_down_folds.remember(outline, name);
            }
            if let Some((forest, outline)) = &self.bottom_up {
                let name = |node| Name::of(before, forest.site(before, node));
                self.bottom_up_folds.remember(outline, name);
            }
        }
        let mut forest = TopDown {
            tree: Arc::clone(&seen.tree),
            least,
        };
        let name = |_: &TopDown, node| Name::of(seen, seen.site_at(NodeId(node)));
        let outline = self.top_down_folds.outline(&mut forest, name);
        self.top_down = Some((forest, outline));
        let mut forest = Grown {
            growth: bottom_up,
            least,
        };
        let name = |forest: &Grown, node| Name::of(seen, forest.site(seen, node));
        let outline = self.bottom_up_folds.outline(&mut forest, name);
        self.bottom_up = Some((forest, outline));
    }

    fn selected(&self, shared: &Shared) -> Selected {
        let row = self.outline().and_then(Outline::selected);
        let site = row.and_then(|row| self.site(shared.seen.as_ref()?, row));
        Selected { site, task: None }
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        if action == Action::Invert {
            self.way = match self.way {
                Way::TopDown => Way::BottomUp,
                Way::BottomUp => Way::TopDown,
            };
            return shared.say(match self.way {
                Way::TopDown => "from the roots down",
                Way::BottomUp => "from the callees up",
            });
        }
        let height = shared.body_rows(self);
        let opened = self.move_or_fold(action, height);
        rows::say_opened(shared, opened.unwrap_or(Opened::All));
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let area = shared.body(self);
        let body = (area, shared.body_rows(self));
        let Some(outline) = self.outline_mut() else {
            return;
        };
        if rows::click_table(outline, shared, body, at) == Clicked::Fold {
            self.act(shared, Action::Toggle);
        }
    }

    fn scroll(&mut self) -> Option<&mut Scroll> {
        self.outline_mut().map(|outline| &mut outline.scroll)
    }

    /// The next match in the tree, also where it is closed; from the callees
    /// up, among the rows shown.
    fn find(&mut self, shared: &mut Shared, found: &Found, forwards: bool) -> bool {
        let Some(seen) = &shared.seen else {
            return false;
        };
        if self.way == Way::BottomUp {
            let Some((forest, outline)) = &mut self.bottom_up else {
                return false;
            };
            return rows::find(outline, found, forwards, |row| forest.site(seen, row.node));
        }
        let Some((forest, outline)) = &mut self.top_down else {
            return false;
        };
        let from = outline.selected().map(|row| NodeId(row.node));
        let is_hit = |node: NodeId| {
            seen.site_at(node).is_some_and(|site| found.holds(site))
                && seen.tree.total(node).period >= forest.least
        };
        let Some(next) = next_match(&seen.tree, is_hit, from, forwards) else {
            return false;
        };
        let path: Vec<u32> = seen.path(next).iter().map(|node| node.0).collect();
        outline.reveal(forest, &path);
        true
    }

    fn written_rows(&self) -> Option<usize> {
        let rows = self.outline().map_or(0, |outline| outline.rows().len());
        Some(rows + 1)
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let (Some(outline), Some(seen)) = (self.outline(), &shared.seen) else {
            return;
        };
        let mut body = area;
        if shared.switches.headings {
            draw_headings(shared, area, None, buffer);
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        let rows = OutlineRows {
            outline,
            has_focus: true,
            describe: |row| self.describe(seen, row),
        };
        draw_outline(shared, &rows, body, buffer);
    }
}

impl TreeView {
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

    fn site(&self, seen: &Seen, row: OutlineRow) -> Option<SiteId> {
        match self.way {
            Way::TopDown => seen.site_at(NodeId(row.node)),
            Way::BottomUp => self.bottom_up.as_ref()?.0.site(seen, row.node),
        }
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

    fn describe(&self, seen: &Seen, row: OutlineRow) -> Option<FrameRow> {
        match self.way {
            Way::TopDown => {
                let node = NodeId(row.node);
                let (own, total) = (seen.tree.own(node), seen.tree.total(node));
                let forest = &self.top_down.as_ref()?.0;
                Some(FrameRow {
                    site: seen.site_at(node)?,
                    own: Some(own),
                    total,
                    bar: (total, total),
                    depth: row.depth,
                    is_open: forest.has_children(row.node).then_some(row.is_open),
                    rank: Rank::Node,
                })
            }
            Way::BottomUp => {
                let forest = &self.bottom_up.as_ref()?.0;
                let frame = FrameRow::of_grown(forest, seen, row, row.node)?;
                Some(FrameRow {
                    // The outermost rows are what was sampled.
                    own: (row.depth == 0).then_some(frame.total),
                    rank: Rank::Node,
                    ..frame
                })
            }
        }
    }
}

/// The match after or before `from` in the order of a fully open tree.
fn next_match(
    tree: &CallTree,
    is_hit: impl Fn(NodeId) -> bool,
    from: Option<NodeId>,
    forwards: bool,
) -> Option<NodeId> {
    let (mut first, mut last, mut before, mut after) = (None, None, None, None);
    let mut is_past = false;
    tree.walk(|node| {
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
