//! Recordings made without the binary.
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

#[path = "../examples/stacks.rs"]
mod stacks;

use prof_abi::{ByteOrder, RecordType, SampleType};
use prof_perfdata::write::{EventDescription, Features};
use prof_perfdata::{Body, FeatureBit, Reader};
use prof_record::options::{Options, Stacks, Target};
use prof_record::output::Destination;
use prof_record::{Consume, Consumer, Finished, OutputError, RecordError, record_into};
use std::ffi::OsString;
use std::sync::Mutex;

/// One recording at a time: each takes the signals of the process.
static ONE: Mutex<()> = Mutex::new(());

/// A shell that is busy for a moment.
fn busy() -> Vec<OsString> {
    let script = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    ["sh", "-c", script].map(OsString::from).to_vec()
}

/// What was recorded; `None`, with a word, where nothing may be.
fn recorded(made: Result<Finished, RecordError>) -> Option<Finished> {
    match made {
        Err(RecordError::Refused(refusal)) => {
            eprintln!("skipped: {refusal}");
            None
        }
        made => Some(made.expect("a recording")),
    }
}

#[test]
fn a_library_records_whole_stacks() {
    let _one = ONE.lock().expect("no panic");
    let directory = tempfile::tempdir().expect("temporary directory");
    let file = directory.path().join("perf.data");
    let Some(finished) = recorded(stacks::record(file.clone(), busy())) else {
        return;
    };
    assert!(finished.failure.is_none() && finished.summary.tally.samples > 10);
    let file = std::fs::File::open(file).expect("a file");
    let mut reader = Reader::open_file(file).expect("a recording");
    // As the samples are, not as they were when the kernel wrote them.
    let written = reader.events().list()[0].attr.sample_type;
    assert!(written.has(SampleType::CALLCHAIN) && !written.has(SampleType::REGS_USER));
    let (mut samples, mut user) = (0, 0);
    while let Some(record) = reader.next().expect("readable") {
        if let Body::Sample(sample) = record.decode() {
            samples += 1;
            let chain = sample.callchain().into_iter().flatten();
            user += u64::from(chain.count() > 2);
        }
    }
    assert_eq!(samples, finished.summary.tally.samples);
    assert!(user > samples / 2, "{user} of {samples} have callers");
    let trust = reader.features().trust().expect("an account of the stacks");
    assert!(trust.to_string_lossy().contains("\"Root\""), "{trust:?}");
}

/// Keeps what it is given.
#[derive(Default)]
struct Memory {
    records: Vec<u8>,
    end: Option<Features>,
}

impl Consumer for &mut Memory {
    fn records(&mut self, records: &[u8]) -> Result<(), OutputError> {
        self.records.extend_from_slice(records);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.records.len() as u64
    }

    fn finish(self: Box<Self>, late: Features) -> Result<(), OutputError> {
        self.end = Some(late);
        Ok(())
    }
}

#[test]
fn records_go_to_whoever_takes_them() {
    let _one = ONE.lock().expect("no panic");
    let (mut memory, mut events) = (Memory::default(), Vec::<EventDescription>::new());
    // A name that cannot be written to: nothing is.
    let nowhere = Destination::File("/proc/none".into());
    let mut options = Options::new(Target::Command(busy()), nowhere);
    options.stacks = Stacks::auto(options.sampling);
    let consume: Consume<'_> = Box::new(|opened, _| {
        events = opened.to_vec();
        Box::new(&mut memory)
    });
    let Some(finished) = recorded(record_into(&options, consume, &mut |_| ())) else {
        return;
    };
    let mut kinds = Vec::new();
    let mut rest = memory.records.as_slice();
    while let Some(size) = ByteOrder::NATIVE.u16(rest, 6) {
        kinds.extend(ByteOrder::NATIVE.u32(rest, 0).map(RecordType));
        rest = &rest[usize::from(size)..];
    }
    assert_eq!(rest, [0; 0], "only whole records");
    let count = |kind| kinds.iter().filter(|&&it| it == kind).count() as u64;
    assert_eq!(count(RecordType::SAMPLE), finished.summary.tally.samples);
    assert!(count(RecordType::MMAP2) > 0 && count(RecordType::FINISHED_ROUND) > 0);
    assert_eq!(finished.summary.bytes, memory.records.len() as u64);
    assert!(events[0].attr.sample_type.has(SampleType::CALLCHAIN));
    let late = memory.end.expect("it was finished");
    assert!(late.iter().any(|(bit, _)| bit == FeatureBit::PROF_TRUST));
}
