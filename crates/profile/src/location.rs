//! Places in code: addresses, and the functions at them.

use crate::{BranchFrameId, DsoId, FileOffset, NameId, Svma};
use prof_abi::CpuMode;

/// A handle to a [`Location`] of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocationId(pub u32);

/// A handle to a [`Function`] of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// One address that appeared in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// The mode the CPU was in.
    pub mode: CpuMode,
    /// The file; a dso of kind `Unknown` if no mapping holds the address.
    pub dso: DsoId,
    /// Address in the file's address space; in an `Unknown` dso and in JIT
    /// code, the live address.
    pub address: Svma,
    /// The same address as far as the recording alone tells it, without opening
    /// the file: bytes from the start of the mapped file; the live address in
    /// the kernel and in no mapping. This is what perf 6.1 prints.
    pub file_offset: FileOffset,
    /// Whether it is a return address; names are looked up one byte before it.
    pub is_return: bool,
    /// Its frames in `Profile::frames`: innermost first; the last one is the
    /// function that has a symbol in the file, the others are inlined. Never
    /// empty after resolving.
    pub frames: FrameRange,
    /// Index in `Profile::branch_frames`, if the location was merged in from a
    /// branch stack.
    pub branch: Option<BranchFrameId>,
}

/// A run of entries in `Profile::frames`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FrameRange {
    /// Index of the first.
    pub start: u32,
    /// How many.
    pub len: u32,
}

impl FrameRange {
    /// The run as a range of indices.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// One function at a location, inlined or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Which function.
    pub function: FunctionId,
    /// Source file of the executing line in this function.
    pub file: Option<NameId>,
    /// Line in that file, from 1; 0 if unknown.
    pub line: u32,
    /// Whether it was inlined into the next frame of its location.
    pub is_inline: bool,
}

/// A function, or an address that has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function {
    /// Its demangled name; without one `module+0xstart`.
    pub name: NameId,
    /// The file it is in.
    pub dso: DsoId,
    /// First address; if there is neither a name nor a length, the address
    /// itself.
    pub start: Svma,
    /// Length in bytes; 0 if it is unknown, or the function is only inlined. A
    /// function without a name has a length if unwind information gives it.
    pub size: u64,
    /// Kernel or user, as for its locations.
    pub mode: CpuMode,
    /// Set if there is no name, with the reason.
    pub unnamed: Option<UnnamedReason>,
    /// Where it is defined: file and line, if known.
    pub defined_at: Option<(NameId, u32)>,
}

/// Why an address has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UnnamedReason {
    /// No mapping of the process holds it.
    NoMapping,
    /// The file cannot be found.
    FileMissing,
    /// The file may not be read.
    FileDenied,
    /// The file is another build than the one recorded.
    BuildIdMismatch,
    /// The file is not an ELF file we can read.
    FileDamaged,
    /// The file has symbols, but none there.
    NoSymbolThere,
    /// The file has no symbols at all.
    Stripped,
    /// Kernel addresses are hidden (`kptr_restrict`) or of another boot.
    KernelHidden,
    /// JIT code and no perf map or jitdump to tell.
    NoPerfMap,
    /// A perf map or jitdump was read, but has no entry for the address.
    NotInPerfMap,
    /// A perf map or jitdump exists, but was not used.
    PerfMapRefused(JitFileFault),
    /// It is an interpreter's frame, and what ran there could not be read while it did.
    /// Such frames have a name that says so ([`UNKNOWN_PYTHON`]).
    NotReadInTime,
}

/// The name of frames of Python functions that are not known.
pub const UNKNOWN_PYTHON: &str = "py::(unknown)";

/// Why a file in which a process names its run-time code was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum JitFileFault {
    /// It belongs neither to the process's user nor to the reader nor to root.
    OtherOwner,
    /// Others than its owner can write to it.
    Writable,
    /// It is a symbolic link.
    SymbolicLink,
    /// The file has more than one name.
    HardLinks,
    /// It is a FIFO.
    Fifo,
    /// It is a directory.
    Directory,
    /// It is a device.
    Device,
    /// It is a socket.
    Socket,
    /// It is larger than the limit for such files.
    TooLarge,
    /// It may not be read.
    Denied,
    /// Reading it failed.
    Unreadable,
    /// Its contents make no sense.
    Damaged,
}

impl JitFileFault {
    /// The fault in words that follow "the perf map or jitdump".
    pub fn words(self) -> &'static str {
        match self {
            Self::OtherOwner => {
                "belongs to another user than the process's, the one who looks, and root"
            }
            Self::Writable => "can be written by others than its owner",
            Self::SymbolicLink => "is a symbolic link",
            Self::HardLinks => "has more than one name (hard links)",
            Self::Fifo => "is a FIFO, not a file",
            Self::Directory => "is a directory, not a file",
            Self::Device => "is a device, not a file",
            Self::Socket => "is a socket, not a file",
            Self::TooLarge => "is larger than 256 MiB",
            Self::Denied => "may not be read",
            Self::Unreadable => "cannot be read",
            Self::Damaged => "makes no sense",
        }
    }
}
