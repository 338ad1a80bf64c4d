//! Which fields can be printed of a recording's samples.

use super::head::Head;
use prof_perfdata::{Event, Mode};
use prof_report::script::{EventKind, Field, Fields, Selection};

/// A field that cannot be printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The time of day, of a recording that does not tell it.
    #[error(
        "-F tod: the recording does not tell the time of day\n  \
         try: record with -k monotonic"
    )]
    NoTimeOfDay,
    /// What an event's samples do not carry.
    #[error("samples of {event} have no {part}, so {field} cannot be printed")]
    NotRecorded {
        /// The event's name.
        event: String,
        /// perf's name for what is missing.
        part: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field that says nothing without another one.
    #[error("-F {field} needs {needed}, {what}")]
    Alone {
        /// The field.
        field: &'static str,
        /// The other one.
        needed: &'static str,
        /// What that tells of it.
        what: &'static str,
    },
}

/// Drops default fields that an event lacks; refuses those asked for. Branches
/// are printed where there are any, as in perf. With `chains`, samples of
/// tracepoints are printed with theirs.
pub(super) fn check(
    selection: &mut Selection,
    head: &Head,
    has_clock: bool,
    chains: bool,
) -> Result<(), FieldError> {
    if !has_clock && selection.of_any().has(Field::Tod) {
        return Err(FieldError::NoTimeOfDay);
    }
    let mut seen = Vec::new();
    for event in &head.events {
        let kind = EventKind::of(event.attr.kind);
        // As perf: the first event of a kind decides for all of them, and in a
        // file none that takes no samples.
        let is_dummy = event.attr.kind == 1 && event.attr.config == 9;
        if seen.contains(&kind) || (is_dummy && head.mode == Mode::File) {
            continue;
        }
        seen.push(kind);
        check_event(selection, event)?;
    }
    if chains {
        show_chains(selection, head);
    }
    Ok(())
}

fn check_event(selection: &mut Selection, event: &Event) -> Result<(), FieldError> {
    let kind = EventKind::of(event.attr.kind);
    for &field in Field::ALL {
        let Some((false, part)) = carries(event, field) else {
            continue;
        };
        if !selection.of(kind).has(field) {
            continue;
        }
        if selection.asked_for(kind, field) {
            return Err(FieldError::NotRecorded {
                event: event.name().into_owned(),
                part,
                field: field.name(),
            });
        }
        selection.drop_field(kind, field);
    }
    check_pairs(selection.of(kind))
}

fn show_chains(selection: &mut Selection, head: &Head) {
    if head.mode == Mode::Pipe {
        return show_chains_of_pipe(selection, &head.events);
    }
    let has_chain = |event: &Event| event.attr.sample_type.has(prof_abi::SampleType::CALLCHAIN);
    let is_tracepoint = |event: &Event| EventKind::of(event.attr.kind) == EventKind::Tracepoint;
    let mut events = head.events.iter();
    if events.any(|event| is_tracepoint(event) && has_chain(event)) {
        selection.show_tracepoint_chains(&[Field::Ip, Field::Sym, Field::SymOff, Field::Dso]);
    }
}

/// What the samples of an event must carry for a field to be printed, and
/// what perf calls it.
fn carries(event: &Event, field: Field) -> Option<(bool, &'static str)> {
    use prof_abi::SampleType as Bit;
    let kind = event.attr.sample_type;
    Some(match field {
        Field::Ip => (kind.has(Bit::IP), "IP"),
        Field::Addr => (kind.has(Bit::ADDR), "ADDR"),
        Field::DataSrc => (kind.has(Bit::DATA_SRC), "DATA_SRC"),
        Field::Weight => (
            kind.has(Bit::WEIGHT) || kind.has(Bit::WEIGHT_STRUCT),
            "WEIGHT",
        ),
        Field::InsLat => (kind.has(Bit::WEIGHT_STRUCT), "WEIGHT_STRUCT"),
        Field::Pid | Field::Tid => (kind.has(Bit::TID), "TID"),
        Field::Time | Field::Tod => (kind.has(Bit::TIME), "TIME"),
        Field::Cpu => (kind.has(Bit::CPU), "CPU"),
        Field::BrStackInsn | Field::BrStackInsnLen => {
            (records_all_branches(event), "stack of all branches")
        }
        Field::Iregs => (kind.has(Bit::REGS_INTR), "IREGS"),
        Field::Uregs => (kind.has(Bit::REGS_USER), "UREGS"),
        Field::PhysAddr => (kind.has(Bit::PHYS_ADDR), "PHYS_ADDR"),
        Field::DataPageSize => (kind.has(Bit::DATA_PAGE_SIZE), "DATA_PAGE_SIZE"),
        Field::CodePageSize => (kind.has(Bit::CODE_PAGE_SIZE), "CODE_PAGE_SIZE"),
        Field::Cgroup => (kind.has(Bit::CGROUP), "CGROUP"),
        _ => return None,
    })
}

/// Refuses fields that say nothing without another one.
fn check_pairs(fields: Fields) -> Result<(), FieldError> {
    let pairs = [
        (Field::SymOff, Field::Sym, "the symbol it counts from"),
        (Field::SrcLine, Field::Ip, "the address it is of"),
        (Field::SrcCode, Field::Ip, "the address it is of"),
    ];
    for (field, needed, what) in pairs {
        if fields.has(field) && !fields.has(needed) {
            let (field, needed) = (field.name(), needed.name());
            return Err(FieldError::Alone {
                field,
                needed,
                what,
            });
        }
    }
    Ok(())
}

/// Whether samples have all branches, not only those of some kind.
fn records_all_branches(event: &Event) -> bool {
    use prof_abi::{BranchSampleType as Bit, SampleType};
    let attr = &event.attr;
    attr.sample_type.has(SampleType::BRANCH_STACK) && attr.branch_sample_type.has(Bit::ANY)
}

/// As perf, which looks at each event of a pipe with those before it.
fn show_chains_of_pipe(selection: &mut Selection, events: &[Event]) {
    use prof_abi::SampleType as Bit;
    let mut combined = Bit(0);
    for event in events {
        combined = combined.with(event.attr.sample_type);
        let has_chains = combined.has(Bit::CALLCHAIN)
            || combined.has(Bit::BRANCH_STACK)
            || (combined.has(Bit::REGS_USER) && combined.has(Bit::STACK_USER));
        if has_chains {
            selection.show_chains_of_pipe(EventKind::of(event.attr.kind));
        }
    }
}
