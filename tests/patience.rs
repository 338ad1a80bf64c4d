//! Waiting for what is to happen instead of for the time in which it should:
//! on a loaded machine everything is late.

use std::process::Child;
use std::time::{Duration, Instant};

/// How long a test waits before it fails; never waited for in full by one
/// that passes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `is_so`.
///
/// # Panics
/// After [`PATIENCE`], with `what` was waited for.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited for {what} in vain");
        std::thread::sleep(PAUSE);
    }
}

/// Fields of /proc/PID/stat from the state on; none of a process that is gone.
fn stat(pid: u32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}

/// The state letter of a process: `S` sleeping, `T` stopped, `?` gone.
pub(crate) fn state(pid: u32) -> char {
    let stat = stat(pid);
    let state = stat.first().and_then(|state| state.chars().next());
    state.unwrap_or('?')
}

/// Ticks (10 ms) of CPU that a process has used.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let stat = stat(pid);
    let ticks = |at: usize| stat.get(at).and_then(|text| text.parse::<u64>().ok());
    ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// Whether it has ended; it is then to be waited for as before.
pub(crate) fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("a child of ours").is_some()
}

/// Waits until a process has used as many more ticks of CPU, of which its
/// samples are taken.
pub(crate) fn wait_for_work(what: &str, pid: u32, ticks: u64) {
    let wanted = cpu_ticks(pid) + ticks;
    wait_until(what, || cpu_ticks(pid) >= wanted);
}

/// Waits until the command of a recorder has used so many ticks of CPU, or
/// the recorder has ended.
pub(crate) fn wait_for_command(recorder: &mut Child, ticks: u64) {
    wait_until("the command to work", || {
        let used = |pid: &u32| cpu_ticks(*pid);
        let command: u64 = children(recorder.id()).iter().map(used).sum();
        command >= ticks || has_ended(recorder)
    });
}
