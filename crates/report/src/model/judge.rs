//! Which samples count, and which of them are shown.

use super::Selection;
use super::cut::CutStacks;
use super::select::{Filter, ModeFilter, Scope};
use crate::short::is_in_any_form;
use prof_abi::CpuMode;
use prof_profile::{DsoKind, EventId, NameId, Profile, Sample, StackId, TaskId};

/// What becomes of samples with a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Counted and shown.
    Shown,
    /// In the scope, but hidden by a filter.
    Hidden,
    /// Not in the scope.
    Outside,
}

/// Judges stacks, each leaf location once.
struct Judge<'a> {
    profile: &'a Profile,
    scope: &'a Scope,
    filter: &'a Filter,
    leaf: Vec<Option<Fate>>,
    /// By `StackId`, where the whole stack decides.
    whole: Vec<Option<Fate>>,
    /// Functions whose name matches the filter's pattern.
    matching: Vec<bool>,
}

impl<'a> Judge<'a> {
    fn new(profile: &'a Profile, scope: &'a Scope, filter: &'a Filter) -> Self {
        let matching = filter.frame.as_ref().map_or_else(Vec::new, |pattern| {
            profile
                .functions
                .iter()
                .map(|function| {
                    let name = profile.name(function.name);
                    is_in_any_form(name, |form| pattern.is_match(form))
                })
                .collect()
        });
        Self {
            profile,
            scope,
            filter,
            leaf: vec![None; profile.locations.len()],
            whole: vec![
                None;
                if filter.frame.is_some() {
                    profile.stacks.len()
                } else {
                    0
                }
            ],
            matching,
        }
    }

    fn is_idle(&self) -> bool {
        !self.scope.named_only
            && self.filter.dsos.is_empty()
            && self.filter.symbols.is_empty()
            && self.filter.mode.is_none()
            && self.filter.frame.is_none()
    }

    fn fate(&mut self, stack: StackId) -> Fate {
        if self.is_idle() {
            return Fate::Shown;
        }
        let Some((_, location)) = self.profile.stacks.get(self.code_of(stack)) else {
            return if self.scope.named_only {
                Fate::Outside
            } else {
                Fate::Hidden
            };
        };
        let known = self.leaf.get(location.0 as usize).copied().flatten();
        let fate = known.unwrap_or_else(|| self.leaf_fate(location));
        if let Some(slot) = self.leaf.get_mut(location.0 as usize) {
            *slot = Some(fate);
        }
        if fate == Fate::Shown && self.filter.frame.is_some() {
            return self.whole_fate(stack);
        }
        fate
    }

    /// The stack without the state that stands on top of a wait: filters are for
    /// code.
    fn code_of(&self, stack: StackId) -> StackId {
        let top = self.profile.stacks.get(stack);
        let is_state = |place| {
            let dso = self.profile.dso(self.profile.location(place).dso);
            matches!(dso.kind, DsoKind::Waiting | DsoKind::Runnable)
        };
        match top {
            Some((caller, place)) if is_state(place) => caller,
            _ => stack,
        }
    }

    /// What becomes of a stack whose leaf passes.
    fn whole_fate(&mut self, stack: StackId) -> Fate {
        let known = self.whole.get(stack.0 as usize).copied().flatten();
        let fate = known.unwrap_or_else(|| {
            if self.any_frame_matches(stack) {
                Fate::Shown
            } else {
                Fate::Hidden
            }
        });
        if let Some(slot) = self.whole.get_mut(stack.0 as usize) {
            *slot = Some(fate);
        }
        fate
    }

    fn leaf_fate(&self, id: prof_profile::LocationId) -> Fate {
        let (profile, filter) = (self.profile, self.filter);
        let location = profile.location(id);
        let host = profile
            .frames_at(id)
            .last()
            .map(|frame| profile.function(frame.function));
        let named = host.is_some_and(|function| function.unnamed.is_none());
        if self.scope.named_only && !named {
            return Fate::Outside;
        }
        let dso = profile.dso(location.dso);
        let dso_passes = filter.dsos.is_empty()
            || filter
                .dsos
                .iter()
                .any(|name| name == profile.name(dso.short_name) || name == profile.name(dso.path));
        let symbol_passes = filter.symbols.is_empty()
            || host.is_some_and(|function| {
                named
                    && filter
                        .symbols
                        .iter()
                        .any(|name| name == profile.name(function.name))
            });
        let mode_passes = match (filter.mode, location.mode) {
            (None, _) => true,
            (Some(ModeFilter::User), CpuMode::User | CpuMode::GuestUser) => true,
            (Some(ModeFilter::User), _) => false,
            (
                Some(ModeFilter::Kernel),
                CpuMode::Kernel | CpuMode::GuestKernel | CpuMode::Hypervisor,
            ) => true,
            (Some(ModeFilter::Kernel), _) => false,
        };
        if dso_passes && symbol_passes && mode_passes {
            Fate::Shown
        } else {
            Fate::Hidden
        }
    }

    fn any_frame_matches(&self, stack: StackId) -> bool {
        self.profile.stacks.locations(stack).any(|location| {
            self.profile.frames_at(location).iter().any(|frame| {
                self.matching
                    .get(frame.function.0 as usize)
                    .copied()
                    .unwrap_or(false)
            })
        })
    }
}

/// Which tasks pass a filter, by `TaskId`.
fn passing_tasks(profile: &Profile, filter: &Filter) -> Vec<bool> {
    let named = |comm: NameId| {
        filter.comms.is_empty() || filter.comms.iter().any(|name| name == profile.name(comm))
    };
    profile
        .tasks
        .iter()
        .map(|task| {
            (filter.pids.is_empty() || filter.pids.contains(&task.pid))
                && (filter.tids.is_empty() || filter.tids.contains(&task.tid))
                && named(task.comm)
        })
        .collect()
}

/// Judges samples by all that a selection asks for but the event.
pub(crate) struct Sieve<'a> {
    scope: &'a Scope,
    tasks: Vec<bool>,
    judge: Judge<'a>,
    cut: Option<&'a CutStacks>,
}

impl<'a> Sieve<'a> {
    pub(crate) fn new(
        profile: &'a Profile,
        selection: &'a Selection,
        cut: Option<&'a CutStacks>,
    ) -> Self {
        Self {
            scope: &selection.scope,
            tasks: passing_tasks(profile, &selection.filter),
            judge: Judge::new(profile, &selection.scope, &selection.filter),
            cut,
        }
    }

    /// What becomes of a sample.
    pub(crate) fn fate(&mut self, sample: &Sample) -> Fate {
        let cpus = &self.scope.cpus;
        let on_cpu = || sample.cpu.is_some_and(|cpu| cpus.contains(&cpu));
        if !self.scope.holds_time(sample.time) || !(cpus.is_empty() || on_cpu()) {
            return Fate::Outside;
        }
        let stack = self.cut.map_or(sample.stack, |cut| cut.up_to(sample.stack));
        let fate = self.judge.fate(stack);
        let passes = self.tasks.get(sample.task.0 as usize) == Some(&true);
        match fate {
            Fate::Shown if !passes => Fate::Hidden,
            fate => fate,
        }
    }
}

/// Whether any sample of any event passes all that the selection asks for.
pub fn any_sample_passes(profile: &Profile, selection: &Selection) -> bool {
    let cut = CutStacks::new(profile, selection.cut.as_ref());
    let mut sieve = Sieve::new(profile, selection, cut.as_ref());
    let mut samples = profile.samples.iter();
    samples.any(|sample| sieve.fate(&sample) == Fate::Shown)
}

/// By row: whether a selection shows the sample, of whichever event that is.
pub fn shown_rows(profile: &Profile, selection: &Selection) -> Vec<bool> {
    let cut = CutStacks::new(profile, selection.cut.as_ref());
    let mut sieve = Sieve::new(profile, selection, cut.as_ref());
    let rows = profile.samples.iter().enumerate();
    let is_shown = |(row, sample): (usize, Sample)| {
        let passes = selection.filter.takes(profile.samples.detail(row));
        passes && sieve.fate(&sample) == Fate::Shown
    };
    rows.map(is_shown).collect()
}

/// Which events have samples in the scope of a selection.
pub(crate) struct EventsInScope {
    /// By `EventId`; empty where the scope is all there is.
    has_samples: Vec<bool>,
}

impl EventsInScope {
    pub(crate) fn new(profile: &Profile, selection: &Selection) -> Self {
        let scope = &selection.scope;
        if scope.times.is_empty() && scope.cpus.is_empty() && !scope.named_only {
            return Self {
                has_samples: Vec::new(),
            };
        }
        let mut sieve = Sieve::new(profile, selection, None);
        let mut has_samples = vec![false; profile.events.len()];
        for sample in profile.samples.iter() {
            if let Some(has) = has_samples.get_mut(usize::from(sample.event.0))
                && !*has
            {
                *has = sieve.fate(&sample) != Fate::Outside;
            }
        }
        Self { has_samples }
    }

    /// Whether there is a scope, and no sample in it.
    pub(crate) fn holds_nothing(&self) -> bool {
        !self.has_samples.is_empty() && !self.has_samples.contains(&true)
    }

    /// Whether an event is shown: it has samples in the scope, or none has.
    pub(crate) fn shows(&self, event: EventId) -> bool {
        let own = self.has_samples.get(usize::from(event.0));
        own.is_none_or(|&has| has) || !self.has_samples.contains(&true)
    }
}

/// Which samples of a scene are shown.
pub(crate) struct Shown {
    tasks: Vec<bool>,
    /// By `StackId`.
    stacks: Vec<bool>,
    cpus: Vec<u32>,
}

impl Shown {
    /// `judged` says which stack decides for one; `None` where it is left out.
    pub(crate) fn new(
        profile: &Profile,
        filter: &Filter,
        scope: &Scope,
        judged: impl Fn(StackId) -> Option<StackId>,
    ) -> Self {
        let mut judge = Judge::new(profile, scope, filter);
        let stacks = (0..profile.stacks.len())
            .map(|index| StackId(index as u32))
            .map(|stack| judged(stack).is_some_and(|leaf| judge.fate(leaf) == Fate::Shown))
            .collect();
        Self {
            tasks: passing_tasks(profile, filter),
            stacks,
            cpus: scope.cpus.clone(),
        }
    }

    pub(crate) fn contains(&self, task: TaskId, cpu: Option<u32>, stack: StackId) -> bool {
        self.tasks.get(task.0 as usize).copied().unwrap_or(false)
            && self.stacks.get(stack.0 as usize).copied().unwrap_or(false)
            && (self.cpus.is_empty() || cpu.is_some_and(|cpu| self.cpus.contains(&cpu)))
    }
}
