//! Requests that wait in a folder until the receiver has taken them.
//!
//! A file each, named by the time it was put there, so that the oldest goes
//! first; it has its name when it is whole. Its text: `prof-push 1`, the
//! query, the type of the body, each on a line, and the body.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is sent, and waits until it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// What stands behind the path, with its question mark; or nothing.
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

const MARK: &str = "prof-push 1";
const END: &str = ".push";
/// The file that [`lock_in`] locks.
pub(super) const LOCK: &str = "lock";

/// The folder, and how much may wait there.
#[derive(Debug)]
pub(crate) struct Waiting {
    folder: PathBuf,
    /// Bytes.
    most: u64,
    put: u64,
}

impl Waiting {
    /// Makes the folder, which only its owner reads, if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn open(folder: PathBuf, most: u64) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Ok(Self {
            folder,
            most,
            put: 0,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts a request behind the others. Where there is no room the oldest
    /// ones go; how many.
    ///
    /// # Errors
    /// If it cannot be written, or is larger than all that may wait.
    pub(crate) fn put(&mut self, request: &Request) -> io::Result<usize> {
        let head = format!("{MARK}\n{}\n{}\n", request.query, request.content_type);
        let size = (head.len() + request.body.len()) as u64;
        if size > self.most {
            let what = format!("it has {size} bytes, more than may wait ({})", self.most);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let gone = self.make_room(size)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos());
        self.put += 1;
        let name = format!("{now:020}-{}-{}", std::process::id(), self.put);
        let part = self.folder.join(format!("{name}.part"));
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)?;
        let written = file
            .write_all(head.as_bytes())
            .and_then(|()| file.write_all(&request.body))
            .and_then(|()| fs::rename(&part, self.folder.join(format!("{name}{END}"))));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written.map(|()| gone)
    }

    /// Removes the oldest until `size` bytes have room; how many.
    fn make_room(&self, size: u64) -> io::Result<usize> {
        let all = self.all()?;
        let mut there: u64 = all.iter().map(|(_, size)| size).sum();
        let mut gone = 0;
        for (path, bytes) in all {
            if there.saturating_add(size) <= self.most {
                break;
            }
            fs::remove_file(path)?;
            there = there.saturating_sub(bytes);
            gone += 1;
        }
        Ok(gone)
    }

    /// Removes the one that waits longest; whether there was one.
    pub(crate) fn drop_oldest(&self) -> io::Result<bool> {
        let all = self.all()?;
        let oldest = all.first();
        oldest.map_or(Ok(false), |(path, _)| fs::remove_file(path).map(|()| true))
    }

    /// What waits, the oldest first, with its bytes.
    fn all(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let path = entry.path();
            if path.to_string_lossy().ends_with(END) {
                // Another process may have sent it meanwhile.
                let size = entry.metadata().map_or(0, |about| about.len());
                all.push((path, size));
            }
        }
        all.sort();
        Ok(all)
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.all().map_or(0, |all| all.len())
    }

    /// The one that waits longest; what is damaged goes.
    pub(crate) fn oldest(&self) -> io::Result<Option<(PathBuf, Request)>> {
        for (path, _) in self.all()? {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            match parse(&bytes) {
                Some(request) => return Ok(Some((path, request))),
                None => fs::remove_file(&path)?,
            }
        }
        Ok(None)
    }

    /// The right to send, which one process has at a time; `None` if another
    /// one has it. It ends when the file is dropped.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        lock_in(&self.folder)
    }
}

/// The right to what is in a folder, as [`Waiting::lock`].
pub(super) fn lock_in(folder: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(folder.join(LOCK))?;
    Ok(file.try_lock().is_ok().then_some(file))
}

fn parse(bytes: &[u8]) -> Option<Request> {
    let mut rest = bytes;
    let mut line = || {
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(rest.get(..end)?).ok()?;
        rest = rest.get(end + 1..)?;
        Some(line)
    };
    let (mark, query, content_type) = (line()?, line()?, line()?);
    (mark == MARK).then(|| Request {
        query: query.to_owned(),
        content_type: content_type.to_owned(),
        body: rest.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Request, Waiting};

    fn request(body: &str) -> Request {
        Request {
            query: "?a=b".into(),
            content_type: "text/plain".into(),
            body: body.into(),
        }
    }

    #[test]
    fn the_oldest_goes_first_and_goes_where_there_is_no_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Waiting::open(folder.path().join("spool"), 120).expect("made");
        let mut waiting = open();
        let put: Vec<usize> = ["one\n\n", "two", "three", "four"]
            .map(|body| waiting.put(&request(body)).expect("put"))
            .to_vec();
        // A head of 28 bytes and the body.
        assert_eq!(put, [0, 0, 0, 1]);
        assert!(waiting.put(&request(&"x".repeat(120))).is_err());
        // Another process finds them.
        let waiting = open();
        assert_eq!(waiting.count(), 3);
        let (path, oldest) = waiting.oldest().expect("read").expect("one");
        assert_eq!(oldest, request("two"));
        std::fs::write(&path, "damaged").expect("written");
        let (_, oldest) = waiting.oldest().expect("read").expect("one");
        assert_eq!((oldest, waiting.count()), (request("three"), 2));
        let lock = waiting.lock().expect("a file");
        assert!(lock.is_some() && waiting.lock().expect("a file").is_none());
        drop(lock);
        assert!(waiting.lock().expect("a file").is_some());
    }
}
