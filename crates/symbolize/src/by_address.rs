//! Sorting hundreds of thousands of symbols by address.
//!
//! Symbols lie scattered over their sections, so that one pass which deals
//! them out to buckets of equal address ranges leaves little to sort. Where
//! that fails, because few addresses are far from the others, what is left is
//! an ordinary sort of one large bucket.

/// Symbols that a bucket has on average.
const PER_BUCKET: usize = 8;
/// Shorter lists are sorted at once.
const FEW: usize = 1024;

/// Sorts `items` by `address`; those of equal address keep their order.
pub(crate) fn sort<T: Copy>(items: &mut Vec<T>, address: impl Fn(&T) -> u64) {
    if items.len() < FEW || items.is_sorted_by_key(&address) {
        items.sort_by_key(address);
        return;
    }
    let lowest = items.iter().map(&address).min().unwrap_or(0);
    let highest = items.iter().map(&address).max().unwrap_or(0);
    let buckets = (items.len() / PER_BUCKET).next_power_of_two();
    let used_bits = u64::BITS - (highest - lowest).leading_zeros();
    let shift = used_bits.saturating_sub(buckets.ilog2());
    let bucket_of = |item: &T| ((address(item) - lowest) >> shift) as usize;

    let mut starts = vec![0_usize; buckets + 1];
    for item in items.iter() {
        if let Some(count) = starts.get_mut(bucket_of(item) + 1) {
            *count += 1;
        }
    }
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let Some(&any) = items.first() else { return };
    let mut sorted = vec![any; items.len()];
    let mut next = starts.clone();
    for item in items.iter() {
        let Some(place) = next.get_mut(bucket_of(item)) else {
            continue;
        };
        if let Some(slot) = sorted.get_mut(*place) {
            *slot = *item;
        }
        *place += 1;
    }
    for (start, end) in starts.iter().zip(&next) {
        if let Some(bucket) = sorted.get_mut(*start..*end) {
            bucket.sort_by_key(&address);
        }
    }
    *items = sorted;
}

#[cfg(test)]
mod tests {
    use super::sort;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn check(addresses: &[u64]) {
        let items = addresses.iter().copied().enumerate();
        let mut items: Vec<(usize, u64)> = items.collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.1);
        sort(&mut items, |item| item.1);
        assert_eq!(items, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn addresses_are_in_order_and_equal_ones_as_they_were(
            mut addresses in vec(0x1000..0x9000_u64, 0..6000),
            far in vec(any::<u64>(), 0..3),
        ) {
            addresses.extend(far);
            check(&addresses);
        }
    }

    #[test]
    fn extremes_have_a_bucket() {
        let mut addresses: Vec<u64> = (0..5000).map(|at| at * 7919 % 5000).collect();
        check(&addresses);
        addresses.extend([u64::MAX, 0, u64::MAX - 1]);
        check(&addresses);
        check(&[5; 3000]);
    }
}
