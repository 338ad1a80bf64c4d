//! A figure that follows from counts, as it is written.

/// A figure derived from counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metric {
    /// Its value.
    pub(crate) value: f64,
    /// What it is, or its unit.
    pub(crate) unit: String,
    /// How it is written.
    pub(crate) style: MetricStyle,
}

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricStyle {
    /// Three decimals.
    Plain,
    /// Two decimals.
    Ratio,
    /// Two decimals and a percent sign.
    Percent,
    /// One decimal: a metric with a unit of its own.
    OneDecimal,
    /// Two decimals: a metric without a unit.
    TwoDecimals,
}

impl Metric {
    /// As it stands in a column of its own, of which `unit` is the name:
    /// without the prefix that makes rates short, since those of other lines
    /// have others.
    pub(crate) fn alone(self, event: &str) -> Self {
        let factor = match self.unit.as_str() {
            "/sec" => 1.0,
            "K/sec" => 1e3,
            "M/sec" => 1e6,
            "G/sec" => 1e9,
            of if of.starts_with("of all ") => {
                let unit = format!("{event} {of}");
                return Self { unit, ..self };
            }
            _ => return self,
        };
        Self {
            value: self.value * factor,
            unit: format!("{event}/sec"),
            style: self.style,
        }
    }

    /// The number as perf writes it in text.
    pub(crate) fn number(&self) -> String {
        let value = self.value;
        if value.is_nan() {
            // As C writes it.
            return format!("{:>8}", "nan");
        }
        match self.style {
            MetricStyle::Plain => format!("{value:8.3}"),
            MetricStyle::Ratio => format!("{value:7.2} "),
            MetricStyle::Percent => format!("{value:7.2}%"),
            MetricStyle::OneDecimal => format!("{value:8.1}"),
            MetricStyle::TwoDecimals => format!("{value:8.2}"),
        }
    }
}
