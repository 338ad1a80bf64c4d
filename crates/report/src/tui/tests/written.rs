//! Views written to files.

use super::{Bench, Sketch, bench, million};
use crate::tui::frame;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[test]
fn a_written_view_has_whole_names_and_all_rows() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    let long = format!("app:{}end", "f".repeat(700));
    sketch.sample(task, &format!("app:main;{long}"), 1, 10);
    let bench = Bench::new(sketch.profile, 80, 12);
    let text = frame::text(&bench.app);
    assert!(text.contains("fffend\n"), "{text}");
    assert!(!text.contains('…'), "{text}");
    let bench = Bench::new(million(), 80, 24);
    let text = frame::text(&bench.app);
    let rows = text.lines().filter(|line| line.contains("[.] ")).count();
    assert_eq!(rows, bench.app.hotspots.len());
    // Of what is too much, it says how much is not there.
    let mut bench = bench;
    bench.keys("2E");
    let shown = bench.app.tree.len();
    let text = frame::text(&bench.app);
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
