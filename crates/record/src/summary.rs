//! What was recorded, in one line.

use crate::foreign::KeptFiles;
use crate::framing::too_few;
use crate::hints::Whose;
use crate::open::OpenSet;
use crate::planned::{Role, is_clock};
use crate::rings::RingMemory;
use crate::tally::Tally;
use crate::waits::WaitAccount;
use prof_abi::{AttrFlags, event_kind};
use prof_live::LiveSummary;
use prof_profile::{ChainEnd, several, were};
use prof_sys::clock;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a recording has.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The file, links followed; of several the last one.
    pub file: PathBuf,
    /// Files before it, among which what follows is spread.
    pub files_before: usize,
    /// How many of these were removed again, since only so many were to stay.
    pub files_removed: usize,
    /// Bytes of records.
    pub bytes: u64,
    /// Samples and what went wrong with them.
    pub tally: Tally,
    /// Samples that the kernel dropped; `None` where it does not count them
    /// (before Linux 6.0): then at most as many as records in the tally.
    pub lost: Option<u64>,
    /// Records of mappings, names and tasks that it dropped.
    pub lost_side_band: u64,
    /// Whether such records may be among those counted in `lost`.
    pub side_band_may_be_lost: bool,
    /// The frequency asked for, Hz.
    pub asked_hz: Option<u64>,
    /// Samples per second of CPU time, where the event is a clock.
    pub real_hz: Option<f64>,
    /// Samples that were due for the CPU time of what was recorded, if that is
    /// known and samples were of tasks.
    pub due: Option<u64>,
    /// Time in the kernel is among that, which the event leaves out.
    pub due_has_kernel: bool,
    /// Whole CPUs were sampled, on which no task is too short to be seen.
    pub whole_cpus: bool,
    /// `lost` is an estimate: of what whole CPUs lost, the part that the target
    /// has of the samples that they did not lose.
    pub lost_is_share: bool,
    /// Wall-clock time of the recording.
    pub elapsed: Duration,
    /// CPU time that recording took.
    pub own_cpu: Duration,
    /// Events as they were opened.
    pub events: Vec<String>,
    /// Whether an event watches an address (`mem:`).
    pub watches_addresses: bool,
    /// The memory of the rings.
    pub rings: RingMemory,
    /// What to change for rings with more room, as words of a command line.
    pub more_room: String,
    /// What became of stacks, if they were unwound.
    pub stacks: Option<LiveSummary>,
    /// Waits, if they were recorded.
    pub waits: Option<WaitAccount>,
    /// Files that were deleted, and those of containers and chroots, kept for naming.
    pub kept: KeptFiles,
}

impl Summary {
    pub(crate) fn new(
        set: &OpenSet,
        tally: Tally,
        bytes: u64,
        file: PathBuf,
        (began, cpu_before): (Instant, Duration),
    ) -> Self {
        let attr = &set.events[0].planned.attr;
        let cpu_seconds = is_clock(attr).then(|| set.count_of(0) as f64 / 1e9);
        Self {
            file,
            files_before: 0,
            files_removed: 0,
            bytes,
            lost: set.lost(Role::Samples),
            lost_side_band: set.lost(Role::Tracks).unwrap_or(0),
            side_band_may_be_lost: !set.has_tracking(),
            asked_hz: (attr.is_freq() && attr.sample_period > 0).then_some(attr.sample_period),
            // Tasks run before their events do, and after.
            real_hz: cpu_seconds
                .filter(|_| !set.samples_cpus())
                .filter(|&seconds| seconds > 0.0 && set.samples_one_event())
                .map(|seconds| tally.samples as f64 / seconds),
            due: set.samples_due(),
            due_has_kernel: attr.flags.has(AttrFlags::EXCLUDE_KERNEL),
            whole_cpus: set.scope().whose == Whose::System || set.samples_cpus(),
            lost_is_share: set.shares.have_dropped(),
            tally,
            elapsed: began.elapsed(),
            own_cpu: clock::own_cpu_time().saturating_sub(cpu_before),
            events: set
                .events
                .iter()
                .map(|event| event.planned.name.clone())
                .collect(),
            watches_addresses: set
                .events
                .iter()
                .any(|event| event.planned.attr.kind == event_kind::BREAKPOINT),
            rings: set.memory(),
            more_room: set.more_room(),
            stacks: None,
            waits: None,
            kept: KeptFiles::default(),
        }
    }

    /// The share of the CPU time that samples stand for, if it is low because
    /// many tasks were too short: the timer of a task begins anew with it.
    pub(crate) fn unseen_short_tasks(&self) -> Option<f64> {
        let due = self.due?;
        let came = self.tally.samples.saturating_add(self.most_lost());
        too_few(came, due, &self.tally).then(|| came as f64 / due as f64)
    }

    /// The most samples that can be missing.
    fn most_lost(&self) -> u64 {
        self.lost.unwrap_or(self.tally.lost)
    }

    /// Lost samples, with their share; never a bound in the place of a count.
    fn lost_samples(&self) -> String {
        match self.lost {
            None if self.tally.lost > 0 => {
                format!("up to {} lost", several(self.tally.lost, "record"))
            }
            None | Some(0) => "0 lost".to_owned(),
            Some(lost) => {
                let all = self.tally.samples.saturating_add(lost);
                let about = if self.lost_is_share { "about " } else { "" };
                format!(
                    "{about}{lost} lost ({:.1} %)",
                    100.0 * lost as f64 / all as f64
                )
            }
        }
    }

    /// The file has a part of the recording: its samples are not those of the
    /// whole time.
    pub(crate) fn of_a_part(self) -> Self {
        Self {
            real_hz: None,
            due: None,
            ..self
        }
    }

    /// One line for the user about lost records of mappings, names and tasks,
    /// without which names and stacks are incomplete; `None` if none were lost.
    pub fn side_band_line(&self) -> Option<String> {
        if self.lost_side_band > 0 {
            return Some(format!(
                "{} of mappings, names and tasks {} lost: names and stacks of what \
                 began then are wrong or missing (try: {})",
                several(self.lost_side_band, "record"),
                were(self.lost_side_band),
                self.more_room
            ));
        }
        let may_be = self.side_band_may_be_lost && self.most_lost() > 0;
        may_be.then(|| {
            format!(
                "records of mappings, names and tasks may be among the lost: then names and stacks \
                 of what began at that time are wrong or missing (try: {})",
                self.more_room
            )
        })
    }

    /// One line for the user.
    pub fn line(&self) -> String {
        let file = self.file.display();
        let mut files = match self.files_before {
            0 => file.to_string(),
            1 => format!("{file} and the file before it"),
            more => format!("{file} and {more} files before it"),
        };
        if self.files_removed > 0 {
            files.push_str(&format!(
                " ({} removed: --switch-max-files)",
                self.files_removed
            ));
        }
        self.line_of(&files)
    }

    /// The same of a recording whose files are sent away and go.
    pub fn line_of_sent(&self) -> String {
        self.line_of(&several(self.files_before as u64 + 1, "part"))
    }

    fn line_of(&self, place: &str) -> String {
        let mut line = format!(
            "{}, {} in {place}",
            several(self.tally.samples, "sample"),
            size(self.bytes)
        );
        line.push_str(&format!("; {}", self.lost_samples()));
        line.push_str(&format!(", throttled {}×", self.tally.throttled));
        if self.tally.strangers > 0 {
            line.push_str(&format!(
                "; {} with the id of another recorder's event, of which event is not known \
                 (try: one recorder at a time)",
                several(self.tally.strangers, "sample")
            ));
        }
        if let Some(asked) = self.asked_hz {
            match self.real_hz {
                Some(real) => line.push_str(&format!("; {real:.0} of {asked} Hz")),
                None => line.push_str(&format!("; {asked} Hz asked for")),
            }
        }
        if let Some(seen) = self.unseen_short_tasks() {
            let kernel = match self.due_has_kernel {
                true => "the kernel's part is not, nor are ",
                false => "",
            };
            let behind = if self.due_has_kernel { "" } else { " are not" };
            // At such a rate samples take the time themselves.
            const HIGH: u64 = 10_000;
            let higher = match self.asked_hz.is_some_and(|hz| hz < HIGH) {
                true => ", or a higher -F",
                false => "",
            };
            line.push_str(&format!(
                "; only {:.0} % of the CPU time was seen: {kernel}tasks that live shorter than a \
                 sampling period{behind} (try: as root{higher})",
                100.0 * seen
            ));
        }
        if let Some(whole) = self.stacks.as_ref().and_then(share_if_low) {
            line.push_str(&format!(
                "; only {:.0} % of user stacks are whole (prof report says why)",
                100.0 * whole
            ));
        }
        self.tell_of_traces(&mut line);
        self.tell_of_kept_files(&mut line);
        let share = 100.0 * self.own_cpu.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9);
        line.push_str(&format!("; recorder {share:.1} % of a CPU, {}", self.rings));
        line
    }

    /// Adds what there is of traces.
    fn tell_of_traces(&self, line: &mut String) {
        let Tally {
            traced, trace_gaps, ..
        } = self.tally;
        if traced > 0 {
            line.push_str(&format!("; {} of trace", size(traced)));
        }
        if trace_gaps > 0 {
            line.push_str(&format!(
                "; part of the trace is missing in {} (try: a larger second size of -m)",
                several(trace_gaps, "place")
            ));
        }
    }

    /// Adds what became of files that were deleted or are of other roots.
    fn tell_of_kept_files(&self, line: &mut String) {
        if self.kept.files > 0 {
            let files = several(self.kept.files as u64, "file");
            line.push_str(&format!(
                "; {files} deleted or of other roots kept in ~/.debug"
            ));
        }
        if self.kept.maps > 0 {
            let maps = several(self.kept.maps as u64, "perf map");
            line.push_str(&format!("; {maps} of other roots kept in /tmp"));
        }
        if let Some((count, why)) = &self.kept.failed {
            line.push_str(&format!(
                "; {} deleted or of other roots could not be kept ({why}): their functions may stay \
                 without names",
                several(*count as u64, "file")
            ));
        }
        if let Some((count, first)) = &self.kept.unidentified {
            line.push_str(&format!(
                "; {} deleted or of other roots without a build-id ({first}) cannot be kept: their \
                 functions have no names once they are gone (link with -Wl,--build-id, or report --symfs \
                 ROOT)",
                several(*count as u64, "file")
            ));
        }
        if self.kept.beyond_limits > 0 {
            line.push_str(&format!(
                "; {} deleted or of other roots {} not kept: at most {} files and {} GiB are",
                several(self.kept.beyond_limits as u64, "file"),
                were(self.kept.beyond_limits as u64),
                KeptFiles::MAX_FILES,
                KeptFiles::MAX_BYTES >> 30
            ));
        }
    }
}

/// The share of user stacks that reach their thread's start, if it is low.
fn share_if_low(stacks: &LiveSummary) -> Option<f64> {
    const LOW: f64 = 0.9;
    /// Of fewer it says little.
    const ENOUGH: u64 = 100;
    let judged: u64 = stacks.chain_ends.values().sum();
    let whole = stacks.chain_ends.get(&ChainEnd::Root).copied();
    let share = whole.unwrap_or(0) as f64 / judged as f64;
    (judged >= ENOUGH && share < LOW).then_some(share)
}

/// Three to five digits, whatever the size.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::{share_if_low, size};
    use prof_live::LiveSummary;
    use prof_profile::ChainEnd;

    #[test]
    fn a_low_share_of_whole_stacks_is_told() {
        let share = |whole: u64, cut: u64| {
            share_if_low(&LiveSummary {
                chain_ends: [(ChainEnd::Root, whole), (ChainEnd::Unproven, cut)].into(),
                ..LiveSummary::default()
            })
        };
        assert_eq!(share(89, 11), Some(0.89));
        assert_eq!((share(90, 10), share(40, 59)), (None, None));
        assert_eq!(share_if_low(&LiveSummary::default()), None);
    }

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let sizes = [
            9_999,
            10_000,
            999_900,
            5_442_600,
            181_000_000,
            2_340_000_000,
        ];
        let text = sizes.map(size);
        let expected = [
            "9999 bytes",
            "10.0 KB",
            "999.9 KB",
            "5.4 MB",
            "181.0 MB",
            "2.34 GB",
        ];
        assert_eq!(text, expected);
    }
}
