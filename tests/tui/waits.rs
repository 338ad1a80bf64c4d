//! Recordings with waits in the terminal UI.

use super::session_of;
use crate::oracle::{compiled, may_record_all, prof_command, scratch};

#[test]
fn lanes_come_back_with_a_clock_that_has_them_unless_other_rows_were_chosen() {
    const NAME: &str = "tui-waits-lanes";
    if !may_record_all(NAME) {
        return;
    }
    let flags = ["-O2", "-g", "-pthread"];
    let Some(program) = compiled(NAME, "waits.c", &flags) else {
        return;
    };
    let file = scratch().join("tui-waits-lanes.data");
    let recorded = prof_command()
        .args(["record", "-q", "--off-cpu", "-F", "499", "-o"])
        .arg(&file)
        .arg(program)
        .args(["pool", "3", "60"])
        .output()
        .expect("prof starts");
    assert!(recorded.status.success());
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
