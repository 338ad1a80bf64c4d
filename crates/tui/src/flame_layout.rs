//! Which frame of a flame graph covers which cells.
//!
//! A frame's edges are its exact share of the width, rounded once, so errors
//! do not add up with depth. Frames that are narrower than a cell are not
//! dropped: neighbours are merged until they fill one, and the cell says how
//! many it stands for. The last ones, which fill less than half a cell, join
//! the merged cell before them or get one where the caller's has columns
//! left; else the cell before them counts them beside itself.

use prof_report::model::{CallTree, NodeId};

/// What is laid out: a tree whose root is [`NodeId::ROOT`].
pub(super) trait Stacks {
    /// A frame's callees, hottest first.
    fn children(&self, node: NodeId) -> &[NodeId];
    /// A frame's total weight.
    fn total(&self, node: NodeId) -> u64;
}

impl Stacks for CallTree {
    fn children(&self, node: NodeId) -> &[NodeId] {
        self.children(node)
    }

    fn total(&self, node: NodeId) -> u64 {
        self.total(node).period
    }
}

/// One frame on the screen, or several too narrow for a cell each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    /// First column.
    pub(super) left: u16,
    /// Column after the last.
    pub(super) right: u16,
    /// The frame, or the hottest of those merged.
    pub(super) node: NodeId,
    /// Which of its caller's callees that is, counted from 0.
    first: usize,
    /// How many frames: 1, or more if merged.
    pub(super) frames: u32,
    /// Their weight.
    pub(super) weight: u64,
    /// Index of the parent in the row above.
    pub(super) parent: usize,
    /// Siblings that no column is left for.
    pub(super) beside: Narrower,
}

/// Frames that are not drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Narrower {
    pub(super) frames: u32,
    /// Their weight: less than a cell's.
    pub(super) weight: u64,
}

impl Cell {
    /// Whether it stands for several frames.
    pub(super) fn is_merged(&self) -> bool {
        self.frames > 1
    }
}

/// A place for the cursor. Ordered by row, then from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) row: usize,
    /// Index of the cell in its row.
    pub(super) index: usize,
    pub(super) part: CellPart,
}

/// What of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CellPart {
    /// The frame or frames it is drawn for.
    Cell,
    /// The narrower ones beside it.
    Beside,
}

/// Rows of cells from the zoomed frame's outermost caller down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) rows: Vec<Vec<Cell>>,
    /// Rows from a root to the zoomed frame.
    zoomed: usize,
}

/// A span of the width: its exact edges are `start / total` and
/// `end / total` of `columns`.
#[derive(Clone, Copy)]
struct Scale {
    total: u64,
    columns: u16,
}

impl Scale {
    /// The column at which weight `at` ends, rounded to the nearest.
    fn column(self, at: u64) -> u16 {
        let exact = u128::from(at) * u128::from(self.columns) * 2 + u128::from(self.total);
        let column = exact / (u128::from(self.total.max(1)) * 2);
        u16::try_from(column).unwrap_or(u16::MAX).min(self.columns)
    }

    /// The least weight that ends behind `column`; of the many frames that
    /// are narrower than a cell, each is compared with it and not divided.
    fn least_behind(self, column: u16) -> u64 {
        let halves = (u128::from(column) * 2 + 1) * u128::from(self.total);
        let least = halves.div_ceil(u128::from(self.columns.max(1)) * 2);
        u64::try_from(least).unwrap_or(u64::MAX)
    }
}

/// Frames that wait for a cell.
struct Waiting {
    hottest: NodeId,
    /// Its place among its siblings.
    first: usize,
    frames: u32,
    /// The weight at which they start, and its column.
    from: u64,
    left: u16,
    /// The weight at which they fill a cell.
    full: u64,
}

impl Layout {
    /// Lays out what is below `zoom` (a path from a root; empty for all) on
    /// `columns` columns and at most `depth` rows.
    pub(super) fn new(forest: &impl Stacks, zoom: &[NodeId], columns: u16, depth: usize) -> Self {
        let mut layout = Self::default();
        let top = zoom.last().copied().unwrap_or(NodeId::ROOT);
        let total = forest.total(top);
        if total == 0 || columns == 0 {
            return layout;
        }
        // The way to the zoomed frame fills the width.
        layout.zoomed = zoom.len();
        let mut caller = NodeId::ROOT;
        for &node in zoom {
            let siblings = forest.children(std::mem::replace(&mut caller, node));
            let place = siblings.iter().position(|&sibling| sibling == node);
            layout.rows.push(vec![Cell {
                left: 0,
                right: columns,
                node,
                first: place.unwrap_or(0),
                frames: 1,
                weight: forest.total(node),
                parent: 0,
                beside: Narrower::default(),
            }]);
        }
        let scale = Scale { total, columns };
        // Where each cell of the last row starts, in weight.
        let mut starts = vec![0];
        if zoom.is_empty() {
            let mut row = RowBuilder::new(scale);
            let place = CellPlace {
                start: 0,
                right: columns,
                parent: 0,
            };
            row.push_children(forest, forest.children(NodeId::ROOT), place);
            starts = row.starts;
            layout.push_row(row.cells);
        }
        while layout.rows.len() < depth {
            let mut row = RowBuilder::new(scale);
            let Some(above) = layout.rows.last() else {
                break;
            };
            for (parent, (cell, &start)) in above.iter().zip(&starts).enumerate() {
                if !cell.is_merged() {
                    let place = CellPlace {
                        start,
                        right: cell.right,
                        parent,
                    };
                    row.push_children(forest, forest.children(cell.node), place);
                }
            }
            starts = row.starts;
            if !layout.push_row(row.cells) {
                break;
            }
        }
        layout
    }

    fn push_row(&mut self, cells: Vec<Cell>) -> bool {
        let is_filled = !cells.is_empty();
        if is_filled {
            self.rows.push(cells);
        }
        is_filled
    }

    /// What covers a column of a row: a cell, or in its last column the
    /// narrower frames beside it.
    pub(super) fn at(&self, row: usize, column: u16) -> Option<Spot> {
        let cells = self.rows.get(row)?;
        let index = cells.partition_point(|cell| cell.right <= column);
        let cell = cells.get(index)?;
        let is_last = column > cell.left && column + 1 == cell.right;
        let part = if cell.beside.frames > 0 && is_last {
            CellPart::Beside
        } else {
            CellPart::Cell
        };
        (cell.left <= column).then_some(Spot { row, index, part })
    }

    /// The cell of a spot.
    pub(super) fn cell(&self, spot: Spot) -> Option<&Cell> {
        self.rows.get(spot.row)?.get(spot.index)
    }

    /// The spots of a row, from left to right.
    pub(super) fn spots(&self, row: usize) -> impl Iterator<Item = Spot> {
        let cells = self.rows.get(row).map_or(&[][..], Vec::as_slice);
        cells.iter().enumerate().flat_map(move |(index, cell)| {
            let spot = move |part| Spot { row, index, part };
            let beside = (cell.beside.frames > 0).then_some(CellPart::Beside);
            std::iter::once(CellPart::Cell).chain(beside).map(spot)
        })
    }

    /// The frames that a spot stands for, hottest first.
    pub(super) fn frames<'a>(&self, forest: &'a impl Stacks, spot: Spot) -> &'a [NodeId] {
        let siblings = self.siblings(forest, spot);
        let Some(cell) = self.cell(spot) else {
            return &[];
        };
        let (from, count) = match spot.part {
            CellPart::Cell => (cell.first, cell.frames),
            CellPart::Beside => (cell.first + cell.frames as usize, cell.beside.frames),
        };
        siblings.get(from..from + count as usize).unwrap_or(&[])
    }

    /// All callees of a spot's caller.
    fn siblings<'a>(&self, forest: &'a impl Stacks, spot: Spot) -> &'a [NodeId] {
        let caller = self.caller(spot).and_then(|above| self.cell(above));
        forest.children(caller.map_or(NodeId::ROOT, |cell| cell.node))
    }

    /// Where the caller of a spot is.
    fn caller(&self, spot: Spot) -> Option<Spot> {
        Some(Spot {
            row: spot.row.checked_sub(1)?,
            index: self.cell(spot)?.parent,
            part: CellPart::Cell,
        })
    }

    /// The nodes from a root to the hottest frame of a spot.
    pub(super) fn path(&self, forest: &impl Stacks, spot: Spot) -> Vec<NodeId> {
        let mut path: Vec<NodeId> = self.cell(spot).map(|cell| cell.node).into_iter().collect();
        if spot.part == CellPart::Beside
            && let Some(&hottest) = self.frames(forest, spot).first()
        {
            path = vec![hottest];
        }
        let callers = std::iter::successors(self.caller(spot), |&spot| self.caller(spot));
        path.extend(callers.filter_map(|spot| Some(self.cell(spot)?.node)));
        path.reverse();
        path
    }

    /// Where the last node of a path is, or the innermost of its callers that
    /// is anywhere; `None` outside of what is zoomed into.
    pub(super) fn find(&self, forest: &impl Stacks, path: &[NodeId]) -> Option<Spot> {
        let mut spot = None;
        for (row, &node) in path.iter().enumerate() {
            let caller = spot.map_or(0, |spot: Spot| spot.index);
            let Some(next) = self.find_in(forest, (row, caller), node) else {
                if row < self.zoomed {
                    return None;
                }
                break;
            };
            spot = Some(next);
            let cell = self.cell(next)?;
            if cell.is_merged() || next.part == CellPart::Beside {
                break;
            }
        }
        spot
    }

    /// Where a callee of the frame of a spot is.
    pub(super) fn below(&self, forest: &impl Stacks, spot: Spot, node: NodeId) -> Option<Spot> {
        self.find_in(forest, (spot.row + 1, spot.index), node)
    }

    /// Where in a row a callee of the cell `caller` of the row above is.
    fn find_in(
        &self,
        forest: &impl Stacks,
        (row, caller): (usize, usize),
        node: NodeId,
    ) -> Option<Spot> {
        let cells = self.rows.get(row)?;
        let from = cells.partition_point(|cell| cell.parent < caller);
        let callees = || (from..).zip(cells.get(from..).unwrap_or(&[]));
        let mut callees = callees().take_while(|(_, cell)| cell.parent == caller);
        let spot = |index, part| Spot { row, index, part };
        if let Some((index, _)) = callees.clone().find(|(_, cell)| cell.node == node) {
            return Some(spot(index, CellPart::Cell));
        }
        let siblings = self.siblings(forest, spot(from, CellPart::Cell));
        let place = siblings.iter().position(|&sibling| sibling == node)?;
        callees.find_map(|(index, cell)| {
            let behind = cell.first + cell.frames as usize;
            let part = if (cell.first..behind).contains(&place) {
                CellPart::Cell
            } else if (behind..behind + cell.beside.frames as usize).contains(&place) {
                CellPart::Beside
            } else {
                return None;
            };
            Some(spot(index, part))
        })
    }
}

/// Where the callees of a cell go.
#[derive(Clone, Copy)]
struct CellPlace {
    /// The weight at which the cell starts.
    start: u64,
    /// The column after its last.
    right: u16,
    /// Its index in its row.
    parent: usize,
}

struct RowBuilder {
    scale: Scale,
    cells: Vec<Cell>,
    starts: Vec<u64>,
}

impl RowBuilder {
    fn new(scale: Scale) -> Self {
        Self {
            scale,
            cells: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Places siblings side by side.
    fn push_children(&mut self, forest: &impl Stacks, nodes: &[NodeId], caller: CellPlace) {
        let mut at = caller.start;
        let mut waiting: Option<Waiting> = None;
        for (place, &node) in nodes.iter().enumerate() {
            let end = at.saturating_add(forest.total(node));
            let mut cell = waiting.take().unwrap_or_else(|| {
                let left = self.scale.column(at);
                Waiting {
                    hottest: node,
                    first: place,
                    frames: 0,
                    from: at,
                    left,
                    full: self.scale.least_behind(left),
                }
            });
            cell.frames = cell.frames.saturating_add(1);
            at = end;
            let right = if end < cell.full {
                cell.left
            } else {
                self.scale.column(end)
            };
            if right <= cell.left {
                waiting = Some(cell);
                continue;
            }
            self.push(&cell, right, end, caller.parent);
        }
        if let Some(rest) = waiting.filter(|rest| rest.from < at) {
            self.push_rest(&rest, at, caller);
        }
    }

    fn push(&mut self, cell: &Waiting, right: u16, end: u64, parent: usize) {
        self.cells.push(Cell {
            left: cell.left,
            right,
            node: cell.hottest,
            first: cell.first,
            frames: cell.frames,
            weight: end.saturating_sub(cell.from),
            parent,
            beside: Narrower::default(),
        });
        self.starts.push(cell.from);
    }

    /// The last siblings, which end at weight `end` in the column where they
    /// start.
    fn push_rest(&mut self, rest: &Waiting, end: u64, place: CellPlace) {
        let weight = end.saturating_sub(rest.from);
        let last = self.cells.last_mut();
        match last.filter(|last| last.parent == place.parent) {
            Some(last) if last.is_merged() => {
                last.frames = last.frames.saturating_add(rest.frames);
                last.weight = last.weight.saturating_add(weight);
            }
            // The caller's own weight leaves columns free.
            _ if rest.left < place.right => self.push(rest, rest.left + 1, end, place.parent),
            Some(last) => {
                last.beside = Narrower {
                    frames: rest.frames,
                    weight,
                };
            }
            // Not reached: a cell has a column for the first of its callees.
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CellPart, Layout, NodeId, Scale, Spot, Stacks};
    use prof_profile::FunctionId;
    use prof_report::model::{Filter, ModeFilter, Recursion, Scene, Selection, Transform};
    use prof_sketch::{profile as sketch, samples};
    use proptest::prelude::*;

    /// Trees with all frames, without inlined ones, folded, and filtered.
    fn selections() -> impl Strategy<Value = Selection> {
        let transforms = prop_oneof![
            Just(Vec::new()),
            (0_u32..4).prop_map(|id| vec![Transform::Merge(FunctionId(id))]),
            Just(vec![Transform::CollapseRecursion(Recursion::Any)]),
        ];
        let mode = prop_oneof![Just(None), Just(Some(ModeFilter::User))];
        (transforms, mode, any::<bool>()).prop_map(|(transforms, mode, inlines)| Selection {
            filter: Filter {
                mode,
                ..Filter::default()
            },
            transforms,
            inlines,
            ..Selection::default()
        })
    }

    proptest! {
        #[test]
        fn a_row_tells_all_of_the_one_above_but_for_its_own(
            samples in samples(),
            selection in selections(),
            columns in 1_u16..40,
        ) {
            let profile = sketch(&samples);
            let scene = Scene::new(&profile, selection);
            let tree = scene.tree();
            let layout = Layout::new(tree, &[], columns, usize::MAX);
            let told = |cell: &super::Cell| cell.weight + cell.beside.weight;
            let outermost = layout.rows.iter().take(1).flatten().map(told).sum::<u64>();
            let total = scene.total().period;
            prop_assert_eq!(outermost, total - tree.own(NodeId::ROOT).period);
            for (row, below) in layout.rows.iter().zip(layout.rows.iter().skip(1)) {
                for (index, cell) in row.iter().enumerate() {
                    let of_cell = || below.iter().filter(|below| below.parent == index);
                    let callees: u64 = of_cell().map(told).sum();
                    if cell.is_merged() {
                        // Those merged are not told apart further in.
                        prop_assert_eq!(callees, 0);
                    } else {
                        prop_assert_eq!(cell.weight, tree.total(cell.node).period);
                        prop_assert_eq!(callees, cell.weight - tree.own(cell.node).period);
                        let called = tree.children(cell.node).iter();
                        let called = called.filter(|&&node| tree.total(node).period > 0);
                        let frames = of_cell().map(|below| below.frames + below.beside.frames);
                        prop_assert_eq!(frames.sum::<u32>() as usize, called.count());
                    }
                }
            }
            for row in 0..layout.rows.len() {
                for spot in layout.spots(row) {
                    let path = layout.path(tree, spot);
                    prop_assert_eq!(path.len(), row + 1);
                    for &frame in layout.frames(tree, spot) {
                        let callers = path.get(..row).unwrap_or_default();
                        let path = [callers, &[frame]].concat();
                        prop_assert_eq!(layout.find(tree, &path), Some(spot));
                    }
                }
            }
            for row in &layout.rows {
                let mut end = 0;
                for cell in row {
                    // A cell is as wide as its weight, rounded up or down.
                    let width = u128::from(cell.right - cell.left) * u128::from(total);
                    let exact = u128::from(cell.weight) * u128::from(columns);
                    prop_assert!(width.abs_diff(exact) <= u128::from(total));
                    // What is only told would not fill half a cell.
                    let beside = u128::from(cell.beside.weight) * u128::from(columns);
                    prop_assert!(beside < u128::from(total));
                    prop_assert!(cell.left >= end && cell.left < cell.right);
                    prop_assert!(cell.right <= columns);
                    end = cell.right;
                }
            }
        }
    }

    /// One frame with three wide callees and a hundred narrow ones.
    struct Broad {
        outermost: Vec<NodeId>,
        callees: Vec<NodeId>,
    }

    impl Broad {
        fn new() -> Self {
            Self {
                outermost: vec![NodeId(1)],
                callees: (2..=104).map(NodeId).collect(),
            }
        }
    }

    impl Stacks for Broad {
        fn children(&self, node: NodeId) -> &[NodeId] {
            match node.0 {
                0 => &self.outermost,
                1 => &self.callees,
                _ => &[],
            }
        }

        fn total(&self, node: NodeId) -> u64 {
            match node.0 {
                0 | 1 => 1000,
                2..=4 => 300,
                _ => 1,
            }
        }
    }

    #[test]
    fn narrow_frames_are_merged_not_dropped() {
        let layout = Layout::new(&Broad::new(), &[], 20, 10);
        let row = layout.rows.get(1).expect("a row of callees");
        let widths: Vec<_> = row.iter().map(|cell| cell.right - cell.left).collect();
        assert_eq!(widths, [6, 6, 6, 1, 1]);
        let merged: u32 = row.iter().skip(3).map(|cell| cell.frames).sum();
        let weight: u64 = row.iter().map(|cell| cell.weight).sum();
        assert_eq!((merged, weight), (100, 1000));
    }

    /// One frame that calls a wide and two narrow ones and does the rest
    /// itself.
    struct Slim {
        own: u64,
        of: [Vec<NodeId>; 2],
    }

    impl Slim {
        fn new(own: u64) -> Self {
            let of = [vec![NodeId(1)], vec![NodeId(2), NodeId(3), NodeId(4)]];
            Self { own, of }
        }
    }

    impl Stacks for Slim {
        fn children(&self, node: NodeId) -> &[NodeId] {
            self.of.get(node.0 as usize).map_or(&[], Vec::as_slice)
        }

        fn total(&self, node: NodeId) -> u64 {
            match node.0 {
                0 | 1 => 1000,
                2 => 998 - self.own,
                _ => 1,
            }
        }
    }

    #[test]
    fn the_last_narrow_frames_get_a_cell_or_are_told_beside_the_one_before() {
        let row = |own| {
            let mut layout = Layout::new(&Slim::new(own), &[], 20, 10);
            layout.rows.pop().expect("a row of callees")
        };
        let edges = |cell: &super::Cell| (cell.left, cell.right, cell.frames);
        // No column is left of the caller's.
        let [wide] = row(0)[..] else {
            panic!("{:?}", row(0))
        };
        assert_eq!((edges(&wide), wide.weight), ((0, 20, 1), 998));
        assert_eq!((wide.beside.frames, wide.beside.weight), (2, 2));
        // Its own weight leaves some.
        let [wide, narrow] = row(100)[..] else {
            panic!("{:?}", row(100))
        };
        assert_eq!((edges(&wide), wide.beside.frames), ((0, 18, 1), 0));
        assert_eq!((edges(&narrow), narrow.weight), ((18, 19, 2), 2));
        // Whichever it is, the frame is found, and what is called by it.
        for (own, index, part) in [(0, 0, CellPart::Beside), (100, 1, CellPart::Cell)] {
            let forest = Slim::new(own);
            let layout = Layout::new(&forest, &[], 20, 10);
            let spot = Spot {
                row: 1,
                index,
                part,
            };
            for path in [&[1, 3][..], &[1, 4], &[1, 4, 7]] {
                let path: Vec<_> = path.iter().copied().map(NodeId).collect();
                assert_eq!(layout.find(&forest, &path), Some(spot), "{path:?}");
            }
            assert_eq!(layout.frames(&forest, spot), [NodeId(3), NodeId(4)]);
            assert_eq!(layout.path(&forest, spot), [NodeId(1), NodeId(3)]);
        }
    }

    #[test]
    fn zooming_gives_a_frame_the_whole_width() {
        let zoom = [NodeId(1), NodeId(3)];
        let layout = Layout::new(&Broad::new(), &zoom, 20, 10);
        assert_eq!(layout.rows.len(), 2);
        let edges = layout.rows.get(1).and_then(|row| row.first());
        assert_eq!(edges.map(|cell| (cell.left, cell.right)), Some((0, 20)));
        let spot = |row| Spot {
            row,
            index: 0,
            part: CellPart::Cell,
        };
        assert_eq!(layout.path(&Broad::new(), spot(1)), zoom);
        assert_eq!(layout.frames(&Broad::new(), spot(1)), [NodeId(3)]);
        let find = |path: &[NodeId]| layout.find(&Broad::new(), path);
        assert_eq!(find(&zoom), Some(spot(1)));
        assert_eq!(find(&[NodeId(1)]), Some(spot(0)));
        // What is not below it is nowhere.
        assert_eq!(find(&[NodeId(1), NodeId(2)]), None);
    }

    #[test]
    fn a_cell_is_found_by_column_and_by_path() {
        let layout = Layout::new(&Broad::new(), &[], 20, 10);
        let second = layout.at(1, 7).expect("the second callee");
        let cell = layout.cell(second).expect("a cell");
        assert_eq!(cell.node, NodeId(3));
        let spot = |index| Spot {
            row: 1,
            index,
            part: CellPart::Cell,
        };
        let forest = Broad::new();
        let path = layout.path(&forest, second);
        assert_eq!(path, [NodeId(1), NodeId(3)]);
        assert_eq!(layout.find(&forest, &path), Some(spot(1)));
        // A narrow one is found where it was merged.
        for (node, index) in [(5, 3), (29, 3), (30, 4), (104, 4)] {
            let path = [NodeId(1), NodeId(node)];
            let found = layout.find(&forest, &path).expect("a merged cell");
            assert_eq!(found, spot(index));
            assert!(layout.frames(&forest, found).contains(&NodeId(node)));
        }
    }

    #[test]
    fn a_weight_ends_behind_a_column_from_the_least_one_on() {
        for (total, columns) in [(1, 1), (7, 3), (3, 7), (1000, 200), (u64::MAX, u16::MAX)] {
            let scale = Scale { total, columns };
            for column in [0, 1, columns / 2, columns.saturating_sub(1)] {
                let least = scale.least_behind(column);
                assert!(least > total || scale.column(least) > column);
                assert!(scale.column(least - 1) <= column);
            }
        }
    }
}
