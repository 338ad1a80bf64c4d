//! Sort keys of perf's that are not here.

const NO_TYPES: &str = "types of data are not looked for";
const NO_BLOCKS: &str = "code is not divided into the blocks between branches";
const NO_COLUMN: &str = "it is no column here; sort by local_weight, local_ins_lat or mem instead";
const NO_LATENCY: &str = "wall-clock time is not divided among threads; use record --switch-events, and the timeline \
     of the terminal UI";
const NO_GUESTS: &str = "guests have no shares of their own; record inside them";

/// perf's sort keys that are not here, and why.
#[rustfmt::skip] // a table
const REFUSED: [(&str, &str); 20] = [
    ("latency", NO_LATENCY),
    ("latency_children", NO_LATENCY),
    ("overhead_guest_sys", NO_GUESTS),
    ("overhead_guest_us", NO_GUESTS),
    ("weight1", NO_COLUMN),
    ("weight2", NO_COLUMN),
    ("weight3", NO_COLUMN),
    ("op", NO_COLUMN),
    ("cache", NO_COLUMN),
    ("memory", NO_COLUMN),
    ("dtlb", NO_COLUMN),
    ("dso_size", "mappings of one file are not told apart; prof report --mmaps shows them"),
    ("ipc_null", NO_BLOCKS),
    ("ipc_lbr", NO_BLOCKS),
    ("type", NO_TYPES),
    ("typeoff", NO_TYPES),
    ("symoff", NO_TYPES),
    ("typecln", NO_TYPES),
    ("dcacheline", "cache lines are not told apart; sort by symbol_daddr"),
    ("ipc", NO_BLOCKS),
];

/// Why a sort key of perf's is not here.
pub(crate) fn refused_key(name: &str) -> Option<&'static str> {
    let mut refused = REFUSED.iter();
    refused
        .find(|(refused, _)| *refused == name)
        .map(|(_, why)| *why)
}
