//! What the writer writes, perf reads without a warning: a file with every
//! record and section that the writer has, and the same as a stream.

use crate::oracle::{Finished, have, perf_at, perfs, scratch};
use prof_abi::{AttrFlags, CallchainContext, CpuMode, EventAttr, Misc, SampleType};
use prof_perfdata::ClockData;
use prof_perfdata::body::{
    Body, CpuMap, CpuMapRecord, FixedText, IdEntry, LostSamples, Task, ThreadMapEntry,
};
use prof_perfdata::write::{
    EventDescription, Features, SampleEncoder, SampleFields, Trailer, append_short, finished_init,
    finished_round, id_index, thread_map,
};
use prof_record::Consumer;
use prof_record::output::{Destination, Output};
use prof_record::synthesize::{
    MachineFacts, Options, Synthesizer, cgroups, machine_features, online_cpus,
};
use std::path::{Path, PathBuf};

const SAMPLES: usize = 100;
/// Frames of each sample, all in [`leaf`].
const FRAMES: usize = 2;

/// Two software events with callchains, as `prof record -g` writes them.
fn events() -> Vec<EventDescription> {
    let attr = |config| EventAttr {
        kind: 1,
        config,
        sample_period: 999,
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::PERIOD
            | SampleType::CALLCHAIN,
        flags: AttrFlags::DISABLED
            | AttrFlags::INHERIT
            | AttrFlags::MMAP
            | AttrFlags::MMAP2
            | AttrFlags::COMM
            | AttrFlags::COMM_EXEC
            | AttrFlags::TASK
            | AttrFlags::FREQ
            | AttrFlags::USE_CLOCKID
            | AttrFlags::SAMPLE_ID_ALL,
        clockid: 1,
        ..EventAttr::default()
    };
    let event = |config, ids: &[u64], name: &str| EventDescription {
        attr: attr(config),
        ids: ids.to_vec(),
        name: name.into(),
    };
    vec![
        event(0, &[11, 12], "cpu-clock:u"),
        event(2, &[21, 22], "page-faults"),
    ]
}

/// The samples' leaf and caller: functions of this program.
#[inline(never)]
fn leaf() -> u64 {
    std::hint::black_box(leaf as fn() -> u64 as usize as u64)
}

fn sample(index: usize, events: &[EventDescription], out: &mut Vec<u8>) {
    let event = &events[index % 2];
    let ip = leaf() + 1;
    let pid = std::process::id();
    let fields = SampleFields {
        cpu_mode: CpuMode::User,
        id: event.ids[0],
        ip,
        pid,
        tid: pid,
        time: 1000 + index as u64,
        period: 7,
        callchain: &[CallchainContext::USER.0, ip, ip + 1],
        ..SampleFields::default()
    };
    SampleEncoder::new(&event.attr)
        .encode(&fields, out)
        .expect("short");
}

/// Every record that the writer has, around the samples.
fn records(events: &[EventDescription], features: &mut Features) -> Vec<u8> {
    let attr = &events[0].attr;
    let mut out = Vec::new();
    let options = Options {
        namespaces: true,
        ..Options::default()
    };
    let mut synthesizer = Synthesizer::new(attr, options);
    let ids = [11, 12, 21, 22].map(|id| IdEntry {
        id,
        ring: id % 10 - 1,
        cpu: (id % 10 - 1) as i64,
        tid: -1,
    });
    id_index(&ids, &mut out);
    let pid = std::process::id();
    let thread = ThreadMapEntry {
        pid: pid.into(),
        comm: FixedText::new(b"prof"),
    };
    thread_map(&[thread], &mut out);
    let cpus: Vec<u16> = online_cpus().iter().map(|&cpu| cpu as u16).collect();
    let cpus = CpuMap::of(&cpus);
    let map = Body::CpuMap(CpuMapRecord { cpus });
    append_short(&map, Misc(0), &Trailer::NONE, &mut out);
    synthesizer.kernel(&mut out);
    cgroups(&Trailer::of(attr), &mut out);
    synthesizer.processes([pid], &mut out);
    finished_init(&mut out);
    let child = |time| Task {
        pid: 4_000_000,
        parent_pid: pid.cast_signed(),
        tid: 4_000_000,
        parent_tid: pid.cast_signed(),
        time,
    };
    let trailer = Trailer {
        id: 11,
        time: 999,
        ..Trailer::of(attr)
    };
    append_short(&Body::Fork(child(999)), Misc(0), &trailer, &mut out);
    for index in 0..SAMPLES {
        sample(index, events, &mut out);
        if index == SAMPLES / 2 {
            finished_round(&mut out);
        }
    }
    let at = |time| Trailer { time, ..trailer };
    append_short(&Body::Exit(child(2000)), Misc(0), &at(2000), &mut out);
    let lost = Body::LostSamples(LostSamples { lost: 3 });
    append_short(&lost, Misc(0), &at(2001), &mut out);
    finished_round(&mut out);
    synthesizer.build_ids(features);
    features.sample_time(1000, 999 + SAMPLES as u64);
    features.clock_resolution(1);
    features.clock_data(&ClockData {
        version: 1,
        clockid: 1,
        wall_clock: 1_700_000_000_000_000_000,
        clock: 5,
    });
    features.trust(r#"{"lost":3}"#);
    out
}

fn early_features(events: &[EventDescription]) -> Features {
    machine_features(&MachineFacts {
        version: "prof",
        command_line: &[b"prof".to_vec(), b"record".to_vec()],
        events,
    })
}

fn write(name: &str) -> PathBuf {
    let events = events();
    let path = scratch().join(name);
    let destination = Destination::File(path.clone());
    let mut output =
        Output::create(&destination, &events, early_features(&events)).expect("created");
    let mut late = Features::default();
    output
        .records(&records(&events, &mut late))
        .expect("written");
    Box::new(output).finish(late).expect("finished");
    path
}

/// What perf tells a user to whom the kernel's addresses are not shown, of
/// every file with the kernel's mapping in it.
const ADDRESSES_HIDDEN: &str = "Warning:
Kernel address maps (/proc/{kallsyms,modules}) were restricted.

Check /proc/sys/kernel/kptr_restrict before running 'perf record'.

As no suitable kallsyms nor vmlinux was found, kernel samples
can't be resolved.

Samples in kernel modules can't be resolved as well.

";

/// A run that said nothing on stderr of the file.
fn quietly(perf: &Path, file: &Path, args: &[&str]) -> Finished {
    let input = ["-i", file.to_str().expect("a plain name")];
    let args: Vec<&str> = args.iter().chain(&input).copied().collect();
    let run = perf_at(perf, &args).succeeded(&format!("{} {args:?}", perf.display()));
    let said = match crate::oracle::is_root() {
        true => run.stderr.as_str(),
        false => run.stderr.trim_start_matches(ADDRESSES_HIDDEN),
    };
    assert_eq!(said, "", "{} {args:?}", perf.display());
    run
}

#[test]
fn perf_reads_a_written_file_without_a_warning() {
    let test = "perf_reads_a_written_file_without_a_warning";
    if !have(test, "perf") {
        return;
    }
    let file = write("written.data");
    for perf in perfs(test) {
        let script = quietly(
            &perf,
            &file,
            &["script", "-F", "comm,pid,time,event,ip,sym,period"],
        );
        let script = script.text();
        let leaves = script.lines().filter(|line| line.contains("leaf"));
        assert_eq!(leaves.count(), SAMPLES * FRAMES, "{script}");
        assert_eq!(
            script.matches("cpu-clock:u").count(),
            SAMPLES / 2,
            "{script}"
        );

        let report = quietly(&perf, &file, &["report", "--stdio", "--no-children"]).text();
        for count in [
            "Samples: 50  of event 'cpu-clock:u'",
            "Samples: 50  of event 'page-faults'",
        ] {
            assert!(report.contains(count), "{report}");
        }

        let events = quietly(&perf, &file, &["evlist", "-v"]).text();
        assert!(events.starts_with("cpu-clock:u: "), "{events}");
        assert!(events.contains("IDENTIFIER"), "{events}");

        let ids = quietly(&perf, &file, &["buildid-list"]).text();
        assert!(ids.contains("[kernel.kallsyms]"), "{ids}");
    }
}

#[test]
fn perf_shows_every_section_of_a_written_file() {
    let test = "perf_shows_every_section_of_a_written_file";
    if !have(test, "perf") {
        return;
    }
    let file = write("sections.data");
    for perf in perfs(test) {
        let header = quietly(&perf, &file, &["report", "--header-only", "-I"]).text();
        for line in [
            "# hostname : ",
            "# os release : ",
            "# perf version : prof",
            "# arch : ",
            "# nrcpus online : ",
            "# total memory : ",
            "# cmdline : prof record ",
            "# event : name = cpu-clock:u, ",
            "# sibling sockets ",
            "# node0 meminfo ",
            "# pmu mappings: ",
            "# sample duration : ",
            "# clockid frequency: 1000 MHz",
            "# reference time",
            "# clockid: monotonic (1)",
        ] {
            assert!(header.contains(line), "no {line:?} in\n{header}");
        }
    }
}

#[test]
fn perf_reads_a_written_stream_without_a_warning() {
    let test = "perf_reads_a_written_stream_without_a_warning";
    if !have(test, "perf") {
        return;
    }
    // A FIFO makes the output a stream; it ends in a file that perf reads.
    let fifo = scratch().join(format!("written-{}.fifo", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo starts").success());
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let events = events();
            let destination = Destination::File(fifo);
            let early = early_features(&events);
            let mut output = Output::create(&destination, &events, early).expect("created");
            let records = records(&events, &mut Features::default());
            output.records(&records).expect("written");
            Box::new(output)
                .finish(Features::default())
                .expect("finished");
        }
    });
    let stream = std::fs::read(&fifo).expect("read to its end");
    writer.join().expect("no panic");
    std::fs::remove_file(&fifo).expect("it was there");
    let file = scratch().join("written.pipe.data");
    std::fs::write(&file, stream).expect("written");

    for perf in perfs(test) {
        let script = quietly(&perf, &file, &["script", "-F", "comm,event,ip,sym"]).text();
        let leaves = script.lines().filter(|line| line.contains("leaf"));
        assert_eq!(leaves.count(), SAMPLES * FRAMES, "{script}");
        assert_eq!(
            script.matches("cpu-clock:u").count(),
            SAMPLES / 2,
            "{script}"
        );
        let report = quietly(&perf, &file, &["report", "--stdio", "--no-children"]).text();
        assert!(report.contains("of event 'page-faults'"), "{report}");
    }
}

#[test]
fn a_file_without_its_end_is_read_up_to_its_last_flush() {
    let test = "a_file_without_its_end_is_read_up_to_its_last_flush";
    if !have(test, "perf") {
        return;
    }
    let events = events();
    let path = scratch().join("killed.data");
    let destination = Destination::File(path.clone());
    let mut output =
        Output::create(&destination, &events, early_features(&events)).expect("created");
    let records = records(&events, &mut Features::default());
    output.records(&records).expect("written");
    output.flush().expect("flushed");
    output.records(&records[..100]).expect("written");
    // A killed recorder writes no more and finishes nothing.
    std::mem::forget(output);
    for perf in perfs(test) {
        let args = ["script", "-F", "ip,sym", "-i"].map(std::ffi::OsStr::new);
        let args = [&args[..], &[path.as_os_str()]].concat();
        let script = perf_at(&perf, &args).succeeded("perf script");
        let text = script.text();
        let leaves = text.lines().filter(|line| line.contains("leaf"));
        assert_eq!(
            leaves.count(),
            SAMPLES * FRAMES,
            "{text}\n{}",
            script.stderr
        );
    }
}

#[test]
fn our_reader_takes_apart_what_our_writer_put_together() {
    let file = std::fs::File::open(write("round-trip.data")).expect("written before");
    let mut reader = prof_perfdata::Reader::open_file(file).expect("a header");
    let events: Vec<_> = reader
        .events()
        .list()
        .iter()
        .map(|event| event.name().into_owned())
        .collect();
    assert_eq!(events, ["cpu-clock:u", "page-faults"]);
    let mut samples = 0;
    let mut kinds = std::collections::BTreeSet::new();
    while let Some(record) = reader.next().expect("readable") {
        kinds.insert(record.kind.name().expect("a known record"));
        samples += usize::from(record.kind == prof_abi::RecordType::SAMPLE);
        let parsed = record.parse().expect("whole");
        assert_eq!(
            parsed.encode(record.order()),
            record.bytes,
            "{:?}",
            record.kind
        );
        assert_eq!(parsed.extra, b"", "{:?}", record.kind);
    }
    assert_eq!(samples, SAMPLES);
    for kind in [
        "MMAP2",
        "COMM",
        "FORK",
        "EXIT",
        "ID_INDEX",
        "THREAD_MAP",
        "CPU_MAP",
        "NAMESPACES",
        "FINISHED_ROUND",
        "FINISHED_INIT",
        "LOST_SAMPLES",
    ] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    assert!(reader.damages().is_empty(), "{:?}", reader.damages());
    let notes = reader.notes();
    assert_eq!(notes.unknown_features, Vec::<u32>::new());
    assert_eq!(notes.unknown_ids, 0);
    let features = reader.features();
    assert!(
        features
            .sections()
            .iter()
            .all(|section| section.content.is_some())
    );
    let trust = features.trust().map(ToString::to_string);
    assert_eq!(trust.as_deref(), Some(r#"{"lost":3}"#));
    let build_ids = features.build_ids().expect("a section");
    let own = std::env::current_exe().expect("a path");
    assert!(
        build_ids.len() >= 2,
        "the kernel and {}: {build_ids:?}",
        own.display()
    );
}
