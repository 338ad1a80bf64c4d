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
    /// The number as perf writes it in text.
    pub(crate) fn number(&self) -> String {
        let value = self.value;
        match self.style {
            MetricStyle::Plain => format!("{value:8.3}"),
            MetricStyle::Ratio => format!("{value:7.2} "),
            MetricStyle::Percent => format!("{value:7.2}%"),
            MetricStyle::OneDecimal => format!("{value:8.1}"),
            MetricStyle::TwoDecimals => format!("{value:8.2}"),
        }
    }
}
