//! Tracepoints by name, from tracefs.

use super::error::EventError;
use crate::hints::Around;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const ROOTS: [&str; 2] = [
    "/sys/kernel/tracing/events",
    "/sys/kernel/debug/tracing/events",
];

const MOUNT: &str = "try: sudo mount -t tracefs tracefs /sys/kernel/tracing";

/// The ids of the tracepoints that `system:name` means, either of which may
/// hold `*` and `?`, with their full names, ascending.
pub(super) fn lookup(system: &str, name: &str) -> Result<Vec<(String, u64)>, EventError> {
    let mut first_error = None;
    for root in ROOTS {
        match lookup_in(root, system, name) {
            Ok(found) if !found.is_empty() => return Ok(found),
            Ok(_) => {}
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    let full = format!("{system}:{name}");
    let path = format!("{}/{system}/{name}/id", ROOTS[0]);
    let (why, hint) = match first_error {
        Some(error)
            if error.kind() == io::ErrorKind::PermissionDenied
                && Around::this_process().user_namespace =>
        {
            (
                "permission denied (EACCES)".to_owned(),
                "tracefs is not readable in a user namespace (rootless container)\n  try: as root outside of it",
            )
        }
        Some(error) if error.kind() == io::ErrorKind::PermissionDenied => (
            "permission denied (EACCES)".to_owned(),
            "tracefs is not readable for this user\n  try: with sudo\n   or: sudo mount -o remount,mode=750,gid=$(id -g) /sys/kernel/tracing && sudo sysctl kernel.perf_event_paranoid=-1   (until reboot)",
        ),
        Some(error) if error.kind() != io::ErrorKind::NotFound => (error.to_string(), MOUNT),
        _ if !ROOTS.iter().any(|root| Path::new(root).is_dir()) => {
            let hint = match Path::new("/sys/kernel/tracing").is_dir() {
                true => MOUNT,
                false => {
                    "this kernel has no tracepoints, or a container hides them\n  try: prof doctor"
                }
            };
            ("tracefs is not mounted".to_owned(), hint)
        }
        _ => (
            "there is no such tracepoint".to_owned(),
            "try: prof list tracepoint",
        ),
    };
    Err(EventError::Tracepoint {
        name: full,
        path,
        why,
        hint,
    })
}

/// Whether the tracepoint `system:name` never occurs with the registers of user
/// space, by which the kernel leaves itself out: all but those of single system
/// calls, which have the caller's, and probes of programs. A probe of the kernel
/// is not told from these, so nothing is said of it.
///
/// Source: `perf_tp_event_match` and `perf_syscall_enter` in the kernel.
pub(super) fn is_of_kernel(full: &str) -> bool {
    let Some((system, name)) = full.split_once(':') else {
        return false;
    };
    let format = ROOTS.iter().find_map(|root| {
        let directory = Path::new(root).join(system).join(name);
        fs::read_to_string(directory.join("format")).ok()
    });
    system != "syscalls" && format.is_some_and(|format| !format.contains(" __probe_"))
}

/// The fields of the tracepoint with this id, but for those common to all.
pub(super) fn fields(id: u64) -> Vec<String> {
    let found = ROOTS.iter().find_map(|root| {
        let all = lookup_in(root, "*", "*").ok()?;
        let (name, _) = all.into_iter().find(|(_, other)| *other == id)?;
        let path = Path::new(root)
            .join(name.replacen(':', "/", 1))
            .join("format");
        fs::read_to_string(path).ok()
    });
    // `	field:pid_t prev_pid;	offset:24;…`, with `[16]` behind an array.
    let format = found.unwrap_or_default();
    let lines = format
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("field:"));
    let names = lines.filter_map(|line| {
        let declared = line.split_once(';')?.0.split('[').next()?;
        let name = declared.rsplit([' ', '*']).next()?;
        (!name.starts_with("common_")).then(|| name.to_owned())
    });
    names.collect()
}

fn lookup_in(root: &str, system: &str, name: &str) -> io::Result<Vec<(String, u64)>> {
    let root = PathBuf::from(root);
    let mut found = Vec::new();
    for system in matching(&root, system)? {
        let directory = root.join(&system);
        let names = match matching(&directory, name) {
            // Files such as `enable` stand beside the systems.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            names => names?,
        };
        for name in names {
            // Directories hold files such as `enable` and `filter` too.
            let text = match fs::read_to_string(directory.join(&name).join("id")) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(_) => continue,
            };
            if let Ok(id) = text.trim().parse() {
                found.push((format!("{system}:{name}"), id));
            }
        }
    }
    // In the kernel's order, as perf.
    found.sort_by_key(|(_, id)| *id);
    Ok(found)
}

/// The entries that the pattern matches; without a wildcard it is not listed.
fn matching(directory: &std::path::Path, pattern: &str) -> io::Result<Vec<String>> {
    if !pattern.contains(['*', '?']) {
        // A name, not a path.
        let plain = !pattern.contains('/') && pattern != "..";
        return Ok(if plain {
            vec![pattern.to_owned()]
        } else {
            Vec::new()
        });
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        if let Ok(name) = entry?.file_name().into_string()
            && glob(pattern.as_bytes(), name.as_bytes())
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether `name` matches a pattern of `*` and `?`; linear in both but for one
/// step back per star.
pub(super) fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&letter) if letter == b'?' || letter == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => match star {
                Some((star_at, from)) => {
                    at = star_at + 1;
                    in_name = from + 1;
                    star = Some((star_at, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|&letter| letter == b'*'))
}

#[cfg(test)]
mod tests {
    use super::{glob, lookup};
    use crate::events::EventError;

    #[test]
    fn patterns_match_as_a_shell_does() {
        for (pattern, name, expected) in [
            ("sched_*", "sched_switch", true),
            ("*switch", "sched_switch", true),
            ("s?hed_switch", "sched_switch", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("", "", true),
            ("x", "", false),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn ev_20_a_tracepoint_has_an_id_or_a_reason() {
        // covers live: EV-20, SFS-11
        match lookup("sched", "sched_switch") {
            Ok(found) => {
                assert_eq!(found[0].0, "sched:sched_switch");
                let all = lookup("sched", "sched_s*").expect("several");
                assert!(all.len() > 1, "{all:?}");
                let error = lookup("sched", "no_such").expect_err("missing");
                assert!(error.to_string().contains("prof list"), "{error}");
            }
            Err(EventError::Tracepoint { why, .. }) => println!("skipped: {why}"),
            Err(other) => panic!("{other}"),
        }
        assert!(lookup("..", "..").is_err());
    }
}
