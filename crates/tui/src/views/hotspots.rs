//! Functions by weight; their callers fold in place, as in perf.

use super::columns;
use super::rows::{
    self, Clicked, DSOS, FrameRow, ORDERS, OutlineRows, Rank, draw_headings, draw_outline,
};
use crate::action::Action;
use crate::bindings::KeyScope;
use crate::data::{Answer, Ask, Found, Grown, Hot, Seen};
use crate::memory::{Folds, Name};
use crate::outline::{Forest, Outline, OutlineRow};
use crate::scroll::Scroll;
use crate::shared::{Selected, Shared};
use crate::tab::{About, Fresh, NO_TURNING, Subject, Tab};
use prof_report::keys::Field;
use prof_report::model::SiteId;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::cmp::Ordering;
use std::collections::HashMap;

pub(super) const ABOUT: About = About {
    title: "Hotspots",
    word: "hot",
    command: "view hotspots",
    help: "Functions by their own and total weight",
    scope: KeyScope::Tree,
    subject: Subject::Samples,
    shown_by: None,
    idle: &[NO_TURNING],
};

/// What a node of the outline is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// A row of the table.
    Entry(usize),
    /// A caller in the chain of a function: which chain, which node.
    Step(usize, u32),
}

/// The table with the chains that were opened.
#[derive(Default)]
struct Table {
    entries: Vec<Hot>,
    nodes: Vec<Node>,
    ids: HashMap<Node, u32>,
    chains: Vec<Grown>,
    /// By function key: its chain.
    chain_of: HashMap<u32, usize>,
    /// By entry: the function's key.
    keys: Vec<u32>,
}

impl Table {
    fn node(&self, id: u32) -> Option<Node> {
        self.nodes.get(id as usize).copied()
    }

    fn id(&mut self, node: Node) -> u32 {
        let nodes = &mut self.nodes;
        *self.ids.entry(node).or_insert_with(|| {
            nodes.push(node);
            u32::try_from(nodes.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// The chain of an entry, if it has come.
    fn chain(&self, entry: usize) -> Option<usize> {
        self.chain_of.get(self.keys.get(entry)?).copied()
    }

    fn site(&self, seen: &Seen, id: u32) -> Option<SiteId> {
        match self.node(id)? {
            Node::Entry(entry) => self.entries.get(entry).map(|hot| hot.site),
            Node::Step(chain, node) => self.chains.get(chain)?.site(seen, node),
        }
    }
}

impl Forest for Table {
    fn roots(&self) -> Vec<u32> {
        // Entries are the first nodes.
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).collect()
    }

    fn children(&mut self, id: u32) -> Vec<u32> {
        let (chain, children) = match self.node(id) {
            // The roots of a chain are the function itself.
            Some(Node::Entry(entry)) => {
                let Some(chain) = self.chain(entry) else {
                    return Vec::new();
                };
                let Some(grown) = self.chains.get_mut(chain) else {
                    return Vec::new();
                };
                let roots = grown.roots();
                (
                    chain,
                    roots
                        .into_iter()
                        .flat_map(|root| grown.children(root))
                        .collect(),
                )
            }
            Some(Node::Step(chain, node)) => {
                let grown = self.chains.get_mut(chain);
                (
                    chain,
                    grown.map_or_else(Vec::new, |grown| grown.children(node)),
                )
            }
            None => return Vec::new(),
        };
        let children: Vec<u32> = children;
        children
            .into_iter()
            .map(|node| self.id(Node::Step(chain, node)))
            .collect()
    }

    fn has_children(&self, id: u32) -> bool {
        match self.node(id) {
            Some(Node::Entry(entry)) => {
                match self.chain(entry).and_then(|at| self.chains.get(at)) {
                    Some(chain) => chain.roots().iter().any(|&root| chain.has_children(root)),
                    None => false,
                }
            }
            Some(Node::Step(chain, node)) => self
                .chains
                .get(chain)
                .is_some_and(|chain| chain.has_children(node)),
            None => false,
        }
    }

    fn total(&self, id: u32) -> u64 {
        match self.node(id) {
            Some(Node::Entry(entry)) => self.entries.get(entry).map_or(0, |hot| hot.total.period),
            Some(Node::Step(chain, node)) => {
                self.chains.get(chain).map_or(0, |chain| chain.total(node))
            }
            None => 0,
        }
    }
}

/// The tab.
#[derive(Default)]
pub(crate) struct Hotspots {
    table: Table,
    outline: Outline,
    order: Order,
    reversed: bool,
    /// Entries that open when their chains come.
    opening: Vec<Opening>,
    /// What was open and where the cursor was in the table before.
    folds: Folds,
}

/// The column that orders the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order(Field);

impl Default for Order {
    fn default() -> Self {
        Self(Field::Overhead)
    }
}

/// An entry that waits for its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Opening {
    node: u32,
    /// The function's key.
    key: u32,
    /// Whether the user opens it now, not in the table before.
    is_new: bool,
}

impl Tab for Hotspots {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    /// New data: the table anew, in the order it had. A cursor that was moved
    /// stays on its function, by name, and entries that were open, or waited
    /// for their chain, open again, as far as they were.
    fn renew(&mut self, shared: &mut Shared, fresh: &mut Fresh<'_>) {
        let least = shared.least();
        let Some(seen) = shared.seen.clone() else {
            return;
        };
        let selected = fresh.before.and_then(|before| self.selected_name(before));
        let open = fresh
            .before
            .map_or_else(Vec::new, |before| self.open_names(before));
        if let Some(before) = fresh.before {
            let (table, folds) = (&self.table, &mut self.folds);
            folds.remember(&self.outline, |node| {
                Name::of(before, table.site(before, node))
            });
        }
        let kept = seen.hot.iter().filter(|hot| hot.total.period >= least);
        let entries: Vec<Hot> = kept.copied().collect();
        self.fill(&seen, entries);
        if let Some(selected) = selected {
            let name = |hot: &Hot| name_of(&seen, hot.site);
            let at = self
                .table
                .entries
                .iter()
                .position(|hot| name(hot) == selected);
            self.outline.scroll.go_to(at.unwrap_or(0));
        }
        for (name, is_new) in open {
            let mut entries = self.table.entries.iter();
            let at = entries.position(|hot| name_of(&seen, hot.site) == name);
            let node = at.and_then(|at| u32::try_from(at).ok());
            if let Some(opening) = node.and_then(|node| self.begin(node, is_new)) {
                shared.asks.push(Ask::Around(opening.key));
            }
        }
    }

    /// Callers came; takes them for the chain that was to be opened.
    fn take(&mut self, shared: &mut Shared, answer: Answer) -> Option<Answer> {
        let Answer::Around(around) = answer else {
            return Some(answer);
        };
        let mut waiting = self.opening.iter();
        let Some(at) = waiting.position(|one| one.key == around.key) else {
            return Some(Answer::Around(around));
        };
        let Opening { node, is_new, .. } = self.opening.remove(at);
        let table = &mut self.table;
        table.chain_of.insert(around.key, table.chains.len());
        table.chains.push(Grown {
            growth: around.callers,
            least: shared.least(),
        });
        let selected = self.outline.selected().map(|row| row.node);
        let at = self.outline.rows().iter().position(|row| row.node == node);
        if let Some(at) = at {
            self.outline.open(&mut self.table, at);
            if let Some(selected) = selected {
                self.outline.select_node(selected);
            }
        }
        if let (Some(at), Some(seen), false) = (at, &shared.seen, is_new) {
            let name = |table: &Table, node| Name::of(seen, table.site(seen, node));
            self.folds
                .reopen(&mut self.table, &mut self.outline, at, name);
        }
        if is_new && !self.table.has_children(node) {
            shared.say("nobody called it, as far as the stacks tell");
        }
        None
    }

    fn selected(&self, shared: &Shared) -> Selected {
        let site = self.outline.selected().and_then(|row| {
            let seen = shared.seen.as_ref()?;
            self.table.site(seen, row.node)
        });
        Selected { site, task: None }
    }

    fn act(&mut self, shared: &mut Shared, action: Action) {
        match action {
            Action::NextOrder => {
                self.order = Order(columns::next(&ORDERS, self.order.0));
                return self.resort(shared);
            }
            Action::ReverseOrder => {
                self.reversed = !self.reversed;
                return self.resort(shared);
            }
            Action::Toggle | Action::Enter | Action::Right | Action::ToggleDeep => {
                let row = self.outline.selected();
                if self.must_wait(shared, row) {
                    return;
                }
            }
            Action::ExpandAll => {
                shared.say("opens one function at a time: Enter, or e for all below")
            }
            _ => {}
        }
        let height = shared.body_rows(self);
        let done = rows::act(&mut self.outline, &mut self.table, action, height);
        if let Some(opened) = done {
            rows::say_opened(shared, opened);
        }
    }

    fn click(&mut self, shared: &mut Shared, at: Position) {
        let area = shared.body(self);
        let body = (area, shared.body_rows(self));
        match rows::click_table(&mut self.outline, shared, body, at) {
            Clicked::Headings => {
                let columns = rows::columns(usize::from(area.width), "");
                if let Some(by) = columns.order_at(at.x) {
                    rows::choose_order(Order(by), &mut self.order, &mut self.reversed);
                }
                self.resort(shared);
            }
            Clicked::Fold => self.act(shared, Action::Toggle),
            Clicked::Row => {}
        }
    }

    fn scroll(&mut self) -> Option<&mut Scroll> {
        Some(&mut self.outline.scroll)
    }

    fn find(&mut self, shared: &mut Shared, found: &Found, forwards: bool) -> bool {
        let Some(seen) = &shared.seen else {
            return false;
        };
        let table = &self.table;
        rows::find(&mut self.outline, found, forwards, |row| {
            table.site(seen, row.node)
        })
    }

    fn written_rows(&self) -> Option<usize> {
        Some(self.outline.rows().len() + 1)
    }

    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let Some(seen) = &shared.seen else { return };
        let mut body = area;
        if shared.switches.headings {
            let order = Some((self.order.0, self.reversed));
            draw_headings(shared, area, order, buffer);
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        let table = &self.table;
        let describe = |row: OutlineRow| {
            match table.node(row.node)? {
                Node::Entry(entry) => {
                    let hot = table.entries.get(entry)?;
                    Some(FrameRow {
                        site: hot.site,
                        own: Some(hot.own),
                        total: hot.total,
                        bar: (hot.own, hot.total),
                        depth: row.depth,
                        // Whether it has callers is known when it is opened.
                        is_open: Some(row.is_open),
                        rank: Rank::Entry,
                    })
                }
                Node::Step(chain, node) => {
                    FrameRow::of_grown(table.chains.get(chain)?, seen, row, node)
                }
            }
        };
        let rows = OutlineRows {
            outline: &self.outline,
            has_focus: true,
            describe,
        };
        draw_outline(shared, &rows, body, buffer);
    }
}

impl Hotspots {
    /// Dso and name of the entries that are open or about to be, and
    /// whether they are about to be.
    fn open_names(&self, seen: &Seen) -> Vec<((String, String), bool)> {
        /// Each costs a look at the whole tree.
        const MOST: usize = 16;
        let rows = self.outline.rows().iter();
        let open = rows.filter(|row| row.depth == 0 && row.is_open);
        let open = open.map(|row| (row.node, false));
        let waiting = self.opening.iter().map(|one| (one.node, one.is_new));
        let nodes = waiting.chain(open).take(MOST);
        let named = nodes.filter_map(|(node, is_new)| {
            let site = self.table.site(seen, node)?;
            Some((name_of(seen, site), is_new))
        });
        named.collect()
    }

    /// Notes that an entry waits for its chain, unless it is there.
    fn begin(&mut self, node: u32, is_new: bool) -> Option<Opening> {
        let Some(Node::Entry(entry)) = self.table.node(node) else {
            return None;
        };
        let key = *self.table.keys.get(entry)?;
        if self.table.chain(entry).is_some() {
            return None;
        }
        let opening = Opening { node, key, is_new };
        self.opening.push(opening);
        Some(opening)
    }

    /// Dso and name of the entry that the cursor is in, unless it is on the
    /// first row, where it starts.
    fn selected_name(&self, seen: &Seen) -> Option<(String, String)> {
        let cursor = self.outline.scroll.cursor();
        let upto = self.outline.rows().get(..=cursor)?;
        let entry = upto.iter().rev().find(|row| row.depth == 0)?;
        let site = self.table.site(seen, entry.node)?;
        (cursor > 0).then(|| name_of(seen, site))
    }

    /// Orders the entries and closes all.
    fn fill(&mut self, seen: &Seen, mut entries: Vec<Hot>) {
        let profile = &seen.profile;
        // Of equal weight they stand by name: where they come from is another
        // with each filter.
        let name = |hot: &Hot| {
            let site = seen.site(hot.site);
            (site.name(profile), profile.name(profile.dso(site.dso).path))
        };
        let dso = |hot: &Hot| profile.name(profile.dso(seen.site(hot.site).dso).short_name);
        let by = self.order.0;
        entries.sort_by(|one, other| {
            let weights = match by {
                Field::Children => (other.total, other.own).cmp(&(one.total, one.own)),
                Field::Overhead => (other.own, other.total).cmp(&(one.own, one.total)),
                by if by == DSOS => (dso(one), other.own).cmp(&(dso(other), one.own)),
                _ => Ordering::Equal,
            };
            weights.then_with(|| name(one).cmp(&name(other)))
        });
        if self.reversed {
            entries.reverse();
        }
        let keys = entries
            .iter()
            .map(|hot| seen.key(hot.site).unwrap_or(u32::MAX));
        self.table = Table {
            keys: keys.collect(),
            entries,
            ..Table::default()
        };
        for entry in 0..self.table.entries.len() {
            self.table.id(Node::Entry(entry));
        }
        self.opening.clear();
        self.outline = Outline::closed(&mut self.table);
    }

    /// Asks for a function's callers if the row's are not there yet; whether
    /// they have to be waited for.
    fn must_wait(&mut self, shared: &mut Shared, row: Option<OutlineRow>) -> bool {
        let Some(row) = row else { return false };
        let opening = self.begin(row.node, true);
        shared.asks.extend(opening.map(|one| Ask::Around(one.key)));
        opening.is_some()
    }

    fn resort(&mut self, shared: &Shared) {
        let Some(seen) = &shared.seen else { return };
        let entries = std::mem::take(&mut self.table.entries);
        self.fill(seen, entries);
    }
}

/// Dso and name of a frame, the same in every profile of a recording.
pub(super) fn name_of(seen: &Seen, site: SiteId) -> (String, String) {
    let site = seen.site(site);
    let profile = &seen.profile;
    let path = profile.name(profile.dso(site.dso).path);
    (path.to_string(), site.name(profile).to_string())
}
