//! Two recordings as one profile, for views that show both.
//!
//! Each event of both becomes three: the samples of both sides, those before
//! and those after. Functions that both sides know as the same
//! ([`Counterparts`]) are one, so that the paths of both sides are those of one
//! tree.

use crate::Incomparable;
use crate::matching::{Counterparts, Functions, plain_dso};
use prof_profile::{
    Counted, Dso, DsoId, DsoKind, Event, EventId, FrameRange, Function, FunctionId, Location,
    LocationId, NameId, Profile, Sample, StackId, StackTree, Svma, Task, TaskId, UnnamedReason,
};
use rustc_hash::FxHashMap;

/// Events that each event of both recordings becomes, in this order: both
/// sides, before, after.
pub const EVENTS_OF_BOTH: u16 = 3;

/// Puts the recordings before and after into one profile. Times after begin
/// where those before do.
///
/// # Errors
/// If they have no event with samples in common.
pub fn both(names: [&str; 2], before: &Profile, after: &Profile) -> Result<Profile, Incomparable> {
    let events = common_events(before, after);
    if events.is_empty() {
        return Err(Incomparable::Event {
            first: names[0].to_owned(),
            of_first: sampled_events(before),
            other: names[1].to_owned(),
            of_other: sampled_events(after),
        });
    }
    let of = |profile, ids: &mut dyn Iterator<Item = EventId>| -> Vec<Functions> {
        ids.map(|id| Functions::of(profile, id)).collect()
    };
    let counterparts = Counterparts::of(
        &of(before, &mut events.iter().map(|it| it.0)),
        &of(after, &mut events.iter().map(|it| it.1)),
    );
    let mut joined = Joined::new(before, &counterparts);
    joined.add_code(after);
    let samples = [
        joined.samples(before, &[], 0),
        joined.samples_after(before, after),
    ];
    let mut profile = joined.profile;
    profile.events = events
        .iter()
        .flat_map(|&(left, right)| three_of(before, after, (left, right)))
        .collect();
    let mut rows = Vec::new();
    for (side, list) in (1..).zip(samples) {
        for sample in list {
            let is_of = |(left, right): &(EventId, EventId)| match side {
                1 => *left == sample.event,
                _ => *right == sample.event,
            };
            let Some(at) = events.iter().position(is_of) else {
                continue;
            };
            let base = u16::try_from(at)
                .unwrap_or(0)
                .saturating_mul(EVENTS_OF_BOTH);
            for event in [base, base + side] {
                let event = EventId(event);
                rows.push(Sample { event, ..sample });
            }
        }
    }
    rows.sort_by_key(|sample| sample.time);
    for row in rows {
        profile.samples.push(row);
    }
    Ok(profile)
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

/// The events that both have, by name, with samples on either side.
fn common_events(before: &Profile, after: &Profile) -> Vec<(EventId, EventId)> {
    let ids = |profile: &Profile, name: &str| {
        let at = profile.events.iter().position(|event| event.name == name)?;
        u16::try_from(at).ok().map(EventId)
    };
    let both = before.events.iter().filter_map(|event| {
        let (left, right) = (ids(before, &event.name)?, ids(after, &event.name)?);
        let other = after.events.get(usize::from(right.0))?;
        (event.samples > 0 && other.samples > 0).then_some((left, right))
    });
    both.collect()
}

/// The three events that a pair becomes.
fn three_of(before: &Profile, after: &Profile, (left, right): (EventId, EventId)) -> [Event; 3] {
    let of = |profile: &Profile, id: EventId| {
        let event = profile.events.get(usize::from(id.0));
        event.cloned().unwrap_or_default()
    };
    let (before, after) = (of(before, left), of(after, right));
    let named = |event: &Event, side: &str| Event {
        name: format!("{}, {side}", event.name),
        ..event.clone()
    };
    let sum = Event {
        samples: before.samples.saturating_add(after.samples),
        period: before.period.saturating_add(after.period),
        lost: before.lost.saturating_add(after.lost),
        has_callchain: before.has_callchain || after.has_callchain,
        is_overwritten: before.is_overwritten || after.is_overwritten,
        ..before.clone()
    };
    [
        named(&sum, "both sides"),
        named(&before, "before"),
        named(&after, "after"),
    ]
}

/// What makes a function the same: what both sides know it as, and where it has
/// no name its place.
#[derive(PartialEq, Eq, Hash)]
enum Same {
    Named((String, String)),
    Unnamed(DsoId, UnnamedReason, Svma),
}

/// What a file after is in the new profile.
#[derive(Debug, Clone, Copy, Default)]
struct FileAfter {
    /// As which it is shown: the same file before, if there is one.
    shown: DsoId,
    /// Whose code it has: another build has other addresses.
    build: DsoId,
}

/// The profile that is made, with the code of one side or both.
struct Joined<'a> {
    profile: Profile,
    counterparts: &'a Counterparts,
    functions: FxHashMap<Same, FunctionId>,
    /// Handles after, in the new profile.
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
            stacks: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// Adds dsos, functions, locations, stacks and tasks of the other side.
    fn add_code(&mut self, after: &Profile) {
        let dsos = self.dsos(after);
        let of = |id: DsoId| dsos.get(id.0 as usize).copied().unwrap_or_default();
        let functions: Vec<FunctionId> = after
            .functions
            .iter()
            .map(|function| self.function(after, function, of(function.dso)))
            .collect();
        let function = |id: FunctionId| {
            functions
                .get(id.0 as usize)
                .copied()
                .unwrap_or(FunctionId(0))
        };
        let locations = self.add_locations(after, of, function);
        self.add_stacks(after, &locations);
        for task in &after.tasks {
            let id = u32::try_from(self.profile.tasks.len()).unwrap_or(u32::MAX);
            self.tasks.push(TaskId(id));
            let comm = self.name(after, task.comm);
            self.profile.tasks.push(Task { comm, ..*task });
        }
        self.add_trust(after);
    }

    /// The new ids of the other side's locations.
    fn add_locations(
        &mut self,
        after: &Profile,
        file: impl Fn(DsoId) -> FileAfter,
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

    fn add_stacks(&mut self, after: &Profile, locations: &[LocationId]) {
        self.stacks = vec![StackId::EMPTY];
        for index in 1..after.stacks.len() {
            let id = StackId(u32::try_from(index).unwrap_or(u32::MAX));
            let new = after.stacks.get(id).map(|(caller, location)| {
                let caller = self.stacks.get(caller.0 as usize).copied();
                let location = locations.get(location.0 as usize).copied();
                let location = location.unwrap_or(LocationId(0));
                self.profile
                    .stacks
                    .push(caller.unwrap_or(StackId::EMPTY), location)
            });
            self.stacks.push(new.unwrap_or(StackId::EMPTY));
        }
        self.profile.stacks.freeze();
    }

    fn name(&mut self, after: &Profile, name: NameId) -> NameId {
        self.profile.names.intern(after.name(name))
    }

    /// By dso after: the same file before, a file that took its place, or one
    /// of its own.
    fn dsos(&mut self, after: &Profile) -> Vec<FileAfter> {
        let old: FxHashMap<(DsoKind, String), usize> = (0..self.profile.dsos.len())
            .rev()
            .filter_map(|at| {
                let dso = self.profile.dsos.get(at)?;
                let name = plain_dso(self.profile.name(dso.short_name));
                Some(((dso.kind, name.to_owned()), at))
            })
            .collect();
        let mut found = Vec::with_capacity(after.dsos.len());
        for dso in &after.dsos {
            let name = self.counterparts.file_before(after.name(dso.short_name));
            let known = old.get(&(dso.kind, name.to_owned())).copied();
            let before = known.and_then(|known| self.profile.dsos.get(known)?.build_id);
            let is_rebuilt = before.zip(dso.build_id).is_some_and(|(a, b)| a != b);
            let known = known.map(|known| DsoId(u32::try_from(known).unwrap_or(u32::MAX)));
            let build = match known {
                Some(known) if !is_rebuilt => known,
                _ => self.add_dso(after, dso),
            };
            let shown = known.unwrap_or(build);
            found.push(FileAfter { shown, build });
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
    fn function(&mut self, after: &Profile, function: &Function, file: FileAfter) -> FunctionId {
        let [dso, name] = names(after, function);
        let mut renamed = None;
        let same = match function.unnamed {
            Some(why) => Same::Unnamed(file.build, why, function.start),
            None => {
                let known = self.counterparts.known_after(dso, name);
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

    /// The samples of one side, with the stacks and tasks that they have now.
    fn samples(&mut self, profile: &Profile, moved: &[StackId], later: u64) -> Vec<Sample> {
        let mut rows = Vec::with_capacity(profile.samples.len());
        for (row, sample) in profile.samples.iter().enumerate() {
            let wait = sample.wait.and_then(|id| profile.samples.wait(id));
            // Put back where others count it: that it has no time is known by then.
            let apart = wait.filter(|wait| wait.counted == Counted::ByOthers);
            let apart = apart.and_then(|_| profile.samples.wait_length(row));
            let stack = match moved.is_empty() {
                true => Some(sample.stack),
                false => moved.get(sample.stack.0 as usize).copied(),
            };
            rows.push(Sample {
                time: sample.time.wrapping_add(later),
                stack: stack.unwrap_or(StackId::EMPTY),
                wait: wait.map(|wait| self.profile.samples.wait_id(*wait)),
                period: apart.unwrap_or(sample.period),
                ..sample
            });
        }
        rows
    }

    fn samples_after(&mut self, before: &Profile, after: &Profile) -> Vec<Sample> {
        let first = |profile: &Profile| profile.samples.times().min().unwrap_or(0);
        let later = first(before).wrapping_sub(first(after));
        let moved = std::mem::take(&mut self.stacks);
        let mut rows = self.samples(after, &moved, later);
        for row in &mut rows {
            let task = self.tasks.get(row.task.0 as usize).copied();
            row.task = task.unwrap_or(row.task);
        }
        let (Some(range), Some(last)) = (
            self.profile.origin.time_range.as_mut(),
            rows.iter().map(|row| row.time).max(),
        ) else {
            return rows;
        };
        range.1 = range.1.max(last);
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
    use super::{EVENTS_OF_BOTH, both};
    use prof_abi::BuildId;
    use prof_profile::{EventId, FunctionId, Profile};
    use prof_report::code::{Build, NoSource, Syntax};
    use prof_report::model::{Scene, Selection};
    use prof_sketch::Sketch;

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
        let joined = both(["a", "b"], &before, &after).expect("one event");
        assert_eq!(joined.events.len(), usize::from(EVENTS_OF_BOTH));
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
        let joined = both(["a", "b"], &before, &after).expect("one event");
        let [old, new] = [&before, &after].map(|side| side.dsos[0].build_id);
        assert_eq!(view(&joined, "hot"), (new, 120, 50));
        assert_eq!(view(&joined, "gone"), (old, 10, 0));
        // Of one build, nothing is of another.
        let same = both(["a", "b"], &after, &after).expect("one event");
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
        let joined = both(["a", "b"], &before, &after).expect("one event");
        let named = ["main", "read_header (was parse)", "emit"];
        assert_eq!(names(&joined), named);
        // Of another size it is another function.
        after.functions[1].size = 0x200;
        let joined = both(["a", "b"], &before, &after).expect("one event");
        assert_eq!(names(&joined), ["main", "parse", "emit", "read_header"]);
    }

    #[test]
    fn without_a_common_event_both_are_named() {
        let before = recording(&[("app:f", 1)]);
        let after = recording(&[]);
        let error = both(["a.data", "b.data"], &before, &after).expect_err("no samples");
        assert!(error.to_string().contains("b.data"), "{error}");
    }
}
