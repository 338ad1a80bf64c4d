//! What recordings of other tools and older versions do not tell, and what follows from
//! what they do.

use crate::oracle::{corpus, fixture, prof};

fn recording(name: &str) -> String {
    let path = fixture("recordings").join(name);
    path.to_str().expect("a plain name").to_owned()
}

/// Whole stacks of user space, and all of them.
fn whole(path: &str) -> (u64, u64) {
    let told = prof(&["report", "--json", "-f", "-i", path]).text();
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let stacks = &told["trust"]["stacks"];
    let number = |key: &str| stacks[key].as_u64().expect("a number");
    (number("complete"), number("judged"))
}

#[test]
fn symbols_of_simpleperf_are_found_where_code_begins() {
    let Some(corpus) = corpus("symbols_of_simpleperf_are_found_where_code_begins") else {
        return;
    };
    let path = corpus.join("simpleperf/perf_with_symbols_for_nonzero_minvaddr_dso.data");
    let path = path.to_str().expect("a plain name");
    let text = prof(&["report", "--stdio", "-f", "-s", "sym", "-i", path]).text();
    let first = text
        .lines()
        .find(|line| line.contains('%') && !line.starts_with('#'));
    let first = first.unwrap_or_default();
    // All of them are in this function, as the recording says itself.
    assert!(
        first.contains("99.69%") && first.contains("memcpy"),
        "{text}"
    );
}

#[test]
fn threads_of_android_begin_where_its_library_starts_them() {
    let (complete, judged) = whole(&recording("simpleperf/perf_merge1.data"));
    // The others are cut in execvpe, whose stack was about to go.
    assert_eq!((complete, judged), (19, 27));
}

#[test]
fn cgroups_told_before_the_first_sample_have_their_paths() {
    let path = recording("local/perf6.1-cgroup.data");
    let text = prof(&["script", "-F", "comm,cgroup", "-f", "-i", &path]).text();
    assert!(text.lines().count() > 50, "{text}");
    assert!(
        text.lines().all(|line| line.trim_end().ends_with('/')),
        "{text}"
    );
}

#[test]
fn a_share_of_the_time_is_that_of_the_samples_where_nothing_else_is_told() {
    let path = recording("local/perf6.1-pipe.data");
    let samples = |more: &[&str]| {
        let args = [
            &["report", "--csv", "-f", "-F", "sample", "-i", &path],
            more,
        ]
        .concat();
        let text = prof(&args).succeeded("report").text();
        let row = text.lines().nth(1).unwrap_or_default().to_owned();
        row.split(',')
            .nth(1)
            .and_then(|count| count.parse::<u64>().ok())
    };
    let all = samples(&[]).expect("samples");
    let half = samples(&["--time", "0%-50%"]).expect("samples");
    assert!(half > 0 && half < all, "{half} of {all}");
}
