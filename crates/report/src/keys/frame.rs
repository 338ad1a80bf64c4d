//! Keys of frames: their dso and function.

use super::origin::{self, letter_of_mode, push_address};
use super::room::{char_count, name_within};
use super::{Cells, Fit, Measure, Order, SortKey, Spec, Text, USUAL};
use crate::escape;
use crate::model::{By, Row, Site, SiteKind};
use prof_profile::DsoKind;
use std::borrow::Cow;
use std::fmt::Write;

/// The dso.
pub const DSO: SortKey = SortKey(&Spec {
    name: "dso",
    heading: "Shared Object",
    width: 13,
    pads: true,
    widens: true,
    by: By::Frame(|frames, site| [frames.dso(site).0.into(), 0, 0]),
    order: Order::Rank(|ranks, row| ranks.site(row).dso),
    text: Text::OfRow(|cells, row, out| out.push_str(&dso(cells, row))),
    plain: Some(|cells, row| {
        let profile = cells.profile();
        let dso = profile.dso(cells.site(row)?.dso);
        Some(profile.name(dso.short_name).to_owned())
    }),
    measure: Measure::OfRow(|cells, row| char_count(&dso(cells, row))),
    shared: Some(|cells, row| cells.site(row).map_or(u32::MAX, |site| site.dso.0)),
    told_above: Some(("dso", |filter| &filter.dsos)),
    ..USUAL
});

/// Function.
pub const SYMBOL: SortKey = SortKey(&Spec {
    name: "symbol",
    heading: "Symbol",
    width: 6,
    by: By::Function(|frames, site| frames.function(site)),
    order: Order::Rank(|ranks, row| ranks.site(row).symbol),
    text: Text::OfRow(|cells, row, out| write_symbol(cells, row, None, out)),
    plain: Some(|cells, row| {
        let site = cells.site(row)?;
        Some(site.name(cells.profile()).to_owned())
    }),
    measure: Measure::OfRow(width_of_symbol),
    fit: Fit::Function,
    told_above: Some(("symbol", |filter| &filter.symbols)),
    ..USUAL
});

/// Length of the function, bytes.
pub(super) const SYMBOL_SIZE: SortKey = SortKey(&Spec {
    name: "symbol_size",
    heading: "Symbol size",
    width: 11,
    by: By::Frame(|frames, site| {
        let size = site.size(frames.profile);
        [size.is_some().into(), size.unwrap_or(0), 0]
    }),
    order: Order::Rows(|ranks, a, b| ranks.size(a).cmp(&ranks.size(b))),
    text: Text::OfRow(|cells, row, out| {
        let size = cells.site(row).and_then(|site| site.size(cells.profile()));
        let size = size.map_or_else(|| "unknown".to_owned(), |size| size.to_string());
        let _ = write!(out, "{size:>11}");
    }),
    ..USUAL
});

/// Stands behind the names of inlined functions.
const INLINED: &str = " (inlined)";

/// What is written behind a function's name, whatever its column's width.
pub(super) fn mark(site: Option<&Site>) -> &'static str {
    match site.is_some_and(|site| site.kind == SiteKind::Inline) {
        true => INLINED,
        false => "",
    }
}

fn dso<'a>(cells: &Cells<'a>, row: &Row) -> Cow<'a, str> {
    let profile = cells.profile();
    match cells.site(row).map(|site| profile.dso(site.dso)) {
        Some(dso) if dso.kind != DsoKind::Unknown => {
            let name = if cells.look.verbose {
                dso.path
            } else {
                dso.short_name
            };
            escape::terminal(profile.name(name))
        }
        _ => Cow::Borrowed("[unknown]"),
    }
}

fn width_of_symbol(cells: &Cells<'_>, row: &Row) -> usize {
    let before = width_of_origin(cells) + "[.] ".len();
    if cells.is_address(row) {
        return before + "0x".len() + 16;
    }
    // perf lets the mark of inlined functions stand out.
    let name = |site: &Site| char_count(&escape::terminal(site.name(cells.profile())));
    before + cells.site(row).map_or(0, name)
}

/// Columns of what [`push_origin`] writes.
fn width_of_origin(cells: &Cells<'_>) -> usize {
    if cells.look.verbose {
        ADDRESS_WIDTH + " k ".len()
    } else {
        0
    }
}

/// Digits of the widest address, and its `0x`.
const ADDRESS_WIDTH: usize = 18;

/// Address and letter of where the name is from.
fn push_origin(cells: &Cells<'_>, row: &Row, out: &mut String) {
    let place = cells.places.and_then(|places| places.get(&row.key));
    let place = place.map_or(0, |place| place.0);
    let address = match place {
        0 => "0".to_owned(),
        _ => format!("{place:#x}"),
    };
    let letter = origin::letter(cells.scene, cells.site(row));
    let _ = write!(out, "{address:<ADDRESS_WIDTH$} {letter} ");
}

/// The letter of the mode, and the function's name, in `width` characters if
/// it can be so short, or its address if it has none.
pub(super) fn write_symbol(cells: &Cells<'_>, row: &Row, width: Option<usize>, out: &mut String) {
    if cells.look.verbose {
        push_origin(cells, row, out);
    }
    let profile = cells.profile();
    let site = cells.site(row);
    let mode = site.map(|site| site.function(profile).mode);
    out.push('[');
    out.push(mode.map_or('.', letter_of_mode));
    out.push_str("] ");
    let Some(site) = site else {
        return push_address(0, out);
    };
    if site.is_bare(profile) {
        return push_address(profile.function(site.function).start.0, out);
    }
    let mark = mark(Some(site));
    let before = width_of_origin(cells) + "[.] ".len() + mark.len();
    let room = width.map(|width| width.saturating_sub(before));
    out.push_str(&name_within(site.name(profile), room));
    out.push_str(mark);
}

impl Cells<'_> {
    /// What is written behind the name of a row's function, whatever the
    /// width of its column.
    pub(crate) fn mark(&self, row: &Row) -> &'static str {
        mark(self.site(row))
    }

    /// Writes what [`Cells::text`] gives of a row's symbol; its name is
    /// shortened if the cell would be longer than `width` characters.
    pub(crate) fn write_symbol(&self, row: &Row, width: usize, out: &mut String) {
        write_symbol(self, row, Some(width), out);
    }
}
