//! A 128-bit key for a raw call chain, so that a chain seen before costs one
//! hash and no lookups of its addresses.
//!
//! The keys are seeded at random per process: an input cannot be made so that
//! two of its chains share a key, and by chance two of 2^40 chains do with a
//! probability of 2^-49. Results never depend on the seed.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes keys; see the module.
#[derive(Debug, Clone)]
pub(crate) struct ChainKeys {
    seeds: [u64; 4],
}

/// Multiplies to 128 bits and folds the halves.
#[inline]
fn folded_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left).wrapping_mul(u128::from(right));
    (product as u64) ^ (product >> 64) as u64
}

impl ChainKeys {
    pub(crate) fn new() -> Self {
        // Odd, so that no multiplication is by zero.
        Self {
            seeds: std::array::from_fn(|_| RandomState::new().build_hasher().finish() | 1),
        }
    }

    /// The key of a sequence of words.
    #[inline]
    pub(crate) fn key(&self, words: impl Iterator<Item = u64>) -> (u64, u64) {
        let [first, second, third, fourth] = self.seeds;
        let (mut left, mut right, mut count) = (first, second, 0_u64);
        // Chained iterators run faster from within than step by step.
        words.for_each(|word| {
            left = folded_multiply(left ^ word, third);
            right = folded_multiply(right.rotate_left(23) ^ word, fourth);
            count = count.wrapping_add(1);
        });
        let left = folded_multiply(left ^ count, fourth);
        let right = folded_multiply(right ^ count, third);
        (left, right)
    }
}

#[cfg(test)]
mod tests {
    use super::ChainKeys;
    use std::collections::HashSet;

    #[test]
    fn different_chains_have_different_keys_and_equal_ones_the_same() {
        let keys = ChainKeys::new();
        let mut seen = HashSet::new();
        for first in 0..100_u64 {
            for second in 0..100_u64 {
                assert!(seen.insert(keys.key([first, second].into_iter())));
                assert!(seen.insert(keys.key([first, second, 0].into_iter())));
            }
        }
        assert!(seen.contains(&keys.key([3, 4].into_iter())));
        assert_ne!(keys.key([0].into_iter()), keys.key([0, 0].into_iter()));
    }
}
