//! JavaScript functions in the place of the frames that run them: what is
//! interpreted runs in the engine's own code, and what is compiled has no name.

use super::Chains;
use super::named::{FrameAt, Word};
use crate::memory::TargetMemory;
use crate::stacks::{JsFrame, OpenFile};
use crate::thread_sample::ThreadSample;
use prof_runtimes::V8;

/// What names of mappings begin with that are those of JavaScript functions.
const JAVASCRIPT: &str = "[js] ";
/// Words of a frame: its context, function and bytecode.
const WORDS: usize = 3;

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    /// Puts the addresses of JavaScript functions in the places of their
    /// frames in `out`, whose first frames these are.
    pub(super) fn name_scripts(
        &mut self,
        sample: &ThreadSample<'_>,
        frames: &[FrameAt],
        out: &mut [u64],
    ) {
        let pid = sample.state.pid;
        let process = (pid, sample.processes.versions(pid).1);
        if self.stacks.runtimes.script_slots(pid, 0).is_none()
            || self.names.has_map(process, &self.memory)
        {
            return;
        }
        let mut words = self.script_words(sample, frames);
        self.names
            .read(sample, self.drain, &self.memory, &mut words);
        let mut memory = self.lines.of(&self.memory, (pid, self.drain));
        let frames = frames.iter().zip(words.chunks_exact(WORDS));
        for (index, ((frame, words), out)) in frames.zip(out).enumerate() {
            let &[Word::Is(context), Word::Is(function), bytecode] = words else {
                continue;
            };
            let at = frame.pc.wrapping_sub(u64::from(index > 0));
            let is_compiled = self.stacks.is_made((sample.processes, pid), at);
            if !V8::is_object(context) || !V8::is_object(function) {
                if !is_compiled {
                    self.stacks.runtimes.saw_script(pid, frame.pc, false);
                }
                continue;
            }
            let found = JsFrame {
                function,
                bytecode: match bytecode {
                    Word::Is(bytecode) => Some(bytecode),
                    _ => None,
                },
                is_compiled,
            };
            let runtimes = &mut self.stacks.runtimes;
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
