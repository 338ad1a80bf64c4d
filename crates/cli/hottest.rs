//! The functions that most of a recording fell in.

use prof_profile::FunctionId;
use prof_report::model::{NodeId, Scene, SiteKind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The heaviest functions: as many as `least`, and all with `percent` of the
/// weight.
pub(crate) fn hottest(scene: &Scene<'_>, percent: f64, least: usize) -> Vec<FunctionId> {
    let (profile, total) = (scene.profile(), scene.total().period);
    let mut found = by_weight(scene);
    found.retain(|&(id, _)| profile.function(id).unnamed.is_none());
    let hot = found.partition_point(|&(_, weight)| is_hot(weight, total, percent));
    let hottest = found.into_iter().take(hot.max(least));
    hottest.map(|(id, _)| id).collect()
}

/// Functions with the weight that fell right there, heaviest first.
pub(crate) fn by_weight(scene: &Scene<'_>) -> Vec<(FunctionId, u64)> {
    let mut weights = BTreeMap::new();
    let tree = scene.tree();
    tree.walk(|node| {
        for function in functions_at(scene, node) {
            add(&mut weights, function, tree.own(node).period);
        }
    });
    heaviest(weights)
}

/// Functions with the weight of what they call, too, heaviest first.
pub(crate) fn by_whole_weight(scene: &Scene<'_>) -> Vec<(FunctionId, u64)> {
    let mut weights = BTreeMap::new();
    let tree = scene.tree();
    let mut on_stack = BTreeSet::new();
    tree.walk(|node| {
        let weight = tree.own(node).period;
        if weight == 0 {
            return;
        }
        on_stack.clear();
        let nodes = tree.outwards(node);
        on_stack.extend(nodes.flat_map(|node| functions_at(scene, node)));
        for &function in &on_stack {
            add(&mut weights, function, weight);
        }
    });
    heaviest(weights)
}

/// The function of a place in the tree, and the one in whose code it stands if it
/// is inlined there.
fn functions_at(scene: &Scene<'_>, node: NodeId) -> impl Iterator<Item = FunctionId> + use<> {
    let site = scene.tree().site(node).map(|site| scene.sites().get(site));
    let site = site.filter(|site| site.kind != SiteKind::Dso);
    let host = site.filter(|site| site.host != site.function);
    let function = site.map(|site| site.function);
    function.into_iter().chain(host.map(|site| site.host))
}

fn add(weights: &mut BTreeMap<FunctionId, u64>, function: FunctionId, weight: u64) {
    let sum = weights.entry(function).or_default();
    *sum = sum.saturating_add(weight);
}

fn heaviest(weights: BTreeMap<FunctionId, u64>) -> Vec<(FunctionId, u64)> {
    let mut found: Vec<(FunctionId, u64)> = weights.into_iter().collect();
    found.sort_by_key(|&(id, weight)| (Reverse(weight), id));
    found
}

/// Whether a function has `percent` of the weight.
#[expect(clippy::cast_precision_loss, reason = "compared with a rough limit")]
pub(crate) fn is_hot(weight: u64, total: u64, percent: f64) -> bool {
    weight > 0 && weight as f64 * 100.0 >= total as f64 * percent
}
