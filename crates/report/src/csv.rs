//! Tables as comma-separated values (RFC 4180).

use crate::escape;
use crate::keys::{Cells, Field};
use crate::model::{Row, Weight};
use crate::text::{Table, TextOptions, scene_of};
use prof_profile::{EventId, Profile};
use std::io;

/// Writes the rows of all sampled events: a line of names, then one line per
/// row with the event first, and last the 95 % interval of the row's own share:
/// where sampling the same run again would find it. Shares are percent with two
/// decimals (those of intervals four) and no sign. Texts are harmless for terminals and spreadsheets.
///
/// # Errors
/// If `out` cannot be written to.
pub fn csv(profile: &Profile, options: &TextOptions, out: &mut impl io::Write) -> io::Result<()> {
    let mut needs_names = true;
    for index in 0..profile.events.len() {
        let event = EventId(index as u16);
        if crate::text::is_silent(profile, event) {
            continue;
        }
        let (scene, has_chains) = scene_of(profile, options, event);
        let table = Table::new(&scene, options, has_chains);
        if std::mem::take(&mut needs_names) {
            let names = table.fields().map(Field::name).map(quoted);
            let ends = ["overhead_low", "overhead_high"].map(str::to_owned);
            let names: Vec<String> = std::iter::once("event".to_owned())
                .chain(names)
                .chain(ends)
                .collect();
            write!(out, "{}\r\n", names.join(","))?;
        }
        let name = scene.event().map_or("", |event| event.name.as_str());
        let certainty = table.certainty();
        let cells = Cells::new(&scene, table.all_rows()).sure(Some(&certainty));
        for row in table.rows() {
            write!(out, "{}", text(name))?;
            for field in table.fields() {
                let most = table.most_characters(field);
                write!(out, ",{}", cell(&cells, field, most, (row, table.whole())))?;
            }
            let interval = cells.interval(row).unwrap_or_default();
            write!(out, ",{:.4},{:.4}\r\n", interval.low, interval.high)?;
        }
    }
    Ok(())
}

/// The cell of a row; a name is cut after `most` characters.
fn cell(
    cells: &Cells<'_>,
    field: Field,
    most: Option<usize>,
    (row, whole): (&Row, Weight),
) -> String {
    match field {
        Field::Samples => row.own.samples.to_string(),
        Field::Period => row.own.period.to_string(),
        Field::Interval => {
            let interval = cells.interval(row).unwrap_or_default();
            format!("{:.2}-{:.2}", interval.low, interval.high)
        }
        Field::Key(key) => {
            let mut name = cells.plain(key, row);
            if let Some((end, _)) = most.and_then(|most| name.char_indices().nth(most)) {
                name.truncate(end);
                name.push('~');
            }
            text(&name)
        }
        _ => {
            let weight = field.weight(row).unwrap_or_default();
            format!("{:.2}", weight.percent_of(whole))
        }
    }
}

/// A text as a field, for other tables. See [`csv`].
pub fn field(name: &str) -> String {
    text(name)
}

/// A text as a field. Control characters become visible escapes, as in text
/// reports. What a spreadsheet would take for a formula (`=`, `+`, `-` or `@`
/// first) gets an apostrophe before it; numbers stay numbers.
fn text(text: &str) -> String {
    let text = escape::terminal(text);
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@']);
    if is_formula && text.trim().parse::<f64>().is_err() {
        quoted(&format!("'{text}"))
    } else {
        quoted(&text)
    }
}

/// A field in quotes if it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{csv, text};
    use crate::keys::{COMM, CPU, Field, SYMBOL};
    use crate::text::TextOptions;
    use prof_sketch::Sketch;

    #[test]
    fn names_act_on_no_terminal_and_no_spreadsheet_and_numbers_stay() {
        assert_eq!(text("\x1b]0;t\x07x"), "\\x1b]0;t\\x07x");
        assert_eq!(text("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        assert_eq!(text(" @SUM(1,2)"), "\"' @SUM(1,2)\"");
        assert_eq!(text("-[View draw]"), "'-[View draw]");
        assert_eq!(text("+1+cmd"), "'+1+cmd");
        for number in ["-1", "0", "-12.50", "100.00"] {
            assert_eq!(text(number), number);
        }
        let mut sketch = Sketch::new();
        let task = sketch.task(-1, -1, "=1+1\n");
        sketch.sample(task, "app:\x1b[2Jf", 1, 10);
        let options = TextOptions {
            sort: Some([COMM, CPU, SYMBOL].map(Field::Key).to_vec()),
            ..TextOptions::default()
        };
        let mut out = Vec::new();
        csv(&sketch.profile, &options, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let row = out.lines().nth(1).unwrap();
        assert_eq!(
            row,
            "cpu-clock,100.00,100.00,'=1+1\\n,001,\\x1b[2Jf,20.6549,100.0000"
        );
    }

    #[test]
    fn names_with_commas_and_quotes_stay_one_field() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "a,b");
        sketch.sample(task, "app:operator\"x\"(a, b)", 1, 10);
        let mut out = Vec::new();
        csv(&sketch.profile, &TextOptions::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "event,overhead_children,overhead,comm,dso,symbol,overhead_low,overhead_high\r\n\
             cpu-clock,100.00,100.00,\"a,b\",app,\"operator\"\"x\"\"(a, b)\",20.6549,100.0000\r\n"
        );
    }
}
