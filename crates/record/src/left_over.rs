//! Hidden files beside a recording that recorders left which were killed.
//!
//! A file is hidden before it takes its name, and so is what the name had before
//! until the recording has begun (`placing.rs`), and a dump until it is whole. None
//! of them may be ours to remove: an older recording may be among them.

use crate::placing::hidden_name;
use crate::summary::size;
use std::fs::{self, DirEntry, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Lines for the user about what recorders of the file `path` left. What has
/// nothing but a header is removed.
pub(crate) fn tell(path: &Path, notices: &mut dyn FnMut(&str)) {
    for (left, bytes) in of(path) {
        if is_bare(&left, bytes) {
            // It stays where somebody else made it, and is told next time.
            let _ = fs::remove_file(&left);
            continue;
        }
        let left = left.display();
        notices(&format!(
            "{left} ({}) is what a recorder left that was killed: an older recording, or part \
             of one\n  try: prof report -i {left}\n   or: rm {left}",
            size(bytes)
        ));
    }
}

/// Hidden files of `path` whose recorders are gone, by name, and their sizes.
fn of(path: &Path) -> Vec<(PathBuf, u64)> {
    let Some(name) = path.file_name() else {
        return Vec::new();
    };
    let mut folder = path.parent().unwrap_or(Path::new(""));
    if folder.as_os_str().is_empty() {
        folder = Path::new(".");
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry: DirEntry| {
        let hidden = entry.file_name();
        let rest = hidden.as_bytes().strip_prefix(b".")?;
        let rest = rest.strip_prefix(name.as_bytes())?.strip_prefix(b".")?;
        let (pid, number) = std::str::from_utf8(rest).ok()?.split_once('-')?;
        let (pid, number) = (pid.parse().ok()?, number.parse().ok()?);
        let is_ours = hidden_name(name, pid, number) == hidden;
        let is_gone = !Path::new(&format!("/proc/{pid}")).exists();
        let file = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        // One that is written to may be of another machine, or another PID namespace.
        let age = file.modified().ok()?.elapsed().unwrap_or_default();
        let is_old = age >= Duration::from_secs(60);
        (is_ours && is_gone && is_old).then(|| (path.with_file_name(&hidden), file.len()))
    });
    let mut left: Vec<_> = left.collect();
    left.sort();
    left
}

/// Whether the file has no record: it ends where its header says that they begin.
fn is_bare(path: &Path, bytes: u64) -> bool {
    const MAGIC: &[u8] = b"PERFILE2";
    let mut header = [0_u8; 48];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let begin = u64::from_ne_bytes(header[40..].try_into().expect("eight bytes"));
    bytes == 0 || read.is_ok() && header.starts_with(MAGIC) && bytes <= begin
}

#[cfg(test)]
mod tests {
    use super::tell;
    use crate::placing::hidden_name;
    use prof_abi::EventAttr;
    use prof_perfdata::write::{EventDescription, FileWriter, finished_round};
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    /// No process has it.
    const GONE: u32 = u32::MAX;

    fn make(folder: &Path, pid: u32, number: u32, records: &[u8], age: u64) -> String {
        let name = hidden_name(OsStr::new("a.data"), pid, number);
        let path = folder.join(name);
        let event = EventDescription {
            attr: EventAttr::default(),
            ids: vec![1],
            name: "cs".to_owned(),
        };
        let mut writer = FileWriter::new(File::create(&path).expect("made"), &[event]);
        writer
            .as_mut()
            .expect("begun")
            .write(records)
            .expect("written");
        writer.expect("begun").flush().expect("written");
        let when = SystemTime::now() - Duration::from_secs(age);
        let file = File::options().write(true).open(&path).expect("there");
        file.set_modified(when).expect("set");
        path.display().to_string()
    }

    #[test]
    fn what_a_killed_recorder_left_is_told_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut record = Vec::new();
        finished_round(&mut record);
        let left = make(folder.path(), GONE, 0, &record, 3600);
        let bare = make(folder.path(), GONE, 1, &[], 3600);
        let young = make(folder.path(), GONE, 2, &[], 0);
        let alive = make(folder.path(), std::process::id(), 0, &record, 3600);
        let other = folder.path().join(format!(".b.data.{GONE}-0"));
        fs::write(&other, "x").expect("written");
        let mut told = Vec::new();
        tell(&folder.path().join("a.data"), &mut |line| {
            told.push(line.to_owned())
        });
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&left), "{told:?}");
        assert!(told[0].contains(&format!("or: rm {left}")), "{told:?}");
        for (path, stays) in [(left, true), (bare, false), (young, true), (alive, true)] {
            assert_eq!(Path::new(&path).exists(), stays, "{path}");
        }
    }
}
