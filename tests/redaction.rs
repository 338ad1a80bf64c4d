//! `--redact`: what is sent to strangers tells no folder, no argument and no
//! host.

use crate::oracle::{Finished, fixture, have, perf_at, prof, prof_command, scratch};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The user in whose folder the program is, as its path tells.
const USER: &str = "hypatia";

/// Where the host's name is among the private words, if it is there.
const HOST: usize = 5;

/// What must not be in a file, and a recording of a program in which it is.
struct Private {
    /// Holds the program.
    _folder: tempfile::TempDir,
    data: PathBuf,
    words: Vec<String>,
    /// The program, and the library that is its argument.
    programs: [PathBuf; 2],
}

/// Records them.
fn record(programs: &[PathBuf; 2], data: &Path, more: &[&str]) {
    let recorded = prof_command()
        .args(["record", "-q", "-g", "-F", "499", "--embed-time", "60000"])
        .args(["-e", "cpu-clock,page-faults", "-o"])
        .arg(data)
        .args(more)
        .arg("--")
        .args(programs)
        .arg("--token=unspeakable")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
}

impl Private {
    /// The host's name, if it is long enough to be looked for.
    fn host(&self) -> Option<&str> {
        self.words.get(HOST).map(String::as_str)
    }

    /// Fails unless an output without `--redact` has these words, and the same
    /// with it none that is private, but names of functions.
    fn gone(&self, what: &str, expected: &[&str], [open, redacted]: [&[u8]; 2]) {
        for word in expected {
            assert!(has(open, word), "{what} has {word} without --redact");
        }
        for word in &self.words {
            assert!(!has(redacted, word), "{what} has {word}");
        }
        assert!(has(redacted, "recursive"), "{what} has names of functions");
    }
}

/// Records a program that is in a folder of its own, with an argument of its
/// own. One of its functions has a path in its name.
fn recorded(test: &str) -> Option<Private> {
    if !have(test, "gcc") {
        return None;
    }
    let folder = tempfile::Builder::new()
        .prefix("clandestine-")
        .tempdir()
        .expect("a folder");
    let home = folder.path().join(USER);
    fs::create_dir(&home).expect("a folder");
    let source = home.join("exported.c");
    fs::copy(fixture("programs").join("exported.c"), &source).expect("copied");
    let built = |output: &str, more: &[&str]| {
        let path = home.join(output);
        let common = ["-O1", "-g", "-fno-omit-frame-pointer"];
        let status = Command::new("gcc")
            .args(common)
            .args(more)
            .arg("-o")
            .arg(&path)
            .arg(&source)
            .status();
        assert!(status.expect("gcc starts").success());
        path
    };
    let library = built("library.so", &["-DLIBRARY", "-shared", "-fPIC"]);
    let script = home.join("script.py");
    let script = format!("-DSCRIPT=\"\\\"py::work:{}\\\"\"", script.display());
    let program = built("program", &[&script]);
    let data = home.join("private.data");
    let programs = [program, library];
    record(&programs, &data, &[]);
    let mut words = vec![
        "clandestine".to_owned(),
        USER.to_owned(),
        "unspeakable".to_owned(),
        "/usr/".to_owned(),
        "-F 499".to_owned(),
    ];
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert_eq!(words.len(), HOST);
    // A short one is in any file by chance.
    words.extend(Some(host.trim().to_owned()).filter(|host| host.len() > 4));
    Some(Private {
        data,
        words,
        programs,
        _folder: folder,
    })
}

/// All that a file holds, unpacked.
fn unpacked(file: &Path) -> Vec<u8> {
    let bytes = fs::read(file).expect("written");
    let unzipped = |bytes: &[u8]| zstd::stream::decode_all(bytes).expect("zstd");
    match bytes.as_slice() {
        [0x1f, 0x8b, ..] => {
            let output = Command::new("gzip").arg("-dc").arg(file).output();
            output.expect("gzip starts").stdout
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => with_names(unzipped(&bytes)),
        start if start.starts_with(b"PERFILE2") => with_names(bytes),
        start if start.starts_with(b"PAR1") => with_pages(bytes),
        _ => with_page_data(bytes),
    }
}

/// Of a Parquet file also its pages, each a zstd frame.
fn with_pages(mut all: Vec<u8>) -> Vec<u8> {
    let marks = all.windows(4).enumerate();
    let frames = marks.filter(|(_, mark)| *mark == [0x28, 0xb5, 0x2f, 0xfd]);
    let mut pages = Vec::new();
    for (at, _) in frames {
        let frame = zstd::stream::read::Decoder::new(std::io::Cursor::new(&all[at..]));
        // A mark may stand in a page by chance.
        let _ = std::io::copy(&mut frame.expect("zstd").single_frame(), &mut pages);
    }
    all.extend(pages);
    all
}

/// Names are packed once more, and end the file.
fn with_names(mut all: Vec<u8>) -> Vec<u8> {
    let mark = all.windows(8).position(|mark| mark == b"PROFSYM1");
    let names = mark.map_or(Vec::new(), |at| {
        let mut names = Vec::new();
        let packed = std::io::Cursor::new(&all[at + 16..]);
        let mut one = zstd::stream::read::Decoder::new(packed)
            .expect("zstd")
            .single_frame();
        std::io::copy(&mut one, &mut names).expect("zstd");
        names
    });
    all.extend(names);
    all
}

/// Of a page also its data, which is base64 of a zlib stream.
fn with_page_data(mut all: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&all);
    let Some((_, data)) = text.split_once("id=\"profile\">") else {
        return all;
    };
    let data = data.split('<').next().expect("an end").to_owned();
    let mut decoder = Command::new("base64")
        .args(["-d", "-i"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("base64 starts");
    let mut input = decoder.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(data.as_bytes()));
    let packed = decoder.wait_with_output().expect("it ends").stdout;
    writer.join().expect("it ends").expect("written");
    let mut inflated = flate2::read::ZlibDecoder::new(&*packed);
    inflated.read_to_end(&mut all).expect("zlib");
    all
}

fn has(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|part| part == word.as_bytes())
}

#[test]
fn exports_for_strangers_hold_nothing_private() {
    let Some(private) = recorded("exports_for_strangers_hold_nothing_private") else {
        return;
    };
    let data = private.data.display().to_string();
    let export = |format: &str, more: &[&str]| {
        let out = scratch().join(format!("redacted.{format}"));
        let out_name = out.display().to_string();
        let words = [
            "export",
            "-i",
            &data,
            "--format",
            format,
            "-o",
            "/dev/stdout",
        ];
        let written = prof(&[&words[..], more].concat()).succeeded("prof export");
        fs::write(&out, written.stdout).expect("written");
        assert!(
            fs::metadata(&out).is_ok_and(|it| it.len() > 100),
            "{out_name}"
        );
        unpacked(&out)
    };
    let paths = ["clandestine", USER];
    let files = ["clandestine", USER, "/usr/"];
    let host: Vec<&str> = private.host().into_iter().collect();
    let with_host = [&files[..], &host].concat();
    let paths_and_host = [&paths[..], &host].concat();
    let all: Vec<&str> = private.words.iter().map(String::as_str).collect();
    for (format, expected) in [
        ("pprof", &all[..]),
        ("firefox", &with_host),
        ("speedscope", &files),
        ("callgrind", &files),
        ("otlp", &with_host),
        ("folded", &paths),
        ("parquet", &paths_and_host),
    ] {
        let (open, redacted) = (export(format, &[]), export(format, &["--redact"]));
        private.gone(format, expected, [&open, &redacted]);
    }
}

/// The rows of a report, but for the function with a path in its name.
fn rows(file: &str) -> String {
    let fields = "overhead_children,overhead,dso,sym,srcline";
    let words = ["report", "--csv", "-i", file, "-F", fields];
    let rows = prof(&words).succeeded("prof report").text();
    let others = rows.lines().filter(|row| !row.contains("py::work:/"));
    others.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_archive_for_strangers_has_all_names_and_nothing_private() {
    const TEST: &str = "an_archive_for_strangers_has_all_names_and_nothing_private";
    let Some(private) = recorded(TEST) else {
        return;
    };
    let data = private.data.display().to_string();
    let archive = |more: &[&str]| {
        let out = scratch().join(format!("{TEST}{}.zst", more.len()));
        let out = out.display().to_string();
        prof(&[&["archive", &data, "-o", &out], more].concat()).succeeded("prof archive");
        out
    };
    let redacted = archive(&["--redact"]);
    let bytes = unpacked(Path::new(&redacted));
    for word in &private.words {
        assert!(!has(&bytes, word), "{word}");
    }
    assert!(has(&bytes, "recursive") && has(&bytes, "exported.c"));
    let bytes = unpacked(Path::new(&archive(&[])));
    for word in &private.words {
        // The command line has a text for each argument.
        let word = word.trim_start_matches("-F ");
        assert!(has(&bytes, word), "{word}");
    }
    assert_eq!(rows(&data), rows(&redacted));
    // How the stacks ended only the recorder knows.
    let trust = |file: &str| -> String {
        let report = prof(&["report", "--stdio", "-i", file]).succeeded("prof report");
        report.text().lines().next().unwrap_or_default().to_owned()
    };
    assert!(trust(&data).contains("reach their thread's start"));
    assert_eq!(trust(&data), trust(&redacted));
    if !have(TEST, "perf") {
        return;
    }
    // perf reads what is left, too.
    let plain = scratch().join(format!("{TEST}.data"));
    fs::write(
        &plain,
        zstd::stream::decode_all(&*fs::read(&redacted).expect("read")).expect("zstd"),
    )
    .expect("written");
    let plain = plain.display().to_string();
    // Not perf 7.2: it crashes on any recording whose C library is not on this
    // machine at its path.
    let events = |file: &str| {
        let words = ["script", "-F", "event,period", "-i", file];
        perf_at(Path::new("perf"), &words)
            .succeeded("perf script")
            .text()
    };
    assert_eq!(events(&data), events(&plain));
}

#[test]
fn pictures_for_strangers_hold_nothing_private() {
    let Some(private) = recorded("pictures_for_strangers_hold_nothing_private") else {
        return;
    };
    let data = private.data.display().to_string();
    let drawn = |end: &str, words: &[&str]| {
        let out = scratch().join(format!("redacted-picture.{end}"));
        let out_name = out.display().to_string();
        let input = ["-i", &data];
        let input = if words.contains(&"--diff") {
            &[]
        } else {
            &input[..]
        };
        let words = [words, &[out_name.as_str()], input].concat();
        prof(&words).succeeded("prof");
        unpacked(&out)
    };
    let diff = ["flamegraph", "--diff", &data, &data, "-o"];
    let paths = ["clandestine", USER];
    for (end, words, expected) in [
        (
            "svg",
            &["flamegraph", "--by", "module", "-o"][..],
            &paths[..],
        ),
        ("html", &["flamegraph", "--colors", "module", "-o"], &paths),
        ("folded", &["flamegraph", "--by", "process", "-o"], &paths),
        ("diff.svg", &diff, &paths),
        ("diff.html", &diff, &paths),
        ("page.html", &["report", "--html"], &paths),
    ] {
        let open = drawn(end, words);
        let words = [&words[..1], &["--redact"], &words[1..]].concat();
        private.gone(end, expected, [&open, &drawn(end, &words)]);
    }
    // Text tells more than the page.
    let refused = prof(&["report", "--redact", "-i", &data]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_recording_for_strangers_has_all_names_and_nothing_private() {
    const TEST: &str = "a_recording_for_strangers_has_all_names_and_nothing_private";
    let Some(private) = recorded(TEST) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("redacted.data");
    record(&private.programs, &data, &["--redact"]);
    let bytes = unpacked(&data);
    // The command line has a text for each argument.
    let words = private
        .words
        .iter()
        .map(|word| word.trim_start_matches("-F "));
    let words: Vec<&str> = words.collect();
    private.gone("a recording", &words, [&unpacked(&private.data), &bytes]);
    assert!(has(&bytes, "exported.c"));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "nothing is left beside it: {left:?}");
    let mode = |file: &Path| fs::metadata(file).expect("a file").permissions();
    assert_eq!(mode(&data), mode(&private.data));
    let data = data.display().to_string();
    let rows = rows(&data);
    for name in ["recursive", "inlined", "exported.c:"] {
        assert!(rows.contains(name), "{name}: {rows}");
    }
    let refused = prof(&["record", "--redact", "-o", "-", "--", "true"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    if !have(TEST, "perf") {
        return;
    }
    let count = |perf: &str, words: &[&str]| {
        let words = [words, &["-i", &data]].concat();
        let told = perf_at(Path::new(perf), &words).succeeded(perf).text();
        told.lines().filter(|it| !it.trim().is_empty()).count()
    };
    assert!(count("perf", &["script", "-F", "event,period"]) > 10);
    // Not perf 7.2's script, as above.
    if let Ok(newest) = std::env::var("PROF_NEWEST_PERF") {
        assert!(count(&newest, &["report", "--stats"]) > 3);
        assert_eq!(count(&newest, &["evlist"]), 2);
    }
}

#[test]
fn what_nobody_can_look_through_is_not_archived_for_strangers() {
    const TEST: &str = "what_nobody_can_look_through_is_not_archived_for_strangers";
    if !have(TEST, "perf") {
        return;
    }
    let data = scratch().join(format!("{TEST}.data")).display().to_string();
    let words = [
        "record",
        "-q",
        "--call-graph",
        "dwarf",
        "-e",
        "cpu-clock",
        "-o",
        &data,
        "--",
        "true",
    ];
    perf_at(Path::new("perf"), &words).succeeded("perf record");
    let packed = format!("{data}.zst");
    let refused: Finished = prof(&["archive", &data, "--redact", "-o", &packed]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--convert-callchain"),
        "{}",
        refused.stderr
    );
}

/// A program in a language whose functions the recorder names, with the files
/// they are in.
struct Script {
    interpreter: &'static str,
    file: &'static str,
    text: &'static str,
}

const SCRIPTS: [Script; 2] = [
    Script {
        interpreter: "python3",
        file: "private.py",
        text: "import time\ndef work(n):\n    return sum(i * i for i in range(n))\n\
               end = time.time() + 1.5\nwhile time.time() < end: work(1000)\n",
    },
    Script {
        interpreter: "node",
        file: "private.js",
        text: "function work(n) { let s = []; for (let i = 0; i < n; i++) s.push(i + 'x'); return s; }\n\
               const end = Date.now() + 1500; while (Date.now() < end) work(1000).join();\n",
    },
];

#[test]
fn functions_that_the_recorder_names_tell_no_folder() {
    const TEST: &str = "functions_that_the_recorder_names_tell_no_folder";
    for Script {
        interpreter,
        file,
        text,
    } in SCRIPTS
    {
        if !have(TEST, interpreter) {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("clandestine").join("ann lovelace");
        fs::create_dir_all(&home).expect("a folder");
        let script = home.join(file);
        fs::write(&script, text).expect("written");
        let recorded = |name: &str, more: &[&str]| {
            let data = scratch().join(format!("{interpreter}-{name}.data"));
            let status = prof_command()
                .args(["record", "-q", "-g", "-F", "499", "-e", "cpu-clock"])
                .args(["--embed-time", "60000"])
                .args(more)
                .arg("-o")
                .arg(&data)
                .args(["--", interpreter])
                .arg(&script)
                .status();
            assert!(status.expect("prof starts").success());
            unpacked(&data)
        };
        let open = recorded("open", &[]);
        // The arguments, the recorder's command line, and names of functions.
        let place = script.display().to_string();
        let names = open.windows(place.len());
        let told = names.filter(|name| *name == place.as_bytes()).count();
        assert!(told > 2, "{interpreter}: {told} names");
        let redacted = recorded("redacted", &["--redact"]);
        for word in ["clandestine", "ann lovelace", "lovelace"] {
            assert!(has(&open, word), "{interpreter}: {word}");
            assert!(!has(&redacted, word), "{interpreter}: {word}");
        }
        assert!(has(&redacted, file), "{interpreter}");
    }
}
