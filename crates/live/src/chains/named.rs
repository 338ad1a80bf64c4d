//! Frames by the names that their runtime knows: what it interprets has no
//! address of its own, and what it compiled is in no file.
//!
//! A method that is interpreted gets an address where no process can have
//! anything, one for each name, in place of the interpreter's. `MMAP2` records
//! tell the names of those and of compiled methods, as mappings of `[java] NAME`:
//! readers that know nothing of it show that, and perf passes over it.

use super::Chains;
use crate::known_frame::Known;
use crate::mapped_dsos::mapping_of;
use crate::memory::TargetMemory;
use crate::nearby::words_at;
use crate::provisional::{EACH, FIRST};
use crate::stacks::{OpenFile, Runtimes};
use crate::thread_sample::ThreadSample;
use prof_runtimes::{Memory, RuntimeCode};
use prof_unwind::{CallBefore, Machine};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What names of mappings begin with that are those of Java methods.
const JAVA: &str = "[java] ";
/// The same of .NET's methods.
const DOTNET: &str = "[dotnet] ";
/// The same of functions of which a process tells debuggers.
const JIT: &str = "[jit] ";
/// A Python function whose code object was not seen before: its memory may have
/// been used again since.
pub(super) const UNKNOWN: &str = prof_profile::UNKNOWN_PYTHON;
/// What is shown where the method cannot be told.
const INTERPRETER: &str = "Interpreter";
/// What is shown for the frames of a virtual thread that are not on the stack: they come
/// back when what is below them returns.
const IN_HEAP: &str = "(frames in the heap)";
/// Most names, and most ranges of one process, that are told.
const MAX_NAMES: usize = 1 << 20;
/// Most processes of which it is known what was told.
const MAX_PROCESSES: usize = 1 << 12;
/// Most words read from the running process for one sample.
const MAX_READ: usize = 512;
/// Most words whose content is remembered.
const MAX_SEEN: usize = 1 << 16;
/// How far below the frame pointer an interpreted frame has its method.
const METHOD: u64 = 24;
/// Number of the register that holds the method on entry.
const RBX: u8 = 3;

/// A frame of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameAt {
    /// Where its return address stands; 0 for the innermost frame.
    pub(super) slot: u64,
    pub(super) pc: u64,
    /// Its frame pointer register; 0 if that is lost.
    pub(super) fp: u64,
}

impl FrameAt {
    pub(super) fn of(frame: &Known) -> Self {
        Self {
            slot: frame.slot,
            pc: frame.pc,
            fp: frame.fp,
        }
    }
}

/// A range of addresses that a name is for, to be told as a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedRange {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) path: String,
}

/// Names so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: FxHashMap<String, u64>,
    told: FxHashMap<i32, Told>,
    /// By thread and address: what a word held.
    seen: FxHashMap<(i32, u64), SeenWord>,
    pending: Vec<NamedRange>,
}

/// What a word held, if it could be read, the drain in which it was seen so first,
/// and the last one.
#[derive(Debug, Clone, Copy)]
struct SeenWord {
    word: Option<u64>,
    since: u64,
    last: u64,
}

/// What was told of a process.
#[derive(Debug)]
struct Told {
    /// The version of its mappings then: later ones may lie over it.
    version: u64,
    /// By first address: the name.
    ranges: FxHashMap<u64, Box<str>>,
    /// Whether it writes a perf map, which names its compiled code.
    has_map: Option<bool>,
}

impl Names {
    /// The process has ended: another may get its number.
    pub(super) fn forget(&mut self, pid: i32) {
        self.told.remove(&pid);
    }

    /// The ranges to be told before the latest chain.
    pub(super) fn take(&mut self) -> Vec<NamedRange> {
        std::mem::take(&mut self.pending)
    }

    /// The address of a name.
    fn address(&mut self, name: &str) -> Option<u64> {
        if let Some(&id) = self.ids.get(name) {
            return Some(FIRST + id * EACH);
        }
        if self.ids.len() >= MAX_NAMES {
            return None;
        }
        if self.ids.is_empty() {
            // The first address is of what is unknown, see `provisional`.
            self.ids.insert(UNKNOWN.to_owned(), 0);
            if name == UNKNOWN {
                return Some(FIRST);
            }
        }
        let id = self.ids.len() as u64;
        self.ids.insert(name.to_owned(), id);
        Some(FIRST + id * EACH)
    }

    /// The address of a name of what a runtime interprets, which is told.
    pub(super) fn told_as(
        &mut self,
        process: (i32, u64),
        (runtime, name): (&str, &str),
    ) -> Option<u64> {
        let address = self.address(name)?;
        self.tell(process, address..address + EACH, (runtime, name));
        Some(address)
    }

    /// What was told of a process whose mappings have this version.
    fn told(&mut self, (pid, version): (i32, u64)) -> &mut Told {
        if self.told.len() >= MAX_PROCESSES && !self.told.contains_key(&pid) {
            self.told.clear();
        }
        let told = self.told.entry(pid).or_insert_with(|| Told {
            // No space has this one.
            version: u64::MAX,
            ranges: FxHashMap::default(),
            has_map: None,
        });
        if told.version != version {
            *told = Told {
                version,
                ranges: FxHashMap::default(),
                has_map: None,
            };
        }
        told
    }

    /// Whether a process whose mappings have this version writes a perf map.
    pub(super) fn has_map(&mut self, process: (i32, u64), memory: &impl TargetMemory) -> bool {
        let has_map = || memory.writes_perf_map(process.0);
        *self.told(process).has_map.get_or_insert_with(has_map)
    }

    /// Tells a range unless that was done.
    fn tell(&mut self, process: (i32, u64), range: Range<u64>, (runtime, name): (&str, &str)) {
        let told = self.told(process);
        let (start, length) = (range.start, range.end.saturating_sub(range.start));
        // By name, too: methods are made anew where others were.
        let is_known = told.ranges.get(&start).is_some_and(|told| **told == *name);
        if is_known || told.ranges.len() >= MAX_NAMES {
            return;
        }
        told.ranges.insert(start, name.into());
        self.pending.push(NamedRange {
            start,
            length,
            path: mapping_of(runtime, name),
        });
    }

    /// Reads the words that were not copied, each once in a drain. What is there
    /// now is believed if it was there in an earlier drain, too.
    pub(super) fn read(
        &mut self,
        sample: &ThreadSample<'_>,
        drain: u64,
        memory: &impl TargetMemory,
        words: &mut [Word],
    ) {
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        let is_new = |slot: &u64| {
            let seen = self.seen.get(&(sample.tid, *slot));
            seen.is_none_or(|seen| seen.last != drain)
        };
        let slots: Vec<u64> = words.iter().filter_map(Word::unread).collect();
        let new: Vec<u64> = slots.into_iter().filter(is_new).take(MAX_READ).collect();
        let read = words_at(memory, sample.state.pid, &new);
        for (&slot, word) in new.iter().zip(read) {
            let now = SeenWord {
                word,
                since: drain,
                last: drain,
            };
            let seen = self.seen.entry((sample.tid, slot)).or_insert(now);
            *seen = match seen.word == word {
                true => SeenWord {
                    last: drain,
                    ..*seen
                },
                false => now,
            };
        }
        for it in words {
            let seen = it.unread().and_then(|at| self.seen.get(&(sample.tid, at)));
            let Some(seen) = seen.filter(|seen| seen.last == drain) else {
                continue;
            };
            let word = seen.word.filter(|_| seen.since < drain);
            *it = word.map_or(Word::Unknown, Word::Is);
        }
    }
}

/// The memory of a process as it is now.
pub(super) struct Now<'a, M> {
    pub(super) memory: &'a M,
    pub(super) pid: i32,
}

impl<M: TargetMemory> Memory for Now<'_, M> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        self.memory.read(self.pid, address, out)
    }
}

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    /// Puts the frames of a sample into `out`, those of interpreted methods by
    /// their names' addresses.
    pub(super) fn name(
        &mut self,
        sample: &ThreadSample<'_>,
        frames: &[FrameAt],
        out: &mut Vec<u64>,
    ) {
        out.extend(frames.iter().map(|frame| frame.pc));
        let pid = sample.state.pid;
        self.name_told(sample, frames, out);
        self.name_managed(sample, frames);
        self.name_scripts(sample, frames, out);
        if !self.stacks.runtimes.has(pid) {
            return;
        }
        let process = (pid, sample.processes.versions(pid).1);
        let mut memory = Now {
            memory: &self.memory,
            pid,
        };
        let runtimes = &mut self.stacks.runtimes;
        let codes = codes(runtimes, (pid, frames), &mut memory);
        let mut methods = methods(sample, frames, &codes);
        self.names
            .read(sample, self.drain, &self.memory, &mut methods);
        for (index, ((code, method), out)) in codes.iter().zip(&methods).zip(out).enumerate() {
            let Some(code) = code else {
                continue;
            };
            let at = out.wrapping_sub(u64::from(index > 0));
            if let RuntimeCode::Interpreter { .. } = code {
                let name = match method {
                    Word::Is(method) => runtimes.method_name(pid, *method, &mut memory),
                    _ => None,
                };
                let name = name.unwrap_or(INTERPRETER);
                if let Some(address) = self.names.told_as(process, (JAVA, name)) {
                    // Readers look up what is before a return address.
                    *out = address + 1;
                }
                continue;
            }
            let is_return = matches!(code, RuntimeCode::Continuation { .. }) && index > 0;
            if is_return && !follows_call(*out, &mut memory) {
                if let Some(address) = self.names.told_as(process, (JAVA, IN_HEAP)) {
                    *out = address + 1;
                }
                continue;
            }
            if self.names.has_map(process, &self.memory) {
                continue;
            }
            if let (RuntimeCode::Compiled { start, end, .. }, Word::Is(method)) = (code, method) {
                let range = *start..*end;
                if let Some(name) = runtimes.method_name(pid, *method, &mut memory) {
                    self.names.tell(process, range, (JAVA, name));
                }
            } else if let Some((range, name)) = runtimes.block(pid, at, &mut memory) {
                self.names.tell(process, range.clone(), (JAVA, name));
            }
        }
    }
}

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    /// Tells the names of .NET's methods.
    fn name_managed(&mut self, sample: &ThreadSample<'_>, frames: &[FrameAt]) {
        let pid = sample.state.pid;
        let process = (pid, sample.processes.versions(pid).1);
        let Some(managed) = self.stacks.runtimes.managed(pid) else {
            return;
        };
        let has_map = self.names.has_map(process, &self.memory);
        let mut memory = Now {
            memory: &self.memory,
            pid,
        };
        for (index, frame) in frames.iter().enumerate() {
            let at = frame.pc.wrapping_sub(u64::from(index > 0));
            if let Some(found) = managed.code(at, &mut memory)
                && (found.is_precompiled() || !has_map)
                && let Some(name) = managed.name(found.method, &mut memory)
            {
                self.names.tell(process, found.code, (DOTNET, name));
            }
        }
    }

    /// Asks for what tells which Erlang process a scheduler runs, whose chain may have
    /// been cut.
    pub(super) fn want_erlang(
        &mut self,
        (pid, tid): (i32, i32),
        (frames, is_cut): (&[FrameAt], bool),
    ) {
        let now = (tid, self.drain);
        if !is_cut && self.wanted.knows_also(now) {
            return;
        }
        let mut memory = Now {
            memory: &self.memory,
            pid,
        };
        let told = &mut self.stacks.told_rules;
        let frames = frames.iter().map(|frame| (frame.pc, frame.slot));
        if let Some(wanted) = told.of_scheduler((pid, tid), (frames, is_cut), &mut memory) {
            self.wanted.also(now, wanted);
        }
    }

    /// Tells the names of functions of which a process tells debuggers.
    fn name_told(&mut self, sample: &ThreadSample<'_>, frames: &[FrameAt], out: &mut [u64]) {
        let (processes, pid) = (sample.processes, sample.state.pid);
        let process = (pid, processes.versions(pid).1);
        let told = &self.stacks.told_rules;
        let is_erlang = told.is_erlang(pid);
        let names_functions = told.names_functions(pid);
        if !is_erlang && !names_functions {
            return;
        }
        let has_names = !names_functions || self.names.has_map(process, &self.memory);
        for ((index, frame), out) in frames.iter().enumerate().zip(out) {
            let at = frame.pc.wrapping_sub(u64::from(index > 0));
            if is_erlang && index > 0 && told.stands_for_others(pid, frame.pc) {
                if let Some(address) = self.names.told_as(process, (JIT, IN_HEAP)) {
                    *out = address + 1;
                }
            } else if !has_names && let Some((range, name)) = told.function(pid, at) {
                self.names.tell(process, range, (JIT, name));
            }
        }
    }
}

/// Whether a call of x86-64 ends at an address.
fn follows_call(pc: u64, memory: &mut impl Memory) -> bool {
    let mut code = [0; CallBefore::LONGEST];
    let from = pc.wrapping_sub(code.len() as u64);
    memory.read(from, &mut code) == code.len()
        && CallBefore::decode(Machine::X86_64, &code) != CallBefore::None
}

/// What the runtime tells of each frame's code.
fn codes(
    runtimes: &mut Runtimes,
    (pid, frames): (i32, &[FrameAt]),
    memory: &mut impl Memory,
) -> Vec<Option<RuntimeCode>> {
    let frames = frames.iter().enumerate();
    frames
        .map(|(index, frame)| {
            let here = runtimes.known_code(pid, frame.pc, memory);
            match here {
                Some(RuntimeCode::Interpreter { .. } | RuntimeCode::Continuation { .. }) => here,
                _ if index == 0 => here,
                _ => runtimes.known_code(pid, frame.pc.wrapping_sub(1), memory),
            }
        })
        .collect()
}

/// What a frame has in a place, as a pointer to its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Is(u64),
    /// In memory that was not copied.
    At(u64),
    Unknown,
}

impl Word {
    /// What it is, where that is known.
    pub(super) fn known(self) -> Option<u64> {
        match self {
            Self::Is(word) => Some(word),
            Self::At(_) | Self::Unknown => None,
        }
    }

    /// Where it is, if it was not copied.
    fn unread(&self) -> Option<u64> {
        match self {
            Self::At(slot) => Some(*slot),
            Self::Is(_) | Self::Unknown => None,
        }
    }
}

/// The methods of frames, as far as the copy holds them.
fn methods(
    sample: &ThreadSample<'_>,
    frames: &[FrameAt],
    codes: &[Option<RuntimeCode>],
) -> Vec<Word> {
    let copied = sample.copied();
    let of = |(index, (frame, code)): (usize, (&FrameAt, &Option<RuntimeCode>))| {
        let is_entry = match code {
            Some(RuntimeCode::Interpreter { is_entry, .. }) => *is_entry,
            Some(RuntimeCode::Compiled { method, .. }) if *method != 0 => {
                return Word::Is(*method);
            }
            _ => return Word::Unknown,
        };
        // Without a frame yet, or no more, the frame pointer is the caller's.
        let has_frame = index > 0 || frames.get(1).is_some_and(|caller| caller.fp != frame.fp);
        let slot = frame.fp.wrapping_sub(METHOD);
        let is_there = has_frame && (index > 0 || slot >= sample.state.registers.sp());
        match is_there {
            true => match copied.word(slot, 8) {
                Some(method) => Word::Is(method),
                None => Word::At(slot),
            },
            false if is_entry && frames.len() > 1 => {
                let method = sample.state.registers.known(RBX);
                method.map_or(Word::Unknown, Word::Is)
            }
            false => Word::Unknown,
        }
    };
    frames.iter().zip(codes).enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::Names;

    #[test]
    fn a_process_that_ended_takes_no_room_and_its_number_is_told_again() {
        let mut names = Names::default();
        for pid in 1..100 {
            names.told_as((pid, 1), ("[python] ", "main"));
            assert_eq!(names.take().len(), 1, "told once");
            names.told_as((pid, 1), ("[python] ", "main"));
            assert_eq!(names.take().len(), 0);
            names.forget(pid);
        }
        assert!(names.told.is_empty());
        // Another process, whose mappings happen to have the same version.
        names.told_as((7, 1), ("[python] ", "main"));
        assert_eq!(names.take().len(), 1);
    }
}
