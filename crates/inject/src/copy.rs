//! Copying a recording record by record.

use crate::chains::Chains;
use crate::jit::Placing;
use crate::redact;
use crate::sleeps::Sleeps;
use crate::{Additions, Destination, InjectError, Injected, OF_THE_LAYOUT, Source, Writer};
use prof_abi::{CpuMode, RecordType};
use prof_perfdata::write::{EventDescription, Features, RecordedBuildId};
use prof_perfdata::{Event, FeatureBit, Reader, TimeOrder};
use prof_profile::Redaction;
use std::io::{Seek, Write};
use std::sync::Arc;

/// See [`crate::inject`].
pub(crate) fn copy<W: Write + Seek, P: Write>(
    source: Source<'_>,
    additions: &Additions,
    destination: Destination<W, P>,
) -> Result<(Injected, Reader), InjectError> {
    let mut source = source;
    let updates = read_head(&mut source.reader, additions)?;
    let mut injected = Injected::default();
    let mut features = features(&source, additions, &mut injected);
    let chains = additions
        .chains
        .then(|| Chains::new(&source.reader))
        .transpose()?;
    let sleeps = additions
        .sleeps
        .then(|| Sleeps::new(&source.reader))
        .transpose()?;
    let mut events: Vec<EventDescription> = source
        .reader
        .events()
        .list()
        .iter()
        .map(described)
        .collect();
    if let Some(chains) = &chains {
        chains.change_events(&mut events);
    }
    if let Some(redaction) = &additions.redaction {
        redact::check(&source.reader)?;
        redact::events(redaction, &mut events, &mut features);
    }
    let mut writer = Writer::new(destination, &events, &features)?;
    let jit = additions.jit.clone();
    let mut out = Copying {
        jit: jit.map(|files| Placing::new(files, source.reader.events())),
        chains,
        sleeps,
        redaction: additions.redaction.clone(),
        buffer: updates,
        injected,
    };
    let section = source.section;
    let reader = copy_records(source.reader, &mut out, &mut writer)?;
    // Those of a stream are among its records.
    let read = Source { reader, section };
    let mut all = self::features(&read, additions, &mut Injected::default());
    all.merge(features);
    // A file without any is one that was not finished.
    if all.iter().next().is_none() {
        all.event_descriptions(&events);
    }
    writer.finish(&all)?;
    Ok((out.injected, read.reader))
}

/// Reads what tells of events where that is the first records, as in a stream, and
/// returns those of them that are to be written again.
fn read_head(reader: &mut Reader, additions: &Additions) -> Result<Vec<u8>, InjectError> {
    let mut updates = Vec::new();
    if reader.events().list().is_empty() {
        reader.skip(|record| {
            // What is hostile does not fill the memory.
            let is_head = is_of_the_head(record.kind) && updates.len() <= BATCH;
            let is_update = record.kind == RecordType::EVENT_UPDATE;
            if is_head && is_update && additions.redaction.is_none() {
                updates.extend_from_slice(record.bytes);
            }
            is_head
        })?;
    }
    Ok(updates)
}

/// Copies all records, in the order of their times.
fn copy_records<W: Write + Seek, P: Write>(
    reader: Reader,
    out: &mut Copying,
    writer: &mut Writer<W, P>,
) -> Result<Reader, InjectError> {
    let mut records = TimeOrder::new(reader);
    while let Some(record) = records.next()? {
        if matches!(
            record.kind,
            RecordType::AUXTRACE | RecordType::AUXTRACE_INFO
        ) {
            return Err(InjectError::Aux);
        }
        out.take(&record);
        if out.buffer.len() > BATCH {
            writer.write(&out.buffer)?;
            out.buffer.clear();
        }
    }
    out.end();
    writer.write(&out.buffer)?;
    Ok(records.into_reader())
}

const BATCH: usize = 1 << 18;

struct Copying {
    jit: Option<Placing>,
    chains: Option<Chains>,
    sleeps: Option<Sleeps>,
    redaction: Option<Arc<Redaction>>,
    buffer: Vec<u8>,
    injected: Injected,
}

impl Copying {
    fn take(&mut self, record: &prof_perfdata::Record<'_>) {
        if is_of_the_stream(record.kind) {
            return;
        }
        if let Some(jit) = &mut self.jit {
            if jit.replaces(record) {
                return;
            }
            if let Some(time) = record.time() {
                self.injected.code += jit.up_to(Some(time), &mut self.buffer);
            }
        }
        if let Some(sleeps) = &mut self.sleeps {
            let before = self.buffer.len();
            if sleeps.takes(record, &mut self.buffer) {
                let was_written = self.buffer.len() > before;
                self.injected.samples += u64::from(was_written);
                self.injected.records += u64::from(was_written);
                return;
            }
        }
        self.injected.records += 1;
        if let Some(redaction) = &self.redaction {
            redact::take(redaction, record, &mut self.buffer);
            return;
        }
        match &mut self.chains {
            Some(chains) => chains.take(record, &mut self.buffer),
            None => self.buffer.extend_from_slice(record.bytes),
        }
    }

    fn end(&mut self) {
        if let Some(jit) = &mut self.jit {
            self.injected.code += jit.up_to(None, &mut self.buffer);
        }
        if let Some(chains) = &mut self.chains {
            chains.end(&mut self.buffer);
            self.injected.samples += chains.converted();
        }
    }
}

/// Records that describe the stream, which the writer writes anew, or the
/// order of the old one.
fn is_of_the_stream(kind: RecordType) -> bool {
    matches!(
        kind,
        RecordType::HEADER_ATTR
            | RecordType::HEADER_FEATURE
            | RecordType::TRACING_DATA
            | RecordType::FINISHED_ROUND
            | RecordType::COMPRESSED
            | RecordType::COMPRESSED2
    )
}

/// Records with which a stream begins: its events, and what a file has in its header.
fn is_of_the_head(kind: RecordType) -> bool {
    matches!(
        kind,
        RecordType::HEADER_ATTR
            | RecordType::EVENT_UPDATE
            | RecordType::EVENT_TYPE
            | RecordType::HEADER_FEATURE
            | RecordType::TRACING_DATA
    )
}

fn described(event: &Event) -> EventDescription {
    EventDescription {
        attr: event.attr.clone(),
        ids: event.ids.clone(),
        name: event.name().into_owned(),
    }
}

/// The recording's feature sections, and the build-ids.
fn features(source: &Source<'_>, additions: &Additions, injected: &mut Injected) -> Features {
    let mut features = Features::default();
    let read = source.reader.features();
    for section in read.sections() {
        let is_ours = section.bit == FeatureBit::BUILD_ID || OF_THE_LAYOUT.contains(&section.bit);
        if is_ours {
            continue;
        }
        let bytes = match read.tracing_data() {
            Some(bytes) if section.bit == FeatureBit::TRACING_DATA => Some(bytes.to_vec()),
            _ => (source.section)(section.place.offset, section.place.size),
        };
        let bytes = bytes.and_then(|bytes| match &additions.redaction {
            Some(redaction) => redact::section(redaction, section.bit, bytes),
            None => Some(bytes),
        });
        if let Some(bytes) = bytes {
            features.set(section.bit, bytes);
        }
    }
    build_ids(&source.reader, additions, injected, &mut features);
    features
}

fn build_ids(
    reader: &Reader,
    additions: &Additions,
    injected: &mut Injected,
    features: &mut Features,
) {
    let listed = reader.features().build_ids().unwrap_or_default();
    let mut all: Vec<RecordedBuildId<'_>> = Vec::new();
    for entry in listed {
        if let Some(build_id) = entry.build_id {
            all.push(RecordedBuildId {
                build_id,
                path: entry.path.as_bytes(),
                cpu_mode: entry.misc.cpu_mode(),
            });
        }
    }
    for file in &additions.build_ids {
        let is_there = all.iter().any(|entry| entry.path == file.path);
        if let (Some(build_id), false) = (file.build_id, is_there) {
            injected.build_ids += 1;
            all.push(RecordedBuildId {
                build_id,
                path: &file.path,
                cpu_mode: if file.kernel {
                    CpuMode::Kernel
                } else {
                    CpuMode::User
                },
            });
        }
    }
    match &additions.redaction {
        _ if all.is_empty() => {}
        Some(redaction) => redact::build_ids(redaction, &all, features),
        None => features.build_ids(&all),
    }
}
