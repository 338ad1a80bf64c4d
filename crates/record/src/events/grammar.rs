//! The grammar of `-e`, as perf has it:
//!
//! ```text
//! events    = event { "," event }        group = [ name ] "{" events "}" [ ":" letters ]
//! event     = group | name [ ":" letters ] | name "/" terms "/" [ letters ]
//!           | "r" hex [ ":" letters ]    a raw event of the CPU
//!           | system ":" name [ "/" terms "/" ]   a tracepoint, * and ? allowed
//!           | "mem:" address [ "/" length ] [ ":" rwx ] [ ":" letters ]
//!           | probe                      see `probe.rs`
//! ```

use super::names;
use super::pmu::{Pmu, parse_number, split_term};
use super::{ChainTerm, EventError, EventSpec, Precision, Rate, probe, tracepoint};
use prof_abi::{AttrFlags, EventAttr, event_kind};

/// The letters that modify an event.
pub(super) const LETTERS: &str = "ukhGHIpPSDWeb";

/// Parses what stands after one `-e`. Groups are numbered from `first_group`.
pub fn parse(text: &str, first_group: u32) -> Result<Vec<EventSpec>, EventError> {
    let mut specs = Vec::new();
    let mut group = first_group;
    for (at, item) in split_outside(text)? {
        let item = item.trim();
        if item.is_empty() {
            return Err(syntax(text, "an event is missing", at));
        }
        match group_name(item) {
            Some((name, rest)) => {
                let (inside, letters) = rest
                    .rsplit_once('}')
                    .ok_or_else(|| syntax(text, "a } is missing", at))?;
                let letters = letters.strip_prefix(':').unwrap_or(letters);
                let from = specs.len();
                parse_group(inside, letters, &mut specs)?;
                for spec in specs.iter_mut().skip(from) {
                    spec.group = Some(group);
                    spec.group_name = (!name.is_empty()).then(|| name.to_owned());
                }
                group += 1;
            }
            None => parse_event(item, &mut specs)?,
        }
    }
    Ok(specs)
}

/// The name before a group's brace, mostly none, and what follows the brace.
fn group_name(item: &str) -> Option<(&str, &str)> {
    let (name, rest) = item.split_once('{')?;
    let is_name = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter));
    is_name.then_some((name, rest))
}

/// Parses what stands between braces. The letters after them are for all
/// members and no part of their names; a place of its own on the hardware
/// (`D`, `e`) is the leader's to ask for, whom the members follow.
fn parse_group(inside: &str, letters: &str, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
    let of_members: String = letters
        .chars()
        .filter(|letter| !"De".contains(*letter))
        .collect();
    let leader = specs.len();
    for (_, member) in split_outside(inside)? {
        parse_event(member.trim(), specs)?;
    }
    for (index, spec) in specs.iter_mut().enumerate().skip(leader) {
        modify(
            spec,
            if index == leader {
                letters
            } else {
                &of_members
            },
        )?;
    }
    Ok(())
}

fn syntax(text: &str, why: &'static str, at: usize) -> EventError {
    EventError::Syntax {
        text: text.to_owned(),
        why,
        at: at + 1,
    }
}

/// Splits at the commas outside of braces and slashes; with each piece where
/// it begins.
fn split_outside(text: &str) -> Result<Vec<(usize, &str)>, EventError> {
    let mut pieces = Vec::new();
    let mut start = 0;
    // Of the event, which is not the piece's in a group.
    let mut event = 0;
    let mut in_braces = false;
    let mut in_slashes = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' if in_braces => return Err(syntax(text, "groups cannot hold groups", at)),
            '{' => {
                in_braces = true;
                event = at + 1;
            }
            '}' if !in_braces => return Err(syntax(text, "there is no { for this }", at)),
            '}' => in_braces = false,
            '/' if !has_single_slashes(&text[event..]) => in_slashes = !in_slashes,
            ',' if !in_slashes => {
                event = at + 1;
                if !in_braces {
                    pieces.push((start, &text[start..at]));
                    start = at + 1;
                }
            }
            _ => {}
        }
    }
    if in_braces || in_slashes {
        return Err(syntax(text, "a } or / is missing", text.len()));
    }
    pieces.push((start, &text[start..]));
    Ok(pieces)
}

/// Whether slashes do not enclose terms: the length of a breakpoint stands
/// after one, and probes have paths.
fn has_single_slashes(event: &str) -> bool {
    let event = event.trim_start();
    event.starts_with("mem:") || probe::is_probe(event)
}

/// Parses one event, which may be several tracepoints.
fn parse_event(text: &str, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
    if let Some(rest) = text.strip_prefix("mem:") {
        specs.push(breakpoint(text, rest)?);
        return Ok(());
    }
    if probe::is_probe(text) {
        let (found, letters) = probe::parse(text)?;
        for mut spec in found {
            modify(&mut spec, letters)?;
            if !letters.is_empty() {
                spec.name = format!("{}:{letters}", spec.name);
            }
            specs.push(spec);
        }
        return Ok(());
    }
    if let Some((name, rest)) = text.split_once('/') {
        if let Some((system, name)) = name.split_once(':') {
            let (terms, letters) = terms_and_letters(text, rest)?;
            let asked = Tracepoints {
                text,
                system,
                name,
                terms,
                letters,
            };
            return asked.add_to(specs);
        }
        specs.push(with_terms(text, name, rest)?);
        return Ok(());
    }
    let (name, letters) = match text.split_once(':') {
        None => (text, ""),
        Some((name, letters)) if plain_attr(name).is_some() => (name, letters),
        Some((system, rest)) => {
            let (name, letters) = rest.split_once(':').unwrap_or((rest, ""));
            let asked = Tracepoints {
                text,
                system,
                name,
                terms: "",
                letters,
            };
            return asked.add_to(specs);
        }
    };
    let attr = plain_attr(name).ok_or_else(|| EventError::Unknown {
        name: name.to_owned(),
        nearest: names::nearest(name),
    })?;
    let mut spec = EventSpec::new(text, attr);
    modify(&mut spec, letters)?;
    specs.push(spec);
    Ok(())
}

/// An event's text and its modifiers.
pub(super) fn split_letters(text: &str) -> (&str, &str) {
    let is_letters = |tail: &str| tail.chars().all(|letter| LETTERS.contains(letter));
    if let Some(place) = text.strip_prefix("mem:") {
        // Behind the access, which itself is letters.
        let letters = place.splitn(3, ':').nth(2);
        return letters.map_or((text, ""), |letters| {
            (&text[..text.len() - letters.len() - 1], letters)
        });
    }
    if probe::is_probe(text) {
        let (_, letters) = probe::modifiers(text);
        return (
            text.strip_suffix(letters)
                .map_or(text, |text| text.trim_end_matches(':')),
            letters,
        );
    }
    if let Some(end) = text.rfind('/') {
        let (terms, letters) = text.split_at(end + 1);
        return (terms, letters.trim_start_matches(':'));
    }
    match text.rsplit_once(':') {
        Some((name, letters)) if is_letters(letters) => (name, letters),
        _ => (text, ""),
    }
}

/// A name without modifiers or terms.
fn plain_attr(name: &str) -> Option<EventAttr> {
    let (kind, config) = names::number_of(name).or_else(|| {
        let digits = name.strip_prefix('r')?;
        let config = u64::from_str_radix(digits, 16).ok()?;
        Some((event_kind::RAW, config))
    })?;
    Some(EventAttr {
        kind,
        config,
        ..EventAttr::default()
    })
}

/// `system:name/terms/letters`, which may be several.
struct Tracepoints<'a> {
    text: &'a str,
    system: &'a str,
    name: &'a str,
    terms: &'a str,
    letters: &'a str,
}

impl Tracepoints<'_> {
    fn add_to(&self, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
        let (system, name) = (self.system, self.name);
        // `cycels:u` is a typing error in the name, not a tracepoint.
        let is_letters = name.chars().all(|letter| LETTERS.contains(letter));
        if is_letters && let Some(near) = names::nearest(system) {
            return Err(EventError::Unknown {
                name: system.to_owned(),
                nearest: Some(format!("{near}:{name}")),
            });
        }
        if system.is_empty() || name.is_empty() {
            return Err(syntax(self.text, "a name is missing", 0));
        }
        for (full, id) in tracepoint::lookup(system, name)? {
            specs.push(self.spec(full, id)?);
        }
        Ok(())
    }

    fn spec(&self, full: String, id: u64) -> Result<EventSpec, EventError> {
        let attr = EventAttr {
            kind: event_kind::TRACEPOINT,
            config: id,
            ..EventAttr::default()
        };
        let mut spec = EventSpec::new(full, attr);
        for term in self.terms.split(',').filter(|term| !term.trim().is_empty()) {
            let (term, value) = split_term(term);
            if IDENTITY_TERMS.contains(&term) || !common_term(term, value, &mut spec)? {
                return Err(EventError::Term {
                    event: self.text.to_owned(),
                    term: term.to_owned(),
                    known: TRACEPOINT_TERMS.iter().map(ToString::to_string).collect(),
                });
            }
        }
        modify(&mut spec, self.letters)?;
        if !self.letters.is_empty() {
            spec.name = format!("{}:{}", spec.name, self.letters);
        }
        Ok(spec)
    }
}

fn breakpoint(text: &str, rest: &str) -> Result<EventSpec, EventError> {
    let wrong = |why| EventError::Breakpoint {
        event: text.to_owned(),
        why,
    };
    let mut parts = rest.split(':');
    let place = parts.next().unwrap_or_default();
    let access = parts.next().unwrap_or("rw");
    let letters = parts.next().unwrap_or_default();
    let (address, length) = match place.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (place, None),
    };
    let address = parse_number(address).ok_or_else(|| wrong("the address is not a number"))?;
    let mut bp_type = 0;
    for letter in access.chars() {
        bp_type |= match letter {
            'r' => 1,
            'w' => 2,
            'x' => 4,
            _ => return Err(wrong("the access is not made of r, w and x")),
        };
    }
    if bp_type & 4 != 0 && bp_type != 4 {
        return Err(wrong(
            "a breakpoint is for execution or for data, not for both",
        ));
    }
    // An execution breakpoint has the length of a long.
    let default = if bp_type == 4 { 8 } else { 4 };
    let length = match length {
        None => default,
        Some(length) => parse_number(length)
            .filter(|length| [1, 2, 4, 8].contains(length))
            .ok_or_else(|| wrong("the length is not 1, 2, 4 or 8"))?,
    };
    if bp_type != 4 && !address.is_multiple_of(length) {
        return Err(wrong("the address is not a multiple of the length"));
    }
    let attr = EventAttr {
        kind: event_kind::BREAKPOINT,
        bp_type,
        config1: address,
        config2: length,
        ..EventAttr::default()
    };
    let mut spec = EventSpec::new(text, attr);
    modify(&mut spec, letters)?;
    Ok(spec)
}

/// What stands between the slashes of `text`, and behind them.
fn terms_and_letters<'a>(text: &str, rest: &'a str) -> Result<(&'a str, &'a str), EventError> {
    let (terms, letters) = rest
        .rsplit_once('/')
        .ok_or_else(|| syntax(text, "a / is missing", text.len()))?;
    Ok((terms, letters.strip_prefix(':').unwrap_or(letters)))
}

/// `name/term,term=value/letters`; `name` is a PMU or a plain event.
fn with_terms(text: &str, name: &str, rest: &str) -> Result<EventSpec, EventError> {
    let (terms, letters) = terms_and_letters(text, rest)?;
    let plain = plain_attr(name);
    let pmu = match &plain {
        Some(_) => None,
        None => Some(Pmu::open(name, text)?),
    };
    let attr = plain.unwrap_or_else(|| EventAttr {
        kind: pmu.as_ref().map_or(0, Pmu::kind),
        ..EventAttr::default()
    });
    let mut spec = EventSpec::new(text, attr);
    for term in terms.split(',').filter(|term| !term.trim().is_empty()) {
        let (term, value) = split_term(term);
        if common_term(term, value, &mut spec)? {
            continue;
        }
        match &pmu {
            Some(pmu) => pmu.apply(term, value, &mut spec)?,
            None => {
                return Err(EventError::Term {
                    event: text.to_owned(),
                    term: term.to_owned(),
                    known: common_terms().map(str::to_owned).collect(),
                });
            }
        }
    }
    modify(&mut spec, letters)?;
    Ok(spec)
}

/// Terms that say which event it is.
const IDENTITY_TERMS: &[&str] = &["config", "config1", "config2", "config3", "name"];

/// Terms of all events, tracepoints included.
const TRACEPOINT_TERMS: &[&str] = &[
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "inherit",
    "no-inherit",
    "time",
    "no-overwrite",
];

/// What an event other than a tracepoint takes.
fn common_terms() -> impl Iterator<Item = &'static str> {
    IDENTITY_TERMS.iter().chain(TRACEPOINT_TERMS).copied()
}

/// Applies a term that every event has; `false` if it is not one of those.
fn common_term(name: &str, value: Option<&str>, spec: &mut EventSpec) -> Result<bool, EventError> {
    let wrong = |spec: &EventSpec| EventError::Number {
        event: spec.name.clone(),
        value: value.unwrap_or_default().to_owned(),
        place: name.to_owned(),
    };
    let number = |spec: &EventSpec| value.and_then(parse_number).ok_or_else(|| wrong(spec));
    let refused = |spec: &EventSpec, why| EventError::Refused {
        event: spec.name.clone(),
        term: name.to_owned(),
        why,
    };
    match name {
        "config" => spec.attr.config = number(spec)?,
        "config1" => spec.attr.config1 = number(spec)?,
        "config2" => spec.attr.config2 = number(spec)?,
        "config3" => spec.attr.config3 = number(spec)?,
        "name" => value.unwrap_or_default().clone_into(&mut spec.name),
        "period" => spec.rate = Some(Rate::Period(number(spec)?)),
        "freq" => spec.rate = Some(Rate::Frequency(number(spec)?)),
        "stack-size" => {
            let bytes = u32::try_from(number(spec)?).map_err(|_| wrong(spec))?;
            spec.stack_size = Some(bytes);
        }
        "max-stack" => {
            let frames = u16::try_from(number(spec)?).map_err(|_| wrong(spec))?;
            spec.attr.sample_max_stack = frames;
        }
        "inherit" => spec.inherit = Some(true),
        "no-inherit" => spec.inherit = Some(false),
        "call-graph" => {
            spec.chains = Some(match value {
                Some("no") => ChainTerm::No,
                Some("dwarf") => ChainTerm::Dump,
                Some("fp") => ChainTerm::FramePointers,
                Some("lbr") => ChainTerm::LastBranch,
                _ => return Err(wrong(spec)),
            });
        }
        "time" if value == Some("0") => {
            return Err(refused(spec, "samples are put into order by their times"));
        }
        // As it is anyway.
        "time" | "no-overwrite" => {}
        "overwrite" => return Err(refused(spec, "use --max-size or --duration")),
        "percore" => return Err(refused(spec, "events are opened for each CPU")),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies modifier letters.
fn modify(spec: &mut EventSpec, letters: &str) -> Result<(), EventError> {
    if letters.is_empty() {
        return Ok(());
    }
    let mut user = false;
    let mut kernel = false;
    let mut hypervisor = false;
    let mut host = false;
    let mut guest = false;
    let mut precise = match spec.precision {
        Precision::Exactly(level) => level,
        _ => 0,
    };
    let mut flags = spec.attr.flags;
    for letter in letters.chars() {
        match letter {
            'u' => user = true,
            'k' => kernel = true,
            'h' => hypervisor = true,
            'G' => guest = true,
            'H' => host = true,
            'I' => flags = flags.with(AttrFlags::EXCLUDE_IDLE),
            'D' => flags = flags.with(AttrFlags::PINNED),
            'e' => flags = flags.with(AttrFlags::EXCLUSIVE),
            'p' => precise += 1,
            'P' => spec.precision = Precision::Highest,
            'S' => spec.leader_samples = true,
            'W' => spec.weak = true,
            modifier => {
                return Err(EventError::Modifier {
                    name: spec.name.clone(),
                    modifier,
                });
            }
        }
        if precise > 3 {
            return Err(EventError::Modifier {
                name: spec.name.clone(),
                modifier: 'p',
            });
        }
    }
    if user || kernel || hypervisor {
        // A group's letters add to those of its members.
        let narrows = !std::mem::replace(&mut spec.modes.given, true);
        for (wanted, flag) in [
            (user, AttrFlags::EXCLUDE_USER),
            (kernel, AttrFlags::EXCLUDE_KERNEL),
            (hypervisor, AttrFlags::EXCLUDE_HV),
        ] {
            if wanted {
                flags = flags.without(flag);
            } else if narrows {
                flags = flags.with(flag);
            }
        }
    }
    spec.modes.guests |= host || guest;
    if host != guest {
        flags = flags.with(if host {
            AttrFlags::EXCLUDE_GUEST
        } else {
            AttrFlags::EXCLUDE_HOST
        });
    }
    if precise > 0 {
        spec.precision = Precision::Exactly(precise);
    }
    spec.attr.flags = flags;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::events::{ChainTerm, EventError, EventSpec, Precision, Rate};
    use prof_abi::AttrFlags;

    fn one(text: &str) -> EventSpec {
        let specs = parse(text, 0).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(specs.len(), 1, "{text}");
        specs.into_iter().next().expect("one")
    }

    #[test]
    fn names_modifiers_and_raw_numbers() {
        let spec = one("cycles:upp");
        assert_eq!((spec.attr.kind, spec.attr.config), (0, 0));
        assert_eq!(spec.precision, Precision::Exactly(2));
        assert!(
            spec.attr
                .flags
                .has(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV)
        );
        assert!(!spec.attr.flags.has(AttrFlags::EXCLUDE_USER));
        assert_eq!(spec.name, "cycles:upp");
        let spec = one("r1a8");
        assert_eq!((spec.attr.kind, spec.attr.config), (4, 0x1a8));
        assert!(one("cpu-clock:k").attr.flags.has(AttrFlags::EXCLUDE_USER));
        assert!(one("cpu-clock:H").attr.flags.has(AttrFlags::EXCLUDE_GUEST));
        assert!(one("cpu-clock:G").attr.flags.has(AttrFlags::EXCLUDE_HOST));
        assert!(
            one("cpu-clock:ID")
                .attr
                .flags
                .has(AttrFlags::EXCLUDE_IDLE | AttrFlags::PINNED)
        );
        assert_eq!(one("cycles:P").precision, Precision::Highest);
    }

    #[test]
    fn groups_and_lists() {
        let specs = parse("{cycles,instructions:u}:S,cs", 3).expect("valid");
        assert_eq!(specs.len(), 3);
        assert_eq!(
            [specs[0].group, specs[1].group, specs[2].group],
            [Some(3), Some(3), None]
        );
        assert!(specs[0].leader_samples && specs[1].leader_samples);
        assert_eq!(
            (&*specs[0].name, &*specs[1].name),
            ("cycles", "instructions:u")
        );
        assert_eq!(specs[2].attr.config, 3);
        let specs = parse("loads{cs,mem:0x1000/4:w},{cs}", 0).expect("valid");
        assert_eq!(specs.len(), 3);
        let names: Vec<_> = specs
            .iter()
            .map(|spec| spec.group_name.as_deref())
            .collect();
        assert_eq!(names, [Some("loads"), Some("loads"), None]);
        assert_ne!(specs[1].group, specs[2].group);
    }

    #[test]
    fn the_leader_alone_asks_for_a_place_of_its_own() {
        let specs = parse("{cs,cs:u,cs:k}:uDep", 0).expect("valid");
        let has = |flag| {
            specs
                .iter()
                .map(|spec| spec.attr.flags.has(flag))
                .collect::<Vec<_>>()
        };
        assert_eq!(has(AttrFlags::PINNED), [true, false, false]);
        assert_eq!(has(AttrFlags::EXCLUSIVE), [true, false, false]);
        // perf adds the group's modes to those of a member.
        assert_eq!(has(AttrFlags::EXCLUDE_KERNEL), [true, true, false]);
        assert_eq!(has(AttrFlags::EXCLUDE_USER), [false, false, false]);
        assert!(
            specs
                .iter()
                .all(|spec| spec.precision == Precision::Exactly(1))
        );
    }

    #[test]
    fn breakpoints_and_their_limits() {
        let spec = one("mem:0x404040/8:w:u");
        assert_eq!(
            (
                spec.attr.kind,
                spec.attr.bp_type,
                spec.attr.config1,
                spec.attr.config2
            ),
            (5, 2, 0x40_4040, 8)
        );
        assert!(spec.attr.flags.has(AttrFlags::EXCLUDE_KERNEL));
        assert_eq!(one("mem:0x1000").attr.config2, 4);
        assert_eq!(one("mem:0x1001:x").attr.config2, 8);
        for wrong in [
            "mem:0x1001/4",
            "mem:0x1000/3",
            "mem:0x1000:wx",
            "mem:main",
            "mem:1:q",
        ] {
            assert!(
                matches!(parse(wrong, 0), Err(EventError::Breakpoint { .. })),
                "{wrong}"
            );
        }
        assert_eq!(parse("mem:0x1000/4:w,cs", 0).expect("two").len(), 2);
    }

    #[test]
    fn terms_of_every_event() {
        let spec =
            one("cpu-clock/freq=99,name=tick,call-graph=dwarf,stack-size=4096,max-stack=7/u");
        assert_eq!(spec.rate, Some(Rate::Frequency(99)));
        assert_eq!(spec.name, "tick");
        assert_eq!(
            (spec.chains, spec.stack_size),
            (Some(ChainTerm::Dump), Some(4096))
        );
        assert_eq!(spec.attr.sample_max_stack, 7);
        assert!(spec.attr.flags.has(AttrFlags::EXCLUDE_KERNEL));
        let chains = one("cpu-clock/call-graph=lbr,time=1,no-overwrite/").chains;
        assert_eq!(chains, Some(ChainTerm::LastBranch));
        for refused in ["overwrite", "time=0", "percore"] {
            let error = parse(&format!("cs/{refused}/"), 0).expect_err(refused);
            assert!(matches!(error, EventError::Refused { .. }), "{error}");
        }
        let error = parse("cpu-clock/frq=99/", 0).expect_err("no such term");
        assert!(error.to_string().contains("freq"), "{error}");
        assert!(matches!(
            parse("nopmu/x=1/", 0),
            Err(EventError::Pmu { .. })
        ));
    }

    #[test]
    fn tracepoints_have_terms_that_do_not_say_which_they_are() {
        let specs = match parse("sched:sched_switch/call-graph=fp,period=7,inherit/u", 0) {
            Ok(specs) => specs,
            Err(EventError::Tracepoint { why, .. }) => return println!("skipped: {why}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(specs[0].name, "sched:sched_switch:u");
        assert_eq!(specs[0].chains, Some(ChainTerm::FramePointers));
        assert_eq!(specs[0].rate, Some(Rate::Period(7)));
        assert!(specs[0].attr.flags.has(AttrFlags::EXCLUDE_KERNEL));
        for wrong in ["config=1", "name=x", "nothing"] {
            let error = parse(&format!("sched:sched_switch/{wrong}/"), 0).expect_err(wrong);
            assert!(error.to_string().contains("call-graph"), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let message = |text: &str| parse(text, 0).expect_err(text).to_string();
        assert!(message("cycels").contains("did you mean cycles"));
        assert!(message("cycels:u").contains("did you mean cycles:u"));
        assert!(message("cycles:x").contains("'x'"));
        assert!(message("cycles:pppp").contains("'p'"));
        assert!(message("{cycles,cs").contains("missing at character 11"));
        assert!(message("cycles,,cs").contains("missing at character 8"));
        assert!(message("cycles}").contains("no {"));
        assert!(message("uprobe:/no/such:main").contains("cannot read /no/such"));
        assert!(message("cs,uprobe:/no/such:main").contains("cannot read /no/such"));
        assert!(message("uprobe:main").contains("write uprobe:PATH:FUNCTION"));
        assert!(message("").contains("missing at character 1"));
    }
}
