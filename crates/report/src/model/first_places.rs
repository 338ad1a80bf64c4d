//! Where each row was first seen: the address of a row of a table by symbol.

use super::tally::Split;
use super::{NodeId, RowKey, Rows, RowsOptions, Scene, Site, SiteId};
use prof_profile::{FileOffset, LocationId, StackId};
use rustc_hash::{FxHashMap, FxHashSet};

/// By row: the address, as recorded, of its frame in the first sample that
/// has it. Callers count if `callers`.
pub(crate) fn first_places(
    scene: &Scene<'_>,
    rows: &Rows,
    options: &RowsOptions,
    callers: bool,
) -> FxHashMap<RowKey, FileOffset> {
    let mut first: FxHashMap<RowKey, (u32, FileOffset)> = FxHashMap::default();
    let split = Split::of(&options.aparts, options.quantum);
    for cell in scene.tally(&split).cells {
        let frames: Vec<SiteId> = frames(scene, cell.stack).collect();
        let mut met = FxHashSet::default();
        let own = scene.self_site(frames.iter().copied());
        let own = own.map(|own| (own, leaf(scene, cell.stack)));
        let called = frames.iter().filter(|_| callers);
        let called = called.map(|&site| (site, place_of(scene, cell.stack, site)));
        for (site, location) in own.into_iter().chain(called) {
            let (Some(&frame), Some(location)) =
                (rows.keys_of_sites().get(site.0 as usize), location)
            else {
                continue;
            };
            let key = RowKey {
                group: cell.group,
                frame,
            };
            if met.insert(key) {
                let place = scene.profile().location(location).file_offset;
                let slot = first.entry(key).or_insert((cell.first, place));
                if cell.first < slot.0 {
                    *slot = (cell.first, place);
                }
            }
        }
    }
    let place = |(key, (_, place))| (key, place);
    first.into_iter().map(place).collect()
}

/// The frames of a stack, innermost first; none of a stack that a transform took out.
pub(super) fn frames(scene: &Scene<'_>, stack: StackId) -> impl Iterator<Item = SiteId> {
    let (parents, sites) = (&scene.paths().parents, &scene.paths().sites);
    let innermost = scene.path_of(stack).unwrap_or(NodeId::ROOT);
    let above = |path: &NodeId| parents.get(path.index()).copied();
    let paths = std::iter::successors(Some(innermost), above);
    let is_frame = |path: &NodeId| *path != NodeId::ROOT;
    let frames = paths.take_while(is_frame);
    frames.map_while(|path| sites.get(path.index()).copied())
}

/// Where the samples with a stack belong to.
fn leaf(scene: &Scene<'_>, stack: StackId) -> Option<LocationId> {
    let own = scene.cut().map_or(stack, |cut| cut.up_to(stack));
    scene.profile().stacks.locations(own).next()
}

/// The innermost location of a stack that a frame is of.
fn place_of(scene: &Scene<'_>, stack: StackId, site: SiteId) -> Option<LocationId> {
    let profile = scene.profile();
    let Site { function, line, .. } = *scene.sites().get(site);
    profile.stacks.locations(stack).find(|&location| {
        let mut frames = profile.frames_at(location).iter();
        frames.any(|frame| {
            let is_line = line.is_none_or(|(_, line)| line == frame.line);
            frame.function == function && is_line
        })
    })
}
