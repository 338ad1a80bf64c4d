//! Names of files with the time in them, as perf's `--timestamp-filename`
//! makes them.

use crate::output_error::OutputError;
use prof_sys::clock;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that are tried where files of these names are there already.
const MOST_TRIES: u64 = 6000;

/// `PATH.2026112219405512`: date and time here, to a hundredth of a second. A
/// hundredth later where there is such a file: none is written over.
///
/// # Errors
/// If all names of a minute are taken.
pub(crate) fn stamped(path: &Path) -> Result<PathBuf, OutputError> {
    let ns = clock::now(clock::REALTIME).unwrap_or(0);
    let named = |hundredths: u64| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", stamp(hundredths)));
        PathBuf::from(name)
    };
    let now = ns / 10_000_000;
    let mut names = (now..now + MOST_TRIES).map(named);
    let free = names.find(|name| fs::symlink_metadata(name).is_err());
    free.ok_or_else(|| OutputError::Io {
        doing: "find a new name beside",
        path: path.to_owned(),
        source: std::io::ErrorKind::AlreadyExists.into(),
    })
}

/// A time in hundredths of a second since 1970.
fn stamp(hundredths: u64) -> String {
    let seconds = i64::try_from(hundredths / 100).unwrap_or(0);
    let rest = hundredths % 100;
    let Some(at) = clock::local_time(seconds) else {
        return format!("{hundredths}");
    };
    let (hour, minute, second) = at.time;
    let (year, month, day) = (at.year, at.month + 1, at.day);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{rest:02}")
}

#[cfg(test)]
mod tests {
    use super::{stamp, stamped};

    #[test]
    fn a_name_that_is_taken_is_not_taken_again() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("perf.data");
        let mut names = Vec::new();
        for _ in 0..20 {
            let name = stamped(&path).expect("free");
            std::fs::write(&name, "").expect("written");
            assert!(!names.contains(&name), "{}", name.display());
            names.push(name);
        }
        assert!(names.is_sorted());
    }

    #[test]
    fn a_stamp_has_sixteen_digits_and_grows() {
        let stamps: Vec<String> = (0..300).map(|at| stamp(179_000_000_000 + at)).collect();
        assert!(stamps.iter().all(|stamp| stamp.len() == 16), "{stamps:?}");
        assert!(stamps.is_sorted());
    }
}
