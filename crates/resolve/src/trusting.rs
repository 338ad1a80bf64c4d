//! How far a profile can be trusted, found out from the profile itself.

use crate::about::About;
use crate::starts::{StartCode, Starts};
use crate::tally::Tally;
use prof_abi::AttrFlags;
use prof_live::LiveSummary;
use prof_perfdata::Events;
use prof_profile::{
    ChainEnd, ChainSource, Damage, DroppedCount, DsoId, DsoKind, Event, EventId, LocationId,
    Profile, Samples, StackId, StackSource, StackTree, Trust, UNKNOWN_PYTHON, UnnamedReason,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Everything that views say about reliability.
pub(crate) fn trust(
    profile: &Profile,
    tally: &Tally,
    outline: &Outline,
    (about, code): (&About<'_>, &StartCode<'_>),
) -> Trust {
    let lost = tally.losses.total(about.events);
    let mut trust = Trust {
        samples: profile.samples.sampled() as u64,
        lost: lost.samples,
        lost_records: lost.records,
        lost_side_band: lost.side_band,
        side_band_may_be_lost: lost.may_be_side_band,
        throttled: tally.throttled,
        traced: tally.traced,
        damages: damages(about),
        notes: notes(about, tally.stacks.merged),
        ..Trust::default()
    };
    let told = about.features.trust();
    let told = told.and_then(|text| LiveSummary::from_json(&text.to_string_lossy()));
    trust.due = told.as_ref().map_or(0, |told| told.due);
    trust.due_has_kernel = trust.due > 0 && leaves_kernel_out(about.events);
    let told = told.filter(|told| !told.by_kernel);
    let ((frames, unnamed), ()) = rayon::join(
        || count_frames(profile, &outline.seen, tally.stacks.left_out),
        || {
            let chains = Chains {
                profile,
                outline,
                tally,
            };
            let mut starts = Starts::new(code);
            chains.judge(told.as_ref(), &mut starts, &mut trust);
        },
    );
    if told.is_none() && trust.chain_source == ChainSource::Kernel {
        trust.chain_source = match about.notes.unfinished {
            true => ChainSource::Unfinished,
            false if is_injected(about) => ChainSource::Injected,
            false => ChainSource::Kernel,
        };
    }
    Trust {
        frames,
        unnamed,
        ..trust
    }
}

/// Whether stock `perf inject` wrote the file: it puts its own command in the place of the
/// recorder's.
fn is_injected(about: &About<'_>) -> bool {
    let command = about.features.cmdline().unwrap_or_default();
    let is_perf = |program: &[u8]| program == b"perf" || program.ends_with(b"/perf");
    matches!(command, [program, verb, ..] if is_perf(program.as_bytes()) && verb.as_bytes() == b"inject")
}

/// Whether the event whose samples were due is of user space only.
fn leaves_kernel_out(events: &Events) -> bool {
    let first = events.get(0);
    first.is_some_and(|event| event.attr.flags.has(AttrFlags::EXCLUDE_KERNEL))
}

/// The chains of a profile, and what was counted while they were read.
struct Chains<'a> {
    profile: &'a Profile,
    outline: &'a Outline,
    tally: &'a Tally,
}

impl Chains<'_> {
    /// Adds how the chains ended, by the best that is known of it.
    fn judge(&self, told: Option<&LiveSummary>, starts: &mut Starts<'_>, trust: &mut Trust) {
        let profile = self.profile;
        for (&(stack, end), &count) in &self.tally.chain_ends {
            let outermost = self.outline.shapes.outermost(profile, stack);
            let is_rooted = outermost.and_then(|id| starts.is_start(profile, id));
            let end = if is_rooted == Some(true) {
                ChainEnd::Root
            } else {
                end
            };
            let ended = Ended { outermost, end };
            ended.add(profile, count, trust);
        }
        if !self.tally.chain_ends.is_empty() {
            trust.chain_source = ChainSource::Reader;
            return;
        }
        match told {
            Some(summary) => self.believe_recorder(summary, starts, trust),
            None => self.judge_recorded(starts, trust),
        }
    }

    /// Takes the ends of chains from the recorder that unwound them: it knows
    /// reasons that the frames do not show.
    fn believe_recorder(&self, summary: &LiveSummary, starts: &mut Starts<'_>, trust: &mut Trust) {
        trust.chain_source = ChainSource::Recorder;
        if summary.chain_ends.is_empty() {
            // A stream that was cut: its beginning cannot tell how it ended.
            self.judge_recorded(starts, trust);
            return;
        }
        add_told_ends(self.profile, summary, trust);
        add_told_notes(summary, trust);
    }

    /// Adds the ends of chains that the kernel recorded, judged by their
    /// frames.
    fn judge_recorded(&self, starts: &mut Starts<'_>, trust: &mut Trust) {
        let Self {
            profile,
            outline: Outline { shapes, seen },
            tally,
        } = *self;
        let counts = |event: &Event| event.has_callchain;
        let chained;
        let seen = if profile.events.iter().all(counts) {
            seen
        } else {
            let counted: Vec<bool> = profile.events.iter().map(counts).collect();
            let locations = profile.locations.len();
            chained = Seen::of(&profile.stacks, &profile.samples, locations, |event| {
                counted.get(usize::from(event.0)) == Some(&true)
            });
            &chained
        };
        // Of the samples of a stack, so many; which ones does not matter.
        let mut deep: FxHashMap<LocationId, u64> = FxHashMap::default();
        for (&stack, &count) in &tally.stacks.at_limit {
            let here = seen.at_stack.get(stack.0 as usize).copied().unwrap_or(0);
            if let Some(outermost) = shapes.outermost(profile, stack) {
                *deep.entry(outermost).or_default() += u64::from(count.min(here));
            }
        }
        let (of_deep, of_others) = match trust.chain_source {
            ChainSource::Recorder => (ChainEnd::Unproven, ChainEnd::Unproven),
            _ => (ChainEnd::DepthLimit, ChainEnd::BrokenFramePointers),
        };
        for (outermost, &count) in (0_u32..).zip(&seen.outermost) {
            let outermost = LocationId(outermost);
            let ended = |end| Ended {
                outermost: Some(outermost),
                end,
            };
            let deep = deep.get(&outermost).copied().unwrap_or(0);
            for (count, end) in [(deep, of_deep), (count.saturating_sub(deep), of_others)] {
                if count == 0 {
                    continue;
                }
                match starts.is_start(profile, outermost) {
                    // No user part: a kernel thread, or the kernel at work alone.
                    None => {}
                    Some(true) => ended(ChainEnd::Root).add(profile, count, trust),
                    Some(false) => ended(end).add(profile, count, trust),
                }
            }
        }
    }
}

/// How chains ended as their recorder tells, and in which files.
fn add_told_ends(profile: &Profile, summary: &LiveSummary, trust: &mut Trust) {
    trust.chain_ends.clone_from(&summary.chain_ends);
    let by_path: FxHashMap<&str, DsoId> = (0_u32..)
        .zip(profile.dsos.iter())
        .map(|(id, dso)| match dso.kind {
            DsoKind::Unknown => ("", DsoId(id)),
            _ => (profile.name(dso.path), DsoId(id)),
        })
        .collect();
    for ((path, end), &count) in &summary.unrooted {
        if prof_live::is_anonymous(path.as_bytes()) {
            let known = trust.unrooted_jit.entry(*end).or_default();
            *known = known.saturating_add(count);
        }
        if let Some(&dso) = by_path.get(path.as_str()) {
            let known = trust.unrooted_by_dso.entry((dso, *end)).or_default();
            *known = known.saturating_add(count);
        }
    }
}

/// What the recorder dropped of the chains or could not read.
fn add_told_notes(summary: &LiveSummary, trust: &mut Trust) {
    for (count, what) in [
        (
            summary.shortened,
            "chains too long to be kept whole: the middle was left out",
        ),
        (
            summary.malformed,
            "samples that the recorder could not read",
        ),
    ] {
        if count > 0 {
            trust.notes.push(DroppedCount {
                what: what.to_owned(),
                count,
                clock: None,
            });
        }
    }
}

/// What is asked of the stacks whatever names there are.
pub(crate) struct Outline {
    shapes: Shapes,
    seen: Seen,
}

impl Outline {
    /// Of stacks with so many locations.
    pub(crate) fn of(stacks: &StackTree, samples: &Samples, locations: usize) -> Self {
        Self {
            shapes: Shapes::of(stacks),
            seen: Seen::of(stacks, samples, locations, |_| true),
        }
    }
}

/// How many samples there are of what.
struct Seen {
    /// By `StackId`: with just that stack.
    at_stack: Vec<u32>,
    /// By `LocationId`: frames there.
    at_location: Vec<u64>,
    /// By `LocationId`: with that as the outermost frame.
    outermost: Vec<u64>,
}

impl Seen {
    /// In the samples of the events that count.
    fn of(
        stacks: &StackTree,
        samples: &Samples,
        locations: usize,
        counts: impl Fn(EventId) -> bool,
    ) -> Self {
        let mut at_stack = vec![0_u32; stacks.len()];
        let rows = samples.stacks().iter().zip(samples.events()).enumerate();
        for (row, (stack, event)) in rows {
            // What stands for the stack of a wait without one is no frame that
            // lacks a name: such waits are told apart.
            let wait = samples.wait_at(row);
            if counts(event)
                && wait.is_none_or(|wait| wait.source != StackSource::None)
                && let Some(count) = at_stack.get_mut(stack.0 as usize)
            {
                *count += 1;
            }
        }
        let mut at_location = vec![0_u64; locations];
        let mut outermost = at_location.clone();
        // Samples at each stack or below it; callers stand before callees.
        let mut below = at_stack.clone();
        for index in (1..below.len()).rev() {
            let Some((caller, location)) = stacks.get(StackId(index as u32)) else {
                continue;
            };
            let count = below.get(index).copied().unwrap_or(0);
            let at = location.0 as usize;
            if let Some(sum) = at_location.get_mut(at) {
                *sum += u64::from(count);
            }
            if caller == StackId::EMPTY
                && let Some(sum) = outermost.get_mut(at)
            {
                *sum += u64::from(count);
            }
            if let Some(above) = below.get_mut(caller.0 as usize) {
                *above += count;
            }
        }
        Self {
            at_stack,
            at_location,
            outermost,
        }
    }
}

/// Of each stack its outermost node.
struct Shapes {
    outermost: Vec<u32>,
}

impl Shapes {
    fn of(stacks: &StackTree) -> Self {
        let count = stacks.len();
        let mut outermost = vec![0_u32; count];
        // Parents stand before their children.
        for index in 1..count {
            let Some((parent, _)) = stacks.get(StackId(index as u32)) else {
                continue;
            };
            let top = match parent {
                StackId::EMPTY => index as u32,
                _ => outermost.get(parent.0 as usize).copied().unwrap_or(0),
            };
            if let Some(slot) = outermost.get_mut(index) {
                *slot = top;
            }
        }
        Self { outermost }
    }

    fn outermost(&self, profile: &Profile, stack: StackId) -> Option<LocationId> {
        let top = self.outermost.get(stack.0 as usize).copied()?;
        profile
            .stacks
            .get(StackId(top))
            .map(|(_, location)| location)
    }
}

/// How a chain ended, and in which frame.
#[derive(Clone, Copy)]
struct Ended {
    outermost: Option<LocationId>,
    end: ChainEnd,
}

impl Ended {
    /// Adds so many chains that ended like this.
    fn add(self, profile: &Profile, count: u64, trust: &mut Trust) {
        let Self { outermost, end } = self;
        *trust.chain_ends.entry(end).or_default() += count;
        if end != ChainEnd::Root
            && let Some(outermost) = outermost
        {
            let dso = profile.location(outermost).dso;
            *trust.unrooted_by_dso.entry((dso, end)).or_default() += count;
            if profile.dso(dso).kind == DsoKind::Jit {
                *trust.unrooted_jit.entry(end).or_default() += count;
            }
        }
    }
}

/// Counts frames and those without names, each as often as samples have it;
/// `left_out` are in no mapping and in no stack.
fn count_frames(
    profile: &Profile,
    seen: &Seen,
    left_out: u64,
) -> (u64, BTreeMap<(DsoId, UnnamedReason), u64>) {
    let mut unnamed: BTreeMap<(DsoId, UnnamedReason), u64> = BTreeMap::new();
    let mut frames = 0;
    if left_out > 0
        && let Some(unknown) = profile.dsos.len().checked_sub(1)
    {
        // The last dso stands for no mapping.
        frames += left_out;
        unnamed.insert((DsoId(unknown as u32), UnnamedReason::NoMapping), left_out);
    }
    let counts = (0_u32..).zip(&seen.at_location);
    for (location, &count) in counts.filter(|(_, count)| **count != 0) {
        for frame in profile.frames_at(LocationId(location)) {
            frames += count;
            let function = profile.function(frame.function);
            let is_unread = || profile.name(function.name) == UNKNOWN_PYTHON;
            let unread = || is_unread().then_some(UnnamedReason::NotReadInTime);
            if let Some(reason) = function.unnamed.or_else(unread) {
                *unnamed.entry((function.dso, reason)).or_default() += count;
            }
        }
    }
    (frames, unnamed)
}

fn damages(about: &About<'_>) -> Vec<Damage> {
    let one = |damage: &prof_perfdata::Damage| Damage {
        offset: damage.offset,
        what: damage.to_string(),
        bytes: damage.bytes,
    };
    about.damages.iter().map(one).collect()
}

fn notes(about: &About<'_>, merged: u64) -> Vec<DroppedCount> {
    let found = &about.notes;
    let mut notes = Vec::new();
    let mut note = |what: String, count: u64| {
        if count != 0 {
            notes.push(DroppedCount {
                what,
                count,
                clock: None,
            });
        }
    };
    for (kind, count) in &found.unknown_records {
        note(
            format!("records of unknown type {kind}, passed over"),
            *count,
        );
    }
    note(
        "records with an id that no event has".to_owned(),
        found.unknown_ids,
    );
    note(
        "more places that are damaged".to_owned(),
        found.more_damages,
    );
    note(
        "records that came too late to be put in order".to_owned(),
        about.late,
    );
    note(
        "callers at addresses in no mapping, of which there are too many, shown as one [unknown]"
            .to_owned(),
        merged,
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::{Chains, Outline, count_frames};
    use crate::recorded_files::RecordedFiles;
    use crate::starts::{StartCode, Starts};
    use crate::tally::Tally;
    use prof_live::MappedDsos;
    use prof_profile::{
        ChainEnd, ChainSource, DsoId, Profile, StackId, StackSource, Trust, UnnamedReason, Wait,
    };
    use prof_sketch::Sketch;
    use prof_unwind::Machine;

    fn outline(profile: &Profile) -> Outline {
        Outline::of(&profile.stacks, &profile.samples, profile.locations.len())
    }

    #[test]
    fn frames_count_as_often_as_samples_have_them() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        // Three frames, as inlined ones count, twice; and one.
        sketch.sample(task, "app:main;app:f>g", 1, 10);
        sketch.sample(task, "app:main;app:f>g", 2, 10);
        sketch.sample(task, "app:main", 3, 10);
        let profile = sketch.profile;
        let seen = outline(&profile).seen;
        assert_eq!(count_frames(&profile, &seen, 0).0, 7);
        let (frames, unnamed) = count_frames(&profile, &seen, 5);
        assert_eq!(frames, 12);
        let unknown = DsoId(profile.dsos.len() as u32 - 1);
        let left_out = unnamed.get(&(unknown, UnnamedReason::NoMapping));
        assert_eq!(left_out, Some(&5));
    }

    #[test]
    fn a_python_function_that_was_not_read_has_no_name() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "app:main;app:py::main;app:py::(unknown)", 1, 10);
        sketch.sample(task, "app:main;app:py::(unknown);app:py::leaf", 2, 10);
        let profile = sketch.profile;
        let (frames, unnamed) = count_frames(&profile, &outline(&profile).seen, 0);
        let unnamed: Vec<_> = unnamed
            .iter()
            .map(|(&(_, why), &count)| (why, count))
            .collect();
        assert_eq!(
            (frames, unnamed),
            (6, vec![(UnnamedReason::NotReadInTime, 2)])
        );
    }

    #[test]
    fn a_wait_without_a_stack_has_no_frames() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        for time in 1..=3 {
            sketch.sample(task, "app:main", time, 10);
        }
        let mut profile = sketch.profile;
        for (row, source) in [(1, StackSource::Sleeping), (2, StackSource::None)] {
            let wait = Wait {
                source,
                ..Wait::default()
            };
            profile.samples.set_wait(row, wait);
        }
        assert_eq!(count_frames(&profile, &outline(&profile).seen, 0).0, 2);
    }

    #[test]
    fn a_chain_is_whole_if_its_outermost_frame_starts_a_thread() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "app:_start;app:main", 1, 10);
        sketch.sample(task, "lib.so:callback;app:main", 2, 10);
        let stacks: Vec<StackId> = sketch.profile.samples.stacks().to_vec();
        // The unwinder says of both that the stack's copy ended.
        let mut tally = Tally::default();
        for &stack in &stacks {
            tally.chain_ends.insert((stack, ChainEnd::StackCut), 3);
        }
        let profile = sketch.profile;
        let (caller, _) = profile.stacks.get(stacks[1]).expect("two frames");
        let (_, outermost) = profile.stacks.get(caller).expect("a frame");
        let lib = profile.location(outermost).dso;
        assert_eq!(profile.name(profile.dsos[lib.0 as usize].path), "lib.so");
        let mut trust = Trust::default();
        let chains = Chains {
            profile: &profile,
            outline: &outline(&profile),
            tally: &tally,
        };
        let code = StartCode {
            mapped: &MappedDsos::default(),
            files: RecordedFiles::default(),
            machine: Machine::X86_64,
        };
        chains.judge(None, &mut Starts::new(&code), &mut trust);
        assert_eq!(trust.chain_source, ChainSource::Reader);
        assert_eq!(trust.chain_ends.get(&ChainEnd::Root), Some(&3));
        assert_eq!(trust.chain_ends.get(&ChainEnd::StackCut), Some(&3));
        let unrooted: Vec<_> = trust.unrooted_by_dso.into_iter().collect();
        assert_eq!(unrooted, [((lib, ChainEnd::StackCut), 3)]);
    }
}
