//! Finding the files that know an address: the mapped file itself and the
//! separate file with its symbols and debug information.
//!
//! Whatever is found must be the same build: equal build-ids where either
//! side has one, else the CRC that `.gnu_debuglink` gives.

use crate::contents::{self, Contents, FileStamp};
use crate::dwarf::SplitPlaces;
use crate::elf::Image;
use crate::unpack;
use crate::{DsoRequest, FileOfBuild, OpenError, Sources};
use prof_abi::BuildId;
use prof_profile::{DsoKind, UnnamedReason, bytes_of_visible};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The files found for one dso.
#[derive(Debug)]
pub(crate) struct Located {
    /// The file that was mapped, or the next best with its addresses.
    pub(crate) runtime: Arc<Image>,
    /// The file with `.symtab`, or else `runtime`.
    pub(crate) symbols: Arc<Image>,
    /// The file with `.debug_info`, if any.
    pub(crate) debug: Option<Arc<Image>>,
    /// The file with what `dwz` moved out of `debug`, if any.
    pub(crate) supplementary: Option<Arc<Image>>,
    /// Where units of `debug` are that stand apart.
    pub(crate) split_places: SplitPlaces,
    /// Where `symbols` was read from.
    pub(crate) symbols_path: PathBuf,
    /// Where the mapped file was found and how it was then, if a later change
    /// can be told by that.
    pub(crate) seen: Option<(PathBuf, FileStamp)>,
}

/// A file that was read and accepted.
struct Candidate {
    image: Arc<Image>,
    path: PathBuf,
    /// Of the mapped file.
    stamp: Option<FileStamp>,
}

/// Finds the files of a dso.
pub(crate) fn locate(sources: &Sources, request: &DsoRequest<'_>) -> Result<Located, OpenError> {
    let runtime = find_runtime(sources, request);
    let build_id = request
        .build_id
        .or_else(|| runtime.as_ref().ok()?.image.build_id());
    let separate = find_apart(sources, request, (&runtime, build_id));
    let has = |name: &'static str| move |it: &&Candidate| it.image.has(name);
    let with_symbols = separate.iter().find(has(".symtab"));
    let with_debug = separate.iter().find(has(".debug_info"));
    let runtime = match (runtime, with_symbols.or(with_debug)) {
        (Ok(runtime), _) => runtime,
        (Err(_), Some(other)) => Candidate {
            image: Arc::clone(&other.image),
            path: other.path.clone(),
            stamp: None,
        },
        (Err(error), None) => return Err(error),
    };
    let mini = match with_symbols {
        None if !runtime.image.has(".symtab") => mini_debug_info(&runtime),
        _ => None,
    };
    let symbols = with_symbols.or(mini.as_ref()).unwrap_or(&runtime);
    let debug = std::iter::once(&runtime)
        .chain(with_debug)
        .find(has(".debug_info"));
    Ok(Located {
        symbols: Arc::clone(&symbols.image),
        symbols_path: symbols.path.clone(),
        supplementary: debug.and_then(|it| find_supplementary(sources, request, it)),
        split_places: SplitPlaces {
            file: debug.map(|it| it.path.clone()).unwrap_or_default(),
            root: request
                .root
                .or(sources.symfs.as_deref())
                .map(Path::to_owned),
        },
        debug: debug.map(|it| Arc::clone(&it.image)),
        seen: runtime.stamp.map(|stamp| (runtime.path.clone(), stamp)),
        runtime: runtime.image,
    })
}

/// The files that may have what the mapped one lacks.
fn find_apart(
    sources: &Sources,
    request: &DsoRequest<'_>,
    (runtime, build_id): (&Result<Candidate, OpenError>, Option<BuildId>),
) -> Vec<Candidate> {
    let runtime = runtime.as_ref().ok().map(|it| &it.image);
    let has = |name| runtime.is_some_and(|image| image.has(name));
    if has(".symtab") && has(".debug_info") {
        return Vec::new();
    }
    let link = runtime.and_then(|image| image.debug_link());
    let link = link.map(|(name, crc)| (name.to_vec(), crc));
    let mut found = find_separate(sources, request, build_id, link);
    let lacks = |name| !has(name) && !found.iter().any(|it| it.image.has(name));
    if lacks(".debug_info") || lacks(".symtab") {
        found.extend(fetched(
            sources,
            request,
            (build_id, FileOfBuild::DebugInfo),
        ));
    }
    found
}

/// The file that was mapped: where it was recorded, or in the build-id cache.
fn find_runtime(sources: &Sources, request: &DsoRequest<'_>) -> Result<Candidate, OpenError> {
    if request.kind == DsoKind::Vdso {
        return find_vdso(sources, request);
    }
    if let Some(path) = at_hand(sources, request) {
        return accept_runtime(&path, request);
    }
    let recorded = match rooted(sources, request) {
        Ok(path) => accept_runtime(&path, request),
        Err(error) => Err(error),
    };
    recorded.or_else(|error| {
        cached(sources, request.build_id, "elf")
            .and_then(|path| accept(&path, request.build_id).ok())
            .or_else(|| fetched(sources, request, (request.build_id, FileOfBuild::Program)))
            .ok_or(error)
    })
}

/// The way to a file of unknown build that is held open. Views of code ask for it by
/// its path alone.
fn at_hand(sources: &Sources, request: &DsoRequest<'_>) -> Option<PathBuf> {
    if request.build_id.is_some() || sources.at_hand.is_empty() {
        return None;
    }
    let recorded = bytes_of_visible(request.path);
    let recorded = Path::new(OsStr::from_bytes(&recorded));
    let mut files = sources.at_hand.iter();
    let is_it = |inode: Option<u64>, other: u64| inode.is_none_or(|inode| inode == other);
    let found = files.find(|it| it.path == recorded && is_it(request.inode, it.inode))?;
    Some(format!("/proc/self/fd/{}", found.file.as_raw_fd()).into())
}

/// A file from elsewhere, where it is of a known build.
fn fetched(
    sources: &Sources,
    request: &DsoRequest<'_>,
    (build_id, what): (Option<BuildId>, FileOfBuild),
) -> Option<Candidate> {
    let path = sources
        .fetch
        .as_ref()?
        .fetch(&build_id?, what, request.path)?;
    accept(&path, build_id).ok()
}

fn find_vdso(sources: &Sources, request: &DsoRequest<'_>) -> Result<Candidate, OpenError> {
    let cached = cached(sources, request.build_id, "vdso")
        .and_then(|path| accept(&path, request.build_id).ok());
    if let Some(found) = cached {
        return Ok(found);
    }
    // As perf: what this machine runs is no part of another root.
    if sources.symfs.is_some() {
        let why = "the vDSO of this machine is not below --symfs";
        return Err(OpenError::new(request, UnnamedReason::FileMissing, why));
    }
    let own = crate::vdso::own_bytes().map_err(|error| OpenError::of_io(request, &error))?;
    let path = PathBuf::from("[vdso]");
    accept_contents(Contents::from_vec(own), path, request.build_id)
        .map_err(|error| error.told_of(request))
}

/// Where the recorded path is to be looked up: below the process's root, or
/// below the symbol file system given by the user. There `..` is refused and
/// links must not lead out.
fn rooted(sources: &Sources, request: &DsoRequest<'_>) -> Result<PathBuf, OpenError> {
    let recorded = bytes_of_visible(request.path);
    let recorded = Path::new(OsStr::from_bytes(&recorded));
    let plain = recorded
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !recorded.is_absolute() || !plain {
        return Err(OpenError::new(
            request,
            UnnamedReason::FileMissing,
            "not an absolute path to a file",
        ));
    }
    let Some(root) = request.root.or(sources.symfs.as_deref()) else {
        return Ok(recorded.to_owned());
    };
    let path = below(root, recorded);
    if sources.symfs.is_none() {
        return Ok(path);
    }
    let real = |path: &Path| {
        path.canonicalize()
            .map_err(|error| OpenError::of_io(request, &error))
    };
    let (real_root, real_path) = (real(root)?, real(&path)?);
    if real_path.starts_with(&real_root) {
        Ok(real_path)
    } else {
        Err(OpenError::new(
            request,
            UnnamedReason::FileDenied,
            format!("leads out of {}", root.display()),
        ))
    }
}

/// `root/path` for an absolute `path`.
fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn accept_runtime(path: &Path, request: &DsoRequest<'_>) -> Result<Candidate, OpenError> {
    let (contents, stamp) =
        contents::load(path).map_err(|error| OpenError::of_io(request, &error))?;
    if request.build_id.is_none() && request.was_replaced(&stamp) {
        return Err(OpenError::new(
            request,
            UnnamedReason::BuildIdMismatch,
            "it was replaced after the recording",
        ));
    }
    let is_settled = stamp.is_settled();
    let found = accept_contents(contents, path.to_owned(), request.build_id);
    let mut found = found.map_err(|error| error.told_of(request))?;
    found.stamp = Some(stamp).filter(|_| is_settled);
    Ok(found)
}

impl DsoRequest<'_> {
    /// Whether a file is newer than the recording that names it. Another
    /// inode alone proves nothing: overlay file systems show several.
    fn was_replaced(&self, stamp: &FileStamp) -> bool {
        let Some(recorded_at) = self.recorded_at else {
            return false;
        };
        let is_other = self.inode.is_some_and(|inode| inode != stamp.inode);
        stamp.modified > recorded_at || (is_other && stamp.changed > recorded_at)
    }
}

/// Separate debug files, the best first, in perf's order.
fn find_separate(
    sources: &Sources,
    request: &DsoRequest<'_>,
    build_id: Option<BuildId>,
    link: Option<(Vec<u8>, u32)>,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Some((name, crc)) = link {
        let linked = link_paths(sources, request, &name)
            .into_iter()
            .find_map(|path| accept_linked(&path, build_id, crc));
        found.extend(linked);
    }
    let identified = identified_paths(sources, request, build_id);
    found.extend(
        identified
            .into_iter()
            .filter_map(|path| accept(&path, build_id).ok()),
    );
    found
}

/// Where a `.gnu_debuglink` name may be: beside the file, in `.debug` beside
/// it, and at the same place below each debug directory.
fn link_paths(sources: &Sources, request: &DsoRequest<'_>, name: &[u8]) -> Vec<PathBuf> {
    let name = Path::new(OsStr::from_bytes(name));
    let is_plain = name.components().count() == 1
        && matches!(name.components().next(), Some(Component::Normal(_)));
    let recorded = bytes_of_visible(request.path);
    let recorded = Path::new(OsStr::from_bytes(&recorded));
    let (true, Some(directory)) = (is_plain, recorded.parent()) else {
        return Vec::new();
    };
    let real = request
        .root
        .or(sources.symfs.as_deref())
        .map_or_else(|| directory.to_owned(), |root| below(root, directory));
    let mut paths = vec![real.join(name), real.join(".debug").join(name)];
    paths.extend(
        debug_directories(sources, request)
            .into_iter()
            .map(|debug| below(&debug, directory).join(name)),
    );
    paths
}

/// Where files are that must show the right build-id.
fn identified_paths(
    sources: &Sources,
    request: &DsoRequest<'_>,
    build_id: Option<BuildId>,
) -> Vec<PathBuf> {
    let Some(id) = build_id else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    paths.extend(cached(sources, Some(id), "debug"));
    paths.extend(cached(sources, Some(id), "elf"));
    let recorded = bytes_of_visible(request.path);
    let recorded = Path::new(OsStr::from_bytes(&recorded));
    for debug in debug_directories(sources, request) {
        if request.path.starts_with('/') && !request.path.contains("/../") {
            let mut named = below(&debug, recorded).into_os_string();
            paths.push(PathBuf::from(&named));
            named.push(".debug");
            paths.push(PathBuf::from(named));
        }
        paths.push(debug.join(format!(".build-id/{}.debug", split_hex(&id))));
    }
    paths
}

/// The debug directories, first below the root of the process.
fn debug_directories(sources: &Sources, request: &DsoRequest<'_>) -> Vec<PathBuf> {
    let root = request.root.or(sources.symfs.as_deref());
    let below_root = root
        .into_iter()
        .flat_map(|root| sources.debug_dirs.iter().map(|dir| below(root, dir)));
    below_root.chain(sources.debug_dirs.clone()).collect()
}

/// `ab/cdef...`, the only form in which a build-id enters a path.
fn split_hex(id: &BuildId) -> String {
    let hex = id.to_string();
    let (first, rest) = hex.split_at_checked(2).unwrap_or((&hex, ""));
    format!("{first}/{rest}")
}

/// A file of perf's build-id cache.
pub(crate) fn cached(sources: &Sources, build_id: Option<BuildId>, file: &str) -> Option<PathBuf> {
    let cache = sources.build_id_cache.as_ref()?;
    let id = split_hex(&build_id?);
    Some(cache.join(".build-id").join(id).join(file))
}

/// Reads an ELF file and checks its build-id against the one wanted.
fn accept(path: &Path, wanted: Option<BuildId>) -> Result<Candidate, Refusal> {
    let (contents, _) = contents::load(path).map_err(Refusal::Io)?;
    accept_contents(contents, path.to_owned(), wanted)
}

fn accept_contents(
    contents: Contents,
    path: PathBuf,
    wanted: Option<BuildId>,
) -> Result<Candidate, Refusal> {
    let image = Image::parse(contents).map_err(Refusal::NotElf)?;
    let found = image.build_id();
    if let Some(wanted) = wanted
        && !found.is_some_and(|found| found.matches(&wanted))
    {
        return Err(Refusal::OtherBuild(Box::new((wanted, found))));
    }
    Ok(Candidate {
        image: Arc::new(image),
        path,
        stamp: None,
    })
}

/// Reads a file that `.gnu_debuglink` names: it has the same build-id, or
/// where there is none, the CRC that the link gives.
fn accept_linked(path: &Path, build_id: Option<BuildId>, crc: u32) -> Option<Candidate> {
    let found = accept(path, build_id).ok()?;
    if build_id.is_none() {
        let mut sum = flate2::Crc::new();
        sum.update(found.image.bytes());
        if sum.sum() != crc {
            return None;
        }
    }
    Some(found)
}

/// The file that `.gnu_debugaltlink` names: at that path, or by build-id.
fn find_supplementary(
    sources: &Sources,
    request: &DsoRequest<'_>,
    debug: &Candidate,
) -> Option<Arc<Image>> {
    let (name, build_id) = debug.image.supplementary_link()?;
    let name = Path::new(OsStr::from_bytes(name));
    let beside = debug.path.parent().map(|directory| directory.join(name));
    let identified = debug_directories(sources, request)
        .into_iter()
        .map(|dir| dir.join(format!(".build-id/{}.debug", split_hex(&build_id))));
    let found = beside
        .into_iter()
        .chain(identified)
        .find_map(|path| accept(&path, Some(build_id)).ok())
        .or_else(|| fetched(sources, request, (Some(build_id), FileOfBuild::DebugInfo)))?;
    Some(found.image)
}

/// The symbol table that Fedora and others ship inside stripped files: an
/// xz-compressed ELF file in `.gnu_debugdata`.
fn mini_debug_info(runtime: &Candidate) -> Option<Candidate> {
    let section = runtime.image.section(".gnu_debugdata")?;
    let unpacked = unpack::xz(runtime.image.data(section)).ok()?;
    let image = Image::parse(Contents::from_vec(unpacked)).ok()?;
    image.has(".symtab").then(|| Candidate {
        image: Arc::new(image),
        path: runtime.path.clone(),
        stamp: None,
    })
}

/// Why a file was not taken.
enum Refusal {
    Io(io::Error),
    NotElf(String),
    /// The build-id wanted and the one found.
    OtherBuild(Box<(BuildId, Option<BuildId>)>),
}

impl Refusal {
    fn told_of(self, request: &DsoRequest<'_>) -> OpenError {
        match self {
            Self::Io(error) => OpenError::of_io(request, &error),
            Self::NotElf(why) => OpenError::new(request, UnnamedReason::FileDamaged, why),
            Self::OtherBuild(ids) => {
                let (wanted, found) = *ids;
                let found = found.map_or("none".to_owned(), |id| id.to_string());
                OpenError::new(
                    request,
                    UnnamedReason::BuildIdMismatch,
                    format!("its build-id is {found}, but {wanted} was recorded"),
                )
            }
        }
    }
}
