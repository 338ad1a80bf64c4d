//! Call chains in the place of registers and stacks, as the recorder would
//! have made them.

use crate::InjectError;
use prof_abi::{RecordType, SampleType};
use prof_live::{LiveUnwinder, Switches, TargetMemory};
use prof_perfdata::write::EventDescription;
use prof_perfdata::{Reader, Record};
use prof_unwind::Machine;

/// The machine that this program was built for.
const MACHINE: Machine = if cfg!(target_arch = "aarch64") {
    Machine::Aarch64
} else {
    Machine::X86_64
};

/// Bytes of records that are unwound at a time.
const ROUND: usize = 1 << 20;

pub(crate) struct Chains {
    unwinder: LiveUnwinder,
    /// Of the next round.
    records: Vec<u8>,
    converted: u64,
}

impl Chains {
    /// For the events of a recording.
    pub(crate) fn new(reader: &Reader) -> Result<Self, InjectError> {
        let events = reader.events().list();
        let has_stacks =
            |types: SampleType| types.has(SampleType::REGS_USER | SampleType::STACK_USER);
        if !events
            .iter()
            .any(|event| has_stacks(event.attr.sample_type))
        {
            return Err(InjectError::NoStacks);
        }
        let opened = events
            .iter()
            .map(|event| (event.attr.clone(), event.ids.clone()));
        Ok(Self {
            unwinder: LiveUnwinder::new(opened.collect(), MACHINE, Switches::Keep, Gone),
            records: Vec::new(),
            converted: 0,
        })
    }

    /// Makes the events those of the samples as they are written.
    pub(crate) fn change_events(&self, events: &mut [EventDescription]) {
        for (index, event) in events.iter_mut().enumerate() {
            let has_registers = event.attr.sample_type.has(SampleType::REGS_USER);
            if let (true, Some(written)) = (has_registers, self.unwinder.written_attr(index)) {
                event.attr = written.clone();
            }
        }
    }

    /// Takes a record; `out` gets those that can be written.
    pub(crate) fn take(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let is_sample = record.kind == RecordType::SAMPLE;
        let has_stack = || {
            record
                .event()
                .is_some_and(|event| event.attr.sample_type.has(SampleType::STACK_USER))
        };
        self.converted += u64::from(is_sample && has_stack());
        self.records.extend_from_slice(record.bytes);
        if self.records.len() > ROUND {
            self.unwinder
                .round(&self.records, &mut |written| out.extend_from_slice(written));
            self.records.clear();
        }
    }

    /// Writes what is left.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        self.unwinder
            .round(&self.records, &mut |written| out.extend_from_slice(written));
        self.unwinder
            .finish(&mut |written| out.extend_from_slice(written));
    }

    /// Samples whose stacks were converted.
    pub(crate) fn converted(&self) -> u64 {
        self.converted
    }
}

/// The memory of processes that were recorded: what the pieces do not hold is
/// not to be had, whoever has their ids now.
struct Gone;

impl TargetMemory for Gone {
    fn read(&self, _pid: i32, _address: u64, _out: &mut [u8]) -> usize {
        0
    }

    fn read_words(&self, _pid: i32, _addresses: &[u64], _out: &mut [u64]) -> usize {
        0
    }
}
