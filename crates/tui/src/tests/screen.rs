//! What is drawn whatever the size, the terminal and the names.

use super::{Bench, PLAIN, Sketch, bench, sketch};
use crate::{Background, Charset, Colours, Look};
use crossterm::event::KeyCode;
use prof_profile::ChainEnd;

#[test]
fn every_size_is_drawn_and_small_ones_say_what_is_enough() {
    let mut bench = bench();
    for view in ["1", "2", "3", "4", "5", "6", "7", "?"] {
        bench.keys(view);
        for (width, height) in [
            (1, 1),
            (10, 3),
            (39, 9),
            (40, 10),
            (80, 24),
            (300, 100),
            (40, 100),
        ] {
            let screen = bench.resize(width, height).screen();
            if width < 40 || height < 10 {
                assert!(
                    screen.is_empty() || !screen.contains("Hotspots"),
                    "{screen}"
                );
            }
        }
    }
    let screen = bench.resize(30, 8).screen();
    assert!(
        screen.replace('\n', " ").contains("40x10 is enough"),
        "{screen}"
    );
}

#[test]
fn every_tab_is_in_reach_on_a_narrow_screen() {
    let mut bench = bench();
    for (width, tabs) in [
        (40, " 1  2  3  4  5  6 thr  7"),
        (
            60,
            " 1 hot  2 tree  3 flame  4 calls  5 code  6 thr  7 time",
        ),
        (100, "6 Threads  7 Timeline"),
    ] {
        let screen = bench.keys("6").resize(width, 20).screen();
        assert!(screen.contains(tabs), "{width}: {screen}");
        let first = screen.lines().next().unwrap_or_default();
        let column = first.find('7').and_then(|at| u16::try_from(at).ok());
        let screen = bench.click(column.expect("on the screen"), 0).screen();
        assert!(screen.contains("by CPU (o)"), "{width}: {screen}");
    }
}

#[test]
fn without_unicode_or_colour_nothing_is_lost() {
    let look = Look {
        colours: Colours::None,
        background: Background::Dark,
        charset: Charset::Ascii,
    };
    let mut bench = Bench::with_look(sketch().profile, 100, 20, look);
    for view in ["1", "2E", "3", "4", "/eval\na", "6", "7", "?"] {
        let screen = bench.keys(view).screen();
        assert!(screen.is_ascii(), "{view}: {screen}");
        for cell in &bench.terminal.backend().buffer().content {
            use ratatui::style::Color;
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{view}");
        }
        bench.keys("^");
    }
    insta::assert_snapshot!("flame_ascii", bench.keys("^^3").screen());
}

#[test]
fn hostile_names_reach_no_terminal_raw() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "co\x1b]0;x\x07mm");
    let long = "L".repeat(65_536);
    let evil = [
        "a\x1b[2Jb",
        "line\nend",
        "\u{202e}rtl",
        "\u{9b}31m",
        "tab\tbell\x07",
        &long,
    ];
    for name in evil {
        let stack = format!(
            "/bin/\x1bapp:main\x1b[31m;/bin/\x1bapp:{}",
            name.replace([':', ';', '>'], "")
        );
        sketch.sample(task, &stack, 1, 10);
    }
    let mut bench = Bench::new(sketch.profile, 80, 20);
    for view in ["1", "2E", "3", "4", "5", "6", "7", "i", "?"] {
        bench.keys(view).screen();
        bench.press(KeyCode::Down).screen();
        for cell in &bench.terminal.backend().buffer().content {
            let is_hidden = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!cell.symbol().chars().any(is_hidden), "{:?}", cell.symbol());
        }
        bench.keys("^");
    }
}

#[test]
fn a_name_longer_than_its_column_is_whole_in_the_detail() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "comm");
    let name = format!("begin_{}_end", "x".repeat(150));
    sketch.sample(task, &format!("/bin/app:{name}"), 1, 10);
    let mut bench = Bench::new(sketch.profile, 80, 24);
    let whole = bench.screen().replace('\n', "");
    assert!(whole.contains(&name), "{whole}");
}

#[test]
fn a_detail_longer_than_its_place_is_cut_once() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, &format!("app:{}", "f".repeat(2000)), 1, 10);
    let mut bench = Bench::new(sketch.profile, 60, 12);
    let screen = bench.screen();
    let cut = screen.lines().nth_back(1).unwrap_or_default();
    assert!(cut.ends_with("ffff…"), "{screen}");
    assert_eq!(cut.chars().count(), 60, "{screen}");
}

#[test]
fn a_deep_row_moves_left_so_that_its_name_is_seen() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    let names: Vec<String> = (0..60).map(|depth| format!("app:level_{depth}")).collect();
    sketch.sample(task, &names.join(";"), 1, 10);
    let mut bench = Bench::new(sketch.profile, 80, 20);
    let screen = bench.keys("2E").press(KeyCode::End).screen();
    assert!(screen.contains("  [.] level_59"), "{screen}");
    assert!(screen.contains("▾ [.] level_45"), "{screen}");
    // Where the fold sign is drawn, there a click folds.
    let (row, line) = screen
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains("level_50"))
        .expect("on the screen");
    let column = line.find('▾').expect("it has callees");
    let column = line.get(..column).expect("a boundary").chars().count();
    let (row, column) = (row as u16, column as u16);
    let screen = bench.click(column, row).screen();
    assert!(screen.contains("▸ [.] level_50"), "{screen}");
    assert!(!screen.contains("level_51"), "{screen}");
    bench.press(KeyCode::Home);
    let screen = bench.screen();
    assert!(screen.contains("▾ [.] level_0\n"), "{screen}");
}

#[test]
fn the_line_of_trust_keeps_what_matters_on_a_narrow_screen() {
    let mut profile = sketch().profile;
    profile.trust.lost = 12;
    profile.trust.frames = 1000;
    profile.trust.chain_ends.insert(ChainEnd::Root, 98);
    profile.trust.chain_ends.insert(ChainEnd::StackCut, 2);
    let mut bench = Bench::new(profile, 80, 20);
    for width in [70, 80, 100, 120, 200] {
        let screen = bench.resize(width, 20).screen();
        let line = screen.lines().last().unwrap_or_default();
        let told = ["12 lost", "98.0 % of ", "100 % of frames"];
        assert!(told.iter().all(|it| line.contains(it)), "{width}: {line}");
        assert!(!line.contains('…'), "{width}: {line}");
    }
}

#[test]
fn a_bad_figure_of_trust_stands_out_by_sign_and_colour() {
    let mut profile = sketch().profile;
    profile.trust.frames = 1000;
    profile.trust.chain_ends.insert(ChainEnd::Root, 3);
    profile.trust.chain_ends.insert(ChainEnd::StackCut, 997);
    for colours in [Colours::Full, Colours::Sixteen, Colours::None] {
        let look = Look { colours, ..PLAIN };
        let mut bench = Bench::with_look(profile.clone(), 120, 20, look);
        for width in [40, 60, 80, 100, 120, 200] {
            let screen = bench.resize(width, 20).screen();
            let line = screen.lines().last().unwrap_or_default();
            assert!(line.contains("!0.3 % "), "{width}: {line}");
            assert_eq!(line.matches('!').count(), 1, "{width}: {line}");
            let column = line.find('!').and_then(|at| u16::try_from(at).ok());
            let buffer = bench.terminal.backend().buffer();
            let style = |x| buffer.cell((x, 19)).map(|cell| (cell.fg, cell.modifier));
            let column = column.expect("on the screen");
            assert_ne!(style(column), style(0), "{width}: {colours:?}");
            assert_ne!(style(column + 4), style(0), "{width}: {colours:?}");
        }
    }
    // What is lost is bad in any number; what is well bears no sign.
    profile.trust.lost = 1;
    profile.trust.chain_ends.insert(ChainEnd::Root, 99_997);
    let screen = Bench::new(profile, 120, 20).screen();
    let line = screen.lines().last().unwrap_or_default();
    assert!(line.contains("!1 lost"), "{line}");
    assert_eq!(line.matches('!').count(), 1, "{line}");
}

#[test]
fn the_kernel_s_name_is_whole_where_there_is_a_column_for_it() {
    let mut bench = bench();
    for width in [80, 100, 119, 120] {
        let screen = bench.resize(width, 20).screen();
        assert!(screen.contains("[kernel.kallsyms] "), "{width}: {screen}");
    }
}
