//! Python functions between the frames of the interpreter that runs them.
//!
//! Which they are changes with every call, and stands in memory that no
//! sample has. So a snapshot brings it along, and they are told only where all
//! of it is of the time of the sample, and each part stands in a frame of the
//! interpreter, and each such frame has one; else the stack stays native.

use super::Chains;
use super::named::{FrameAt, Now, UNKNOWN};
use crate::memory::{Copied, TargetMemory, WantedMemory};
use crate::provisional::provisional;
use crate::stacks::{FunctionName, OpenFile};
use crate::thread_sample::{Naming, ThreadSample};
use prof_runtimes::{CPython, Memory, PythonPart};

/// What names of mappings begin with that are those of Python functions.
const PYTHON: &str = "[python] ";

/// The memory at the time of a sample.
struct Then<'a>(Copied<'a>);

impl Memory for Then<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let word = self.0.word(address, 8).map(u64::to_le_bytes);
        match (word, out.len()) {
            (Some(word), 8) => {
                out.copy_from_slice(&word);
                8
            }
            _ => 0,
        }
    }
}

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    /// Puts the addresses of Python functions into a sample's chain, each
    /// outside of the interpreter's frame that runs it. Gives how long the
    /// chain is then that the first `proven` frames have become.
    pub(super) fn put_python(
        &mut self,
        sample: &ThreadSample<'_>,
        (frames, proven): (&[FrameAt], usize),
        out: &mut Vec<u64>,
    ) -> usize {
        let proven = proven.min(out.len());
        let pid = sample.state.pid;
        let process = (pid, sample.processes.versions(pid).1);
        let Some((at, parts)) = self.python_parts(sample, frames) else {
            return proven;
        };
        let mut merged = Vec::with_capacity(out.len() + 64);
        let mut rest = out.as_slice();
        let (mut taken, mut proven_now) = (0, None);
        let has_map = self.names.has_map(process, &self.memory);
        for (index, PythonPart { code: mut part, .. }) in at.into_iter().zip(parts) {
            // The perf map names the trampoline of `-X perf` by which the
            // function was entered.
            if let Some(caller) = frames.get(index + 1)
                && has_map
                && self.stacks.is_made((sample.processes, pid), caller.pc)
            {
                part.pop();
            }
            // The chain up to the interpreter's frame.
            let count = (index + 1).saturating_sub(taken).min(rest.len());
            let (inner, outer) = rest.split_at(count);
            if (taken..taken + count).contains(&proven) {
                proven_now = Some(merged.len() + proven - taken);
            }
            merged.extend_from_slice(inner);
            (rest, taken) = (outer, taken + count);
            for code in part {
                let Some(address) = self.told_as_python(process, sample.names, code) else {
                    return proven;
                };
                merged.push(address + 1);
            }
        }
        let proven_now = proven_now.unwrap_or(merged.len() + proven.saturating_sub(taken));
        merged.extend_from_slice(rest);
        *out = merged;
        proven_now
    }

    /// The address that stands for a function from now on; `None` where there are
    /// too many.
    fn told_as_python(&mut self, process: (i32, u64), names: Naming, code: u64) -> Option<u64> {
        let mut memory = Now {
            memory: &self.memory,
            pid: process.0,
        };
        let runtimes = &mut self.stacks.runtimes;
        let name = runtimes.function_name((process.0, self.drain), code, &mut memory);
        let (name, is_new) = match name {
            Some(FunctionName::Known(name)) => (name, false),
            Some(FunctionName::New(name)) if names == Naming::Provisional => (name, true),
            _ => (UNKNOWN, false),
        };
        let address = self.names.told_as(process, (PYTHON, name))?;
        if !is_new {
            return Some(address);
        }
        // It may turn out to be that.
        self.names.told_as(process, (PYTHON, UNKNOWN))?;
        Some(provisional(address))
    }

    /// The positions of frames of the interpreter, and what each of them runs.
    fn python_parts(
        &mut self,
        sample: &ThreadSample<'_>,
        frames: &[FrameAt],
    ) -> Option<(Vec<usize>, Vec<PythonPart>)> {
        let mut memory = Now {
            memory: &self.memory,
            pid: sample.state.pid,
        };
        let ids = (sample.state.pid, sample.tid);
        let own_number = |tid| self.memory.own_number(tid);
        let runtimes = &mut self.stacks.runtimes;
        let (python, thread) = runtimes.python(ids, own_number, &mut memory)?;
        let is_eval = |(index, frame): &(usize, &FrameAt)| {
            python.is_eval(frame.pc.wrapping_sub(u64::from(*index > 0)))
        };
        let evals = frames.iter().enumerate().filter(is_eval);
        let evals: Vec<usize> = evals.map(|(index, _)| index).collect();
        if evals.is_empty() {
            return None;
        }
        let mut then = Then(sample.copied());
        let parts = python.functions(thread, &mut then);
        let now = (sample.tid, self.drain);
        if !self.wanted.knows_also(now) {
            let (ranges, newest) = python.ranges(thread, &mut memory)?;
            let wanted = WantedMemory {
                ranges,
                pointed: Some((newest, CPython::CHUNK)),
                list: python.frames(thread),
            };
            self.wanted.also(now, wanted);
        }
        let parts = parts?;
        // A function that is just being called may have the caller of an earlier one yet,
        // and then the list is that of another.
        (places(frames, &parts)? == evals).then_some((evals, parts))
    }
}

/// The positions of the frames in which the parts stand, as far as the chain goes;
/// `None` if one stands in the frame of one further in, or in none.
fn places(frames: &[FrameAt], parts: &[PythonPart]) -> Option<Vec<usize>> {
    let mut at = Vec::with_capacity(parts.len());
    let mut rest = frames;
    for part in parts {
        // The return addresses into a frame and out of it stand below and above what it has.
        let caller = rest.iter().position(|frame| frame.slot > part.in_frame);
        let Some(caller) = caller else {
            break;
        };
        let begins = frames.len() - rest.len();
        at.push(begins + caller.checked_sub(1)?);
        rest = rest.get(caller..)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::{FrameAt, PythonPart, places};

    #[test]
    fn parts_belong_to_the_frames_that_they_stand_in() {
        let frames = [0, 0x100, 0x180, 0x200, 0x300].map(|slot| FrameAt { slot, pc: 1, fp: 0 });
        let of = |all: &[u64]| {
            let part = |&in_frame: &u64| PythonPart {
                code: Vec::new(),
                in_frame,
            };
            places(&frames, &all.iter().map(part).collect::<Vec<_>>())
        };
        // One of the evaluation loops has none yet.
        assert_eq!(of(&[0x110, 0x2f0]), Some(vec![1, 3]));
        assert_eq!(of(&[0x80, 0x110]), Some(vec![0, 1]));
        // The chain ends before.
        assert_eq!(of(&[0x110, 0x400, 0x500]), Some(vec![1]));
        assert_eq!(of(&[0x110, 0x120]), None);
        assert_eq!(of(&[0x210, 0x110]), None);
    }
}
