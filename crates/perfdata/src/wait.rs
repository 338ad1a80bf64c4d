//! Waits in recordings: what samples of `offcpu-time` tell beside stack, time
//! and length.
//!
//! A wait, a time when a thread did not run, is a sample of an event of its
//! own, shaped as perf's `record --off-cpu` has it: type `PERF_TYPE_SOFTWARE`,
//! config `PERF_COUNT_SW_BPF_OUTPUT`, the name [`OFF_CPU_EVENT`]. Its time is
//! the end of the wait, its period the ns that it stands for. What it waited
//! for stands in a field that readers pass over unless they are asked for it,
//! `PERF_SAMPLE_TRANSACTION`, as a [`WaitWord`]; the first argument of the system
//! call in `PERF_SAMPLE_ADDR`: of a futex its address. Samples of perf have neither field.

use prof_abi::{EventAttr, SampleType, Software, event_kind};

/// The name of the event, perf's.
pub const OFF_CPU_EVENT: &str = "offcpu-time";

/// The decoded word in which a recording describes a wait (in the TRANSACTION
/// field of the sample). From the lowest bit:
///
/// | bits  | field                                                          |
/// |-------|----------------------------------------------------------------|
/// | 0-3   | the version of the word: 1, 2 if it names a holder, 3 if it    |
/// |       | tells a length                                                 |
/// | 4-7   | what kept the thread from running (`WaitState`)                |
/// | 8-11  | where the stack is from (`StackSource`)                        |
/// | 12    | the wait had begun before the recording                        |
/// | 13    | it was not over when the recording ended                       |
/// | 14    | records were lost meanwhile                                    |
/// | 16-23 | what it waited for (`WaitKind`), where the recorder knows      |
/// | 24-39 | number of the system call and 1; 0: not known                  |
/// | 40-63 | for how many waits it stands, in 64ths; 0: for itself. In      |
/// |       | version 2, where it stands for itself: tid of the holder       |
/// | 24-63 | in version 3, in place of both: how long the wait was, ns      |
///
/// In version 3 the period is not the wait's own: it is 0 where others, chosen
/// by chance, stand for it, and with a length of 0 the time of waits that no
/// other stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WaitWord {
    /// Number of the state.
    pub state: u8,
    /// Number of the stack's source.
    pub source: u8,
    /// It had begun before the recording.
    pub began_before: bool,
    /// It was not over when the recording ended.
    pub is_open: bool,
    /// Records were lost meanwhile.
    pub is_unsure: bool,
    /// Number of the kind.
    pub kind: u8,
    /// The system call's number.
    pub syscall: Option<u16>,
    /// For how many waits it stands, in 64ths; 0: for itself.
    pub stands_for: u32,
    /// For a wait for a mutex: the thread seen to hold it meanwhile. Only a
    /// wait that stands for itself has one.
    pub holder: Option<u32>,
    /// Length of the wait, ns, where the sample's period does not give it. A
    /// word with a length has neither system call nor holder, and stands for no
    /// other wait.
    pub length: Option<u64>,
}

/// The version of a word without a holder.
const VERSION: u64 = 1;
/// That of one with a holder: who does not know it would take its number for
/// that of waits.
const WITH_HOLDER: u64 = 2;
/// That of one with a length.
const WITH_LENGTH: u64 = 3;
/// The largest length that fits, ns.
const LONGEST: u64 = (1 << 40) - 1;
/// The largest that fits.
const MOST_TIMES: u32 = (1 << 24) - 1;

impl WaitWord {
    /// As it is recorded. A larger `stands_for` than 24 bits hold becomes the
    /// largest, so does a `length` of more than 40; a `holder` of more is left out
    /// (the kernel's tids have 22).
    pub fn encode(self) -> u64 {
        if let Some(length) = self.length {
            return WITH_LENGTH | self.state_bits() | length.min(LONGEST) << 24;
        }
        let syscall = self.syscall.map_or(0, |number| number.saturating_add(1));
        let holder = self
            .holder
            .filter(|&tid| tid <= MOST_TIMES && self.stands_for == 0);
        let version = holder.map_or(VERSION, |_| WITH_HOLDER);
        let last = holder.unwrap_or(self.stands_for.min(MOST_TIMES));
        version | self.state_bits() | u64::from(syscall) << 24 | u64::from(last) << 40
    }

    /// The bits that all versions have, 4 to 23.
    fn state_bits(self) -> u64 {
        u64::from(self.state & 15) << 4
            | u64::from(self.source & 15) << 8
            | u64::from(self.began_before) << 12
            | u64::from(self.is_open) << 13
            | u64::from(self.is_unsure) << 14
            | u64::from(self.kind) << 16
    }

    /// What a recorded word says; `None` of another version.
    pub fn decode(word: u64) -> Option<Self> {
        let bits = |from: u32, count: u32| (word >> from) & ((1 << count) - 1);
        let is_set = |bit: u32| bits(bit, 1) == 1;
        let last = bits(40, 24) as u32;
        let (stands_for, holder, length) = match bits(0, 4) {
            VERSION => (last, None, None),
            WITH_HOLDER => (0, Some(last), None),
            WITH_LENGTH => (0, None, Some(bits(24, 40))),
            _ => return None,
        };
        Some(Self {
            state: bits(4, 4) as u8,
            source: bits(8, 4) as u8,
            began_before: is_set(12),
            is_open: is_set(13),
            is_unsure: is_set(14),
            kind: bits(16, 8) as u8,
            syscall: match length {
                Some(_) => None,
                None => (bits(24, 16) as u16).checked_sub(1),
            },
            stands_for,
            holder,
            length,
        })
    }
}

/// Whether samples of an event with this attr and name are waits, whoever
/// recorded them.
pub fn is_off_cpu(attr: &EventAttr, name: &str) -> bool {
    let is_output = attr.kind == event_kind::SOFTWARE && attr.config == Software::BPF_OUTPUT.0;
    // Newer perfs also write such samples with all of it as a payload, which
    // they then replace.
    is_output && name == OFF_CPU_EVENT && !attr.sample_type.has(SampleType::RAW)
}

#[cfg(test)]
mod tests {
    use super::WaitWord;

    #[test]
    fn a_word_leads_back_to_what_it_says() {
        let words = [
            WaitWord::default(),
            WaitWord {
                state: 2,
                source: 3,
                began_before: true,
                is_open: false,
                is_unsure: true,
                kind: 17,
                syscall: Some(0),
                stands_for: 64,
                holder: None,
                length: None,
            },
            WaitWord {
                state: 1,
                kind: 3,
                is_open: true,
                length: Some((1 << 40) - 1),
                ..WaitWord::default()
            },
            WaitWord {
                length: Some(0),
                ..WaitWord::default()
            },
            WaitWord {
                holder: Some(4_194_304),
                ..WaitWord::default()
            },
            WaitWord {
                is_open: true,
                syscall: Some(65_534),
                stands_for: (1 << 24) - 1,
                ..WaitWord::default()
            },
        ];
        for word in words {
            assert_eq!(WaitWord::decode(word.encode()), Some(word));
        }
        assert_eq!(WaitWord::decode(0), None);
        assert_eq!(WaitWord::decode(4), None);
        // One that stands for several waits tells no holder of one of them.
        let both = WaitWord {
            stands_for: 640,
            holder: Some(7),
            ..WaitWord::default()
        };
        let without = WaitWord {
            holder: None,
            ..both
        };
        assert_eq!(WaitWord::decode(both.encode()), Some(without));
    }
}
