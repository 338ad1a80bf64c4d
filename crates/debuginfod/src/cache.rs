//! The cache of elfutils' clients.

use crate::Kind;
use prof_abi::BuildId;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// How long it counts that no server had a file, where the cache does not say.
const MISS: Duration = Duration::from_secs(600);
/// The file that says it, in seconds.
const MISS_FILE: &str = "cache_miss_s";

/// Files by build-id.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// What the cache knows of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    File(PathBuf),
    /// A recent request found it on no server.
    Nowhere,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self, id: &BuildId, kind: Kind) -> PathBuf {
        self.folder.join(id.to_string()).join(kind.as_str())
    }

    pub(crate) fn look(&self, id: &BuildId, kind: Kind) -> Option<Kept> {
        let path = self.path(id, kind);
        let about = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        if about.len() > 0 {
            return Some(Kept::File(path));
        }
        let noted = about.mtime().max(about.ctime());
        let noted = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(noted).ok()?);
        let age = noted.elapsed().unwrap_or_default();
        (age < self.miss()).then_some(Kept::Nowhere)
    }

    fn miss(&self) -> Duration {
        let text = fs::read_to_string(self.folder.join(MISS_FILE)).ok();
        let seconds = text.and_then(|text| text.trim().parse().ok());
        seconds.map_or(MISS, Duration::from_secs)
    }

    /// A file to be filled, which goes away if it is not kept.
    pub(crate) fn part(&self, id: &BuildId) -> io::Result<NamedTempFile> {
        let folder = self.folder.join(id.to_string());
        fs::create_dir_all(&folder)?;
        tempfile::Builder::new().prefix("prof.").tempfile_in(folder)
    }

    pub(crate) fn keep(
        &self,
        part: NamedTempFile,
        id: &BuildId,
        kind: Kind,
    ) -> io::Result<PathBuf> {
        let path = self.path(id, kind);
        // As elfutils leaves it: what is there is not written again.
        let mut permissions = part.as_file().metadata()?.permissions();
        permissions.set_readonly(true);
        part.as_file().set_permissions(permissions)?;
        part.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }

    /// No server has a file. Where that cannot be noted it is asked for again.
    pub(crate) fn note_nowhere(&self, id: &BuildId, kind: Kind) {
        let path = self.path(id, kind);
        let _ = fs::remove_file(&path);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o0)
            .open(path);
        drop(made);
    }
}
