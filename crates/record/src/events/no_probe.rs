//! Why a probe cannot be placed.

use std::io;
use std::path::{Path, PathBuf};

/// Why a probe cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoProbe {
    /// Something is missing between the colons.
    #[error("{0}")]
    Form(&'static str),
    /// The file cannot be read.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::ErrorKind),
    /// No file of this name.
    #[error("there is no program or library {0}\n  try: with its whole path")]
    NoFile(String),
    /// It is not a 64-bit ELF file.
    #[error("{} is not an ELF file of 64 bits", .0.display())]
    NotElf(PathBuf),
    /// No such function.
    #[error("{} has no function {function}{}", path.display(), did_you_mean(.nearest.as_deref(), path))]
    NoFunction {
        /// The file.
        path: PathBuf,
        /// The name.
        function: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// The function is chosen when the program starts.
    #[error(
        "{0} is one of several functions, chosen when a program starts (IFUNC)\n  \
         try: the one that is chosen here; prof report names it"
    )]
    Indirect(String),
    /// Nothing of the file is at this address.
    #[error("nothing of {} is loaded at {address:#x}\n  try: an address that nm shows", path.display())]
    NoCode {
        /// The file.
        path: PathBuf,
        /// The address, as the file has it.
        address: u64,
    },
    /// It is not within the function.
    #[error(
        "{function} has {size:#x} bytes, so {function}+{offset:#x} is not in it\n  \
         try: {function}, or an address that objdump -d shows"
    )]
    BehindFunction {
        /// The function.
        function: String,
        /// Its size in bytes.
        size: u64,
        /// Bytes from its start, as asked for.
        offset: u64,
    },
    /// A probe there would change an instruction in its middle.
    #[error(
        "{function}+{offset:#x} is within an instruction, which a probe there would break\n  \
         try: {function}+{before:#x} or {function}+{after:#x}"
    )]
    WithinInstruction {
        /// The function.
        function: String,
        /// Bytes from its start, as asked for.
        offset: u64,
        /// Where the instruction begins.
        before: u64,
        /// Where the next one begins.
        after: u64,
    },
    /// No such marker.
    #[error("{} has no marker {name}{}", path.display(), listed(.known))]
    NoMarker {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// Some of those that there are.
        known: Vec<String>,
    },
    /// No program that is recorded has any marker; the event as written.
    #[error(
        "there is no such tracepoint, and no program that is recorded has markers\n  \
         try: {0}@PATH, with the program or library that has it"
    )]
    MarkerElsewhere(String),
    /// The kernel has no such PMU.
    #[error("{0}")]
    NoPmu(&'static str),
}

fn did_you_mean(nearest: Option<&str>, path: &Path) -> String {
    match nearest {
        Some(name) => format!("\n  did you mean {name}?"),
        None => format!(
            "\n  try: nm {0}, and of a library nm -D {0}, which list those there are",
            path.display()
        ),
    }
}

fn listed(known: &[String]) -> String {
    if known.is_empty() {
        return "; it has none at all".to_owned();
    }
    format!("\n  it has: {}", known.join(", "))
}
