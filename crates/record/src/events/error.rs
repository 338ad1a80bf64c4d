//! Why what stands after `-e` is no event.

use super::no_probe::NoProbe;

/// An event that cannot be understood or does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No such name.
    #[error("there is no event {name}{}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// As written.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A figure of the machine that perf has among its tool events.
    #[error(
        "event {name}: it is a figure of the machine, no count\n  try: lscpu   (tool events that are counted are duration_time, user_time and system_time)"
    )]
    Constant {
        /// As written.
        name: String,
    },
    /// A modifier that is not one.
    #[error(
        "event {name}: there is no modifier {modifier:?}\n  modifiers are u k h (modes), p P (precision), G H (guest, host), I D e S W X b R"
    )]
    Modifier {
        /// The event.
        name: String,
        /// The letter.
        modifier: char,
    },
    /// A modifier that prof does not take.
    #[error("event {name}: modifier {modifier:?}: {why}")]
    RefusedModifier {
        /// The event.
        name: String,
        /// The letter.
        modifier: char,
        /// Why not.
        why: &'static str,
    },
    /// A term between slashes that is not known.
    #[error("event {event}: there is no term {term}{}", known_terms(.known))]
    Term {
        /// The event.
        event: String,
        /// The term.
        term: String,
        /// The terms of its PMU.
        known: Vec<String>,
    },
    /// A term of perf's that prof does not have.
    #[error("event {event}: there is no term {term}: {why}")]
    Refused {
        /// The event.
        event: String,
        /// The term.
        term: String,
        /// Why not, or what to use.
        why: &'static str,
    },
    /// A term that is known, but not as it was written.
    #[error("event {event}: term {term}: {why}")]
    UnusableTerm {
        /// The event.
        event: String,
        /// The term.
        term: String,
        /// Why not, or what to write.
        why: &'static str,
    },
    /// A number that is none, or is too large for its place.
    #[error("event {event}: {value} is not a number that fits {place}")]
    Number {
        /// The event.
        event: String,
        /// As written.
        value: String,
        /// What it is for.
        place: String,
    },
    /// The kernel's description of a term that is not understood.
    #[error("event {event}: cannot use term {term}: {}: {why}\n  config=BITS, config1=BITS, … set a word of the event without it", .path.display())]
    Format {
        /// The event.
        event: String,
        /// The term.
        term: String,
        /// The file in sysfs that says which bits the term is.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No such PMU.
    #[error("event {event}: this machine has no PMU {pmu}\n  it has: {}", .known.join(", "))]
    Pmu {
        /// The event.
        event: String,
        /// The PMU.
        pmu: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The tracepoint cannot be looked up.
    #[error("tracepoint {name}: cannot read {path}: {why}\n  {hint}")]
    Tracepoint {
        /// `system:name`.
        name: String,
        /// The file looked for.
        path: String,
        /// Why not.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// A probe that cannot be made.
    #[error("probe {event}: {why}")]
    Probe {
        /// As written.
        event: String,
        /// Why not.
        why: NoProbe,
    },
    /// A breakpoint that the CPU cannot have.
    #[error(
        "breakpoint {event}: {why}\n  write mem:ADDRESS[/LENGTH][:rwx] or mem:NAME[+OFFSET]…, length 1, 2, 4 or 8, for example mem:0x404040/4:w"
    )]
    Breakpoint {
        /// As written.
        event: String,
        /// What is wrong.
        why: String,
    },
    /// Braces or slashes that do not match, or nothing where an event should
    /// be.
    #[error("events {text:?}: {why} at character {at}")]
    Syntax {
        /// The whole text.
        text: String,
        /// What is wrong.
        why: &'static str,
        /// Where, from 1.
        at: usize,
    },
}

impl EventError {
    /// [`EventError::Syntax`] at a byte of the text.
    pub(super) fn syntax(text: &str, why: &'static str, at: usize) -> Self {
        Self::Syntax {
            text: text.to_owned(),
            why,
            at: at + 1,
        }
    }
}

fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("\n  did you mean {nearest}? (prof list shows all)"),
        None => "\n  prof list shows those that there are".to_owned(),
    }
}

fn known_terms(known: &[String]) -> String {
    if known.is_empty() {
        return "\n  its PMU has none; config=, period=, freq=, name= and the like are for all"
            .to_owned();
    }
    format!("\n  its terms are: {}", known.join(", "))
}
