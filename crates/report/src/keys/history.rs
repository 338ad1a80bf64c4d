//! Keys of the branches in call chains, for `--branch-history`.

use super::line::SRCLINE;
use super::{DSO, SYMBOL, SortKey, Spec, Text, USUAL};
use std::fmt::Write;

/// Share of the branches that were predicted.
pub(super) const PREDICTED: SortKey = SortKey(&Spec {
    name: "callchain_branch_predicted",
    heading: "Predicted",
    width: 9,
    text: Text::OfRow(|cells, row, out| {
        let _ = write!(out, "{:.1}%", cells.branches(row).predicted_percent());
    }),
    ..OF_CHAINS
});

/// Transactions that were aborted.
pub(super) const ABORT: SortKey = SortKey(&Spec {
    name: "callchain_branch_abort",
    heading: "Abort",
    width: 5,
    text: Text::OfRow(|cells, row, out| {
        let _ = write!(out, "{}", cells.branches(row).aborts);
    }),
    ..OF_CHAINS
});

/// Mean cycles before a branch.
pub(super) const CYCLES: SortKey = SortKey(&Spec {
    name: "callchain_branch_cycles",
    heading: "Cycles",
    width: 6,
    text: Text::OfRow(|cells, row, out| {
        let _ = write!(out, "{}", cells.branches(row).mean_cycles());
    }),
    ..OF_CHAINS
});

/// Instructions per cycle, which perf has a column for beside `symbol`, and
/// nothing in it unless rows are of branches.
pub const IPC: SortKey = SortKey(&Spec {
    name: "ipc_null",
    heading: "IPC   [IPC Coverage]",
    width: 20,
    text: Text::OfRow(|_, _, out| out.push_str("-      -")),
    ..OF_CHAINS
});

const OF_CHAINS: Spec = Spec {
    pads: true,
    ..USUAL
};

/// Whether a key is of the branches in call chains.
pub(super) fn is_of_chains(key: SortKey) -> bool {
    [PREDICTED, ABORT, CYCLES].contains(&key)
}

/// The keys of a table whose chains have branches in them.
pub const USUAL_FOR_HISTORY: [SortKey; 7] = [SRCLINE, SYMBOL, DSO, PREDICTED, ABORT, CYCLES, IPC];
