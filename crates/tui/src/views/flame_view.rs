//! The flame graph as it is laid out on the screen.

use crate::data::{Found, Seen};
use crate::flame_layout::{CellPart, Layout, Spot};
use crate::shared::Shared;
use prof_report::model::{NodeId, percent_of};

/// Deeper frames are not laid out: no screen scrolls that far.
const DEPTH: usize = 4096;

/// The graph laid out, and where the cursor is in it.
pub(super) struct FlameView<'a> {
    pub(super) seen: &'a Seen,
    pub(super) layout: Layout,
    pub(super) cursor: Option<Spot>,
}

impl<'a> FlameView<'a> {
    pub(super) fn new(seen: &'a Seen, zoom: &[NodeId], columns: u16, cursor: &[NodeId]) -> Self {
        let layout = Layout::new(&*seen.tree, zoom, columns, DEPTH);
        let cursor = layout.find(&*seen.tree, cursor);
        Self {
            seen,
            layout,
            cursor,
        }
    }

    pub(super) fn path(&self, spot: Spot) -> Vec<NodeId> {
        self.layout.path(&*self.seen.tree, spot)
    }

    /// The frames that a spot stands for.
    pub(super) fn frames(&self, spot: Spot) -> &'a [NodeId] {
        self.layout.frames(&*self.seen.tree, spot)
    }

    /// Whether a spot is one frame's, so that its callees are drawn.
    pub(super) fn is_alone(&self, spot: Spot) -> bool {
        let cell = self.layout.cell(spot);
        spot.part == CellPart::Cell && cell.is_some_and(|cell| !cell.is_merged())
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

    pub(super) fn path_to_match(&self, found: &Found, spot: Spot) -> Option<Vec<NodeId>> {
        let node = found.heaviest(&self.seen.tree, self.frames(spot))?;
        Some(self.seen.path(node))
    }

    /// What is to be said of frames in or beside the cursor's cell.
    pub(super) fn others(&self, shared: &Shared) -> Option<String> {
        let spot = self.cursor?;
        let cell = self.layout.cell(spot)?;
        let whole = shared.whole().period;
        let beside = cell.beside;
        let mut words = match spot.part {
            CellPart::Beside if beside.frames == 1 => {
                return Some(" (narrower than a column; Enter zooms in)".into());
            }
            CellPart::Beside => format!(
                " (one of {} narrower than a column, together {:.2}%",
                beside.frames,
                percent_of(beside.weight, whole),
            ),
            CellPart::Cell if cell.is_merged() => format!(
                " (one cell for {} frames, together {:.2}%",
                cell.frames,
                percent_of(cell.weight, whole),
            ),
            CellPart::Cell if beside.frames > 0 => {
                let share = percent_of(beside.weight, whole);
                return Some(format!(
                    " (+{} narrower beside it, {share:.2}%)",
                    beside.frames
                ));
            }
            CellPart::Cell => return None,
        };
        if let Some(found) = &shared.search.found {
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
