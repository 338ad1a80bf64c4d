//! What fits into its record and still cannot be: names that do not end,
//! ranges that pass the last address, build-ids of a size that there is not.

use super::{Body, BuildIdRecord, FileIdentity, Name};
use crate::damage::DamageKind;
use prof_abi::{BuildId, Misc};

impl Body<'_> {
    /// What is wrong with the first field that cannot be.
    pub(crate) fn misuse(&self, misc: Misc) -> Option<DamageKind> {
        match self {
            Self::Mmap(map) => wraps(map.start, map.len).or_else(|| unended("path", &map.path)),
            Self::Mmap2(map) => wraps(map.start, map.len)
                .or_else(|| unended("path", &map.path))
                .or_else(|| match map.file {
                    FileIdentity::BuildId { size, .. } => no_build_id_size(size),
                    FileIdentity::Inode { .. } => None,
                }),
            Self::BuildId(record) => build_id_misuse(record, misc),
            Self::Comm(comm) => unended("comm", &comm.name),
            Self::Ksymbol(symbol) => {
                wraps(symbol.start, symbol.len.into()).or_else(|| unended("name", &symbol.name))
            }
            Self::Cgroup(cgroup) => unended("path", &cgroup.path),
            _ => None,
        }
    }
}

fn unended(field: &'static str, name: &Name<'_>) -> Option<DamageKind> {
    (!name.ends()).then(|| {
        let left = name.bytes().len() as u64;
        DamageKind::NameNotEnded { field, left }
    })
}

/// A range may end at the last address, but not pass it.
fn wraps(start: u64, size: u64) -> Option<DamageKind> {
    let end = start.wrapping_add(size);
    (end < start && end != 0).then_some(DamageKind::RangeWraps { start, size })
}

fn build_id_misuse(record: &BuildIdRecord<'_>, misc: Misc) -> Option<DamageKind> {
    // Without the bit the size is what the writer's memory held.
    let size = misc.has(Misc::BUILD_ID_SIZE).then_some(record.size);
    size.and_then(no_build_id_size)
        .or_else(|| leads_elsewhere(record.path.bytes()).then_some(DamageKind::PathLeadsUp))
}

fn no_build_id_size(size: u8) -> Option<DamageKind> {
    let is_possible = (1..=BuildId::RECORDED_MAX).contains(&usize::from(size));
    (!is_possible).then_some(DamageKind::BuildIdSize { size })
}

/// Whether a path has a part `..`; that of a mapped file never has.
pub(crate) fn leads_elsewhere(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|part| part == b"..")
}
