//! The running threads that a recording is asked for.

use crate::synthesize::threads_of;
use std::fs;

/// The process of a thread, `None` if there is none.
pub(crate) fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

/// Whether a thread sleeps now; false if there is none.
pub(crate) fn is_asleep(tid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, Some('S' | 'D' | 'I'))
}

/// All threads of the processes, ascending per process.
pub(crate) fn threads_of_all(pids: &[u32]) -> Vec<u32> {
    pids.iter().flat_map(|&pid| threads_of(pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_asleep, process_of, threads_of_all};

    #[test]
    fn our_own_threads_are_found() {
        let own = std::process::id();
        assert_eq!(process_of(own), Some(own));
        assert!(threads_of_all(&[own]).contains(&own));
        assert_eq!(process_of(u32::MAX), None);
        let this = std::fs::read_link("/proc/thread-self").expect("/proc is there");
        let this = this
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        assert!(!is_asleep(this.expect("a thread")) && !is_asleep(i32::MAX));
    }
}
