//! The events that this machine has, and those that it lacks with the reason.

mod descriptions;

use crate::doctor::Environment;
use crate::events::Tool;
use crate::events::pmu::devices;
use crate::hints::why_not_offered;
use crate::reading::names;
use prof_abi::{
    AttrFlags, EventAttr, HARDWARE_EVENTS, NamedEvent, SOFTWARE_EVENTS, cache_events, event_kind,
};
use prof_sys::{Event, Target};
use std::fs;
use std::path::Path;

/// What kind of event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Generalized hardware events.
    Hardware,
    /// Counted by the kernel itself.
    Software,
    /// Generalized cache events.
    Cache,
    /// Times that `prof stat` takes itself.
    Tool,
    /// Events that a PMU names in sysfs.
    Pmu,
    /// Places in the kernel's source.
    Tracepoint,
    /// Ways to write an event that has no name.
    Pattern,
}

impl Category {
    const ALL: [Self; 7] = [
        Self::Hardware,
        Self::Software,
        Self::Cache,
        Self::Tool,
        Self::Pmu,
        Self::Tracepoint,
        Self::Pattern,
    ];

    /// As perf's list calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Hardware => "Hardware event",
            Self::Software => "Software event",
            Self::Cache => "Hardware cache event",
            Self::Tool => "Tool event",
            Self::Pmu => "Kernel PMU event",
            Self::Tracepoint => "Tracepoint event",
            Self::Pattern => "Event syntax",
        }
    }

    /// The word that selects the category as a filter, as perf has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hardware => "hw",
            Self::Software => "sw",
            Self::Cache => "cache",
            Self::Tool => "tool",
            Self::Pmu => "pmu",
            Self::Tracepoint => "tracepoint",
            Self::Pattern => "syntax",
        }
    }

    /// The PMU that sysfs has for all of it, if there is one.
    pub fn pmu(self) -> Option<&'static str> {
        match self {
            Self::Software => Some("software"),
            Self::Tracepoint => Some("tracepoint"),
            Self::Tool => Some("tool"),
            _ => None,
        }
    }

    fn has_word(self, word: &str) -> bool {
        let long = match self {
            Self::Hardware => "hardware",
            Self::Software => "software",
            Self::Cache => "hwcache",
            _ => "",
        };
        word == self.word() || (!long.is_empty() && word == long)
    }
}

/// An event and whether it can be used here.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedEvent {
    /// As `-e` takes it.
    pub name: String,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// What kind it is.
    pub category: Category,
    /// Why it cannot be used by this user on this machine; `None` if it can.
    pub lacking: Option<String>,
    /// What it counts, where that is known.
    pub description: Option<&'static str>,
    /// The same event by numbers, as `-e` takes it.
    pub encoding: Option<String>,
    /// Factor and unit by which its counts are to be shown.
    pub scale: Option<(f64, String)>,
}

impl ListedEvent {
    /// An event of which only the name is known.
    pub fn new(name: impl Into<String>, category: Category) -> Self {
        Self {
            name: name.into(),
            alias: None,
            category,
            lacking: None,
            description: None,
            encoding: None,
            scale: None,
        }
    }
}

/// The events whose name or kind `filters` ask for, by kind and name; all if
/// there are none. A filter is a category's word, a pattern with `*` and `?`,
/// or a part of a name.
pub fn events(filters: &[String]) -> Vec<ListedEvent> {
    let environment = Environment::read();
    let mut events = Vec::new();
    generalized(&environment, &mut events);
    tool_events(&mut events);
    pmu_events(&devices(), &mut events);
    if let Some(tracefs) = &environment.tracefs {
        tracepoints(&Path::new(tracefs).join("events"), &mut events);
    }
    patterns(&environment, &mut events);
    events.retain(|event| filters.is_empty() || filters.iter().any(|one| matches(event, one)));
    events
}

/// Why the filtered list is empty, where the reason is not the filter itself:
/// tracepoints can be listed by some users only.
pub fn why_none(filters: &[String]) -> Option<String> {
    let of_tracepoints =
        |filter: &String| Category::Tracepoint.has_word(filter) || filter.contains(':');
    if !filters.iter().any(of_tracepoints) {
        return None;
    }
    let why = Environment::read().no_tracefs()?;
    Some(format!("tracepoints cannot be listed: {why}"))
}

/// Events of these categories that cannot be listed at all, and why: what the
/// kernel or a container hides from this process.
pub fn hidden(filters: &[String]) -> Vec<String> {
    let wanted = |category: Category| {
        filters.is_empty() || filters.iter().any(|filter| category.has_word(filter))
    };
    let mut hidden = Vec::new();
    if wanted(Category::Tracepoint)
        && let Some(why) = Environment::read().no_tracefs()
    {
        hidden.push(format!("tracepoints are not listed: {why}"));
    }
    let devices = devices();
    if wanted(Category::Pmu) && fs::read_dir(&devices).is_err() {
        let at = devices.display();
        hidden.push(format!(
            "events of PMUs are not listed: {at} cannot be read"
        ));
    }
    hidden
}

fn matches(event: &ListedEvent, filter: &str) -> bool {
    if Category::ALL
        .iter()
        .any(|category| category.has_word(filter))
    {
        return event.category.has_word(filter);
    }
    let names = [Some(event.name.as_str()), event.alias];
    names.into_iter().flatten().any(|name| {
        if filter.contains(['*', '?']) {
            glob(filter.as_bytes(), name.as_bytes())
        } else {
            name.contains(filter)
        }
    })
}

/// Whether `text` is of the form `pattern`: `*` any bytes, `?` any one.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern_at, mut text_at) = (0, 0);
    // Where to go on if what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    while text_at < text.len() {
        match pattern.get(pattern_at) {
            Some(b'*') => {
                retry = Some((pattern_at + 1, text_at));
                pattern_at += 1;
            }
            Some(&wanted) if wanted == b'?' || text.get(text_at) == Some(&wanted) => {
                pattern_at += 1;
                text_at += 1;
            }
            _ => match retry {
                Some((after_star, taken)) => {
                    pattern_at = after_star;
                    text_at = taken + 1;
                    retry = Some((after_star, text_at));
                }
                None => return false,
            },
        }
    }
    let rest = pattern.get(pattern_at..).unwrap_or_default();
    rest.iter().all(|&byte| byte == b'*')
}

/// Every generalized event, tried.
fn generalized(environment: &Environment, events: &mut Vec<ListedEvent>) {
    let of_table = |table: &'static [NamedEvent], kind, category| {
        table.iter().map(move |event| ListedEvent {
            alias: event.alias,
            lacking: lacking(environment, kind, event.config),
            description: descriptions::of(kind, event.config),
            encoding: Some(format!("{kind}:{:#x}", event.config)),
            ..ListedEvent::new(event.name, category)
        })
    };
    events.extend(of_table(
        &HARDWARE_EVENTS,
        event_kind::HARDWARE,
        Category::Hardware,
    ));
    events.extend(of_table(
        &SOFTWARE_EVENTS,
        event_kind::SOFTWARE,
        Category::Software,
    ));
    events.extend(cache_events().map(|(name, config)| ListedEvent {
        lacking: lacking(environment, event_kind::CACHE, config),
        encoding: Some(format!("{}:{config:#x}", event_kind::CACHE)),
        ..ListedEvent::new(name, Category::Cache)
    }));
}

/// Opens the event for this process, user code only, to see whether it works.
fn lacking(environment: &Environment, kind: u32, config: u64) -> Option<String> {
    let attr = EventAttr {
        kind,
        config,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let error = Event::open(&attr, Target::THIS, None).err()?;
    let has_pmu = environment.cpu_pmus().next().is_some();
    Some(why_not_offered(error.errno(), has_pmu).map_or_else(|| error.to_string(), str::to_owned))
}

fn tool_events(events: &mut Vec<ListedEvent>) {
    events.extend(Tool::names().map(|name| ListedEvent {
        description: descriptions::of_tool(name),
        scale: Some((1.0, "ns".to_owned())),
        ..ListedEvent::new(name, Category::Tool)
    }));
}

/// What PMUs name themselves: `msr/tsc/`.
fn pmu_events(devices: &Path, events: &mut Vec<ListedEvent>) {
    for pmu in names(devices) {
        for name in names(&devices.join(&pmu).join("events")) {
            // `cycles.scale` and the like say how to show `cycles`.
            if !name.contains('.') {
                let terms = fs::read_to_string(devices.join(&pmu).join("events").join(&name));
                let named = format!("{pmu}/{name}/");
                events.push(ListedEvent {
                    encoding: terms.ok().map(|terms| format!("{pmu}/{}/", terms.trim())),
                    scale: unit_under(devices, &named),
                    ..ListedEvent::new(named, Category::Pmu)
                });
            }
        }
    }
}

/// Factor and unit by which a PMU wants the counts of `pmu/event/` shown, as
/// Joules for energy; `None` for what is just counted.
pub fn unit_of(name: &str) -> Option<(f64, String)> {
    unit_under(&devices(), name)
}

fn unit_under(devices: &Path, name: &str) -> Option<(f64, String)> {
    let (pmu, event) = name.split_once('/')?;
    let event = event.split('/').next()?;
    if pmu.contains("..") || event.is_empty() || event.contains([',', '=']) {
        return None;
    }
    let events = devices.join(pmu).join("events");
    let text = |suffix: &str| fs::read_to_string(events.join(format!("{event}.{suffix}")));
    let unit = text("unit").ok()?.trim().to_owned();
    let scale = text("scale").ok().and_then(|text| text.trim().parse().ok());
    Some((scale.unwrap_or(1.0), unit))
}

/// Folders below a folder per subsystem. One without an id (most of
/// `ftrace:`) describes a trace buffer's entry and cannot be opened.
fn tracepoints(directory: &Path, events: &mut Vec<ListedEvent>) {
    for system in names(directory) {
        for name in names(&directory.join(&system)) {
            if directory.join(&system).join(&name).join("id").exists() {
                let name = format!("{system}:{name}");
                events.push(ListedEvent::new(name, Category::Tracepoint));
            }
        }
    }
}

/// How to ask for what has no name.
fn patterns(environment: &Environment, events: &mut Vec<ListedEvent>) {
    let no_pmu = environment.cpu_pmus().next().is_none();
    let raw = no_pmu.then(|| "this machine has no PMU".to_owned());
    let has_breakpoints = environment.pmus.iter().any(|pmu| pmu == "breakpoint");
    let no_breakpoints =
        (!has_breakpoints).then(|| "this kernel has no hardware breakpoints".to_owned());
    let probes = |pmu: &str| match environment.pmus.iter().any(|known| known == pmu) {
        true => None,
        false => Some(format!("this kernel has no {pmu}s")),
    };
    let no_tracefs = environment
        .no_tracefs()
        .map(|why| format!("{why}, see prof doctor"));
    for (name, lacking) in [
        ("SUBSYSTEM:TRACEPOINT", no_tracefs),
        ("rNNN", raw.clone()),
        ("cpu/event=0xNN,umask=0xNN/", raw),
        ("mem:ADDRESS[/LENGTH][:rwx]", no_breakpoints.clone()),
        ("mem:NAME[+OFFSET][/LENGTH][:rwx]", no_breakpoints),
        ("uprobe:PATH:FUNCTION[+OFFSET]", probes("uprobe")),
        ("uretprobe:PATH:FUNCTION", probes("uprobe")),
        ("usdt:PATH:[PROVIDER:]NAME", probes("uprobe")),
        ("kprobe:FUNCTION[+OFFSET]", probes("kprobe")),
        ("kretprobe:FUNCTION", probes("kprobe")),
        ("TYPE:CONFIG", None),
    ] {
        events.push(ListedEvent {
            lacking,
            description: descriptions::of_pattern(name),
            ..ListedEvent::new(name, Category::Pattern)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Category, events, glob, pmu_events, tracepoints};
    use std::fs;

    #[test]
    fn patterns_with_stars_match_in_bounded_time() {
        for (pattern, text, expected) in [
            ("sched:*", "sched:sched_switch", true),
            ("*switch", "sched:sched_switch", true),
            ("s?hed:*", "sched:x", true),
            ("sched", "sched:x", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern}"
            );
        }
        let slow = ["*a"; 50].concat() + "b";
        assert!(!glob(slow.as_bytes(), "a".repeat(5000).as_bytes()));
    }

    #[test]
    fn names_come_from_sysfs_and_tracefs() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path();
        for path in [
            "pmu/msr/events",
            "tracefs/sched/sched_switch",
            "tracefs/ftrace/kernel_stack",
        ] {
            fs::create_dir_all(root.join(path)).expect("made");
        }
        for path in [
            "pmu/msr/events/tsc",
            "pmu/msr/events/tsc.scale",
            "tracefs/enable",
            "tracefs/sched/enable",
            "tracefs/sched/sched_switch/id",
            "tracefs/ftrace/kernel_stack/format",
        ] {
            fs::write(root.join(path), "").expect("written");
        }
        let mut found = Vec::new();
        pmu_events(&root.join("pmu"), &mut found);
        tracepoints(&root.join("tracefs"), &mut found);
        let names: Vec<_> = found.iter().map(|event| event.name.as_str()).collect();
        assert_eq!(names, ["msr/tsc/", "sched:sched_switch"]);
    }

    #[test]
    fn energy_has_a_unit_and_a_scale() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let events = directory.path().join("power/events");
        fs::create_dir_all(&events).expect("made");
        fs::write(events.join("energy-pkg.unit"), "Joules\n").expect("written");
        fs::write(events.join("energy-pkg.scale"), "2.5e-10\n").expect("written");
        let unit = |name| super::unit_under(directory.path(), name);
        assert_eq!(
            unit("power/energy-pkg/"),
            Some((2.5e-10, "Joules".to_owned()))
        );
        assert_eq!(unit("power/energy-cores/"), None);
        assert_eq!(unit("cycles"), None);
    }

    #[test]
    fn filters_select_by_kind_name_and_alias() {
        let software = events(&["sw".to_owned()]);
        assert_eq!(software.len(), 12);
        assert!(
            software
                .iter()
                .all(|event| event.category == Category::Software)
        );
        let by_alias = events(&["cpu-cycles".to_owned()]);
        assert!(by_alias.iter().any(|event| event.name == "cycles"));
        assert_eq!(events(&["no such event".to_owned()]), []);
    }
}
