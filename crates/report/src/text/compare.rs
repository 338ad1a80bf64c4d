//! The order of rows, tie by tie as perf has it.

use super::ChainOrder;
use super::field::Field;
use super::rank::Ranks;
use crate::model::{Row, Rows, SortKey};
use std::cmp::Ordering;

/// Compares rows by a list of fields.
pub(crate) struct Comparer<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) ranks: &'a Ranks,
    pub(crate) fields: &'a [Field],
    /// With chains, equal callers and callees of one thread are put in this
    /// order.
    pub(crate) order: Option<ChainOrder>,
    pub(crate) children: bool,
    /// Places of source lines, where a field has them; see [`Ranks::of_lines`].
    pub(crate) lines: Vec<u32>,
    /// Places of source files, likewise.
    pub(crate) files: Vec<u32>,
}

impl Comparer<'_> {
    pub(crate) fn compare(&self, a: &Row, b: &Row) -> Ordering {
        self.fields
            .iter()
            .map(|&field| self.by_field(field, a, b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
            .then_with(|| self.by_address(a, b))
            .then_with(|| a.key.cmp(&b.key))
    }

    /// The period that the first field compares, if it compares one.
    pub(crate) fn first_period(&self, row: &Row) -> Option<u64> {
        match self.fields.first()? {
            Field::Children if !self.children => None,
            Field::Samples => None,
            field => field.weight(row).map(|weight| weight.period),
        }
    }

    /// Heavier rows first; equal where the field is no weight.
    pub(super) fn by_weight(&self, field: Field, a: &Row, b: &Row) -> Ordering {
        let weight = |row: &Row| match field {
            Field::Children if !self.children => None,
            Field::Samples => Some(row.own.samples),
            field => field.weight(row).map(|weight| weight.period),
        };
        weight(b).cmp(&weight(a))
    }

    pub(super) fn by_field(&self, field: Field, a: &Row, b: &Row) -> Ordering {
        match field {
            Field::Children if !self.children => Ordering::Equal,
            Field::Children => b
                .total
                .period
                .cmp(&a.total.period)
                .then_with(|| self.by_depth(a, b)),
            Field::Samples => b.own.samples.cmp(&a.own.samples),
            Field::Overhead | Field::Period | Field::OverheadSys | Field::OverheadUs => {
                let period = |row| field.weight(row).map(|weight| weight.period);
                period(b).cmp(&period(a))
            }
            Field::Key(key) => self.by_key(key, a, b),
        }
    }

    /// Callers above callees. perf does this only for rows that were first
    /// seen in the same thread, which is no order at all with three rows.
    fn by_depth(&self, a: &Row, b: &Row) -> Ordering {
        match self.order {
            None => Ordering::Equal,
            Some(ChainOrder::Caller) => longest_inwards(b).cmp(&longest_inwards(a)),
            Some(ChainOrder::Callee) => a.depth.cmp(&b.depth),
        }
    }

    fn by_key(&self, key: SortKey, a: &Row, b: &Row) -> Ordering {
        let group = |row| self.rows.group(row);
        match key {
            SortKey::Comm => {
                let comm = |row| self.ranks.name(group(row).comm);
                comm(a).cmp(&comm(b))
            }
            SortKey::Pid | SortKey::Tid => group(a).tid.cmp(&group(b).tid),
            SortKey::Tgid => group(a).pid.cmp(&group(b).pid),
            SortKey::Cpu => group(a).cpu.cmp(&group(b).cpu),
            SortKey::Time => group(a).time.cmp(&group(b).time),
            SortKey::Dso => self.ranks.site(a).dso.cmp(&self.ranks.site(b).dso),
            SortKey::Symbol => self.ranks.site(a).symbol.cmp(&self.ranks.site(b).symbol),
            SortKey::Srcline => of_site(&self.lines, a).cmp(&of_site(&self.lines, b)),
            SortKey::Srcfile => of_site(&self.files, a).cmp(&of_site(&self.files, b)),
            SortKey::Parent => {
                let parent = |row| match group(row).parent.flatten() {
                    Some(name) => self.ranks.name(Some(name)),
                    None => Some(u32::MAX),
                };
                parent(a).cmp(&parent(b))
            }
            SortKey::Event => Ordering::Equal,
        }
    }

    /// Rows that read the same, by address.
    fn by_address(&self, a: &Row, b: &Row) -> Ordering {
        self.ranks.site(a).start.cmp(&self.ranks.site(b).start)
    }
}

/// The place of a row's frame.
fn of_site(places: &[u32], row: &Row) -> Option<u32> {
    places.get(row.site?.0 as usize).copied()
}

/// Length of a row's longest chain, callers first: its own samples' chains
/// begin at the thread's start, the others' at the row's frame.
fn longest_inwards(row: &Row) -> u32 {
    row.height.max(row.own_depth)
}
