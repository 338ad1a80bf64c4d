//! Who may name the run-time code of a process.
//!
//! A perf map stands where anyone may put one. Besides root and who looks,
//! the process's own user may have written it: as `/proc` says while the
//! process lives, or as the recorder noted.

use prof_live::user_of;
use rustc_hash::FxHashMap;
use std::fs;
use std::time::{Duration, SystemTime};

/// Ticks of a second in `/proc/PID/stat`, on every machine that we unwind for.
const TICKS: u64 = 100;

/// The users whose perf maps and jitdumps are believed, beside root.
#[derive(Debug, Clone, Default)]
pub(crate) struct JitOwners {
    /// Who looks.
    pub(crate) looking: u32,
    /// By process, as a recorder that we trust noted it.
    pub(crate) noted: FxHashMap<i32, u32>,
    /// When the recording ended, if it was made where we run: a process of
    /// the same number that started later is another one.
    pub(crate) recorded_here: Option<SystemTime>,
}

impl JitOwners {
    /// The users for a process.
    pub(crate) fn of(&self, pid: i32) -> Vec<u32> {
        let mut owners = vec![self.looking];
        let noted = self.noted.get(&pid).copied();
        owners.extend(noted.or_else(|| self.user_while_alive(pid)));
        owners
    }

    fn user_while_alive(&self, pid: i32) -> Option<u32> {
        let recorded = self.recorded_here?;
        let user = user_of(pid)?;
        (started(pid)? <= recorded).then_some(user)
    }
}

/// When a process that lives was started.
fn started(pid: i32) -> Option<SystemTime> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; the 22nd field is the 20th behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').nth(19)?.parse().ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(uptime).ok()?;
    let after_boot = Duration::from_millis(ticks.saturating_mul(1000 / TICKS));
    SystemTime::now()
        .checked_sub(uptime)?
        .checked_add(after_boot)
}

#[cfg(test)]
mod tests {
    use super::JitOwners;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, SystemTime};

    #[test]
    fn the_user_of_a_process_counts_if_it_is_the_one_that_was_recorded() {
        let own = std::process::id() as i32;
        let uid = std::fs::metadata("/proc/self").expect("there").uid();
        let looking = uid + 1;
        let owners = |recorded_here| JitOwners {
            looking,
            recorded_here,
            ..JitOwners::default()
        };
        // Starts are told in ticks: this process may seem to start a little later.
        let now = SystemTime::now() + Duration::from_secs(2);
        assert_eq!(owners(Some(now)).of(own), [looking, uid]);
        // This process started after that recording was made.
        let before = now.checked_sub(Duration::from_secs(7 * 86_400));
        assert_eq!(owners(before).of(own), [looking]);
        assert_eq!(owners(None).of(own), [looking]);
        assert_eq!(owners(Some(now)).of(i32::MAX - 7), [looking]);
    }

    #[test]
    fn what_the_recorder_noted_counts_before_what_runs_now() {
        let own = std::process::id() as i32;
        let owners = JitOwners {
            looking: 5,
            noted: [(own, 7)].into_iter().collect(),
            recorded_here: Some(SystemTime::now()),
        };
        assert_eq!(owners.of(own), [5, 7]);
    }
}
