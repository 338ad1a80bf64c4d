//! The grammar of `-e`, as perf has it:
//!
//! ```text
//! events    = event { "," event }        group = [ name ] "{" events "}" [ ":" letters ]
//! event     = group | name [ ":" letters ] | name "/" terms "/" [ letters ]
//!           | "r" hex [ ":" letters ]    a raw event of the CPU
//!           | system ":" name [ "/" terms "/" ]   a tracepoint, * and ? allowed
//!           | number ":" number [ ":" letters ]         type and config
//!           | name                       an event that one of the PMUs names
//!           | breakpoint                 see `breakpoint.rs`
//!           | probe                      see `probe.rs`
//! ```

use super::error::EventError;
use super::modifiers::{LETTERS, modify};
use super::pmu::{self, Pmu, parse_number};
use super::programs::Programs;
use super::spec::EventSpec;
use super::spelling::{opens_terms, tidy};
use super::tool::{self, Tool};
use super::{breakpoint, names, probe, terms, tracepoint};
use prof_abi::{EventAttr, event_kind};

/// Parses what stands after one `-e`. Groups are numbered from `first_group`.
pub fn parse(text: &str, first_group: u32) -> Result<Vec<EventSpec>, EventError> {
    parse_for(text, first_group, &Programs::default())
}

/// Parses what stands after one `-e`, with names of the programs that are to be
/// recorded.
pub fn parse_for(
    text: &str,
    first_group: u32,
    programs: &Programs,
) -> Result<Vec<EventSpec>, EventError> {
    let text = tidy(text)?;
    let text = text.as_str();
    let mut specs = Vec::new();
    let mut group = first_group;
    for (at, item) in split_outside(text)? {
        if item.is_empty() {
            return Err(EventError::syntax(text, "an event is missing", at));
        }
        match group_name(item) {
            Some((name, rest)) => {
                let (inside, letters) = rest
                    .rsplit_once('}')
                    .ok_or_else(|| EventError::syntax(text, "a } is missing", at))?;
                let letters = letters_of_group(letters).ok_or_else(|| {
                    let why = "}: and modifiers were expected";
                    EventError::syntax(text, why, at + item.len() - letters.len())
                })?;
                let from = specs.len();
                parse_group((inside, letters), programs, &mut specs)?;
                for spec in specs.iter_mut().skip(from) {
                    spec.group = Some(group);
                    spec.group_name = (!name.is_empty()).then(|| name.to_owned());
                }
                group += 1;
            }
            None => parse_event(item, programs, &mut specs)?,
        }
    }
    Ok(specs)
}

/// The letters of what follows a group's brace: nothing, or a colon and them.
fn letters_of_group(behind: &str) -> Option<&str> {
    match behind.strip_prefix(':') {
        Some("") => None,
        None => behind.is_empty().then_some(""),
        letters => letters,
    }
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
fn parse_group(
    (inside, letters): (&str, &str),
    programs: &Programs,
    specs: &mut Vec<EventSpec>,
) -> Result<(), EventError> {
    let of_members: String = letters
        .chars()
        .filter(|letter| !"De".contains(*letter))
        .collect();
    let leader = specs.len();
    for (_, member) in split_outside(inside)? {
        parse_event(member, programs, specs)?;
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
            '{' if in_braces => {
                return Err(EventError::syntax(text, "groups cannot hold groups", at));
            }
            '{' => {
                in_braces = true;
                event = at + 1;
            }
            '}' if !in_braces => {
                return Err(EventError::syntax(text, "there is no { for this }", at));
            }
            '}' => in_braces = false,
            '/' if opens_terms(&text[event..], &text[at + 1..], in_slashes) => {
                in_slashes = !in_slashes;
            }
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
        return Err(EventError::syntax(text, "a } or / is missing", text.len()));
    }
    pieces.push((start, &text[start..]));
    Ok(pieces)
}

/// Parses one event, which may be several tracepoints.
fn parse_event(
    text: &str,
    programs: &Programs,
    specs: &mut Vec<EventSpec>,
) -> Result<(), EventError> {
    if let Some(rest) = text.strip_prefix("mem:") {
        specs.push(breakpoint::parse(text, rest, programs)?);
        return Ok(());
    }
    if probe::is_probe(text) {
        return add_probes(text, specs);
    }
    match text.split_once('/') {
        Some((name, rest)) => match name.split_once(':') {
            Some((system, name)) if parse_number(system).is_none() => {
                let (terms, letters) = terms_and_letters(text, rest)?;
                let asked = Tracepoints {
                    text,
                    system,
                    name,
                    terms,
                    letters,
                };
                asked.add_to(programs, specs)
            }
            _ => with_terms(text, name, rest, specs),
        },
        None => by_name(text, programs, specs),
    }
}

/// Probes with the terms and letters behind them.
fn add_probes(text: &str, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
    let written = probe::written(text);
    let found = probe::parse(written.name).map_err(|error| {
        // A term that there is not is taken for a part of the function's name.
        let unknown = written.name.strip_suffix('/').and_then(|name| {
            let (_, terms) = name.rsplit_once('/')?;
            Some(terms.split_once('=')?.0.to_owned())
        });
        match (unknown, error) {
            (Some(term), EventError::Probe { event, .. }) => EventError::Term {
                event,
                term,
                known: terms::of_probes().map(str::to_owned).collect(),
            },
            (_, error) => error,
        }
    })?;
    let names_it = terms::split(written.terms).any(|(term, _)| term == "name");
    for (index, mut spec) in found.into_iter().enumerate() {
        apply_terms(text, written.terms, terms::of_probes, &mut spec)?;
        if names_it && index > 0 {
            spec.name = format!("{}_{index}", spec.name);
        }
        modify(&mut spec, written.letters)?;
        if !written.letters.is_empty() && !names_it {
            spec.name = format!("{}:{}", spec.name, written.letters);
        }
        specs.push(spec);
    }
    Ok(())
}

/// Applies those of the terms that are allowed; any other is an error.
fn apply_terms<I: Iterator<Item = &'static str>>(
    text: &str,
    terms: &str,
    allowed: impl Fn() -> I,
    spec: &mut EventSpec,
) -> Result<(), EventError> {
    for (term, value) in terms::split(terms) {
        if !allowed().any(|known| known == term) || !terms::apply(term, value, spec)? {
            return Err(EventError::Term {
                event: text.to_owned(),
                term: term.to_owned(),
                known: allowed().map(str::to_owned).collect(),
            });
        }
    }
    Ok(())
}

/// A name, `system:name` or numbers, without terms.
fn by_name(text: &str, programs: &Programs, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
    let (name, letters) = match text.split_once(':') {
        None => (text, ""),
        Some((name, letters)) if named(name).is_some() => (name, letters),
        Some((kind, rest)) if parse_number(kind).is_some() => {
            let (config, letters) = rest.split_once(':').unwrap_or((rest, ""));
            let mut spec = by_number(text, kind, config)?;
            modify(&mut spec, letters)?;
            specs.push(spec);
            return Ok(());
        }
        Some((system, rest)) => {
            let (name, letters) = rest.split_once(':').unwrap_or((rest, ""));
            let asked = Tracepoints {
                text,
                system,
                name,
                terms: "",
                letters,
            };
            return asked.add_to(programs, specs);
        }
    };
    if tool::is_constant(name) {
        let name = name.to_owned();
        return Err(EventError::Constant { name });
    }
    let found = named(name).ok_or_else(|| EventError::Unknown {
        name: name.to_owned(),
        nearest: names::nearest(name),
    })?;
    for mut spec in found {
        spec.name = match spec.name == name {
            true => text.to_owned(),
            // Of one of several PMUs, which perf names so.
            false => format!("{}{letters}", spec.name),
        };
        modify(&mut spec, letters)?;
        specs.push(spec);
    }
    Ok(())
}

/// `type:config`, both as numbers.
fn by_number(text: &str, kind: &str, config: &str) -> Result<EventSpec, EventError> {
    let wrong = |value: &str, place: &str| EventError::Number {
        event: text.to_owned(),
        value: value.to_owned(),
        place: place.to_owned(),
    };
    let number = parse_number(kind).and_then(|number| u32::try_from(number).ok());
    let attr = EventAttr {
        kind: number.ok_or_else(|| wrong(kind, "type (32 bits)"))?,
        config: parse_number(config).ok_or_else(|| wrong(config, "config"))?,
        ..EventAttr::default()
    };
    Ok(EventSpec::new(text, attr))
}

/// The events of a name without modifiers or terms: on a machine with several
/// kinds of cores one for each.
fn named(name: &str) -> Option<Vec<EventSpec>> {
    if let Some(tool) = Tool::by_name(name) {
        return Some(vec![EventSpec::of_tool(name, tool)]);
    }
    match names::plain_attr(name) {
        Some(attr) => Some(on_each_core(name, &attr)),
        None => pmu::of_event(name),
    }
}

/// A generalized or raw event on each kind of core. The upper half of its
/// config says on which (`PERF_PMU_TYPE_SHIFT`); a raw one has that PMU's type.
fn on_each_core(name: &str, attr: &EventAttr) -> Vec<EventSpec> {
    let of_cores = [event_kind::HARDWARE, event_kind::CACHE, event_kind::RAW];
    let cores = match of_cores.contains(&attr.kind) {
        true => pmu::kinds_of_cores(),
        false => Vec::new(),
    };
    if cores.is_empty() {
        return vec![EventSpec::new(name, attr.clone())];
    }
    let specs = cores.iter().map(|core| {
        let spec = EventSpec::new(format!("{}/{name}/", core.name()), attr.clone());
        core.place(spec)
    });
    specs.collect()
}

/// An event's text and its modifiers.
pub(super) fn split_letters(text: &str) -> (&str, &str) {
    let is_letters = |tail: &str| tail.chars().all(|letter| LETTERS.contains(letter));
    if let Some(rest) = text.strip_prefix("mem:") {
        let split = breakpoint::without_letters(rest);
        return split.map_or((text, ""), |(place, letters)| {
            (&text[..place.len() + "mem:".len()], letters)
        });
    }
    if probe::is_probe(text) {
        let letters = probe::written(text).letters;
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

/// `system:name/terms/letters`, which may be several.
struct Tracepoints<'a> {
    text: &'a str,
    system: &'a str,
    name: &'a str,
    terms: &'a str,
    letters: &'a str,
}

impl Tracepoints<'_> {
    fn add_to(&self, programs: &Programs, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
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
            return Err(EventError::syntax(self.text, "a name is missing", 0));
        }
        let found = match tracepoint::lookup(system, name) {
            Err(error) => match probe::marker_of(programs, system, name) {
                Some(markers) => return self.add_markers(markers, specs),
                None => return Err(probe::no_marker(programs, system, name).unwrap_or(error)),
            },
            Ok(found) => found,
        };
        for (full, id) in found {
            specs.push(self.spec(full, id)?);
        }
        Ok(())
    }

    fn add_markers(
        &self,
        markers: Vec<EventSpec>,
        specs: &mut Vec<EventSpec>,
    ) -> Result<(), EventError> {
        for mut spec in markers {
            apply_terms(self.text, self.terms, terms::of_probes, &mut spec)?;
            modify(&mut spec, self.letters)?;
            specs.push(spec);
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
        spec.in_kernel_only = tracepoint::is_of_kernel(&spec.name);
        let allowed = || terms::OF_ALL.iter().copied();
        apply_terms(self.text, self.terms, allowed, &mut spec)?;
        modify(&mut spec, self.letters)?;
        Ok(spec)
    }
}

/// What stands between the slashes of `text`, and behind them.
fn terms_and_letters<'a>(text: &str, rest: &'a str) -> Result<(&'a str, &'a str), EventError> {
    let (terms, letters) = rest
        .rsplit_once('/')
        .ok_or_else(|| EventError::syntax(text, "a / is missing", text.len()))?;
    Ok((terms, letters.strip_prefix(':').unwrap_or(letters)))
}

/// What stands before terms: a plain event on each kind of cores, numbers, a time
/// that `prof stat` takes, or nothing of these but a PMU.
fn without_pmu(text: &str, name: &str) -> Result<Vec<EventSpec>, EventError> {
    if let Some((kind, config)) = name.split_once(':') {
        return Ok(vec![by_number(text, kind, config)?]);
    }
    if let Some(tool) = Tool::by_name(name) {
        return Ok(vec![EventSpec::of_tool(text, tool)]);
    }
    let plain = names::plain_attr(name).map(|attr| on_each_core(name, &attr));
    Ok(plain.unwrap_or_default())
}

/// `name/term,term=value/letters`; `name` is a plain event, numbers, or a PMU or
/// several (`uncore_imc` means `uncore_imc_0` and so on).
fn with_terms(
    text: &str,
    name: &str,
    rest: &str,
    specs: &mut Vec<EventSpec>,
) -> Result<(), EventError> {
    let (terms, letters) = terms_and_letters(text, rest)?;
    if name == "tool" && letters.is_empty() {
        // As perf 7.2 writes them.
        if let Some(tool) = Tool::by_name(terms) {
            specs.push(EventSpec::of_tool(text, tool));
            return Ok(());
        }
        if tool::is_constant(terms) {
            let name = text.to_owned();
            return Err(EventError::Constant { name });
        }
    }
    let plain = without_pmu(text, name)?;
    let with_pmus: Vec<(EventSpec, Option<Pmu>)> = match plain.is_empty() {
        false => plain.into_iter().map(|spec| (spec, None)).collect(),
        true => {
            let pmus = Pmu::all_of(name, text)?.into_iter();
            pmus.map(|pmu| (pmu.spec(), Some(pmu))).collect()
        }
    };
    let several = with_pmus.len() > 1;
    for (mut spec, pmu) in with_pmus {
        spec.name = match (&pmu, several) {
            (Some(pmu), true) => format!("{}/{rest}", pmu.name()),
            _ => text.to_owned(),
        };
        let names_event = |&(term, value): &(&str, Option<&str>)| {
            value.is_none() && pmu.as_ref().is_some_and(|pmu| pmu.names(term))
        };
        let (names, others): (Vec<_>, Vec<_>) = terms::split(terms).partition(names_event);
        if let Some((another, _)) = names.get(1) {
            return Err(EventError::UnusableTerm {
                event: text.to_owned(),
                term: (*another).to_owned(),
                why: "another event stands before it; write each with slashes of its own",
            });
        }
        // What is given beside the event's name is what is meant, wherever it stands.
        for (term, value) in names.into_iter().chain(others) {
            apply_term(term, value, pmu.as_ref(), &mut spec)?;
        }
        modify(&mut spec, letters)?;
        specs.push(spec);
    }
    Ok(())
}

fn apply_term(
    term: &str,
    value: Option<&str>,
    pmu: Option<&Pmu>,
    spec: &mut EventSpec,
) -> Result<(), EventError> {
    // What a PMU calls by the name of a common term is its own.
    let is_own = pmu.is_some_and(|pmu| pmu.has_term(term));
    if !is_own && terms::apply(term, value, spec)? {
        return Ok(());
    }
    match pmu {
        Some(pmu) => match (value, names::plain_attr(term)) {
            (None, Some(attr)) if !is_own && pmu.has_generalized(&attr) => {
                let attr = EventAttr {
                    flags: spec.attr.flags,
                    ..attr
                };
                *spec = pmu.place(EventSpec {
                    attr,
                    ..spec.clone()
                });
                Ok(())
            }
            _ => pmu.apply(term, value, spec),
        },
        None => Err(EventError::Term {
            event: spec.name.clone(),
            term: term.to_owned(),
            known: terms::of_events().map(str::to_owned).collect(),
        }),
    }
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
        // covers unit: EV-24, EV-32
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
        // covers unit: EV-31, EV-32
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
            "mem:no_such_name",
            "mem:1:q",
            "mem:0x1000:rr",
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
        assert_eq!(one("cs/nr=7/").sampling_term, Some("nr"));
        assert!(matches!(
            parse("cs/nr=x/", 0),
            Err(EventError::Number { .. })
        ));
        assert!(!one("cs/time=1,overwrite,no-overwrite/").keeps_newest());
        assert!(one("cs/overwrite/").keeps_newest() && !one("cs/overwrite/").without_times);
        assert!(one("cs/time=0/").without_times && !one("cs/time/").without_times);
        let error = parse("cs/time=2/", 0).expect_err("0 or 1");
        assert!(matches!(error, EventError::Number { .. }), "{error}");
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
        assert_eq!(specs[0].name, "sched:sched_switch", "as perf calls it");
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
        assert!(message("uprobe:/no/such:main/nme=x/").contains("there is no term nme"));
        assert!(message("sdt_no:such").contains("sdt_no:such@PATH"));
        assert!(message("").contains("missing at character 1"));
    }
}
