//! Streams built byte by byte: what stands around the records.

use prof_abi::{AttrFlags, ByteOrder, EventAttr, RecordType, SampleType};
use prof_perfdata::write::{EventDescription, Features, FileWriter, Packing, PipeWriter};
use prof_perfdata::{Body, Encoder, FeatureBit, Reader, TimeOrder};
use std::io::Cursor;

/// A pipe-mode recording under construction.
struct Stream(Vec<u8>);

impl Stream {
    /// With one event that samples ip, tid and time.
    fn new() -> Self {
        let mut stream = Self([b"PERFILE2".as_slice(), &16_u64.to_le_bytes()].concat());
        stream.record(RecordType::HEADER_ATTR, &attr());
        stream
    }

    fn record(&mut self, kind: RecordType, body: &[u8]) {
        self.0.extend(record(kind, body));
    }

    fn reader(self) -> Reader {
        Reader::open_stream(Box::new(Cursor::new(self.0))).expect("a stream")
    }
}

/// An event that samples ip, tid and time.
fn attr() -> Vec<u8> {
    let attr = EventAttr {
        kind: 1,
        size: 64,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
        flags: AttrFlags::SAMPLE_ID_ALL,
        sample_period: 100,
        ..EventAttr::default()
    };
    attr.encode(ByteOrder::Little)
}

fn record(kind: RecordType, body: &[u8]) -> Vec<u8> {
    let mut out = Encoder::new(ByteOrder::Little);
    out.u32(kind.0);
    out.u16(0);
    out.u16(8 + body.len() as u16);
    out.bytes(body);
    out.finish()
}

/// A sample whose time is its number.
fn sample(number: u64) -> Vec<u8> {
    let words = [0x1000 + number, 7 << 32 | 7, number];
    record(RecordType::SAMPLE, &words.map(u64::to_le_bytes).concat())
}

fn samples(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(sample).collect()
}

/// Times of the samples, and what was wrong.
fn read(mut reader: Reader) -> (Vec<u64>, Vec<String>) {
    let mut times = Vec::new();
    while let Some(record) = reader.next().expect("memory") {
        if let Body::Sample(sample) = record.decode() {
            times.push(sample.time().expect("asked for"));
        }
    }
    let damages = reader.damages().iter().map(ToString::to_string).collect();
    (times, damages)
}

/// Compresses `pieces` as one stream with a flush after each, as perf does.
fn compressed(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};
    let mut encoder = Encoder::new(1).expect("zstd");
    let compress = |piece: &&[u8]| {
        let mut out = vec![0; zstd::zstd_safe::compress_bound(piece.len()) + 64];
        let mut input = InBuffer::around(piece);
        let mut output = OutBuffer::around(&mut out[..]);
        encoder.run(&mut input, &mut output).expect("room");
        encoder.flush(&mut output).expect("room");
        assert_eq!(input.pos(), piece.len());
        let len = output.pos();
        out.truncate(len);
        out
    };
    pieces.iter().map(compress).collect()
}

#[test]
fn a_record_may_begin_in_one_compressed_record_and_end_in_the_next() {
    // covers unit: REC-27
    let bytes = samples(0..500);
    let (first, second) = bytes.split_at(1003);
    let mut stream = Stream::new();
    for packed in compressed(&[first, second]) {
        stream.record(RecordType::COMPRESSED, &packed);
    }
    assert_eq!(read(stream.reader()), ((0..500).collect(), vec![]));
}

#[test]
fn compressed2_has_its_length_and_padding() {
    let bytes = samples(0..500);
    let mut stream = Stream::new();
    for packed in compressed(&[&bytes[..320], &bytes[320..]]) {
        let mut body = (packed.len() as u64).to_le_bytes().to_vec();
        body.extend(&packed);
        body.resize(body.len().next_multiple_of(8), 0xee);
        stream.record(RecordType::COMPRESSED2, &body);
    }
    assert_eq!(read(stream.reader()), ((0..500).collect(), vec![]));
}

/// A compressed pass as perf 6.16 writes it. Larger than a record: the first
/// header is that of the whole, the others are their own, nothing is padded.
fn oversized(packed: &[u8]) -> Vec<u8> {
    const MOST: usize = 65_519;
    let mut out = Vec::new();
    for (number, piece) in packed.chunks(MOST).enumerate() {
        let (size, data_size) = match number {
            0 => {
                let headers = 16 * packed.len().div_ceil(MOST);
                let whole = packed.len() + headers;
                (whole.next_multiple_of(8), whole as u64 - 16)
            }
            _ => (16 + piece.len(), 0xdead_beef),
        };
        out.extend(83_u32.to_le_bytes());
        out.extend(0_u16.to_le_bytes());
        out.extend((size as u16).to_le_bytes());
        out.extend(data_size.to_le_bytes());
        out.extend(piece);
        if size <= 0xffff && number == 0 {
            out.resize(size, 0);
        }
    }
    out
}

#[test]
fn compressed_passes_that_overflow_their_record_are_read() {
    // Numbers that do not compress, so that the pass is large.
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state
    };
    let mut wrapped = 0;
    for count in [2_700, 4_000, 12_000].into_iter().chain(3_655..3_680) {
        let mut bytes = Vec::new();
        for time in 0..count {
            let words = [noise(), noise(), time];
            bytes.extend(record(
                RecordType::SAMPLE,
                &words.map(u64::to_le_bytes).concat(),
            ));
        }
        let packed = compressed(&[&bytes]).remove(0);
        wrapped += usize::from(packed.len() + 16 > 0xffff);
        let mut stream = Stream::new();
        stream.0.extend(oversized(&packed));
        stream.record(RecordType::FINISHED_ROUND, &[]);
        stream.0.extend(sample(count));
        let expected: Vec<u64> = (0..=count).collect();
        let (times, damages) = read(stream.reader());
        assert_eq!(damages, Vec::<String>::new(), "{} zstd bytes", packed.len());
        assert_eq!(times, expected, "{} zstd bytes", packed.len());
    }
    assert!(wrapped > 4, "{wrapped} passes were too large for a record");
}

#[test]
fn a_bad_compressed_record_costs_what_is_in_it() {
    let packed = compressed(&[&samples(0..10)]).remove(0);
    let mut stream = Stream::new();
    stream.record(RecordType::COMPRESSED, &packed);
    stream.record(RecordType::COMPRESSED, b"this is not zstd");
    stream.0.extend(sample(10));
    let (times, damages) = read(stream.reader());
    assert_eq!(times, (0..=10).collect::<Vec<u64>>());
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert!(damages[0].contains("cannot be unpacked"), "{damages:?}");
}

#[test]
fn aux_data_behind_a_record_is_stepped_over() {
    // covers unit: AUX-12
    let mut stream = Stream::new();
    let words = [40_u64, 0, 0];
    let mut body = words.map(u64::to_le_bytes).concat();
    body.extend([0; 16]);
    stream.record(RecordType::AUXTRACE, &body);
    // Looks like samples, but is AUX data.
    stream.0.extend(&samples(100..102)[..40]);
    stream.0.extend(sample(1));
    assert_eq!(read(stream.reader()), (vec![1], vec![]));
}

#[test]
fn tracepoint_formats_behind_a_record_become_a_feature() {
    let mut stream = Stream::new();
    stream.record(RecordType::TRACING_DATA, &13_u32.to_le_bytes());
    stream.0.extend(b"thirteen byte\0\0\0");
    stream.0.extend(sample(1));
    let mut reader = stream.reader();
    while reader.next().expect("memory").is_some() {}
    assert_eq!(
        reader.features().tracing_data(),
        Some(b"thirteen byte".as_slice())
    );
    let damages: Vec<String> = reader.damages().iter().map(ToString::to_string).collect();
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert!(damages[0].contains("magic number"), "{damages:?}");
}

#[test]
fn a_payload_that_passes_the_end_is_told() {
    let mut stream = Stream::new();
    stream.0.extend(sample(1));
    stream.record(RecordType::TRACING_DATA, &0xffff_fff0_u32.to_le_bytes());
    stream.0.extend(b"short");
    let (times, damages) = read(stream.reader());
    assert_eq!(times, [1]);
    let told = "4294967280 bytes follow it, but the data ends after 5";
    assert!(
        damages.iter().any(|damage| damage.contains(told)),
        "{damages:?}"
    );
}

#[test]
fn features_of_a_stream_come_as_records_and_an_empty_one_is_a_mark() {
    // covers unit: REC-27
    let mut stream = Stream::new();
    let mut feature = |bit: u32, content: &[u8]| {
        let mut body = u64::from(bit).to_le_bytes().to_vec();
        body.extend(content);
        stream.record(RecordType::HEADER_FEATURE, &body);
    };
    feature(FeatureBit::TOTAL_MEM.0, &1234_u64.to_le_bytes());
    feature(FeatureBit::CPU_DOMAIN_INFO.0, &[]);
    let mut reader = stream.reader();
    while reader.next().expect("memory").is_some() {}
    assert_eq!(reader.features().total_mem(), Some(&1234));
    assert!(!reader.features().has(FeatureBit::CPU_DOMAIN_INFO));
    assert!(reader.damages().is_empty());
}

#[test]
fn unknown_records_are_stepped_over_and_counted() {
    // covers unit: REC-28, HDR-01
    let mut stream = Stream::new();
    for kind in [40, 120, 4000] {
        stream.record(RecordType(kind), &[7; 24]);
        stream.0.extend(sample(kind.into()));
    }
    let mut reader = stream.reader();
    let mut kinds = Vec::new();
    while let Some(record) = reader.next().expect("memory") {
        kinds.push(record.kind.0);
    }
    assert_eq!(kinds, [64, 40, 9, 120, 9, 4000, 9]);
    let counted: Vec<_> = reader.notes().unknown_records.into_iter().collect();
    assert_eq!(counted, [(40, 1), (120, 1), (4000, 1)]);
    assert!(reader.damages().is_empty());
}

#[test]
fn a_simpleperf_record_has_the_high_half_of_its_size_in_misc() {
    let mut stream = Stream::new();
    let formats = [b"\x17\x08\x44tracing0.5".as_slice(), &[b'x'; 70_000]].concat();
    let len = 8 + 4 + formats.len() as u32;
    stream.0.extend(32777_u32.to_le_bytes());
    stream.0.extend(((len >> 16) as u16).to_le_bytes());
    stream.0.extend((len as u16).to_le_bytes());
    stream.0.extend((formats.len() as u32).to_le_bytes());
    stream.0.extend(&formats);
    stream.0.extend(sample(1));
    let mut reader = stream.reader();
    let mut count = 0;
    while reader.next().expect("memory").is_some() {
        count += 1;
    }
    assert_eq!(count, 3);
    assert_eq!(reader.features().tracing_data(), Some(formats.as_slice()));
}

/// The parts in which simpleperf writes a record, without the end mark.
fn parts(record: &[u8], most: usize) -> Vec<u8> {
    let pieces = record.chunks(most);
    pieces
        .flat_map(|piece| self::record(RecordType::SIMPLEPERF_SPLIT, piece))
        .collect()
}

#[test]
fn the_parts_of_a_large_record_are_followed_by_the_whole() {
    let symbol = [
        &[0x10_u64, 4, 1].map(u64::to_le_bytes).concat()[..],
        b"name\0",
    ]
    .concat();
    let symbol = record(RecordType::SIMPLEPERF_SYMBOL, &symbol);
    let mut stream = Stream::new();
    stream.0.extend(parts(&symbol, 10));
    stream.record(RecordType::SIMPLEPERF_SPLIT_END, &[]);
    stream.0.extend(sample(1));
    let mut reader = stream.reader();
    let mut kinds = Vec::new();
    while let Some(record) = reader.next().expect("memory") {
        kinds.push(record.kind.0);
        if let Body::SimpleperfSymbol(found) = record.decode() {
            assert_eq!(
                (found.start, found.name.bytes()),
                (0x10, b"name".as_slice())
            );
            assert_eq!(record.bytes, symbol);
        }
    }
    let split = RecordType::SIMPLEPERF_SPLIT.0;
    let (end, whole) = (
        RecordType::SIMPLEPERF_SPLIT_END.0,
        RecordType::SIMPLEPERF_SYMBOL.0,
    );
    assert_eq!(kinds, [64, split, split, split, split, end, whole, 9]);
    assert!(reader.damages().is_empty(), "{:?}", reader.damages());
}

#[test]
fn parts_that_are_no_whole_are_told() {
    let symbol = record(RecordType::SIMPLEPERF_SYMBOL, &[7; 40]);
    let mut cut = Stream::new();
    cut.0.extend(parts(&symbol, 20));
    cut.0.extend(sample(1));
    let (times, damages) = read(cut.reader());
    assert_eq!(times, [1]);
    assert!(
        damages[0].contains("48 bytes together, are not followed by SPLIT_END"),
        "{damages:?}"
    );
    let mut short = Stream::new();
    short.0.extend(parts(&symbol[..30], 20));
    short.record(RecordType::SIMPLEPERF_SPLIT_END, &[]);
    short.0.extend(sample(2));
    let (times, damages) = read(short.reader());
    assert_eq!(times, [2]);
    assert!(
        damages[0].contains("it has 48 bytes, but its parts have 30 together"),
        "{damages:?}"
    );
}

/// A file in memory.
fn file(bytes: &[u8]) -> std::fs::File {
    use std::io::{Seek, Write};
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room");
    file.rewind().expect("a file");
    file
}

#[test]
fn the_files_of_a_directory_come_by_time() {
    let mut data = Stream::new();
    data.0.extend(samples(900..902));
    let all = |times: &[u64]| -> Vec<u8> { times.iter().flat_map(|&time| sample(time)).collect() };
    let first = file(&all(&[10, 20, 70]));
    let second = file(&all(&[30, 40, 60]));
    let third = file(&all(&[15, 50]));
    let reader = Reader::open_directory(file(&data.0), vec![first, second, third]);
    let (times, damages) = read(reader.expect("a directory"));
    // Each file gives its first record before their times are known.
    assert_eq!(times, [900, 901, 10, 30, 15, 20, 50, 70, 40, 60]);
    assert!(damages.is_empty(), "{damages:?}");
}

/// A directory has no marks of rounds; its records do not wait for the end.
#[test]
fn the_files_of_a_directory_are_merged_as_they_are_read() {
    const MINUTE: u64 = 60_000_000_000;
    // Of 150 000 samples each; one after the other, now and then one too late.
    let ring = |start: u64| {
        let step = MINUTE / 150_000;
        let time = |index: u64| match index % 1000 {
            999 => (index - 1) * step - step / 2,
            _ => index * step,
        };
        file(
            &(1..150_000)
                .flat_map(|index| sample(start + time(index)))
                .collect::<Vec<u8>>(),
        )
    };
    // The second begins when the others are half through.
    let streams = vec![ring(5), ring(MINUTE / 2), ring(7)];
    let reader = Reader::open_directory(file(&Stream::new().0), streams).expect("a directory");
    let total = 3 * 150_000 * 32;
    let mut records = TimeOrder::new(reader);
    let (mut count, mut last, mut most) = (0, 0, 0);
    while let Some(record) = records.next().expect("files") {
        if record.kind == RecordType::SAMPLE {
            let time = record.time().expect("asked for");
            assert!(last <= time, "sample {count}: {time} after {last}");
            (count, last) = (count + 1, time);
        }
        most = most.max(records.waiting_bytes());
    }
    assert_eq!((count, records.late()), (3 * 149_999, 0));
    assert!(most < total / 2, "{most} of {total} bytes waited");
    assert!(most < 6 << 20, "{most} bytes waited");
}

#[test]
fn bytes_behind_the_last_section_are_noted() {
    let data = samples(1..3);
    let header = |data_size: u64| {
        let mut out = Encoder::new(ByteOrder::Little);
        out.bytes(b"PERFILE2");
        let data_at = 104 + 80;
        for word in [104, 80, 104, 80, data_at, data_size, 0, 0, 0, 0, 0, 0] {
            out.u64(word);
        }
        // The attr has no ids.
        out.bytes(&[&attr()[..], &[0; 16]].concat());
        out.finish()
    };
    let bytes = [&header(data.len() as u64)[..], &data, b"appended"].concat();
    let end = 104 + 80 + data.len() as u64;
    let reader = Reader::open_file(file(&bytes)).expect("a recording");
    let rest = reader.notes().ownerless.expect("bytes of nobody");
    assert_eq!((rest.offset, rest.size), (end, 8));
    let bytes = [&header(data.len() as u64)[..], &data].concat();
    let reader = Reader::open_file(file(&bytes)).expect("a recording");
    assert_eq!(reader.notes().ownerless, None);
    assert!(reader.notes().unfinished, "no feature section");
    // A recorder that dies leaves records of which the header does not tell.
    let (all, half) = (data.len() as u64, data.len() as u64 / 2);
    let cut = &data[..data.len() - 8];
    for (data, told, whole) in [
        (&data[..], all, 2),
        (&data, half, 2),
        (&data, 0, 2),
        (cut, half, 1),
    ] {
        let bytes = [&header(told)[..], data].concat();
        let mut reader = Reader::open_file(file(&bytes)).expect("a recording");
        let mut records = 0;
        while reader.next().expect("readable").is_some() {
            records += 1;
        }
        assert_eq!(records, whole);
        // The same wherever the recorder was killed.
        assert_eq!(reader.damages(), []);
        assert!(reader.notes().unfinished);
    }
}

#[test]
fn names_without_end_and_ranges_that_wrap_are_told() {
    let mut stream = Stream::new();
    let trailer = [7 << 32 | 7, 5_u64].map(u64::to_le_bytes).concat();
    let ids = [7_u32, 7].map(u32::to_le_bytes).concat();
    let comm = [&ids[..], b"sixteen-letters!", &trailer[..]].concat();
    stream.record(RecordType::COMM, &comm);
    let map = |start: u64, len: u64| {
        let numbers = [start, len, 0].map(u64::to_le_bytes).concat();
        [&ids[..], &numbers, b"/bin/x\0\0", &trailer].concat()
    };
    stream.record(RecordType::MMAP, &map(0xffff_ffff_ffff_f000, 0x2000));
    stream.record(RecordType::MMAP, &map(0xffff_ffff_ffff_f000, 0x1000));
    stream.0.extend(sample(1));
    let (times, damages) = read(stream.reader());
    assert_eq!(times, [1]);
    assert_eq!(
        damages,
        [
            "COMM record at 0x58: its comm has 16 bytes, but needs 17 with the NUL that ends it",
            "MMAP record at 0x88: says 0x2000 bytes from 0xfffffffffffff000, but only 0x1000 \
             addresses follow; it is not used",
        ]
    );
}

#[test]
fn a_file_mode_recording_in_a_pipe_is_refused_with_the_reason() {
    let bytes = [b"PERFILE2".as_slice(), &104_u64.to_le_bytes()].concat();
    let error = Reader::open_stream(Box::new(Cursor::new(bytes)))
        .err()
        .expect("refused");
    assert!(
        error.to_string().contains("cannot be read from a pipe"),
        "{error}"
    );
}

/// Features with `json` as what prof's recorder knows.
fn told(json: &str) -> Features {
    let mut features = Features::default();
    features.hostname("box"); // no multiple of 8 bytes
    features.trust(json);
    features
}

fn cpu_clock() -> EventDescription {
    EventDescription {
        attr: EventAttr {
            kind: 1,
            sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
            ..EventAttr::default()
        },
        ids: vec![1],
        name: "cpu-clock".into(),
    }
}

/// A file with one sample and `features`.
fn written(features: &Features) -> Vec<u8> {
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[cpu_clock()]).expect("memory");
    writer.write(&sample(1)).expect("memory");
    writer.finish(features).expect("memory").into_inner()
}

/// More than one record can hold.
fn long_json() -> String {
    "x".repeat(200_000)
}

#[test]
fn sections_of_our_own_are_read_from_files_and_streams() {
    let long = long_json();
    let bytes = written(&told(&long));
    let reader = Reader::open_file(file(&bytes)).expect("a recording");
    assert_eq!(
        reader.features().trust().expect("told").as_bytes(),
        long.as_bytes()
    );
    assert!(!reader.header().has_feature(200), "no bit of the header");
    assert_eq!(reader.notes().ownerless, None);
    let (times, damages) = read(reader);
    assert_eq!((times, damages), (vec![1], vec![]));

    let mut stream = PipeWriter::new(Vec::new(), &[cpu_clock()], &told("first")).expect("memory");
    stream.write(&sample(1)).expect("memory");
    let bytes = stream.finish(&told(&long)).expect("memory");
    let mut reader = Reader::open_stream(Box::new(Cursor::new(bytes.clone()))).expect("a stream");
    while let Some(record) = reader.next().expect("memory") {
        if record.kind == RecordType::SAMPLE {
            break;
        }
    }
    assert_eq!(
        reader.features().trust().expect("told").as_bytes(),
        b"first"
    );
    while reader.next().expect("memory").is_some() {}
    assert_eq!(
        reader.features().trust().expect("told").as_bytes(),
        long.as_bytes()
    );
    assert_eq!(reader.damages(), []);
    // perf declares the record with 80 bytes, and takes no longer ones than 65528.
    let sizes: Vec<usize> = records(&bytes[16..])
        .filter(|(kind, _)| *kind == RecordType::EVENT_TYPE.0)
        .map(|(_, size)| size)
        .collect();
    assert_eq!(sizes, [80, 65528, 65528, 65528, 3576]);
}

/// Kind and size of each record.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = (u32, usize)> {
    std::iter::from_fn(move || {
        let kind = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let size = usize::from(u16::from_le_bytes(bytes.get(6..8)?.try_into().ok()?));
        bytes = bytes.get(size..)?;
        Some((kind, size))
    })
}

#[test]
fn a_section_of_our_own_with_a_bit_in_the_header_is_read_as_well() {
    let mut bytes = written(&Features::default());
    let table = bytes.len() as u64;
    bytes[72 + 25] = 1; // bit 192 + 8
    bytes.extend([table + 16, 2].map(u64::to_le_bytes).concat());
    bytes.extend(b"{}");
    let reader = Reader::open_file(file(&bytes)).expect("a recording");
    assert_eq!(reader.features().trust().expect("told").as_bytes(), b"{}");
    assert_eq!(reader.damages(), []);
}

#[test]
fn damage_to_sections_of_our_own_is_told_and_harms_nothing_else() {
    let sound = written(&told("{}"));
    let own = sound.len() - 40; // mark, size, number, size, "{}"
    assert_eq!(sound[own..own + 8], *b"prof-own");
    let wounds: [(usize, u64, &str); 4] = [
        (own + 8, 999, "there are bytes up to"),
        (own + 16, 1 << 32, "is no section"),
        (own + 24, 999, "is no section"),
        (own + 24, u64::MAX, "is no section"),
    ];
    for (at, number, told) in wounds {
        let mut bytes = sound.clone();
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let reader = Reader::open_file(file(&bytes)).expect("a recording");
        let (times, damages) = read(reader);
        assert_eq!(times, [1]);
        assert!(damages[0].contains(told), "{damages:?}");
    }
    // Cut in the middle of it.
    let reader = Reader::open_file(file(&sound[..sound.len() - 8])).expect("a recording");
    assert_eq!(reader.damages().len(), 2, "{:?}", reader.damages());
    // A part of a stream is missing.
    let stream = PipeWriter::new(Vec::new(), &[cpu_clock()], &Features::default());
    let bytes = stream
        .expect("memory")
        .finish(&told(&long_json()))
        .expect("memory");
    let part = bytes.len() - 3 * 65528 - 3576;
    let bytes = [&bytes[..part + 65528], &bytes[part + 2 * 65528..]].concat();
    let reader = Reader::open_stream(Box::new(Cursor::new(bytes))).expect("a stream");
    let (_, damages) = read(reader);
    assert!(damages[0].contains("goes on at byte 130976"), "{damages:?}");
}

#[test]
fn tracepoint_formats_inside_their_record_do_not_swallow_what_follows() {
    // As simpleperf writes it: padded to 64, nothing behind the record.
    let formats = [b"\x17\x08\x44tracing0.6\0".as_slice(), &[0; 40]].concat();
    let mut stream = Stream::new();
    let mut body = (formats.len() as u32).to_le_bytes().to_vec();
    body.extend(&formats);
    body.resize(4 + 64, 0);
    stream.record(RecordType::TRACING_DATA, &body);
    stream.0.extend(samples(1..40));
    let mut reader = stream.reader();
    let mut count = 0;
    while let Some(record) = reader.next().expect("memory") {
        count += usize::from(record.kind == RecordType::SAMPLE);
    }
    assert_eq!(count, 39);
    assert_eq!(reader.features().tracing_data(), Some(formats.as_slice()));
}

#[test]
fn empty_sections_of_bpf_programs_are_no_damage() {
    let mut features = Features::default();
    features.set(FeatureBit::BPF_PROG_INFO, Vec::new());
    features.set(FeatureBit::BPF_BTF, Vec::new());
    let reader = Reader::open_file(file(&written(&features))).expect("a recording");
    assert_eq!(reader.damages(), []);
    let sections = reader.features().sections();
    assert!(sections.iter().all(|section| section.content.is_some()));
    assert_eq!(sections.len(), 2);
}

/// A sample whose body has so many bytes; its time is its number.
fn long_sample(number: u64, words: usize) -> Vec<u8> {
    let fixed = [0x1000 + number, 7 << 32 | 7, number, words as u64];
    let chain = (0..words as u64).map(|frame| 0x40_0000 + 16 * frame);
    let words: Vec<u64> = fixed.into_iter().chain(chain).collect();
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    record(RecordType::SAMPLE, &bytes)
}

/// What is flushed one after the other: shallow samples, deep ones, and a
/// shallow one.
fn deep_and_shallow() -> [Vec<u8>; 3] {
    let deep = (2..22).flat_map(|number| long_sample(number, 7000));
    [
        [long_sample(0, 10), long_sample(1, 500)].concat(),
        deep.collect(),
        long_sample(22, 10),
    ]
}

fn with_chains() -> EventDescription {
    let mut event = cpu_clock();
    event.attr.sample_type = event.attr.sample_type | SampleType::CALLCHAIN;
    event
}

/// What was written of [`deep_and_shallow`]: the records' types.
fn kinds(data: &[u8]) -> Vec<u32> {
    records(data).map(|(kind, _)| kind).collect()
}

/// [`deep_and_shallow`] in a file, and where its records end.
fn packed_file(packing: Packing) -> (Vec<u8>, usize) {
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[with_chains()]).expect("memory");
    writer.pack(packing).expect("memory");
    for piece in deep_and_shallow() {
        writer.write(&piece).expect("memory");
        writer.flush().expect("memory");
    }
    let size = writer.data_size() as usize;
    let bytes = writer.finish(&Features::default()).expect("memory");
    (bytes.into_inner(), size)
}

#[test]
fn only_samples_with_deep_chains_are_packed() {
    let (sample, feature, packed) = (9, 80, 81);
    let plain = packed_file(Packing::Never);
    let deep = packed_file(Packing::DeepChains);
    assert_eq!(kinds(&plain.0[192..192 + plain.1]), [sample; 23]);
    let written = kinds(&deep.0[192..192 + deep.1]);
    // 20 samples of 56 KB in pieces of 60 KB.
    let expected = [&[sample, sample, feature][..], &[packed; 19], &[sample]].concat();
    assert_eq!(written, expected);
    assert!(deep.1 < plain.1 / 50, "{} of {}", deep.1, plain.1);
    for (bytes, size) in [plain, deep] {
        let has_packed = kinds(&bytes[192..192 + size]).contains(&packed);
        let reader = Reader::open_file(file(&bytes)).expect("a recording");
        // The header tells of it if something was packed.
        assert_eq!(reader.header().has_feature(27), has_packed);
        let mut killed = bytes.clone();
        killed[72..104].fill(0);
        killed.truncate(192 + size);
        let killed = Reader::open_file(file(&killed)).expect("a recording");
        for reader in [reader, killed] {
            assert_eq!(read(reader), ((0..23).collect(), vec![]));
        }
    }
}

#[test]
fn a_stream_with_deep_chains_is_packed_there_and_says_so_before() {
    let mut writer =
        PipeWriter::new(Vec::new(), &[with_chains()], &Features::default()).expect("memory");
    writer.pack(Packing::DeepChains);
    let head = 16;
    for piece in deep_and_shallow() {
        writer.write(&piece).expect("memory");
    }
    let stream = writer.finish(&Features::default()).expect("memory");
    assert!(stream.len() < 20_000, "{}", stream.len());
    let kinds = kinds(&stream[head..]);
    let first = kinds.iter().position(|&kind| kind == 81).expect("packed");
    assert_eq!(kinds[first - 1], 80);
    assert_eq!(kinds.iter().filter(|&&kind| kind == 9).count(), 3);
    let reader = Reader::open_stream(Box::new(Cursor::new(stream))).expect("a stream");
    assert_eq!(read(reader), ((0..23).collect(), vec![]));
}
