//! The recordings before and after a change as one profile, for views that show both.
//!
//! Each event of all becomes three: the samples of both sides, those before and those
//! after; and if a side has several recordings, one for each of these behind them.
//! Functions that both sides know as the same ([`Counterparts`]) are one, so that
//! the paths of all are those of one tree.

use crate::Incomparable;
use crate::matching::{Counterparts, Functions, plain_dso};
use prof_profile::{
    Counted, Dso, DsoId, DsoKind, Event, EventId, FrameRange, Function, FunctionId, Location,
    LocationId, NameId, Profile, Sample, StackId, StackTree, Svma, Task, TaskId, UnnamedReason,
};
use prof_report::model::RunsOfSides;
use rustc_hash::FxHashMap;

/// A recording, and what it is called.
pub type Named<'a> = (&'a str, &'a Profile);

/// Puts the recordings before and after into one profile. Times of all begin where
/// those of the first do.
///
/// # Errors
/// If they have no event with samples in common.
///
/// # Panics
/// If a side has no recording.
pub fn both(before: &[Named<'_>], after: &[Named<'_>]) -> Result<Profile, Incomparable> {
    let (first, _) = before.split_first().expect("a recording before");
    let runs: Vec<Run<'_>> = [(Side::Before, before), (Side::After, after)]
        .into_iter()
        .flat_map(|(side, all)| all.iter().map(move |&(_, profile)| Run { side, profile }))
        .collect();
    let events = common_events(&runs);
    if events.is_empty() {
        let (other, profile) = *after.first().expect("a recording after");
        return Err(Incomparable::Event {
            first: first.0.to_owned(),
            of_first: sampled_events(first.1),
            other: other.to_owned(),
            of_other: sampled_events(profile),
        });
    }
    let functions = |side: Side| -> Vec<Functions> {
        let of_side = runs.iter().enumerate().filter(|(_, run)| run.side == side);
        let all = of_side.flat_map(|(at, run)| events.iter().map(move |ids| (run, ids[at])));
        all.map(|(run, id)| Functions::of(run.profile, id))
            .collect()
    };
    let counterparts = Counterparts::of(&functions(Side::Before), &functions(Side::After));
    let mut joined = Joined::new(first.1, &counterparts);
    let samples: Vec<Vec<Sample>> = runs
        .iter()
        .enumerate()
        .map(|(at, run)| match at {
            0 => joined.samples(run.profile, None, 0),
            _ => joined.add(run, first.1),
        })
        .collect();
    let mut profile = joined.profile;
    profile.stacks.freeze();
    let sides = RunsOfSides {
        before: u16::try_from(before.len()).unwrap_or(u16::MAX),
        after: u16::try_from(after.len()).unwrap_or(u16::MAX),
    };
    let made = events.iter().flat_map(|ids| events_of(&runs, ids, sides));
    profile.events = made.collect();
    for sample in in_order(&runs, samples, &events, sides) {
        profile.samples.push(sample);
    }
    Ok(profile)
}

/// Which side a recording is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// A recording of a side.
struct Run<'a> {
    side: Side,
    profile: &'a Profile,
}

/// The samples of all events, in the order of time.
fn in_order(
    runs: &[Run<'_>],
    samples: Vec<Vec<Sample>>,
    events: &[Vec<EventId>],
    sides: RunsOfSides,
) -> Vec<Sample> {
    let mut rows = Vec::new();
    for ((number, run), list) in (0_usize..).zip(runs).zip(samples) {
        for sample in list {
            let is_of = |ids: &Vec<EventId>| ids.get(number) == Some(&sample.event);
            let Some(at) = events.iter().position(is_of) else {
                continue;
            };
            let of = sides.events_of(u16::try_from(at).unwrap_or(0));
            let side = match run.side {
                Side::Before => of.before,
                Side::After => of.after,
            };
            let own = of.runs.clone().nth(number);
            for event in [of.both, side].into_iter().chain(own) {
                rows.push(Sample { event, ..sample });
            }
        }
    }
    rows.sort_by_key(|sample| sample.time);
    rows
}

/// The names of the events with samples, or "none".
fn sampled_events(profile: &Profile) -> String {
    let events = profile.events.iter().filter(|event| event.samples > 0);
    let events: Vec<&str> = events.map(|event| event.name.as_str()).collect();
    match events.is_empty() {
        true => "none".to_owned(),
        false => events.join(", "),
    }
}

/// The events that all have, by name, with samples on either side: of each its ids by
/// recording.
fn common_events(runs: &[Run<'_>]) -> Vec<Vec<EventId>> {
    let find = |profile: &Profile, name: &str| {
        let at = profile.events.iter().position(|event| event.name == name)?;
        u16::try_from(at).ok().map(EventId)
    };
    let first = runs.first().map(|run| run.profile.events.as_slice());
    let of_all = first.unwrap_or_default().iter().filter_map(|event| {
        let ids = runs.iter().map(|run| find(run.profile, &event.name));
        let ids: Vec<EventId> = ids.collect::<Option<_>>()?;
        let sampled = |side| {
            runs.iter()
                .zip(&ids)
                .any(|(run, &id)| run.is_sampled(side, id))
        };
        (sampled(Side::Before) && sampled(Side::After)).then_some(ids)
    });
    of_all.collect()
}

impl Run<'_> {
    fn is_sampled(&self, side: Side, id: EventId) -> bool {
        let event = self.profile.events.get(usize::from(id.0));
        self.side == side && event.is_some_and(|event| event.samples > 0)
    }
}

/// The events that one of all recordings becomes, which has these ids.
fn events_of(runs: &[Run<'_>], ids: &[EventId], sides: RunsOfSides) -> Vec<Event> {
    let own = runs.iter().zip(ids).map(|(run, id)| {
        let event = run.profile.events.get(usize::from(id.0));
        (run.side, event.cloned().unwrap_or_default())
    });
    let own: Vec<(Side, Event)> = own.collect();
    let sum = |of: &dyn Fn(Side) -> bool, named: &str| {
        let parts = own
            .iter()
            .filter(|(side, _)| of(*side))
            .map(|(_, event)| event);
        let sum = parts.cloned().reduce(|sum, event| Event {
            samples: sum.samples.saturating_add(event.samples),
            period: sum.period.saturating_add(event.period),
            lost: sum.lost.saturating_add(event.lost),
            has_callchain: sum.has_callchain || event.has_callchain,
            is_overwritten: sum.is_overwritten || event.is_overwritten,
            ..sum
        });
        let sum = sum.unwrap_or_default();
        Event {
            name: format!("{}, {named}", sum.name),
            ..sum
        }
    };
    let mut events = vec![
        sum(&|_| true, "both sides"),
        sum(&|side| side == Side::Before, "before"),
        sum(&|side| side == Side::After, "after"),
    ];
    if sides.are_several() {
        let (mut before, mut after) = (0, 0);
        events.extend(own.iter().map(|(side, event)| {
            let (word, number) = match side {
                Side::Before => ("before", &mut before),
                Side::After => ("after", &mut after),
            };
            *number += 1;
            Event {
                name: format!("{}, {word} {number}", event.name),
                ..event.clone()
            }
        }));
    }
    events
}

/// What makes a function the same: what both sides know it as, and where it has
/// no name its place.
#[derive(PartialEq, Eq, Hash)]
enum Same {
    Named((String, String)),
    Unnamed(DsoId, UnnamedReason, Svma),
}

/// What a file of another recording is in the new profile.
#[derive(Debug, Clone, Copy, Default)]
struct OtherFile {
    /// As which it is shown: the same file before, if there is one.
    shown: DsoId,
    /// Whose code it has: another build has other addresses.
    build: DsoId,
}

/// The profile that is made, with the code of the recordings so far.
struct Joined<'a> {
    profile: Profile,
    counterparts: &'a Counterparts,
    functions: FxHashMap<Same, FunctionId>,
}

/// The handles of another recording, in the new profile.
#[derive(Default)]
struct Moved {
    stacks: Vec<StackId>,
    tasks: Vec<TaskId>,
}

impl<'a> Joined<'a> {
    /// With the code before.
    fn new(before: &Profile, counterparts: &'a Counterparts) -> Self {
        let mut profile = Profile {
            names: before.names.clone(),
            dsos: before.dsos.clone(),
            tasks: before.tasks.clone(),
            threads: before.threads.clone(),
            functions: before.functions.clone(),
            frames: before.frames.clone(),
            locations: before.locations.clone(),
            counting: before.counting,
            trust: before.trust.clone(),
            origin: before.origin.clone(),
            ..Profile::default()
        };
        let mut stacks = StackTree::default();
        for index in 1..before.stacks.len() {
            let id = StackId(u32::try_from(index).unwrap_or(u32::MAX));
            if let Some((caller, location)) = before.stacks.get(id) {
                stacks.push(caller, location);
            }
        }
        profile.stacks = stacks;
        let mut functions = FxHashMap::default();
        for (id, function) in (0..).zip(&before.functions) {
            let same = match function.unnamed {
                Some(why) => Same::Unnamed(function.dso, why, function.start),
                None => {
                    let [dso, name] = names(before, function);
                    Same::Named(counterparts.known_before(dso, name).name)
                }
            };
            functions.entry(same).or_insert(FunctionId(id));
        }
        Self {
            profile,
            counterparts,
            functions,
        }
    }

    /// Adds another recording, and returns its samples with the handles and times that
    /// they have now: as if it began when the first one did.
    fn add(&mut self, run: &Run<'_>, first: &Profile) -> Vec<Sample> {
        let begins = |profile: &Profile| profile.samples.times().min().unwrap_or(0);
        let later = begins(first).wrapping_sub(begins(run.profile));
        let moved = self.add_code(run);
        let rows = self.samples(run.profile, Some(&moved), later);
        let last = rows.iter().map(|row| row.time).max();
        if let (Some(range), Some(last)) = (self.profile.origin.time_range.as_mut(), last) {
            range.1 = range.1.max(last);
        }
        rows
    }

    /// Adds dsos, functions, locations, stacks and tasks of another recording.
    fn add_code(&mut self, run: &Run<'_>) -> Moved {
        let other = run.profile;
        let dsos = self.dsos(run);
        let of = |id: DsoId| dsos.get(id.0 as usize).copied().unwrap_or_default();
        let functions: Vec<FunctionId> = other
            .functions
            .iter()
            .map(|function| self.function(run, function, of(function.dso)))
            .collect();
        let function = |id: FunctionId| {
            functions
                .get(id.0 as usize)
                .copied()
                .unwrap_or(FunctionId(0))
        };
        let locations = self.add_locations(other, of, function);
        let mut moved = Moved {
            stacks: self.add_stacks(other, &locations),
            tasks: Vec::new(),
        };
        for task in &other.tasks {
            let id = u32::try_from(self.profile.tasks.len()).unwrap_or(u32::MAX);
            moved.tasks.push(TaskId(id));
            let comm = self.name(other, task.comm);
            self.profile.tasks.push(Task { comm, ..*task });
        }
        self.add_trust(other);
        moved
    }

    /// The new ids of another recording's locations.
    fn add_locations(
        &mut self,
        after: &Profile,
        file: impl Fn(DsoId) -> OtherFile,
        function: impl Fn(FunctionId) -> FunctionId,
    ) -> Vec<LocationId> {
        let mut locations = Vec::with_capacity(after.locations.len());
        for location in &after.locations {
            let start = u32::try_from(self.profile.frames.len()).unwrap_or(u32::MAX);
            let frames = after
                .frames
                .get(location.frames.range())
                .unwrap_or_default();
            for frame in frames {
                let mut frame = *frame;
                frame.function = function(frame.function);
                frame.file = frame.file.map(|file| self.name(after, file));
                self.profile.frames.push(frame);
            }
            let id = u32::try_from(self.profile.locations.len()).unwrap_or(u32::MAX);
            locations.push(LocationId(id));
            let file = file(location.dso);
            if file.build != file.shown {
                let builds = &mut self.profile.other_builds;
                builds.insert(LocationId(id), file.build);
            }
            self.profile.locations.push(Location {
                dso: file.shown,
                frames: FrameRange {
                    start,
                    len: location.frames.len,
                },
                branch: None,
                ..*location
            });
        }
        locations
    }

    /// The new ids of another recording's stacks.
    fn add_stacks(&mut self, other: &Profile, locations: &[LocationId]) -> Vec<StackId> {
        let mut stacks = vec![StackId::EMPTY];
        for index in 1..other.stacks.len() {
            let id = StackId(u32::try_from(index).unwrap_or(u32::MAX));
            let new = other.stacks.get(id).map(|(caller, location)| {
                let caller = stacks.get(caller.0 as usize).copied();
                let location = locations.get(location.0 as usize).copied();
                let location = location.unwrap_or(LocationId(0));
                self.profile
                    .stacks
                    .push(caller.unwrap_or(StackId::EMPTY), location)
            });
            stacks.push(new.unwrap_or(StackId::EMPTY));
        }
        stacks
    }

    fn name(&mut self, after: &Profile, name: NameId) -> NameId {
        self.profile.names.intern(after.name(name))
    }

    /// By dso of another recording: the same file of those before, one that took its
    /// place, or one of its own.
    fn dsos(&mut self, run: &Run<'_>) -> Vec<OtherFile> {
        let other = run.profile;
        let old: FxHashMap<(DsoKind, String), usize> = (0..self.profile.dsos.len())
            .rev()
            .filter_map(|at| {
                let dso = self.profile.dsos.get(at)?;
                let name = plain_dso(self.profile.name(dso.short_name));
                Some(((dso.kind, name.to_owned()), at))
            })
            .collect();
        let mut found = Vec::with_capacity(other.dsos.len());
        for dso in &other.dsos {
            let name = other.name(dso.short_name);
            let name = match run.side {
                Side::Before => plain_dso(name),
                Side::After => self.counterparts.file_before(name),
            };
            let known = old.get(&(dso.kind, name.to_owned())).copied();
            let before = known.and_then(|known| self.profile.dsos.get(known)?.build_id);
            let is_rebuilt = before.zip(dso.build_id).is_some_and(|(a, b)| a != b);
            let known = known.map(|known| DsoId(u32::try_from(known).unwrap_or(u32::MAX)));
            let build = match known {
                Some(known) if !is_rebuilt => known,
                _ => self.add_dso(other, dso),
            };
            let shown = known.unwrap_or(build);
            found.push(OtherFile { shown, build });
        }
        found
    }

    fn add_dso(&mut self, after: &Profile, dso: &Dso) -> DsoId {
        let dso = Dso {
            path: self.name(after, dso.path),
            short_name: self.name(after, dso.short_name),
            beside_address: self.name(after, dso.beside_address),
            symbols_from: dso.symbols_from.map(|from| self.name(after, from)),
            ..dso.clone()
        };
        let id = u32::try_from(self.profile.dsos.len()).unwrap_or(u32::MAX);
        self.profile.dsos.push(dso);
        DsoId(id)
    }

    /// The same function before, which then has both names if they differ and
    /// the code of the newer build, or one of its own.
    fn function(&mut self, run: &Run<'_>, function: &Function, file: OtherFile) -> FunctionId {
        let after = run.profile;
        let [dso, name] = names(after, function);
        let mut renamed = None;
        let same = match function.unnamed {
            Some(why) => Same::Unnamed(file.build, why, function.start),
            None => {
                let known = match run.side {
                    Side::Before => self.counterparts.known_before(dso, name),
                    Side::After => self.counterparts.known_after(dso, name),
                };
                renamed = known.renamed(name);
                Same::Named(known.name)
            }
        };
        let defined_at = function.defined_at;
        let defined_at = defined_at.map(|(file, line)| (self.name(after, file), line));
        if let Some(&known) = self.functions.get(&same) {
            let renamed = renamed.map(|name| self.profile.names.intern(&name));
            if let Some(of_both) = self.profile.functions.get_mut(known.0 as usize) {
                of_both.name = renamed.unwrap_or(of_both.name);
                if file.build != file.shown {
                    of_both.dso = file.build;
                    of_both.start = function.start;
                    of_both.size = function.size;
                    of_both.defined_at = defined_at;
                }
            }
            return known;
        }
        let new = Function {
            name: self.name(after, function.name),
            dso: file.build,
            defined_at,
            ..*function
        };
        let id = u32::try_from(self.profile.functions.len()).unwrap_or(u32::MAX);
        self.profile.functions.push(new);
        self.functions.insert(same, FunctionId(id));
        FunctionId(id)
    }

    fn add_trust(&mut self, after: &Profile) {
        let (trust, other) = (&mut self.profile.trust, &after.trust);
        trust.samples = trust.samples.saturating_add(other.samples);
        trust.lost = trust.lost.saturating_add(other.lost);
        trust.lost_records = trust.lost_records.saturating_add(other.lost_records);
        trust.throttled = trust.throttled.saturating_add(other.throttled);
        trust.frames = trust.frames.saturating_add(other.frames);
        for (end, count) in &other.chain_ends {
            *trust.chain_ends.entry(*end).or_default() += count;
        }
    }

    /// The samples of a recording, with the stacks and tasks that they have now.
    fn samples(&mut self, profile: &Profile, moved: Option<&Moved>, later: u64) -> Vec<Sample> {
        let mut rows = Vec::with_capacity(profile.samples.len());
        for (row, sample) in profile.samples.iter().enumerate() {
            let wait = sample.wait.and_then(|id| profile.samples.wait(id));
            // Put back where others count it: that it has no time is known by then.
            let apart = wait.filter(|wait| wait.counted == Counted::ByOthers);
            let apart = apart.and_then(|_| profile.samples.wait_length(row));
            let stack = match moved {
                None => Some(sample.stack),
                Some(moved) => moved.stacks.get(sample.stack.0 as usize).copied(),
            };
            let task = moved.and_then(|moved| moved.tasks.get(sample.task.0 as usize));
            rows.push(Sample {
                time: sample.time.wrapping_add(later),
                stack: stack.unwrap_or(StackId::EMPTY),
                task: task.copied().unwrap_or(sample.task),
                wait: wait.map(|wait| self.profile.samples.wait_id(*wait)),
                period: apart.unwrap_or(sample.period),
                ..sample
            });
        }
        rows
    }
}

/// Names of a function's file and of itself.
fn names<'p>(profile: &'p Profile, function: &Function) -> [&'p str; 2] {
    let dso = profile.dso(function.dso).short_name;
    [dso, function.name].map(|name| profile.name(name))
}

#[cfg(test)]
mod tests {
    use super::both;
    use prof_abi::BuildId;
    use prof_profile::{EventId, FunctionId, Profile};
    use prof_report::code::{Build, NoSource, Syntax};
    use prof_report::model::{Changes, Judging, RunsOfSides, Scene, Selection};
    use prof_sketch::Sketch;
    use prof_statistics::Pairing;

    fn recording(parts: &[(&str, u64)]) -> Profile {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        let mut at = 0;
        for &(stack, count) in parts {
            for _ in 0..count {
                at += 1000;
                sketch.sample(task, stack, at, 10);
            }
        }
        sketch.profile.events[0].samples = sketch.profile.samples.len() as u64;
        sketch.profile.stacks.freeze();
        sketch.profile
    }

    #[test]
    fn functions_of_both_are_one_and_sides_keep_their_weights() {
        let before = recording(&[
            ("old:main;old:f.constprop.0", 5),
            ("old:main;libc.so.6:read", 2),
        ]);
        let after = recording(&[("new:main;new:f.constprop.1", 7), ("new:main;new:only", 1)]);
        let joined = both(&[("a", &before)], &[("b", &after)]).expect("one event");
        assert_eq!(joined.events.len(), 3);
        assert!(joined.samples.times().is_sorted());
        let tree = |event: u16| {
            let selection = Selection {
                event: EventId(event),
                ..Selection::default()
            };
            let scene = Scene::new(&joined, selection);
            let mut weights = Vec::new();
            scene.tree().walk(|node| {
                let site = scene.tree().site(node).expect("a frame");
                let name = scene.sites().get(site).name(&joined).to_owned();
                weights.push((node, name, scene.tree().total(node).samples));
            });
            weights
        };
        let sum = |event: u16, name: &str| -> u64 {
            let found = tree(event).into_iter().filter(|(_, own, _)| own == name);
            found.map(|(.., samples)| samples).sum()
        };
        let name = "f.constprop.0";
        assert_eq!([0, 1, 2].map(|event| sum(event, name)), [12, 5, 7]);
        assert_eq!([0, 1, 2].map(|event| sum(event, "main")), [15, 7, 8]);
        assert_eq!([0, 1, 2].map(|event| sum(event, "only")), [1, 0, 1]);
        assert_eq!([0, 1, 2].map(|event| sum(event, "read")), [2, 2, 0]);
    }

    #[test]
    fn code_of_two_builds_is_that_of_the_newer_with_its_own_weights() {
        let built = |number: u8, parts: &[(&str, u64)]| {
            let mut side = recording(parts);
            for dso in &mut side.dsos {
                dso.build_id = BuildId::new(&[number; 20]);
            }
            side
        };
        let before = built(1, &[("app:main;app:gone", 1), ("app:main;app:hot", 5)]);
        let after = built(2, &[("app:main;app:hot", 7)]);
        let view = |joined: &Profile, name: &str| {
            let at = joined
                .functions
                .iter()
                .position(|it| joined.name(it.name) == name)
                .expect("a function");
            let scene = Scene::new(joined, Selection::default());
            let build = Build {
                profile: joined,
                leaf_weights: &scene.weights_by_stack(),
                source: &NoSource,
                syntax: Syntax::Att,
            };
            let view = build.view(FunctionId(at as u32));
            let dso = joined.dso(joined.functions[at].dso);
            (dso.build_id, view.share.here, view.other_build.here)
        };
        let joined = both(&[("a", &before)], &[("b", &after)]).expect("one event");
        let [old, new] = [&before, &after].map(|side| side.dsos[0].build_id);
        assert_eq!(view(&joined, "hot"), (new, 120, 50));
        assert_eq!(view(&joined, "gone"), (old, 10, 0));
        // Of one build, nothing is of another.
        let same = both(&[("a", &after)], &[("b", &after)]).expect("one event");
        assert_eq!(view(&same, "hot"), (new, 140, 0));
    }

    #[test]
    fn a_renamed_function_is_one_with_both_names() {
        let side = |name: &str| {
            let called = format!("app:main;app:{name}");
            recording(&[(&called, 300), ("app:main;app:emit", 300)])
        };
        let (before, mut after) = (side("parse"), side("read_header"));
        let names = |joined: &Profile| -> Vec<String> {
            let functions = joined.functions.iter();
            functions
                .map(|it| joined.name(it.name).to_owned())
                .collect()
        };
        let joined = both(&[("a", &before)], &[("b", &after)]).expect("one event");
        let named = ["main", "read_header (was parse)", "emit"];
        assert_eq!(names(&joined), named);
        // Of another size it is another function.
        after.functions[1].size = 0x200;
        let joined = both(&[("a", &before)], &[("b", &after)]).expect("one event");
        assert_eq!(names(&joined), ["main", "parse", "emit", "read_header"]);
    }

    #[test]
    fn without_a_common_event_both_are_named() {
        let before = recording(&[("app:f", 1)]);
        let after = recording(&[]);
        let error = both(&[("a.data", &before)], &[("b.data", &after)]).expect_err("no samples");
        assert!(error.to_string().contains("b.data"), "{error}");
    }

    #[test]
    fn runs_of_a_side_are_told_apart_and_summed() {
        let run = |f: u64, g: u64| recording(&[("app:main;app:f", f), ("app:main;app:g", g)]);
        let before = [run(10, 20), run(11, 19)];
        let after = [run(20, 20), run(21, 22), run(19, 21)];
        let before: Vec<_> = before.iter().map(|profile| ("a", profile)).collect();
        let after: Vec<_> = after.iter().map(|profile| ("b", profile)).collect();
        let joined = both(&before, &after).expect("one event");
        let names: Vec<&str> = joined
            .events
            .iter()
            .map(|event| event.name.as_str())
            .collect();
        let told = ["both sides", "before", "after", "before 1", "before 2"];
        assert!(
            names
                .iter()
                .zip(told)
                .all(|(name, end)| name.ends_with(end)),
            "{names:?}"
        );
        assert_eq!(names.len(), 8);
        let samples = joined.events.iter().map(|event| event.samples);
        assert_eq!(
            samples.collect::<Vec<_>>(),
            [183, 60, 123, 30, 30, 40, 43, 40]
        );
        let sides = RunsOfSides {
            before: 2,
            after: 3,
        };
        let scenes = sides.runs_of(EventId(0)).map(|events| {
            let scene = |event| {
                let selection = Selection {
                    event,
                    ..Selection::default()
                };
                Scene::new(&joined, selection)
            };
            events.into_iter().map(scene).collect::<Vec<_>>()
        });
        let totals = scenes.each_ref().map(|side| {
            let totals = side.iter().map(|scene| scene.total().samples);
            totals.collect::<Vec<_>>()
        });
        assert_eq!(totals, [vec![30, 30], vec![40, 43, 40]]);
        let judging = Judging {
            least: 0.0,
            bound: 2.0,
            pairing: Pairing::Independent,
        };
        let changes = Changes::new([&scenes[0], &scenes[1]], judging);
        let f = changes.functions.iter().find(|it| {
            let site = scenes[0][0].sites().get(it.site);
            site.name(&joined) == "f"
        });
        let f = f.expect("it has samples");
        assert_eq!(f.samples, [21, 60]);
        assert!((f.own.before - 35.0).abs() < 0.1 && (f.own.after - 66.7).abs() < 0.1);
    }
}
