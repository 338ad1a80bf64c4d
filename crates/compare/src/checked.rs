//! What budgets came to, as text, JSON and Markdown.

use crate::budget::{Judged, Kept, More};
use prof_report::{escape, harmless_json};
use serde::Serialize;
use std::io::{self, Write};

/// The verdict in a word.
fn word(kept: Kept) -> &'static str {
    match kept {
        Kept::Passes => "passes",
        Kept::Fails => "FAILS",
        Kept::Undecided => "undecided",
    }
}

/// The verdict on all budgets together: one failure is enough to fail.
pub fn overall(judged: &[Judged]) -> Kept {
    let any = |kept: Kept| judged.iter().any(|one| one.kept == kept);
    match (any(Kept::Fails), any(Kept::Undecided)) {
        (true, _) => Kept::Fails,
        (false, true) => Kept::Undecided,
        (false, false) => Kept::Passes,
    }
}

fn needs(more: Option<More>) -> String {
    match more {
        None => String::new(),
        Some(More::Samples(samples)) => format!(": {samples} samples would decide"),
        Some(More::Runs(runs)) => format!(": {runs} recordings a side would decide"),
    }
}

fn figure(value: f64, unit: &str) -> String {
    match value.is_finite() {
        true => format!("{value:.2}{unit}"),
        false => "?".to_owned(),
    }
}

fn interval(one: &Judged) -> String {
    match one.interval.high.is_finite() && one.interval.low.is_finite() {
        true => format!("[{:.2}, {:.2}]", one.interval.low, one.interval.high),
        false => "not known".to_owned(),
    }
}

/// A line for each budget.
///
/// # Errors
/// If `out` cannot be written to.
pub fn check_text(judged: &[Judged], out: &mut dyn Write) -> io::Result<()> {
    let cells = |one: &Judged| {
        [
            format!("{}{}", word(one.kept), needs(one.needs)),
            one.budget.clone(),
            figure(one.found, one.unit),
            interval(one),
            one.about.clone(),
        ]
    };
    let headings = ["Verdict", "Budget", "Found", "95 % interval", "About"].map(str::to_owned);
    let lines: Vec<[String; 5]> = [headings]
        .into_iter()
        .chain(judged.iter().map(cells))
        .collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for (index, line) in lines.iter().enumerate() {
        let mark = if index == 0 { "# " } else { "  " };
        let cells = line
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let text = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{mark}{}", escape::terminal(text.trim_end()))?;
    }
    if let Some(why) = why_undecided(judged) {
        writeln!(out, "# {why}")?;
    }
    Ok(())
}

/// Why a budget whose interval is above it is undecided, if there is one.
fn why_undecided(judged: &[Judged]) -> Option<String> {
    let is_one = judged.iter().any(|one| one.is_nearly_sure);
    is_one.then(|| {
        let all = prof_profile::several(judged.len() as u64, "budget");
        format!(
            "undecided with all of the interval above: {all} together may fail wrongly in one check \
             of 100, so that failing takes more than a 95 % interval of one"
        )
    })
}

/// The same for a pull request: a heading with the result, and a table.
///
/// # Errors
/// If `out` cannot be written to.
pub fn check_markdown(judged: &[Judged], out: &mut dyn Write) -> io::Result<()> {
    let result = match overall(judged) {
        Kept::Passes => "all budgets are kept",
        Kept::Fails => "a budget is exceeded",
        Kept::Undecided => "not decided",
    };
    writeln!(out, "### prof check: {result}\n")?;
    writeln!(out, "| verdict | budget | found | 95 % interval | about |")?;
    writeln!(out, "|---|---|---:|---:|---|")?;
    for one in judged {
        writeln!(
            out,
            "| {}{} | {} | {} | {} | {} |",
            word(one.kept),
            needs(one.needs),
            code(&one.budget),
            figure(one.found, one.unit),
            interval(one),
            about(&one.about),
        )?;
    }
    if let Some(why) = why_undecided(judged) {
        writeln!(out, "\n{why}")?;
    }
    Ok(())
}

/// What a budget is about: plain words, or a function's name as code.
fn about(text: &str) -> String {
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_alphanumeric();
    match text.contains(' ') && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => code(text),
    }
}

/// A text as code in a cell of a table: it ends neither.
fn code(text: &str) -> String {
    let plain = escape::terminal(text).replace('`', "'").replace('|', "\\|");
    format!("`{plain}`")
}

/// One object; what is not known is null.
///
/// # Errors
/// If `out` cannot be written to.
pub fn check_json(judged: &[Judged], out: &mut impl io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Check<'a> {
        schema: &'a str,
        result: &'a str,
        budgets: Vec<One<'a>>,
    }
    #[derive(Serialize)]
    struct One<'a> {
        budget: &'a str,
        event: &'a str,
        verdict: String,
        found: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
        unit: &'a str,
        about: &'a str,
        needs_samples: Option<u64>,
        needs_runs: Option<u64>,
    }
    let finite = |value: f64| value.is_finite().then_some(value);
    let name = |kept: Kept| word(kept).to_lowercase();
    let one = |one| {
        let one: &Judged = one;
        One {
            budget: &one.budget,
            event: &one.event,
            verdict: name(one.kept),
            found: finite(one.found),
            low: finite(one.interval.low),
            high: finite(one.interval.high),
            unit: one.unit,
            about: &one.about,
            needs_samples: match one.needs {
                Some(More::Samples(samples)) => Some(samples),
                _ => None,
            },
            needs_runs: match one.needs {
                Some(More::Runs(runs)) => Some(runs),
                _ => None,
            },
        }
    };
    let result = name(overall(judged));
    let check = Check {
        schema: "prof-check-1",
        result: &result,
        budgets: judged.iter().map(one).collect(),
    };
    harmless_json::write(&check, out)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::{about, check_json, check_markdown, check_text};
    use crate::budget::{Judged, Kept, More};
    use prof_statistics::Interval;

    fn one() -> Judged {
        Judged {
            budget: "f|`g <= 3%".into(),
            event: "cpu-clock".into(),
            kept: Kept::Undecided,
            found: f64::NAN,
            interval: Interval {
                low: 0.0,
                high: f64::INFINITY,
            },
            unit: "%",
            about: "a\x1b[31m".into(),
            needs: Some(More::Runs(3)),
            is_nearly_sure: false,
        }
    }

    #[test]
    fn names_act_neither_on_a_terminal_nor_in_a_table_and_nothing_is_no_number() {
        let mut text = Vec::new();
        check_text(&[one()], &mut text).unwrap();
        check_markdown(&[one()], &mut text).unwrap();
        check_json(&[one()], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            !text.contains('\x1b') && !text.contains("NaN") && !text.contains("inf"),
            "{text}"
        );
        assert!(
            text.contains("`f\\|'g <= 3%`") && text.contains("3 recordings a side"),
            "{text}"
        );
    }
    #[test]
    fn words_are_no_code_and_names_are() {
        for (what, shown) in [
            ("3 functions", "3 functions"),
            (
                "no function of this name has samples of its own",
                "no function of this name has samples of its own",
            ),
            ("main", "`main`"),
            ("a<b *c*>::d e", "`a<b *c*>::d e`"),
        ] {
            assert_eq!(about(what), shown);
        }
    }
}
