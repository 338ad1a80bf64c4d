//! Names by number, so that hundreds of thousands of rows are compared and
//! written without touching a name twice.

use super::SortKey;
use super::cells::{CellLook, Field, shortened, srcline};
use crate::model::{Scene, Site, SiteKind};
use prof_profile::{DsoKind, NameId, Profile, Svma};
use rayon::prelude::*;

/// Places of names in alphabetical order.
pub(crate) struct Ranks<'a> {
    profile: &'a Profile,
    /// By `NameId`; equal names have one id.
    names: Vec<u32>,
    sites: Vec<SiteRank>,
    /// By `SiteId`: length of the function, 0 if unknown.
    sizes: Vec<u64>,
}

/// How a frame compares: by module, by name, by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SiteRank {
    /// Place of the module's name; unknown ones last.
    pub(crate) dso: u32,
    /// Place of the function's name; unnamed ones last.
    pub(crate) symbol: u32,
    /// Its start, or address if lines or addresses are told apart.
    pub(crate) start: Svma,
}

impl<'a> Ranks<'a> {
    pub(crate) fn new(scene: &Scene<'a>, look: CellLook) -> Self {
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
        let rank = |id: NameId| names.get(id.0 as usize).copied().unwrap_or(u32::MAX);
        let sites = scene
            .sites()
            .list()
            .par_iter()
            .map(|site| {
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
            })
            .collect();
        let sizes = scene.sites().iter();
        let sizes = sizes.map(|site| site.size(profile).unwrap_or(0));
        Self {
            profile,
            names,
            sizes: sizes.collect(),
            sites,
        }
    }

    /// By `SiteId`: the place of each frame's source line, as it is written,
    /// in alphabetical order; empty if no field shows them.
    pub(crate) fn of_lines(scene: &Scene<'_>, fields: &[Field], look: CellLook) -> Vec<u32> {
        if !fields.contains(&Field::Key(SortKey::Srcline)) {
            return Vec::new();
        }
        let write = |site: &Site| srcline(scene, Some(site), look.full_paths);
        places(scene.sites().iter().map(write).collect())
    }

    /// By `SiteId`: the same for source files.
    pub(crate) fn of_files(scene: &Scene<'_>, fields: &[Field], look: CellLook) -> Vec<u32> {
        if !fields.contains(&Field::Key(SortKey::Srcfile)) {
            return Vec::new();
        }
        let profile = scene.profile();
        let write = |site: &Site| match site.line {
            Some((file, _)) => shortened(profile.name(file), look.full_paths).to_owned(),
            None => String::new(),
        };
        places(scene.sites().iter().map(write).collect())
    }

    /// What the names are of.
    pub(crate) fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Length of the row's function, 0 if unknown.
    pub(crate) fn size(&self, row: &crate::model::Row) -> u64 {
        let site = row.site.and_then(|site| self.sizes.get(site.0 as usize));
        site.copied().unwrap_or(0)
    }

    pub(crate) fn name(&self, id: Option<NameId>) -> Option<u32> {
        self.names.get(id?.0 as usize).copied()
    }

    pub(crate) fn site(&self, row: &crate::model::Row) -> SiteRank {
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
