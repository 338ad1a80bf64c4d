//! Breakpoints: `mem:PLACE[/LENGTH][:rwx][:letters][/terms/[letters]]`, where the
//! place is an address, or a variable or function with an offset.

use super::error::EventError;
use super::modifiers::modify;
use super::pmu::parse_number;
use super::probe::functions::Variable;
use super::programs::Programs;
use super::spec::EventSpec;
use super::terms;
use prof_abi::{EventAttr, event_kind};

/// What is written, taken apart.
struct Parts<'a> {
    place: &'a str,
    length: Option<&'a str>,
    access: Option<&'a str>,
    letters: &'a str,
    terms: &'a str,
}

/// The first piece of `text`, up to one of `ends`, and the rest.
fn until<'a>(text: &'a str, ends: &[char]) -> (&'a str, &'a str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Option<Self> {
        let (place, mut rest) = place_of(rest);
        let mut parts = Self {
            place,
            length: None,
            access: None,
            letters: "",
            terms: "",
        };
        if let Some(behind) = rest.strip_prefix('/')
            && behind.starts_with(|letter: char| letter.is_ascii_digit())
        {
            let (length, behind) = until(behind, &[':', '/']);
            parts.length = Some(length);
            rest = behind;
        }
        while let Some(behind) = rest.strip_prefix(':') {
            let (word, behind) = until(behind, &[':', '/']);
            let is_access = word.chars().all(|letter| "rwx".contains(letter));
            match (parts.access, is_access, parts.letters) {
                (None, true, "") => parts.access = Some(word),
                (_, _, "") => parts.letters = word,
                _ => return None,
            }
            rest = behind;
        }
        if let Some(behind) = rest.strip_prefix('/') {
            let (terms, letters) = behind.rsplit_once('/')?;
            parts.terms = terms;
            if !letters.is_empty() {
                parts.letters = letters.strip_prefix(':').unwrap_or(letters);
            }
            rest = "";
        }
        rest.is_empty().then_some(parts)
    }
}

/// The place, whose name may hold `::`, and what follows.
fn place_of(rest: &str) -> (&str, &str) {
    let bytes = rest.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b':' if bytes.get(at + 1) == Some(&b':') => at += 2,
            b':' | b'/' => break,
            _ => at += 1,
        }
    }
    rest.split_at(at)
}

/// The event's text before its modifiers and terms.
pub(super) fn without_letters(rest: &str) -> Option<(&str, &str)> {
    let parts = Parts::of(rest)?;
    let letters = parts.letters;
    let place = rest.strip_suffix(letters)?;
    Some((place.strip_suffix(':').unwrap_or(place), letters))
}

/// Parses a breakpoint; `rest` is what stands behind `mem:` in `text`.
pub(super) fn parse(text: &str, rest: &str, programs: &Programs) -> Result<EventSpec, EventError> {
    let wrong = |why: &str| EventError::Breakpoint {
        event: text.to_owned(),
        why: why.to_owned(),
    };
    let parts = Parts::of(rest).ok_or_else(|| wrong("it has parts that are none"))?;
    let is_letter = |letter: char| super::modifiers::LETTERS.contains(letter);
    if !parts.letters.chars().all(is_letter) && parts.access.is_none() {
        return Err(wrong("the access is not made of r, w and x"));
    }
    let access = parts.access.filter(|access| !access.is_empty());
    let access = access.unwrap_or("rw");
    if access.len() > access_bits(access).count_ones() as usize {
        return Err(wrong("a letter of the access stands there twice"));
    }
    let bp_type = access_bits(access);
    if bp_type & 4 != 0 && bp_type != 4 {
        return Err(wrong(
            "a breakpoint is for execution or for data, not for both",
        ));
    }
    let found = variable(parts.place, programs).map_err(|why| wrong(&why))?;
    let length = match (parts.length, found.size) {
        (Some(length), _) => parse_number(length)
            .filter(|length| [1, 2, 4, 8].contains(length))
            .ok_or_else(|| wrong("the length is not 1, 2, 4 or 8"))?,
        // An execution breakpoint has the length of a long.
        (None, _) if bp_type == 4 => 8,
        (None, size @ (1 | 2 | 4 | 8)) => size,
        (None, _) => 4,
    };
    if bp_type != 4 && !found.address.is_multiple_of(length) {
        return Err(wrong("the address is not a multiple of the length"));
    }
    let attr = EventAttr {
        kind: event_kind::BREAKPOINT,
        bp_type,
        config1: found.address,
        config2: length,
        ..EventAttr::default()
    };
    let mut spec = EventSpec::new(text, attr);
    for (term, value) in terms::split(parts.terms) {
        if !terms::apply(term, value, &mut spec)? {
            return Err(EventError::Term {
                event: text.to_owned(),
                term: term.to_owned(),
                known: terms::of_events().map(str::to_owned).collect(),
            });
        }
    }
    modify(&mut spec, parts.letters)?;
    Ok(spec)
}

fn access_bits(letters: &str) -> u32 {
    let bits = letters.chars().map(|letter| match letter {
        'r' => 1,
        'w' => 2,
        _ => 4,
    });
    bits.fold(0, |all, bit| all | bit)
}

fn variable(place: &str, programs: &Programs) -> Result<Variable, String> {
    if let Some(address) = parse_number(place) {
        return Ok(Variable { address, size: 0 });
    }
    if place.is_empty() {
        return Err("the address is missing".to_owned());
    }
    let (name, offset) = match place.rsplit_once('+') {
        Some((name, offset)) => match parse_number(offset) {
            Some(offset) => (name, offset),
            None => return Err("the offset is not a number".to_owned()),
        },
        None => (place, 0),
    };
    let found = programs.variable(name)?;
    Ok(Variable {
        address: found.address.wrapping_add(offset),
        // Behind the start of it its own size means nothing.
        size: if offset == 0 { found.size } else { 0 },
    })
}

#[cfg(test)]
mod tests {
    use super::Parts;

    #[test]
    fn the_parts_of_a_breakpoint_are_told_apart() {
        let parts = |text| {
            let Parts {
                place,
                length,
                access,
                letters,
                terms,
            } = Parts::of(text).expect(text);
            (place, length, access, letters, terms)
        };
        assert_eq!(parts("0x10"), ("0x10", None, None, "", ""));
        assert_eq!(parts("0x10/8:w:u"), ("0x10", Some("8"), Some("w"), "u", ""));
        assert_eq!(parts("0x10:u"), ("0x10", None, None, "u", ""));
        assert_eq!(
            parts("ns::total+4/4/name=x,period=2/u"),
            ("ns::total+4", Some("4"), None, "u", "name=x,period=2")
        );
        assert_eq!(
            parts("0x10:rw/name=x/"),
            ("0x10", None, Some("rw"), "", "name=x")
        );
        assert!(Parts::of("0x10:w:u:k").is_none());
        assert!(Parts::of("0x10/name=x").is_none());
    }
}
