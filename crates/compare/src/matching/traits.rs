//! What functions of a recording are recognised by beside their names.

use super::{plain_dso, plain_symbol};
use prof_profile::{DsoKind, EventId, FunctionId, Profile, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A function in any build: its file and its name, both without what changes
/// from build to build.
pub(crate) type Name = (String, String);

/// By a function's place in a list: part of the weight of a recording.
pub(crate) type Parts = FxHashMap<usize, f64>;

/// Calls in which fewer samples were are no evidence.
pub(crate) const SAMPLES_OF_CALLS: f64 = 20.0;

/// What one function is recognised by.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Traits {
    /// Its own code, where it stands in the file; part of the whole.
    pub(crate) own: f64,
    /// Who calls it, and what it calls: part of the whole that is in the call.
    pub(crate) callers: Parts,
    pub(crate) callees: Parts,
    /// Functions that are inlined in it: part of the whole in their code there
    /// and in what is inlined in that.
    pub(crate) inlined: Parts,
    /// Length of its code, bytes; 0 if not known.
    pub(crate) size: u64,
}

/// The functions of recordings, with the properties by which they are matched.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    pub(crate) names: Vec<Name>,
    pub(crate) traits: Vec<Traits>,
    index: FxHashMap<Name, usize>,
    /// Weight of all samples, in the event's unit, and their number.
    whole: u64,
    samples: u64,
    /// Files that were run as programs, without their versions.
    pub(crate) programs: FxHashSet<String>,
}

impl Functions {
    /// The functions of one event of a profile; takes time in proportion to its
    /// samples and stacks. Functions without a name are left out.
    pub fn of(profile: &Profile, event: EventId) -> Self {
        let mut functions = Self {
            programs: programs(profile),
            ..Self::default()
        };
        let own = functions.own_weights(profile, event);
        let whole = functions.whole();
        let places: Vec<Option<usize>> = (0..profile.functions.len())
            .map(|at| functions.place_of(profile, at))
            .collect();
        let place = |id: FunctionId| places.get(id.0 as usize).copied().flatten();
        let mut through = own.clone();
        for id in (1..profile.stacks.len()).rev() {
            let weight = through.get(id).copied().unwrap_or(0);
            let stack = profile.stacks.get(StackId(id as u32));
            let Some((caller, location)) = stack.filter(|_| weight > 0) else {
                continue;
            };
            if let Some(outer) = through.get_mut(caller.0 as usize) {
                *outer = outer.saturating_add(weight);
            }
            let frames = profile.frames_at(location);
            let host = frames.last().and_then(|frame| place(frame.function));
            let (Some(called), Some((_, inner))) = (host, frames.split_last()) else {
                continue;
            };
            let calling = profile.stacks.get(caller);
            let calling = calling.and_then(|(_, at)| profile.frames_at(at).first());
            if let Some(calling) = calling.and_then(|frame| place(frame.function)) {
                functions.call((calling, called), weight as f64 / whole);
            }
            let own = own.get(id).copied().unwrap_or(0);
            if let Some(traits) = functions.traits.get_mut(called).filter(|_| own > 0) {
                let part = own as f64 / whole;
                traits.own += part;
                for inlined in inner.iter().filter_map(|frame| place(frame.function)) {
                    *traits.inlined.entry(inlined).or_default() += part;
                }
            }
        }
        functions
    }

    /// Weight of all samples, in the event's unit; at least 1.
    pub(crate) fn whole(&self) -> f64 {
        self.whole.max(1) as f64
    }

    /// How many samples.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// By `StackId`: weight of the samples with exactly this stack. All are
    /// counted.
    fn own_weights(&mut self, profile: &Profile, event: EventId) -> Vec<u64> {
        let mut weights = vec![0_u64; profile.stacks.len()];
        for sample in profile.samples.iter().filter(|it| it.event == event) {
            self.samples += 1;
            self.whole = self.whole.saturating_add(sample.period);
            if let Some(weight) = weights.get_mut(sample.stack.0 as usize) {
                *weight = weight.saturating_add(sample.period);
            }
        }
        weights
    }

    fn place_of(&mut self, profile: &Profile, at: usize) -> Option<usize> {
        let function = profile.functions.get(at)?;
        if function.unnamed.is_some() {
            return None;
        }
        let dso = profile.name(profile.dso(function.dso).short_name);
        let symbol = profile.name(function.name);
        let name = (plain_dso(dso).to_owned(), plain_symbol(symbol).into_owned());
        let place = self.place(name);
        if let Some(traits) = self.traits.get_mut(place) {
            traits.size = traits.size.max(function.size);
        }
        Some(place)
    }

    /// The place of this function, added if it is not there yet.
    pub(crate) fn place(&mut self, name: Name) -> usize {
        let next = self.names.len();
        let place = *self.index.entry(name.clone()).or_insert(next);
        if place == next {
            self.names.push(name);
            self.traits.push(Traits::default());
        }
        place
    }

    /// Where this function is, if it was met.
    pub(crate) fn find(&self, name: &Name) -> Option<usize> {
        self.index.get(name).copied()
    }

    pub(crate) fn call(&mut self, (calling, called): (usize, usize), part: f64) {
        if calling == called {
            return;
        }
        if let Some(traits) = self.traits.get_mut(calling) {
            *traits.callees.entry(called).or_default() += part;
        }
        if let Some(traits) = self.traits.get_mut(called) {
            *traits.callers.entry(calling).or_default() += part;
        }
    }

    /// Adds those of another recording, each part `factor` times, under the
    /// names that `named` gives them.
    pub(crate) fn add(&mut self, other: &Self, factor: f64, named: impl Fn(&Name) -> Name) {
        self.samples = self.samples.saturating_add(other.samples);
        self.programs.extend(other.programs.iter().cloned());
        let names = other.names.iter().map(|name| self.place(named(name)));
        let places: Vec<usize> = names.collect();
        for (traits, &place) in other.traits.iter().zip(&places) {
            let Some(sum) = self.traits.get_mut(place) else {
                continue;
            };
            sum.own += traits.own * factor;
            sum.size = sum.size.max(traits.size);
            for (sum, parts) in [
                (&mut sum.callers, &traits.callers),
                (&mut sum.callees, &traits.callees),
                (&mut sum.inlined, &traits.inlined),
            ] {
                for (&at, part) in parts {
                    let at = places.get(at).copied().unwrap_or(at);
                    *sum.entry(at).or_default() += part * factor;
                }
            }
        }
    }
}

impl Traits {
    /// Whether anything was seen of it.
    pub(crate) fn is_met(&self) -> bool {
        self.total() > 0.0 || !self.callers.is_empty()
    }

    /// Part of the whole in it or in what it calls; of recursion more.
    pub(crate) fn total(&self) -> f64 {
        self.own + sum(&self.callees)
    }
}

/// Bytes of a thread's name that the kernel keeps.
const COMM: usize = 15;

/// Files that sampled threads are named for: a process is named for the file
/// that it runs, cut to [`COMM`] bytes.
fn programs(profile: &Profile) -> FxHashSet<String> {
    let tasks = profile.tasks.iter();
    let comms: FxHashSet<&str> = tasks.map(|task| profile.name(task.comm)).collect();
    let files = profile
        .dsos
        .iter()
        .filter(|dso| dso.kind == DsoKind::File)
        .map(|dso| profile.name(dso.short_name));
    let programs = files.filter(|name| comms.contains(name.get(..COMM).unwrap_or(name)));
    programs.map(|name| plain_dso(name).to_owned()).collect()
}

/// Of all parts.
pub(crate) fn sum(parts: &Parts) -> f64 {
    parts.values().sum()
}
