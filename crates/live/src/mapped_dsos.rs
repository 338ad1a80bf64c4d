//! What processes have mapped: each file, pseudo file or kernel part once.

use prof_abi::BuildId;
use prof_profile::{Avma, DsoKind, FileOffset};
use rustc_hash::FxHashMap;

/// A handle to a [`MappedDso`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MappedDsoId(pub u32);

/// The file behind a mapping, as a MMAP2 record names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Inode {
    /// Device, major.
    pub major: u32,
    /// Device, minor.
    pub minor: u32,
    /// Inode number.
    pub inode: u64,
    /// Inode generation.
    pub generation: u64,
}

/// Something that was mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappedDso {
    /// What it is.
    pub kind: DsoKind,
    /// As recorded, bytes of a path or pseudo name.
    pub path: Vec<u8>,
    /// Its identity, by record or build-id feature.
    pub build_id: Option<BuildId>,
    /// The file, if the record tells.
    pub inode: Option<Inode>,
    /// The process it belongs to, for code that only one has (JIT).
    pub pid: Option<i32>,
}

/// All dsos of a recording.
#[derive(Debug, Default)]
pub struct MappedDsos {
    list: Vec<MappedDso>,
    index: FxHashMap<MappedDso, MappedDsoId>,
    /// See [`MappedDsos::loaded_at`].
    loaded_at: FxHashMap<MappedDsoId, Avma>,
    /// See [`MappedDsos::code_offset`].
    code_offsets: FxHashMap<MappedDsoId, FileOffset>,
}

impl MappedDsos {
    /// The handle of a dso, the same for equal ones.
    pub fn intern(&mut self, dso: MappedDso) -> MappedDsoId {
        if let Some(&id) = self.index.get(&dso) {
            return id;
        }
        let id = MappedDsoId(u32::try_from(self.list.len()).expect("fewer than 2^32 dsos"));
        self.list.push(dso.clone());
        self.index.insert(dso, id);
        id
    }

    /// The dso of a handle.
    ///
    /// # Panics
    /// If the handle is not one of these.
    pub fn get(&self, id: MappedDsoId) -> &MappedDso {
        self.list.get(id.0 as usize).expect("a dso of this list")
    }

    /// Notes where a module of the kernel is; the first place counts.
    pub(crate) fn note_load(&mut self, id: MappedDsoId, start: Avma) {
        self.loaded_at.entry(id).or_insert(start);
    }

    /// Where a module of the kernel begins; `None` for all else.
    pub fn loaded_at(&self, id: MappedDsoId) -> Option<Avma> {
        self.loaded_at.get(&id).copied()
    }

    /// Notes from where in a file code was mapped; the first time counts.
    pub(crate) fn note_code(&mut self, id: MappedDsoId, offset: FileOffset) {
        self.code_offsets.entry(id).or_insert(offset);
    }

    /// From where in a file its code was mapped, as recorded when it was first.
    pub fn code_offset(&self, id: MappedDsoId) -> Option<FileOffset> {
        self.code_offsets.get(&id).copied()
    }

    /// All in order of their handles.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (MappedDsoId, &MappedDso)> {
        self.list
            .iter()
            .enumerate()
            .map(|(index, dso)| (MappedDsoId(index as u32), dso))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Memory files to which runtimes write the code that they make, since it may
/// not be written where it runs: .NET's, those of asmjit (Erlang, Elixir), and
/// QEMU's. Other memory files may be programs (`runc`).
const CODE_MEMFDS: [&[u8]; 3] = [b"/memfd:doublemapper", b"/memfd:vmem", b"/memfd:tcg-jit"];

/// Whether a recorded name stands for memory that no file is behind, which
/// tools name after the process's perf map.
pub fn is_anonymous(path: &[u8]) -> bool {
    [&b"//anon"[..], b"/dev/zero", b"/anon_hugepage"]
        .iter()
        .chain(&CODE_MEMFDS)
        .any(|name| path.starts_with(name))
}

/// The function that a mapping is of, if its runtime told it while recording,
/// and the runtime: `[java] NAME`, `[dotnet] NAME`, `[python] NAME`, `[js] NAME`,
/// `[jit] NAME`.
pub fn runtime_function(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let runtimes = [&b"[java]"[..], b"[dotnet]", b"[python]", b"[js]", b"[jit]"];
    let runtime = runtimes.into_iter().find(|name| path.starts_with(name))?;
    let name = path.strip_prefix(runtime)?.strip_prefix(b" ")?;
    Some((runtime, name))
}

/// What stands for the slash before a number of arguments in the name of such a mapping:
/// other tools show of a mapping what is behind the last one, and a function of Erlang is
/// `lists:reverse/2`. Folders keep theirs: they are to be found where nobody may see them.
const SLASH: &str = "\u{2215}";

/// The name of a mapping that tells a function. `runtime` is `[java] ` or its like.
pub(crate) fn mapping_of(runtime: &str, function: &str) -> String {
    match function.rsplit_once('/') {
        Some((name, arguments))
            if !arguments.is_empty() && arguments.bytes().all(|it| it.is_ascii_digit()) =>
        {
            format!("{runtime}{name}{SLASH}{arguments}")
        }
        _ => format!("{runtime}{function}"),
    }
}

/// The name of a function as it was before it became that of a mapping.
pub fn without_stand_ins(name: &str) -> String {
    name.replace(SLASH, "/")
}

/// What a mapping's recorded name stands for in a process.
pub(crate) fn user_kind(path: &[u8]) -> DsoKind {
    let starts = |prefix: &[u8]| path.starts_with(prefix);
    if path == b"[vdso]" || path == b"[vsyscall]" {
        DsoKind::Vdso
    } else if is_anonymous(path)
        || starts(b"[heap]")
        || starts(b"[stack")
        || starts(b"/SYSV")
        || starts(b"[anon:")
        || runtime_function(path).is_some()
        || path.is_empty()
    {
        DsoKind::Jit
    } else {
        DsoKind::File
    }
}

/// What a kernel mapping's recorded name stands for, and the name views show.
pub(crate) fn kernel_kind(path: &[u8]) -> (DsoKind, Vec<u8>) {
    if path.starts_with(b"[kernel.kallsyms]") || path.starts_with(b"[kernel.vmlinux") {
        (DsoKind::Kernel, b"[kernel.kallsyms]".to_vec())
    } else if path.starts_with(b"[guest.kernel.kallsyms") {
        (DsoKind::GuestKernel, b"[guest.kernel.kallsyms]".to_vec())
    } else {
        (DsoKind::KernelModule, path.to_vec())
    }
}

/// The name that views show for a mapping of a guest's kernel.
pub(crate) fn guest_path(path: &[u8]) -> Vec<u8> {
    match kernel_kind(path) {
        (DsoKind::Kernel, _) => b"[guest.kernel.kallsyms]".to_vec(),
        (_, path) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::{kernel_kind, user_kind};
    use super::{mapping_of, runtime_function, without_stand_ins};
    use prof_profile::DsoKind;

    #[test]
    fn names_tell_what_a_mapping_is() {
        assert_eq!(user_kind(b"/usr/bin/true"), DsoKind::File);
        assert_eq!(user_kind(b"//anon"), DsoKind::Jit);
        assert_eq!(user_kind(b"/memfd:x (deleted)"), DsoKind::File);
        let dot_net = b"/memfd:doublemapper (deleted)";
        assert_eq!(user_kind(dot_net), DsoKind::Jit);
        assert_eq!(user_kind(b"[vdso]"), DsoKind::Vdso);
        assert_eq!(kernel_kind(b"[kernel.kallsyms]_stext").0, DsoKind::Kernel);
        assert_eq!(
            kernel_kind(b"[ext4]"),
            (DsoKind::KernelModule, b"[ext4]".to_vec())
        );
    }

    #[test]
    fn what_other_tools_show_of_a_function_is_all_of_its_name() {
        let with_folder = "run:/home/ann/a.py";
        assert_eq!(
            mapping_of("[python] ", with_folder),
            "[python] run:/home/ann/a.py"
        );
        let name = "'Elixir.Enum':map/2";
        let mapping = mapping_of("[jit] ", name);
        assert!(!mapping.contains('/'), "{mapping}");
        let (runtime, told) = runtime_function(mapping.as_bytes()).expect("a function");
        assert_eq!(runtime, b"[jit]");
        let told = std::str::from_utf8(told).expect("UTF-8");
        assert_eq!(without_stand_ins(told), name);
    }
}
