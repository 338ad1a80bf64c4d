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

impl Control {
    /// By what p values of so many rows grow for what rows have in common.
    fn dependence(self, count: usize) -> f64 {
        match self {
            Self::Usual => 1.0,
            Self::AnyDependence => (1..=count).map(|rank| 1.0 / rank as f64).sum(),
        }
    }
}

/// The p values, adjusted so that those at most `q` are discoveries of which an
/// expected part of `q` is false. In the order given; what is no number counts
/// as 1.
pub fn adjusted(p_values: &[f64], control: Control) -> Vec<f64> {
    let count = p_values.len();
    let dependence = control.dependence(count);
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

/// The p values, adjusted so that of the discoveries of many families together a
/// part of at most `q` is false: those at most `q` of Bonferroni's, or half of it of
/// [`adjusted`]. In the order given.
///
/// Benjamini and Hochberg's control the mean of the part of each family. Of families
/// in which one row did change and is found, a second one is then found by chance in
/// nearly `2 q` of them, half of what is said there; of all that is said in such
/// families together (the marginal rate, Genovese and Wasserman 2002) that is twice
/// as much as the mean of halves, and whoever counts wrong names finds it. With `k`
/// changes found, the next one has here the level `q (k + 1) / 2`, and `q` with none
/// or one, so that about `q (k + 1) / 2` of `k` are false. The first is found as
/// easily as by Benjamini and Hochberg's.
pub fn adjusted_together(p_values: &[f64], control: Control) -> Vec<f64> {
    let count = p_values.len();
    let alone = count as f64 * control.dependence(count);
    let both = p_values.iter().zip(adjusted(p_values, control));
    both.map(|(p, of_rank)| match p.is_finite() {
        true => (p.clamp(0.0, 1.0) * alone).min(2.0 * of_rank).min(1.0),
        false => 1.0,
    })
    .collect()
}

/// How p values are adjusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjusting {
    /// By [`adjusted`].
    Each,
    /// By [`adjusted_together`].
    Together,
}

/// The level at which one more is a discovery at `q`: its p value as it is, not
/// adjusted. `adjusted` are those of all, this one with them; the fewer of them are
/// discoveries, the stricter it is.
pub fn level_of_one_more(
    adjusted: &[f64],
    q: f64,
    (adjusting, control): (Adjusting, Control),
) -> f64 {
    let found = adjusted.iter().filter(|p| **p <= q).count();
    let count = adjusted.len().max(1);
    let rank = (found + 1).min(count) as f64;
    let times = match adjusting {
        Adjusting::Each => rank,
        Adjusting::Together => (rank / 2.0).max(1.0),
    };
    q * times / (count as f64 * control.dependence(count))
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
    use super::{
        Adjusting, Control, adjusted, adjusted_together, discovered_by_e_values, level_of_one_more,
    };

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
    fn one_more_is_a_discovery_at_its_level_and_not_above() {
        for (others, control) in [
            (vec![0.5; 9], Control::Usual),
            (vec![0.001, 0.002, 0.6, 0.7], Control::Usual),
            (vec![1e-4, 2e-4, 3e-4, 0.6, 0.7], Control::Usual),
            (vec![0.001, 0.3, 0.6], Control::AnyDependence),
        ] {
            for adjusting in [Adjusting::Each, Adjusting::Together] {
                let with = |p: f64| {
                    let all: Vec<f64> = others.iter().copied().chain([p]).collect();
                    match adjusting {
                        Adjusting::Each => adjusted(&all, control),
                        Adjusting::Together => adjusted_together(&all, control),
                    }
                };
                let level = level_of_one_more(&with(1.0), 0.05, (adjusting, control));
                let is_found = |p: f64| with(p).last().is_some_and(|p| *p <= 0.05);
                assert!(is_found(0.999 * level) && !is_found(1.001 * level));
            }
        }
        let none = (Adjusting::Each, Control::Usual);
        assert_eq!(level_of_one_more(&[], 0.05, none), 0.05);
    }

    #[test]
    fn a_second_one_needs_as_much_as_the_first_and_a_fourth_less() {
        let p = [0.001, 0.012, 0.5, 0.5];
        let both = adjusted_together(&p, Control::Usual);
        assert!((both[0] - 0.004).abs() < 1e-12 && (both[1] - 0.048).abs() < 1e-12);
        let p = [0.001, 0.002, 0.003, 0.024];
        assert!((adjusted_together(&p, Control::Usual)[3] - 0.048).abs() < 1e-12);
        assert_eq!(adjusted_together(&[f64::NAN], Control::Usual), [1.0]);
        assert!(adjusted_together(&[], Control::Usual).is_empty());
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
