//! The records' contents as types, each from one table of fields.
//!
//! A table gives the struct, its decoder, its encoder and the list of fields
//! for `prof dump`, so that they cannot disagree. Layouts are those of
//! perf_event_open(2) and, from 64 on, of perf's own records.

mod kernel;
mod misuse;
mod pieces;
mod user;
pub(crate) mod value;

pub use kernel::*;
pub use pieces::*;
pub use user::*;

pub(crate) use misuse::leads_elsewhere;
pub use value::Value;
pub(crate) use value::{Style, list_of, read_value};

use crate::fields::BodyError;
use crate::fields::{Encoder, Fields, Short};
use crate::read_values::ReadValues;
use crate::sample::Sample;
use prof_abi::{Misc, RecordType};

/// A piece of a record's body.
pub(crate) trait Field<'a>: Sized {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short>;
    fn put(&self, out: &mut Encoder);
    fn value(&self, style: Style) -> Value<'a>;
}

macro_rules! integer_fields {
    ($($int:ty, $read:ident, $write:ident, $variant:ident;)*) => {$(
        impl<'a> Field<'a> for $int {
            fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
                Ok(fields.$read()? as $int)
            }
            fn put(&self, out: &mut Encoder) {
                out.$write(*self as _);
            }
            fn value(&self, style: Style) -> Value<'a> {
                match style {
                    Style::Hex => Value::Hex(*self as u64),
                    Style::Plain => Value::$variant((*self).into()),
                }
            }
        }
    )*};
}

integer_fields! {
    u8, u8, u8, Number;
    u16, u16, u16, Number;
    u32, u32, u32, Number;
    u64, u64, u64, Number;
    i32, u32, u32, Signed;
    i64, u64, u64, Signed;
}

/// Declares bodies as tables of fields. A field that `perf` and `prof dump`
/// know by another name than ours has that behind it, in parentheses.
macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? {
        $($(#[$field_doc:meta])* $field:ident $(($listed:literal))?: $type:ty $([$style:ident])?,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$life>)? {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl<'a> $name $(<$life>)? {
            pub(crate) fn decode(fields: &mut $crate::fields::Fields<'a>)
                -> Result<Self, $crate::fields::BodyError> {
                let _ = &fields;
                Ok(Self {
                    $($field: <$type as $crate::body::Field<'a>>::take(fields).map_err(|short| {
                        let field = bodies!(@name $field $($listed)?);
                        $crate::fields::BodyError { field, short }
                    })?,)*
                })
            }

            /// Appends the body's bytes, without header and trailer.
            pub fn encode(&self, out: &mut $crate::fields::Encoder) {
                let _ = &out;
                $($crate::body::Field::<'a>::put(&self.$field, out);)*
            }

            /// Its fields by name, in file order.
            pub fn fields(&self) -> Vec<(&'static str, $crate::body::Value<'a>)> {
                vec![$((
                    bodies!(@name $field $($listed)?),
                    $crate::body::Field::<'a>::value(
                        &self.$field,
                        bodies!(@style $($style)?),
                    ),
                ),)*]
            }
        }
    )*};
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $listed:literal) => { $listed };
    (@style) => { $crate::body::Style::Plain };
    (@style hex) => { $crate::body::Style::Hex };
}
pub(crate) use bodies;

/// Lists the record types with their bodies once, for decoding, encoding and
/// listing.
macro_rules! body_enum {
    ($($(#[$doc:meta])* $kind:ident => $variant:ident($body:ty),)*) => {
        /// A record's content.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum Body<'a> {
            /// A sample.
            Sample(Sample<'a>),
            $($(#[$doc])* $variant($body),)*
            /// A type not known here, or a sample whose event is not known.
            Unknown(&'a [u8]),
        }

        impl<'a> Body<'a> {
            /// The body of a record other than SAMPLE.
            pub(crate) fn decode(kind: RecordType, fields: &mut Fields<'a>)
                -> Result<Self, BodyError> {
                Ok(match kind {
                    $(RecordType::$kind => Self::$variant(<$body>::decode(fields)?),)*
                    _ => Self::Unknown(fields.rest()),
                })
            }

            /// The type of a record with this body; `None` if it is unknown.
            pub fn kind(&self) -> Option<RecordType> {
                match self {
                    Self::Sample(_) => Some(RecordType::SAMPLE),
                    $(Self::$variant(_) => Some(RecordType::$kind),)*
                    Self::Unknown(_) => None,
                }
            }

            /// Appends the body's bytes, without header and trailer.
            pub fn encode(&self, out: &mut Encoder) {
                match self {
                    Self::Sample(sample) => crate::sample_encode::encode(sample, out),
                    $(Self::$variant(body) => body.encode(out),)*
                    Self::Unknown(bytes) => out.bytes(bytes),
                }
            }

            /// Its fields by name, in file order.
            pub fn fields(&self) -> Vec<(&'static str, Value<'a>)> {
                match self {
                    Self::Sample(sample) => crate::sample_fields::fields(sample),
                    $(Self::$variant(body) => body.fields(),)*
                    Self::Unknown(bytes) => vec![("bytes", Value::Bytes(bytes))],
                }
            }
        }
    };
}

body_enum! {
    /// A range was mapped.
    MMAP => Mmap(Mmap<'a>),
    /// Records were lost.
    LOST => Lost(Lost),
    /// A thread's name.
    COMM => Comm(Comm<'a>),
    /// A thread ended.
    EXIT => Exit(Task),
    /// Sampled too often.
    THROTTLE => Throttle(Throttle),
    /// And resumed.
    UNTHROTTLE => Unthrottle(Throttle),
    /// A thread began.
    FORK => Fork(Task),
    /// Counter values.
    READ => Read(Read<'a>),
    /// A range was mapped, with inode or build-id.
    MMAP2 => Mmap2(Mmap2<'a>),
    /// New bytes in the AUX area.
    AUX => Aux(Aux),
    /// Instruction tracing began.
    ITRACE_START => ItraceStart(ItraceStart),
    /// Samples were lost.
    LOST_SAMPLES => LostSamples(LostSamples),
    /// Context switch of a task.
    SWITCH => Switch(Switch),
    /// Context switch on a CPU.
    SWITCH_CPU_WIDE => SwitchCpuWide(SwitchCpuWide),
    /// A task's namespaces.
    NAMESPACES => Namespaces(Namespaces<'a>),
    /// Kernel symbol added or removed.
    KSYMBOL => Ksymbol(Ksymbol<'a>),
    /// BPF program loaded or unloaded.
    BPF_EVENT => BpfEvent(BpfEvent),
    /// A cgroup's path.
    CGROUP => Cgroup(Cgroup<'a>),
    /// Kernel text changed.
    TEXT_POKE => TextPoke(TextPoke<'a>),
    /// Hardware id of an AUX event.
    AUX_OUTPUT_HW_ID => AuxOutputHwId(AuxOutputHwId),
    /// User chain of earlier samples.
    CALLCHAIN_DEFERRED => CallchainDeferred(CallchainDeferred<'a>),
    /// An event and its ids.
    HEADER_ATTR => HeaderAttr(HeaderAttr<'a>),
    /// Dead.
    EVENT_TYPE => EventType(EventType<'a>),
    /// Tracepoint formats follow.
    TRACING_DATA => TracingData(TracingData<'a>),
    /// A file's build-id.
    BUILD_ID => BuildId(BuildIdRecord<'a>),
    /// Every ring was drained once.
    FINISHED_ROUND => FinishedRound(Empty),
    /// Ids to event, CPU and thread.
    ID_INDEX => IdIndex(IdIndex<'a>),
    /// AUX trace parameters.
    AUXTRACE_INFO => AuxtraceInfo(AuxtraceInfo<'a>),
    /// AUX trace data follows.
    AUXTRACE => Auxtrace(Auxtrace),
    /// AUX decoding failed.
    AUXTRACE_ERROR => AuxtraceError(AuxtraceError<'a>),
    /// The threads that were asked for.
    THREAD_MAP => ThreadMap(ThreadMap<'a>),
    /// The CPUs that were asked for.
    CPU_MAP => CpuMap(CpuMapRecord<'a>),
    /// perf stat configuration.
    STAT_CONFIG => StatConfig(StatConfig<'a>),
    /// A perf stat value.
    STAT => Stat(Stat),
    /// End of a perf stat interval.
    STAT_ROUND => StatRound(StatRound),
    /// Unit, scale, name or CPUs of an event.
    EVENT_UPDATE => EventUpdate(EventUpdate<'a>),
    /// TSC to perf time.
    TIME_CONV => TimeConv(TimeConv<'a>),
    /// A feature section.
    HEADER_FEATURE => HeaderFeature(HeaderFeature<'a>),
    /// zstd bytes.
    COMPRESSED => Compressed(Compressed<'a>),
    /// End of the synthesised records.
    FINISHED_INIT => FinishedInit(Empty),
    /// zstd bytes with their length.
    COMPRESSED2 => Compressed2(Compressed2<'a>),
    /// Variables of a BPF program.
    BPF_METADATA => BpfMetadata(BpfMetadata<'a>),
    /// perf sched stats of a CPU.
    SCHEDSTAT_CPU => SchedstatCpu(Schedstat<'a>),
    /// perf sched stats of a domain.
    SCHEDSTAT_DOMAIN => SchedstatDomain(Schedstat<'a>),
    /// simpleperf: a kernel symbol table.
    SIMPLEPERF_KERNEL_SYMBOL => SimpleperfKernelSymbol(SimpleperfKernelSymbol<'a>),
    /// simpleperf: a file.
    SIMPLEPERF_DSO => SimpleperfDso(SimpleperfDso<'a>),
    /// simpleperf: a symbol.
    SIMPLEPERF_SYMBOL => SimpleperfSymbol(SimpleperfSymbol<'a>),
    /// simpleperf: event ids.
    SIMPLEPERF_EVENT_ID => SimpleperfEventId(SimpleperfEventId<'a>),
    /// simpleperf: an unwound chain.
    SIMPLEPERF_CALLCHAIN => SimpleperfCallchain(SimpleperfCallchain<'a>),
    /// simpleperf: how the unwinding went.
    SIMPLEPERF_UNWINDING_RESULT => SimpleperfUnwindingResult(SimpleperfUnwindingResult<'a>),
}

impl Body<'_> {
    /// The bits of `misc` that say how the body is laid out.
    pub(crate) fn layout_bits(&self) -> Misc {
        match self {
            Self::Mmap2(map) if matches!(map.file, FileIdentity::BuildId { .. }) => {
                Misc::MMAP_BUILD_ID
            }
            Self::BuildId(_) => Misc::BUILD_ID_SIZE,
            _ => Misc(0),
        }
    }
}

/// All that is left of the body, as it stands.
impl<'a> Field<'a> for &'a [u8] {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        Ok(fields.rest())
    }
    fn put(&self, out: &mut Encoder) {
        out.bytes(self);
    }
    fn value(&self, _: Style) -> Value<'a> {
        Value::Bytes(self)
    }
}

/// Bytes of a fixed number.
impl<'a, const N: usize> Field<'a> for [u8; N] {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        let short = Short {
            needs: N as u64,
            left: fields.left() as u64,
        };
        let bytes = fields.take(N)?;
        bytes.try_into().map_err(|_| short)
    }
    fn put(&self, out: &mut Encoder) {
        out.bytes(self);
    }
    fn value(&self, _: Style) -> Value<'a> {
        let hex = self
            .iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte));
        Value::Hex(hex)
    }
}

impl<'a> Field<'a> for ReadValues<'a> {
    fn take(fields: &mut Fields<'a>) -> Result<Self, Short> {
        ReadValues::take(fields)
    }
    fn put(&self, out: &mut Encoder) {
        out.bytes(self.bytes());
    }
    fn value(&self, _: Style) -> Value<'a> {
        read_value(self)
    }
}
