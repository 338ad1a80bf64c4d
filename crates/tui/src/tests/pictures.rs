//! One picture of each view.

use super::bench;
use crossterm::event::{KeyCode, MouseButton, MouseEventKind};
use std::sync::Arc;

#[test]
fn intervals_stand_in_the_place_of_bars_when_asked_for() {
    let mut bench = bench();
    let bars = bench.screen();
    let screen = bench.keys("S").screen();
    assert!(screen.contains("95 % int."), "{screen}");
    let row = screen.lines().nth(3).unwrap_or_default();
    let interval = row.split(' ').find(|word| word.contains('-'));
    let ends = interval
        .and_then(|it| it.split_once('-'))
        .expect("an interval");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let own = row.split('%').nth(1).map(str::trim).expect("Self");
    assert!(
        number(ends.0) < number(own) && number(own) < number(ends.1),
        "{row}"
    );
    assert!(screen.contains("95%: "), "{screen}");
    // A row of a tree is one place of its function.
    let tree = bench.keys("2").screen();
    assert_eq!(bench.keys("S").screen(), tree);
    assert_eq!(bench.keys("1").screen(), bars);
}

#[test]
fn hotspots_show_functions_by_self_weight_and_fold_their_callers() {
    let mut bench = bench();
    insta::assert_snapshot!("hotspots", bench.screen());
    bench.press(KeyCode::Down).keys("\n");
    insta::assert_snapshot!("hotspots_open", bench.screen());
}

#[test]
fn the_call_tree_opens_to_its_first_branch_and_turns_around() {
    let mut bench = bench();
    insta::assert_snapshot!("tree", bench.keys("2").screen());
    insta::assert_snapshot!("tree_inverted", bench.keys("IE").screen());
}

#[test]
fn the_flame_graph_zooms_and_flips() {
    let mut bench = bench();
    insta::assert_snapshot!("flame", bench.keys("3").screen());
    insta::assert_snapshot!("flame_zoomed", bench.keys("j\n").screen());
    insta::assert_snapshot!("flame_flipped", bench.keys("^I").screen());
}

#[test]
fn callers_and_callees_stand_above_each_other() {
    let mut bench = bench();
    insta::assert_snapshot!("callers", bench.keys("/memcpy\nc").screen());
}

#[test]
fn code_shows_lines_instructions_and_jumps() {
    let mut bench = bench();
    insta::assert_snapshot!("code", bench.keys("/eval\na").screen());
}

#[test]
fn threads_show_their_share_over_time() {
    let mut bench = bench();
    insta::assert_snapshot!("threads", bench.keys("6").screen());
}

#[test]
fn the_timeline_shows_when_and_selects_a_range() {
    let mut bench = bench();
    insta::assert_snapshot!("timeline", bench.keys("7").screen());
    bench.keys("\n").press(KeyCode::End).keys("\n");
    assert!(bench.screen().contains("6 samples"), "{}", bench.screen());
    bench.press(KeyCode::Home).keys("\n").keys("\n1");
    let screen = bench.screen();
    assert!(screen.contains("  1 sample  time=0 ns.."), "{screen}");
}

#[test]
fn a_range_is_dragged_over_the_timeline() {
    let left = MouseButton::Left;
    let mut bench = bench();
    bench.keys("7").screen();
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    let screen = bench.mouse(MouseEventKind::Drag(left), 60, 4).screen();
    assert!(screen.contains("Enter ends the range"), "{screen}");
    // Past the edge is up to the end.
    bench.mouse(MouseEventKind::Drag(left), 5000, 4);
    let screen = bench.mouse(MouseEventKind::Up(left), 5000, 4).screen();
    assert!(screen.contains(" time=0 ns.."), "{screen}");
    assert!(screen.contains("  6 samples"), "{screen}");
    bench.keys("u");
    // A press that does not move only begins a range; the next ends it.
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    bench.mouse(MouseEventKind::Up(left), 18, 4);
    let screen = bench.screen();
    assert!(screen.contains("Enter ends the range"), "{screen}");
    assert!(!screen.contains(" time="), "{screen}");
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    let screen = bench.mouse(MouseEventKind::Up(left), 18, 4).screen();
    assert!(screen.contains("  1 sample  time=0 ns.."), "{screen}");
}

/// Names come while the button is down: the map is made anew, the times stay.
#[test]
fn a_range_that_is_dragged_meanwhile_is_kept() {
    let left = MouseButton::Left;
    let mut bench = bench();
    bench.keys("7").screen();
    bench.mouse(MouseEventKind::Down(left), 18, 4);
    bench.mouse(MouseEventKind::Drag(left), 60, 4);
    bench.app.set_profile(Arc::new(super::sketch().profile));
    bench.settle_one();
    let screen = bench.mouse(MouseEventKind::Up(left), 60, 4).screen();
    assert!(screen.contains(" time=0 ns.."), "{screen}");
}

#[test]
fn help_and_the_palette_come_from_the_bindings() {
    let mut bench = bench();
    insta::assert_snapshot!("help", bench.keys("?").screen());
    insta::assert_snapshot!("palette", bench.keys("^:zoom").screen());
    // Enter runs the command: only samples of the dso.
    bench.keys("^:zoom dso\n");
    assert!(bench.screen().contains(" dso=app"), "{}", bench.screen());
    // Of those that fit the one that is called so, not the first of the table.
    let screen = bench.keys("^:filter\n").screen();
    assert!(
        screen.contains("\nfilter:") && !screen.contains("Commands"),
        "{screen}"
    );
}

#[test]
fn source_that_is_not_known_says_so() {
    let mut sketch = prof_sketch::Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, "main;bare", 1, 10);
    let mut bench = super::Bench::new(sketch.profile, 80, 20);
    let screen = bench.keys("5").screen();
    assert!(screen.contains("push"), "{screen}");
    // The heading has its hint whole, or none.
    assert!(
        screen.contains("(Tab: next hottest, s: source)"),
        "{screen}"
    );
    let screen = bench.resize(70, 20).screen();
    assert!(!screen.contains("(Tab"), "{screen}");
    let screen = bench.keys("s").screen();
    assert!(screen.contains("lines are not known"), "{screen}");
    // The next mode has instructions again.
    let screen = bench.keys("s").screen();
    assert!(screen.contains("push"), "{screen}");
}
