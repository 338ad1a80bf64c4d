//! Unwinding while recording: the unwinder of `resolve` as a stage of
//! `record`.

use prof_abi::{EventAttr, SampleType};
use prof_perfdata::write::{EventDescription, UserChainRewriter};
use prof_record::stage::Stage;
use prof_resolve::{LiveUnwinder, TargetMemory};
use prof_sys::process;
use prof_unwind::Machine;
use std::time::Duration;

/// The machine that this program was built for.
const MACHINE: Machine = if cfg!(target_arch = "aarch64") {
    Machine::Aarch64
} else {
    Machine::X86_64
};

/// Unwinds the stacks of samples on their way to the file.
pub(super) struct LiveStage {
    /// There from [`Stage::begin`] on.
    unwinder: Option<LiveUnwinder<ProcessMemory>>,
}

impl LiveStage {
    pub(super) fn new() -> Self {
        Self { unwinder: None }
    }
}

impl Stage for LiveStage {
    fn written_attr(&self, opened: &EventAttr) -> EventAttr {
        if opened.sample_type.has(SampleType::REGS_USER) {
            UserChainRewriter::new(opened).written_attr().clone()
        } else {
            opened.clone()
        }
    }

    fn begin(&mut self, events: &[EventDescription]) {
        let events = events
            .iter()
            .map(|event| (event.attr.clone(), event.ids.clone()))
            .collect();
        self.unwinder = Some(LiveUnwinder::new(events, MACHINE, ProcessMemory));
    }

    fn records(&mut self, records: &[u8], out: &mut Vec<u8>) {
        if let Some(unwinder) = &mut self.unwinder {
            unwinder.round(records, out);
        }
    }

    fn trust(&self) -> Option<String> {
        Some(self.unwinder.as_ref()?.summary().to_json())
    }

    /// What a copied piece does not hold is read from the process soon.
    fn patience(&self) -> Duration {
        Duration::from_millis(4)
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
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
