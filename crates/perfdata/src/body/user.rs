//! Records perf (from 64) and simpleperf (from 32768) write; none has a
//! sample_id trailer.

use super::bodies;
use super::pieces::{
    CountedWords, CpuMap, EventIdEntry, FixedText, IdEntry, MetadataEntry, Name, Pairs,
    StatConfigEntry, ThreadMapEntry,
};

bodies! {
    /// A record without a body.
    Empty {}

    /// An event: `perf_event_attr` of the size it says, then its ids.
    HeaderAttr<'a> {
        /// Both.
        bytes: &'a [u8],
    }

    /// Name of an event, of perf before 2012.
    EventType<'a> {
        /// `config`.
        id: u64,
        /// The name.
        name: Name<'a>,
    }

    /// Tracepoint formats; they follow the record in the stream, padded to 8.
    TracingData<'a> {
        /// How many bytes follow.
        size: u32,
        /// Padding of new writers.
        pad: &'a [u8],
    }

    /// The build-id of a file.
    BuildIdRecord<'a> {
        /// Process id; -1 for the host.
        pid: i32,
        /// The build-id, padded to 20 bytes.
        build_id: [u8; 20],
        /// Its length if `misc` has BUILD_ID_SIZE, else meaningless.
        size: u8,
        /// Padding.
        pad: [u8; 3],
        /// The file.
        path: Name<'a>,
    }

    /// Ids to event, CPU and thread.
    IdIndex<'a> {
        /// One for each.
        entries: Pairs<'a, IdEntry>,
        /// In newer files as many (machine_pid, vcpu) pairs.
        guests: &'a [u8],
    }

    /// AUX trace parameters.
    AuxtraceInfo<'a> {
        /// 1 Intel PT, 2 BTS, 3 CoreSight, 4 Arm SPE, 5 s390, 6 PTT, 7 VPA.
        kind: u32,
        /// Padding.
        pad: u32,
        /// Of the tracer.
        private: &'a [u8],
    }

    /// AUX trace data; `size` bytes follow the record in the stream.
    Auxtrace {
        /// How many bytes follow.
        size: u64,
        /// Offset in the AUX area.
        offset: u64 [hex],
        /// Pairs snapshots.
        reference: u64 [hex],
        /// Which buffer.
        buffer ("idx"): u32,
        /// Thread; -1 any.
        tid: i32,
        /// CPU; -1 any.
        cpu: i32,
        /// Padding.
        pad: u32,
    }

    /// AUX decoding failed.
    AuxtraceError<'a> {
        /// 1 instruction trace.
        kind: u32,
        /// Of the decoder.
        code: u32,
        /// CPU.
        cpu: i32,
        /// Process id.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// 1: a time follows the address.
        format: u32,
        /// Where (avma).
        ip: u64 [hex],
        /// Time (if `format`), message of 64 bytes, machine_pid and vcpu.
        rest: &'a [u8],
    }

    /// The threads that were asked for.
    ThreadMap<'a> {
        /// Pid and name of each.
        threads: Pairs<'a, ThreadMapEntry>,
    }

    /// The CPUs that were asked for.
    CpuMapRecord<'a> {
        /// The set.
        cpus: CpuMap<'a>,
    }

    /// perf stat configuration.
    StatConfig<'a> {
        /// Tags and values.
        entries: Pairs<'a, StatConfigEntry>,
    }

    /// A perf stat value.
    Stat {
        /// Event id.
        id: u64,
        /// CPU, by position.
        cpu: i32,
        /// Thread, by position.
        thread: i32,
        /// The count.
        value: u64,
        /// Time enabled, ns.
        enabled: u64,
        /// Time running, ns.
        running: u64,
    }

    /// End of a perf stat interval.
    StatRound {
        /// 0 interval, 1 final.
        kind: u64,
        /// ns since the start.
        time: u64,
    }

    /// Unit, scale, name or CPUs of the event with this id.
    EventUpdate<'a> {
        /// 0 unit, 1 scale, 2 name, 3 CPUs.
        what: u64,
        /// Event id.
        id: u64,
        /// Text, an f64, or as [`CpuMapRecord`].
        content: &'a [u8],
    }

    /// TSC to perf time: ns = zero + q * mult + (r * mult >> shift), where
    /// q = tsc >> shift and r are its low bits.
    TimeConv<'a> {
        /// See above.
        shift: u64,
        /// See above.
        mult: u64,
        /// See above.
        zero: u64,
        /// In newer files cycles, mask, cap_zero, cap_short, padding.
        rest: &'a [u8],
    }

    /// A feature section, in pipe mode.
    HeaderFeature<'a> {
        /// The bit it would have in a file.
        feature: u64,
        /// The section; empty in the end mark.
        content: &'a [u8],
    }

    /// zstd bytes.
    Compressed<'a> {
        /// A piece of the stream.
        content: &'a [u8],
    }

    /// zstd bytes, padded.
    Compressed2<'a> {
        /// How many of them are not padding.
        data_size: u64,
        /// A piece of the stream and padding.
        content: &'a [u8],
    }

    /// Variables of a BPF program.
    BpfMetadata<'a> {
        /// Program name, NUL-terminated.
        program: FixedText<16>,
        /// Keys and values.
        entries: Pairs<'a, MetadataEntry>,
    }

    /// perf sched stats of a CPU or domain.
    Schedstat<'a> {
        /// As it stands.
        content: &'a [u8],
    }

    /// simpleperf: a kernel symbol table (`/proc/kallsyms`).
    SimpleperfKernelSymbol<'a> {
        /// Length in bytes.
        size: u32,
        /// The text and padding.
        content: &'a [u8],
    }

    /// simpleperf: a file.
    SimpleperfDso<'a> {
        /// 0 kernel, 1 kernel module, 2 ELF file, 3 DEX file, 4 symbol map.
        kind: u64,
        /// By which symbols refer to it.
        id: u64,
        /// Lowest address it was loaded for.
        min_vaddr: u64 [hex],
        /// The path.
        path: Name<'a>,
    }

    /// simpleperf: a symbol.
    SimpleperfSymbol<'a> {
        /// Start (svma).
        start ("addr"): u64 [hex],
        /// Length in bytes.
        len: u64,
        /// The file's id.
        dso: u64,
        /// The name.
        name: Name<'a>,
    }

    /// simpleperf: which ids belong to which event.
    SimpleperfEventId<'a> {
        /// Event numbers and ids.
        ids: Pairs<'a, EventIdEntry>,
    }

    /// simpleperf: the chain it unwound for an earlier sample.
    SimpleperfCallchain<'a> {
        /// Process id.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// 0 unwound offline, 1 joined, 2 both.
        kind: u64,
        /// Time of the sample, ns.
        time: u64,
        /// Addresses, then as many stack pointers.
        ips: CountedWords<'a>,
        /// The stack pointers.
        rest: &'a [u8],
    }

    /// simpleperf: how the unwinding of a sample went.
    SimpleperfUnwindingResult<'a> {
        /// Time of the sample, ns.
        time: u64,
        /// Time used, error code and more, by simpleperf's version.
        rest: &'a [u8],
    }
}

impl EventUpdate<'_> {
    /// [`EventUpdate::what`] of a name.
    pub const NAME: u64 = 2;
}
