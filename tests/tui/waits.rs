//! Recordings with waits in the terminal UI.

use super::session_of;
use crate::oracle::{compiled, may_record_all, prof_command, scratch};
use std::path::PathBuf;

/// Waits of the program in `fixtures/programs/waits.c`, beside its CPU time; `None`
/// if they cannot be had here.
fn recorded(name: &str, arguments: &[&str]) -> Option<PathBuf> {
    if !may_record_all(name) {
        return None;
    }
    let flags = ["-O2", "-g", "-pthread"];
    let program = compiled(name, "waits.c", &flags)?;
    let file = scratch().join(format!("{name}.data"));
    let recorded = prof_command()
        .args(["record", "-q", "--off-cpu", "-F", "499", "-o"])
        .arg(&file)
        .arg(program)
        .args(arguments)
        .output()
        .expect("prof starts");
    assert!(recorded.status.success());
    Some(file)
}

#[test]
fn a_line_that_waits_in_what_it_calls_has_that_time() {
    const NAME: &str = "tui-waits-lines";
    let Some(file) = recorded(NAME, &["short", "20", "5000"]) else {
        return;
    };
    let Some(mut terminal) = session_of(NAME, &file, &[]) else {
        return;
    };
    terminal
        .wait_for("0 lost")
        .send("W")
        .wait_for("CPU time: when");
    terminal.send("W").wait_for("waits: when");
    terminal.send("/wait_short\r").wait_for("1 function, in");
    // Nearly all of it is in what the function calls.
    terminal.send("5").wait_for("Of all wait_short");
    terminal.wait_until("a time", |screen| {
        // Where the line wraps depends on how long the folder's name is.
        let text = screen.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let told = words
            .windows(5)
            .find(|words| words[0] == "waits" && words[2..] == ["ms", "in", "all:"]);
        told.is_some_and(|words| words[1].parse().is_ok_and(|ms: f64| ms >= 100.0))
    });
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}

#[test]
fn lanes_come_back_with_a_clock_that_has_them_unless_other_rows_were_chosen() {
    const NAME: &str = "tui-waits-lanes";
    let Some(file) = recorded(NAME, &["pool", "3", "60"]) else {
        return;
    };
    let Some(mut terminal) = session_of(NAME, &file, &[]) else {
        return;
    };
    terminal.wait_for("0 lost").send("7").wait_for("lanes (o)");
    let clocks = |rows: [&str; 3]| {
        let told = [
            ("CPU time: when", rows[0]),
            ("waits: when", rows[1]),
            ("wall-clock time:", rows[2]),
        ];
        told.map(|(clock, rows)| (clock.to_owned(), rows.to_owned()))
    };
    // CPU time alone has none.
    for (clock, rows) in clocks(["by CPU (o)", "lanes (o)", "lanes (o)"]) {
        terminal.send("W").wait_for(&clock).wait_for(&rows);
    }
    terminal.send("W").wait_for("each event by itself");
    terminal.wait_for("lanes (o)").send("o").wait_for("by CPU");
    terminal.send("o").wait_for("by process (o)");
    for (clock, rows) in clocks(["by process (o)"; 3]) {
        terminal.send("W").wait_for(&clock).wait_for(&rows);
    }
    terminal.send("o").wait_for("by thread (o)");
    terminal.send("o").wait_for("lanes (o)");
    terminal.send("q");
    assert!(terminal.wait_for_end().success());
}
