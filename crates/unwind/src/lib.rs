//! Registers, stack bytes and unwind sections to return addresses.
//!
//! You give the registers of a thread, a way to read its memory and what is
//! mapped where ([`Process`]), and ELF files ([`UnwindDso`]); you get the chain
//! of return addresses and the reason it ended. See [`Unwinder`] for an
//! example.
//!
//! Rules are, in this order: the function table of Go programs, `.eh_frame` through its sorted table,
//! `.eh_frame` without one, `.debug_frame`, the shape of linkage stubs; in
//! files without any, the code of x86 functions, followed from the call that
//! goes to them or on to all of its returns; in code made at run time unwind
//! information that its maker tells ([`Process::told`]), what its runtime tells
//! of it ([`Process::runtime_code`], [`Process::lua_trace`]), or frame pointers. All registers are kept, not only
//! stack and frame pointer, so frames whose CFA hangs on another one
//! (realigned stacks, signal frames) unwind too.
//!
//! Limits: little-endian x86-64, x86 and Arm 64; a file's tables are trusted
//! as little as its headers: every read is bounded by the file, every
//! expression by its steps, every walk by its frames. No threads of its own.
#![forbid(unsafe_code)]

mod applied;
mod call;
mod code_frame;
mod cursor;
mod dso;
mod eh_return;
mod erlang;
mod expression;
mod fallback;
mod followed;
mod go;
mod go_table;
mod haskell;
mod image;
mod leaving;
mod lua;
mod made;
mod made_frames;
mod memory;
mod pointed;
mod registers;
mod row;
mod signal_frame;
mod source;
mod steps;
mod stretches;
mod symbols;
mod tables;
mod through_fp;
mod unwinder;

pub use call::CallBefore;
pub use code_frame::{is_straight, keeps_on_stack};
pub use cursor::{Base, Cursor, FpFrom, Step, StepBy, Zero};
pub use dso::{UnwindDso, UnwindDsos};
pub use image::{ImageError, Layout};
pub use memory::{CodeAt, Erlang, Process, StackDump, Told, UnwindDsoId};
pub use registers::{Machine, Registers};
pub use source::{FileSource, Source};
pub use unwinder::{FunctionAt, Unwinder};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
