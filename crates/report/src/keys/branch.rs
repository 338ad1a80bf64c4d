//! Keys of branches, for what `record -b` counts.

use super::place::{self, End};
use super::recorded::{Recorded, one, or_not_told};
use super::{Order, SortKey, Spec, Text, USUAL};
use crate::model::By;
use prof_profile::{Counting, Detail, Profile, TakenBranch};
use std::cmp::Ordering;
use std::fmt::Write;

const OF_BRANCHES: Spec = Spec {
    counting: Counting::Branches,
    ..USUAL
};

/// The dso at an end of a branch: `from` or `to`.
macro_rules! dso_at {
    ($end:ident, $name:literal, $heading:literal) => {
        SortKey(&Spec {
            name: $name,
            heading: $heading,
            width: 20,
            pads: true,
            by: By::Detail(|profile, it| one(place::dso_identity(profile, $end(it).place))),
            order: Order::Details(|profile, a, b| {
                let order = |it: &Detail| place::dso_order(profile, $end(it).place);
                order(a).cmp(&order(b))
            }),
            text: Text::OfRecord(|of, out| {
                place::write_dso(of.profile, $end(of.detail).place, out);
            }),
            ..OF_BRANCHES
        })
    };
}

/// The function there.
macro_rules! symbol_at {
    ($end:ident, $name:literal, $heading:literal) => {
        SortKey(&Spec {
            name: $name,
            heading: $heading,
            width: 13,
            by: By::Detail(|profile, it| one(place::function_identity(profile, $end(it).place))),
            order: Order::Details(|profile, a, b| by_function(profile, $end(a), $end(b))),
            text: Text::OfRecord(|of, out| place::write_symbol(of, $end(of.detail).place, out)),
            ..OF_BRANCHES
        })
    };
}

/// Dso that a branch leaves.
pub(crate) const DSO_FROM: SortKey = dso_at!(from, "dso_from", "Source Shared Object");
/// Dso that a branch goes to.
pub(super) const DSO_TO: SortKey = dso_at!(to, "dso_to", "Target Shared Object");
/// Function that a branch leaves.
pub(crate) const SYMBOL_FROM: SortKey = symbol_at!(from, "symbol_from", "Source Symbol");
/// Function that a branch goes to.
pub(crate) const SYMBOL_TO: SortKey = symbol_at!(to, "symbol_to", "Target Symbol");

/// Whether a branch was predicted.
pub(super) const MISPREDICT: SortKey = SortKey(&Spec {
    name: "mispredict",
    heading: "Branch Mispredicted",
    width: 19,
    pads: true,
    by: By::Detail(|_, it| branch(it, |it| it.is_mispredicted.map_or(2, u64::from))),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| {
        let told = of.detail.branch.and_then(|branch| branch.is_mispredicted);
        out.push_str(or_not_told(told.map(|is| if is { "Y" } else { "N" })));
    }),
    ..OF_BRANCHES
});

/// Whether it is the end of a transaction.
pub(super) const ABORT: SortKey = SortKey(&Spec {
    name: "abort",
    heading: "Transaction abort",
    width: 17,
    pads: true,
    by: By::Detail(|_, it| branch(it, |it| it.is_abort.into())),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| flag(of, |it| it.is_abort, "A", out)),
    ..OF_BRANCHES
});

/// Whether it is inside of one.
pub(super) const IN_TRANSACTION: SortKey = SortKey(&Spec {
    name: "in_tx",
    heading: "Branch in transaction",
    width: 21,
    pads: true,
    by: By::Detail(|_, it| branch(it, |it| it.in_transaction.into())),
    order: Order::Signed,
    text: Text::OfRecord(|of, out| flag(of, |it| it.in_transaction, "T", out)),
    ..OF_BRANCHES
});

/// Cycles since the branch before.
pub const CYCLES: SortKey = SortKey(&Spec {
    name: "cycles",
    heading: "Basic Block Cycles",
    width: 18,
    pads: true,
    by: By::Detail(|_, it| branch(it, |it| it.cycles.into())),
    order: Order::LargestFirst,
    text: Text::OfRecord(|of, out| {
        let _ = match of.detail.branch.map(|branch| branch.cycles) {
            None => write!(out, "N/A"),
            Some(0) => write!(out, "-"),
            Some(cycles) => write!(out, "{cycles}"),
        };
    }),
    ..OF_BRANCHES
});

/// Source line that a branch leaves.
pub(super) const SRCLINE_FROM: SortKey = SortKey(&Spec {
    name: "srcline_from",
    heading: "From Source:Line",
    width: 16,
    by: By::Detail(|profile, it| place::line_identity(profile, from(it).place)),
    order: Order::Details(|profile, a, b| by_line(profile, from(a), from(b))),
    text: Text::OfRecord(|of, out| {
        place::write_line(of.profile, from(of.detail).place, of.full_paths, out);
    }),
    ..BY_LINE
});

/// Source line that a branch goes to.
pub(super) const SRCLINE_TO: SortKey = SortKey(&Spec {
    name: "srcline_to",
    heading: "To Source:Line",
    width: 14,
    by: By::Detail(|profile, it| place::line_identity(profile, to(it).place)),
    order: Order::Details(|profile, a, b| by_line(profile, to(a), to(b))),
    text: Text::OfRecord(|of, out| {
        place::write_line(of.profile, to(of.detail).place, of.full_paths, out);
    }),
    ..BY_LINE
});

const BY_LINE: Spec = Spec {
    pads: true,
    needs_lines: true,
    ..OF_BRANCHES
};

/// Address that a branch leaves.
pub(super) const ADDR_FROM: SortKey = SortKey(&Spec {
    name: "addr_from",
    heading: "Source Address",
    width: 14,
    by: By::Detail(|profile, it| address(profile, from(it))),
    order: Order::Details(|profile, a, b| by_address(profile, from(a), from(b))),
    text: Text::OfRecord(|of, out| place::write_address(of, from(of.detail).place, out)),
    ..OF_BRANCHES
});

/// Address that a branch goes to.
pub(super) const ADDR_TO: SortKey = SortKey(&Spec {
    name: "addr_to",
    heading: "Target Address",
    width: 14,
    by: By::Detail(|profile, it| address(profile, to(it))),
    order: Order::Details(|profile, a, b| by_address(profile, to(a), to(b))),
    text: Text::OfRecord(|of, out| place::write_address(of, to(of.detail).place, out)),
    ..OF_BRANCHES
});

fn from(detail: &Detail) -> End {
    End {
        place: detail.branch.map(|it| it.from),
        address: detail.branch.map_or(0, |it| it.from_address),
    }
}

fn to(detail: &Detail) -> End {
    End {
        place: detail.branch.map(|it| it.to),
        address: detail.branch.map_or(0, |it| it.to_address),
    }
}

/// A number of a branch, 0 without one.
fn branch(detail: &Detail, of: fn(&TakenBranch) -> u64) -> [u64; 3] {
    one(detail.branch.as_ref().map_or(0, of))
}

fn by_function(profile: &Profile, a: End, b: End) -> Ordering {
    place::function_order(profile, a).cmp(&place::function_order(profile, b))
}

fn by_address(profile: &Profile, a: End, b: End) -> Ordering {
    let of = |end: End| (place::dso_order(profile, end.place), end.address as i64);
    of(a).cmp(&of(b))
}

fn by_line(profile: &Profile, a: End, b: End) -> Ordering {
    let text = |end: End| {
        let mut text = String::new();
        place::write_line(profile, end.place, false, &mut text);
        text
    };
    text(a).cmp(&text(b))
}

fn address(profile: &Profile, end: End) -> [u64; 3] {
    [place::dso_identity(profile, end.place), end.address, 0]
}

fn flag(of: &Recorded<'_>, is_set: fn(&TakenBranch) -> bool, letter: &str, out: &mut String) {
    out.push_str(match &of.detail.branch {
        Some(branch) if is_set(branch) => letter,
        Some(_) => ".",
        None => "N/A",
    });
}
