//! The code of one function: its instructions and source lines, with the
//! weight that fell on each.
//!
//! You give a [`CodeSource`] (who can read the file's bytes, line tables and
//! source texts) and weights per stack; you get a [`FunctionView`] that the
//! terminal UI and `prof annotate` both show. No file is opened here.

mod disassemble;
mod view;

pub(crate) use disassemble::disassemble;
pub use disassemble::{Flow, Instruction, Syntax};
pub use view::{Build, CodeRow, FunctionView, Share, SourceFile, SourceRow};

use prof_profile::{DsoId, Function, Profile, Svma};
use std::sync::Arc;

/// Instruction sets that can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit Arm.
    Aarch64,
}

/// Where a run of instructions comes from: holds up to the next entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineAt {
    /// First address it holds for.
    pub address: Svma,
    /// Source file, as the line table has it.
    pub file: Arc<str>,
    /// Line from 1; 0 if the code belongs to no line.
    pub line: u32,
}

/// The machine code of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCode {
    /// What the bytes mean.
    pub arch: Arch,
    /// Address of the first byte.
    pub start: Svma,
    /// The instructions' bytes.
    pub bytes: Vec<u8>,
    /// Line table of the range, by address; empty without debug information.
    pub lines: Vec<LineAt>,
}

/// Why the code of a function cannot be shown, in words: what, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCode(pub String);

/// Reads code and sources. Called from a worker thread, so it may take its
/// time.
pub trait CodeSource: Send {
    /// The bytes and lines of a function that stands in a file.
    ///
    /// # Errors
    /// Says why there are none.
    fn function(&self, profile: &Profile, function: &Function) -> Result<FunctionCode, NoCode>;

    /// The text of a source file as it is now; `None` if it cannot be read.
    fn source(&self, file: &str) -> Option<String>;

    /// Whether a source file was written to after the file that was compiled of it.
    fn is_newer(&self, _profile: &Profile, _dso: DsoId, _source: &str) -> bool {
        false
    }

    /// The name of what starts or lies at an address of a file, for call
    /// targets: `memcpy` or `memcpy+0x10`.
    fn name_at(&self, profile: &Profile, dso: DsoId, address: Svma) -> Option<String>;

    /// The name of the data at an address of a file, or of what is next
    /// before it: `table` or `table+0x10`.
    fn data_at(&self, profile: &Profile, dso: DsoId, address: Svma) -> Option<String> {
        self.name_at(profile, dso, address)
    }
}

/// A source without code, for profiles whose files are not available.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSource;

impl CodeSource for NoSource {
    fn function(&self, _: &Profile, _: &Function) -> Result<FunctionCode, NoCode> {
        Err(NoCode("there is no file to read instructions from".into()))
    }

    fn source(&self, _: &str) -> Option<String> {
        None
    }

    fn name_at(&self, _: &Profile, _: DsoId, _: Svma) -> Option<String> {
        None
    }
}
