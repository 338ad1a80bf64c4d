//! Unwinding on the way to the file: the recorder's side of `prof_live`.
//!
//! ```text
//! ring ─► Trim ─► queue ─► LiveUnwinder ─► consumer
//!                              │   ▲
//!                     wants    ▼   │ snapshots, live memory
//!                            readers, process_vm_readv
//! ```

use crate::hints::Refusal;
use crate::registers::MACHINE;
use crate::runtime_code;
use crate::snapshots::Snapshots;
use crate::waits::{self, FIRST_ARGUMENT};
use prof_abi::{AttrFlags, EventAttr, SampleType};
use prof_live::{LiveSummary, LiveUnwinder, StackStarts, Switches, TargetMemory};
use prof_perfdata::write::{EventDescription, UserChainRewriter};
use prof_profile::several;
use prof_sys::limits::{Limit, Resource};
use prof_sys::process;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long samples may wait if what their copied pieces do not hold is read
/// from the process.
const SOON: Duration = Duration::from_millis(4);
/// The same where that is not so.
const LATER: Duration = Duration::from_millis(16);

/// Samples of an event as they are after unwinding; what the file's header
/// says.
pub(crate) fn written_attr(opened: &EventAttr, switches: Switches) -> EventAttr {
    let mut written = if opened.sample_type.has(SampleType::REGS_USER) {
        UserChainRewriter::new(opened).written_attr().clone()
    } else {
        opened.clone()
    };
    if switches == Switches::Drop {
        written.flags = written.flags.without(AttrFlags::CONTEXT_SWITCH);
    }
    written
}

/// Unwinds the stacks of samples on their way to the file. It runs on the
/// writing thread; the rings are drained by another, so that slow unwinding
/// makes the queue between them grow, up to its bound, and never holds up a
/// ring before that.
pub(crate) struct Unwinding {
    unwinder: LiveUnwinder,
    /// Where memory of deep stacks is ordered, if that can be read before
    /// their threads go on.
    orders: Option<Arc<Snapshots>>,
    /// Whether memory of a process was refused.
    is_refused: Arc<AtomicBool>,
}

impl Unwinding {
    /// For records of these events, as they were opened; `switches` says what
    /// the user wants of these records.
    pub(crate) fn new(
        opened: &[EventDescription],
        switches: Switches,
        orders: Option<Arc<Snapshots>>,
    ) -> Self {
        let events = opened
            .iter()
            .map(|event| (event.attr.clone(), event.ids.clone()))
            .collect();
        let is_refused = Arc::new(AtomicBool::new(false));
        let memory = ProcessMemory(is_refused.clone());
        let mut unwinder = LiveUnwinder::new(events, MACHINE, switches, memory);
        if let Ok(limit) = Limit::get(Resource::OpenFiles) {
            // The events have theirs by now; files of names and of processes need some, too.
            unwinder = unwinder.with_most_files(usize::try_from(limit.soft / 4).unwrap_or(0));
        }
        // A wait tells what its system call was given.
        let of_waits = |event: &EventDescription| waits::is_of_waits(&event.name);
        if let Some(index) = opened.iter().position(of_waits) {
            unwinder = unwinder
                .with_address_from(index, FIRST_ARGUMENT)
                .with_waits(index);
        }
        Self {
            unwinder,
            orders,
            is_refused,
        }
    }

    /// Leaves out the middle of chains of more frames than that.
    pub(crate) fn with_most_frames(mut self, most: Option<u16>) -> Self {
        if let Some(most) = most {
            self.unwinder = self.unwinder.with_most_frames(most.into());
        }
        self
    }

    /// Takes all records of one drain of all rings, those of each ring in the
    /// order in which the kernel wrote them; `out` gets, piece by piece, what
    /// can be written now. `is_pressed` says that so much waits that samples
    /// may soon be lost: stacks may then be shorter than else.
    pub(crate) fn round(&mut self, records: &[u8], is_pressed: bool, out: &mut dyn FnMut(&[u8])) {
        self.unwinder.pressed(is_pressed);
        let Some(orders) = &self.orders else {
            self.unwinder.round(records, out);
            return;
        };
        self.unwinder.snapshots(orders.take());
        self.unwinder.round(records, out);
        let used = self.unwinder.used_snapshots();
        orders.give_back(used.map(|used| used.pieces));
        let are_new_wanted = self.unwinder.wants_new_threads();
        let wanted = self.unwinder.wanted();
        orders.want(wanted.collect(), are_new_wanted);
    }

    /// Thread and time of samples whose names count if the thread stood still until now,
    /// since this was last called.
    pub(crate) fn take_named(&mut self) -> Vec<(i32, u64)> {
        self.unwinder.take_named()
    }

    /// Where stacks start, for who copies records out of rings.
    pub(crate) fn stack_starts(&self) -> Arc<StackStarts> {
        self.unwinder.stack_starts()
    }

    /// No more records come: `out` gets what was held back.
    pub(crate) fn finish(&mut self, out: &mut dyn FnMut(&[u8])) {
        self.unwinder.finish(out);
    }

    /// For the user: that stacks are cut since files could not be opened.
    pub(crate) fn lacks_descriptors(&self) -> Option<String> {
        let files = self.unwinder.files_without_descriptor();
        let limit = Limit::get(Resource::OpenFiles).ok()?.soft;
        (files > 0).then(|| {
            format!(
                "stacks through {} are cut: no descriptor was left to open {}, only {limit} are \
                 allowed\n  try: sudo prlimit --pid $$ --nofile={}   (for this shell)",
                several(files, "file"),
                if files == 1 { "it" } else { "them" },
                limit.saturating_mul(2).max(64)
            )
        })
    }

    /// For the user: that stacks are cut since memory of processes may not be
    /// read.
    pub(crate) fn lacks_memory(&self) -> Option<String> {
        // ORDERING: Relaxed; nothing is published by it.
        let is_refused = self.is_refused.load(Ordering::Relaxed);
        let is_felt = is_refused && self.unwinder.summary().wants_memory();
        is_felt.then(|| Refusal::to_read_memory(libc::EPERM).to_string())
    }

    /// Frees the buffers that wait for use.
    pub(crate) fn give_up_spares(&mut self) {
        self.unwinder.give_up_spares();
        if let Some(orders) = &self.orders {
            orders.give_up_spares();
        }
    }

    /// What became of the stacks so far.
    pub(crate) fn summary(&self) -> LiveSummary {
        self.unwinder.summary()
    }

    /// The earliest time, in ns, of the records that are held back.
    pub(crate) fn earliest_held(&self) -> Option<u64> {
        self.unwinder.earliest_held()
    }

    /// How long records may wait in a ring from now on. Short if memory of the
    /// sampled process is to be read while it is as it was: each wait that
    /// ends costs two changes of threads, and at usual rates that is most of
    /// what a recorder costs.
    pub(crate) fn patience(&self) -> Duration {
        match self.unwinder.is_urgent() {
            true => SOON,
            false => LATER,
        }
    }
}

/// Memory of processes by process_vm_readv(2), and whether it was refused.
struct ProcessMemory(Arc<AtomicBool>);

impl ProcessMemory {
    /// How much was read. Gone or nothing there is all the same to the unwinder, and
    /// so is forbidden, but not to the user.
    fn noting(&self, read: io::Result<usize>) -> usize {
        read.unwrap_or_else(|error| {
            if error.raw_os_error() == Some(libc::EPERM) {
                // ORDERING: Relaxed, as in `lacks_memory`.
                self.0.store(true, Ordering::Relaxed);
            }
            0
        })
    }
}

impl TargetMemory for ProcessMemory {
    fn read(&self, pid: i32, address: u64, out: &mut [u8]) -> usize {
        let pid = u32::try_from(pid).unwrap_or(u32::MAX);
        self.noting(process::read_memory(pid, address, out))
    }

    fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize {
        let pid = u32::try_from(pid).unwrap_or(u32::MAX);
        self.noting(process::read_words(pid, addresses, out))
    }

    fn own_number(&self, tid: i32) -> i32 {
        runtime_code::own_number(tid).unwrap_or(tid)
    }

    fn writes_perf_map(&self, pid: i32) -> bool {
        u32::try_from(pid).is_ok_and(runtime_code::has_perf_map)
    }
}
