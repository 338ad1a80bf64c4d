//! JavaScript functions in the place of the frames that run them: what is
//! interpreted runs in the engine's own code, and what is compiled has no name.

use super::Chains;
use super::named::{FrameAt, Word};
use crate::memory::TargetMemory;
use crate::stacks::{CompiledScripts, JsFrame, OpenFile};
use crate::thread_sample::ThreadSample;
use prof_runtimes::{Memory, V8};
use prof_unwind::Machine;

/// What names of mappings begin with that are those of JavaScript functions.
const JAVASCRIPT: &str = "[js] ";
/// Number of the register that holds the function on entry, on x86-64.
const RDI: u8 = 5;
/// Words of a frame: its context, function and bytecode.
const WORDS: usize = 3;

/// What is known of compiled code that was interrupted without a frame.
enum Frameless<'a> {
    /// It will make one: who called it has put this function into a register.
    Function(u64),
    /// It is at its end, and has this name.
    Named(&'a str),
}

/// What compiled code is that was interrupted in a drain without a frame, if the
/// machine is one whose register is known that has the function on entry.
fn without_frame<'a>(
    compiled: Option<&'a mut CompiledScripts>,
    sample: &ThreadSample<'_>,
    (pc, drain): (u64, u64),
    memory: &mut impl Memory,
) -> Option<Frameless<'a>> {
    let registers = sample.state.registers;
    let compiled = compiled.filter(|_| registers.machine() == Machine::X86_64)?;
    let mut read = |at: u64, out: &mut [u8]| memory.read(at, out);
    let object = registers.known(RDI).filter(|&it| V8::is_object(it));
    match object.filter(|_| compiled.begins(pc, drain, &mut read)) {
        Some(function) => Some(Frameless::Function(function)),
        None => compiled.name(pc, drain, &mut read).map(Frameless::Named),
    }
}

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    /// The process of a sample and its start, if it runs JavaScript that no map names.
    fn unnamed_scripts(&mut self, sample: &ThreadSample<'_>) -> Option<(i32, u64)> {
        let pid = sample.state.pid;
        let process = (pid, sample.processes.versions(pid).1);
        self.stacks.runtimes.script_slots(pid, 0)?;
        (!self.names.has_map(process, &self.memory)).then_some(process)
    }

    /// Puts the addresses of JavaScript functions in the places of their
    /// frames in `out`, whose first frames these are.
    pub(super) fn name_scripts(
        &mut self,
        sample: &ThreadSample<'_>,
        frames: &[FrameAt],
        out: &mut [u64],
    ) {
        let Some(process @ (pid, _)) = self.unnamed_scripts(sample) else {
            return;
        };
        let mut words = self.script_words(sample, frames);
        self.names
            .read(sample, self.drain, &self.memory, &mut words);
        let mut memory = self.lines.of(&self.memory, (pid, self.drain));
        let frames = frames.iter().zip(words.chunks_exact(WORDS));
        for (index, ((frame, words), out)) in frames.zip(out).enumerate() {
            let at = frame.pc.wrapping_sub(u64::from(index > 0));
            let is_compiled = self.stacks.is_made((sample.processes, pid), at);
            let runtimes = &mut self.stacks.runtimes;
            let (function, bytecode) = match *words {
                [Word::Is(context), Word::Is(function), bytecode]
                    if V8::is_object(context) && V8::is_object(function) =>
                {
                    (function, bytecode)
                }
                [Word::Is(_), Word::Is(_), _] if !is_compiled => {
                    runtimes.saw_script(pid, frame.pc, false);
                    continue;
                }
                [_, Word::Unknown, _] if index == 0 && is_compiled => {
                    let (compiled, at) = (runtimes.compiled(pid), (frame.pc, self.drain));
                    match without_frame(compiled, sample, at, &mut memory) {
                        Some(Frameless::Function(function)) => (function, Word::Unknown),
                        Some(Frameless::Named(name)) => {
                            let told = self.names.told_as(process, (JAVASCRIPT, name));
                            *out = told.map_or(*out, |address| address + 1);
                            continue;
                        }
                        None => continue,
                    }
                }
                _ => continue,
            };
            let found = JsFrame {
                function,
                bytecode: bytecode.known(),
                is_compiled,
                at: frame.pc,
            };
            let name = runtimes.script_name((pid, self.drain), found, &mut memory);
            if let Some(name) = name
                && let Some(address) = self.names.told_as(process, (JAVASCRIPT, name))
            {
                // Readers look up what is before a return address.
                *out = address + 1;
                if !is_compiled {
                    runtimes.saw_script(pid, frame.pc, true);
                }
            }
        }
    }

    /// What frames have where those of JavaScript have context, function and
    /// bytecode; nothing is known of one that has no frame pointer of its own, or
    /// whose code is native.
    fn script_words(&self, sample: &ThreadSample<'_>, frames: &[FrameAt]) -> Vec<Word> {
        let copied = sample.copied();
        let pid = sample.state.pid;
        let sp = sample.state.registers.sp();
        let mut words = Vec::with_capacity(frames.len() * WORDS);
        for (index, frame) in frames.iter().enumerate() {
            let caller = frames.get(index + 1);
            let has_own = frame.fp != 0 && caller.is_some_and(|it| it.fp != frame.fp);
            let slots = self.stacks.runtimes.script_slots(pid, frame.fp);
            let is_native = self.stacks.runtimes.is_native(pid, frame.pc);
            let slots = slots.filter(|_| has_own && !is_native);
            for place in 0..WORDS {
                let slot = slots.and_then(|slots| slots.get(place).copied());
                // Below the stack pointer are those of a frame that is not made yet.
                let slot = slot.filter(|&slot| index > 0 || slot >= sp);
                words.push(match slot {
                    Some(slot) => copied.word(slot, 8).map_or(Word::At(slot), Word::Is),
                    None => Word::Unknown,
                });
            }
        }
        words
    }
}
