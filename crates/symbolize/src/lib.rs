//! An address in a file to function, inlined frames and source line.
//!
//! You give a dso (path, build-id) and addresses in its address space; you
//! get for each the function, its inlined frames with file and line, or the
//! reason why there is no name. Separate debug files are found, and a file
//! of another build than the recorded one is never used.
//!
//! ```
//! use prof_symbolize::{Detail, DsoRequest, Symbolizer};
//!
//! let program = std::env::current_exe()?;
//! let request = DsoRequest::for_file(program.to_str().expect("plain"), None);
//! let file = Symbolizer::default().open(&request)?;
//! let main = file.address_of("main").expect("every program has one");
//! let found = file.lookup(main, Detail::Source);
//! assert_eq!(&*found.symbol.expect("a name").name, "main");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Knows nothing of processes: what is mapped where is the caller's business.
//! Files are untrusted: whatever their bytes, a lookup ends and costs memory
//! in proportion to the files. Nothing is ever executed or fetched.
#![deny(unsafe_code)]

mod answers;
mod by_address;
mod contents;
mod demangle;
mod dwarf;
mod elf;
mod embedded;
mod extents;
mod file;
mod go;
mod jitdump;
mod kallsyms;
mod kernel;
mod perf_map;
mod plt;
mod raw_symbols;
mod request;
mod search;
mod sources;
mod symbol_file;
mod symbolizer;
mod symtab;
mod trusted_file;
mod unpack;
mod vdso;
mod words;

pub use answers::{Detail, LineRow, Lookup, SourceFrame, Symbol};
pub use demangle::Demangle;
pub use embedded::{Embedded, Extent, Notes, Packed};
pub use jitdump::{JitCode, JitDamage, JitDump, JitUnwinding};
pub use kallsyms::{Kallsyms, KernelSymbol};
pub use kernel::{KernelRequest, KernelSymbols};
pub use perf_map::{LineFault, PerfMap, RefusedLines};
pub use request::{DsoRequest, OpenError};
pub use sources::{FetchFile, FileAtHand, FileOfBuild, Sources};
pub use symbol_file::SymbolFile;
pub use symbolizer::{RunTimeCode, Symbolizer};
pub use trusted_file::JitFileError;
