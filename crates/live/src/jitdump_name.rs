//! The names of jitdumps, by which they are known when they are mapped.

use std::str;

/// The process that writes the jitdump at a path, by its name: `jit-PID.dump`, or
/// JavaScriptCore's `jit-TID-PID.dump` and, in the folder of temporary files,
/// `jit-TID-PID-` with six letters or digits. `None` of another file.
pub fn jitdump_pid(path: &[u8]) -> Option<i32> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let name = str::from_utf8(name.strip_prefix(b"jit-")?).ok()?;
    let whole = name.strip_suffix(".dump");
    let parts: Vec<&str> = whole.unwrap_or(name).split('-').collect();
    match (&parts[..], whole) {
        ([pid], Some(_)) => number(pid),
        ([tid, pid], Some(_)) => number(tid).and(number(pid)),
        ([tid, pid, unique], None) if is_unique(unique) => number(tid).and(number(pid)),
        _ => None,
    }
}

fn number(digits: &str) -> Option<i32> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

/// Whether this is what mkstemp(3) puts in the place of its template.
fn is_unique(part: &str) -> bool {
    part.len() == 6 && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::jitdump_pid;

    #[test]
    fn jitdumps_are_known_by_their_names() {
        let named: [(&[u8], i32); 4] = [
            (b"/home/u/.debug/jit/x/jit-12.dump", 12),
            (b"jit-7.dump", 7),
            (b"/tmp/x/jit-2221-2211.dump", 2211),
            (b"/tmp/jit-1985-1980-N9q6N1", 1980),
        ];
        for (path, pid) in named {
            assert_eq!(jitdump_pid(path), Some(pid), "{path:?}");
        }
        for other in [
            &b"/tmp/jit-.dump"[..],
            b"/tmp/jit-1.dump.so",
            b"/tmp/jit-7.dump.old",
            b"/tmp/jit-x.dump",
            b"/tmp/jit-+1.dump",
            b"/tmp/jit-x-1.dump",
            b"/tmp/jit-1-2-3.dump",
            b"/tmp/jit-1-2",
            b"/tmp/jit-1-2-abc",
            b"/tmp/jit-1-N9q6N1",
            b"/tmp/jit-99999999999.dump",
            b"/tmp/1.dump",
        ] {
            assert_eq!(jitdump_pid(other), None, "{other:?}");
        }
    }
}
