//! Search, filters, transforms and limits.

use super::{Bench, Sketch, bench};
use crossterm::event::{KeyCode, KeyEvent};

#[test]
fn search_is_incremental_and_says_what_it_covers() {
    let mut bench = bench();
    let screen = bench.keys("/MEM").screen();
    assert!(screen.contains("0 functions"), "{screen}");
    let screen = bench.keys("^/mem").screen();
    assert!(screen.contains("/mem/ 1 function, in 30.00%"), "{screen}");
    let screen = bench.keys("\n").screen();
    assert!(screen.contains("[.] memcpy  /lib/libc.so.6"), "{screen}");
    let screen = bench.keys("/(").screen();
    assert!(screen.contains("not a regular expression"), "{screen}");
}

#[test]
fn matches_that_come_after_the_prompt_is_gone_count() {
    let mut bench = bench();
    let mut type_ahead = |keys: &str, last: KeyCode| {
        bench.app.key(&KeyEvent::from(KeyCode::Char('/')));
        for letter in keys.chars() {
            bench.app.key(&KeyEvent::from(KeyCode::Char(letter)));
        }
        bench.app.key(&KeyEvent::from(last));
        bench.settle();
        bench.screen()
    };
    let screen = type_ahead("memcpy", KeyCode::Enter);
    assert!(screen.contains("\n[.] memcpy  "), "{screen}");
    assert!(screen.contains("/memcpy/ 1 function"), "{screen}");
    // What was called off is not found; what was before is.
    let screen = type_ahead("eval", KeyCode::Esc);
    assert!(screen.contains("\n[.] memcpy  "), "{screen}");
    assert!(screen.contains("/memcpy/ 1 function"), "{screen}");
}

#[test]
fn matches_that_come_before_the_rows_of_code_count() {
    let mut bench = bench();
    let screen = bench.keys("/eval\na").screen();
    assert!(screen.contains("  1400: push   %rbp"), "{screen}");
    for key in ['/', 'p', '\n'] {
        let code = match key {
            '\n' => KeyCode::Enter,
            letter => KeyCode::Char(letter),
        };
        bench.app.key(&KeyEvent::from(code));
    }
    // As where names come meanwhile: the code is asked for anew, after the matches.
    bench.app.shared.select();
    bench.settle_one();
    bench.settle();
    let screen = bench.screen();
    assert!(screen.contains("  140a: pop    %rbp"), "{screen}");
}

#[test]
fn n_opens_the_way_to_the_next_match_in_the_tree() {
    let mut bench = bench();
    bench.keys("2C/push_back\n");
    let screen = bench.screen();
    assert!(screen.contains("std::vector::push_back"), "{screen}");
    assert!(screen.contains("▾ [.] main"), "{screen}");
}

#[test]
fn filters_hold_in_all_views_and_are_taken_back() {
    let mut bench = bench();
    let screen = bench.keys("fcomm=tool\n").screen();
    assert!(screen.contains("2 of 6 samples"), "{screen}");
    assert!(screen.contains(" comm=tool"), "{screen}");
    for view in ["2", "3", "6"] {
        let screen = bench.keys(view).screen();
        assert!(!screen.contains("parse"), "{view}: {screen}");
        assert!(screen.contains(" comm=tool"), "{view}: {screen}");
    }
    let screen = bench.keys("1u").screen();
    assert!(screen.contains("  6 samples"), "{screen}");
    let screen = bench.keys("U").screen();
    assert!(screen.contains(" comm=tool"), "{screen}");
    let screen = bench.press(KeyCode::Backspace).screen();
    assert!(screen.contains("  6 samples"), "{screen}");
    // To leave what is left begins nothing again; a key of its own takes it back.
    let screen = bench.press(KeyCode::Esc).screen();
    assert!(screen.contains("  6 samples"), "{screen}");
    let screen = bench.keys("u").screen();
    assert!(screen.contains(" comm=tool"), "{screen}");
    let screen = bench.press(KeyCode::Esc).screen();
    assert!(screen.contains("  6 samples"), "{screen}");
}

#[test]
fn a_filter_that_keeps_nothing_says_how_to_go_back() {
    let mut bench = bench();
    let screen = bench.keys("fcomm=nobody\n").screen();
    assert!(screen.contains("the filters keep no sample"), "{screen}");
    let screen = bench.keys("ftid=x\n").screen();
    assert!(screen.contains("is not a number"), "{screen}");
    let screen = bench.keys("f[\n").screen();
    assert!(screen.contains("not a regular expression"), "{screen}");
}

#[test]
fn a_selection_that_takes_long_says_so() {
    let mut bench = bench();
    bench.keys("fcomm=tool");
    // As the session does when the worker does not answer.
    bench.app.key(&KeyEvent::from(KeyCode::Enter));
    bench.app.shared.set_slow(true);
    let screen = bench.screen();
    assert!(screen.contains("computing; what was before"), "{screen}");
    assert!(screen.contains("next_token"), "{screen}");
    bench.settle();
    let screen = bench.screen();
    assert!(!screen.contains("computing"), "{screen}");
    assert!(!screen.contains("next_token"), "{screen}");
}

#[test]
fn a_recording_without_samples_says_so() {
    let mut bench = Bench::new(Sketch::new().profile, 80, 12);
    assert!(
        bench.screen().contains("the recording has no samples"),
        "{}",
        bench.screen()
    );
    for view in ["2", "3", "4", "5", "6", "7", "1"] {
        bench
            .keys(view)
            .keys("\n+EC")
            .press(KeyCode::Down)
            .press(KeyCode::End);
        bench.screen();
    }
}

#[test]
fn transforms_are_chips_and_toggle() {
    let mut bench = bench();
    bench.keys("/eval\n^R");
    let screen = bench.screen();
    assert!(screen.contains("recursion as one"), "{screen}");
    let screen = bench.keys("2E").screen();
    assert_eq!(screen.matches("[.] eval").count(), 1, "{screen}");
    let screen = bench.keys("R").screen();
    assert!(!screen.contains("recursion as one"), "{screen}");
}

#[test]
fn shares_are_of_all_or_of_what_is_kept() {
    let mut bench = bench();
    let screen = bench.keys("fcomm=tool\n").screen();
    assert!(screen.contains(" 10.00%  10.00%"), "{screen}");
    let screen = bench.keys("F").screen();
    assert!(screen.contains(" 66.67%  66.67%"), "{screen}");
}

#[test]
fn a_limit_hides_small_rows() {
    let mut bench = bench();
    assert!(bench.screen().contains("push_back"));
    bench.keys("L");
    bench.press(KeyCode::Backspace).keys("6\n");
    let screen = bench.screen();
    assert!(!screen.contains("push_back"), "{screen}");
    assert!(screen.contains(">= 6%"), "{screen}");
}

/// Rows of equal weight stay where they are when a filter leaves out others.
#[test]
fn rows_of_equal_weight_keep_their_order_in_a_filter() {
    let mut sketch = Sketch::new();
    let (app, tool) = (sketch.task(1, 1, "app"), sketch.task(2, 2, "tool"));
    for (task, names) in [(tool, ["delta", "alpha"]), (app, ["bravo", "delta"])] {
        for name in names {
            sketch.sample(task, &format!("/bin/app:{name}"), 1, 10);
        }
    }
    for name in ["charlie", "bravo", "alpha"] {
        sketch.sample(app, &format!("/bin/app:{name}"), 1, 10);
    }
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let mut order = |keys: &str| -> Vec<&str> {
        let screen = bench.keys(keys).screen();
        let names = ["alpha", "bravo", "charlie", "delta"];
        let mut rows: Vec<_> = names
            .iter()
            .filter_map(|&name| Some((screen.find(&format!("[.] {name}"))?, name)))
            .collect();
        rows.sort_unstable();
        rows.into_iter().map(|(_, name)| name).collect()
    };
    assert_eq!(order("1"), ["alpha", "bravo", "delta", "charlie"]);
    assert_eq!(order("fcomm=tool\n"), ["alpha", "delta"]);
}
