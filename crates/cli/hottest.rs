//! The functions that most of a recording fell in.

use prof_profile::FunctionId;
use prof_report::model::{Scene, SiteKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;

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
    let mut weights: BTreeMap<FunctionId, u64> = BTreeMap::new();
    let tree = scene.tree();
    tree.walk(|node| {
        let Some(site) = tree.site(node).map(|site| scene.sites().get(site)) else {
            return;
        };
        // What is inlined stands in its host's code.
        if site.kind != SiteKind::Dso {
            let mut add = |function| {
                let sum: &mut u64 = weights.entry(function).or_default();
                *sum = sum.saturating_add(tree.own(node).period);
            };
            add(site.function);
            if site.host != site.function {
                add(site.host);
            }
        }
    });
    let mut found: Vec<(FunctionId, u64)> = weights.into_iter().collect();
    found.sort_by_key(|&(id, weight)| (Reverse(weight), id));
    found
}

/// Whether a function has `percent` of the weight.
#[expect(clippy::cast_precision_loss, reason = "compared with a rough limit")]
pub(crate) fn is_hot(weight: u64, total: u64, percent: f64) -> bool {
    weight > 0 && weight as f64 * 100.0 >= total as f64 * percent
}
