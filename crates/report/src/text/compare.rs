//! The order of rows, tie by tie as perf has it.

use super::ChainOrder;
use crate::keys::{Field, Ranks, SortKey, without_digits};
use crate::model::{Row, Rows};
use std::cmp::Ordering;

/// Compares rows by a list of fields.
pub(crate) struct Comparer<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) ranks: &'a Ranks<'a>,
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

    /// The first fields of a row, as far as they fit. Rows that differ here
    /// are in the order that [`Comparer::compare`] has them in.
    pub(crate) fn packed(&self, row: &Row) -> Packed {
        let mut packed = Packing::default();
        let mut fields = self.fields.iter();
        if fields.all(|&field| self.pack(field, row, &mut packed)) {
            // What decides next. Broken stacks bring rows by the ten thousand
            // that are equal up to here.
            packed.add(self.ranks.site(row).start.0, 64);
        }
        packed.words
    }

    /// Adds what [`Comparer::by_field`] compares; `false` if that is no
    /// number, or there is no space for it.
    fn pack(&self, field: Field, row: &Row, packed: &mut Packing) -> bool {
        let rank = |rank: Option<u32>| rank.map_or(0, |rank| rank.saturating_add(1));
        match field {
            Field::Children if !self.children => true,
            Field::Children => {
                let depth = match self.order {
                    None => 0,
                    Some(ChainOrder::Caller) => !longest_inwards(row),
                    Some(ChainOrder::Callee) => row.depth,
                };
                packed.add(!row.total.period, 64) && packed.add(depth.into(), 32)
            }
            Field::Samples => packed.add(!row.own.samples, 64),
            Field::Overhead | Field::Period | Field::OverheadSys | Field::OverheadUs => {
                let weight = field.weight(row).unwrap_or_default();
                packed.add(!weight.period, 64)
            }
            Field::Key(SortKey::Comm) => {
                let comm = self.ranks.name(self.rows.group(row).comm);
                packed.add(rank(comm).into(), 32)
            }
            Field::Key(SortKey::Dso) => packed.add(self.ranks.site(row).dso.into(), 32),
            Field::Key(SortKey::Symbol) => packed.add(self.ranks.site(row).symbol.into(), 32),
            Field::Key(SortKey::Srcline) => packed.add(rank(of_site(&self.lines, row)).into(), 32),
            Field::Key(SortKey::Srcfile) => packed.add(rank(of_site(&self.files, row)).into(), 32),
            Field::Key(_) => false,
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
            SortKey::CommNodigit => {
                let profile = self.ranks.profile();
                let comm = |row| group(row).comm_nodigit.map_or("", |it| profile.name(it));
                without_digits(comm(a)).cmp(without_digits(comm(b)))
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
            SortKey::SymbolSize => self.ranks.size(a).cmp(&self.ranks.size(b)),
            SortKey::Detail(key) => {
                let profile = self.ranks.profile();
                let detail = |row: &Row| profile.samples.detail(row.first as usize);
                match (detail(a), detail(b)) {
                    (Some(a), Some(b)) => key.compare(profile, a, b),
                    _ => Ordering::Equal,
                }
            }
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

/// Numbers one behind the other, compared as one.
pub(crate) type Packed = [u64; 5];

/// Puts numbers into a [`Packed`], the first one highest.
#[derive(Default)]
struct Packing {
    words: Packed,
    /// Bits in use.
    used: u32,
}

impl Packing {
    /// Adds a number of so many bits, at most 64; `false` if there is no
    /// space for all of them.
    fn add(&mut self, number: u64, bits: u32) -> bool {
        let (word, start) = (self.used as usize / 64, self.used % 64);
        self.used += bits;
        if self.used as usize > 64 * self.words.len() {
            return false;
        }
        // The number at the top of two words, then moved to its place.
        let placed = (u128::from(number) << (128 - bits)) >> start;
        let halves = [(placed >> 64) as u64, placed as u64];
        for (slot, half) in self.words.iter_mut().skip(word).zip(halves) {
            *slot |= half;
        }
        true
    }
}

/// Length of a row's longest chain, callers first: its own samples' chains
/// begin at the thread's start, the others' at the row's frame.
fn longest_inwards(row: &Row) -> u32 {
    row.height.max(row.own_depth)
}

#[cfg(test)]
mod tests {
    use super::Packing;

    #[test]
    fn packed_numbers_compare_like_the_numbers_in_turn() {
        let edges = |bits: u32| [0, 1, u64::MAX >> (64 - bits)];
        let widths = [64, 33, 64, 31, 64, 32];
        let mut rows: Vec<Vec<u64>> = vec![Vec::new()];
        for bits in widths {
            let longer = |row: &Vec<u64>| {
                let row = row.clone();
                edges(bits).map(|edge| [row.clone(), vec![edge]].concat())
            };
            rows = rows.iter().flat_map(longer).collect();
        }
        let pack = |row: &Vec<u64>| {
            let mut packing = Packing::default();
            let mut all = row.iter().zip(widths);
            assert!(all.all(|(&number, bits)| packing.add(number, bits)));
            // 32 bits are left.
            assert!(!packing.add(1, 33));
            packing.words
        };
        // They are made in order.
        assert!(rows.is_sorted());
        assert!(rows.windows(2).all(|pair| pack(&pair[0]) < pack(&pair[1])));
    }
}
