//! Comparisons of drawn recordings.

use super::{By, Comparison, ComparisonOptions};
use crate::{Incomparable, Run};
use prof_profile::EventId;
use prof_report::keys::{DSO, Field, SYMBOL};
use prof_report::model::{Selection, SelfOf};
use prof_report::text::TextOptions;
use prof_sketch::Sketch;
use prof_statistics::{Kind, Verdict};

/// A run of `parts`: stacks and how many samples each has, one after the
/// other.
pub(crate) fn run(name: &str, parts: &[(&str, u64)]) -> Run {
    sized_run(name, parts, &[])
}

/// The same, of a process of this name.
pub(crate) fn run_as(comm: &str, parts: &[(&str, u64)]) -> Run {
    drawn_run((comm, comm), parts, &[])
}

/// The same, of functions whose code is so many bytes long.
pub(crate) fn sized_run(name: &str, parts: &[(&str, u64)], sizes: &[(&str, u64)]) -> Run {
    drawn_run((name, "app"), parts, sizes)
}

fn drawn_run((name, comm): (&str, &str), parts: &[(&str, u64)], sizes: &[(&str, u64)]) -> Run {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, comm);
    let mut at = 0;
    for &(stack, count) in parts {
        for _ in 0..count {
            at += 1_000_000;
            sketch.sample(task, stack, at, 1_000_000);
        }
    }
    for at in 0..sketch.profile.functions.len() {
        let own = sketch.profile.functions[at].name;
        let found = sizes.iter().find(|it| it.0 == sketch.profile.name(own));
        sketch.profile.functions[at].size = found.map_or(0, |it| it.1);
    }
    sketch.profile.events[0].weight_is_ns = true;
    sketch.profile.events[0].samples = sketch.profile.samples.len() as u64;
    let options = TextOptions {
        selection: Selection {
            inlines: false,
            self_of: SelfOf::Host,
            ..Selection::default()
        },
        sort: Some(vec![Field::Key(DSO), Field::Key(SYMBOL)]),
        children: false,
        ..TextOptions::default()
    };
    Run::new(name, &sketch.profile, &options, EventId(0))
}

/// Both sides of runs of two functions that scatter by a few samples.
pub(crate) fn sides(factor: u64) -> (Vec<Run>, Vec<Run>) {
    let side = |name: &str, factor: u64| -> Vec<Run> {
        [3_u64, 0, 5, 2, 7]
            .into_iter()
            .map(|more| {
                let costs = [("app:f", 500 + more), ("app:g", 300 * factor / 100 + more)];
                run(name, &costs)
            })
            .collect()
    };
    (side("old", 100), side("new", factor))
}

#[test]
fn what_became_dearer_is_slower_and_the_rest_is_the_same() {
    let (before, after) = sides(130);
    let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
    assert_eq!(comparison.kind, Kind::AnotherRun);
    let said: Vec<_> = comparison
        .rows
        .iter()
        .map(|row| (row.names[1].as_str(), row.verdict))
        .collect();
    assert_eq!(said, [("g", Verdict::Slower), ("f", Verdict::Same)]);
    assert_eq!(comparison.total.verdict, Some(Verdict::Slower));
    let change = comparison.rows[0].change;
    assert!(
        (change.value - 100.0 * 90.0 / 806.8).abs() < 0.1,
        "{change:?}"
    );
    assert!(change.interval(0.95).contains(change.value));
}

#[test]
fn shares_fall_where_others_grow_and_costs_do_not() {
    let (before, after) = sides(200);
    let options = ComparisonOptions {
        by: By::Share,
        ..ComparisonOptions::default()
    };
    let by_share = Comparison::new(&before, &after, &options).unwrap();
    let of_f = by_share
        .rows
        .iter()
        .find(|row| row.names[1] == "f")
        .unwrap();
    assert_eq!(of_f.verdict, Verdict::Faster);
    // The total is no part of itself.
    let text = text_of(&by_share);
    let total = text.lines().find(|line| line.starts_with("# Total:"));
    assert!(
        total.is_some_and(|line| line.ends_with(", slower")),
        "{text}"
    );
    assert!(text.contains("larger part") && text.contains("smaller part"));
    let by_cost = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
    let of_f = by_cost.rows.iter().find(|row| row.names[1] == "f").unwrap();
    assert_eq!(of_f.verdict, Verdict::Same);
}

#[test]
fn one_a_side_speaks_of_these_two() {
    let (before, after) = sides(100);
    let comparison =
        Comparison::new(&before[..1], &after[..1], &ComparisonOptions::default()).unwrap();
    assert_eq!(comparison.kind, Kind::TheseRuns);
    assert_eq!(comparison.total.verdict, None);
}

#[test]
fn what_has_no_samples_is_refused_with_a_cure() {
    let (before, _) = sides(100);
    let empty = [run("empty", &[])];
    let refused = Comparison::new(&before, &empty, &ComparisonOptions::default());
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, Incomparable::NoSamples { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("record longer"));
    let none = Comparison::new(&before, &[], &ComparisonOptions::default()).unwrap_err();
    assert_eq!(none, Incomparable::NoRun("after"));
}

#[test]
fn a_file_of_another_name_is_matched_and_said_so() {
    let before = [run(
        "a",
        &[("app-old:f", 80), ("app-old:g::h0123456789abcdef", 20)],
    )];
    let after = [run(
        "b",
        &[("app-new:f", 82), ("app-new:g::hfedcba9876543210", 21)],
    )];
    let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
    assert_eq!(comparison.rows.len(), 2);
    assert!(comparison.notes[0].contains("app-new is compared with app-old"));
}

/// A program whose `main` calls functions of these names, costs and sizes.
fn program(functions: &[(&str, u64, u64)]) -> [Run; 1] {
    let stacks: Vec<(String, u64)> = functions
        .iter()
        .map(|(name, count, _)| (format!("app:main;app:{name}"), *count))
        .collect();
    let parts: Vec<(&str, u64)> = stacks.iter().map(|it| (it.0.as_str(), it.1)).collect();
    let sizes = functions.iter().map(|(name, _, size)| (*name, *size));
    [sized_run("r", &parts, &sizes.collect::<Vec<_>>())]
}

fn row_of(before: &[Run], after: &[Run], name: &str) -> Option<(Verdict, Option<String>)> {
    let compared = Comparison::new(before, after, &ComparisonOptions::default()).unwrap();
    let row = compared.rows.into_iter().find(|row| row.names[1] == name)?;
    Some((row.verdict, row.was.map(|was| was[1].clone())))
}

#[test]
fn a_function_of_another_name_is_recognised_and_its_change_still_found() {
    let before = program(&[("parse", 600, 400), ("emit", 300, 90)]);
    let was = Some("parse".to_owned());
    let as_dear = program(&[("read_header", 602, 400), ("emit", 300, 90)]);
    let same = row_of(&before, &as_dear, "read_header");
    assert_eq!(same, Some((Verdict::Same, was.clone())));
    let dearer = program(&[("read_header", 780, 400), ("emit", 300, 90)]);
    let slower = row_of(&before, &dearer, "read_header");
    assert_eq!(slower, Some((Verdict::Slower, was)));
    let compared = Comparison::new(&before, &dearer, &ComparisonOptions::default()).unwrap();
    assert!(compared.notes[0].starts_with("read_header is compared with parse: renamed"));
    assert!(compared.rows[0].shown[1].ends_with("read_header (was parse)"));
}

#[test]
fn names_that_all_got_an_ending_are_recognised_from_the_top() {
    let side = |end: &str| {
        let names = ["load", "parse", "emit"].map(|name| format!("{name}{end}"));
        let [load, parse, emit] = &names;
        let stacks = [
            (format!("app:main;app:{load};app:{parse}"), 600),
            (format!("app:main;app:{load};app:{emit}"), 300),
        ];
        let parts = stacks.each_ref().map(|it| (it.0.as_str(), it.1));
        let sizes = [
            (load.as_str(), 64),
            (parse.as_str(), 80),
            (emit.as_str(), 96),
        ];
        [sized_run("r", &parts, &sizes)]
    };
    let was = row_of(&side(""), &side("_v2"), "parse_v2").unwrap().1;
    assert_eq!(was.as_deref(), Some("parse"));
}

#[test]
fn what_cannot_be_told_apart_is_not_joined() {
    // Costs are swapped: whoever joins by cost swallows it.
    let before = program(&[("a", 600, 400), ("b", 300, 400)]);
    let after = program(&[("x", 300, 400), ("y", 600, 400)]);
    assert_eq!(row_of(&before, &after, "x"), Some((Verdict::Slower, None)));
    assert_eq!(row_of(&before, &after, "b"), Some((Verdict::Faster, None)));
    // By size they are told apart, whatever they cost.
    let before = program(&[("a", 600, 400), ("b", 350, 380)]);
    let after = program(&[("x", 350, 400), ("y", 600, 380)]);
    let x = row_of(&before, &after, "x");
    assert_eq!(x, Some((Verdict::Faster, Some("a".to_owned()))));
    // Another size, no size, three times as dear: not said to be one.
    for after in [("x", 600, 300), ("x", 600, 0), ("x", 1800, 400)] {
        let before = program(&[("a", 600, 400), ("main_loop", 3000, 90)]);
        let after = program(&[after, ("main_loop", 3000, 90)]);
        assert_eq!(row_of(&before, &after, "x"), Some((Verdict::Slower, None)));
    }
}

#[test]
fn what_other_callers_call_is_not_the_same_function() {
    let sizes = [("old", 400), ("new", 400)];
    let of = |stacks: [&str; 3]| [sized_run("r", &stacks.map(|stack| (stack, 300)), &sizes)];
    let before = of(["app:main;app:a;app:old", "app:main;app:a", "app:main;app:b"]);
    let after = of(["app:main;app:b;app:new", "app:main;app:a", "app:main;app:b"]);
    assert_eq!(
        row_of(&before, &after, "old"),
        Some((Verdict::Faster, None))
    );
    assert_eq!(
        row_of(&before, &after, "new"),
        Some((Verdict::Slower, None))
    );
}

fn text_of(comparison: &Comparison) -> String {
    let mut text = Vec::new();
    crate::text(comparison, 0.1, None, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn runs_that_are_slow_as_wholes_show_more_by_their_parts() {
    // Each run is by up to a tenth slower than another, all of it.
    let side = |name: &str, speeds: &[u64], more: u64| -> Vec<Run> {
        let of = |(at, speed): (usize, &u64)| {
            let noise = at as u64 % 3;
            let costs = [
                ("app:f", 5 * speed + noise),
                ("app:g", (100 + more) * speed / 50 + noise),
            ];
            run(name, &costs)
        };
        speeds.iter().enumerate().map(of).collect()
    };
    let before = side("old", &[100, 110, 104, 99, 107], 0);
    let after = side("new", &[108, 101, 110, 98, 103], 20);
    let by_cost = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
    let of_parts = by_cost.detectable_by_share.unwrap();
    assert!(of_parts < by_cost.detectable / 5.0, "{of_parts}");
    let text = text_of(&by_cost);
    let line = text.lines().find(|line| line.contains("--by share"));
    assert!(
        line.is_some_and(|line| line.starts_with("# Most of the scatter")),
        "{text}"
    );
    // What is told is what the option gives.
    let options = ComparisonOptions {
        by: By::Share,
        ..ComparisonOptions::default()
    };
    let by_share = Comparison::new(&before, &after, &options).unwrap();
    assert_eq!(by_share.detectable_by_share, None);
    assert!((by_share.detectable / of_parts - 1.0).abs() < 1e-9);
    // Runs that scatter part by part show no more by their parts: no word of it.
    let (before, after) = sides(130);
    let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
    assert!(!text_of(&comparison).contains("--by share"));
}
