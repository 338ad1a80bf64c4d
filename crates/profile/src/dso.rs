//! The files behind mappings.

use crate::NameId;
use prof_abi::BuildId;

/// A handle to a [`Dso`] of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DsoId(pub u32);

/// The kind of a dso.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DsoKind {
    /// A file mapped by a process.
    File,
    /// The kernel itself, shown as `[kernel.kallsyms]`.
    Kernel,
    /// A kernel module, shown as `[name]`.
    KernelModule,
    /// A BPF program or out-of-line kernel code, told by a KSYMBOL record.
    KernelSymbol,
    /// Kernel code mapped into processes: `[vdso]`.
    Vdso,
    /// Anonymous executable memory: JIT code, named by a perf map or jitdump.
    Jit,
    /// Memory without a file that may not be executed: heap, stacks, `//anon`. Samples tell
    /// of it by the addresses that they touched.
    Data,
    /// The kernel of a guest.
    GuestKernel,
    /// Not code: stands for what threads waited for, see
    /// [`crate::Profile::show_wait_states`].
    Waiting,
    /// Not code: stands for waits for a CPU.
    Runnable,
    /// Addresses in no known mapping, shown as `[unknown]`.
    Unknown,
}

/// A mapped file, or what stands for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dso {
    /// What it is.
    pub kind: DsoKind,
    /// As recorded: an absolute path or a pseudo name in brackets.
    pub path: NameId,
    /// What views show: the path's last part, or the pseudo name.
    pub short_name: NameId,
    /// How perf script shows the dso beside an address: the path, except that
    /// kernel modules without a recorded build-id have their short name, and
    /// the kernel the name that the recording lists it under.
    pub beside_address: NameId,
    /// Its identity, if recorded.
    pub build_id: Option<BuildId>,
    /// The file that gave the names, if it is not `path` itself.
    pub symbols_from: Option<NameId>,
}
