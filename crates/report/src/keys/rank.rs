//! Names by number, so that hundreds of thousands of rows are compared and
//! written without touching a name twice.

use super::{CellLook, Order, SortKey};
use crate::model::{Row, Rows, Scene, Site, SiteKind};
use prof_profile::{Detail, DsoKind, NameId, Profile, Sample, Svma, Task};
use rayon::prelude::*;

/// Places of names in alphabetical order.
pub(crate) struct Ranks<'a> {
    profile: &'a Profile,
    pub(super) rows: &'a Rows,
    /// By `NameId`; equal names have one id.
    names: Vec<u32>,
    sites: Vec<SiteRank>,
    /// By `SiteId`: length of the function, 0 if unknown.
    sizes: Vec<u64>,
    /// Of the keys that compare by a text of frames: by `SiteId`, its place in
    /// alphabetical order.
    texts: Vec<(SortKey, Vec<u32>)>,
}

/// How a frame compares: by dso, by name, by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SiteRank {
    /// Place of the dso's name; unknown ones last.
    pub(crate) dso: u32,
    /// Place of the function's name; unnamed ones last.
    pub(crate) symbol: u32,
    /// Its start, or address if lines or addresses are told apart.
    pub(crate) start: Svma,
}

impl<'a> Ranks<'a> {
    /// For rows of a scene, which compare by these keys.
    pub(crate) fn new(
        (scene, rows): (&Scene<'a>, &'a Rows),
        keys: &[SortKey],
        look: CellLook,
    ) -> Self {
        let profile = scene.profile();
        let mut order: Vec<NameId> = (0..profile.names.len() as u32).map(NameId).collect();
        // No two names are equal.
        order.par_sort_unstable_by(|&a, &b| profile.name(a).cmp(profile.name(b)));
        let mut names = vec![0; order.len()];
        for (rank, id) in order.iter().enumerate() {
            if let Some(slot) = names.get_mut(id.0 as usize) {
                *slot = rank as u32;
            }
        }
        let sizes = scene.sites().iter();
        let sizes = sizes.map(|site| site.size(profile).unwrap_or(0));
        let texts = keys.iter().filter_map(|&key| match key.0.order {
            Order::FrameText(write) => {
                let sites = scene.sites().iter();
                let texts = sites.map(|site| write(scene, site, look)).collect();
                Some((key, places(texts)))
            }
            _ => None,
        });
        Self {
            profile,
            rows,
            sites: site_ranks(scene, &names, look),
            sizes: sizes.collect(),
            texts: texts.collect(),
            names,
        }
    }

    /// What the names are of.
    pub(super) fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Length of the row's function, 0 if unknown.
    pub(super) fn size(&self, row: &Row) -> u64 {
        let site = row.site.and_then(|site| self.sizes.get(site.0 as usize));
        site.copied().unwrap_or(0)
    }

    /// The place of a name, from 1 on; 0 without one.
    pub(super) fn name(&self, id: Option<NameId>) -> u32 {
        let place = id.and_then(|id| self.names.get(id.0 as usize));
        place.map_or(0, |place| place.saturating_add(1))
    }

    /// The place of what a key has as the text of the row's frame, from 1 on;
    /// 0 without one.
    pub(super) fn text(&self, key: SortKey, row: &Row) -> u32 {
        let mut texts = self.texts.iter();
        let places = texts.find(|(known, _)| *known == key);
        let place = places
            .zip(row.site)
            .and_then(|((_, places), site)| places.get(site.0 as usize));
        place.map_or(0, |place| place.saturating_add(1))
    }

    /// The row's first sample.
    pub(super) fn sample(&self, row: &Row) -> Option<Sample> {
        self.profile.samples.get(row.first as usize)
    }

    /// The task of that.
    pub(super) fn task(&self, row: &Row) -> Option<&'a Task> {
        Some(self.profile.task(self.sample(row)?.task))
    }

    /// What the record of the row's first sample tells.
    pub(super) fn detail(&self, row: &Row) -> Option<&'a Detail> {
        self.profile.samples.detail(row.first as usize)
    }

    pub(crate) fn site(&self, row: &Row) -> SiteRank {
        let none = SiteRank {
            dso: u32::MAX,
            symbol: u32::MAX,
            start: Svma(0),
        };
        row.site
            .and_then(|site| self.sites.get(site.0 as usize))
            .copied()
            .unwrap_or(none)
    }
}

fn site_ranks(scene: &Scene<'_>, names: &[u32], look: CellLook) -> Vec<SiteRank> {
    let profile = scene.profile();
    let rank = |id: NameId| names.get(id.0 as usize).copied().unwrap_or(u32::MAX);
    let of = |site: &Site| {
        let dso = profile.dso(site.dso);
        let function = profile.function(site.function);
        SiteRank {
            dso: if dso.kind == DsoKind::Unknown {
                u32::MAX
            } else if look.verbose {
                rank(dso.path)
            } else {
                rank(dso.short_name)
            },
            symbol: match site.kind {
                SiteKind::Dso => rank(dso.short_name),
                _ if function.unnamed.is_some() => u32::MAX,
                _ => rank(function.name),
            },
            start: site.address.unwrap_or(function.start),
        }
    };
    scene.sites().list().par_iter().map(of).collect()
}

/// By text: its place in alphabetical order; equal ones share theirs.
fn places(texts: Vec<String>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..texts.len() as u32).collect();
    let text = |index: u32| texts.get(index as usize);
    order.par_sort_unstable_by(|&a, &b| text(a).cmp(&text(b)));
    let mut places = vec![0; texts.len()];
    let mut place = 0;
    let mut before = None;
    for &index in &order {
        if before.is_some_and(|before| text(before) != text(index)) {
            place += 1;
        }
        before = Some(index);
        if let Some(slot) = places.get_mut(index as usize) {
            *slot = place;
        }
    }
    places
}
