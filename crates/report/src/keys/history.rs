//! Keys of the branches in call chains, for `--branch-history`.

use super::line::SRCLINE;
use super::{DSO, SYMBOL, SortKey, Spec, Text, USUAL};
use std::fmt::Write;

/// Share of the branches that were predicted.
pub(super) const PREDICTED: SortKey = SortKey(&of_chains(
    "callchain_branch_predicted",
    "Predicted",
    9,
    Text::OfRow(|cells, row, out| {
        let _ = write!(out, "{:.1}%", cells.branches(row).predicted_percent());
    }),
));

/// Transactions that were aborted.
pub(super) const ABORT: SortKey = SortKey(&of_chains(
    "callchain_branch_abort",
    "Abort",
    5,
    Text::OfRow(|cells, row, out| {
        let _ = write!(out, "{}", cells.branches(row).aborts);
    }),
));

/// Mean cycles before a branch.
pub(super) const CYCLES: SortKey = SortKey(&of_chains(
    "callchain_branch_cycles",
    "Cycles",
    6,
    Text::OfRow(|cells, row, out| {
        let _ = write!(out, "{}", cells.branches(row).mean_cycles());
    }),
));

/// Instructions per cycle, which perf has a column for beside `symbol`, and
/// nothing in it unless rows are of branches.
pub const IPC: SortKey = SortKey(&of_chains(
    "ipc_null",
    "IPC   [IPC Coverage]",
    20,
    Text::OfRow(|_, _, out| out.push_str("-      -")),
));

/// A key of rows whose chains have branches in them.
const fn of_chains(name: &'static str, heading: &'static str, width: usize, text: Text) -> Spec {
    Spec {
        name,
        heading,
        width,
        text,
        pads: true,
        ..USUAL
    }
}

/// Whether a key is of the branches in call chains.
pub(super) fn is_of_chains(key: SortKey) -> bool {
    [PREDICTED, ABORT, CYCLES].contains(&key)
}

/// The keys of a table whose chains have branches in them.
pub const USUAL_FOR_HISTORY: [SortKey; 7] = [SRCLINE, SYMBOL, DSO, PREDICTED, ABORT, CYCLES, IPC];
