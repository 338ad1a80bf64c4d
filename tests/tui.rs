//! The terminal UI in a real pseudo-terminal: keys, mouse, sizes, signals,
//! and a terminal that is given back whatever happens.

pub(crate) mod terminal;
mod two;
mod views;
mod waits;

use crate::oracle::{have, prof_command};
use crate::patience::{PATIENCE, wait_until};
use rustix::process::Signal;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use terminal::{Screen, Terminal};

/// A recording with call chains; its files need not be here.
const RECORDING: &str = "fixtures/recordings/local/perf7.2-injectb.data";

/// A session on the recording; `None` if it cannot be had here.
fn session(test: &str) -> Option<Terminal> {
    if !have(test, "setsid") {
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDING);
    let mut command = prof_command();
    command.arg("report").arg("-f").arg("-i").arg(path);
    let mut terminal = Terminal::start(&command, 110, 30);
    terminal.wait_for("1 Hotspots").wait_for("Symbol");
    Some(terminal)
}

/// A session on a recording with more options, without colours: only the cursor's row is
/// reversed then.
fn session_of(test: &str, path: &Path, options: &[&str]) -> Option<Terminal> {
    if !have(test, "setsid") {
        return None;
    }
    let mut command = prof_command();
    command.env("NO_COLOR", "1");
    command.arg("report").arg("-f").arg("-i").arg(path);
    command.args(options);
    let mut terminal = Terminal::start(&command, 110, 30);
    terminal.wait_for("1 Hotspots").wait_for("Symbol");
    Some(terminal)
}

/// The terminal is as the user had it.
fn assert_restored(terminal: &Terminal, what: &str) {
    assert!(terminal.is_cooked(), "{what}: still in raw mode");
    terminal.look(|screen: &Screen| {
        assert!(
            !screen.is_alternate,
            "{what}: still on the alternate screen"
        );
        assert!(!screen.has_mouse, "{what}: still takes the mouse");
        assert!(screen.has_cursor, "{what}: the cursor is hidden");
    });
}

#[test]
fn every_view_answers_its_key_and_q_leaves() {
    let Some(mut terminal) = session("every_view_answers_its_key_and_q_leaves") else {
        return;
    };
    assert!(!terminal.is_cooked());
    terminal.look(|screen| assert!(screen.is_alternate && screen.has_mouse && !screen.has_cursor));
    terminal.send("3").wait_for("everywhere");
    terminal.send("4").wait_for("called by");
    terminal.send("6").wait_for("Over time");
    terminal.send("7").wait_for("by CPU");
    terminal.send("2").wait_for("Module");
    terminal.send("?").wait_for("Help: / searches");
    terminal.send("\x1b");
    terminal.wait_until("no help", |screen| !screen.text().contains("Help:"));
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
    assert_restored(&terminal, "q");
}

#[test]
fn search_finds_while_typing() {
    let Some(mut terminal) = session("search_finds_while_typing") else {
        return;
    };
    terminal.send("/.").wait_for("of the samples' stacks");
    terminal.send("\x7f[").wait_for("not a regular expression");
    // Esc and a letter at once would be Alt with the letter.
    terminal.send("\x1b");
    terminal.wait_until("no prompt", |screen| !screen.text().contains("/["));
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn a_click_switches_tabs_and_the_wheel_scrolls() {
    let Some(mut terminal) = session("a_click_switches_tabs_and_the_wheel_scrolls") else {
        return;
    };
    // Press and release on `6 Threads`: SGR coordinates count from 1.
    let column = terminal
        .look(|screen| screen.text().find("6 Threads"))
        .expect("the tab");
    let column = column + 2;
    terminal.send(&format!("\x1b[<0;{column};1M\x1b[<0;{column};1m"));
    terminal.wait_for("Over time");
    terminal.send("\x1b[<65;5;10M");
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn a_range_is_dragged_over_the_timeline() {
    let Some(mut terminal) = session("a_range_is_dragged_over_the_timeline") else {
        return;
    };
    terminal.send("7").wait_for("Enter begins a range");
    // Press, move with the button down, release.
    terminal.send("\x1b[<0;25;5M\x1b[<32;60;5M");
    terminal.wait_for("Enter ends the range");
    terminal.send("\x1b[<32;90;5M\x1b[<0;90;5m");
    terminal.wait_for(" time=");
    // Every view follows.
    terminal.send("1").wait_for("Symbol").wait_for(" time=");
    terminal.send("u");
    terminal.wait_until("no range", |screen| !screen.text().contains(" time="));
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn a_new_size_is_drawn_and_a_small_one_says_so() {
    let Some(mut terminal) = session("a_new_size_is_drawn_and_a_small_one_says_so") else {
        return;
    };
    terminal.resize(60, 15).wait_for("1 hot");
    terminal.resize(30, 8).wait_for("too small");
    terminal.resize(120, 40).wait_for("1 Hotspots");
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_continued() {
    let Some(mut terminal) = session("ctrl_z_gives_the_terminal_back_until_continued") else {
        return;
    };
    terminal.send("\x1a");
    wait_until("the program to stop", || terminal.state() == 'T');
    terminal.wait_until("the main screen", |screen| !screen.is_alternate);
    assert_restored(&terminal, "Ctrl-Z");
    terminal.kill(Signal::CONT);
    terminal
        .wait_until("the alternate screen", |screen| screen.is_alternate)
        .wait_for("1 Hotspots");
    terminal.send("6").wait_for("Over time");
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn signals_end_it_with_the_terminal_restored() {
    let ending = [
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::INT,
        Signal::SEGV,
        Signal::BUS,
        Signal::ABORT,
    ];
    for signal in ending {
        let Some(mut terminal) = session("signals_end_it_with_the_terminal_restored") else {
            return;
        };
        terminal.kill(signal);
        let status = terminal.wait_for_end();
        assert_eq!(
            status.signal(),
            Some(signal.as_raw()),
            "{signal:?}: {status}"
        );
        assert_restored(&terminal, &format!("{signal:?}"));
    }
}

#[test]
fn a_closed_terminal_ends_it() {
    let Some(mut terminal) = session("a_closed_terminal_ends_it") else {
        return;
    };
    // Standard error is on it, too: a panic could not even be told.
    terminal.close();
    let status = terminal.wait_for_end();
    let is_quiet = status.success() || status.signal() == Some(Signal::HUP.as_raw());
    assert!(is_quiet, "{status}");
}

#[test]
fn ctrl_c_leaves_also_from_a_prompt_on_the_second_press() {
    let Some(mut terminal) = session("ctrl_c_leaves_also_from_a_prompt_on_the_second_press") else {
        return;
    };
    terminal.send("/abc").wait_for("/abc");
    terminal.send("\x03\x03");
    assert!(terminal.wait_for_end().success());
    assert_restored(&terminal, "Ctrl-C");
}

#[test]
fn an_idle_session_uses_no_cpu() {
    let Some(mut terminal) = session("an_idle_session_uses_no_cpu") else {
        return;
    };
    // The loader and its second look at the file come first, however long
    // they take here.
    let start = Instant::now();
    let mut idle = 0;
    while idle < 2 {
        let before = terminal.cpu_ticks();
        thread::sleep(Duration::from_millis(500));
        let used = terminal.cpu_ticks() - before;
        idle = if used == 0 { idle + 1 } else { 0 };
        assert!(start.elapsed() < PATIENCE, "{used} ticks in half a second");
    }
    assert_eq!(terminal.state(), 'S');
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn a_view_is_written_to_a_new_file_only() {
    let Some(mut terminal) = session("a_view_is_written_to_a_new_file_only") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("view.txt");
    // Ctrl-U clears the proposed name.
    terminal.send("w").wait_for("write to");
    terminal
        .send(&format!("\x15{}\r", path.display()))
        .wait_for("wrote ");
    let text = std::fs::read_to_string(&path).expect("it was written");
    assert!(text.contains("Symbol"), "{text}");
    // One that exists is replaced only if the user says so.
    std::fs::write(&path, "kept").expect("writable");
    terminal.send("w").wait_for("write to");
    terminal
        .send(&format!("\x15{}\r", path.display()))
        .wait_for("exists already");
    terminal.send("n").wait_for("is as it was");
    assert_eq!(std::fs::read(&path).expect("there"), b"kept");
    // What cannot be written is told until a key.
    let missing = folder.path().join("none/view.txt");
    terminal.send("w").wait_for("write to");
    terminal
        .send(&format!("\x15{}\r", missing.display()))
        .wait_for("cannot write")
        .wait_for("there is no directory");
    // Whoever leaves at once has the file all the same.
    let last = folder.path().join("last.txt");
    terminal.send("w").wait_for("write to");
    terminal.send(&format!("\x15{}\rq", last.display()));
    assert!(terminal.wait_for_end().success());
    assert!(last.is_file());
}

/// The ground of the cursor's row on a light background.
const LIGHT_ROW: u8 = 189;

#[test]
fn colours_suit_the_background_that_the_terminal_tells() {
    let test = "colours_suit_the_background_that_the_terminal_tells";
    let Some(mut terminal) = session(test) else {
        return;
    };
    terminal.wait_until("the question", |screen| screen.is_asked);
    assert!(terminal.look(|screen| !screen.grounds.contains(&LIGHT_ROW)));
    // What is typed before and after the answer is not part of it.
    terminal.send("j\x1b]11;rgb:ffff/ffff/ffff\x1b\\2");
    terminal.wait_until("light colours", |screen| {
        screen.grounds.contains(&LIGHT_ROW)
    });
    terminal.wait_until("the call tree", |screen| {
        !screen.text().contains("self ░all")
    });
    terminal.wait_for("0 lost");
    assert!(terminal.look(|screen| !screen.text().contains("Commands")));
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
    // Whoever is told does not ask.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDING);
    let mut command = prof_command();
    command.args(["report", "--theme", "light", "-i"]).arg(path);
    let mut terminal = Terminal::start(&command, 110, 30);
    terminal.wait_until("light colours", |screen| {
        screen.grounds.contains(&LIGHT_ROW)
    });
    assert!(terminal.look(|screen| !screen.is_asked));
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

/// A recording that comes through a named pipe, in two pieces.
struct Trickle {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
}

impl Trickle {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = Command::new("mkfifo")
            .arg(folder.path().join("pipe"))
            .status();
        assert!(made.expect("mkfifo starts").success());
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/recordings/local/perf6.1-pipe.data");
        let bytes = std::fs::read(path).expect("a fixture");
        Self { folder, bytes }
    }

    /// Reports on it with `arguments` in a terminal; `look` comes between the
    /// pieces.
    fn report(&self, arguments: &[&str], look: impl FnOnce(&mut Terminal)) -> Terminal {
        let path = self.folder.path().join("pipe");
        let mut command = prof_command();
        command.env("PAGER", "cat").arg("report").args(arguments);
        command.arg("-i").arg(&path);
        let mut terminal = Terminal::start(&command, 100, 30);
        let (first, rest) = self.bytes.split_at(self.bytes.len() / 2);
        let mut pipe = std::fs::File::create(&path).expect("prof reads it");
        pipe.write_all(first).expect("prof reads it");
        look(&mut terminal);
        pipe.write_all(rest).expect("prof reads it");
        terminal
    }
}

#[test]
fn what_is_awaited_is_told_and_then_gone() {
    let test = "what_is_awaited_is_told_and_then_gone";
    if !have(test, "setsid") || !have(test, "mkfifo") {
        return;
    }
    let trickle = Trickle::new();
    // On a terminal, a line that goes on while nothing comes.
    let mut terminal = trickle.report(&["--stdio"], |terminal| {
        terminal.wait_for("reading 0 MB, for ");
        let before = terminal.look(Screen::text);
        terminal.wait_until("time to pass", |screen| {
            let text = screen.text();
            text.contains("reading 0 MB, for ") && text != before
        });
    });
    assert!(terminal.wait_for_end().success());
    terminal.wait_until("the report alone", |screen| {
        let text = screen.text();
        text.contains("--") && !text.contains("reading")
    });
    // And in the middle of the screen that will show the views.
    let mut terminal = trickle.report(&["--tui"], |terminal| {
        terminal.wait_for("reading, 0 MB, for ");
    });
    terminal.wait_for("Symbol");
    terminal.wait_until("no progress", |screen| !screen.text().contains("reading"));
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}
