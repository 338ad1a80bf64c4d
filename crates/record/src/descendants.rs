//! What a command started and left behind: processes that still run when it has
//! ended, and with it the recording.

use prof_abi::{ByteOrder, RecordType};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;

/// So many are named.
const MOST_NAMED: usize = 3;

/// Processes that the command and its children started.
#[derive(Debug, Default)]
pub(crate) struct Descendants {
    /// Of each process `FORK` less `EXIT`: rings are drained one after another, so
    /// that the end of a short process may come before its beginning.
    balance: HashMap<u32, i32>,
}

impl Descendants {
    /// Looks at a `FORK` or `EXIT`: pid, parent's pid, tid, parent's tid, from byte 8.
    pub(crate) fn note(&mut self, record: &[u8]) {
        let word = |at| ByteOrder::NATIVE.u32(record, at);
        let (Some(kind), Some(pid), Some(parent), Some(tid)) =
            (word(0), word(8), word(12), word(16))
        else {
            return;
        };
        let step = match RecordType(kind) {
            RecordType::FORK if pid != parent => 1,
            RecordType::EXIT if pid == tid => -1,
            _ => return,
        };
        let balance = self.balance.entry(pid).or_default();
        *balance += step;
        if *balance == 0 {
            self.balance.remove(&pid);
        }
    }

    /// Those that run now, ascending.
    pub(crate) fn alive(&self) -> Vec<u32> {
        let began = self.balance.iter().filter(|(_, balance)| **balance > 0);
        let mut alive: Vec<u32> = began
            .map(|(pid, _)| *pid)
            .filter(|&pid| runs(pid))
            .collect();
        alive.sort_unstable();
        alive
    }
}

/// Whether there is such a process, and it has not ended.
fn runs(pid: u32) -> bool {
    // `PID (NAME) STATE …`, where the name may hold anything.
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind = stat.iter().rposition(|&byte| byte == b')');
    let state = behind.and_then(|at| stat.get(at + 2));
    state.is_some_and(|state| !b"ZX".contains(state))
}

/// A line for the user, if any of these processes are left.
pub(crate) fn left_behind(command: &OsStr, alive: &[u32]) -> Option<String> {
    let named = alive.iter().take(MOST_NAMED).map(|pid| {
        let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} (pid {pid})", String::from_utf8_lossy(&name).trim_end())
    });
    let named: Vec<String> = named.collect();
    let rest = alive.len() - named.len();
    let who = match (alive.len(), rest) {
        (0, _) => return None,
        (_, 0) => named.join(", "),
        _ => format!("{} and {rest} more", named.join(", ")),
    };
    let (run, is) = match alive.len() {
        1 => ("still runs", "is"),
        _ => ("still run", "are"),
    };
    let pids: Vec<String> = alive.iter().map(ToString::to_string).collect();
    Some(format!(
        "{} has ended, and with it the recording: {who}, which it started, {run} and {is} \
         recorded no longer\n  try: prof record -p {}",
        command.display(),
        pids.join(",")
    ))
}

#[cfg(test)]
mod tests {
    use super::{Descendants, left_behind};
    use crate::tally::tests::record;
    use std::ffi::OsStr;

    fn task(kind: u32, pid: u32, parent: u32, tid: u32) -> Vec<u8> {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        record(kind, &[pair(pid, parent), pair(tid, parent), 0])
    }

    #[test]
    fn what_began_and_did_not_end_is_left() {
        let this = std::process::id();
        let mut descendants = Descendants::default();
        // Its thread, whose end is not the process's.
        descendants.note(&task(7, this, 1, this));
        descendants.note(&task(7, this, this, this + 1));
        descendants.note(&task(4, this, this, this + 1));
        // One that is no process any more, and one whose end came first.
        descendants.note(&task(7, u32::MAX, 1, u32::MAX));
        descendants.note(&task(4, 1, 0, 1));
        descendants.note(&task(7, 1, 0, 1));
        assert_eq!(descendants.alive(), [this]);
        descendants.note(&task(4, this, 1, this));
        assert!(descendants.alive().is_empty());
    }

    #[test]
    fn the_line_has_what_to_type() {
        let command = OsStr::new("./daemon");
        assert_eq!(left_behind(command, &[]), None);
        let this = std::process::id();
        let line = left_behind(command, &[this]).expect("one");
        assert!(line.contains("which it started, still runs"), "{line}");
        assert!(
            line.ends_with(&format!("try: prof record -p {this}")),
            "{line}"
        );
        let line = left_behind(command, &[this; 5]).expect("five");
        assert!(
            line.contains(" and 2 more, which it started, still run "),
            "{line}"
        );
    }
}
