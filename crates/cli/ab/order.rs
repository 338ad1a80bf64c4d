//! Which side of a pair runs first.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A stream of random choices: xorshift64* (Vigna 2016).
pub(super) struct Order {
    seed: u64,
    state: u64,
}

impl Order {
    /// The order that a number gives; without one, of a number nobody knows.
    pub(super) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish() >> 32);
        Self {
            seed,
            state: (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1,
        }
    }

    /// The number that gives this order again.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The sides of a pair, in the order in which they run.
    pub(super) fn pair(&mut self) -> [usize; 2] {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        match self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 63 {
            0 => [0, 1],
            _ => [1, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn a_number_gives_its_order_again_and_both_sides_come_first() {
        let pairs = |seed| -> Vec<[usize; 2]> {
            let mut order = Order::new(Some(seed));
            (0..200).map(|_| order.pair()).collect()
        };
        assert_eq!(pairs(7), pairs(7));
        let first = pairs(7).iter().filter(|pair| pair[0] == 0).count();
        assert!((70..130).contains(&first), "{first}");
        assert_ne!(Order::new(None).seed(), Order::new(None).seed());
    }
}
