//! Programs and their debug information from debuginfod servers.
//!
//! A server answers `/buildid/ID/debuginfo` and `/buildid/ID/executable`
//! (debuginfod(8)). What came is kept where every client of elfutils keeps it
//! (debuginfod_find_debuginfo(3)): `CACHE/ID/debuginfo`, and an empty file
//! without any permission where no server had it, which counts for
//! `cache_miss_s` seconds. Nothing in the cache is removed here: elfutils does
//! that.
//!
//! What a server sends is believed only if it is an ELF file of the build that
//! was asked for, and taken only within bounds of size and time.
//!
//! ```
//! use prof_debuginfod::{Kind, Settings};
//!
//! let settings = Settings::new(Some("http://localhost:8002 https://debuginfod.example"))?;
//! assert_eq!(settings.servers.len(), 2);
//! assert_eq!(Kind::DebugInfo.as_str(), "debuginfo");
//! # Ok::<(), prof_debuginfod::SettingsError>(())
//! ```

mod cache;
mod settings;
mod transfer;

pub use settings::{Settings, SettingsError};

use cache::{Cache, Kept};
use object::Object;
use prof_abi::BuildId;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;
use transfer::{Transfer, Transferred};

/// The kind of file to fetch of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Symbols and debug information.
    DebugInfo,
    /// What was executed.
    Executable,
}

impl Kind {
    /// The kind as it is written in URLs and in the cache.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

/// Receives the progress of transfers.
pub trait Watch: Send + Sync {
    /// So many bytes of `what` have come, of so many if the server says it.
    fn fetching(&self, what: &str, done: u64, all: Option<u64>);

    /// Nothing is fetched any more.
    fn idle(&self);

    /// Something went wrong, or is left out; told once for each cause.
    fn trouble(&self, what: &str);
}

/// Fetches files from debuginfod servers and caches them. Shared between
/// threads.
pub struct Client {
    settings: Settings,
    cache: Cache,
    transfer: Transfer,
    began: Mutex<Option<Instant>>,
    watch: Box<dyn Watch>,
    told: Mutex<Vec<String>>,
    is_late: AtomicBool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the servers that the settings name.
    ///
    /// # Errors
    /// If an encrypted server is among them and this system believes no
    /// authority.
    pub fn new(settings: Settings, watch: Box<dyn Watch>) -> Result<Self, SettingsError> {
        Ok(Self {
            cache: Cache::new(settings.cache.clone()),
            transfer: Transfer::new(&settings)?,
            settings,
            began: Mutex::new(None),
            watch,
            told: Mutex::default(),
            is_late: AtomicBool::new(false),
        })
    }

    /// A file of a build, from the cache or a server; `None` if no server has
    /// it or the time is up. `name` is for messages.
    pub fn find(&self, id: &BuildId, kind: Kind, name: &str) -> Option<PathBuf> {
        match self.cache.look(id, kind) {
            Some(Kept::File(path)) => return Some(path),
            Some(Kept::Nowhere) => return None,
            None => {}
        }
        let left = self.left();
        if left.is_zero() {
            if !self.is_late.swap(true, Ordering::Relaxed) {
                self.trouble(format!(
                    "not everything was fetched in {} s; it goes on in the next call (DEBUGINFOD_MAXTIME=SECONDS)",
                    self.settings.total.as_secs()
                ));
            }
            return None;
        }
        let found = self.fetch(id, kind, name);
        self.watch.idle();
        found
    }

    /// The time that is left for all files; it begins with the first.
    fn left(&self) -> Duration {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = began.get_or_insert_with(Instant::now).elapsed();
        self.settings.total.saturating_sub(passed)
    }

    fn fetch(&self, id: &BuildId, kind: Kind, name: &str) -> Option<PathBuf> {
        let mut is_nowhere = true;
        for server in &self.settings.servers {
            let url = format!("{server}/buildid/{id}/{}", kind.as_str());
            let part = match self.cache.part(id) {
                Ok(part) => part,
                Err(error) => {
                    let folder = self.settings.cache.display();
                    self.trouble(format!(
                        "cannot write to {folder}: {error} (DEBUGINFOD_CACHE_PATH=DIR)"
                    ));
                    return None;
                }
            };
            match self.fetch_from(&url, (part, id, kind), name) {
                Ok(Some(path)) => return Some(path),
                Ok(None) => {}
                Err(error) => {
                    is_nowhere = false;
                    self.trouble(format!("{server}: {error}"));
                }
            }
        }
        // Where one was away, it may have it next time.
        if is_nowhere {
            self.cache.note_nowhere(id, kind);
        }
        None
    }

    /// `None` if the server does not have it.
    fn fetch_from(
        &self,
        url: &str,
        (mut part, id, kind): (NamedTempFile, &BuildId, Kind),
        name: &str,
    ) -> io::Result<Option<PathBuf>> {
        let watch = |done, all| self.watch.fetching(name, done, all);
        match self
            .transfer
            .get((url, self.left()), part.as_file_mut(), &watch)?
        {
            Transferred::All => {}
            Transferred::Nowhere => return Ok(None),
        }
        check(part.as_file(), id)?;
        self.cache.keep(part, id, kind).map(Some)
    }

    /// Tells of something, once.
    fn trouble(&self, what: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains(&what) {
            self.watch.trouble(&what);
            told.push(what);
        }
    }
}

/// Whether a file is of a build.
fn check(file: &File, id: &BuildId) -> io::Result<()> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let contents = object::ReadCache::new(file);
    let parsed = object::File::parse(&contents);
    let parsed = parsed.map_err(|error| wrong(format!("it sent no ELF file ({error})")))?;
    let found = parsed.build_id().ok().flatten();
    match found.and_then(BuildId::new) {
        Some(found) if found.matches(id) => Ok(()),
        _ => Err(wrong(format!("it sent another build than {id}"))),
    }
}
