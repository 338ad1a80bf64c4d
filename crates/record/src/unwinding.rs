//! Unwinding while recording: the unwinder of `live` as a stage.

use crate::snapshots::Snapshots;
use crate::stage::Stage;
use prof_abi::{AttrFlags, EventAttr, SampleType};
use prof_live::{LiveUnwinder, MemorySnapshot, Switches, TargetMemory};
use prof_perfdata::write::{EventDescription, UserChainRewriter};
use prof_sys::process;
use prof_unwind::Machine;
use std::sync::Arc;
use std::time::Duration;

/// The machine that this program was built for.
const MACHINE: Machine = if cfg!(target_arch = "aarch64") {
    Machine::Aarch64
} else {
    Machine::X86_64
};

/// How long samples may wait if what their copied pieces do not hold is read
/// from the process.
const SOON: Duration = Duration::from_millis(4);
/// The same where that is not so.
const LATER: Duration = Duration::from_millis(16);

/// Unwinds the stacks of samples on their way to the file.
pub struct LiveStage {
    /// There from [`Stage::begin`] on.
    unwinder: Option<LiveUnwinder<ProcessMemory>>,
    switches: Switches,
    /// If deep stacks are to be read before their threads go on.
    snapshots: Option<Arc<Snapshots>>,
}

impl LiveStage {
    /// `switches` says what the user wants of them, `deep_stacks` whether
    /// these are read before their threads go on.
    pub fn new(switches: Switches, deep_stacks: bool) -> Self {
        Self {
            unwinder: None,
            switches,
            snapshots: deep_stacks.then(Arc::default),
        }
    }
}

impl Stage for LiveStage {
    fn written_attr(&self, opened: &EventAttr) -> EventAttr {
        let mut written = if opened.sample_type.has(SampleType::REGS_USER) {
            UserChainRewriter::new(opened).written_attr().clone()
        } else {
            opened.clone()
        };
        if self.switches == Switches::Drop {
            written.flags = written.flags.without(AttrFlags::CONTEXT_SWITCH);
        }
        written
    }

    fn begin(&mut self, events: &[EventDescription]) {
        let events = events
            .iter()
            .map(|event| (event.attr.clone(), event.ids.clone()))
            .collect();
        self.unwinder = Some(LiveUnwinder::new(
            events,
            MACHINE,
            self.switches,
            ProcessMemory,
        ));
    }

    fn records(&mut self, records: &[u8], out: &mut dyn FnMut(&[u8])) {
        if let Some(unwinder) = &mut self.unwinder {
            let Some(snapshots) = &self.snapshots else {
                unwinder.round(records, out);
                return;
            };
            let new = snapshots.take().into_iter();
            unwinder.snapshots(new.map(|snapshot| MemorySnapshot {
                tid: snapshot.tid,
                time: snapshot.time,
                pieces: snapshot.pieces,
            }));
            unwinder.round(records, out);
            let used = unwinder.used_snapshots();
            snapshots.give_back(used.map(|used| used.pieces));
            let wanted = unwinder.wanted();
            snapshots.want(wanted.map(|(tid, ranges)| (tid, ranges.to_vec())).collect());
        }
    }

    fn pressed(&mut self, is_pressed: bool) {
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.pressed(is_pressed);
        }
    }

    fn snapshots(&self) -> Option<Arc<Snapshots>> {
        self.snapshots.clone()
    }

    fn trust(&self) -> Option<String> {
        Some(self.unwinder.as_ref()?.summary().to_json())
    }

    fn patience(&self) -> Duration {
        let is_urgent = self.unwinder.as_ref().is_none_or(LiveUnwinder::is_urgent);
        if is_urgent { SOON } else { LATER }
    }

    fn earliest_held(&self) -> Option<u64> {
        self.unwinder.as_ref()?.earliest_held()
    }

    fn finish(&mut self, out: &mut dyn FnMut(&[u8])) {
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.finish(out);
        }
    }
}

/// Memory of processes by process_vm_readv(2).
struct ProcessMemory;

impl TargetMemory for ProcessMemory {
    fn read(&self, pid: i32, address: u64, out: &mut [u8]) -> usize {
        let pid = u32::try_from(pid).unwrap_or(u32::MAX);
        // Gone, forbidden, or nothing there: all the same to the unwinder.
        process::read_memory(pid, address, out).unwrap_or(0)
    }

    fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize {
        let pid = u32::try_from(pid).unwrap_or(u32::MAX);
        process::read_words(pid, addresses, out).unwrap_or(0)
    }
}
