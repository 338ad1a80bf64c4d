//! Functions by weight; their callers fold in place, as in perf.

use super::rows::{self, Column, FrameRow, Rank, Shift, draw_headings, draw_outline};
use crate::action::Action;
use crate::app::{App, Selected};
use crate::data::{Around, Ask, Found, Grown, Hot, Seen};
use crate::outline::{Forest, Outline, Row};
use prof_report::model::{GrowId, SiteId};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::cmp::Reverse;
use std::collections::HashMap;

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
pub(crate) struct Table {
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
    pub(crate) outline: Outline,
    order: Column,
    reversed: bool,
    /// Entries that open when their chains come.
    opening: Vec<Opening>,
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

impl Hotspots {
    /// New data: the table anew, in the order it had. A cursor that was moved
    /// stays on its function, by name, and entries that were open, or waited
    /// for their chain, open again.
    pub(crate) fn renew(app: &mut App, before: Option<&Seen>) {
        let least = app.least();
        let Some(seen) = app.seen.clone() else { return };
        let hotspots = &mut app.hotspots;
        let selected = before.and_then(|before| hotspots.selected_name(before));
        let open = before.map_or_else(Vec::new, |before| hotspots.open_names(before));
        let kept = seen.hot.iter().filter(|hot| hot.total.period >= least);
        let entries: Vec<Hot> = kept.copied().collect();
        hotspots.fill(&seen, entries);
        if let Some(selected) = selected {
            let name = |hot: &Hot| name_of(&seen, hot.site);
            let at = hotspots
                .table
                .entries
                .iter()
                .position(|hot| name(hot) == selected);
            hotspots.outline.scroll.go_to(at.unwrap_or(0));
        }
        for (name, is_new) in open {
            let mut entries = hotspots.table.entries.iter();
            let at = entries.position(|hot| name_of(&seen, hot.site) == name);
            let node = at.and_then(|at| u32::try_from(at).ok());
            if let Some(opening) = node.and_then(|node| hotspots.begin(node, is_new)) {
                app.asks.push(Ask::Around(opening.key));
            }
        }
    }

    /// Module and name of the entries that are open or about to be, and
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

    /// Module and name under the cursor, unless it is on the first row, where
    /// it starts.
    fn selected_name(&self, seen: &Seen) -> Option<(String, String)> {
        let row = self
            .outline
            .selected()
            .filter(|_| self.outline.scroll.cursor() > 0)?;
        Some(name_of(seen, self.table.site(seen, row.node)?))
    }

    /// Orders the entries and closes all.
    fn fill(&mut self, seen: &Seen, mut entries: Vec<Hot>) {
        let profile = &seen.profile;
        match self.order {
            Column::Total => entries.sort_by_key(|hot| Reverse((hot.total, hot.own))),
            Column::Own => entries.sort_by_key(|hot| Reverse((hot.own, hot.total))),
            Column::Module => entries.sort_by_key(|hot| {
                let dso = seen.site(hot.site).dso;
                (profile.name(profile.dso(dso).short_name), Reverse(hot.own))
            }),
            Column::Name => entries.sort_by_key(|hot| seen.site(hot.site).name(profile)),
        }
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

    pub(crate) fn len(&self) -> usize {
        self.outline.rows().len()
    }

    pub(crate) fn selected(&self, app: &App) -> Selected {
        let site = self.outline.selected().and_then(|row| {
            let seen = app.seen.as_ref()?;
            self.table.site(seen, row.node)
        });
        Selected { site, task: None }
    }

    /// Asks for a function's callers if the row's are not there yet; whether
    /// they have to be waited for.
    fn must_wait(app: &mut App, row: Option<Row>) -> bool {
        let Some(row) = row else { return false };
        let opening = app.hotspots.begin(row.node, true);
        app.asks.extend(opening.map(|one| Ask::Around(one.key)));
        opening.is_some()
    }

    /// Callers came; takes them for the chain that was to be opened.
    pub(crate) fn chains_came(app: &mut App, around: Around) {
        let least = app.least();
        let mut waiting = app.hotspots.opening.iter();
        let Some(at) = waiting.position(|one| one.key == around.key) else {
            return super::Callers::came(app, around, least);
        };
        let hotspots = &mut app.hotspots;
        let Opening { node, is_new, .. } = hotspots.opening.remove(at);
        let table = &mut hotspots.table;
        table.chain_of.insert(around.key, table.chains.len());
        table.chains.push(Grown {
            growth: around.callers,
            least,
        });
        let at = hotspots
            .outline
            .rows()
            .iter()
            .position(|row| row.node == node);
        if let Some(at) = at {
            hotspots.outline.open(&mut hotspots.table, at);
        }
        if is_new && !hotspots.table.has_children(node) {
            app.say("nobody called it, as far as the stacks tell");
        }
    }

    pub(crate) fn act(app: &mut App, action: Action) {
        match action {
            Action::NextOrder => {
                app.hotspots.order = app.hotspots.order.next();
                return Self::resort(app);
            }
            Action::ReverseOrder => {
                app.hotspots.reversed = !app.hotspots.reversed;
                return Self::resort(app);
            }
            Action::Toggle | Action::Enter | Action::Right | Action::ToggleDeep => {
                let row = app.hotspots.outline.selected();
                if Self::must_wait(app, row) {
                    return;
                }
            }
            Action::ExpandAll => app.say("opens one function at a time: Enter, or e for all below"),
            _ => {}
        }
        let height = app.body_rows();
        let hotspots = &mut app.hotspots;
        let done = rows::act(&mut hotspots.outline, &mut hotspots.table, action, height);
        if let Some(opened) = done {
            rows::say_opened(app, opened);
        }
    }

    fn resort(app: &mut App) {
        let Some(seen) = app.seen.clone() else { return };
        let hotspots = &mut app.hotspots;
        let entries = std::mem::take(&mut hotspots.table.entries);
        hotspots.fill(&seen, entries);
    }

    pub(crate) fn click(app: &mut App, column: u16, row: u16) {
        let area = crate::frame::layout(app).body;
        let headings = u16::from(app.switches.headings);
        if row < headings {
            let by = Column::at(area, column);
            app.hotspots.reversed = by == app.hotspots.order && !app.hotspots.reversed;
            app.hotspots.order = by;
            return Self::resort(app);
        }
        let height = app.body_rows();
        let outline = &mut app.hotspots.outline;
        let shift = Shift::of(area, outline);
        let at = outline.scroll.top(height) + usize::from(row - headings);
        let Some(hit) = outline.rows().get(at).copied() else {
            return;
        };
        outline.scroll.settle(height);
        let was_there = outline.scroll.cursor() == at;
        outline.scroll.go_to(at);
        let fold = shift.fold_column(area, hit.depth);
        if was_there || (fold..fold + 2).contains(&column) {
            Self::act(app, Action::Toggle);
        }
    }

    pub(crate) fn find(app: &mut App, found: &Found, forwards: bool) -> bool {
        let Some(seen) = app.seen.clone() else {
            return false;
        };
        let hotspots = &mut app.hotspots;
        let table = &hotspots.table;
        rows::find(&mut hotspots.outline, found, forwards, |row| {
            table.site(&seen, row.node)
        })
    }

    pub(crate) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
        let (hotspots, Some(seen)) = (&app.hotspots, &app.seen) else {
            return;
        };
        let mut body = area;
        if app.switches.headings {
            let order = Some((hotspots.order, hotspots.reversed));
            draw_headings(app, area, order, buffer);
            body.y += 1;
            body.height = body.height.saturating_sub(1);
        }
        let table = &hotspots.table;
        draw_outline(app, body, &hotspots.outline, true, buffer, |row| {
            let site = table.site(seen, row.node)?;
            let (own, total, rank) = match table.node(row.node)? {
                Node::Entry(entry) => {
                    let hot = table.entries.get(entry)?;
                    (Some(hot.own), hot.total, Rank::Entry)
                }
                Node::Step(chain, node) => {
                    let growth = &table.chains.get(chain)?.growth;
                    (None, growth.total(GrowId(node)), Rank::Step)
                }
            };
            let bar = (own.unwrap_or(total), total);
            let is_entry = rank == Rank::Entry;
            // Whether an entry has callers is known when it is opened.
            let is_open =
                (row.is_open || is_entry || table.has_children(row.node)).then_some(row.is_open);
            Some(FrameRow {
                site,
                own,
                total,
                bar,
                depth: row.depth,
                is_open,
                rank,
            })
        });
    }
}

/// Module and name of a frame, the same in every profile of a recording.
fn name_of(seen: &Seen, site: SiteId) -> (String, String) {
    let site = seen.site(site);
    let profile = &seen.profile;
    let path = profile.name(profile.dso(site.dso).path);
    (path.to_string(), site.name(profile).to_string())
}
