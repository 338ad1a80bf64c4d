//! Where the user was, after the selection or the profile changed.

use super::{Bench, Sketch, bench};
use crate::data::Ask;
use crossterm::event::{KeyCode, KeyEvent};
use std::sync::Arc;

/// The line of the screen that the detail at its bottom is about.
fn selected(bench: &mut Bench) -> String {
    let screen = bench.screen();
    // The last line but one, or the one before that it goes on in.
    let mut lines = screen.lines().rev().skip(1);
    let begins = |line: &&str| line.starts_with('[') || line.starts_with("thread");
    let line = lines.find(begins).unwrap_or_default();
    line.split("  ").next().unwrap_or_default().to_string()
}

#[test]
fn open_rows_and_the_cursor_outlive_a_filter() {
    let mut bench = bench();
    // A place that is not open at first.
    bench.keys("2C/push_back\n^");
    assert_eq!(
        selected(&mut bench),
        "[.] std::vector::push_back(int const&)"
    );
    let before = bench.screen();
    // One that keeps it, one that does not, and back.
    let screen = bench.keys("fcomm=tool\n").screen();
    assert!(screen.contains("▾ [.] main"), "{screen}");
    assert_eq!(
        selected(&mut bench),
        "[.] std::vector::push_back(int const&)"
    );
    let screen = bench.keys("ufcomm=server\n").screen();
    assert!(!screen.contains("push_back"), "{screen}");
    bench.keys("u");
    assert_eq!(bench.screen(), before);
    // Without a touch the hottest path is open as it is then.
    let mut fresh = super::bench();
    let screen = fresh.keys("2fcomm=tool\n").screen();
    assert!(screen.contains("▾ [.] main"), "{screen}");
    let screen = fresh.keys("u").screen();
    assert_eq!(screen, super::bench().keys("2").screen());
}

#[test]
fn the_zoom_of_the_flame_graph_outlives_a_filter() {
    let mut bench = bench();
    let before = bench.keys("3j\nj").screen();
    assert!(before.contains("▶[i]next_token"), "{before}");
    // Its frames are not all there.
    let screen = bench.keys("fcomm=worker\n").screen();
    assert!(screen.contains("▶main"), "{screen}");
    assert!(!screen.contains("parse"), "{screen}");
    assert_eq!(bench.keys("u").screen(), before);
}

#[test]
fn places_are_found_again_when_inlined_functions_come() {
    let profile = |middle: &str| {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "app:main;app:other", 1, 60);
        sketch.sample(
            task,
            &format!("app:main;app:run{middle};app:leaf;app:end"),
            2,
            40,
        );
        sketch.profile
    };
    let mut bench = Bench::new(profile(""), 80, 20);
    bench.keys("2/leaf\n^").press(KeyCode::Right);
    bench.press(KeyCode::Right);
    assert_eq!(selected(&mut bench), "[.] end");
    bench.keys("3/leaf\n^\n");
    assert_eq!(selected(&mut bench), "[.] leaf");
    bench.app.set_profile(Arc::new(profile(">outer>inner")));
    bench.settle();
    assert_eq!(selected(&mut bench), "[.] leaf");
    let screen = bench.screen();
    assert!(screen.contains("[i]inner\n▶leaf"), "{screen}");
    bench.keys("2");
    assert_eq!(selected(&mut bench), "[.] end");
    let screen = bench.screen();
    assert!(screen.contains("▾ [i] inner"), "{screen}");
}

#[test]
fn the_selected_thread_outlives_a_filter() {
    let mut bench = bench();
    bench.keys("6").press(KeyCode::Down).press(KeyCode::Down);
    let before = bench.screen();
    assert_eq!(
        selected(&mut bench),
        "thread 101 worker of process 100; Enter or t filters"
    );
    bench.keys("t");
    assert_eq!(
        selected(&mut bench),
        "thread 101 worker of process 100; Enter or t filters"
    );
    assert_eq!(bench.keys("u").screen(), before);
}

#[test]
fn what_is_asked_while_names_come_is_answered() {
    let mut bench = bench();
    let renew = |bench: &mut Bench| {
        bench.app.set_profile(Arc::new(super::sketch().profile));
        bench.settle();
    };
    // Enter, and the next profile before the callers have come.
    bench.app.key(&KeyEvent::from(KeyCode::Down));
    bench.app.key(&KeyEvent::from(KeyCode::Enter));
    renew(&mut bench);
    let open = bench.screen();
    assert!(open.contains("▾ [.] memcpy"), "{open}");
    // What is open stays open.
    renew(&mut bench);
    assert_eq!(bench.screen(), open);
    bench.keys("\n");
    let closed = bench.screen();
    assert!(!closed.contains("▾ [.] memcpy"), "{closed}");
    renew(&mut bench);
    assert_eq!(bench.screen(), closed);
    // A search, and the next profile before its matches have come.
    for letter in "/eval\n".chars() {
        bench.app.key(&KeyEvent::from(match letter {
            '\n' => KeyCode::Enter,
            letter => KeyCode::Char(letter),
        }));
    }
    renew(&mut bench);
    let screen = bench.screen();
    assert!(screen.contains("/eval/ 1 function"), "{screen}");
    assert!(screen.contains("\n[.] eval  "), "{screen}");
}

#[test]
fn callers_of_callers_stay_open_with_the_next_profile() {
    let profile = |more: usize| {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "app:main;app:outer;app:middle;app:leaf", 1, 60);
        sketch.sample(task, "app:main;app:other;app:leaf", 2, 20);
        for index in 0..more {
            sketch.sample(task, &format!("app:late{index}"), 3, 90);
        }
        sketch.profile
    };
    let mut bench = Bench::new(profile(0), 80, 24);
    for name in ["leaf", "middle"] {
        bench.keys(&format!("/{name}\n^")).press(KeyCode::Right);
        bench.press(KeyCode::Right);
    }
    assert_eq!(selected(&mut bench), "[.] outer");
    bench.press(KeyCode::Right);
    bench.press(KeyCode::Right);
    assert_eq!(selected(&mut bench), "[.] main");
    let tree = |screen: &str| -> Vec<String> {
        let names = ["leaf", "middle", "outer", "main", "other"];
        let rows = screen.lines().filter(|line| line.contains('%'));
        let rows = rows.filter(|line| names.iter().any(|name| line.ends_with(name)));
        rows.map(|line| line.rsplit("  ").next().unwrap_or("").to_owned())
            .collect()
    };
    let before = tree(&bench.screen());
    // Other rows above, and more of them.
    bench.app.set_profile(Arc::new(profile(3)));
    bench.settle();
    assert_eq!(selected(&mut bench), "[.] main");
    assert_eq!(tree(&bench.screen()), before);
    // What is closed stays closed.
    bench.press(KeyCode::Left);
    assert_eq!(selected(&mut bench), "[.] outer");
    bench.press(KeyCode::Left);
    let before = tree(&bench.screen());
    bench.app.set_profile(Arc::new(profile(2)));
    bench.settle();
    assert_eq!(tree(&bench.screen()), before);
}

#[test]
fn pages_show_every_row_beside_details_of_any_length() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    for index in 0..60 {
        let long = "_and_more".repeat(if index % 19 == 0 { 24 } else { 0 });
        sketch.sample(task, &format!("app:f{index:02}{long}"), 1, 600 - index);
    }
    let mut bench = Bench::new(sketch.profile, 80, 24);
    let mut met = std::collections::BTreeSet::new();
    let mut note = |screen: String| {
        for line in screen.lines().filter(|line| line.contains('%')) {
            let name = line.split("[.] f").nth(1);
            met.extend(name.and_then(|name| name.get(..2)?.parse::<u32>().ok()));
        }
        met.len()
    };
    note(bench.screen());
    for _ in 0..5 {
        bench.press(KeyCode::PageDown);
        note(bench.screen());
    }
    assert_eq!(note(bench.screen()), 60);
    let mut back = std::collections::BTreeSet::new();
    for _ in 0..6 {
        let screen = bench.screen();
        let names = screen.lines().filter_map(|line| line.split("[.] f").nth(1));
        back.extend(names.filter_map(|name| name.get(..2)?.parse::<u32>().ok()));
        bench.press(KeyCode::PageUp);
    }
    assert_eq!(back.len(), 60, "{back:?}");
}

#[test]
fn what_is_done_to_a_view_that_waits_is_done_when_it_has_come() {
    // Keys and clicks between a view's question and its answer do what they
    // do after it.
    for (view, keys) in [
        ("6", "j+"),
        ("6", "jj"),
        ("4", "j"),
        ("5", "jj"),
        ("7", "ll"),
    ] {
        let mut patient = super::bench();
        patient.keys(view).keys(keys);
        let mut bench = super::bench();
        for letter in view.chars().chain(keys.chars()) {
            bench.app.key(&KeyEvent::from(KeyCode::Char(letter)));
        }
        bench.settle();
        assert_eq!(bench.screen(), patient.screen(), "{view}{keys}");
        // The same while a profile with more names is on its way.
        bench.keys("1").keys(view);
        patient.keys("1").keys(view);
        bench.app.set_profile(Arc::new(super::sketch().profile));
        bench.settle_one();
        patient.app.set_profile(Arc::new(super::sketch().profile));
        patient.settle();
        for letter in keys.chars() {
            bench.app.key(&KeyEvent::from(KeyCode::Char(letter)));
        }
        bench.settle();
        patient.keys(keys);
        assert_eq!(bench.screen(), patient.screen(), "{view}{keys}");
    }
    let mut patient = super::bench();
    patient.keys("6").screen();
    patient.click(60, 4);
    let mut bench = super::bench();
    bench.app.key(&KeyEvent::from(KeyCode::Char('6')));
    bench.app.click(60, 4);
    bench.settle();
    assert_eq!(bench.screen(), patient.screen());
}

#[test]
fn callers_stay_as_they_were_left_when_names_come() {
    let mut bench = bench();
    // Below a caller that is not open at first.
    bench.keys("/memcpy\n^4").press(KeyCode::Down);
    let below = bench.keys("+").press(KeyCode::Down).screen();
    assert!(below.contains("▾ [.] parse"), "{below}");
    assert_eq!(selected(&mut bench), "[.] main");
    bench.app.set_profile(Arc::new(super::sketch().profile));
    bench.settle();
    assert_eq!(bench.screen(), below);
    // Another selection; what was open there is open again.
    bench.keys("fcomm=tool\n").keys("u");
    assert_eq!(bench.screen(), below);
    // The list of callees has a cursor of its own.
    bench.press(KeyCode::End).press(KeyCode::Down);
    let callees = bench.screen();
    assert_ne!(callees, below);
    bench.app.set_profile(Arc::new(super::sketch().profile));
    bench.settle();
    assert_eq!(bench.screen(), callees);
}

#[test]
fn callers_that_come_twice_change_nothing() {
    let mut bench = bench();
    bench.keys("/memcpy\n^4").press(KeyCode::Down);
    let before = bench.screen();
    let seen = bench.app.shared.seen.as_ref().expect("data");
    let mut hot = seen.hot.iter().map(|hot| hot.site);
    let site = hot.find(|&site| seen.site(site).name(&seen.profile) == "memcpy");
    let key = seen.key(site.expect("it is there")).expect("a key");
    bench.app.shared.asks.push(Ask::Around(key));
    bench.settle();
    assert_eq!(bench.screen(), before);
}

#[test]
fn a_function_chosen_between_two_profiles_is_that_of_the_screen() {
    let profile = |early: usize| {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        // Functions that came first have the smaller numbers.
        for index in 0..early {
            sketch.sample(task, &format!("app:early{index}"), 3, 1);
        }
        sketch.sample(task, "app:main;app:hot", 1, 60);
        sketch.sample(task, "app:main;app:warm", 2, 40);
        sketch.profile
    };
    for keys in ["4", "\u{1b}4"] {
        let mut bench = Bench::new(profile(0), 80, 24);
        bench.app.set_profile(Arc::new(profile(3)));
        for key in keys.chars() {
            let code = match key {
                '\u{1b}' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            bench.app.key(&KeyEvent::from(code));
        }
        bench.app.key(&KeyEvent::from(KeyCode::Down));
        bench.settle();
        let screen = bench.screen();
        assert!(screen.contains("▾ [.] hot"), "{screen}");
        // The key that was pressed meanwhile was obeyed, too.
        assert_eq!(selected(&mut bench), "[.] main");
    }
}

/// A session that is asked for the code of a function at its start, with what is known
/// of a recording before its inlined functions are.
fn begun_at(function: &str) -> Bench {
    let mut first = Sketch::new();
    let task = first.task(100, 100, "server");
    first.sample(task, "/bin/app:main;/bin/app:parse", 1_000_000, 40);
    let mut bench = Bench::new(first.profile.clone(), 100, 20);
    bench.app.shared.progress = Some("inlined functions and lines".into());
    bench.app.wanted = Some(function.into());
    bench.app.set_profile(Arc::new(first.profile));
    bench.settle();
    bench
}

#[test]
fn the_code_of_an_inlined_function_is_shown_when_that_is_known() {
    let mut bench = begun_at("next_token");
    let screen = bench.screen();
    assert!(!screen.contains("is called next_token"), "{screen}");
    bench.app.set_profile(Arc::new(super::sketch().profile));
    bench.app.loaded();
    bench.settle();
    let screen = bench.screen();
    assert!(screen.contains("Of self next_token in parse"), "{screen}");
}

#[test]
fn that_there_is_no_such_function_is_said_when_all_is_known() {
    let mut bench = begun_at("nothing");
    let said = "no function with samples is called nothing";
    assert!(!bench.screen().contains(said));
    bench.app.loaded();
    let screen = bench.screen();
    assert!(screen.contains(said), "{screen}");
}
