//! The same filters in every command that has them: they let the same samples pass.

use crate::oracle::{Finished, prof};

/// Two CPUs, threads of two names.
const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/fixtures/recordings/local/perf6.1-switchns.data"
);

/// The sum of the weights of folded stacks.
fn folded(command: &str, filter: &[&str]) -> u64 {
    let options = [command, "-i", RECORDING, "--format", "folded", "-o", "-"];
    let shown = prof(&[&options, filter].concat());
    let weights = shown.succeeded("prof").text();
    let weight = |line: &str| {
        line.rsplit_once(' ')
            .and_then(|(_, it)| it.parse::<u64>().ok())
    };
    weights.lines().filter_map(weight).sum()
}

/// The sum of periods that a script prints.
fn periods(filter: &[&str]) -> u64 {
    let options = ["script", "-i", RECORDING, "-F", "period"];
    let shown = prof(&[&options, filter].concat()).succeeded("prof script");
    let text = shown.text();
    let periods = text.split_whitespace().map(str::parse::<u64>);
    periods.filter_map(Result::ok).sum()
}

fn annotated(filter: &[&str]) -> Finished {
    let options = [
        "annotate",
        "--stdio",
        "--percent-limit",
        "0",
        "-i",
        RECORDING,
    ];
    prof(&[&options, filter].concat())
}

#[test]
fn filters_let_the_same_samples_pass_in_every_command() {
    let all = periods(&[]);
    for filter in [
        &["-C", "0"][..],
        &["-C", "1"],
        &["--comms", "demo"],
        &["-C", "0", "--comms", "demo"],
        &["--time", "0%-50%"],
    ] {
        let expected = periods(filter);
        assert!(
            expected > 0 && expected < all,
            "{filter:?}: {expected} of {all}"
        );
        for command in ["flamegraph", "export"] {
            assert_eq!(folded(command, filter), expected, "{command} {filter:?}");
        }
        assert_ne!(
            annotated(filter).text(),
            annotated(&[]).text(),
            "annotate {filter:?}"
        );
    }
    assert_eq!(periods(&["-C", "0"]) + periods(&["-C", "1"]), all);
    assert_eq!(annotated(&["--pid", "1"]).code, 1);
}
