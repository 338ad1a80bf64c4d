//! A recording without folders of files, arguments and the host's name, and
//! without what nobody can look through: contents of stacks and of tracepoints.

use crate::InjectError;
use prof_abi::{ByteOrder, SampleType};
use prof_live::LiveSummary;
use prof_perfdata::body::{EventUpdate, Name};
use prof_perfdata::write::{EventDescription, Features, RecordedBuildId};
use prof_perfdata::{Body, FeatureBit, Reader, Record};
use prof_profile::{Redaction, visible};

/// Feature sections that tell of the machine's kind alone. Others are left
/// out, those too that are not known.
const KEPT: [FeatureBit; 21] = [
    FeatureBit::OSRELEASE,
    FeatureBit::VERSION,
    FeatureBit::ARCH,
    FeatureBit::NRCPUS,
    FeatureBit::CPUDESC,
    FeatureBit::CPUID,
    FeatureBit::TOTAL_MEM,
    FeatureBit::CPU_TOPOLOGY,
    FeatureBit::NUMA_TOPOLOGY,
    FeatureBit::BRANCH_STACK,
    FeatureBit::PMU_MAPPINGS,
    FeatureBit::CACHE,
    FeatureBit::SAMPLE_TIME,
    FeatureBit::MEM_TOPOLOGY,
    FeatureBit::CLOCKID,
    FeatureBit::CPU_PMU_CAPS,
    FeatureBit::CLOCK_DATA,
    FeatureBit::HYBRID_TOPOLOGY,
    FeatureBit::PMU_CAPS,
    FeatureBit::E_MACHINE,
    FeatureBit::CLN_SIZE,
];

/// Whether a section is kept as it is.
fn keeps(bit: FeatureBit) -> bool {
    KEPT.contains(&bit)
}

/// What stays of a section; `None` if it is left out.
pub(crate) fn section(redaction: &Redaction, bit: FeatureBit, bytes: Vec<u8>) -> Option<Vec<u8>> {
    if bit != FeatureBit::PROF_TRUST {
        return keeps(bit).then_some(bytes);
    }
    let text = std::str::from_utf8(&bytes).ok()?;
    let json = LiveSummary::redacted_json(text.trim_end_matches('\0'), redaction)?;
    Some(json.into_bytes())
}

/// Refuses recordings whose samples hold what cannot be looked through.
pub(crate) fn check(reader: &Reader) -> Result<(), InjectError> {
    let events = reader.events().list().iter();
    let mut fields = events.map(|event| event.attr.sample_type);
    if fields.clone().any(|it| it.has(SampleType::STACK_USER)) {
        return Err(InjectError::PrivateStacks);
    }
    match fields.any(|it| it.has(SampleType::RAW)) {
        true => Err(InjectError::PrivateFields),
        false => Ok(()),
    }
}

/// The names of events, redacted.
pub(crate) fn events(redaction: &Redaction, events: &mut [EventDescription], to: &mut Features) {
    for event in events.iter_mut() {
        event.name = redaction.words(&event.name).into_owned();
    }
    to.event_descriptions(events);
}

/// Build-ids of files by their redacted paths.
pub(crate) fn build_ids(
    redaction: &Redaction,
    all: &[RecordedBuildId<'_>],
    features: &mut Features,
) {
    let paths: Vec<String> = all.iter().map(|it| path(redaction, it.path)).collect();
    let all = all.iter().zip(&paths);
    let redacted: Vec<_> = all
        .map(|(entry, path)| RecordedBuildId {
            path: path.as_bytes(),
            ..*entry
        })
        .collect();
    features.build_ids(&redacted);
}

/// Whether a record holds no text.
fn is_numbers(body: &Body<'_>) -> bool {
    match body {
        Body::EventUpdate(update) => update.what != EventUpdate::NAME,
        Body::Sample(_)
        | Body::Lost(_)
        | Body::Exit(_)
        | Body::Throttle(_)
        | Body::Unthrottle(_)
        | Body::Fork(_)
        | Body::Read(_)
        | Body::Aux(_)
        | Body::ItraceStart(_)
        | Body::LostSamples(_)
        | Body::Switch(_)
        | Body::SwitchCpuWide(_)
        | Body::Namespaces(_)
        | Body::BpfEvent(_)
        | Body::TextPoke(_)
        | Body::AuxOutputHwId(_)
        | Body::CallchainDeferred(_)
        | Body::IdIndex(_)
        | Body::CpuMap(_)
        | Body::StatConfig(_)
        | Body::Stat(_)
        | Body::StatRound(_)
        | Body::TimeConv(_)
        | Body::FinishedInit(_)
        | Body::SchedstatCpu(_)
        | Body::SchedstatDomain(_)
        | Body::SimpleperfEventId(_)
        | Body::SimpleperfCallchain(_) => true,
        _ => false,
    }
}

/// A path as profiles have it.
fn path(redaction: &Redaction, bytes: &[u8]) -> String {
    redaction.path(&visible(bytes)).into_owned()
}

/// The same of a name that may hold paths.
fn words(redaction: &Redaction, bytes: &[u8]) -> String {
    redaction.words(&visible(bytes)).into_owned()
}

/// Appends what becomes of a record; nothing of those that are not known.
pub(crate) fn take(redaction: &Redaction, record: &Record<'_>, out: &mut Vec<u8>) {
    let Ok(mut parsed) = record.parse() else {
        return;
    };
    let text;
    match &mut parsed.body {
        Body::Mmap(body) => {
            text = path(redaction, body.path.bytes());
            body.path = Name::new(text.as_bytes());
        }
        Body::Mmap2(body) => {
            text = path(redaction, body.path.bytes());
            body.path = Name::new(text.as_bytes());
        }
        Body::Cgroup(body) => {
            text = path(redaction, body.path.bytes());
            body.path = Name::new(text.as_bytes());
        }
        Body::SimpleperfDso(body) => {
            text = path(redaction, body.path.bytes());
            body.path = Name::new(text.as_bytes());
        }
        // Padding may hold what was there before.
        Body::Comm(body) => {
            text = words(redaction, body.name.bytes());
            body.name = Name::of_thread(text.as_bytes());
        }
        Body::Ksymbol(body) => body.name = Name::new(body.name.bytes()),
        Body::SimpleperfSymbol(body) => {
            text = words(redaction, body.name.bytes());
            body.name = Name::new(text.as_bytes());
        }
        body if is_numbers(body) => {
            out.extend_from_slice(record.bytes);
            return;
        }
        _ => return,
    }
    let mut bytes = parsed.encode(ByteOrder::NATIVE);
    if let (Ok(size), Some(place)) = (u16::try_from(bytes.len()), bytes.get_mut(6..8)) {
        place.copy_from_slice(&size.to_ne_bytes());
        out.append(&mut bytes);
    }
}
