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
use super::tool::Tool;
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
        parse_event(member.trim(), programs, specs)?;
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
        return Err(syntax(text, "a } or / is missing", text.len()));
    }
    pieces.push((start, &text[start..]));
    Ok(pieces)
}

/// Whether a slash of the event opens or closes terms: probes have paths, and
/// a number behind a breakpoint's is its length.
fn opens_terms(event: &str, behind: &str, are_open: bool) -> bool {
    let event = event.trim_start();
    if probe::is_probe(event) {
        return false;
    }
    are_open
        || !event.starts_with("mem:")
        || behind.starts_with(|letter: char| letter.is_alphabetic())
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
            Some((system, name)) => {
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
            None => with_terms(text, name, rest, specs),
        },
        None => by_name(text, programs, specs),
    }
}

/// Probes with the letters behind them.
fn add_probes(text: &str, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
    let (found, letters) = probe::parse(text)?;
    for mut spec in found {
        modify(&mut spec, letters)?;
        if !letters.is_empty() {
            spec.name = format!("{}:{letters}", spec.name);
        }
        specs.push(spec);
    }
    Ok(())
}

/// A name, `system:name` or numbers, without terms.
fn by_name(text: &str, programs: &Programs, specs: &mut Vec<EventSpec>) -> Result<(), EventError> {
    let (name, letters) = match text.split_once(':') {
        None => (text, ""),
        Some((name, letters)) if named(name).is_some() => (name, letters),
        Some((kind, rest)) if kind.parse::<u32>().is_ok() => {
            return by_number(text, kind, rest, specs);
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
fn by_number(
    text: &str,
    kind: &str,
    rest: &str,
    specs: &mut Vec<EventSpec>,
) -> Result<(), EventError> {
    let (config, letters) = rest.split_once(':').unwrap_or((rest, ""));
    let wrong = || EventError::Number {
        event: text.to_owned(),
        value: config.to_owned(),
        place: "config".to_owned(),
    };
    let attr = EventAttr {
        kind: kind.parse().map_err(|_| wrong())?,
        config: parse_number(config).ok_or_else(wrong)?,
        ..EventAttr::default()
    };
    let mut spec = EventSpec::new(text, attr);
    modify(&mut spec, letters)?;
    specs.push(spec);
    Ok(())
}

/// The events of a name without modifiers or terms: on a machine with several
/// kinds of cores one for each.
fn named(name: &str) -> Option<Vec<EventSpec>> {
    if let Some(tool) = Tool::by_name(name) {
        return Some(vec![EventSpec::of_tool(name, tool)]);
    }
    match plain_attr(name) {
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
    let lower = name.to_ascii_lowercase();
    let number = names::number_of(name).or_else(|| names::number_of(&lower));
    let (kind, config) = number.or_else(|| {
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
            return Err(syntax(self.text, "a name is missing", 0));
        }
        let found = match tracepoint::lookup(system, name) {
            Err(error) => match probe::marker_of(programs, system, name) {
                Some(markers) => return self.add_markers(markers, specs),
                None => return Err(error),
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
        for (term, value) in terms::split(self.terms) {
            if terms::IDENTITY.contains(&term) || !terms::apply(term, value, &mut spec)? {
                return Err(EventError::Term {
                    event: self.text.to_owned(),
                    term: term.to_owned(),
                    known: terms::OF_ALL.iter().map(ToString::to_string).collect(),
                });
            }
        }
        modify(&mut spec, self.letters)?;
        Ok(spec)
    }
}

/// What stands between the slashes of `text`, and behind them.
fn terms_and_letters<'a>(text: &str, rest: &'a str) -> Result<(&'a str, &'a str), EventError> {
    let (terms, letters) = rest
        .rsplit_once('/')
        .ok_or_else(|| syntax(text, "a / is missing", text.len()))?;
    Ok((terms, letters.strip_prefix(':').unwrap_or(letters)))
}

/// `name/term,term=value/letters`; `name` is a plain event, or a PMU or several
/// (`uncore_imc` means `uncore_imc_0` and so on).
fn with_terms(
    text: &str,
    name: &str,
    rest: &str,
    specs: &mut Vec<EventSpec>,
) -> Result<(), EventError> {
    let (terms, letters) = terms_and_letters(text, rest)?;
    let plain = plain_attr(name).map(|attr| on_each_core(name, &attr));
    let with_pmus: Vec<(EventSpec, Option<Pmu>)> = match plain {
        Some(plain) => plain.into_iter().map(|spec| (spec, None)).collect(),
        None => {
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
        for (term, value) in terms::split(terms) {
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
        Some(pmu) => match (value, plain_attr(term)) {
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
        assert!(message("").contains("missing at character 1"));
    }
}
