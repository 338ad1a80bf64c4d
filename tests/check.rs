//! `prof check`: budgets that are kept, exceeded, or not decided.

use crate::diff::{record_user_time, texts};
use crate::oracle::{compiled, fixture, prof, scratch};
use std::path::{Path, PathBuf};

/// Recordings of so many runs that do so many units of the first function's
/// work.
fn runs(program: &Path, name: &str, units: &str) -> Vec<PathBuf> {
    let units = [units, "300"].map(str::to_owned);
    let run = |run| {
        let path = scratch().join(format!("check-{name}{run}.data"));
        record_user_time(program, &units, &path);
        path
    };
    (0..4).map(run).collect()
}

#[test]
fn a_budget_fails_where_it_is_exceeded_and_passes_where_it_is_kept() {
    let Some(program) = compiled("check", "two_costs.c", &["-O1", "-g"]) else {
        return;
    };
    let (before, after) = (
        runs(&program, "before", "300"),
        runs(&program, "after", "900"),
    );
    let folder = scratch().join("check-config");
    std::fs::create_dir_all(&folder).expect("a folder");
    // Files are sought from where the file lies.
    let list: Vec<String> = texts(&before)
        .iter()
        .map(|path| format!("{path:?}"))
        .collect();
    let config = folder.join("prof.toml");
    let text = format!(
        "baseline = [{}]\nbudgets = [\"first* <= 1.5x\", \"total <= 5x\"]\n",
        list.join(", ")
    );
    std::fs::write(&config, text).expect("written");
    let config = config.to_str().expect("UTF-8");
    let check = |more: &[&str], files: &[PathBuf]| {
        prof(&[&["check", "--config", config], more, &["--"], &texts(files)].concat())
    };
    let failed = check(&["--json"], &after);
    assert_eq!(failed.code, 4, "{}", failed.stderr);
    let value: serde_json::Value = serde_json::from_slice(&failed.stdout).expect("JSON");
    assert_eq!(value["result"], "fails");
    let verdict = |at: usize| value["budgets"][at]["verdict"].as_str().expect("text");
    assert_eq!((verdict(0), verdict(1)), ("fails", "passes"));
    let markdown = check(&["--markdown"], &after).text();
    assert!(
        markdown.contains("| FAILS | `first* <= 1.5x` |"),
        "{markdown}"
    );
    // The baseline keeps to itself, with a wide bound.
    let kept = check(&["-b", "nothing <= 1%"], &before);
    assert_eq!(kept.code, 0, "{}", kept.text());
    // How much two runs differ is not known of one a side.
    let single = [
        "check",
        "-b",
        "total <= 1.05x",
        "--baseline",
        texts(&before)[0],
        "--",
        texts(&after)[0],
    ];
    let open = prof(&single);
    assert_eq!(open.code, 5, "{}", open.text());
    assert!(
        open.text().contains("3 recordings a side would decide"),
        "{}",
        open.text()
    );
}

#[test]
fn what_cannot_be_checked_says_why() {
    for (arguments, said) in [
        (&["check"][..], "there is no budget to check"),
        (&["check", "-b", "f <= 3"], "is no budget"),
        (&["check", "-b", "total <= 1.1x"], "is about a baseline"),
    ] {
        let out = prof(arguments);
        assert_eq!(out.code, 2, "{arguments:?}: {}", out.stderr);
        assert!(out.stderr.contains(said), "{}", out.stderr);
    }
    let out = prof(&["check", "-b", "f <= 3%", "/no/such/recording"]);
    assert_eq!(out.code, 1, "{}", out.stderr);
}

#[test]
fn a_recording_is_one_run_of_a_side_however_it_is_named() {
    let one = fixture("recordings/local/perf7.2-user.data");
    let one = one.to_str().expect("UTF-8");
    let link = scratch().join("check-the-same.data");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(one, &link).expect("a link");
    let link = link.to_str().expect("UTF-8");
    let both = format!("{one},{link}");
    for arguments in [
        &["check", "-b", "f <= 3%", one, link][..],
        &[
            "check",
            "-b",
            "total <= 2x",
            "--baseline",
            one,
            link,
            "--",
            one,
        ],
        &["diff", "--before", one, link, "--after", one],
        &["flamegraph", "--diff", &both, one],
    ] {
        let out = prof(arguments);
        assert_eq!(out.code, 2, "{arguments:?}: {}", out.stderr);
        assert!(out.stderr.contains("are one recording"), "{}", out.stderr);
    }
    // The two sides of an A/A comparison may be one file.
    assert_eq!(prof(&["diff", "-f", one, one]).code, 0);
}
