//! `--redact`: what is sent to strangers tells no folder, no argument and no
//! host.

use crate::oracle::{Finished, fixture, have, perf_at, prof, prof_command, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What must not be in a file, and a recording of a program in which it is.
struct Private {
    /// Holds the program.
    _folder: tempfile::TempDir,
    data: PathBuf,
    words: Vec<String>,
}

/// Records a program that is in a folder of its own, with an argument of its
/// own.
fn recorded(test: &str) -> Option<Private> {
    if !have(test, "gcc") {
        return None;
    }
    let folder = tempfile::Builder::new()
        .prefix("clandestine-")
        .tempdir()
        .expect("a folder");
    let source = folder.path().join("exported.c");
    fs::copy(fixture("programs").join("exported.c"), &source).expect("copied");
    let built = |output: &str, more: &[&str]| {
        let path = folder.path().join(output);
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
    let program = built("program", &[]);
    let data = folder.path().join("private.data");
    let recorded = prof_command()
        .args(["record", "-q", "-g", "-F", "499", "--embed-time", "60000"])
        .args(["-e", "cpu-clock,page-faults", "-o"])
        .arg(&data)
        .arg("--")
        .args([&program, &library])
        .arg("--token=unspeakable")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let mut words = vec![
        "clandestine".to_owned(),
        "unspeakable".to_owned(),
        "/usr/".to_owned(),
        "-F 499".to_owned(),
    ];
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // A short one is in any file by chance.
    words.extend(Some(host.trim().to_owned()).filter(|host| host.len() > 4));
    Some(Private {
        data,
        words,
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
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut all = unzipped(&bytes);
            // Names are packed once more, and end the file.
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
        _ => bytes,
    }
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
    for format in [
        "pprof",
        "firefox",
        "speedscope",
        "callgrind",
        "otlp",
        "folded",
    ] {
        let bytes = export(format, &["--redact"]);
        assert!(has(&bytes, "recursive"), "{format} has names of functions");
        for word in &private.words {
            assert!(!has(&bytes, word), "{format} has {word}");
        }
    }
    // They are there if nobody asks for them to be taken out.
    let bytes = export("pprof", &[]);
    for word in &private.words {
        assert!(has(&bytes, word), "{word}");
    }
}

/// The rows of a report.
fn rows(file: &str) -> String {
    let fields = "overhead_children,overhead,dso,sym,srcline";
    let words = ["report", "--csv", "-i", file, "-F", fields];
    prof(&words).succeeded("prof report").text()
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
