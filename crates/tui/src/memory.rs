//! Where the user was in a tree, told by names: with another selection, or a
//! profile with more names, all nodes have new numbers.

use super::data::Seen;
use super::outline::{DEPTH_LIMIT, Forest, Outline, OutlineRow, ROW_LIMIT};
use prof_report::model::{NodeId, SiteId, SiteKind};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// A frame by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    hash: u64,
    is_inline: bool,
}

impl Name {
    /// By dso and function.
    pub(super) fn of(seen: &Seen, site: Option<SiteId>) -> Self {
        let Some(site) = site.map(|site| seen.site(site)) else {
            return Self {
                hash: 0,
                is_inline: false,
            };
        };
        let profile = &seen.profile;
        let mut hasher = FxHasher::default();
        let path = profile.name(profile.dso(site.dso).path);
        (path, site.name(profile)).hash(&mut hasher);
        Self {
            hash: hasher.finish(),
            is_inline: site.kind == SiteKind::Inline,
        }
    }
}

/// The names from a root to a frame. Inlined frames, which come late, make no
/// difference for what is called by them.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    own: u64,
    /// What the paths of callees go on from.
    base: u64,
}

impl Path {
    fn to(self, name: Name) -> Self {
        let mut hasher = FxHasher::default();
        (self.base, name.hash, name.is_inline).hash(&mut hasher);
        let own = hasher.finish();
        let base = if name.is_inline { self.base } else { own };
        Self { own, base }
    }
}

/// The open rows of a tree and the cursor in it.
#[derive(Debug, Default)]
pub(super) struct Folds {
    /// Paths of rows that the user left open.
    open: FxHashSet<u64>,
    /// Paths from a root to the cursor, and how far in each is.
    cursor: FxHashMap<u64, usize>,
    /// Rows and cursor as they were set; if they still are, the user has
    /// done nothing.
    set: Option<(Vec<OutlineRow>, usize)>,
    is_used: bool,
}

impl Folds {
    /// Remembers a tree before it goes, unless the user has not touched it.
    pub(super) fn remember(&mut self, outline: &Outline, name: impl Fn(u32) -> Name) {
        let (rows, cursor) = (outline.rows(), outline.scroll.cursor());
        let is_as_set = |(set, at): &(Vec<OutlineRow>, usize)| set == rows && *at == cursor;
        if self.set.as_ref().is_some_and(is_as_set) {
            return;
        }
        self.is_used = true;
        let mut way: Vec<Path> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            way.truncate(usize::from(row.depth));
            let path = way.last().copied().unwrap_or_default().to(name(row.node));
            way.push(path);
            if row.is_open {
                self.open.insert(path.own);
            } else {
                self.open.remove(&path.own);
            }
            if at == cursor {
                let steps = way.iter().zip(1..);
                self.cursor = steps.map(|(path, step)| (path.own, step)).collect();
            }
        }
    }

    /// The rows of a new tree as the user left them in the one before: the
    /// hottest path, if there was none.
    pub(super) fn outline<F: Forest>(
        &mut self,
        forest: &mut F,
        name: impl Fn(&F, u32) -> Name,
    ) -> Outline {
        self.outline_or(forest, name, Outline::hottest)
    }

    /// The same; `untouched` makes the rows if there was none.
    pub(super) fn outline_or<F: Forest>(
        &mut self,
        forest: &mut F,
        name: impl Fn(&F, u32) -> Name,
        untouched: impl FnOnce(&mut F) -> Outline,
    ) -> Outline {
        let outline = if self.is_used {
            self.restored(forest, &name)
        } else {
            untouched(forest)
        };
        self.set = Some((outline.rows().to_vec(), outline.scroll.cursor()));
        outline
    }

    /// Opens, below a root that was just opened, what the user left open there.
    /// The cursor, if it is on the root, goes to where it was below it.
    pub(super) fn reopen<F: Forest>(
        &self,
        forest: &mut F,
        outline: &mut Outline,
        root: usize,
        name: impl Fn(&F, u32) -> Name,
    ) {
        let Some(top) = outline.rows().get(root).copied() else {
            return;
        };
        let mut way = vec![Path::default().to(name(forest, top.node))];
        let (mut cursor, mut deepest) = (root, 1);
        let mut at = root + 1;
        while let Some(row) = outline.rows().get(at).copied() {
            if row.depth <= top.depth {
                break;
            }
            way.truncate(usize::from(row.depth - top.depth));
            let path = way.last().copied().unwrap_or_default();
            let path = path.to(name(forest, row.node));
            way.push(path);
            if self.open.contains(&path.own) && outline.rows().len() < ROW_LIMIT {
                outline.open(forest, at);
            }
            if let Some(&step) = self.cursor.get(&path.own).filter(|&&step| step > deepest) {
                (cursor, deepest) = (at, step);
            }
            at += 1;
        }
        if outline.scroll.cursor() == root {
            outline.scroll.go_to(cursor);
        }
    }

    fn restored<F: Forest>(&self, forest: &mut F, name: &impl Fn(&F, u32) -> Name) -> Outline {
        let mut rows = Vec::new();
        let (mut cursor, mut deepest) = (0, 0);
        let roots = forest.roots().into_iter().rev();
        let mut waiting: Vec<(u32, u16, Path)> =
            roots.map(|node| (node, 0, Path::default())).collect();
        while let Some((node, depth, caller)) = waiting.pop() {
            let this = name(forest, node);
            let path = caller.to(this);
            if let Some(&step) = self.cursor.get(&path.own).filter(|&&step| step > deepest) {
                (cursor, deepest) = (rows.len(), step);
            }
            let has_room = rows.len() + waiting.len() < ROW_LIMIT && depth < DEPTH_LIMIT;
            let is_open = has_room
                && forest.has_children(node)
                && (self.open.contains(&path.own)
                    || this.is_inline && self.leads_on(forest, (node, path), name));
            rows.push(OutlineRow {
                node,
                depth,
                is_open,
            });
            if is_open {
                let children = forest.children(node).into_iter().rev();
                waiting.extend(children.map(|child| (child, depth + 1, path)));
            }
        }
        Outline::of_rows(rows, cursor)
    }

    /// Whether what was open or under the cursor is called by an inlined
    /// frame that was not there before.
    fn leads_on<F: Forest>(
        &self,
        forest: &mut F,
        inlined: (u32, Path),
        name: &impl Fn(&F, u32) -> Name,
    ) -> bool {
        let mut waiting = vec![inlined];
        /// Frames looked at: so many are not inlined into each other.
        const MOST: usize = 256;
        for _ in 0..MOST {
            let Some((node, path)) = waiting.pop() else {
                return false;
            };
            for child in forest.children(node) {
                let this = name(forest, child);
                let path = path.to(this);
                if self.open.contains(&path.own) || self.cursor.contains_key(&path.own) {
                    return true;
                }
                if this.is_inline {
                    waiting.push((child, path));
                }
            }
        }
        false
    }
}

/// One frame of a call tree.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// Paths from a root to the frame.
    steps: Vec<u64>,
    /// Where it was put; if it still is there, the user has done nothing.
    set: Vec<NodeId>,
}

impl Trail {
    /// Remembers a frame before its tree goes.
    pub(super) fn remember(&mut self, seen: &Seen, nodes: &[NodeId]) {
        if self.set == nodes {
            return;
        }
        let mut path = Path::default();
        let steps = nodes.iter().map(|&node| {
            path = path.to(Name::of(seen, seen.site_at(node)));
            path.own
        });
        self.steps = steps.collect();
    }

    /// The frame in a new tree, or the innermost of its callers that is
    /// there.
    pub(super) fn find(&self, seen: &Seen) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        let mut path = Path::default();
        for &step in &self.steps {
            let at = nodes.last().copied().unwrap_or(NodeId::ROOT);
            let Some(next) = next_step(seen, at, path, step) else {
                break;
            };
            for &node in &next {
                path = path.to(Name::of(seen, seen.site_at(node)));
            }
            nodes.extend(next);
        }
        nodes
    }

    /// Tells where it was put.
    pub(super) fn set(&mut self, nodes: &[NodeId]) {
        self.set = nodes.to_vec();
    }
}

/// From a node to the callee at the path `step`, through inlined frames that
/// may be new.
fn next_step(seen: &Seen, node: NodeId, path: Path, step: u64) -> Option<Vec<NodeId>> {
    /// See [`Folds::leads_on`].
    const MOST: usize = 256;
    let mut waiting = vec![(vec![], path)];
    for _ in 0..MOST {
        let (way, path): (Vec<NodeId>, Path) = waiting.pop()?;
        let at = way.last().copied().unwrap_or(node);
        for &child in seen.tree.children(at) {
            if seen.tree.total(child).period == 0 {
                break;
            }
            let name = Name::of(seen, seen.site_at(child));
            let next = path.to(name);
            let on = || [&way[..], &[child]].concat();
            if next.own == step {
                return Some(on());
            }
            if name.is_inline {
                waiting.insert(0, (on(), next));
            }
        }
    }
    None
}
