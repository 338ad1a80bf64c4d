//! Names for the kernel and its modules.
//!
//! From `vmlinux` if there is one of the recorded build (it also has source
//! lines), else from a copy of `/proc/kallsyms` in perf's cache, else from
//! the running kernel if that is the recorded one; below another root
//! (`--symfs`) only from a `vmlinux` there. A kernel's addresses are
//! those of the recording; where this boot loaded it elsewhere, a reference
//! symbol tells by how much.

use crate::contents::{self, Links};
use crate::elf::build_id_in_notes;
use crate::embedded::{Part, PartNotes};
use crate::file::FileOnDisk;
use crate::kallsyms::Kallsyms;
use crate::{Detail, DsoRequest, Lookup, OpenError, Sources, search};
use object::Endianness;
use prof_abi::BuildId;
use prof_profile::{Avma, DsoKind, Svma, UnnamedReason};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A text of kernel symbols is shorter than this many bytes.
const KALLSYMS_MAX: u64 = 256 << 20;

/// The properties of a recording's kernel by which its symbols are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct KernelRequest<'a> {
    /// The kernel's identity, if recorded.
    pub build_id: Option<BuildId>,
    /// Its release (`uname -r`), if recorded. Without a build-id, names come
    /// from the running kernel only if that has the same release; without
    /// either, never.
    pub release: Option<&'a str>,
    /// The symbol after `]` in the name of the kernel's mapping, and its
    /// address: the mapping's file offset.
    pub reference: Option<(&'a str, Avma)>,
}

impl KernelRequest<'_> {
    /// Whether this is the running kernel, judged by build-id or, without one,
    /// by release.
    pub fn is_running(&self) -> bool {
        check_running(self).is_ok()
    }
}

/// The symbols of one kernel. Shared between threads.
#[derive(Debug)]
pub struct KernelSymbols {
    vmlinux: Option<Vmlinux>,
    kallsyms: Option<Kallsyms>,
    path: PathBuf,
    /// What the recording carries of it.
    part: Option<Arc<Part>>,
    part_first: bool,
    notes: Option<PartNotes>,
}

#[derive(Debug)]
struct Vmlinux {
    file: FileOnDisk,
    /// What to subtract from an address of the recording.
    relocation: u64,
}

impl KernelSymbols {
    pub(crate) fn open(sources: &Sources, request: &KernelRequest<'_>) -> Result<Self, OpenError> {
        let vmlinux = find_vmlinux(sources, request);
        let kallsyms = find_kallsyms(sources, request);
        let (vmlinux, kallsyms, path) = match (vmlinux, kallsyms) {
            (Some((vmlinux, path)), kallsyms) => (
                Some(vmlinux),
                kallsyms.ok().map(|(kallsyms, _)| kallsyms),
                path,
            ),
            (None, Ok((kallsyms, path))) => (None, Some(kallsyms), path),
            (None, Err(error)) => return Err(error),
        };
        Ok(Self {
            vmlinux,
            kallsyms,
            path,
            part: None,
            part_first: false,
            notes: None,
        })
    }

    /// With what the recording carries. That was true of the boot in which it
    /// was made, so it is asked first, unless the user named other sources or
    /// only a file here has lines.
    pub(crate) fn with_part(
        opened: Result<Self, OpenError>,
        part: Option<Arc<Part>>,
        sources: &Sources,
    ) -> Result<Self, OpenError> {
        let Some(part) = part else {
            return opened;
        };
        let is_named = sources.vmlinux.is_some() || sources.kallsyms.is_some();
        match (opened, part.error("[kernel.kallsyms]")) {
            (Err(_), Some(error)) => Err(error),
            (Ok(symbols), Some(_)) => Ok(symbols),
            (Ok(symbols), None) => {
                let has_lines = symbols.has_lines();
                Ok(Self {
                    part_first: !is_named && (part.has_lines || !has_lines),
                    part: Some(part),
                    ..symbols
                })
            }
            (Err(_), None) => Ok(Self {
                vmlinux: None,
                kallsyms: None,
                path: part.from.as_deref().map(PathBuf::from).unwrap_or_default(),
                part: Some(part),
                part_first: true,
                notes: None,
            }),
        }
    }

    /// With notes of what is asked.
    pub(crate) fn noting(self, notes: Option<PartNotes>) -> Self {
        if let Some(notes) = &notes {
            let mut noted = notes.lock();
            noted.from = Some(self.path.to_string_lossy().into_owned());
            noted.has_lines = self.has_lines();
            noted.is_64_bit = true;
        }
        Self { notes, ..self }
    }

    fn has_lines(&self) -> bool {
        let vmlinux = self.vmlinux.as_ref();
        vmlinux.is_some_and(|vmlinux| vmlinux.file.has_lines())
    }

    /// What stands at an address of the recording.
    pub fn lookup(&self, avma: Avma, detail: Detail) -> Lookup {
        let by_part = || self.part.as_ref()?.lookup(avma.0, detail);
        let found = match self.part_first {
            true => by_part().unwrap_or_else(|| self.lookup_here(avma, detail)),
            false => {
                let here = self.lookup_here(avma, detail);
                match here.symbol {
                    None => by_part().unwrap_or(here),
                    Some(_) => here,
                }
            }
        };
        if let Some(notes) = &self.notes {
            notes.answers(detail, [(avma.0, &found)]);
        }
        found
    }

    /// What the files say of an address.
    fn lookup_here(&self, avma: Avma, detail: Detail) -> Lookup {
        let mut found = Lookup::unnamed(UnnamedReason::NoSymbolThere);
        if let Some(vmlinux) = &self.vmlinux {
            let svma = Svma(avma.0.wrapping_sub(vmlinux.relocation));
            found = vmlinux.file.lookup(svma, detail);
            if let Some(symbol) = &mut found.symbol {
                symbol.start = symbol.start.plus(vmlinux.relocation);
            }
        }
        match &self.kallsyms {
            Some(kallsyms) if found.symbol.is_none() => kallsyms.lookup(avma),
            _ => found,
        }
    }

    /// The file that the names come from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's code from an address of the recording on, up to `length`
    /// bytes; only with a `vmlinux`.
    pub fn text_bytes(&self, start: Avma, length: u64) -> Option<&[u8]> {
        let here = || {
            let vmlinux = self.vmlinux.as_ref()?;
            let svma = Svma(start.0.wrapping_sub(vmlinux.relocation));
            vmlinux.file.text_bytes(svma, length)
        };
        let by_part = || self.part.as_ref()?.text_bytes(start.0, length);
        let bytes = here().or_else(by_part);
        if let Some(notes) = &self.notes {
            notes.code(start.0, bytes);
        }
        bytes
    }
}

/// The kernel's code from an address of the recording on, up to `length`
/// bytes, from a `vmlinux` of its build.
pub(crate) fn code(
    sources: &Sources,
    request: &KernelRequest<'_>,
    start: Avma,
    length: u64,
) -> Option<Vec<u8>> {
    let (vmlinux, _) = find_vmlinux(sources, request)?;
    let svma = Svma(start.0.wrapping_sub(vmlinux.relocation));
    vmlinux.file.text_bytes(svma, length).map(<[u8]>::to_vec)
}

/// The build-id of the running kernel.
pub(crate) fn running_kernel_build_id() -> Option<BuildId> {
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    let endian = if cfg!(target_endian = "big") {
        Endianness::Big
    } else {
        Endianness::Little
    };
    build_id_in_notes(&notes, endian)
}

fn find_vmlinux(sources: &Sources, request: &KernelRequest<'_>) -> Option<(Vmlinux, PathBuf)> {
    vmlinux_paths(sources, request)
        .into_iter()
        .find_map(|path| open_vmlinux(sources, request, &path))
}

/// The file named by the user, else the usual places if the build-id tells
/// whether what is there is right.
fn vmlinux_paths(sources: &Sources, request: &KernelRequest<'_>) -> Vec<PathBuf> {
    if let Some(path) = &sources.vmlinux {
        return vec![path.clone()];
    }
    if request.build_id.is_none() || !sources.finds_vmlinux {
        return Vec::new();
    }
    let cached = search::cached(sources, request.build_id, "vmlinux");
    let mut paths: Vec<PathBuf> = cached.into_iter().collect();
    let release = request
        .release
        .filter(|it| !it.contains('/') && !it.is_empty());
    if let Some(release) = release {
        let root = sources.symfs.as_deref().unwrap_or(Path::new("/"));
        let usual = [
            format!("boot/vmlinux-{release}"),
            format!("usr/lib/debug/boot/vmlinux-{release}"),
            format!("lib/modules/{release}/build/vmlinux"),
            format!("usr/lib/debug/lib/modules/{release}/vmlinux"),
        ];
        paths.extend(usual.iter().map(|path| root.join(path)));
    }
    paths
}

fn open_vmlinux(
    sources: &Sources,
    request: &KernelRequest<'_>,
    path: &Path,
) -> Option<(Vmlinux, PathBuf)> {
    let text = path.to_str()?;
    let own_sources = Sources {
        symfs: None,
        // A gigabyte that would bring lines; names are in the list of symbols.
        fetch: None,
        ..sources.clone()
    };
    let file_request = DsoRequest::for_file(text, request.build_id);
    let located = search::locate(&own_sources, &file_request).ok()?;
    let file = FileOnDisk::new(located, sources.demangle);
    let relocation = match request.reference {
        Some((name, recorded)) => recorded.0.wrapping_sub(file.address_of(name)?.0),
        None => 0,
    };
    Some((Vmlinux { file, relocation }, path.to_owned()))
}

fn find_kallsyms(
    sources: &Sources,
    request: &KernelRequest<'_>,
) -> Result<(Kallsyms, PathBuf), OpenError> {
    if let Some(path) = &sources.kallsyms {
        return open_kallsyms(request, path);
    }
    if sources.symfs.is_some() {
        let why = "the kernel of this machine is not below --symfs";
        return Err(refusal(UnnamedReason::FileMissing, why.to_owned()));
    }
    let cached = search::cached(sources, request.build_id, "kallsyms");
    if let Some(found) = cached.and_then(|path| open_kallsyms(request, &path).ok()) {
        return Ok(found);
    }
    check_running(request)?;
    let path = Path::new("/proc/kallsyms");
    match &sources.own_kallsyms {
        Some(open) => kallsyms_of(request, path, again(open)),
        None => open_kallsyms(request, path),
    }
}

/// The file from its start; the rights with which it was opened are kept.
fn again(open: &File) -> io::Result<File> {
    let mut file = open.try_clone()?;
    file.rewind()?;
    Ok(file)
}

/// Whether the running kernel is the one of the recording.
fn check_running(request: &KernelRequest<'_>) -> Result<(), OpenError> {
    let other = |reason, detail: String| Err(refusal(reason, detail));
    if let Some(wanted) = request.build_id {
        return match running_kernel_build_id() {
            Some(running) if running.matches(&wanted) => Ok(()),
            Some(running) => other(
                UnnamedReason::BuildIdMismatch,
                format!("{wanted} was recorded, {running} is running, and there is no copy"),
            ),
            None => other(
                UnnamedReason::KernelHidden,
                "the running kernel does not tell its build-id".to_owned(),
            ),
        };
    }
    let running = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match request.release {
        Some(release) if release == running.trim_end() => Ok(()),
        Some(release) => other(
            UnnamedReason::FileMissing,
            format!(
                "release {release} was recorded, {} is running",
                running.trim_end()
            ),
        ),
        None => other(
            UnnamedReason::FileMissing,
            "neither build-id nor release of the recorded kernel is known".to_owned(),
        ),
    }
}

fn open_kallsyms(
    request: &KernelRequest<'_>,
    path: &Path,
) -> Result<(Kallsyms, PathBuf), OpenError> {
    kallsyms_of(request, path, contents::open_regular(path, Links::Follow))
}

fn kallsyms_of(
    request: &KernelRequest<'_>,
    path: &Path,
    opened: io::Result<File>,
) -> Result<(Kallsyms, PathBuf), OpenError> {
    let dso = kernel_dso();
    let read = opened
        .and_then(read_kallsyms)
        .map_err(|error| OpenError::of_io(&dso, &error))?;
    let mut kallsyms = read.map_err(|reason| {
        let detail = match reason {
            UnnamedReason::KernelHidden => {
                "all addresses are hidden (kernel.kptr_restrict, or not root)"
            }
            _ => "it has no symbols",
        };
        refusal(reason, format!("{}: {detail}", path.display()))
    })?;
    if let Some((name, recorded)) = request.reference
        && !kallsyms.relocate(name.as_bytes(), recorded)
    {
        return Err(refusal(
            UnnamedReason::BuildIdMismatch,
            format!("{} has no symbol {name}", path.display()),
        ));
    }
    Ok((kallsyms, path.to_owned()))
}

fn read_kallsyms(file: File) -> io::Result<Result<Kallsyms, UnnamedReason>> {
    let mut text = file.take(KALLSYMS_MAX);
    let kallsyms = Kallsyms::read(&mut text)?;
    if text.limit() == 0 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(kallsyms)
}

fn refusal(reason: UnnamedReason, detail: String) -> OpenError {
    OpenError::new(&kernel_dso(), reason, detail)
}

fn kernel_dso() -> DsoRequest<'static> {
    DsoRequest {
        kind: DsoKind::Kernel,
        ..DsoRequest::for_file("[kernel.kallsyms]", None)
    }
}

#[cfg(test)]
mod tests {
    use super::{KernelRequest, KernelSymbols};
    use crate::{Detail, Sources};
    use prof_abi::BuildId;
    use prof_profile::{Avma, UnnamedReason};

    const TEXT: &str = "ffffffff81000000 T _text\nffffffff81000100 t do_one\n\
        ffffffffc0000000 t init\t[ext4]\n";

    fn sources(directory: &std::path::Path) -> Sources {
        let path = directory.join("kallsyms");
        std::fs::write(&path, TEXT).expect("written");
        Sources {
            kallsyms: Some(path),
            ..Sources::default()
        }
    }

    #[test]
    fn a_copy_of_kallsyms_names_kernel_and_modules() {
        let dir = tempfile::tempdir().expect("a directory");
        let kernel = KernelSymbols::open(&sources(dir.path()), &KernelRequest::default());
        let kernel = kernel.expect("opened");
        let found = kernel.lookup(Avma(0xffff_ffff_8100_0101), Detail::Source);
        assert_eq!(&*found.symbol.expect("a symbol").name, "do_one");
        let kallsyms = kernel.kallsyms.expect("the copy");
        let found = kallsyms.find(Avma(0xffff_ffff_c000_0000));
        assert_eq!(found.and_then(|entry| entry.module), Some(&b"ext4"[..]));
    }

    #[test]
    fn below_another_root_the_running_kernel_gives_no_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let running = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux");
        let request = KernelRequest {
            release: Some(running.trim_end()),
            ..KernelRequest::default()
        };
        let below = Sources {
            symfs: Some(dir.path().to_owned()),
            ..Sources::default()
        };
        let refused = KernelSymbols::open(&below, &request).expect_err("no names");
        assert!(refused.to_string().contains("--symfs"), "{refused}");
        // A list that was given counts wherever it is.
        let given = Sources {
            kallsyms: sources(dir.path()).kallsyms,
            ..below
        };
        assert!(KernelSymbols::open(&given, &request).is_ok());
    }

    #[test]
    fn after_another_boot_the_kernel_has_names_but_modules_have_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let request = KernelRequest {
            reference: Some(("_text", Avma(0xffff_ffff_9100_0000))),
            ..KernelRequest::default()
        };
        let kernel = KernelSymbols::open(&sources(dir.path()), &request).expect("opened");
        let name = |address| {
            let found = kernel.lookup(Avma(address), Detail::Source);
            found
                .symbol
                .map(|symbol| (symbol.name.to_string(), symbol.start))
        };
        let start = Avma(0xffff_ffff_9100_0100).0;
        assert_eq!(
            name(start + 1),
            Some(("do_one".to_owned(), prof_profile::Svma(start)))
        );
        assert_eq!(name(0xffff_ffff_c000_0000), None);
        assert_eq!(name(0xffff_ffff_d000_0000), None);
    }

    #[test]
    fn another_kernel_than_the_running_one_is_not_named_by_it() {
        let request = KernelRequest {
            build_id: BuildId::new(&[7; 20]),
            ..KernelRequest::default()
        };
        let error = KernelSymbols::open(&Sources::default(), &request).expect_err("refused");
        assert!(
            matches!(
                error.reason,
                UnnamedReason::BuildIdMismatch | UnnamedReason::KernelHidden
            ),
            "{error}"
        );
    }
}
