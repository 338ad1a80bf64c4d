//! What had a recording's name before: kept aside until the recording has
//! begun, and put back if it does not.

use crate::output_error::{OutputError, io_error};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::path::{Path, PathBuf};

/// A file that has taken its name. When this goes away without
/// [`Placed::keep`], the names are again what they were before.
#[derive(Debug)]
#[must_use]
pub(crate) struct Placed {
    path: PathBuf,
    before: Before,
    is_kept: bool,
}

/// What had the name. A recording that is worth keeping is `NAME.old` from the
/// first moment: a recorder that is killed here hides none.
#[derive(Debug)]
enum Before {
    Nothing,
    /// Nothing worth keeping, aside under this name.
    Empty(PathBuf),
    /// It is `NAME.old`; what that was before is aside, if it was there.
    Old(Option<PathBuf>),
}

impl Placed {
    /// Gives `file` the name `path`.
    ///
    /// # Errors
    /// If it cannot have it; `file` is left, and `path` as it was.
    pub(crate) fn new(file: &Path, path: &Path) -> Result<Self, OutputError> {
        let placed = |before| Self {
            path: path.to_owned(),
            before,
            is_kept: false,
        };
        let old = old_name(path);
        let in_the_way = std::io::ErrorKind::IsADirectory.into();
        if is_worth_keeping(path) && old.is_dir() {
            return Err(io_error("keep the old", path)(in_the_way));
        }
        if exchanged(file, path) {
            if !is_worth_keeping(file) {
                return Ok(placed(Before::Empty(file.to_owned())));
            }
            if exchanged(file, &old) {
                return Ok(placed(Before::Old(Some(file.to_owned()))));
            }
            return match fs::rename(file, &old) {
                Ok(()) => Ok(placed(Before::Old(None))),
                Err(error) => {
                    exchanged(file, path);
                    Err(io_error("keep the old", path)(error))
                }
            };
        }
        // There is none, or the file system cannot do that.
        let before = match keep_old(path)? {
            Some(_) => Before::Old(None),
            None => Before::Nothing,
        };
        match fs::rename(file, path) {
            Ok(()) => Ok(placed(before)),
            Err(error) => Err(io_error("name", path)(error)),
        }
    }

    /// The recording has begun: what is aside goes.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn keep(mut self) -> Result<(), OutputError> {
        self.is_kept = true;
        match &self.before {
            Before::Empty(aside) | Before::Old(Some(aside)) => {
                fs::remove_file(aside).map_err(io_error("remove", aside))
            }
            Before::Nothing | Before::Old(None) => Ok(()),
        }
    }
}

fn exchanged(one: &Path, other: &Path) -> bool {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

impl Drop for Placed {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let old = old_name(&self.path);
        // The error that led here says more than a failure to clean up would.
        let _ = match &self.before {
            Before::Nothing => fs::remove_file(&self.path),
            Before::Empty(aside) => fs::rename(aside, &self.path),
            Before::Old(None) => fs::rename(&old, &self.path),
            Before::Old(Some(aside)) => {
                fs::rename(&old, &self.path).and_then(|()| fs::rename(aside, &old))
            }
        };
    }
}

/// The name of the hidden file with this number that a process makes for `NAME`.
pub(crate) fn hidden_name(name: &std::ffi::OsStr, pid: u32, number: u32) -> std::ffi::OsString {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{pid}-{number}"));
    hidden
}

/// Renames a recording that is there to `NAME.old`, as perf does, and says how
/// it is called then; an empty file is not worth keeping.
///
/// # Errors
/// If it cannot have that name.
pub(crate) fn keep_old(path: &Path) -> Result<Option<PathBuf>, OutputError> {
    if !is_worth_keeping(path) {
        return Ok(None);
    }
    let old = old_name(path);
    match fs::rename(path, &old) {
        Ok(()) => Ok(Some(old)),
        Err(error) => Err(io_error("keep the old", path)(error)),
    }
}

fn is_worth_keeping(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.len() > 0)
}

fn old_name(path: &Path) -> PathBuf {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    old.into()
}

#[cfg(test)]
mod tests {
    use super::Placed;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// A folder with these files, whose texts are their names, and `new`.
    fn folder(files: &[&str]) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        for name in files.iter().chain(&["new"]) {
            fs::write(folder.path().join(name), name).expect("written");
        }
        let [new, path] = ["new", "perf.data"].map(|name| folder.path().join(name));
        (folder, new, path)
    }

    /// Names and texts of what is in it.
    fn found(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut found: Vec<_> = entries
            .map(|entry| {
                let entry = entry.expect("an entry");
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read_to_string(entry.path()).expect("a text"))
            })
            .collect();
        found.sort();
        found
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |&(name, text): &(&str, &str)| (name.to_owned(), text.to_owned());
        expected.iter().map(owned).collect()
    }

    #[test]
    fn what_does_not_begin_leaves_all_as_it_was() {
        for files in [
            &[][..],
            &["perf.data"],
            &["perf.data", "perf.data.old"],
            &["perf.data.old"],
        ] {
            let (folder, new, path) = folder(files);
            let placed = Placed::new(&new, &path).expect("placed");
            assert_eq!(fs::read_to_string(&path).expect("there"), "new");
            drop(placed);
            let same: Vec<_> = files.iter().map(|name| (*name, *name)).collect();
            assert_eq!(found(folder.path()), pairs(&same));
        }
    }

    #[test]
    fn what_begins_keeps_the_one_before_as_old() {
        let (folder, new, path) = folder(&["perf.data", "perf.data.old"]);
        let placed = Placed::new(&new, &path).expect("placed");
        placed.keep().expect("kept");
        let expected = [("perf.data", "new"), ("perf.data.old", "perf.data")];
        assert_eq!(found(folder.path()), pairs(&expected));
    }

    #[test]
    fn a_recorder_that_is_killed_before_it_began_hides_no_recording() {
        let (folder, new, path) = folder(&["perf.data"]);
        std::mem::forget(Placed::new(&new, &path).expect("placed"));
        let expected = [("perf.data", "new"), ("perf.data.old", "perf.data")];
        assert_eq!(found(folder.path()), pairs(&expected));
    }

    #[test]
    fn an_empty_file_is_not_kept() {
        let (folder, new, path) = folder(&["perf.data.old"]);
        fs::write(&path, "").expect("written");
        Placed::new(&new, &path)
            .expect("placed")
            .keep()
            .expect("kept");
        let expected = [("perf.data", "new"), ("perf.data.old", "perf.data.old")];
        assert_eq!(found(folder.path()), pairs(&expected));
    }
}
