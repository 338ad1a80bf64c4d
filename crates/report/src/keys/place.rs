//! Places that records tell: ends of branches, addresses of code and data.

use super::origin::{letter_of_mode, push_address};
use super::recorded::Recorded;
use crate::model::{Identity, UNKNOWN};
use prof_profile::{DsoKind, Frame, Function, Location, LocationId, NameId, Profile};
use std::cmp::Reverse;
use std::fmt::Write;

/// Width of an address with the letter of its mode.
pub(super) const ADDRESS: usize = "[k] 0x".len() + 16;

/// An end of a branch.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) place: Option<LocationId>,
    /// As recorded, 0 without a branch.
    pub(super) address: u64,
}

/// The function that stands in the file at a place.
pub(crate) fn host(profile: &Profile, place: LocationId) -> Option<(&Location, &Function)> {
    let frame = profile.frames_at(place).last()?;
    Some((profile.location(place), profile.function(frame.function)))
}

/// The address of a place in its file: that of a function which is only an
/// address is its start.
fn address_in_file(location: &Location, function: &Function) -> u64 {
    if function.unnamed.is_some() && function.size == 0 {
        function.start.0
    } else {
        location.address.0
    }
}

fn dso_name(profile: &Profile, place: LocationId) -> Option<NameId> {
    let dso = profile.dso(profile.location(place).dso);
    (dso.kind != DsoKind::Unknown).then_some(dso.short_name)
}

pub(super) fn dso_identity(profile: &Profile, place: Option<LocationId>) -> u64 {
    let name = place.and_then(|place| dso_name(profile, place));
    name.map_or(u64::MAX, |name| name.0.into())
}

/// Unknown ones first, the others backwards by name.
pub(super) fn dso_order(profile: &Profile, place: Option<LocationId>) -> Option<Reverse<&str>> {
    let name = place.and_then(|place| dso_name(profile, place));
    name.map(|name| Reverse(profile.name(name)))
}

pub(super) fn function_identity(profile: &Profile, place: Option<LocationId>) -> u64 {
    let frame = place.and_then(|place| profile.frames_at(place).last());
    frame.map_or(u64::MAX, |frame| frame.function.0.into())
}

/// By address in the file, those without a name last and by live address.
pub(super) fn function_order(profile: &Profile, end: End) -> (bool, i64, i64) {
    let host = end.place.and_then(|place| host(profile, place));
    match host {
        Some((_, function)) if function.unnamed.is_none() => {
            (false, function.start.0 as i64, function.size as i64)
        }
        _ => (true, end.address as i64, 0),
    }
}

pub(super) fn line_identity(profile: &Profile, place: Option<LocationId>) -> Identity {
    let Some(place) = place else {
        return UNKNOWN;
    };
    match innermost(profile, place).and_then(|frame| Some((frame.file?, frame.line))) {
        Some((file, line)) => [0, file.0.into(), line.into()],
        None => [
            1,
            profile.location(place).dso.0.into(),
            profile.location(place).address.0,
        ],
    }
}

fn innermost(profile: &Profile, place: LocationId) -> Option<&Frame> {
    profile.frames_at(place).first()
}

pub(super) fn write_dso(profile: &Profile, place: Option<LocationId>, out: &mut String) {
    let name = place.and_then(|place| dso_name(profile, place));
    out.push_str(name.map_or("[unknown]", |name| profile.name(name)));
}

/// The symbol at an end of a branch, or its address in the file.
pub(super) fn write_symbol(of: &Recorded<'_>, place: Option<LocationId>, out: &mut String) {
    let Some((location, function)) = place.and_then(|place| host(of.profile, place)) else {
        return out.push_str("N/A");
    };
    let _ = write!(out, "[{}] ", letter_of_mode(location.mode));
    write_host(of.profile, (location, function), out);
}

/// The same with the distance from the symbol's start.
pub(super) fn write_address(of: &Recorded<'_>, place: Option<LocationId>, out: &mut String) {
    let Some((location, function)) = place.and_then(|place| host(of.profile, place)) else {
        return out.push_str("N/A");
    };
    let _ = write!(out, "[{}] ", of.level);
    write_host(of.profile, (location, function), out);
    let distance = location.address.0.wrapping_sub(function.start.0);
    if function.unnamed.is_none() && distance != 0 {
        let _ = write!(out, "+{distance:#x}");
    }
}

fn write_host(profile: &Profile, (location, function): (&Location, &Function), out: &mut String) {
    if function.unnamed.is_some() {
        return push_address(address_in_file(location, function), out);
    }
    out.push_str(profile.name(function.name));
}

/// The variable at a data address and the distance from its start, or the
/// live address.
pub(super) fn write_variable(of: &Recorded<'_>, out: &mut String) {
    match of.detail.data.and_then(|place| host(of.profile, place)) {
        Some((location, function)) if function.unnamed.is_none() => {
            let distance = location.address.0.wrapping_sub(function.start.0);
            let name = of.profile.name(function.name);
            let _ = write!(out, "[{}] {name}+{distance:#x}", of.level);
        }
        _ => of.write_address(of.detail.address, out),
    }
}

/// The function that a sample was taken in, or its live address.
pub(super) fn write_code(of: &Recorded<'_>, out: &mut String) {
    match of.leaf.and_then(|place| host(of.profile, place)) {
        Some((_, function)) if function.unnamed.is_none() => {
            let name = of.profile.name(function.name);
            let _ = write!(out, "[{}] {name}", of.level);
        }
        _ => of.write_address(of.detail.ip, out),
    }
}

/// Columns that perf has for a symbol: space for an address beside its name.
pub(super) fn beside_address(profile: &Profile, place: Option<LocationId>) -> usize {
    let function = place.and_then(|place| host(profile, place));
    let named = function.filter(|(_, function)| function.unnamed.is_none());
    named.map_or(ADDRESS, |(_, function)| {
        ADDRESS + profile.name(function.name).chars().count()
    })
}

/// `file:line`; without one, `symbol+offset` or `module[address]`.
pub(crate) fn write_line(
    profile: &Profile,
    place: Option<LocationId>,
    full_paths: bool,
    out: &mut String,
) {
    let Some(place) = place else {
        return out.push_str("??:0");
    };
    let last_part = |path: &'_ str| path.rsplit('/').next().unwrap_or(path).to_owned();
    if let Some(frame) = innermost(profile, place)
        && let Some(file) = frame.file
    {
        let path = profile.name(file);
        let path = if full_paths {
            path.to_owned()
        } else {
            last_part(path)
        };
        let _ = write!(out, "{path}:{}", frame.line);
        return;
    }
    let Some((location, function)) = host(profile, place) else {
        return out.push_str("??:0");
    };
    let dso = profile.dso(location.dso);
    let at = address_in_file(location, function);
    let _ = if function.unnamed.is_none() && function.start.0 == 0 {
        // Where it begins is not known.
        write!(out, "{}", profile.name(function.name))
    } else if function.unnamed.is_none() {
        let distance = at.wrapping_sub(function.start.0);
        write!(out, "{}+{distance}", profile.name(function.name))
    } else if dso.kind == DsoKind::Unknown {
        write!(out, "??:0")
    } else {
        write!(out, "{}[{at:x}]", profile.name(dso.short_name))
    };
}
