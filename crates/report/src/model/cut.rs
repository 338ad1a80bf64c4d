//! Stacks that are cut at functions with certain names.

use super::{Cut, SiteId, SiteKind, Sites, StackEnd};
use prof_profile::{LocationId, Profile, StackId};

/// Where the stacks of a profile are cut.
#[derive(Debug)]
pub(crate) struct CutStacks {
    keeps: StackEnd,
    /// By `FunctionId`: whether its name matches.
    matching: Vec<bool>,
    /// By `StackId`: the stack from its start to the frame that it is cut at;
    /// the whole one where there is no such frame.
    up_to: Vec<StackId>,
}

impl CutStacks {
    /// Nothing where stacks are whole. Takes time in proportion to the
    /// distinct stacks.
    pub(crate) fn new(profile: &Profile, cut: Option<&Cut>) -> Option<Self> {
        let cut = cut?;
        let functions = profile.functions.iter();
        let matching = functions.map(|function| {
            function.unnamed.is_none() && cut.pattern.is_match(profile.name(function.name))
        });
        let mut stacks = Self {
            keeps: cut.keeps,
            matching: matching.collect(),
            up_to: Vec::with_capacity(profile.stacks.len()),
        };
        stacks.find(profile);
        Some(stacks)
    }

    fn find(&mut self, profile: &Profile) {
        let mut is_cut: Vec<bool> = Vec::with_capacity(profile.stacks.len());
        // A caller's id is smaller than its callees'.
        for index in 0..profile.stacks.len() {
            let id = StackId(index as u32);
            let own = profile.stacks.get(id);
            let caller = own.map_or(0, |(caller, _)| caller.0 as usize);
            let above = own.is_some() && is_cut.get(caller) == Some(&true);
            let here = own.is_some_and(|(_, location)| self.is_cut_at(profile, location));
            let outer = self.up_to.get(caller).copied().filter(|_| above);
            self.up_to.push(match self.keeps {
                StackEnd::Outermost => outer.unwrap_or(id),
                StackEnd::Leaf => outer.filter(|_| !here).unwrap_or(id),
            });
            is_cut.push(above || here);
        }
    }

    /// As in perf, inlined functions cut no stack.
    fn is_cut_at(&self, profile: &Profile, location: LocationId) -> bool {
        let host = profile.frames_at(location).last();
        host.is_some_and(|host| self.matching.get(host.function.0 as usize) == Some(&true))
    }

    /// The stack whose leaf is what samples with `stack` belong to.
    pub(crate) fn up_to(&self, stack: StackId) -> StackId {
        let known = self.up_to.get(stack.0 as usize);
        known.copied().unwrap_or(stack)
    }

    /// The stack whose path is what is left of `stack`.
    pub(crate) fn left_of(&self, stack: StackId) -> StackId {
        match self.keeps {
            StackEnd::Outermost => self.up_to(stack),
            // Its path begins at the cut, see `begins_at`.
            StackEnd::Leaf => stack,
        }
    }

    /// Whether paths begin anew at a location.
    pub(crate) fn begins_at(&self, profile: &Profile, location: LocationId) -> bool {
        self.keeps == StackEnd::Leaf && self.is_cut_at(profile, location)
    }

    /// Of the frames of a path, outermost first, those of the place that it
    /// was cut at, in the same order; its samples belong there. `None` where
    /// they belong to the leaf.
    pub(crate) fn cut_at(
        &self,
        sites: &Sites,
        frames: impl Iterator<Item = SiteId>,
    ) -> Option<Vec<SiteId>> {
        let mut frames = frames;
        let first = frames.next().filter(|_| self.keeps == StackEnd::Leaf)?;
        let function = sites.get(first).function;
        if self.matching.get(function.0 as usize) != Some(&true) {
            return None;
        }
        let is_inlined = |id: &SiteId| sites.get(*id).kind == SiteKind::Inline;
        let inlined = frames.take_while(is_inlined);
        Some(std::iter::once(first).chain(inlined).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SYMBOL;
    use crate::model::{Rows, RowsOptions, Scene, Selection};
    use prof_sketch::Sketch;

    /// Each row's name, own and total period.
    fn rows(keeps: StackEnd) -> Vec<(String, u64, u64)> {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "main;f;g;f;h", 1, 10);
        sketch.sample(task, "main;g;h", 2, 5);
        let pattern = regex::Regex::new("^f$").expect("a pattern");
        let selection = Selection {
            cut: Some(Cut { pattern, keeps }),
            ..Selection::default()
        };
        let scene = Scene::new(&sketch.profile, selection);
        let rows = Rows::new(&scene, &RowsOptions::by(vec![SYMBOL.apart()]));
        let name = |site: SiteId| scene.sites().get(site).name(&sketch.profile).to_owned();
        let rows = rows.list().iter();
        rows.map(|row| {
            let name = row.site.map(name).expect("a frame");
            (name, row.own.period, row.total.period)
        })
        .collect()
    }

    fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
        (name.to_owned(), own, total)
    }

    #[test]
    fn without_callees_a_stack_ends_at_the_outermost_match() {
        let expected = [
            row("main", 0, 15),
            row("f", 10, 10),
            row("h", 5, 5),
            row("g", 0, 5),
        ];
        assert_eq!(rows(StackEnd::Outermost), expected);
    }

    #[test]
    fn without_callers_a_stack_begins_at_the_innermost_match_and_belongs_to_it() {
        let expected = [
            row("h", 5, 15),
            row("f", 10, 10),
            row("main", 0, 5),
            row("g", 0, 5),
        ];
        assert_eq!(rows(StackEnd::Leaf), expected);
    }
}
