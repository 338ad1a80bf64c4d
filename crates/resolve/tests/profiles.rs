//! Profiles made without the binary.

#[path = "../examples/one_thread.rs"]
mod one_thread;

use prof_abi::{BuildId, CpuMode, EventAttr, Misc, SampleType};
use prof_perfdata::Reader;
use prof_perfdata::body::{Body, FileIdentity, Mmap2, Name};
use prof_perfdata::write::{EventDescription, Features, FileWriter, Trailer, append_short};
use prof_profile::{FileOffset, StackId};
use prof_resolve::{LoadOptions, Phase, Progress, load};
use prof_symbolize::{Detail, DsoRequest, FetchFile, FileOfBuild, Sources, Symbolizer};
use std::fs::File;
use std::io::Seek;
use std::path::PathBuf;
use std::sync::Arc;

struct Quiet;

impl Progress for Quiet {
    fn update(&self, _: Phase, _: u64, _: Option<u64>) {}
}

/// Where the code of this program is: start, end and offset in its file.
fn own_code() -> (u64, u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps are readable");
    let program = std::env::current_exe().expect("this program has a path");
    let line = maps
        .lines()
        .find(|line| line.contains("r-xp") && line.ends_with(program.to_str().expect("UTF-8")))
        .expect("this program has code");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let mut words = line.split_whitespace();
    let (start, end) = words
        .next()
        .and_then(|range| range.split_once('-'))
        .expect("a range");
    (hex(start), hex(end), hex(words.nth(1).expect("an offset")))
}

fn sample(ip: u64, tid: u32, time: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(9_u32.to_ne_bytes());
    record.extend(2_u16.to_ne_bytes());
    record.extend(32_u16.to_ne_bytes());
    record.extend(ip.to_ne_bytes());
    record.extend([7, tid].map(u32::to_ne_bytes).concat());
    record.extend(time.to_ne_bytes());
    record
}

/// More than are looked up at once, fewer than there is code for.
const SAMPLES: u64 = 20_000;

/// A recording of this program, and where its samples are in it: the first
/// offset, and how far they are apart. Two threads take turns.
fn recording() -> (File, u64, u64) {
    let (start, end, offset) = own_code();
    let program = std::env::current_exe().expect("this program has a path");
    let step = (end - start) / SAMPLES;
    assert!(step > 0, "this program is too small");
    let attr = EventAttr {
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
        sample_period: 3,
        ..EventAttr::default()
    };
    let event = EventDescription {
        attr,
        ids: vec![1],
        name: "cpu-clock".into(),
    };
    let mut file = tempfile::tempfile().expect("a temporary file");
    let mut writer = FileWriter::new(&mut file, &[event]).expect("written");
    let mut record = Vec::new();
    let mapping = Body::Mmap2(Mmap2 {
        pid: 7,
        tid: 7,
        start,
        len: end - start,
        file_offset: offset,
        file: FileIdentity::NONE,
        prot: 5,
        flags: 2,
        path: Name::new(program.as_os_str().as_encoded_bytes()),
    });
    let misc = Misc::of_mode(CpuMode::User);
    append_short(&mapping, misc, &Trailer::default(), &mut record);
    writer.write(&record).expect("written");
    for number in 0..SAMPLES {
        let tid = 7 + number as u32 % 2;
        let record = sample(start + number * step, tid, number + 1);
        writer.write(&record).expect("written");
    }
    writer.finish(&Features::default()).expect("written");
    file.rewind().expect("a file");
    (file, offset, step)
}

#[test]
fn early_names_are_those_of_single_look_ups() {
    let (file, offset, step) = recording();
    let program = std::env::current_exe().expect("this program has a path");
    let program = program.to_str().expect("UTF-8");
    let symbolizer = Symbolizer::new(Sources::default());
    let options = LoadOptions {
        detail: Detail::Symbol,
        ..LoadOptions::default()
    };
    let reader = Reader::open_file(file).expect("a recording");
    let (profile, _) = load(reader, &symbolizer, &options, &Quiet).expect("readable");
    assert_eq!(profile.samples.len() as u64, SAMPLES);

    let alone = Symbolizer::new(Sources::default());
    let symbols = alone
        .open(&DsoRequest::for_file(program, None))
        .expect("this program");
    let mut named = 0;
    for (number, sample) in (0..).zip(profile.samples.iter()) {
        assert_ne!(sample.stack, StackId::EMPTY);
        let (_, location) = profile.stacks.get(sample.stack).expect("a frame");
        let frame = profile.frames_at(location).last().expect("a function");
        let ours = profile.function(frame.function);
        let svma = symbols.svma_of_file_offset(FileOffset(offset + number * step));
        // The last page of the mapping may reach beyond the segment.
        let expected = svma.and_then(|svma| symbols.lookup(svma, Detail::Symbol).symbol);
        match expected {
            Some(symbol) => {
                assert_eq!(profile.name(ours.name), &*symbol.name);
                assert_eq!((ours.start, ours.size), (symbol.start, symbol.size));
                named += 1;
            }
            None => assert!(ours.unnamed.is_some()),
        }
    }
    assert!(named > SAMPLES / 2, "only {named} have names");
}

#[test]
fn what_was_read_of_files_goes_where_that_is_asked_and_comes_again() {
    let program = std::env::current_exe().expect("this program has a path");
    let program = program.to_str().expect("UTF-8");
    let functions = [false, true].map(|forgets_tables| {
        let (file, offset, _) = recording();
        let symbolizer = Symbolizer::new(Sources::default());
        let options = LoadOptions {
            detail: Detail::Inlines,
            forgets_tables,
            ..LoadOptions::default()
        };
        let reader = Reader::open_file(file).expect("a recording");
        let (profile, _) = load(reader, &symbolizer, &options, &Quiet).expect("readable");
        let file = symbolizer.open(&DsoRequest::for_file(program, None));
        let file = file.expect("this program");
        assert_eq!(file.holds_tables(), !forgets_tables);
        let svma = file.svma_of_file_offset(FileOffset(offset)).expect("code");
        assert!(file.symbol_before(svma).is_some());
        assert!(file.holds_tables());
        let name = |id| profile.name(id).to_owned();
        let functions = profile.functions.iter();
        let functions: Vec<_> = functions.map(|it| (name(it.name), it.start)).collect();
        functions
    });
    let [kept, forgotten] = functions;
    assert!(kept.len() > 10);
    assert_eq!(kept, forgotten);
}

#[test]
fn some_of_the_records_make_a_profile_of_their_own() {
    let (file, ..) = recording();
    let again = file.try_clone().expect("a descriptor");
    let profile = one_thread::profile_of_thread(file, 8).expect("readable");
    assert_eq!(profile.samples.len() as u64, SAMPLES / 2);
    let tids = profile.samples.iter().map(|it| profile.task(it.task).tid);
    assert!(tids.into_iter().all(|tid| tid == 8));
    assert_eq!(profile.events[0].samples, SAMPLES / 2);
    let functions = one_thread::by_function(&profile);
    assert_eq!(functions.values().sum::<u64>(), 3 * SAMPLES / 2);

    // The same samples as the whole recording has of it, by the same names.
    (&again).rewind().expect("a file");
    let symbolizer = Symbolizer::new(Sources::default());
    let options = LoadOptions::default();
    let reader = Reader::open_file(again).expect("a recording");
    let (whole, _) = load(reader, &symbolizer, &options, &Quiet).expect("readable");
    let of_whole = whole
        .samples
        .iter()
        .filter(|it| whole.task(it.task).tid == 8);
    for (ours, theirs) in profile.samples.iter().zip(of_whole) {
        assert_eq!((ours.time, ours.period), (theirs.time, theirs.period));
        let (_, ours) = profile.stacks.get(ours.stack).expect("a frame");
        let (_, theirs) = whole.stacks.get(theirs.stack).expect("a frame");
        let name = |profile: &prof_profile::Profile, at| {
            let frame = profile.frames_at(at).first().expect("a function");
            let function = profile.function(frame.function);
            profile.name(function.name).to_owned()
        };
        assert_eq!(name(&profile, ours), name(&whole, theirs));
    }
}

/// Has no file, as a server that knows none.
#[derive(Debug)]
struct HasNothing;

impl FetchFile for HasNothing {
    fn fetch(&self, _: &BuildId, _: FileOfBuild, _: &str) -> Option<PathBuf> {
        None
    }
}

/// Where files may have to be fetched, names are looked up when all records
/// were read, else while they are.
#[test]
fn names_looked_up_at_the_end_are_those_looked_up_while_reading() {
    let names = |sources: Sources| {
        let (file, ..) = recording();
        let symbolizer = Symbolizer::new(sources);
        let reader = Reader::open_file(file).expect("a recording");
        let options = LoadOptions::default();
        let (profile, _) = load(reader, &symbolizer, &options, &Quiet).expect("readable");
        let name = |sample: prof_profile::Sample| {
            let (_, location) = profile.stacks.get(sample.stack).expect("a frame");
            let frames = profile.frames_at(location).iter();
            let names = frames.map(|frame| profile.name(profile.function(frame.function).name));
            names.collect::<Vec<_>>().join(";")
        };
        profile.samples.iter().map(name).collect::<Vec<_>>()
    };
    let while_reading = names(Sources::default());
    let at_the_end = names(Sources {
        fetch: Some(Arc::new(HasNothing)),
        ..Sources::default()
    });
    assert_eq!(while_reading.len() as u64, SAMPLES);
    assert_eq!(while_reading, at_the_end);
}
