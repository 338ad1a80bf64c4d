//! Files that the user has a view written to: in which form, under which
//! name, and what becomes of a file that has the name already.

use prof_report::model::Scene;
use prof_report::picture::{PictureFormat, PictureOptions};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What to write where.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) path: String,
    pub(super) form: Form,
    pub(super) taken: IfTaken,
}

/// What to do if there is a file of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfTaken {
    /// Nothing: the user is asked.
    Ask,
    /// Replace it: the user said so.
    Replace,
    /// Add a number that makes the name a new one, as perf does.
    Number,
}

/// A form of what is seen.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// The view as this text.
    Text(String),
    /// All stacks of the selection, or their flame graph.
    Picture(PictureFormat),
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Wrote {
    /// It is written, under this name.
    Done(String),
    /// There is a file of that name: is it to be replaced?
    Taken(Write),
    /// Why nothing was written.
    Failed(String),
}

/// The picture that a name asks for; `None` for the view as text.
pub(super) fn format_of(path: &str) -> Result<Option<PictureFormat>, String> {
    let path = Path::new(path);
    if path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("txt"))
    {
        return Ok(None);
    }
    PictureFormat::of_name(path, None).map_err(|wrong| {
        format!(
            "{}; there are .txt (the view), .folded (its stacks), .svg and .html (their flame graph)",
            wrong.why
        )
    })
}

/// The path with the home directory for `~`, as a shell has it.
pub(super) fn expanded(typed: &str, home: Option<&str>) -> Result<String, &'static str> {
    let Some(rest) = typed.strip_prefix('~') else {
        return Ok(typed.to_string());
    };
    if !rest.is_empty() && !rest.starts_with('/') {
        return Err("of ~ only the own home directory is known here; ./~ is a file of that name");
    }
    match home.filter(|home| !home.is_empty()) {
        Some(home) => Ok(format!("{}{rest}", home.trim_end_matches('/'))),
        None => Err("$HOME is not set, so that ~ is not known"),
    }
}

/// Writes a form of what a scene shows.
pub(super) fn perform(scene: &Scene<'_>, mut write: Write) -> Wrote {
    let form = std::mem::replace(&mut write.form, Form::Text(String::new()));
    let bytes = match render(scene, &form) {
        Ok(bytes) => bytes,
        Err(error) => return Wrote::Failed(format!("cannot write {}: {error}", write.path)),
    };
    let path = Path::new(&write.path);
    let done = match write.taken {
        IfTaken::Ask => create(path, &bytes).map(|()| write.path.clone()),
        IfTaken::Replace => replace(path, &bytes).map(|()| write.path.clone()),
        IfTaken::Number => create_numbered(&write.path, &bytes),
    };
    match done {
        Ok(path) => Wrote::Done(path),
        Err(error)
            if write.taken == IfTaken::Ask
                && error.kind() == io::ErrorKind::AlreadyExists
                && is_regular(path) =>
        {
            Wrote::Taken(Write { form, ..write })
        }
        Err(error) => Wrote::Failed(format!(
            "cannot write {}: {}",
            write.path,
            reason(path, &error)
        )),
    }
}

/// A new file: nothing is overwritten, no link followed. What could not be
/// written whole does not stay.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = file.write_all(bytes);
    if written.is_err() {
        // The error that matters is the first one.
        let _ = fs::remove_file(path);
    }
    written
}

/// The first free name of `STEM.0` and so on; its name.
fn create_numbered(stem: &str, bytes: &[u8]) -> io::Result<String> {
    /// As many as perf tries.
    const MOST: u32 = 8192;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for number in 0..MOST {
        let path = format!("{stem}.{number}");
        match create(Path::new(&path), bytes) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Writes beside a file and gives it the name when it is whole, with the
/// permissions it had: the old one is lost only to a whole new one. A link,
/// a directory or a device is not replaced.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if !about.is_file() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let beside = beside(path);
    create(&beside, bytes)?;
    let mode = fs::Permissions::from_mode(about.permissions().mode() & 0o777);
    let renamed = File::open(&beside)
        .and_then(|file| file.set_permissions(mode))
        .and_then(|()| fs::rename(&beside, path));
    if renamed.is_err() {
        // The error that matters is the first one.
        let _ = fs::remove_file(&beside);
    }
    renamed
}

/// A name for the new file until it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

/// Why a file could not be written, in words.
fn reason(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.map_or("the current directory".into(), |folder| {
        folder.display().to_string()
    });
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory => {
            match fs::symlink_metadata(path).map(|about| about.file_type()) {
                Ok(kind) if kind.is_dir() => "it is a directory".into(),
                Ok(kind) if kind.is_symlink() => "it is a link; name the file itself".into(),
                Ok(kind) if !kind.is_file() => "there is something that is no file".into(),
                _ => "there is a file of that name".into(),
            }
        }
        io::ErrorKind::NotFound => format!("there is no directory {folder}"),
        io::ErrorKind::NotADirectory => format!("{folder} is no directory"),
        io::ErrorKind::PermissionDenied => {
            format!("no permission to write in {folder} (EACCES)")
        }
        io::ErrorKind::ReadOnlyFilesystem => format!("{folder} is read-only (EROFS)"),
        io::ErrorKind::StorageFull => format!("no space is left in {folder} (ENOSPC)"),
        _ => error.to_string(),
    }
}

/// A form of the selection in force.
fn render(scene: &Scene<'_>, form: &Form) -> Result<Vec<u8>, String> {
    let options = PictureOptions {
        selection: scene.selection().clone(),
        ..PictureOptions::default()
    };
    match form {
        Form::Text(text) => Ok(text.clone().into_bytes()),
        Form::Picture(format) => format
            .draw(scene.profile(), &options)
            .map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{create, create_numbered, expanded, format_of, reason, replace};
    use prof_report::picture::{FOLDED, HTML, SVG};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_name_that_promises_another_format_is_refused_with_those_there_are() {
        assert_eq!(format_of("a.svg"), Ok(Some(SVG)));
        assert_eq!(format_of("a.HTML"), Ok(Some(HTML)));
        assert_eq!(format_of("a.folded"), Ok(Some(FOLDED)));
        for text in ["svg", "v1.2", "a.txt", "a.TXT"] {
            assert_eq!(format_of(text), Ok(None), "{text}");
        }
        for name in ["x.png", "x.PDF", "dir.svg/x.json"] {
            let message = format_of(name).expect_err(name);
            assert!(message.contains(".txt (the view), .folded"), "{message}");
        }
    }

    #[test]
    fn a_tilde_is_the_home_directory() {
        assert_eq!(expanded("~/a", Some("/home/u/")), Ok("/home/u/a".into()));
        assert_eq!(expanded("~", Some("/root")), Ok("/root".into()));
        assert_eq!(expanded("./~", Some("/root")), Ok("./~".into()));
        assert!(expanded("~other/a", Some("/root")).is_err());
        assert!(expanded("~/a", None).is_err());
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("a.txt");
        fs::write(&path, "old").expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
        assert!(create(&path, b"new").is_err());
        assert_eq!(fs::read(&path).expect("there"), b"old");
        replace(&path, b"new").expect("a file");
        assert_eq!(fs::read(&path).expect("there"), b"new");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }

    #[test]
    fn links_and_directories_are_not_replaced() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("file");
        fs::write(&file, "kept").expect("writable");
        let link = folder.path().join("link");
        symlink(&file, &link).expect("a link");
        for (path, wanted) in [
            (&link, "it is a link"),
            (&folder.path().into(), "directory"),
        ] {
            let error = replace(path, b"new").expect_err("no file");
            let words = reason(path, &error);
            assert!(words.contains(wanted), "{words}");
        }
        assert_eq!(fs::read(&file).expect("there"), b"kept");
        let missing = folder.path().join("none/a.txt");
        let error = create(&missing, b"").expect_err("no directory");
        let words = reason(&missing, &error);
        assert!(words.starts_with("there is no directory /"), "{words}");
    }

    #[test]
    fn numbers_go_on_after_those_taken() {
        let folder = tempfile::tempdir().expect("a directory");
        let stem = folder.path().join("perf.hist").display().to_string();
        fs::write(format!("{stem}.0"), "kept").expect("writable");
        let path = create_numbered(&stem, b"new").expect("a new one");
        assert_eq!(path, format!("{stem}.1"));
        assert_eq!(fs::read(format!("{stem}.0")).expect("there"), b"kept");
    }
}
