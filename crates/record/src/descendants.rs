//! What a command started and left behind: processes that still run when it has
//! ended, and with it the recording.

use crate::synthesize::processes;
use prof_abi::{ByteOrder, RecordType};
use std::collections::{BTreeSet, HashMap};
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

    /// Those that run now, ascending; and those of a session or group of processes that
    /// one of them led which was last seen to run: a daemon is started by a process that
    /// ends at once, maybe behind the end of the recording.
    pub(crate) fn alive(&self) -> Vec<u32> {
        let began = self.balance.iter().filter(|(_, balance)| **balance > 0);
        let began: Vec<u32> = began.map(|(pid, _)| *pid).collect();
        let gone: Vec<u32> = began.iter().copied().filter(|&pid| !runs(pid)).collect();
        let is_led = |pid: &u32| {
            let led = Stat::of(*pid).filter(Stat::runs);
            led.is_some_and(|stat| stat.leaders.iter().any(|leader| gone.contains(leader)))
        };
        let others = match gone.is_empty() {
            true => Vec::new(),
            false => processes(),
        };
        let others = others.into_iter().filter(is_led);
        let alive: BTreeSet<u32> = began
            .into_iter()
            .filter(|&pid| runs(pid))
            .chain(others)
            .collect();
        alive.into_iter().collect()
    }
}

/// What `/proc/PID/stat` tells: `PID (NAME) STATE PPID GROUP SESSION …`, where the
/// name may hold anything.
struct Stat {
    state: u8,
    /// Leaders of its group and its session.
    leaders: [u32; 2],
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let behind = stat.iter().rposition(|&byte| byte == b')')?;
        let fields = str::from_utf8(stat.get(behind + 1..)?).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let mut numbers = fields.skip(1).map(str::parse);
        Some(Self {
            state,
            leaders: [numbers.next()?.ok()?, numbers.next()?.ok()?],
        })
    }

    /// Whether it has not ended.
    fn runs(&self) -> bool {
        !b"ZX".contains(&self.state)
    }
}

/// Whether there is such a process, and it has not ended.
fn runs(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.runs())
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
    fn a_daemon_is_known_by_its_group_when_who_started_it_is_gone() {
        use std::os::unix::process::CommandExt;
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", "sleep 60 >/dev/null & echo $!"])
            .process_group(0);
        let shell = shell
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("sh starts");
        let leader = shell.id();
        let told = shell.wait_with_output().expect("it ends").stdout;
        let daemon: u32 = String::from_utf8_lossy(&told)
            .trim()
            .parse()
            .expect("a number");
        let mut descendants = Descendants::default();
        descendants.note(&task(7, leader, 1, leader));
        assert_eq!(descendants.alive(), [daemon]);
        let kill = std::process::Command::new("sh")
            .args(["-c", &format!("kill -9 {daemon}")])
            .status();
        assert!(kill.expect("sh starts").success());
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
