//! A comparison as comma-separated values (RFC 4180).

use crate::comparison::Comparison;
use crate::json::{name_of, needs_of};
use prof_report::csv::field;
use std::io;

/// Writes the rows of comparisons, one of each event: a line of names, then a
/// line for each row with the event first. What is not known is empty: so are
/// the keys before (`was_dso`), unless the function was recognised by another name.
///
/// # Errors
/// If `out` cannot be written to.
pub fn csv(comparisons: &[Comparison], out: &mut impl io::Write) -> io::Result<()> {
    let keys = comparisons.first().map_or(&[][..], |first| &first.keys);
    let names = "event,before_percent,before_cost,before_samples,after_percent,after_cost,\
                 after_samples,change_percent,change_low,change_high,verdict,needs";
    let was = keys.iter().map(|key| format!("was_{}", key.name()));
    let own = keys.iter().map(|key| key.name().to_owned());
    let names = names.split(',').map(str::to_owned).chain(own).chain(was);
    write!(out, "{}\r\n", names.collect::<Vec<_>>().join(","))?;
    for comparison in comparisons {
        for row in &comparison.rows {
            let interval = row.interval;
            let mut cells = vec![field(&comparison.event)];
            for side in [&row.before, &row.after] {
                cells.push(number(side.share));
                cells.push(number(side.cost));
                cells.push(side.samples.to_string());
            }
            cells.extend([row.change.value, interval.low, interval.high].map(number));
            cells.push(name_of(row.verdict).to_owned());
            cells.push(needs_of(row.verdict).map_or_else(String::new, |needs| needs.to_string()));
            cells.extend(row.names.iter().map(|name| field(name)));
            let was = |at: usize| row.was.as_ref().and_then(|was| was.get(at));
            let was =
                (0..keys.len()).map(|at| was(at).map_or_else(String::new, |name| field(name)));
            cells.extend(was);
            write!(out, "{}\r\n", cells.join(","))?;
        }
    }
    Ok(())
}

fn number(value: f64) -> String {
    match value.is_finite() {
        true => format!("{value:.4}"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::csv;
    use crate::comparison::tests::sides;
    use crate::{Comparison, ComparisonOptions};

    #[test]
    fn each_line_has_as_many_fields_as_the_first() {
        let (before, after) = sides(130);
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        csv(&[comparison], &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().count(), 3);
        assert!(
            out.lines().all(|line| line.split(',').count() == 16),
            "{out}"
        );
        assert!(
            out.lines().nth(1).unwrap().ends_with("slower,,app,g,,"),
            "{out}"
        );
    }
}
