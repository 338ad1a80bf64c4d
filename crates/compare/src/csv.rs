//! A comparison as comma-separated values (RFC 4180).

use crate::comparison::{ComparedRow, Comparison};
use crate::json::{name_of, name_of_row, needs_of};
use crate::moved::Moved;
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
    let names = names.chain(OF_MOVES.map(str::to_owned));
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
            cells.push(name_of_row(row).to_owned());
            cells.push(needs_of(row.verdict).map_or_else(String::new, |needs| needs.to_string()));
            cells.extend(row.names.iter().map(|name| field(name)));
            let was = |at: usize| row.was.as_ref().and_then(|was| was.get(at));
            let was =
                (0..keys.len()).map(|at| was(at).map_or_else(String::new, |name| field(name)));
            cells.extend(was);
            cells.extend(of_move(comparison, row));
            write!(out, "{}\r\n", cells.join(","))?;
        }
    }
    Ok(())
}

/// Names of the columns of moves, which are empty for a row whose cost did not
/// move: the other functions, and the sum of all.
const OF_MOVES: [&str; 6] = [
    "moved_into",
    "moved_from",
    "sum_percent",
    "sum_low",
    "sum_high",
    "sum_verdict",
];

fn of_move(comparison: &Comparison, row: &ComparedRow) -> [String; OF_MOVES.len()] {
    let of = |moved: Moved| Some((moved, comparison.moves.get(moved.place())?));
    let Some((moved, it)) = row.moved.and_then(of) else {
        return Default::default();
    };
    let (into, from) = match moved {
        Moved::Into(_) => (field(&it.into.join("; ")), String::new()),
        Moved::From(_) => (String::new(), field(&it.from.join("; "))),
    };
    let [change, low, high] = [it.change.value, it.interval.low, it.interval.high].map(number);
    [
        into,
        from,
        change,
        low,
        high,
        name_of(it.verdict).to_owned(),
    ]
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
    use crate::comparison::tests::{run, sides};
    use crate::{Comparison, ComparisonOptions};

    #[test]
    fn cost_that_moved_is_told_with_its_sum() {
        let before = [run("a", &[("app:main", 100), ("app:main;app:f", 300)])];
        let after = [run("b", &[("app:main", 400)])];
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        csv(&[comparison], &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = out.lines().skip(1).collect();
        assert!(rows[0].contains(",moved,,app,f,,,main,,0.0000,"), "{out}");
        assert!(rows[1].contains(",moved,,app,main,,,,f,0.0000,"), "{out}");
        assert!(rows.iter().all(|row| row.ends_with(",same")), "{out}");
    }

    #[test]
    fn each_line_has_as_many_fields_as_the_first() {
        let (before, after) = sides(130);
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        csv(&[comparison], &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().count(), 3);
        assert!(
            out.lines().all(|line| line.split(',').count() == 22),
            "{out}"
        );
        assert!(
            out.lines()
                .nth(1)
                .unwrap()
                .ends_with("slower,,app,g,,,,,,,,"),
            "{out}"
        );
    }
}
