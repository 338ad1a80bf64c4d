//! Saying why a report is empty, and what would not be.

use super::Filters;
use crate::near::{near, some};
use crate::outcome::say;
use prof_profile::{Profile, Sample, Task};
use prof_report::model::{Filter, Selection, TimeRange, any_sample_passes};
use prof_report::{escape, trust};
use std::fmt::Display;
use std::path::Path;

/// That a recording has no samples, why, and what would have some.
pub(crate) fn no_samples(profile: &Profile) -> String {
    if let Some(cause) = known_cause(profile) {
        return cause;
    }
    let events = profile.events.iter().map(|event| event.name.as_str());
    let events: Vec<&str> = events.collect();
    format!(
        "the recording has no samples of {}\n  \
         the program may have been too short or asleep\n  try: {}",
        if events.is_empty() {
            "any event".to_owned()
        } else {
            events.join(", ")
        },
        trust::ways_to_samples(events.iter().copied())
    )
}

/// Refuses a recording without samples if it is known why it has none.
pub(crate) fn check_cause(profile: &Profile, name: &str) -> anyhow::Result<()> {
    match known_cause(profile).filter(|_| profile.samples.is_empty()) {
        Some(cause) => Err(anyhow::anyhow!("{name}: {cause}")),
        None => Ok(()),
    }
}

/// Why a recording without samples has none, where more is known than that.
fn known_cause(profile: &Profile) -> Option<String> {
    if is_of_counts(profile) {
        return Some(
            "it is no recording of samples, but of counts\n  try: prof stat report".into(),
        );
    }
    if let Some(told) = trust::unseen_time(profile) {
        return Some(format!("the recording has no samples: {told}"));
    }
    if profile.trust.traced > 0 {
        return Some(format!(
            "the recording has no samples, but {} bytes of a trace, which is not decoded here\n  \
             try: perf script --itrace=b",
            profile.trust.traced
        ));
    }
    if let Some(traced) = traced_by(profile) {
        return Some(format!(
            "the recording has no samples: it is one of {traced}, whose traces are not decoded \
             here\n  try: perf report --itrace=i1us"
        ));
    }
    let mut words = profile.origin.command_line.iter();
    let is_without = words.nth(1).is_some_and(|word| word == "record")
        && words.any(|word| ["-n", "--no-samples"].contains(&word.as_str()));
    is_without.then(|| {
        "the recording has no samples: it was made with -n\n  try: prof record without it".into()
    })
}

/// The hardware that traces instructions, if it was recorded, by the command line.
fn traced_by(profile: &Profile) -> Option<&'static str> {
    const TRACERS: [(&str, &str); 5] = [
        ("intel_pt", "Intel PT"),
        ("intel_bts", "Intel BTS"),
        ("cs-etm", "CoreSight"),
        ("cs_etm", "CoreSight"),
        ("arm_spe", "Arm SPE"),
    ];
    let words = &profile.origin.command_line;
    let has = |name: &str| words.iter().any(|word| word.starts_with(name));
    let found = TRACERS.into_iter().find(|&(name, _)| has(name));
    found.map(|(_, told)| told)
}

/// Whether it is what `stat record` wrote.
pub(crate) fn is_of_counts(profile: &Profile) -> bool {
    let mut words = profile.origin.command_line.iter();
    words.nth(1).is_some_and(|word| word == "stat") && words.any(|word| word == "record")
}

/// What has no trust line hides that much of the CPU time was not seen.
pub(crate) fn say_unseen_time(profile: &Profile) {
    if let Some(told) = trust::unseen_time(profile) {
        say(&told);
    }
}

/// A name that no sample has is told, with names that there are; so are
/// numbers and times, and filters that nothing passes together.
pub(super) fn say_what_nothing_passes(profile: &Profile, filters: &Filters, selection: &Selection) {
    if let Some(part) = &filters.symbol_filter {
        say_unless_named(profile, part);
    }
    // The usual case must not pay for sorting all names.
    if filters.is_empty() {
        return;
    }
    let asked = Asked {
        profile,
        filters,
        times: &selection.scope.times,
    };
    let said = asked.say_unknown_names() | asked.say_unknown_numbers() | asked.say_empty_time();
    let said = said || say_what_only_calls(profile, selection);
    if !said && !any_sample_passes(profile, selection) {
        say(
            "no sample passes all filters together, each alone lets some pass; \
             leave one of them out",
        );
    }
}

/// Tells of functions and dsos that are asked for and only call what was sampled;
/// whether there are any.
fn say_what_only_calls(profile: &Profile, selection: &Selection) -> bool {
    let asked = &selection.filter;
    let of_symbols = Filter {
        symbols: asked.symbols.clone(),
        ..Filter::default()
    };
    let of_dsos = Filter {
        dsos: asked.dsos.clone(),
        ..Filter::default()
    };
    let mut said = false;
    for (filter, names) in [(of_symbols, &asked.symbols), (of_dsos, &asked.dsos)] {
        let alone = Selection {
            filter,
            ..selection.clone()
        };
        if !names.is_empty() && !any_sample_passes(profile, &alone) {
            let names = names.join(", ");
            say(&format!(
                "no sample was taken in {} itself: it is in call chains only",
                escape::terminal(&names)
            ));
            said = true;
        }
    }
    said
}

/// Tells that no function has `part` in its name, and names that there are.
fn say_unless_named(profile: &Profile, part: &str) {
    let functions = profile.functions.iter();
    let named = functions.filter(|function| function.unnamed.is_none());
    let names: Vec<&str> = named.map(|function| profile.name(function.name)).collect();
    if names.iter().any(|name| name.contains(part)) {
        return;
    }
    say(&format!(
        "no function of this recording has \"{}\" in its name; {}",
        escape::terminal(part),
        meant(part, &names)
    ));
}

/// Names that may have been meant, or some that there are.
fn meant(wanted: &str, known: &[&str]) -> String {
    let listed = |names: &[&str]| escape::terminal(&names.join(", ")).into_owned();
    match &near(wanted, known.iter().copied())[..] {
        [] => format!("there are: {}", listed(&some(known.iter().copied()))),
        [one] => format!("did you mean {}?", listed(&[one])),
        several => format!("did you mean one of these? {}", listed(several)),
    }
}

struct Asked<'a> {
    profile: &'a Profile,
    filters: &'a Filters,
    times: &'a [TimeRange],
}

impl Asked<'_> {
    fn task(&self, sample: &Sample) -> &Task {
        self.profile.task(sample.task)
    }

    fn is_in_time(&self, sample: &Sample) -> bool {
        self.times.is_empty() || self.times.iter().any(|range| range.holds(sample.time))
    }

    fn say_unknown_names(&self) -> bool {
        say_unknown_names(self.profile, &self.filters.filter(), "this recording")
    }

    fn say_unknown_numbers(&self) -> bool {
        let samples = || self.profile.samples.iter();
        let pids = || samples().map(|sample| self.task(&sample).pid);
        let tids = || samples().map(|sample| self.task(&sample).tid);
        let cpus = || samples().filter_map(|sample| sample.cpu);
        let wanted_cpus = self.filters.cpu.as_ref().map_or(&[][..], |list| &list.0);
        say_unless_any("process --pid", &self.filters.pid, pids)
            | say_unless_any("thread --tid", &self.filters.tid, tids)
            | say_unless_any("CPU -C", wanted_cpus, cpus)
    }

    fn say_empty_time(&self) -> bool {
        if self
            .profile
            .samples
            .iter()
            .any(|sample| self.is_in_time(&sample))
        {
            return false;
        }
        let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
        let times = || self.profile.samples.times();
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        say(&format!(
            "no sample was taken in --time {}; they are from {} to {}",
            self.filters.time.as_deref().unwrap_or_default(),
            seconds(first),
            seconds(last)
        ));
        true
    }
}

/// Numbers shown as hints.
const SHOWN: usize = 5;

/// Says that no sample is of one of the numbers that are wanted, with some
/// that there are.
fn say_unless_any<T: Display + Ord + Copy, I: Iterator<Item = T>>(
    what: &str,
    wanted: &[T],
    known: impl Fn() -> I,
) -> bool {
    if wanted.is_empty() || known().any(|number| wanted.contains(&number)) {
        return false;
    }
    let mut known = known();
    let mut some = std::collections::BTreeSet::new();
    while some.len() < SHOWN
        && let Some(number) = known.next()
    {
        some.insert(number);
    }
    let list = |numbers: &mut dyn Iterator<Item = &T>| {
        let texts: Vec<String> = numbers.take(SHOWN).map(T::to_string).collect();
        texts.join(", ")
    };
    say(&format!(
        "no sample is of {what} {}; there are: {}",
        list(&mut wanted.iter()),
        list(&mut some.iter())
    ));
    true
}

/// Tells names of threads, dsos and functions that a filter has and the
/// profile of `whose` recording does not; whether there were any.
fn say_unknown_names(profile: &Profile, filter: &Filter, whose: &str) -> bool {
    let names = |ids: &mut dyn Iterator<Item = prof_profile::NameId>| {
        let mut names: Vec<&str> = ids.map(|id| profile.name(id)).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let comms = names(&mut profile.tasks.iter().map(|task| task.comm));
    let dsos = profile.dsos.iter();
    let dsos = names(&mut dsos.flat_map(|dso| [dso.short_name, dso.path]));
    let symbols = names(&mut profile.functions.iter().map(|function| function.name));
    let lists = [
        ("thread", &filter.comms, comms),
        ("dso", &filter.dsos, dsos),
        ("function", &filter.symbols, symbols),
    ];
    let mut said = false;
    for (what, wanted, known) in lists {
        for name in wanted {
            if known.binary_search(&name.as_str()).is_err() {
                let meant = meant(name, &known);
                say(&format!("no {what} of {whose} is named {name:?}; {meant}"));
                said = true;
            }
        }
    }
    said
}

/// Tells of one of several recordings that nothing of it passes, and why.
pub(crate) fn say_if_nothing_passes(profile: &Profile, selection: &Selection, path: &Path) {
    if selection.filter.is_empty() || any_sample_passes(profile, selection) {
        return;
    }
    let whose = path.display().to_string();
    let whose = escape::terminal(&whose);
    if !say_unknown_names(profile, &selection.filter, &whose) {
        say(&format!("no sample of {whose} passes all filters together"));
    }
}
