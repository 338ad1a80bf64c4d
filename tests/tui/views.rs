//! Every view, opened fresh: its cursor moves, its rows open and close, and
//! it takes clicks.

use super::terminal::{Screen, Terminal};
use super::{RECORDING, session_of};
use crate::oracle::{compiled, nowhere, prof, prof_command, scratch};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const RIGHT: &str = "\x1b[C";
const END: &str = "\x1b[F";
const HOME: &str = "\x1b[H";
const PAGE_UP: &str = "\x1b[5~";
const PAGE_DOWN: &str = "\x1b[6~";

/// A view of the recording, as `key` opens it.
fn view(test: &str, key: &str) -> Option<Terminal> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDING);
    // Some machines have files of the recording, and names for more rows.
    let nowhere = nowhere();
    let nowhere = nowhere.to_str().expect("a path of ours");
    let mut terminal = session_of(test, &path, &["--symfs", nowhere])?;
    // The last names are there: nothing moves any more by itself.
    terminal.wait_for("0 lost");
    terminal.send(key);
    Some(terminal)
}

fn leave(mut terminal: Terminal) {
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

/// The line at a row.
fn line(screen: &Screen, row: usize) -> String {
    let text = screen.text();
    text.lines().nth(row).unwrap_or_default().to_string()
}

fn row_of(terminal: &Terminal) -> usize {
    let selected = terminal.look(Screen::selected);
    selected.expect("a cursor").0
}

/// Waits until the cursor is on another row than `before`; that row.
fn other_row(terminal: &mut Terminal, before: usize) -> usize {
    terminal.wait_until("the cursor to move", |screen| {
        screen.selected().is_some_and(|(row, _)| row != before)
    });
    row_of(terminal)
}

fn wait_for_row(terminal: &mut Terminal, row: usize) {
    terminal.wait_until(&format!("the cursor in row {row}"), |screen| {
        screen.selected().is_some_and(|(at, _)| at == row)
    });
}

/// Moves through a list whose first row is `first` with keys and clicks.
fn moves(terminal: &mut Terminal, first: usize) {
    wait_for_row(terminal, first);
    terminal.send(DOWN);
    wait_for_row(terminal, first + 1);
    terminal.send(UP);
    wait_for_row(terminal, first);
    terminal.send(END);
    let last = other_row(terminal, first);
    assert!(last > first + 1, "the last row is {last}");
    terminal.send(HOME);
    wait_for_row(terminal, first);
    // The screens may differ where the cursor stands in the same row.
    for page in [PAGE_DOWN, PAGE_UP] {
        let before = terminal.look(Screen::selected);
        terminal.send(page);
        terminal.wait_until("the cursor to move", |screen| {
            screen.selected().is_some_and(|now| Some(now) != before)
        });
    }
    terminal.send(HOME);
    wait_for_row(terminal, first);
    terminal.click(60, first + 2);
    wait_for_row(terminal, first + 2);
    terminal.send(HOME);
    wait_for_row(terminal, first);
}

#[test]
fn hotspots_move_open_and_close() {
    let Some(mut terminal) = view("hotspots_move_open_and_close", "1") else {
        return;
    };
    moves(&mut terminal, 3);
    let caller = |screen: &Screen| line(screen, 4).contains("demo+0x134e");
    terminal.send("\r").wait_until("the caller", caller);
    terminal.send("\r");
    terminal.wait_until("no caller", |screen| !caller(screen));
    // A click on the selected row opens it, too.
    terminal.click(60, 3).wait_until("the caller", caller);
    terminal.click(60, 3);
    terminal.wait_until("no caller", |screen| !caller(screen));
    terminal.click(2, 2).wait_for("Total▾");
    leave(terminal);
}

#[test]
fn the_call_tree_moves_opens_and_closes() {
    let Some(mut terminal) = view("the_call_tree_moves_opens_and_closes", "2") else {
        return;
    };
    terminal.wait_for("▾ [?] demo+0x1596");
    moves(&mut terminal, 3);
    let callee = |screen: &Screen| line(screen, 4).contains("demo+0x1596");
    terminal.send("\r");
    terminal.wait_until("a closed root", |screen| !callee(screen));
    terminal.send(RIGHT).wait_until("an open root", callee);
    terminal.click(60, 3);
    terminal.wait_until("a closed root", |screen| !callee(screen));
    terminal.click(60, 3).wait_until("an open root", callee);
    // From the callees up, opened for the first time.
    terminal.send("I").wait_for("from the callees up");
    moves(&mut terminal, 3);
    leave(terminal);
}

#[test]
fn the_flame_graph_moves_and_zooms() {
    let Some(mut terminal) = view("the_flame_graph_moves_and_zooms", "3") else {
        return;
    };
    terminal.wait_for("here 63.96%");
    terminal.send(DOWN).wait_for("here 32.43%");
    terminal.send(RIGHT).wait_for("here 26.13%");
    terminal.send(UP).wait_for("here 63.96%");
    terminal.send(END).wait_for("here 21.62%");
    terminal.send(HOME).wait_for("here 63.96%");
    let column = terminal
        .look(|screen| line(screen, 3).find("demo+0x1561"))
        .expect("a frame");
    // Bytes of the line's beginning are more than its columns.
    let column = terminal.look(|screen| {
        let line = line(screen, 3);
        line.get(..column).unwrap_or_default().chars().count()
    });
    terminal.click(column, 3).wait_for("here 26.13%");
    let has_neighbour = |screen: &Screen| line(screen, 3).contains("demo+0x1596");
    terminal.click(column, 3);
    terminal.wait_until("a zoom", |screen| !has_neighbour(screen));
    terminal.send("\x1b").wait_until("no zoom", has_neighbour);
    terminal.send("\r");
    terminal.wait_until("a zoom", |screen| !has_neighbour(screen));
    leave(terminal);
}

#[test]
fn callers_move_and_lead_on() {
    let Some(mut terminal) = view("callers_move_and_lead_on", "4") else {
        return;
    };
    terminal.wait_for("called by");
    wait_for_row(&mut terminal, 4);
    terminal.send(DOWN);
    wait_for_row(&mut terminal, 5);
    // Opens the caller's callers, and closes them.
    let callers = |screen: &Screen| line(screen, 6).contains("demo+0x1345");
    terminal.send("+").wait_until("its callers", callers);
    terminal.send("+");
    terminal.wait_until("no callers", |screen| !callers(screen));
    terminal.click(60, 5).wait_until("its callers", callers);
    terminal.click(60, 5);
    terminal.wait_until("no callers", |screen| !callers(screen));
    // On to the caller, and back.
    let is_caller = |screen: &Screen| line(screen, 4).contains("demo+0x134e");
    terminal.send("\r").wait_until("the caller", is_caller);
    terminal.send("\x1b");
    terminal.wait_until("the function", |screen| !is_caller(screen));
    // Into the list below, by key and by click.
    terminal.wait_for("called by").send(END);
    wait_for_row(&mut terminal, 5);
    terminal.send(DOWN);
    wait_for_row(&mut terminal, 7);
    terminal.click(60, 4);
    wait_for_row(&mut terminal, 4);
    leave(terminal);
}

#[test]
fn threads_move_fold_and_filter() {
    let Some(mut terminal) = view("threads_move_fold_and_filter", "6") else {
        return;
    };
    terminal.wait_for("worker-a");
    moves(&mut terminal, 3);
    let has_threads = |screen: &Screen| screen.text().contains("worker-a");
    terminal.send("+");
    terminal.wait_until("no threads", |screen| !has_threads(screen));
    terminal.send("+").wait_until("threads", has_threads);
    terminal.click(80, 3);
    terminal.wait_until("no threads", |screen| !has_threads(screen));
    terminal.click(80, 3).wait_until("threads", has_threads);
    terminal.send("\r").wait_for(" pid=23834");
    terminal.send("u");
    terminal.wait_until("no filter", |screen| !screen.text().contains("pid="));
    leave(terminal);
}

#[test]
fn the_timeline_moves_zooms_and_takes_a_range() {
    let Some(mut terminal) = view("the_timeline_moves_zooms_and_takes_a_range", "7") else {
        return;
    };
    terminal.wait_for("0 ns .. ");
    terminal.send(RIGHT);
    terminal.wait_until("the cursor to move", |screen| {
        !screen.text().contains("\n0 ns .. ")
    });
    terminal.send(HOME).wait_for("\n0 ns .. ");
    terminal.send("o").wait_for("23838 demo");
    let before = terminal.look(|screen| line(screen, 2));
    terminal.send("+");
    terminal.wait_until("a magnified axis", |screen| line(screen, 2) != before);
    terminal.send("-");
    terminal.wait_until("the axis before", |screen| line(screen, 2) == before);
    terminal.send("\r").wait_for("Enter ends the range");
    terminal.send(PAGE_DOWN).send("\r").wait_for(" time=");
    terminal.send("u");
    terminal.wait_until("no range", |screen| !screen.text().contains(" time="));
    terminal.click(40, 4).wait_for("Enter ends the range");
    terminal.click(60, 4).wait_for(" time=");
    leave(terminal);
}

/// A recording of a program that is here, with its source.
fn recording_with_code() -> Option<&'static PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let program = compiled("recording_with_code", "report-calls.c", &["-g", "-O1"])?;
        let path = scratch().join("tui-code.data");
        let output = path.display().to_string();
        let program = program.display().to_string();
        let arguments = ["record", "-q", "-g", "-o", &output, "--", &program];
        prof(&arguments).succeeded("prof record");
        Some(path)
    });
    made.as_ref()
}

#[test]
fn code_moves_changes_its_rows_and_goes_on() {
    let test = "code_moves_changes_its_rows_and_goes_on";
    let Some(path) = recording_with_code() else {
        return;
    };
    let Some(mut terminal) = session_of(test, path, &[]) else {
        return;
    };
    terminal.wait_for("0 lost").send("/^sorter$\r");
    terminal.wait_for_cursor(" sorter");
    terminal.send("a").wait_for("void sorter(void)");
    // The hottest line is in the middle, or wherever its samples fell.
    terminal.send(HOME);
    wait_for_row(&mut terminal, 3);
    moves(&mut terminal, 3);
    terminal.send("s").wait_for("source, with what is inlined");
    terminal.send("s").wait_for("instructions");
    terminal.send("s").wait_for("source and instructions");
    terminal.send("/qsort\r");
    terminal.wait_for_cursor("qsort");
    // Esc ends the search, then goes back to where the code was asked for;
    // both at once would be another key.
    terminal.send("\x1b");
    terminal.wait_until("no search", |screen| !screen.text().contains("/qsort/"));
    terminal.send("\x1b").wait_for("Module");
    leave(terminal);
}

/// Options that samples are chosen by are chosen by in every view.
#[test]
fn filters_of_the_command_line_hold_in_the_terminal_ui() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/recordings/local/perf6.1-switchns.data");
    let test = "filters_of_the_command_line_hold_in_the_terminal_ui";
    let options = ["--comms", "demo,nobody", "-C", "0-1", "--time", "0%-50%"];
    let Some(mut terminal) = session_of(test, &path, &options) else {
        return;
    };
    terminal.wait_for("0 lost");
    terminal
        .wait_for("comm=demo,nobody")
        .wait_for("cpu=0,1")
        .wait_for("time=");
    // Backspace takes all of them.
    terminal.send("\x7f");
    terminal.wait_until("no filters", |screen| !screen.text().contains("comm=demo"));
    leave(terminal);
}

/// What only text has is text on a terminal, too, and refused beside --tui.
#[test]
fn options_that_shape_text_write_text_on_a_terminal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDING);
    let mut command = prof_command();
    command.env("PAGER", "cat");
    command.arg("report").arg("-f").arg("-i").arg(&path);
    command.args(["-s", "comm"]);
    let text = super::terminal::written(command, 100);
    assert!(text.contains("Self  Command"), "{text}");
    let path = path.to_str().expect("a plain name");
    let refused = prof(&["report", "--tui", "-i", path, "-s", "comm"]);
    assert_eq!(refused.code, 2);
    let told = "--sort is of text, and the terminal UI (--tui)";
    assert!(refused.stderr.contains(told), "{}", refused.stderr);
}
