//! The letters behind an event's colon.

use super::error::EventError;
use super::spec::{EventSpec, Precision};
use prof_abi::AttrFlags;

/// The letters that modify an event.
pub(super) const LETTERS: &str = "ukhGHIpPSDWeXbR";

/// Applies modifier letters.
pub(super) fn modify(spec: &mut EventSpec, letters: &str) -> Result<(), EventError> {
    if letters.is_empty() {
        return Ok(());
    }
    check(spec, letters)?;
    let has = |letter| letters.contains(letter);
    set_modes(spec, letters);
    let mut flags = spec.attr.flags;
    for (letter, flag) in [
        ('I', AttrFlags::EXCLUDE_IDLE),
        ('D', AttrFlags::PINNED),
        ('e', AttrFlags::EXCLUSIVE),
    ] {
        if has(letter) {
            flags = flags.with(flag);
        }
    }
    let (host, guest) = (has('H'), has('G'));
    spec.modes.guests |= host || guest;
    if host != guest {
        flags = flags.with(if host {
            AttrFlags::EXCLUDE_GUEST
        } else {
            AttrFlags::EXCLUDE_HOST
        });
    }
    spec.attr.flags = flags;
    spec.leader_samples |= has('S');
    spec.weak |= has('W');
    if has('R') {
        spec.latencies = true;
        spec.sampling_term.get_or_insert("R");
    }
    // `X` says that an event stays in its group, as all do here. With `b` perf may
    // share a counter with other users by a BPF program; the counts are the same.
    if has('P') {
        spec.precision = Precision::Highest;
    }
    set_precision(spec, letters)
}

/// Each letter is known and, but for `p`, there once.
fn check(spec: &EventSpec, letters: &str) -> Result<(), EventError> {
    for (at, modifier) in letters.char_indices() {
        let name = spec.name.clone();
        let twice = modifier != 'p' && letters[..at].contains(modifier);
        if twice {
            return Err(EventError::RefusedModifier {
                name,
                modifier,
                why: "it is there already",
            });
        }
        if !LETTERS.contains(modifier) {
            return Err(EventError::Modifier { name, modifier });
        }
    }
    Ok(())
}

fn set_modes(spec: &mut EventSpec, letters: &str) {
    let modes = [
        ('u', AttrFlags::EXCLUDE_USER),
        ('k', AttrFlags::EXCLUDE_KERNEL),
        ('h', AttrFlags::EXCLUDE_HV),
    ];
    if !modes.iter().any(|(letter, _)| letters.contains(*letter)) {
        return;
    }
    // A group's letters add to those of its members.
    let narrows = !std::mem::replace(&mut spec.modes.given, true);
    for (letter, flag) in modes {
        if letters.contains(letter) {
            spec.attr.flags = spec.attr.flags.without(flag);
        } else if narrows {
            spec.attr.flags = spec.attr.flags.with(flag);
        }
    }
}

fn set_precision(spec: &mut EventSpec, letters: &str) -> Result<(), EventError> {
    let before = match spec.precision {
        Precision::Exactly(level) => level,
        _ => 0,
    };
    let more = letters.chars().filter(|&letter| letter == 'p').count();
    match before.saturating_add(u8::try_from(more).unwrap_or(u8::MAX)) {
        0 => Ok(()),
        level @ 1..=3 => {
            spec.precision = Precision::Exactly(level);
            Ok(())
        }
        _ => Err(EventError::RefusedModifier {
            why: "there are three levels of precision, :ppp at most",
            name: spec.name.clone(),
            modifier: 'p',
        }),
    }
}
