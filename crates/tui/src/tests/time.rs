//! Threads, and a part of the time.

use super::{Bench, Sketch, bench};
use crossterm::event::{KeyCode, KeyEvent};

#[test]
fn threads_count_what_is_in_the_selected_time() {
    let mut bench = bench();
    // The first slice: one sample of 40.
    let screen = bench.keys("7\n\n").screen();
    assert!(screen.contains("  1 sample  time="), "{screen}");
    assert!(
        screen.contains("1 sample, 40.00% of those at any time"),
        "{screen}"
    );
    // Elsewhere it is a share of all, too.
    let screen = bench.press(KeyCode::End).screen();
    assert!(
        screen.contains("1 sample, 5.00% of those at any time"),
        "{screen}"
    );
    let screen = bench.keys("6").screen();
    assert_eq!(screen.matches("100.00%         1").count(), 1, "{screen}");
    assert!(screen.contains("Over all time"), "{screen}");
    assert!(!screen.contains("tool"), "{screen}");
    let screen = bench.keys("u").screen();
    assert!(screen.contains("tool"), "{screen}");
}

#[test]
fn an_answer_goes_to_the_tab_that_asked() {
    let mut bench = bench();
    for number in ['7', '6', '7'] {
        bench.app.key(&KeyEvent::from(KeyCode::Char(number)));
    }
    bench.settle();
    // Both have what they asked for: neither asks again.
    for (number, shown) in [('6', "Over time"), ('7', "by CPU")] {
        bench.app.key(&KeyEvent::from(KeyCode::Char(number)));
        assert!(bench.app.shared.asks.is_empty(), "{number}");
        let screen = bench.screen();
        assert!(screen.contains(shown), "{screen}");
    }
}

#[test]
fn names_of_threads_are_seen_on_a_narrow_screen() {
    let mut bench = bench();
    bench.keys("6");
    // Down to the least, with all tabs in reach.
    for width in [40, 60, 80, 100, 200] {
        let screen = bench.resize(width, 20).screen();
        for name in [" Name", "▾ server", "    worker"] {
            assert!(screen.contains(name), "{width}: {screen}");
        }
    }
}

#[test]
fn a_process_has_the_name_of_its_first_thread() {
    let mut sketch = Sketch::new();
    let first = sketch.task(7, 7, "service");
    let busy = sketch.task(7, 8, "busy");
    sketch.sample(first, "app:main", 1, 1);
    sketch.sample(busy, "app:main;app:work", 2, 99);
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let screen = bench.keys("6").screen();
    assert!(screen.contains("7  ▾ service"), "{screen}");
    assert!(screen.contains("process 7 service: 2 threads"), "{screen}");
    // Also where it has no sample itself, and t is all of the process.
    let screen = bench.keys("fsymbol=work\n").screen();
    assert!(screen.contains("7  ▾ service"), "{screen}");
    assert!(screen.contains("8      busy"), "{screen}");
    let screen = bench.keys("t").screen();
    assert!(screen.contains(" pid=7 service"), "{screen}");
}

#[test]
fn a_process_whose_first_thread_was_never_sampled_has_its_name_all_the_same() {
    let mut sketch = Sketch::new();
    let busy = sketch.task(7, 8, "opt 2besq");
    sketch.sample(busy, "app:main;app:work", 2, 99);
    for (tid, comm) in [(7, "rustc"), (8, "opt 2besq")] {
        let comm = sketch.profile.names.intern(comm);
        let parent = (tid != 7).then_some(7);
        sketch.profile.threads.push(prof_profile::Thread {
            tid,
            pid: 7,
            parent,
            comm,
        });
    }
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let screen = bench.keys("6").screen();
    assert!(screen.contains("7  ▾ rustc"), "{screen}");
    assert!(screen.contains("8      opt 2besq"), "{screen}");
    assert!(screen.contains("process 7 rustc: 1 thread"), "{screen}");
    let screen = bench.keys("\n").screen();
    assert!(screen.contains(" pid=7 rustc"), "{screen}");
    let screen = bench.keys("u7o").screen();
    assert!(screen.contains("7 rustc"), "{screen}");
}

#[test]
fn a_name_that_came_back_is_the_last_one() {
    let mut sketch = Sketch::new();
    let python = sketch.task(7, 7, "python3");
    let shim = sketch.task(7, 7, "pyenv-exec");
    for (task, time) in [(python, 1), (shim, 2), (python, 3)] {
        sketch.sample(task, "app:main", time, 1);
    }
    let comm = sketch.profile.task(python).comm;
    sketch.profile.threads.push(prof_profile::Thread {
        tid: 7,
        pid: 7,
        parent: None,
        comm,
    });
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let screen = bench.keys("6").screen();
    assert!(screen.contains("7    python3"), "{screen}");
    let screen = bench.keys("t").screen();
    assert!(screen.contains(" pid=7 python3"), "{screen}");
    assert!(!screen.contains("pyenv"), "{screen}");
}

#[test]
fn threads_of_one_name_are_told_apart_and_keep_theirs() {
    let mut sketch = Sketch::new();
    let first = sketch.task(7, 7, "service");
    sketch.sample(first, "app:main", 1, 1);
    for tid in [8, 9] {
        let task = sketch.task(7, tid, "pool");
        sketch.sample(task, "app:main;app:work", u64::from(tid.unsigned_abs()), 50);
    }
    let mut bench = Bench::new(sketch.profile, 100, 20);
    let screen = bench.keys("6").screen();
    for row in ["8      pool", "9      pool"] {
        assert!(screen.contains(row), "{screen}");
    }
    // Only the second: it stays a thread with its own name.
    let screen = bench.keys("jjt").screen();
    assert!(screen.contains(" tid=9 pool"), "{screen}");
    assert!(screen.contains("9      pool"), "{screen}");
    assert!(screen.contains("7  ▾ service"), "{screen}");
    assert!(!screen.contains("8      pool"), "{screen}");
    // Its timeline, and that of the process, whose last sample is not the
    // first thread's.
    let screen = bench.keys("u7oo").screen();
    assert!(
        screen.contains("\n8 pool") && screen.contains("\n9 pool"),
        "{screen}"
    );
    let screen = bench.keys("oo").screen();
    assert!(screen.contains("\n7 service"), "{screen}");
}

#[test]
fn the_timeline_s_rows_change() {
    let mut bench = bench();
    let screen = bench.keys("7").screen();
    assert!(screen.contains("by CPU (o)"), "{screen}");
    let screen = bench.keys("o").screen();
    assert!(screen.contains("by process (o)"), "{screen}");
    assert!(screen.contains("200 tool"), "{screen}");
    let screen = bench.keys("o").screen();
    assert!(screen.contains("101 worker"), "{screen}");
}

#[test]
fn the_timeline_is_as_wide_as_the_screen_after_a_resize() {
    let mut bench = bench();
    bench.keys("7").screen();
    for width in [160, 60, 200] {
        bench.keys("\n").press(KeyCode::End);
        let screen = bench.resize(width, 20).screen();
        let all = screen.lines().find(|line| line.starts_with("all"));
        let columns = all.map(|line| line.chars().count());
        assert_eq!(columns, Some(usize::from(width)), "{screen}");
        // The range goes on from where it was begun to the end.
        let screen = bench.keys("\n").screen();
        assert!(
            screen.contains("  6 samples") || screen.contains(" time="),
            "{screen}"
        );
        bench.keys("u").press(KeyCode::Home);
    }
}
