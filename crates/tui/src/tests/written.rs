//! Views written to files.

use super::{Bench, Sketch, bench, million, sketch};
use crate::data::Order;
use crate::frame;
use crate::shared::Effect;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

/// What is written of the tab that is shown.
fn text_of(bench: &Bench) -> String {
    frame::text(&bench.app.shared, bench.app.tabs.shown())
}

/// Rows of the tab that is shown, with its headings.
fn rows_of(bench: &Bench) -> usize {
    bench.app.tabs.shown().written_rows().expect("a list")
}

#[test]
fn a_written_view_has_whole_names_and_all_rows() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    let long = format!("app:{}end", "f".repeat(700));
    sketch.sample(task, &format!("app:main;{long}"), 1, 10);
    let bench = Bench::new(sketch.profile, 80, 12);
    let text = text_of(&bench);
    assert!(text.contains("fffend\n"), "{text}");
    assert!(!text.contains('…'), "{text}");
    let bench = Bench::new(million(), 80, 24);
    let text = text_of(&bench);
    let rows = text.lines().filter(|line| line.contains("[.] ")).count();
    assert_eq!(rows, rows_of(&bench) - 1);
    // Of what is too much, it says how much is not there.
    let mut bench = bench;
    bench.keys("2E");
    let shown = rows_of(&bench) - 1;
    let text = text_of(&bench);
    let rows = text.lines().filter(|line| line.contains("[.] ")).count();
    let left = text.lines().last().and_then(|line| {
        let words = line.strip_prefix("# ")?.split(' ').next()?;
        words.parse::<usize>().ok()
    });
    assert!(rows >= shown.min(400), "{rows} of {shown}");
    assert_eq!(rows + left.unwrap_or(0), shown);
}

#[test]
fn the_selection_is_written_in_the_form_of_the_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = bench();
    bench.keys("fcomm=tool\n");
    for (name, wanted) in [
        ("a.txt", "memcpy"),
        ("a.folded", "main;memcpy 10"),
        ("a.svg", "<svg"),
        ("a.html", "<html"),
    ] {
        let path = folder.path().join(name);
        let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
        bench.keys("w").app.key(&clear);
        bench.keys(&format!("{}\n", path.display()));
        let text = std::fs::read_to_string(&path).expect("it was written");
        assert!(text.contains(wanted), "{name}: {text}");
        assert!(!text.contains("next_token"), "{name}: {text}");
    }
}

/// Types a name for the view and Enter; nothing is written yet.
fn ask_for(bench: &mut Bench, path: &str) {
    let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    bench.keys("w").app.key(&clear);
    bench.keys(path);
    bench
        .app
        .key(&KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
}

#[test]
fn a_file_is_written_although_a_profile_with_more_names_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.txt").display().to_string();
    let mut bench = bench();
    // It comes before the worker is asked.
    ask_for(&mut bench, &path);
    bench.app.set_profile(Arc::new(sketch().profile));
    bench.settle();
    let screen = bench.screen();
    assert!(screen.contains("wrote "), "{screen}");
    // It comes before the answer is looked at.
    let missing = folder.path().join("none/b.txt").display().to_string();
    ask_for(&mut bench, &missing);
    let ask = bench.app.shared.asks.pop().expect("the file");
    bench
        .orders
        .send(Order::Ask(ask))
        .expect("the worker lives");
    bench.app.set_profile(Arc::new(sketch().profile));
    bench.settle();
    let (generation, answer) = bench.replies.recv().expect("the worker answers");
    bench.app.answer(generation, answer);
    let screen = bench.screen();
    assert!(screen.contains("there is no directory"), "{screen}");
}

#[test]
fn a_failure_is_told_until_a_key_and_in_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("n".repeat(90)).join("view.txt");
    let mut bench = Bench::new(sketch().profile, 60, 20);
    ask_for(&mut bench, &path.display().to_string());
    bench.settle();
    // Other things to tell come, and the screen changes.
    bench.app.shared.say("something else");
    bench.app.set_profile(Arc::new(sketch().profile));
    bench.settle();
    let screen = bench.screen().replace('\n', "");
    assert!(screen.contains("there is no directory"), "{screen}");
    assert!(screen.contains(&"n".repeat(90)), "{screen}");
    let screen = bench.press(KeyCode::Down).screen();
    assert!(!screen.contains("cannot write"), "{screen}");
}

#[test]
fn a_file_that_exists_is_replaced_only_if_the_user_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "kept").expect("writable");
    let name = path.display().to_string();
    let mut bench = bench();
    for key in ["n", "^", "\n"] {
        ask_for(&mut bench, &name);
        bench.settle();
        let screen = bench.screen();
        assert!(screen.contains("a.txt exists already. y:"), "{screen}");
        let screen = bench.keys(key).screen();
        assert!(screen.contains("a.txt is as it was"), "{screen}");
        assert_eq!(std::fs::read(&path).expect("there"), b"kept");
    }
    ask_for(&mut bench, &name);
    bench.settle();
    let screen = bench.keys("y").screen();
    assert!(screen.contains("wrote "), "{screen}");
    let text = std::fs::read_to_string(&path).expect("there");
    assert!(text.contains("next_token"), "{text}");
}

#[test]
fn names_are_understood_as_a_shell_and_their_ends_as_formats() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bench = bench();
    bench.app.home = Some(folder.path().display().to_string());
    ask_for(&mut bench, "~/a.folded");
    bench.settle();
    let text = std::fs::read_to_string(folder.path().join("a.folded"));
    assert!(text.is_ok_and(|text| text.contains("main;")));
    ask_for(&mut bench, "~/a.png");
    bench.settle();
    let screen = bench.screen();
    assert!(
        screen.contains("no .png is made here; there are .txt"),
        "{screen}"
    );
    assert!(!folder.path().join("a.png").exists());
}

#[test]
fn leaving_waits_for_what_is_being_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.txt").display().to_string();
    let mut bench = bench();
    ask_for(&mut bench, &path);
    let quit = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    bench.app.key(&quit);
    assert!(!bench.app.shared.effects.contains(&Effect::Quit));
    bench.settle();
    assert!(bench.app.shared.effects.contains(&Effect::Quit));
    assert!(std::fs::exists(&path).expect("a folder"));
    // What failed, or is to be replaced, is seen before the end.
    bench.app.shared.effects.clear();
    ask_for(&mut bench, &path);
    bench.app.key(&quit);
    bench.settle();
    assert!(!bench.app.shared.effects.contains(&Effect::Quit));
    let screen = bench.screen();
    assert!(screen.contains("exists already"), "{screen}");
    // Whoever asks twice leaves at once.
    bench.keys("n").app.shared.effects.clear();
    ask_for(&mut bench, &path);
    bench.app.key(&quit);
    bench.app.key(&quit);
    assert!(bench.app.shared.effects.contains(&Effect::Quit));
}
