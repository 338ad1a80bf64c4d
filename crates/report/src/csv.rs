//! Tables as comma-separated values (RFC 4180).

use crate::model::{Row, Weight};
use crate::text::{Cells, Field, Table, TextOptions, scene_of};
use prof_profile::{EventId, Profile};
use std::io;

/// Writes the rows of all sampled events: a line of names, then one line per
/// row with the event first. Shares are percent with two decimals and no
/// sign.
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
            let names: Vec<String> = std::iter::once("event".to_owned()).chain(names).collect();
            write!(out, "{}\r\n", names.join(","))?;
        }
        let name = scene.event().map_or("", |event| event.name.as_str());
        let cells = Cells::new(&scene, table.all_rows());
        for row in table.rows() {
            write!(out, "{}", quoted(name))?;
            for field in table.fields() {
                write!(out, ",{}", cell(&cells, field, row, table.whole()))?;
            }
            out.write_all(b"\r\n")?;
        }
    }
    Ok(())
}

fn cell(cells: &Cells<'_>, field: Field, row: &Row, whole: Weight) -> String {
    match field {
        Field::Samples => row.own.samples.to_string(),
        Field::Period => row.own.period.to_string(),
        Field::Key(key) => quoted(&cells.plain(key, row)),
        _ => {
            let weight = field.weight(row).unwrap_or_default();
            format!("{:.2}", weight.percent_of(whole))
        }
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
    use super::csv;
    use crate::sketch::Sketch;
    use crate::text::TextOptions;

    #[test]
    fn names_with_commas_and_quotes_stay_one_field() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "a,b");
        sketch.sample(task, "app:operator\"x\"(a, b)", 1, 10);
        let mut out = Vec::new();
        csv(&sketch.profile, &TextOptions::default(), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "event,overhead_children,overhead,comm,dso,symbol\r\n\
             cpu-clock,100.00,100.00,\"a,b\",app,\"operator\"\"x\"\"(a, b)\"\r\n"
        );
    }
}
