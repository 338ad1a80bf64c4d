//! Keys, clicks and commands.

use super::{Bench, bench, million};
use crate::shared::Effect;
use crate::shared::TabId;
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
fn a_proposal_is_replaced_by_what_is_typed() {
    let mut bench = bench();
    let screen = bench.keys("L7\n").screen();
    assert!(screen.contains(" >= 7%"), "{screen}");
    let screen = bench.keys("L60\n").screen();
    assert!(screen.contains(" >= 60%"), "{screen}");
    let screen = bench.keys("fsymbol=vfs_read\n").screen();
    assert!(
        screen.contains("none has 60% or more; L changes"),
        "{screen}"
    );
}

#[test]
fn menus_obey_their_keys_and_clicks() {
    let mut bench = bench();
    let screen = bench.keys("md").screen();
    assert!(screen.contains(" dso=app"), "{screen}");
    let screen = bench.keys("um").screen();
    let row = screen
        .lines()
        .position(|line| line.contains("Only the selected dso"));
    let row = row.and_then(|row| u16::try_from(row).ok());
    let screen = bench.click(20, row.expect("on the screen")).screen();
    assert!(screen.contains(" dso=app"), "{screen}");
    // The border does nothing, outside is away.
    bench.keys("m").screen();
    assert!(bench.click(2, 3).screen().contains("With the selected row"));
    assert!(!bench.click(0, 3).screen().contains("With the selected row"));
    // A click beside the prompt of a search gives it up.
    bench.keys("/eval").screen();
    let screen = bench.click(0, 3).screen();
    assert!(!screen.contains("/eval/"), "{screen}");
}

#[test]
fn help_has_a_beginning_and_an_end() {
    let mut bench = bench();
    let screen = bench.keys("?").press(KeyCode::End).screen();
    assert!(screen.contains("frames narrower than a column"), "{screen}");
    let screen = bench.press(KeyCode::Home).screen();
    assert!(screen.contains("Open or close one level"), "{screen}");
}

#[test]
fn a_list_is_of_use_on_the_smallest_screen() {
    let mut bench = Bench::new(super::sketch().profile, 40, 10);
    let screen = bench.keys("?").screen();
    let is_inside = |line: &&str| line.matches('│').count() == 2;
    let lines = screen.lines().filter(is_inside).count();
    assert!(lines >= 5, "{screen}");
    // Clicks are where the lines are.
    let row = screen.lines().position(|line| line.contains(" E "));
    let row = row.and_then(|row| u16::try_from(row).ok());
    let screen = bench.click(20, row.expect("on the screen")).screen();
    assert!(screen.contains("opens one function"), "{screen}");
}

#[test]
fn a_key_without_a_meaning_says_so() {
    let mut bench = bench();
    let screen = bench.keys("Z").screen();
    assert!(
        screen.contains("Z does nothing here; ? lists the keys"),
        "{screen}"
    );
    let screen = bench.keys("2o").screen();
    assert!(
        screen.contains("these rows are ordered by weight"),
        "{screen}"
    );
    let screen = bench.keys("3E").screen();
    assert!(screen.contains("E does nothing here"), "{screen}");
    let screen = bench.keys("6I").screen();
    assert!(
        screen.contains("I turns the call tree around; 2 shows it"),
        "{screen}"
    );
}

#[test]
fn vi_s_keys_move_in_every_view_and_list() {
    let mut bench = bench();
    for view in ["1", "2", "3", "4", "5", "6", "7", "?", "i"] {
        let at = |bench: &mut Bench, key: KeyCode| {
            bench.press(key);
            let screen = bench.screen();
            let buffer = bench.terminal.backend().buffer().clone();
            (screen, buffer)
        };
        bench.keys(view);
        let pairs = [
            ('j', KeyCode::Down),
            ('k', KeyCode::Up),
            ('l', KeyCode::Right),
            ('h', KeyCode::Left),
        ];
        for (letter, arrow) in pairs {
            let mut other = super::bench();
            other.keys(view);
            if letter == 'k' {
                bench.press(KeyCode::Down);
                other.press(KeyCode::Down);
            }
            let by_letter = at(&mut bench, KeyCode::Char(letter));
            let by_arrow = at(&mut other, arrow);
            assert_eq!(by_letter.0, by_arrow.0, "{view}{letter}");
            assert_eq!(by_letter.1, by_arrow.1, "{view}{letter}");
            bench = super::bench();
            bench.keys(view);
        }
        bench = super::bench();
    }
}

#[test]
fn four_and_five_go_to_the_selected_function() {
    let mut bench = bench();
    let screen = bench.keys("/vfs_read\n4").screen();
    assert!(screen.contains("called by"), "{screen}");
    assert!(screen.contains("\n[k] vfs_read"), "{screen}");
    let screen = bench.keys("^^5").screen();
    assert!(screen.contains("Of self vfs_read"), "{screen}");
    // From any view, and by a click on the tab.
    let screen = bench.keys("2/eval\n^5").screen();
    assert!(screen.contains("Of self eval"), "{screen}");
    let screen = bench.keys("3/memcpy\n^").screen();
    let column = screen
        .find("4 Callers")
        .and_then(|at| u16::try_from(at).ok());
    let screen = bench.click(column.expect("a tab"), 0).screen();
    assert!(screen.contains("\n[.] memcpy"), "{screen}");
    // Where nothing is selected, it is the last one.
    let screen = bench.keys("74").screen();
    assert!(screen.contains("\n[.] memcpy"), "{screen}");
}

#[test]
fn inlined_functions_are_switched_off_and_on() {
    let mut bench = bench();
    let before = bench.screen();
    assert!(before.contains("[i] next_token"), "{before}");
    let screen = bench.keys("b").screen();
    assert!(!screen.contains("next_token"), "{screen}");
    assert!(screen.contains(" inlined as part of"), "{screen}");
    // What was sampled in it is its host's.
    let parse = screen.lines().find(|line| line.contains("[.] parse"));
    assert!(
        parse.is_some_and(|line| line.contains(" 40.00%")),
        "{screen}"
    );
    assert_eq!(bench.keys("u").screen(), before);
}

#[test]
fn esc_goes_back_from_callers_before_it_undoes_filters() {
    let mut bench = bench();
    bench.keys("fdso=app\n/parse\n^");
    let before = bench.screen();
    let screen = bench.keys("c").screen();
    assert!(screen.contains("called by"), "{screen}");
    // On to a callee of it, and back step by step.
    bench
        .press(KeyCode::Down)
        .press(KeyCode::Down)
        .press(KeyCode::Down);
    let other = bench.keys("\n").screen();
    assert_ne!(other, screen);
    assert!(bench.keys("^").screen().contains("[.] parse"));
    assert_eq!(bench.keys("^").screen(), before);
    assert!(before.contains(" dso=app"));
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
    assert!(bench.app.shared.effects.contains(&Effect::Suspend));
    assert!(
        bench.app.shared.effects.contains(&edit),
        "{:?}",
        bench.app.shared.effects
    );
    bench.keys("q");
    assert!(bench.app.shared.effects.contains(&Effect::Quit));
}

/// Longest time from a key to the drawn screen, the worker's time apart.
#[test]
#[ignore = "measures time: run it alone, with --release"]
fn a_key_is_answered_within_16_ms_at_a_million_nodes() {
    let mut bench = Bench::new(million(), 200, 60);
    let mut slowest = Vec::new();
    for keys in [
        "1", "o", "G", "2", "E", "G", "I", "\n", "e", "E", "3", "j", "\n", "l", "^", "/on_71\n",
        "n", "n", "N", "\n", "^^", "c", "e", "6", "7", "1",
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
            slowest.push((start.elapsed(), key, bench.app.tabs.at()));
            bench.settle();
            let start = Instant::now();
            bench.screen();
            slowest.push((start.elapsed(), 'd', bench.app.tabs.at()));
        }
    }
    slowest.sort_by_key(|&(time, ..)| std::cmp::Reverse(time));
    slowest.truncate(5);
    slowest.push((bench.slowest_answer, 'a', TabId(0)));
    let limit = Duration::from_millis(16);
    assert!(
        slowest.iter().all(|&(time, ..)| time <= limit),
        "{slowest:?}"
    );
}
