//! Files of processes that see other files than we do: in containers and
//! chroots, and files that were deleted or replaced while they ran. Their paths
//! lead nowhere, or elsewhere, once they have ended, so what names are taken from
//! is kept open while recording and then copied into perf's build-id cache, where
//! every reader of recordings looks for it.

use crate::reading::open_regular;
use crate::synthesize::read_build_id;
use prof_abi::{BuildId, ByteOrder, CpuMode, Misc, RecordType};
use prof_sys::Identity;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Most files that are told apart.
const MAX_CHECKED: usize = 1 << 16;

/// Files of containers and chroots, and deleted ones: how many were copied into the build-id
/// cache while recording, and how many were not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptFiles {
    /// Copies in the cache.
    pub files: usize,
    /// Those that could not be copied, and why the first of them.
    pub failed: Option<(usize, String)>,
    /// Perf maps of theirs that were copied to `/tmp`.
    pub maps: usize,
    /// Files without a build-id, which nothing could find in the cache, that could
    /// not even be kept open, and the first of them.
    pub unidentified: Option<(usize, String)>,
    /// Files without a build-id that are open still: names may be taken from them.
    pub open: Vec<OpenForeign>,
    /// Files beyond the limits of `MAX_FILES` and
    /// `MAX_BYTES`.
    pub beyond_limits: usize,
}

/// A file that its recorded path does not lead to.
#[derive(Debug, Clone)]
pub struct OpenForeign {
    /// The path, as the process that mapped it sees it.
    pub path: PathBuf,
    /// Its number in its file system, which the recording tells as well.
    pub inode: u64,
    /// Itself.
    pub file: Arc<File>,
}

impl PartialEq for OpenForeign {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.inode) == (&other.path, other.inode)
    }
}

impl Eq for OpenForeign {}

impl KeptFiles {
    /// Closes the files that are open still, from which no names were taken.
    pub fn close(&mut self) {
        if let Some(first) = self.open.first() {
            let path = first.path.display().to_string();
            self.unidentified.get_or_insert((0, path)).0 += self.open.len();
            self.open.clear();
        }
    }

    /// Most files that are kept open.
    pub(crate) const MAX_FILES: usize = 64;
    /// Most bytes of all files that are kept, 1 GiB.
    pub(crate) const MAX_BYTES: u64 = 1 << 30;
}

/// Finds and keeps them.
#[derive(Debug)]
pub(crate) struct ForeignFiles {
    /// perf's build-id cache; `None` if nothing is to be kept.
    cache: Option<PathBuf>,
    checked: HashSet<(Vec<u8>, Option<BuildId>)>,
    kept: Vec<Kept>,
    bytes: u64,
    /// See [`KeptFiles::unidentified`].
    unidentified: Option<(usize, String)>,
    /// See [`KeptFiles::open`].
    open: Vec<OpenForeign>,
    /// See [`KeptFiles::beyond_limits`].
    beyond_limits: usize,
}

#[derive(Debug)]
struct Kept {
    path: Vec<u8>,
    build_id: BuildId,
    file: File,
}

/// What an `MMAP2` record of the kernel or of ours tells of a file with code.
struct Mapped<'a> {
    pid: u32,
    start: u64,
    end: u64,
    file: MappedFile,
    path: &'a [u8],
}

/// How a record tells which file it maps.
#[derive(Debug, Clone, Copy)]
enum MappedFile {
    BuildId(BuildId),
    /// The number of the device and that of the file in it.
    Inode(u64, u64),
}

impl<'a> Mapped<'a> {
    /// Offsets as in `prof_perfdata::body::Mmap2`.
    fn decode(record: &'a [u8]) -> Option<Self> {
        const EXECUTABLE: u32 = 4;
        let order = ByteOrder::NATIVE;
        let misc = Misc(order.u16(record, 4)?);
        let is_it = order.u32(record, 0)? == RecordType::MMAP2.0
            && misc.cpu_mode() == CpuMode::User
            && order.u32(record, 64)? & EXECUTABLE != 0;
        let path = record.get(72..)?.split(|&byte| byte == 0).next()?;
        if !is_it || !path.starts_with(b"/") || path.starts_with(b"//") {
            return None;
        }
        let file = if misc.has(Misc::MMAP_BUILD_ID) {
            let len = usize::from(*record.get(40)?).min(BuildId::RECORDED_MAX);
            MappedFile::BuildId(BuildId::new(record.get(44..44 + len)?)?)
        } else {
            let device = libc::makedev(order.u32(record, 40)?, order.u32(record, 44)?);
            MappedFile::Inode(device, order.u64(record, 48)?)
        };
        let start = order.u64(record, 16)?;
        Some(Self {
            pid: order.u32(record, 8)?,
            start,
            end: start.checked_add(order.u64(record, 24)?)?,
            file,
            path,
        })
    }

    fn path(&self) -> &'a Path {
        Path::new(OsStr::from_bytes(self.path))
    }

    /// Whether a file is the one that was mapped.
    fn is(&self, file: &File) -> bool {
        match self.file {
            MappedFile::BuildId(id) => read_build_id(file).is_some_and(|found| found.matches(&id)),
            MappedFile::Inode(device, inode) => file
                .metadata()
                .is_ok_and(|about| (about.dev(), about.ino()) == (device, inode)),
        }
    }

    fn build_id(&self) -> Option<BuildId> {
        match self.file {
            MappedFile::BuildId(id) => Some(id),
            MappedFile::Inode(..) => None,
        }
    }

    /// Whether its path leads to it for us, too.
    fn is_ours(&self) -> bool {
        open_regular(self.path()).is_some_and(|file| self.is(&file))
    }

    /// Its path, which leads through the root of the process.
    fn inside(&self) -> Option<PathBuf> {
        let inside = self.path().strip_prefix("/").ok()?;
        Some(PathBuf::from(format!("/proc/{}/root", self.pid)).join(inside))
    }

    /// Opens it as the process sees it, or has it though it is deleted: its mappings
    /// are not for everybody to open, its program is.
    fn open(&self) -> Option<File> {
        let (pid, start, end) = (self.pid, self.start, self.end);
        let mapping = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        [self.inside()?, mapping, program]
            .iter()
            .filter_map(|path| open_regular(path))
            .find(|file| self.is(file))
    }
}

impl ForeignFiles {
    /// Keeps files if `keeps`, for the cache of `owner`, or of the user whose home
    /// this is.
    pub(crate) fn new(keeps: bool, owner: Option<&Identity>) -> Self {
        let home = match owner {
            Some(owner) => Some(owner.home.clone()),
            None => std::env::var_os("HOME"),
        };
        let home = home.map(PathBuf::from);
        let home = home.filter(|home| keeps && home.is_absolute());
        Self {
            cache: home.map(|home| home.join(".debug")),
            checked: HashSet::new(),
            kept: Vec::new(),
            bytes: 0,
            unidentified: None,
            open: Vec::new(),
            beyond_limits: 0,
        }
    }

    /// Looks at a record: if it maps a file of another root, keeps that open.
    pub(crate) fn note(&mut self, record: &[u8]) {
        if self.cache.is_none() || self.checked.len() >= MAX_CHECKED {
            return;
        }
        let Some(mapped) = Mapped::decode(record) else {
            return;
        };
        let key = (mapped.path.to_vec(), mapped.build_id());
        if self.checked.contains(&key) {
            return;
        }
        if !mapped.is_ours() {
            if has_other_root(mapped.pid).is_none() {
                // Gone: another process may map it again.
                return;
            }
            self.keep(&mapped);
        }
        self.checked.insert(key);
    }

    fn keep(&mut self, mapped: &Mapped<'_>) {
        let inside = mapped.inside().and_then(|path| open_regular(&path));
        if mapped.build_id().is_none() && inside.is_none() {
            // Memory, which would stay taken while it is open, or deleted already.
            return;
        }
        let Some(file) = mapped.open() else {
            if mapped.build_id().is_none() {
                let path = mapped.path().display().to_string();
                self.unidentified.get_or_insert((0, path)).0 += 1;
            }
            return;
        };
        let len = file.metadata().map_or(u64::MAX, |about| about.len());
        if !self.has_room(len) {
            self.beyond_limits += 1;
            return;
        }
        self.bytes = self.bytes.saturating_add(len);
        match mapped.file {
            MappedFile::BuildId(build_id) => self.kept.push(Kept {
                path: mapped.path.to_vec(),
                build_id,
                file,
            }),
            MappedFile::Inode(_, inode) => self.open.push(OpenForeign {
                path: mapped.path().to_owned(),
                inode,
                file: Arc::new(file),
            }),
        }
    }

    /// Whether one more file of so many bytes is kept.
    fn has_room(&self, len: u64) -> bool {
        let bytes = self.bytes.saturating_add(len);
        self.kept.len() + self.open.len() < KeptFiles::MAX_FILES && bytes <= KeptFiles::MAX_BYTES
    }

    /// Copies what was kept into the cache.
    pub(crate) fn store(&mut self) -> KeptFiles {
        let mut outcome = KeptFiles {
            unidentified: self.unidentified.take(),
            open: std::mem::take(&mut self.open),
            beyond_limits: std::mem::take(&mut self.beyond_limits),
            ..KeptFiles::default()
        };
        let Some(cache) = &self.cache else {
            return outcome;
        };
        for kept in self.kept.drain(..) {
            match kept.store(cache) {
                Ok(()) => outcome.files += 1,
                Err(error) => {
                    let why = format!("{}: {error}", cache.display());
                    outcome.failed.get_or_insert((0, why)).0 += 1;
                }
            }
        }
        outcome
    }
}

impl Kept {
    /// `CACHE/PATH/ID/elf`, and `CACHE/.build-id/ab/cdef…` as a link to that
    /// directory: as perf has it.
    fn store(&self, cache: &Path) -> io::Result<()> {
        let id = self.build_id.to_string();
        let (first, rest) = id.split_at_checked(2).unwrap_or((&id, ""));
        let links = cache.join(".build-id").join(first);
        let link = links.join(rest);
        if link.join("elf").exists() {
            return Ok(());
        }
        let path = Path::new(OsStr::from_bytes(&self.path));
        let named = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)));
        let inside: PathBuf = named.chain([Component::Normal(id.as_ref())]).collect();
        let directory = cache.join(&inside);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o755);
        builder.create(&directory)?;
        builder.create(&links)?;
        self.copy(&directory)?;
        match symlink(Path::new("../..").join(inside), &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Whole or not at all, whatever other recorders do.
    fn copy(&self, directory: &Path) -> io::Result<()> {
        let temporary = directory.join(format!(".elf.{}", std::process::id()));
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&temporary)?;
        let copied = io::copy(&mut &self.file, &mut out)
            .and_then(|_| fs::rename(&temporary, directory.join("elf")));
        if copied.is_err() {
            // What matters is why it could not be written.
            let _ = fs::remove_file(&temporary);
        }
        copied
    }
}

/// Whether a process has other files than we have: another root directory or
/// mount namespace; `None` if it is gone, or not ours to look at.
pub(crate) fn has_other_root(pid: u32) -> Option<bool> {
    let root = |of: &str| fs::metadata(format!("/proc/{of}/root/.")).ok();
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    let pid = pid.to_string();
    let (theirs, ours) = (root(&pid)?, root("self")?);
    let is_other_root = (theirs.dev(), theirs.ino()) != (ours.dev(), ours.ino());
    Some(is_other_root || namespace(&pid)? != namespace("self")?)
}

#[cfg(test)]
mod tests {
    use super::{ForeignFiles, Kept, KeptFiles, Mapped, MappedFile, has_other_root};
    use prof_abi::BuildId;
    use std::fs::{self, File};

    #[test]
    fn what_is_kept_is_found_where_perf_looks() {
        let dir = tempfile::tempdir().expect("a directory");
        let source = dir.path().join("source");
        fs::write(&source, b"\x7fELF and more").expect("written");
        let cache = dir.path().join("cache");
        let kept = || Kept {
            path: b"/opt/../opt/app".to_vec(),
            build_id: BuildId::new(&[0xab; 20]).expect("an id"),
            file: File::open(&source).expect("opened"),
        };
        let mut files = ForeignFiles {
            cache: Some(cache.clone()),
            // Another recorder may be faster.
            kept: vec![kept(), kept()],
            ..ForeignFiles::new(false, None)
        };
        let stored = files.store();
        assert_eq!((stored.files, stored.failed), (2, None));
        let hex = "ab".repeat(20);
        let (first, rest) = hex.split_at(2);
        let link = cache.join(".build-id").join(first).join(rest);
        let read = fs::read(link.join("elf")).expect("readable");
        assert_eq!(read, b"\x7fELF and more");
        let target = fs::read_link(&link).expect("a link");
        assert!(target.starts_with("../../opt/opt/app"), "{target:?}");
        assert!(files.store().files == 0);
    }

    #[test]
    fn what_cannot_be_stored_is_told() {
        let mut files = ForeignFiles {
            cache: Some("/dev/null/cache".into()),
            kept: vec![Kept {
                path: b"/app".to_vec(),
                build_id: BuildId::new(&[1; 20]).expect("an id"),
                file: File::open("/dev/null").expect("opened"),
            }],
            ..ForeignFiles::new(false, None)
        };
        let (count, why) = files.store().failed.expect("a failure");
        assert_eq!(count, 1);
        assert!(why.starts_with("/dev/null/cache: "), "{why}");
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_rest_is_counted() {
        let path = std::env::current_exe().expect("a path");
        let len = fs::metadata(&path).expect("readable").len();
        let kept = || Kept {
            path: b"/app".to_vec(),
            build_id: BuildId::new(&[1; 20]).expect("an id"),
            file: File::open(&path).expect("opened"),
        };
        let mut files = ForeignFiles::new(false, None);
        assert!(files.has_room(KeptFiles::MAX_BYTES));
        assert!(!files.has_room(KeptFiles::MAX_BYTES + 1));
        files.kept = (1..KeptFiles::MAX_FILES).map(|_| kept()).collect();
        assert!(files.has_room(len));
        files.kept.push(kept());
        assert!(!files.has_room(len));
        // Of one without a build-id, the count and the first path.
        let mapped = |path| Mapped {
            pid: std::process::id(),
            start: 0,
            end: 0,
            file: MappedFile::Inode(0, 0),
            path,
        };
        let exe = path.as_os_str().as_encoded_bytes();
        files.keep(&mapped(exe));
        files.keep(&mapped(b"/memfd:code (deleted)"));
        files.keep(&mapped(exe));
        let told = files.store();
        assert_eq!(told.unidentified, Some((2, path.display().to_string())));
    }

    #[test]
    fn we_have_our_own_root() {
        assert_eq!(has_other_root(std::process::id()), Some(false));
        assert_eq!(has_other_root(u32::MAX), None);
    }
}
