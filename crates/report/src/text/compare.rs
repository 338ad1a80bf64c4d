//! The order of rows, tie by tie as perf has it.

use super::ChainOrder;
use crate::keys::{Field, Ranks};
use crate::model::Row;
use std::cmp::Ordering;

/// Compares rows by a list of fields.
pub(crate) struct Comparer<'a> {
    pub(crate) ranks: &'a Ranks<'a>,
    pub(crate) fields: &'a [Field],
    /// With chains, equal callers and callees of one thread are put in this
    /// order.
    pub(crate) order: Option<ChainOrder>,
    pub(crate) children: bool,
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
            Field::Overhead
            | Field::Period
            | Field::Interval
            | Field::OverheadSys
            | Field::OverheadUs => {
                let weight = field.weight(row).unwrap_or_default();
                packed.add(!weight.period, 64)
            }
            Field::Key(key) => {
                let rank = key.rank(self.ranks, row);
                rank.is_some_and(|rank| packed.add(rank.into(), 32))
            }
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
            Field::Overhead
            | Field::Period
            | Field::Interval
            | Field::OverheadSys
            | Field::OverheadUs => {
                let period = |row| field.weight(row).map(|weight| weight.period);
                period(b).cmp(&period(a))
            }
            Field::Key(key) => key.compare(self.ranks, a, b),
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

    /// Rows that read the same, by address.
    fn by_address(&self, a: &Row, b: &Row) -> Ordering {
        self.ranks.site(a).start.cmp(&self.ranks.site(b).start)
    }
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
