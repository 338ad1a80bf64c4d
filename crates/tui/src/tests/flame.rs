//! The flame graph where there is no room for a frame.

use super::{Bench, Sketch};
use crossterm::event::{KeyCode, MouseEventKind};

#[test]
fn the_flame_graph_tells_of_frames_that_no_column_is_left_for() {
    let mut sketch = Sketch::new();
    let tool = sketch.task(200, 200, "tool");
    sketch.sample(tool, "/bin/tool:main;/bin/tool:wide", 1_000_000, 998);
    sketch.sample(tool, "/bin/tool:main;/bin/tool:narrow", 2_000_000, 1);
    sketch.sample(tool, "/bin/tool:main;/bin/tool:slim", 3_000_000, 1);
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let screen = bench.keys("3").screen();
    let row = screen.lines().nth(3).unwrap_or_default();
    assert!(row.contains("wide") && row.ends_with('+'), "{screen}");
    let screen = bench.press(KeyCode::Down).screen();
    assert!(
        screen.contains("(+2 narrower beside it, 0.20%)"),
        "{screen}"
    );
}

/// A wide function and two hundred that are narrower than a cell; two of
/// them call the same, and one beside a second wide function does.
fn narrow_ones() -> Sketch {
    let mut sketch = Sketch::new();
    let tool = sketch.task(200, 200, "tool");
    let mut add = |stack: &str, weight| sketch.sample(tool, stack, 1_000_000, weight);
    add("tool:main;tool:wide", 7800);
    add("tool:main;tool:second;tool:broad", 1180);
    add("tool:main;tool:second;tool:slim;tool:needle", 20);
    for name in 0..100 {
        let callee = match name {
            27 => ";tool:haystack;tool:needle",
            72 => ";tool:needle",
            _ => "",
        };
        add(&format!("tool:main;tool:narrow_{name}{callee}"), 10);
    }
    sketch
}

#[test]
fn search_finds_merged_frames_of_the_flame_graph() {
    let mut bench = Bench::new(narrow_ones().profile, 100, 12);
    let screen = bench.keys("3/needle").screen();
    assert!(screen.contains("1 function, in 0.40% of"), "{screen}");
    insta::assert_snapshot!("flame_found_merged", bench.keys("\n").screen());
    insta::assert_snapshot!("flame_found_beside", bench.keys("nn").screen());
    // Where there is a match is seen wherever the cursor is.
    let found = bench.app.shared.theme.found();
    let lit = |bench: &mut Bench| {
        bench.screen();
        let buffer = bench.terminal.backend().buffer();
        let cells = buffer.content.iter().zip(0_u16..);
        let is_lit = |cell: &ratatui::buffer::Cell| Some(cell.bg) == found.bg;
        cells
            .filter(|(cell, _)| is_lit(cell))
            .map(|(cell, at)| (at % 100, at / 100, cell.symbol().to_string()))
            .collect::<Vec<_>>()
    };
    let beside = (89, 4, "+".to_string());
    let [left, right] = [93, 97].map(|column| (column, 3, "▒".to_string()));
    assert_eq!(lit(&mut bench), [left.clone(), right.clone()]);
    bench.press(KeyCode::Home);
    assert_eq!(lit(&mut bench), [left, right, beside]);
    // Around the end, and back.
    let place = |bench: &mut Bench| bench.screen().find('▶');
    let places = ["n", "n", "n", "n", "N"].map(|key| place(bench.keys(key)));
    let [first, second, third, again, back] = places;
    assert!(first < second && second < third, "{places:?}");
    assert_eq!((again, back), (first, third));
    // Enter shows it.
    insta::assert_snapshot!("flame_found_zoomed", bench.keys("\n").screen());
    // No other is in what is zoomed into.
    let screen = bench.keys("n").screen();
    assert!(screen.contains("no other match in this view"), "{screen}");
    // If none is, the whole is back.
    let screen = bench.keys("/broad\n").screen();
    assert!(screen.contains("▶broad"), "{screen}");
    assert!(screen.contains("▏wide"), "{screen}");
}

#[test]
fn the_cursor_is_seen_on_merged_frames() {
    let mut bench = Bench::new(narrow_ones().profile, 100, 12);
    bench.keys("3j").press(KeyCode::Right);
    let row = |bench: &mut Bench, row| {
        let screen = bench.screen();
        screen.lines().nth(row).unwrap_or_default().to_string()
    };
    assert!(row(&mut bench, 3).contains("▶second"));
    // Beside the last cell are narrower ones.
    bench.keys("jl");
    let line = row(&mut bench, 4);
    assert_eq!(line.chars().nth(89), Some('▶'), "{line}");
    let screen = bench.screen();
    assert!(screen.contains("[.] slim"), "{screen}");
    assert!(
        screen.contains("(narrower than a column; Enter zooms in)"),
        "{screen}"
    );
    // What they call is not drawn.
    let screen = bench.keys("j").screen();
    assert!(screen.contains("too narrow to be drawn"), "{screen}");
    bench.keys("h");
    assert!(row(&mut bench, 4).contains("▶broad"));
    let screen = bench.click(89, 4).screen();
    assert!(screen.contains("[.] slim"), "{screen}");
    // Up from it is its caller; a merged cell is one for the cursor, too.
    bench.keys("kll");
    let line = row(&mut bench, 3);
    assert!(line.contains("▶▒"), "{line}");
    let screen = bench.screen();
    assert!(
        screen.contains("(one cell for 10 frames, together"),
        "{screen}"
    );
    // Twice the same is Enter.
    let column = line
        .chars()
        .position(|it| it == '▶')
        .expect("on the screen");
    let column = u16::try_from(column).expect("small");
    bench.click(column, 3);
    assert!(row(&mut bench, 3).starts_with("▶narrow_"));
}

#[test]
fn a_function_without_a_cell_is_zoomed_into() {
    let mut bench = Bench::new(narrow_ones().profile, 100, 12);
    let screen = bench.keys("/haystack\n^g").screen();
    assert!(screen.contains("▶haystack"), "{screen}");
    let screen = bench.keys("^").screen();
    assert!(screen.contains("▏wide"), "{screen}");
}

#[test]
fn the_wheel_stops_where_the_frames_do() {
    let mut bench = deep();
    for flip in ["3", "I"] {
        bench.keys(flip).screen();
        let (down, up) = match flip {
            "3" => (MouseEventKind::ScrollDown, MouseEventKind::ScrollUp),
            _ => (MouseEventKind::ScrollUp, MouseEventKind::ScrollDown),
        };
        for _ in 0..50 {
            bench.mouse(down, 5, 5);
        }
        let screen = bench.screen();
        assert!(screen.contains("level_59"), "{screen}");
        assert!(screen.contains("level_50"), "{screen}");
        bench.mouse(up, 5, 5);
        let screen = bench.screen();
        assert!(!screen.contains("level_59"), "{screen}");
        for _ in 0..50 {
            bench.mouse(up, 5, 5);
        }
        assert!(bench.screen().contains("level_0"));
    }
}

/// A stack higher than the screen.
fn deep() -> Bench {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    let names: Vec<String> = (0..60).map(|depth| format!("app:level_{depth}")).collect();
    sketch.sample(task, &names.join(";"), 1, 10);
    Bench::new(sketch.profile, 80, 20)
}
