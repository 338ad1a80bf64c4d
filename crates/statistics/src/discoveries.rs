//! Many rows, few false discoveries.

/// Which rate of false discoveries is controlled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// Their expected part, where rows are independent or rise and fall
    /// together (Benjamini and Hochberg 1995).
    #[default]
    Usual,
    /// Their expected part, however rows depend on each other (Benjamini and
    /// Yekutieli 2001).
    AnyDependence,
}

/// The p values, adjusted so that those at most `q` are discoveries of which an
/// expected part of `q` is false. In the order given; what is no number counts
/// as 1.
pub fn adjusted(p_values: &[f64], control: Control) -> Vec<f64> {
    let count = p_values.len();
    let dependence: f64 = match control {
        Control::Usual => 1.0,
        Control::AnyDependence => (1..=count).map(|rank| 1.0 / rank as f64).sum(),
    };
    let p = |index: usize| match p_values.get(index) {
        Some(p) if p.is_finite() => p.clamp(0.0, 1.0),
        _ => 1.0,
    };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| p(a).total_cmp(&p(b)));
    let mut result = vec![1.0; count];
    let mut least: f64 = 1.0;
    for (rank, &index) in order.iter().enumerate().rev() {
        least = least.min(p(index) * dependence * count as f64 / (rank + 1) as f64);
        if let Some(slot) = result.get_mut(index) {
            *slot = least;
        }
    }
    result
}

/// Which of these e-values are discoveries, of which an expected part of at
/// most `q` is false, however rows depend on each other and whenever one stops
/// (e-BH, Wang and Ramdas 2022).
pub fn discovered_by_e_values(e_values: &[f64], q: f64) -> Vec<bool> {
    let count = e_values.len();
    let mut order: Vec<f64> = e_values.to_vec();
    order.sort_by(|a, b| b.total_cmp(a));
    let threshold = (1..=count)
        .rev()
        .map(|rank| (rank, count as f64 / (q * rank as f64)))
        .find(|&(rank, least)| order.get(rank - 1).is_some_and(|e| *e >= least))
        .map_or(f64::INFINITY, |(_, least)| least);
    e_values.iter().map(|e| *e >= threshold).collect()
}

#[cfg(test)]
mod tests {
    use super::{Control, adjusted, discovered_by_e_values};

    #[test]
    fn the_example_of_the_paper_comes_out() {
        // Benjamini and Hochberg 1995, section 3.3: four discoveries at 0.05.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let usual = adjusted(&p, Control::Usual);
        assert_eq!(usual.iter().filter(|p| **p <= 0.05).count(), 4);
        assert!((usual[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
        let any = adjusted(&p, Control::AnyDependence);
        assert_eq!(any.iter().filter(|p| **p <= 0.05).count(), 3);
    }

    #[test]
    fn nothing_and_no_number_are_no_discovery() {
        assert!(adjusted(&[], Control::Usual).is_empty());
        assert_eq!(adjusted(&[f64::NAN], Control::Usual), [1.0]);
        assert_eq!(discovered_by_e_values(&[f64::NAN, 3.0], 0.05), [false; 2]);
    }

    #[test]
    fn e_values_are_discoveries_together() {
        let e = [21.0, 19.0, 100.0, 1.0];
        // 4 / (0.05 * 1) = 80, * 2 = 40, * 3 = 26.7.
        assert_eq!(
            discovered_by_e_values(&e, 0.05),
            [false, false, true, false]
        );
        let e = [30.0, 27.0, 100.0, 1.0];
        assert_eq!(discovered_by_e_values(&e, 0.05), [true, true, true, false]);
    }
}
