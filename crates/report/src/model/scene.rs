//! A scene: a profile seen through a selection.

use super::apart::Apart;
use super::cut::CutStacks;
use super::judge::Shown;
use super::paths::{ScenePaths, StackPaths};
use super::select::Scope;
use super::site::SiteMaker;
use super::tally::{Split, Tally};
use super::trace::Traced;
use super::transform::apply;
use super::{CallTree, NodeId, Selection, SelfOf, SiteId, SiteKind, Sites, Weight};
use prof_profile::{Event, Profile, StackId};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A profile seen through a selection: the paths of its stacks, made once and
/// shared by all tables and trees.
pub struct Scene<'p> {
    profile: &'p Profile,
    selection: Selection,
    sites: Arc<Sites>,
    paths: ScenePaths,
    cut: Option<CutStacks>,
    /// Samples that were split before anyone asked.
    counted: Mutex<Option<(Split, Tally)>>,
    /// The same in order; of them alone that are shown, if so.
    traced: Mutex<Option<(Split, bool, Traced)>>,
    /// The samples without splitting; made when first asked for.
    whole: OnceLock<(Arc<CallTree>, Weight)>,
}

impl<'p> Scene<'p> {
    /// The scene of `selection`. Takes time in proportion to the samples and
    /// the distinct stacks.
    pub fn new(profile: &'p Profile, selection: Selection) -> Self {
        let cut = CutStacks::new(profile, selection.cut.as_ref());
        let paths = paths(profile, &selection, cut.as_ref());
        Self::of_paths(profile, selection, cut, paths)
    }

    /// The same; meanwhile its samples are split for a table by `aparts`,
    /// with time slices of `quantum` ns. If it is to tell how sure its rows are,
    /// `intervals` says whether of shares of what is shown.
    pub(crate) fn for_table(
        profile: &'p Profile,
        selection: Selection,
        (aparts, quantum): (&[Apart], u64),
        intervals: Option<bool>,
    ) -> Self {
        let split = Split::of(aparts, quantum);
        let cut = CutStacks::new(profile, selection.cut.as_ref());
        let of = (profile, &selection);
        let count = || match intervals {
            None => (Tally::new(of, cut.as_ref(), &split), None),
            Some(relative) => {
                let (tally, traced) = Traced::tally(of, cut.as_ref(), &split, relative);
                (tally, Some((split.clone(), relative, traced)))
            }
        };
        let (paths, (tally, traced)) =
            rayon::join(|| paths(profile, &selection, cut.as_ref()), count);
        Self {
            counted: Mutex::new(Some((split, tally))),
            traced: Mutex::new(traced),
            ..Self::of_paths(profile, selection, cut, paths)
        }
    }

    fn of_paths(
        profile: &'p Profile,
        selection: Selection,
        cut: Option<CutStacks>,
        paths: StackPaths,
    ) -> Self {
        let (paths, sites) = paths.finished();
        Self {
            profile,
            selection,
            cut,
            sites: Arc::new(sites),
            paths,
            counted: Mutex::default(),
            traced: Mutex::default(),
            whole: OnceLock::new(),
        }
    }

    fn whole(&self) -> &(Arc<CallTree>, Weight) {
        self.whole.get_or_init(|| {
            let tally = self.tally(&Split::default());
            let tree = CallTree::new(&self.paths, tally.cells);
            (Arc::new(tree), tally.scope_total)
        })
    }

    pub(crate) fn tally(&self, split: &Split) -> Tally {
        let counted = self.counted.lock();
        let counted = counted.unwrap_or_else(PoisonError::into_inner).take();
        match counted {
            Some((known, tally)) if known == *split => tally,
            _ => Tally::new((self.profile, &self.selection), self.cut(), split),
        }
    }

    /// Its samples in order, split; with `relative`, only those that are shown.
    pub(super) fn traced(&self, split: &Split, relative: bool) -> Traced {
        let traced = self.traced.lock();
        let traced = traced.unwrap_or_else(PoisonError::into_inner).take();
        match traced {
            Some((known, shown, traced)) if (&known, shown) == (split, relative) => traced,
            _ => Traced::tally((self.profile, &self.selection), self.cut(), split, relative).1,
        }
    }

    /// Where its stacks are cut, if they are.
    pub(crate) fn cut(&self) -> Option<&CutStacks> {
        self.cut.as_ref()
    }

    /// The stack whose path is what is left of this one.
    pub(crate) fn left_of(&self, stack: StackId) -> StackId {
        self.cut().map_or(stack, |cut| cut.left_of(stack))
    }

    /// The profile it shows.
    pub fn profile(&self) -> &'p Profile {
        self.profile
    }

    /// What it was made from.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Its event, `None` in a profile without events.
    pub fn event(&self) -> Option<&'p Event> {
        self.profile.events.get(self.selection.event.0 as usize)
    }

    /// The frames that its stacks are made of.
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// [`Scene::sites`], to keep beyond the scene.
    pub fn shared_sites(&self) -> Arc<Sites> {
        Arc::clone(&self.sites)
    }

    /// [`Scene::tree`], to keep beyond the scene.
    pub fn shared_tree(&self) -> Arc<CallTree> {
        Arc::clone(&self.whole().0)
    }

    /// By `StackId`: period of the shown samples with exactly this stack;
    /// none for stacks that a transform took out.
    pub fn weights_by_stack(&self) -> Vec<u64> {
        self.by_stack(|weight| weight.period)
    }

    /// By `StackId`: how many of the shown samples have exactly this stack.
    pub fn samples_by_stack(&self) -> Vec<u64> {
        self.by_stack(|weight| weight.samples)
    }

    fn by_stack(&self, of: impl Fn(Weight) -> u64) -> Vec<u64> {
        let mut weights = vec![0_u64; self.paths.stacks()];
        for cell in self.tally(&Split::default()).cells {
            let is_shown = self.path_of(cell.stack).is_some();
            if let Some(slot) = weights.get_mut(cell.stack.0 as usize).filter(|_| is_shown) {
                *slot = slot.saturating_add(of(cell.weight));
            }
        }
        weights
    }

    /// The call tree of all shown samples, top-down.
    pub fn tree(&self) -> &CallTree {
        &self.whole().0
    }

    /// Weight of what is shown; the sum of all self weights of any view.
    pub fn total(&self) -> Weight {
        self.tree().total(NodeId::ROOT)
    }

    /// Weight of the scope: also what filters and transforms hide.
    pub fn scope_total(&self) -> Weight {
        self.whole().1
    }

    /// Its paths, and which stack is which.
    pub(crate) fn paths(&self) -> &ScenePaths {
        &self.paths
    }

    /// The frame that the samples taken at a node of a tree of its paths belong
    /// to; `None` for those without a frame.
    pub(crate) fn self_site_at(&self, tree: &CallTree, node: NodeId) -> Option<SiteId> {
        self.self_site(tree.outwards(node).filter_map(|at| tree.site(at)))
    }

    /// The frame that samples with these frames, innermost first, belong to;
    /// `None` for those without a frame.
    pub(crate) fn self_site(&self, frames: impl Iterator<Item = SiteId>) -> Option<SiteId> {
        let Some(cut) = &self.cut else {
            return self.self_of(frames);
        };
        let frames: Vec<SiteId> = frames.collect();
        match cut.cut_at(&self.sites, frames.iter().rev().copied()) {
            Some(here) => self.self_of(here.into_iter().rev()),
            None => self.self_of(frames.into_iter()),
        }
    }

    fn self_of(&self, mut frames: impl Iterator<Item = SiteId>) -> Option<SiteId> {
        let own = frames.next()?;
        let is_host = |&site: &SiteId| self.sites.get(site).kind != SiteKind::Inline;
        Some(match self.selection.self_of {
            SelfOf::Innermost => own,
            SelfOf::HostAtLine => self.sites.around(own),
            SelfOf::Host => std::iter::once(own)
                .chain(frames)
                .find(is_host)
                .unwrap_or(own),
        })
    }

    /// The path of a stack, `None` if a transform took it out.
    pub(crate) fn path_of(&self, stack: prof_profile::StackId) -> Option<NodeId> {
        self.paths.of_stack(stack)
    }

    /// By `SiteId`: the number of the site's function, the same for inlined
    /// and called ones. What [`super::Growth`] takes for a view by function;
    /// equal to the `FunctionId`, unless a dso was merged.
    pub fn function_keys(&self) -> Vec<u32> {
        let first_dso = self.profile.functions.len() as u32;
        self.sites
            .iter()
            .map(|site| match site.kind {
                SiteKind::Dso => first_dso.saturating_add(site.dso.0),
                SiteKind::Function | SiteKind::Inline => site.function.0,
            })
            .collect()
    }

    /// Which samples pass the filters, whatever their time.
    pub(crate) fn shown_cells(&self) -> Shown {
        let scope = Scope {
            times: Vec::new(),
            ..self.selection.scope.clone()
        };
        let judged = |stack| {
            self.path_of(self.left_of(stack))?;
            Some(self.cut().map_or(stack, |cut| cut.up_to(stack)))
        };
        Shown::new(self.profile, &self.selection.filter, &scope, judged)
    }
}

/// The paths of all stacks, as the transforms leave them.
fn paths(profile: &Profile, selection: &Selection, cut: Option<&CutStacks>) -> StackPaths {
    let maker = SiteMaker::new(profile, selection);
    let begins_at = |location| cut.is_some_and(|cut| cut.begins_at(profile, location));
    let mut all = StackPaths::new(profile, maker, begins_at);
    for &transform in &selection.transforms {
        let (new, map) = apply(transform, &all.paths, &mut all.sites);
        all.paths = new;
        for node in &mut all.of_stack {
            *node = map.get(node.index()).copied().unwrap_or(NodeId::NONE);
        }
    }
    all.sites.freeze();
    all
}
