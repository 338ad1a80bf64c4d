//! Percentages with two decimals.

use std::iter::repeat_n;

/// Writes `percent` as C's `%.2f%%` does, flushed right in `width`
/// characters, the sign included.
///
/// Formatting a float exactly costs more than all else in a row; a share is
/// between 0 and 100, so hundredths as an integer do, unless the value is so
/// close to the middle between two that rounding needs all its digits.
pub(crate) fn push(percent: f64, width: usize, out: &mut String) {
    let hundredths = percent * 100.0;
    let rounded = hundredths.round();
    let is_clear = (hundredths - hundredths.floor() - 0.5).abs() > 1e-6;
    let digits = width.saturating_sub(4);
    if (0.0..=100_000.0).contains(&hundredths) && is_clear {
        let rounded = rounded as u32;
        let length = (rounded / 100).checked_ilog10().unwrap_or(0) + 1;
        out.extend(repeat_n(' ', digits.saturating_sub(length as usize)));
        (0..length)
            .rev()
            .for_each(|place| out.push(digit(rounded / 100, place)));
        out.extend(['.', digit(rounded, 1), digit(rounded, 0), '%']);
    } else {
        super::padding::push_right(&format!("{percent:.2}%"), width, out);
    }
}

/// A decimal digit, the last one at place 0.
fn digit(number: u32, place: u32) -> char {
    let digit = number / 10_u32.pow(place) % 10;
    char::from(b'0' + digit as u8)
}

#[cfg(test)]
mod tests {
    use super::push;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_short_way_equals_the_exact_one(part in 0_u64..100_000, whole in 1_u64..100_000, width in 0_usize..12) {
            let percent = 100.0 * part.min(whole) as f64 / whole as f64;
            let mut out = String::new();
            push(percent, width, &mut out);
            let digits = width.saturating_sub(1);
            prop_assert_eq!(out, format!("{percent:>digits$.2}%"));
        }
    }
}
