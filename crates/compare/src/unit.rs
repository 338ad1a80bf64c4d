//! Figures as text.

/// What weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Time, ns.
    Nanoseconds,
    /// Events.
    Events,
}

impl Unit {
    pub(crate) fn of(weight_is_ns: bool) -> Self {
        if weight_is_ns {
            Self::Nanoseconds
        } else {
            Self::Events
        }
    }

    /// For JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Events => "events",
        }
    }

    /// A cost with four digits and its unit.
    pub(crate) fn text(self, cost: f64) -> String {
        let steps: &[Step] = match self {
            Self::Nanoseconds => &[(1e9, " s"), (1e6, " ms"), (1e3, " us"), (1.0, " ns")],
            Self::Events => &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")],
        };
        four_digits(cost, steps)
    }
}

/// A size from which on figures are told in its unit, and that unit.
pub(crate) type Step = (f64, &'static str);

/// A figure in the first of the units that it reaches, else in the last.
pub(crate) fn four_digits(value: f64, steps: &[Step]) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let step = steps.iter().find(|(size, _)| value >= *size);
    let (size, name) = step.or(steps.last()).copied().unwrap_or((1.0, ""));
    let value = value / size;
    let decimals = match value {
        value if value >= 1000.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}{name}")
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn costs_have_four_digits_and_a_unit() {
        let time = |cost| Unit::Nanoseconds.text(cost);
        assert_eq!(time(1_234_500_000.0), "1.234 s");
        assert_eq!(time(56_780_000.0), "56.78 ms");
        assert_eq!(time(0.5), "0.500 ns");
        assert_eq!(time(0.0), "0");
        assert_eq!(Unit::Events.text(123.0), "123.0");
        assert_eq!(Unit::Events.text(2.5e12), "2500 G");
    }
}
