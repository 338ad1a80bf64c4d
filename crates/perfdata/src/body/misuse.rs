//! What fits into its record and still cannot be: names that do not end,
//! ranges that pass the last address.

use super::{Body, Name};
use crate::damage::DamageKind;

impl Body<'_> {
    /// What is wrong with the first field that cannot be.
    pub(crate) fn misuse(&self) -> Option<DamageKind> {
        match self {
            Self::Mmap(map) => wraps(map.addr, map.len).or_else(|| unended("path", &map.path)),
            Self::Mmap2(map) => wraps(map.addr, map.len).or_else(|| unended("path", &map.path)),
            Self::Comm(comm) => unended("comm", &comm.comm),
            Self::Ksymbol(symbol) => {
                wraps(symbol.addr, symbol.len.into()).or_else(|| unended("name", &symbol.name))
            }
            Self::Cgroup(cgroup) => unended("path", &cgroup.path),
            _ => None,
        }
    }
}

fn unended(field: &'static str, name: &Name<'_>) -> Option<DamageKind> {
    let left = name.0.len() as u64;
    let ends = name.0.contains(&0);
    (!ends).then_some(DamageKind::NameNotEnded { field, left })
}

/// A range may end at the last address, but not pass it.
fn wraps(start: u64, size: u64) -> Option<DamageKind> {
    let end = start.wrapping_add(size);
    (end < start && end != 0).then_some(DamageKind::RangeWraps { start, size })
}
