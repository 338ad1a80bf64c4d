//! Keys, clicks and commands.

use super::{Bench, bench, million};
use crate::tui::app::Effect;
use crate::tui::views::View;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::{Duration, Instant};

#[test]
fn help_finds_commands_by_name() {
    let mut bench = bench();
    // What it does does not say the word.
    let screen = bench.keys("?/collapse recur").screen();
    assert!(screen.contains("calls itself once"), "{screen}");
    let screen = bench.keys("\n").screen();
    assert!(screen.contains("recursion as one"), "{screen}");
}

#[test]
fn clicks_select_fold_sort_and_switch_tabs() {
    let mut bench = bench();
    // The heading of the total.
    let screen = bench.click(5, 2).screen();
    assert!(screen.contains("Total▾"), "{screen}");
    bench.screen();
    let screen = bench.click(15, 0).screen();
    assert!(
        screen
            .lines()
            .nth(2)
            .is_some_and(|line| line.contains("Symbol")),
        "{screen}"
    );
    // The fold sign of the first row, in the tree.
    let rows = bench.screen().lines().count();
    let open = bench.screen();
    let closed = bench.click(2 * 8 + 11 + 16, 3).screen();
    assert_eq!(closed.lines().count(), rows);
    assert_ne!(open, closed);
}

#[test]
fn keys_that_act_outside_leave_effects() {
    let mut bench = bench();
    bench
        .app
        .key(&KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL));
    bench.keys("/eval\nae");
    let edit = Effect::Edit {
        file: "/src/app.c".into(),
        line: 1,
    };
    assert!(bench.app.effects.contains(&Effect::Suspend));
    assert!(bench.app.effects.contains(&edit), "{:?}", bench.app.effects);
    bench.keys("q");
    assert!(bench.app.effects.contains(&Effect::Quit));
}

/// Longest time from a key to the drawn screen, the worker's time apart.
#[test]
#[ignore = "measures time: run it alone, with --release"]
fn a_key_is_answered_within_16_ms_at_a_million_nodes() {
    let mut bench = Bench::new(million(), 200, 60);
    let mut slowest = Vec::new();
    for keys in [
        "1", "o", "G", "2", "E", "G", "I", "\n", "e", "E", "3", "j", "\n", "l", "^", "c", "e", "6",
        "7", "1",
    ] {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '^' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            let start = Instant::now();
            bench.app.key(&KeyEvent::new(code, KeyModifiers::NONE));
            bench.screen();
            slowest.push((start.elapsed(), key, bench.app.view));
            bench.settle();
            let start = Instant::now();
            bench.screen();
            slowest.push((start.elapsed(), 'd', bench.app.view));
        }
    }
    slowest.sort_by_key(|&(time, ..)| std::cmp::Reverse(time));
    slowest.truncate(5);
    slowest.push((bench.slowest_answer, 'a', View::Hotspots));
    let limit = Duration::from_millis(16);
    assert!(
        slowest.iter().all(|&(time, ..)| time <= limit),
        "{slowest:?}"
    );
}
