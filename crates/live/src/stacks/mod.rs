//! User stacks from registers and a piece of stack memory.
//!
//! The same code serves a recording made with `perf record --call-graph
//! dwarf` and live unwinding; they differ in how files are found
//! ([`OpenFile`]) and in what memory there is beyond the copied piece
//! ([`Beyond`]).

mod compiled_scripts;
mod files;
mod made_code;
mod managed;
mod places;
mod runtimes;
mod scripts;
mod told_rules;

pub(crate) use compiled_scripts::CompiledScripts;
pub(crate) use files::from_file;
pub use files::{OpenFile, is_build, open_elf, own_vdso};
use prof_runtimes::{LuaJit, LuaJitTrace, LuaJitVm, Memory, RuntimeCode};
use prof_unwind::CodeAt;
pub(crate) use runtimes::{FunctionName, Runtimes};
pub(crate) use scripts::JsFrame;
pub(crate) use told_rules::ToldRules;

use crate::mapped_dsos::MappedDsoId;
use crate::processes::Processes;
use made_code::MadeCode;
use places::{Most, Places};
use prof_perfdata::{Sample, WaitWord};
use prof_profile::{Avma, ChainEnd, StackSource};
use prof_unwind::{Cursor, Machine, Process, Registers, StackDump, Step, Told, Unwinder};
use std::ops::Range;
use told_rules::Sources;

/// Reads stack memory beyond the piece copied with the sample.
pub trait Beyond {
    /// The word of `size` bytes at `address`, as far as it can be known for
    /// the time of the sample.
    fn word(&mut self, address: u64, size: u8) -> Option<u64>;

    /// The same, if it was copied then.
    fn word_then(&mut self, _address: u64, _size: u8) -> Option<u64> {
        None
    }

    /// Copies code that is in no file; how many bytes.
    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize;
}

/// Nothing but what was copied.
impl Beyond for () {
    fn word(&mut self, _address: u64, _size: u8) -> Option<u64> {
        None
    }

    fn code(&mut self, _at: Avma, _out: &mut [u8]) -> usize {
        0
    }
}

/// The user part of a sample, as the unwinder needs it.
#[derive(Debug, Clone, Copy)]
pub struct UserState<'a> {
    /// The process whose mappings count.
    pub pid: i32,
    /// Registers at the sample.
    pub registers: Registers,
    /// The copied piece of stack.
    pub dump: StackDump<'a>,
}

impl<'a> UserState<'a> {
    /// Takes the user part of a sample of process `pid`, recorded on `machine`.
    /// `None` if there is nothing to unwind: no registers (a kernel thread), no
    /// copied stack, or an instruction set that cannot be unwound, such as
    /// 32-bit Arm on a 64-bit kernel.
    pub fn of(sample: &Sample<'a>, pid: i32, machine: Machine) -> Option<Self> {
        let recorded = sample.regs_user()?;
        let bytes = sample.stack_user()?;
        // `PERF_SAMPLE_REGS_ABI_*`.
        const NONE: u64 = 0;
        const ABI_32: u64 = 1;
        let machine = match (recorded.abi, machine) {
            (NONE, _) | (ABI_32, Machine::Aarch64) => return None,
            (ABI_32, Machine::X86_64 | Machine::X86) => Machine::X86,
            (_, machine) => machine,
        };
        let mut registers = Registers::from_perf(machine, recorded.mask, recorded.values)?;
        if is_of_sleeper(sample) {
            registers = Registers::new(machine, registers.pc(), registers.sp());
        }
        let start = registers.sp();
        let dump = StackDump { start, bytes };
        Some(Self {
            pid,
            registers,
            dump,
        })
    }
}

/// Whether a sample is of a thread that was read while it slept: of its
/// registers only the two are known that /proc tells, the others are 0.
fn is_of_sleeper(sample: &Sample<'_>) -> bool {
    let word = sample.transaction().and_then(WaitWord::decode);
    word.is_some_and(|word| StackSource::from_code(word.source) == StackSource::Sleeping)
}

/// Unwinds samples of all processes of a recording.
pub struct StackUnwinder<F> {
    unwinder: Unwinder,
    places: Places<F>,
    pub(crate) runtimes: Runtimes,
    pub(crate) made_code: MadeCode,
    pub(crate) told_rules: ToldRules,
    /// How much is kept of files that no process maps any more.
    pub(crate) most: Most,
}

impl<F: OpenFile> StackUnwinder<F> {
    /// An unwinder that opens files as `open` does.
    pub fn new(open: F) -> Self {
        Self {
            unwinder: Unwinder::default(),
            places: Places::new(open),
            runtimes: Runtimes::default(),
            most: Most::LIVE,
            made_code: MadeCode::default(),
            told_rules: ToldRules::default(),
        }
    }

    /// What opens files.
    pub(crate) fn files(&self) -> &F {
        &self.places.open
    }

    /// Opens the file behind a dso now, so that it serves even if it is
    /// deleted later. `pid` is a process that has it mapped.
    pub fn prepare(&mut self, processes: &Processes, dso: MappedDsoId, pid: i32) {
        self.places
            .prepare(&mut self.unwinder.dsos, processes, dso, pid);
    }

    /// Looks at what a process tells of how code unwinds that it made.
    pub(crate) fn look_for_rules(
        &mut self,
        (processes, pid): (&Processes, i32),
        memory: &mut impl Memory,
    ) {
        let files = &mut self.unwinder.dsos;
        let version = processes.versions(pid).1;
        match self.told_rules.begin_look((pid, version), files) {
            None => return,
            Some(false) => {}
            Some(true) => {
                let mut sources = Sources::of(processes, pid);
                if sources.makes_code {
                    let descriptors = self.places.jit_descriptors(files, (processes, pid));
                    (sources.lists, sources.schedulers) = descriptors;
                }
                let open = &mut self.places.open;
                self.told_rules
                    .set_sources((processes, pid), &sources, open);
            }
        }
        self.told_rules.read(pid, files, memory);
    }

    /// A process ended, or runs another program.
    pub(crate) fn forget(&mut self, pid: i32) {
        self.runtimes.forget(pid);
        self.told_rules.forget(pid, &mut self.unwinder.dsos);
    }

    /// Processes of which something is known.
    #[cfg(test)]
    pub(crate) fn known_processes(&self) -> usize {
        self.runtimes.len() + self.told_rules.len()
    }

    /// Closes files that no process maps any more, where there are many.
    pub(crate) fn close_unused(&mut self, processes: &Processes) {
        self.places
            .keep(&mut self.unwinder.dsos, processes, self.most);
    }

    /// Appends the addresses of the user chain to `out`, innermost first, at
    /// most `max_frames`, and says why it ended.
    pub fn unwind(
        &mut self,
        processes: &Processes,
        state: &UserState<'_>,
        beyond: &mut impl Beyond,
        max_frames: usize,
        out: &mut Vec<u64>,
    ) -> ChainEnd {
        let mut cursor = Cursor::innermost(state.registers);
        for _ in 0..max_frames {
            out.push(cursor.pc());
            if let Err(end) = self.step(processes, state, beyond, &mut cursor) {
                return end;
            }
        }
        ChainEnd::DepthLimit
    }

    /// Moves to the caller's frame.
    ///
    /// # Errors
    /// With the reason why there is none; the cursor then stays.
    pub(crate) fn step(
        &mut self,
        processes: &Processes,
        state: &UserState<'_>,
        beyond: &mut impl Beyond,
        cursor: &mut Cursor,
    ) -> Result<Step, ChainEnd> {
        let (unwinder, mut process) = self.at(processes, state, beyond);
        unwinder.step(cursor, &mut process)
    }

    /// Whether the code at an address was made at run time.
    pub(crate) fn is_made(&mut self, (processes, pid): (&Processes, i32), pc: u64) -> bool {
        self.places.find(processes, pid, Avma(pc)) == CodeAt::Anonymous
    }

    /// Whether a sample in the kernel is of a thread that asked for another program.
    pub(crate) fn is_in_exec(&mut self, processes: &Processes, state: &UserState<'_>) -> bool {
        let mut nothing = ();
        let (unwinder, mut process) = self.at(processes, state, &mut nothing);
        unwinder.is_in_exec(&state.registers, &mut process)
    }

    /// The unwinder, and the process it works on.
    pub(crate) fn at<'a, B: Beyond>(
        &'a mut self,
        processes: &'a Processes,
        state: &'a UserState<'_>,
        beyond: &'a mut B,
    ) -> (&'a mut Unwinder, AtSample<'a, B, F>) {
        let process = AtSample {
            processes,
            state,
            beyond,
            places: &mut self.places,
            runtimes: &mut self.runtimes,
            made_code: &mut self.made_code,
            told_rules: &self.told_rules,
        };
        (&mut self.unwinder, process)
    }
}

/// A process at the time of a sample.
pub(crate) struct AtSample<'a, B, F> {
    processes: &'a Processes,
    state: &'a UserState<'a>,
    beyond: &'a mut B,
    places: &'a mut Places<F>,
    runtimes: &'a mut Runtimes,
    made_code: &'a mut MadeCode,
    told_rules: &'a ToldRules,
}

impl<B: Beyond, F> Process for AtSample<'_, B, F> {
    #[inline]
    fn place(&mut self, pc: Avma) -> CodeAt {
        self.places.find(self.processes, self.state.pid, pc)
    }

    #[inline]
    fn word(&mut self, address: u64, size: u8) -> Option<u64> {
        self.state
            .dump
            .word(address, size)
            .or_else(|| self.beyond.word(address, size))
    }

    fn word_then(&mut self, address: u64, size: u8) -> Option<u64> {
        let beyond = &mut *self.beyond;
        let dump = &self.state.dump;
        dump.word(address, size)
            .or_else(|| beyond.word_then(address, size))
    }

    fn code(&mut self, at: Avma, out: &mut [u8]) -> usize {
        let at = (self.state.pid, at);
        self.made_code.read(at, out, self.beyond)
    }

    fn told(&mut self, pc: Avma) -> Option<Told<'_>> {
        self.told_rules.at(self.state.pid, pc)
    }

    fn told_function(&mut self, pc: Avma) -> Option<Range<u64>> {
        let function = self.told_rules.function(self.state.pid, pc.0);
        function.map(|(range, _)| range)
    }

    fn runtime_code(&mut self, pc: Avma) -> Option<RuntimeCode> {
        let mut memory = runtimes::At(&mut *self.beyond);
        let processes = (self.processes, self.state.pid);
        self.runtimes.code(processes, pc.0, &mut memory)
    }

    fn lua_trace(&mut self, pc: Avma, dispatch: u64) -> Option<LuaJitTrace> {
        let mut memory = runtimes::At(&mut *self.beyond);
        let at = (pc.0, dispatch);
        self.runtimes.lua_trace(self.state.pid, at, &mut memory)
    }

    fn lua_rooms(&mut self, dispatch: u64) -> Vec<u64> {
        let mut memory = runtimes::At(&mut *self.beyond);
        let pid = self.state.pid;
        self.runtimes.lua_rooms(pid, dispatch, &mut memory)
    }

    fn is_lua_state(&mut self, state: u64, dispatch: u64) -> bool {
        LuaJit::is_state(state, dispatch, &mut runtimes::At(&mut *self.beyond))
    }

    fn wants_lua(&mut self) -> bool {
        self.runtimes.wants_lua(self.state.pid)
    }

    fn found_lua(&mut self, vm: LuaJitVm) {
        self.runtimes.found_lua(self.state.pid, vm);
    }
}

#[cfg(test)]
mod tests {
    use super::UserState;
    use prof_abi::{ByteOrder, EventAttr, SampleType};
    use prof_perfdata::write::{SampleEncoder, SampleFields};
    use prof_perfdata::{Sample, SampleLayout};
    use prof_unwind::Machine;

    /// What is to be unwound of a task with `abi` on `machine`.
    fn unwound_as(machine: Machine, abi: u64, sample_type: SampleType) -> Option<Machine> {
        let attr = EventAttr {
            sample_type,
            // Stack pointer and program counter, where each has them.
            sample_regs_user: match machine {
                Machine::Aarch64 => 0b11 << 31,
                Machine::X86_64 | Machine::X86 => 0b11 << 7,
            },
            ..EventAttr::default()
        };
        let fields = SampleFields {
            regs_user: (abi, &[0x1000, 0x2000]),
            stack_user: &[0; 16],
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        let encoded = SampleEncoder::new(&attr).encode(&fields, &mut record);
        encoded.expect("short");
        let layout = SampleLayout::new(&attr);
        let sample = Sample::new(&record, &layout, ByteOrder::NATIVE).expect("whole");
        let state = UserState::of(&sample, 5, machine)?;
        assert_eq!((state.pid, state.dump.start), (5, state.registers.sp()));
        Some(state.registers.machine())
    }

    #[test]
    fn a_task_is_unwound_as_what_it_runs_or_not_at_all() {
        let both = SampleType::REGS_USER | SampleType::STACK_USER;
        let cases = [
            (Machine::X86_64, 2, Some(Machine::X86_64)),
            (Machine::X86_64, 1, Some(Machine::X86)),
            (Machine::X86, 1, Some(Machine::X86)),
            (Machine::Aarch64, 2, Some(Machine::Aarch64)),
            // The registers of a 32-bit task are not those of arm64.
            (Machine::Aarch64, 1, None),
            // A kernel thread.
            (Machine::X86_64, 0, None),
        ];
        for (machine, abi, expected) in cases {
            let found = unwound_as(machine, abi, both);
            assert_eq!(found, expected, "{machine:?}, ABI {abi}");
        }
        let without_stack = unwound_as(Machine::X86_64, 2, SampleType::REGS_USER);
        assert_eq!(without_stack, None);
    }
}
