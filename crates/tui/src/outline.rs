//! Rows that open and close, of which only a screenful is drawn.
//!
//! The open rows are one flat list, so a key costs the rows it opens or
//! closes, never the tree.

use super::scroll::Scroll;

/// Something whose nodes have children, named by numbers. Children may be
/// made when first asked for.
pub(super) trait Forest {
    /// The roots, hottest first.
    fn roots(&self) -> Vec<u32>;
    /// A node's children, hottest first.
    fn children(&mut self, node: u32) -> Vec<u32>;
    /// Whether a node has any; does not make them.
    fn has_children(&self, node: u32) -> bool;
    /// A node's total weight.
    fn total(&self, node: u32) -> u64;
}

/// A row that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutlineRow {
    pub(super) node: u32,
    pub(super) depth: u16,
    pub(super) is_open: bool,
}

/// The rows of a forest that are open, with a cursor.
#[derive(Debug, Clone, Default)]
pub(super) struct Outline {
    rows: Vec<OutlineRow>,
    pub(super) scroll: Scroll,
}

/// Rows are not opened beyond this depth: deeper than any screen is wide.
pub(super) const DEPTH_LIMIT: u16 = 2048;

/// Opening everything stops at this many rows, so that it answers at once.
pub(super) const ROW_LIMIT: usize = 10_000;

/// Whether all was opened that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opened {
    /// Yes.
    All,
    /// Up to [`ROW_LIMIT`] rows.
    Part,
}

impl Outline {
    /// These rows, with the cursor on one of them.
    pub(super) fn of_rows(rows: Vec<OutlineRow>, cursor: usize) -> Self {
        let mut scroll = Scroll::default();
        scroll.set_len(rows.len());
        scroll.go_to(cursor);
        Self { rows, scroll }
    }

    /// The roots, all closed.
    pub(super) fn closed(forest: &mut impl Forest) -> Self {
        let mut outline = Self::default();
        outline.collapse_all(forest);
        outline
    }

    /// The roots, and the hottest path open up to its first branch: while one
    /// child holds most of its parent's weight.
    pub(super) fn hottest(forest: &mut impl Forest) -> Self {
        let mut outline = Self::closed(forest);
        let mut at = 0;
        while outline.open(forest, at) {
            let Some(row) = outline.rows.get(at).copied() else {
                break;
            };
            let hottest = forest.children(row.node).first().copied();
            let is_branch = hottest.is_none_or(|hottest| {
                forest.total(hottest).saturating_mul(2) <= forest.total(row.node)
            });
            at += 1;
            if is_branch {
                break;
            }
        }
        outline
    }

    pub(super) fn rows(&self) -> &[OutlineRow] {
        &self.rows
    }

    /// The row under the cursor.
    pub(super) fn selected(&self) -> Option<OutlineRow> {
        self.rows.get(self.scroll.cursor()).copied()
    }

    /// Opens a row; whether it has anything to open.
    pub(super) fn open(&mut self, forest: &mut impl Forest, at: usize) -> bool {
        let Some(row) = self.rows.get_mut(at) else {
            return false;
        };
        let children = forest.children(row.node);
        if children.is_empty() || row.depth >= DEPTH_LIMIT {
            return false;
        }
        if row.is_open {
            return true;
        }
        row.is_open = true;
        let depth = row.depth + 1;
        let opened = children.into_iter().map(|node| OutlineRow {
            node,
            depth,
            is_open: false,
        });
        self.rows.splice(at + 1..at + 1, opened);
        self.scroll.set_len(self.rows.len());
        true
    }

    /// Closes a row; whether it was open.
    pub(super) fn close(&mut self, at: usize) -> bool {
        let Some(row) = self.rows.get_mut(at).filter(|row| row.is_open) else {
            return false;
        };
        row.is_open = false;
        let end = self.subtree_end(at);
        self.rows.drain(at + 1..end);
        self.scroll.set_len(self.rows.len());
        true
    }

    /// Opens or closes a row.
    pub(super) fn toggle(&mut self, forest: &mut impl Forest, at: usize) {
        if !self.close(at) {
            self.open(forest, at);
        }
    }

    /// Opens everything below a row, or closes it.
    pub(super) fn toggle_deep(&mut self, forest: &mut impl Forest, at: usize) -> Opened {
        if self.close(at) {
            return Opened::All;
        }
        let Some(row) = self.rows.get_mut(at) else {
            return Opened::All;
        };
        let mut below = Vec::new();
        let children = forest.children(row.node);
        row.is_open = !children.is_empty();
        let opened = push_open(forest, children, row.depth + 1, &mut below);
        self.rows.splice(at + 1..at + 1, below);
        self.scroll.set_len(self.rows.len());
        opened
    }

    /// Opens everything; the cursor stays on its row.
    pub(super) fn expand_all(&mut self, forest: &mut impl Forest) -> Opened {
        let selected = self.selected();
        self.rows.clear();
        let opened = push_open(forest, forest.roots(), 0, &mut self.rows);
        self.scroll.set_len(self.rows.len());
        if let Some(row) = selected {
            self.select_node(row.node);
        }
        opened
    }

    /// Closes everything; the cursor goes to the root it was in.
    pub(super) fn collapse_all(&mut self, forest: &mut impl Forest) {
        let root = self
            .rows
            .get(..self.scroll.cursor().saturating_add(1))
            .and_then(|above| above.iter().rev().find(|row| row.depth == 0))
            .map(|row| row.node);
        self.rows = forest
            .roots()
            .into_iter()
            .map(|node| OutlineRow {
                node,
                depth: 0,
                is_open: false,
            })
            .collect();
        self.scroll.set_len(self.rows.len());
        if let Some(node) = root {
            self.select_node(node);
        }
    }

    /// The row of the parent.
    pub(super) fn parent(&self, at: usize) -> Option<usize> {
        let depth = self.rows.get(at)?.depth;
        let above = self.rows.get(..at)?;
        above.iter().rposition(|row| row.depth < depth)
    }

    /// Puts the cursor on a node, if it is shown.
    pub(super) fn select_node(&mut self, node: u32) -> bool {
        let found = self.rows.iter().position(|row| row.node == node);
        if let Some(at) = found {
            self.scroll.go_to(at);
        }
        found.is_some()
    }

    /// Opens the way to a node, given from a root down, and selects it.
    pub(super) fn reveal(&mut self, forest: &mut impl Forest, path: &[u32]) {
        let mut from = 0;
        let mut last = None;
        for (step, &node) in path.iter().enumerate() {
            let depth = u16::try_from(step).unwrap_or(DEPTH_LIMIT);
            let rest = self.rows.get(from..).unwrap_or_default();
            let Some(at) = rest
                .iter()
                .position(|row| row.depth == depth && row.node == node)
            else {
                break;
            };
            from += at;
            last = Some(from);
            if step + 1 < path.len() {
                self.open(forest, from);
                from += 1;
            }
        }
        if let Some(last) = last {
            self.scroll.jump_to(last);
        }
    }

    fn subtree_end(&self, at: usize) -> usize {
        let Some(depth) = self.rows.get(at).map(|row| row.depth) else {
            return at;
        };
        let below = self.rows.get(at + 1..).unwrap_or_default();
        let len = below
            .iter()
            .position(|row| row.depth <= depth)
            .unwrap_or(below.len());
        at + 1 + len
    }
}

/// Appends `nodes` with all below them, in the order of the screen. Past the
/// limit, what waits is appended closed.
fn push_open(
    forest: &mut impl Forest,
    nodes: Vec<u32>,
    depth: u16,
    rows: &mut Vec<OutlineRow>,
) -> Opened {
    let mut opened = Opened::All;
    let mut waiting: Vec<(u32, u16)> = nodes.into_iter().rev().map(|node| (node, depth)).collect();
    while let Some((node, depth)) = waiting.pop() {
        let has_room = rows.len() + waiting.len() < ROW_LIMIT && depth < DEPTH_LIMIT;
        let has_children = forest.has_children(node);
        if has_children && !has_room {
            opened = Opened::Part;
        }
        let is_open = has_children && has_room;
        rows.push(OutlineRow {
            node,
            depth,
            is_open,
        });
        if is_open {
            let children = forest.children(node);
            waiting.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
        }
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::{Forest, Outline};

    /// 0 ── 1 ── 2
    ///      └─── 3
    /// 4
    struct Small;

    impl Forest for Small {
        fn roots(&self) -> Vec<u32> {
            vec![0, 4]
        }

        fn children(&mut self, node: u32) -> Vec<u32> {
            match node {
                0 => vec![1],
                1 => vec![2, 3],
                _ => Vec::new(),
            }
        }

        fn has_children(&self, node: u32) -> bool {
            node < 2
        }

        fn total(&self, node: u32) -> u64 {
            [90, 90, 45, 45, 10]
                .get(node as usize)
                .copied()
                .unwrap_or(0)
        }
    }

    fn shown(outline: &Outline) -> Vec<u32> {
        outline.rows().iter().map(|row| row.node).collect()
    }

    #[test]
    fn the_hottest_path_is_open_to_its_first_branch() {
        let outline = Outline::hottest(&mut Small);
        assert_eq!(shown(&outline), [0, 1, 2, 3, 4]);
        assert_eq!(outline.selected().map(|row| row.node), Some(0));
        let mut outline = outline;
        outline.scroll.step(1);
        assert_eq!(outline.selected().map(|row| row.node), Some(1));
        outline.scroll.go_to(usize::MAX);
        assert_eq!(outline.selected().map(|row| row.node), Some(4));
    }

    #[test]
    fn closing_a_row_takes_all_below_with_it() {
        let mut outline = Outline::hottest(&mut Small);
        assert!(outline.close(0));
        assert_eq!(shown(&outline), [0, 4]);
        outline.toggle(&mut Small, 0);
        assert_eq!(shown(&outline), [0, 1, 4]);
        outline.toggle_deep(&mut Small, 1);
        assert_eq!(shown(&outline), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn expanding_and_collapsing_keep_the_cursor_in_its_tree() {
        let mut outline = Outline::hottest(&mut Small);
        outline.select_node(3);
        outline.collapse_all(&mut Small);
        assert_eq!(outline.selected().map(|row| row.node), Some(0));
        outline.select_node(4);
        outline.expand_all(&mut Small);
        assert_eq!(outline.selected().map(|row| row.node), Some(4));
        assert_eq!(shown(&outline), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn revealing_opens_only_the_way() {
        let mut outline = Outline::closed(&mut Small);
        outline.reveal(&mut Small, &[0, 1, 3]);
        assert_eq!(outline.selected().map(|row| row.node), Some(3));
        assert_eq!(outline.parent(3), Some(1));
    }
}
