//! What language runtimes tell of their code and their frames, read from the
//! memory of a process that runs on.
//!
//! You give a way to read memory ([`Memory`]) and where the runtime's library
//! is loaded; you get of HotSpot's code where frames end and which method it
//! is ([`HotSpot`]), of .NET which method code is of ([`CoreClr`]), of CPython in which functions a thread is ([`CPython`]), of LuaJIT
//! how far its compiled code is below the C frame it runs in ([`LuaJit`]), of V8 which
//! JavaScript function a frame is of ([`V8`]), and of
//! any JIT compiler the unwind information that it tells debuggers ([`GdbJit`]) or
//! writes into a jitdump ([`JitDumpTail`]). Nothing in the process is called, stopped or changed.
//!
//! ```
//! use prof_runtimes::{HotSpot, Memory};
//!
//! struct Nothing;
//! impl Memory for Nothing {
//!     fn read(&mut self, _: u64, _: &mut [u8]) -> usize { 0 }
//! }
//! assert!(HotSpot::open(0x1000, &mut Nothing).is_none());
//! ```
//!
//! Limits: little-endian processes of 64 bits; HotSpot of JDK 17 is tested,
//! what its exported tables tell of other versions is followed; CPython 3.11 to
//! 3.15; .NET 10 of x86-64; V8 as in node 20 and 26; LuaJIT 2.1 with 64-bit addresses. The memory is
//! trusted in nothing: every loop, text and table is bounded, and what is read
//! may be from different moments.
#![forbid(unsafe_code)]

mod cold;
mod coreclr;
mod cpython;
mod elf;
mod erlang;
mod erlang_schedulers;
mod gdb_jit;
#[cfg(test)]
mod hostile;
mod hotspot;
mod jitdump;
mod luajit;
mod memory;
mod v8;

pub use coreclr::{CoreClr, ManagedCode, ManagedName};
pub use cpython::{CPython, Part as PythonPart};
pub use elf::loaded_at;
pub use erlang::{ErlangMain, ErlangTold};
pub use erlang_schedulers::ErlangSchedulers;
pub use gdb_jit::{GdbJit, JitChanges, JitObject};
pub use hotspot::{HotSpot, RuntimeCode};
pub use jitdump::{DumpedCode, JitDumpTail, ReadAt, Unwinding};
pub use luajit::{LuaJit, LuaJitEntry, LuaJitExit, LuaJitTrace, LuaJitVm};
pub use memory::{LinkedList, Memory};
pub use v8::{JsFunction, V8};
