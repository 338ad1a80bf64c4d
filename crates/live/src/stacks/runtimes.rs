//! The language runtimes of processes, and what they told of code.

use super::Beyond;
use super::compiled_scripts::CompiledScripts;
use super::managed::Managed;
use super::scripts::{JsFrame, Scripts};
use crate::processes::Processes;
use prof_abi::CpuMode;
use prof_profile::Avma;
use prof_runtimes::{
    CPython, CoreClr, HotSpot, LuaJit, LuaJitTrace, LuaJitVm, Memory, RuntimeCode, V8, loaded_at,
};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Most processes whose runtimes are remembered.
const MAX_PROCESSES: usize = 1 << 12;
/// Most addresses of one process whose code is remembered.
const MAX_CODES: usize = 1 << 16;

/// The memory that a walk reads code from: as it is now.
pub(super) struct At<'a, B>(pub(super) &'a mut B);

impl<B: Beyond> Memory for At<'_, B> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        self.0.code(Avma(address), out)
    }
}

/// Changes of a process's mappings at each of which runtimes are looked for.
const MANY_LOOKS: u32 = 64;

/// Of samples without a change of the mappings, each at which a library that was not
/// ready is tried again, and the last of them.
const ASKED_AGAIN: u32 = 16;
const MOST_ASKED: u32 = 1 << 12;

/// What is known of the runtimes of all processes.
#[derive(Debug, Default)]
pub(crate) struct Runtimes {
    by_pid: FxHashMap<i32, Known>,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Known {
    /// The version of its mappings when a runtime was last looked for.
    version: Option<u64>,
    machine: Option<Box<HotSpot>>,
    python: Option<CPython>,
    scripts: Option<Box<Scripts>>,
    managed: Option<Box<Managed>>,
    lua: Option<LuaJit>,
    /// How often LuaJIT's interpreter was looked for.
    lua_looks: u32,
    /// How often a runtime was looked for.
    looks: u32,
    /// A runtime's library is there that was not ready, or is of none that is known.
    is_unready: bool,
    /// How often it was asked for since.
    asked: u32,
    /// By thread: the state that the interpreter has of it.
    threads: FxHashMap<i32, ThreadState>,
    /// By address: what was told lately.
    codes: FxHashMap<u64, Option<RuntimeCode>>,
    /// By method: its name.
    methods: FxHashMap<u64, Option<Box<str>>>,
    /// By code object.
    functions: FxHashMap<u64, Function>,
    /// By address: the block of code there that is no method's.
    blocks: FxHashMap<u64, Option<Block>>,
}

impl Known {
    /// Whether to look for runtimes, with this version of the process's mappings.
    fn is_to_look(&mut self, version: u64) -> bool {
        if self.version == Some(version) {
            if !self.is_unready || self.asked >= MOST_ASKED {
                return false;
            }
            self.asked += 1;
            return self.asked.is_power_of_two() || self.asked.is_multiple_of(ASKED_AGAIN);
        }
        self.version = Some(version);
        self.looks = self.looks.saturating_add(1);
        self.looks <= MANY_LOOKS || self.looks.is_power_of_two()
    }
}

/// What is known of the interpreter's state of a thread.
#[derive(Debug, Default)]
struct ThreadState {
    address: Option<u64>,
    /// How often it was looked for.
    asked: u32,
}

/// A Python function as it was found.
#[derive(Debug, Default)]
struct Function {
    identity: [u64; CPython::IDENTITY],
    /// The drain in which that was read first, and the latest in which it was.
    since: u64,
    seen: u64,
    name: Option<Box<str>>,
}

/// The name of a function by its code object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionName<'a> {
    /// It was there in an earlier drain.
    Known(&'a str),
    /// It is there now.
    New(&'a str),
}

/// A named block of code: its addresses and name.
pub(crate) type Block = (Range<u64>, String);

impl Runtimes {
    /// What the runtime of a process tells of the code at an address.
    pub(crate) fn code(
        &mut self,
        (processes, pid): (&Processes, i32),
        pc: u64,
        memory: &mut impl Memory,
    ) -> Option<RuntimeCode> {
        self.look_for((processes, pid), memory);
        self.known_code(pid, pc, memory)
    }

    /// The interpreter of Python in a process, and its state of a thread, which
    /// it knows by the thread's own number.
    pub(crate) fn python(
        &mut self,
        (pid, tid): (i32, i32),
        own_number: impl Fn(i32) -> i32,
        memory: &mut impl Memory,
    ) -> Option<(&CPython, u64)> {
        let known = self.by_pid.get_mut(&pid)?;
        let python = known.python.as_ref()?;
        if known.threads.len() >= MAX_PROCESSES {
            known.threads.clear();
        }
        // A thread is sampled before the interpreter knows it, and some never are
        // known: the more often in vain, the more seldom it is looked for.
        let thread = known.threads.entry(tid).or_default();
        if thread.address.is_none() {
            thread.asked = thread.asked.saturating_add(1);
            if thread.asked.is_power_of_two() {
                thread.address = python.thread(own_number(tid), memory);
            }
        }
        Some((python, thread.address?))
    }

    /// The name of a Python function by its code object, whose memory may
    /// have been another's before: it counts if the same was there in an
    /// earlier drain, too.
    pub(crate) fn function_name(
        &mut self,
        (pid, drain): (i32, u64),
        code: u64,
        memory: &mut impl Memory,
    ) -> Option<FunctionName<'_>> {
        let known = self.by_pid.get_mut(&pid)?;
        let python = known.python.as_ref()?;
        if known.functions.len() >= MAX_CODES {
            known.functions.clear();
        }
        let found = known.functions.entry(code).or_default();
        // What is there now is as new to all samples of a drain.
        if found.seen != drain {
            let identity = python.identity(code, memory)?;
            if found.identity != identity {
                *found = Function {
                    identity,
                    since: drain,
                    seen: drain,
                    name: python.name(code, memory).map(String::into_boxed_str),
                };
            }
            found.seen = drain;
        }
        let name = found.name.as_deref()?;
        Some(match found.since < drain {
            true => FunctionName::Known(name),
            false => FunctionName::New(name),
        })
    }

    /// Where a frame of JavaScript has its context, function and bytecode, if the
    /// process has an engine.
    pub(crate) fn script_slots(&self, pid: i32, fp: u64) -> Option<[u64; 3]> {
        let scripts = self.by_pid.get(&pid)?.scripts.as_ref()?;
        Some(scripts.engine().slots(fp))
    }

    /// Whether a frame with this return address has no JavaScript function.
    pub(crate) fn is_native(&self, pid: i32, pc: u64) -> bool {
        let scripts = self.by_pid.get(&pid).and_then(|it| it.scripts.as_ref());
        scripts.is_some_and(|scripts| scripts.natives.has(pc))
    }

    /// The frame with this return address into a file has a JavaScript function, or
    /// no objects in its place.
    pub(crate) fn saw_script(&mut self, pid: i32, pc: u64, has_function: bool) {
        let known = self.by_pid.get_mut(&pid);
        if let Some(scripts) = known.and_then(|it| it.scripts.as_mut()) {
            scripts.natives.saw(pc, has_function);
        }
    }

    /// The name of the JavaScript function of a frame.
    pub(crate) fn script_name(
        &mut self,
        (pid, drain): (i32, u64),
        frame: JsFrame,
        memory: &mut impl Memory,
    ) -> Option<&str> {
        let scripts = self.by_pid.get_mut(&pid)?.scripts.as_mut()?;
        scripts.name(frame, drain, memory)
    }

    /// What is known of the compiled code of JavaScript in a process.
    pub(crate) fn compiled(&mut self, pid: i32) -> Option<&mut CompiledScripts> {
        Some(&mut self.by_pid.get_mut(&pid)?.scripts.as_mut()?.compiled)
    }

    /// Whether a process has a runtime that tells of its code.
    pub(crate) fn has(&self, pid: i32) -> bool {
        let known = self.by_pid.get(&pid);
        known.is_some_and(|known| known.machine.is_some())
    }

    /// The same, or whether it tells of what it interprets.
    pub(crate) fn has_any(&self, pid: i32) -> bool {
        let known = self.by_pid.get(&pid);
        known.is_some_and(|known| {
            known.machine.is_some()
                || known.python.is_some()
                || known.scripts.is_some()
                || known.managed.is_some()
        })
    }

    /// What is known of the methods of .NET in a process.
    pub(crate) fn managed(&mut self, pid: i32) -> Option<&mut Managed> {
        self.by_pid.get_mut(&pid)?.managed.as_deref_mut()
    }

    /// What the runtime of a process tells of the code at an address, if it
    /// was found before.
    pub(crate) fn known_code(
        &mut self,
        pid: i32,
        pc: u64,
        memory: &mut impl Memory,
    ) -> Option<RuntimeCode> {
        let known = self.by_pid.get_mut(&pid)?;
        let machine = known.machine.as_mut().filter(|machine| machine.has(pc))?;
        if known.codes.len() >= MAX_CODES {
            known.codes.clear();
        }
        let code = || machine.code_at(pc, memory);
        *known.codes.entry(pc).or_insert_with(code)
    }

    /// The name of a method.
    pub(crate) fn method_name(
        &mut self,
        pid: i32,
        method: u64,
        memory: &mut impl Memory,
    ) -> Option<&str> {
        let known = self.by_pid.get_mut(&pid)?;
        let machine = known.machine.as_ref()?;
        if known.methods.len() >= MAX_CODES {
            known.methods.clear();
            known.blocks.clear();
            known.threads.clear();
        }
        let name = || {
            machine
                .method_name(method, memory)
                .map(String::into_boxed_str)
        };
        let name = known.methods.entry(method).or_insert_with(name);
        name.as_deref()
    }

    /// The block of code at an address, if it is no method's.
    pub(crate) fn block(&mut self, pid: i32, pc: u64, memory: &mut impl Memory) -> Option<&Block> {
        let known = self.by_pid.get_mut(&pid)?;
        let machine = known.machine.as_ref()?;
        if known.blocks.len() >= MAX_CODES {
            known.blocks.clear();
            known.threads.clear();
        }
        let block = || machine.block_name(pc, memory);
        known.blocks.entry(pc).or_insert_with(block).as_ref()
    }

    /// Looks for the runtimes of a process if it has mapped something since,
    /// the more seldom the more often that was in vain; and again where a library is
    /// there that was not ready: what it will tell of, it may make without mapping more.
    pub(crate) fn look_for(
        &mut self,
        (processes, pid): (&Processes, i32),
        memory: &mut impl Memory,
    ) {
        let version = processes.versions(pid).1;
        if self.by_pid.len() >= MAX_PROCESSES && !self.by_pid.contains_key(&pid) {
            self.by_pid.clear();
        }
        let known = self.by_pid.entry(pid).or_default();
        if !known.is_to_look(version) {
            return;
        }
        known.is_unready = false;
        if known.machine.is_none()
            && let Some(base) = library((processes, pid), |name| name == b"libjvm.so", memory)
        {
            known.machine = HotSpot::open(base, memory).map(Box::new);
            known.is_unready |= known.machine.is_none();
        }
        let is_python = |name: &[u8]| name.starts_with(b"libpython3.");
        let is_program = |name: &[u8]| name.starts_with(b"python3");
        if known.python.is_none()
            && let Some(base) = library((processes, pid), is_python, memory)
                .or_else(|| library((processes, pid), is_program, memory))
        {
            known.python = CPython::open(base, memory);
            known.is_unready |= known.python.is_none();
        }
        if known.managed.is_none()
            && let Some(base) = library((processes, pid), |name| name == b"libcoreclr.so", memory)
        {
            let managed = CoreClr::open(base, memory).map(Managed::new);
            known.managed = managed.map(Box::new);
            known.is_unready |= known.managed.is_none();
        }
        let is_node = |name: &[u8]| name.starts_with(b"node") || name.starts_with(b"libnode.so.");
        if known.scripts.is_none()
            && let Some(base) = library((processes, pid), is_node, memory)
        {
            known.scripts = V8::open(base, memory).map(|it| Box::new(Scripts::new(it)));
            known.is_unready |= known.scripts.is_none();
        }
    }

    /// The compiled code of LuaJIT at an address.
    pub(crate) fn lua_trace(
        &mut self,
        pid: i32,
        at: (u64, u64),
        memory: &mut impl Memory,
    ) -> Option<LuaJitTrace> {
        let lua = self.by_pid.get_mut(&pid)?.lua.as_mut()?;
        lua.trace_at(at, memory)
    }

    /// How much the compiled code of LuaJIT adds to the stack.
    pub(crate) fn lua_rooms(
        &mut self,
        pid: i32,
        dispatch: u64,
        memory: &mut impl Memory,
    ) -> Vec<u64> {
        let lua = self.by_pid.get_mut(&pid).and_then(|it| it.lua.as_mut());
        lua.map_or_else(Vec::new, |lua| lua.rooms(dispatch, memory))
    }

    /// Whether to look for LuaJIT's interpreter: the more seldom, the more often
    /// that was in vain.
    pub(crate) fn wants_lua(&mut self, pid: i32) -> bool {
        let known = self.by_pid.get_mut(&pid);
        known.is_some_and(|known| {
            known.lua_looks = known.lua_looks.saturating_add(1);
            known.lua.is_none() && known.lua_looks.is_power_of_two()
        })
    }

    /// LuaJIT's interpreter is in a process.
    pub(crate) fn found_lua(&mut self, pid: i32, vm: LuaJitVm) {
        if let Some(known) = self.by_pid.get_mut(&pid) {
            known.lua = Some(LuaJit::new(vm));
        }
    }

    /// Code may have been thrown away and its memory used again.
    pub(crate) fn ask_again(&mut self) {
        for known in self.by_pid.values_mut() {
            known.codes.clear();
            known.methods.clear();
            known.blocks.clear();
            known.threads.clear();
            if let Some(managed) = &mut known.managed {
                managed.ask_again();
            }
        }
    }

    /// Processes of which something is known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_pid.len()
    }

    /// A process ended, or runs another program.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
    }
}

/// Where the first byte of a file of such a name is loaded.
fn library(
    (processes, pid): (&Processes, i32),
    is_it: impl Fn(&[u8]) -> bool,
    memory: &mut impl Memory,
) -> Option<u64> {
    let space = processes.space(pid, CpuMode::User)?;
    let mapping = space.iter().find(|mapping| {
        let path = &processes.dsos().get(mapping.dso).path;
        path.rsplit(|&byte| byte == b'/').next().is_some_and(&is_it)
    })?;
    loaded_at((mapping.start.0, mapping.offset.0), memory)
}
