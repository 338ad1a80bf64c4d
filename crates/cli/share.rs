//! Shares in percent, as values of options.

/// From 0 to 100.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("not a share from 0 to 100, in percent".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_is_a_number_with_or_without_its_sign() {
        assert_eq!(percent("0.5"), Ok(0.5));
        assert_eq!(percent("5%"), Ok(5.0));
        for wrong in ["abc", "-5", "101", "NaN", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
