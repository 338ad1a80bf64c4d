//! `prof push` and `prof record --push`, with receivers that are slow, refuse,
//! close early, answer 500, and are away.

use crate::exports::{pprof_traces, recording, summed_otlp};
use crate::oracle::{compiled, have, prof, prof_command, skipped};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What the receiver does with a connection.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// Takes all and answers so.
    Answers(&'static str),
    /// Closes before it has read anything.
    Closes,
    /// Reads, and closes without an answer.
    SaysNothing,
    /// Reads and answers a little at a time.
    IsSlow,
}

const TAKEN: Does = Does::Answers("200 OK");

/// A request as it came.
#[derive(Debug)]
struct Got {
    /// Its first line and headers.
    head: String,
    body: Vec<u8>,
}

/// Does this with the connections that come, then takes all; what was taken
/// with an answer of 200 comes out.
fn receive(listener: TcpListener, does: &[Does]) -> Receiver<Got> {
    let mut does: VecDeque<Does> = does.iter().copied().collect();
    let (gives, got) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let does = does.pop_front().unwrap_or(TAKEN);
            let Some(taken) = handle(stream.expect("a connection"), does) else {
                continue;
            };
            if gives.send(taken).is_err() {
                break;
            }
        }
    });
    got
}

fn handle(mut stream: TcpStream, does: Does) -> Option<Got> {
    if matches!(does, Does::Closes) {
        return None;
    }
    let portion = if matches!(does, Does::IsSlow) {
        700
    } else {
        1 << 16
    };
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut buffer = vec![0; portion];
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
            let mut lines = head.lines();
            let length = lines.find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then_some(value)
            });
            let length: usize = length?.parse().expect("a number");
            break (head, end + 4 + length);
        }
    };
    while bytes.len() < length {
        let mut buffer = vec![0; portion];
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        if matches!(does, Does::IsSlow) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    let answer = match does {
        Does::Answers(answer) => answer,
        Does::IsSlow => "204 No Content",
        Does::Closes | Does::SaysNothing => return None,
    };
    for part in [
        format!("HTTP/1.1 {answer}\r\n"),
        "Content-Length: 0\r\n\r\n".into(),
    ] {
        stream.write_all(part.as_bytes()).ok()?;
        if matches!(does, Does::IsSlow) {
            thread::sleep(Duration::from_millis(100));
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    answer.starts_with('2').then(|| Got {
        head,
        body: bytes.split_off(head_end(&bytes)),
    })
}

fn head_end(bytes: &[u8]) -> usize {
    bytes
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .expect("a head")
        + 4
}

/// A receiver at an address with this path.
fn listening(path: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, format!("http://127.0.0.1:{port}{path}"))
}

fn next(got: &Receiver<Got>) -> Got {
    got.recv_timeout(Duration::from_secs(60))
        .expect("it is sent")
}

/// The part of a form.
fn part(body: &[u8], name: &str) -> Vec<u8> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let line = body
        .windows(2)
        .position(|end| end == b"\r\n")
        .expect("a boundary");
    let boundary = &body[..line];
    let ends: Vec<usize> = (0..body.len() - boundary.len() + 1)
        .filter(|&at| &body[at..at + boundary.len()] == boundary)
        .collect();
    let parts = ends.windows(2).map(|two| &body[two[0]..two[1]]);
    let mut found = parts
        .filter(|part| text(part).contains(&format!("name=\"{name}\"")))
        .map(|part| part[head_end(part)..part.len() - 2].to_vec());
    found.next_back().expect("the part")
}

/// The weight of an event by `prof report`.
fn weight(data: &Path, event: &str) -> u64 {
    let data = data.display().to_string();
    let json = prof(&["report", "--json", "-i", &data]).succeeded("prof report");
    let json: serde_json::Value = serde_json::from_str(&json.text()).expect("JSON");
    let events = json["events"].as_array().expect("events").iter();
    let found = events.filter(|it| it["name"] == event);
    let weights = found.map(|it| {
        let tree = it["tree"].as_array().expect("a tree").iter();
        tree.map(|node| node["self"]["period"].as_u64().expect("a weight"))
            .sum::<u64>()
    });
    weights.sum()
}

/// Pushes files; standard error and exit code.
fn push(url: &str, spool: &Path, more: &[&str]) -> (String, i32) {
    let spool = spool.display().to_string();
    let words = [
        "push",
        "--url",
        url,
        "--spool",
        &spool,
        "--label",
        "region=north",
    ];
    let pushed = prof(&[&words[..], more].concat());
    (pushed.stderr, pushed.code)
}

#[test]
fn pyroscope_gets_each_profile_whatever_happens_before() {
    const TEST: &str = "pyroscope_gets_each_profile_whatever_happens_before";
    let Some(data) = recording(TEST).filter(|_| have(TEST, "go")) else {
        return;
    };
    // It is as old as its file.
    let written = std::time::UNIX_EPOCH + Duration::from_secs(1_704_067_200);
    let file = std::fs::File::options().write(true).open(&data);
    file.and_then(|file| file.set_modified(written))
        .expect("a file of ours");
    let folder = tempfile::tempdir().expect("a folder");
    let (listener, url) = listening("/ingest");
    let before = [
        Does::Closes,
        Does::Answers("500 Broken"),
        Does::Answers("503 Busy\r\nRetry-After: 1"),
        Does::SaysNothing,
        Does::IsSlow,
    ];
    let got = receive(listener, &before);
    let data_name = data.display().to_string();
    let (told, code) = push(&url, folder.path(), &[&data_name, "--service", "shop"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(
        told.matches("answers 500").count(),
        1,
        "one line a cause: {told}"
    );
    assert!(
        told.contains("takes profiles again") && told.contains("1 profile sent"),
        "{told}"
    );
    let got = next(&got);
    assert!(
        got.head
            .starts_with("POST /ingest?name=shop%7Bregion%3Dnorth%7D&from=17040671"),
        "{}",
        got.head
    );
    let file = folder.path().join("sent.pb.gz");
    std::fs::write(&file, part(&got.body, "profile")).expect("written");
    let events = events(&data);
    for event in &events {
        assert_eq!(pprof_traces(&file, event), weight(&data, event), "{event}");
    }
    let types = part(&got.body, "sample_type_config");
    let types: serde_json::Value = serde_json::from_slice(&types).expect("JSON");
    assert_eq!(types[&events[0]]["units"], "nanoseconds");
}

/// Its events, with `:u` where the user may not see the kernel.
fn events(data: &Path) -> Vec<String> {
    let list = prof(&["evlist".as_ref(), "-i".as_ref(), data.as_os_str()]);
    let list = list.succeeded("prof evlist").text();
    list.lines().map(str::to_owned).collect()
}

#[test]
fn parca_and_opentelemetry_get_their_messages() {
    const TEST: &str = "parca_and_opentelemetry_get_their_messages";
    let Some(data) = recording(TEST).filter(|_| have(TEST, "go")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let data_name = data.display().to_string();
    let sent = |path: &str| {
        let (listener, url) = listening(path);
        let got = receive(listener, &[]);
        let (told, code) = push(&url, folder.path(), &[&data_name]);
        assert_eq!(code, 0, "{told}");
        next(&got)
    };
    let got = sent("/api/profiles/writeraw");
    let json: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
    let series = &json["series"][0];
    assert_eq!(series["labels"]["labels"][1]["value"], "north");
    let packed = folder.path().join("sent.base64");
    let raw = series["samples"][0]["rawProfile"].as_str().expect("base64");
    std::fs::write(&packed, raw).expect("written");
    let unpacked = Command::new("base64").arg("-d").arg(&packed).output();
    let file = folder.path().join("sent.pb.gz");
    std::fs::write(&file, unpacked.expect("base64 starts").stdout).expect("written");
    let clock = &events(&data)[0];
    assert_eq!(pprof_traces(&file, clock), weight(&data, clock));
    let got = sent("/v1development/profiles");
    assert!(
        got.head
            .to_lowercase()
            .contains("content-type: application/x-protobuf"),
        "{}",
        got.head
    );
    let file = folder.path().join("sent.otlp");
    std::fs::write(&file, &got.body).expect("written");
    let has = |word: &[u8]| got.body.windows(word.len()).any(|part| part == word);
    assert!(has(b"region") && has(b"service.name"));
    if let Some(summed) = summed_otlp(TEST, &file) {
        assert_eq!(summed[clock]["weight"], weight(&data, clock));
    }
}

#[test]
fn what_cannot_be_sent_waits_within_its_bound_and_is_sent_later() {
    const TEST: &str = "what_cannot_be_sent_waits_within_its_bound_and_is_sent_later";
    let Some(data) = recording(TEST) else {
        return;
    };
    let folder = tempfile::Builder::new().prefix("it's a ").tempdir();
    let folder = folder.expect("a folder");
    let data_name = data.display().to_string();
    // Nobody listens at a port that only root could take.
    let nobody = folder.path().join("nobody");
    let away = "http://127.0.0.1:1/ingest";
    let (told, code) = push(away, &nobody, &[&data_name, "--patience", "0"]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("refused (os error 111); kept"), "{told}");
    assert!(told.contains("1 wait in "), "{told}");
    // Nor can anything wait where there is no home.
    let mut homeless = prof_command();
    let homeless = homeless.args(["push", &data_name, "--url", away]);
    let homeless = homeless.env_remove("XDG_STATE_HOME").env("HOME", "/proc/0");
    let told = homeless.output().expect("prof starts").stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("try: --spool DIR"), "{told}");
    // One that is there, and goes away before it has read anything, is bound
    // once: whoever closes a port may not get it again.
    let (listener, url) = listening("/ingest");
    let got = receive(listener, &[Does::Closes]);
    let (told, code) = push(
        &url,
        folder.path(),
        &[&data_name, &data_name, "--patience", "0"],
    );
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains("2 wait in ") && told.contains("sends them"),
        "{told}"
    );
    let (told, code) = again(&told);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("2 profiles sent"), "{told}");
    assert!(next(&got).body == next(&got).body);
    // A file that cannot be read holds up no other.
    let (listener, url) = listening("/ingest");
    let got = receive(listener, &[]);
    let bad = folder.path().join("bad").display().to_string();
    std::fs::write(&bad, "neither").expect("written");
    let (told, code) = push(&url, folder.path(), &[&bad, &data_name, &bad]);
    assert_eq!(
        (code, told.matches("neither a recording").count()),
        (1, 2),
        "{told}"
    );
    assert!(told.contains("1 profile sent"), "{told}");
    assert!(!next(&got).body.is_empty());
    // What is refused for good is not tried again, and is told.
    let (listener, url) = listening("/ingest");
    let _got = receive(listener, &[Does::Answers("400 Bad Request")]);
    let (told, code) = push(&url, folder.path(), &[&data_name]);
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains("refused, and left out") && !told.contains("wait in"),
        "{told}"
    );
    for (wrong, more) in [
        ("ftp://127.0.0.1/ingest", ["--service", "a"]),
        ("http://127.0.0.1/", ["--service", "a"]),
        ("http://127.0.0.1/ingest", ["--cacert", "a.pem"]),
    ] {
        let (told, code) = push(wrong, folder.path(), &[&[&*data_name], &more[..]].concat());
        assert_eq!(code, 2, "{told}");
    }
}

/// A file of folded stacks whose names do not compress.
fn large_profile(folder: &Path, seed: u64) -> String {
    let mut state = seed;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state
    };
    let lines = (0..6000).map(|_| format!("{:x}{:x};{:x} 1\n", word(), word(), word()));
    let file = folder.join(format!("{seed}.folded"));
    std::fs::write(&file, lines.collect::<String>()).expect("written");
    file.display().to_string()
}

#[test]
fn where_more_would_wait_than_may_the_oldest_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let files: Vec<String> = (1..=6)
        .map(|seed| large_profile(folder.path(), seed))
        .collect();
    let (listener, url) = listening("/ingest");
    let got = receive(listener, &[Does::Closes]);
    let spool = folder.path().join("spool");
    let options = ["--spool-size", "1", "--patience", "0"];
    let words = files.iter().map(String::as_str).chain(options);
    let (told, code) = push(&url, &spool, &words.collect::<Vec<_>>());
    assert_eq!(code, 1, "{told}");
    let said = "no room for all that waits, the oldest profiles go\n  try: --spool-size MB";
    assert_eq!(told.matches(said).count(), 1, "{told}");
    let number = |before: &str| -> usize {
        let at = told.find(before).unwrap_or_else(|| panic!("{told}"));
        let word = told[..at].split_whitespace().next_back();
        word.and_then(|word| word.parse().ok()).expect("a number")
    };
    let (dropped, left) = (number(" dropped for want of room"), number(" wait in "));
    assert!(dropped > 0 && left > 0, "{told}");
    assert_eq!(dropped + left, files.len(), "{told}");
    // The youngest are there, in their order.
    let (told, code) = push(&url, &spool, &[]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains(&format!("{left} profile")), "{told}");
    for file in &files[dropped..] {
        let body = part(&next(&got).body, "profile");
        let sent = folder.path().join("sent.pb.gz");
        std::fs::write(&sent, body).expect("written");
        let names = |file: &str| {
            let shown = prof(&["report", "--csv", "--no-children", "-s", "sym", "-i", file]);
            let text = shown.succeeded("prof report").text();
            let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
            names.sort();
            names
        };
        assert!(names(&sent.display().to_string()) == names(file), "{file}");
    }
}

#[test]
fn a_receiver_that_hangs_holds_nobody_longer_than_told() {
    const TEST: &str = "a_receiver_that_hangs_holds_nobody_longer_than_told";
    let (Some(data), Some(program)) = (
        recording(TEST),
        compiled(TEST, "steady-calls.c", &["-O1", "-g"]),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let data = data.display().to_string();
    let (listener, url) = listening("/ingest");
    thread::spawn(move || {
        let streams: Vec<_> = listener.incoming().collect();
        drop(streams);
    });
    let began = Instant::now();
    let (told, code) = push(&url, folder.path(), &[&data, "--patience", "2"]);
    assert_eq!(code, 1, "{told}");
    assert!(
        told.contains("no answer in time; kept") && told.contains("1 wait in "),
        "{told}"
    );
    // A request may take 30 s.
    assert!(began.elapsed() < Duration::from_secs(15), "{told}");
    let mut recorder = prof_command();
    recorder.args([
        "record",
        "-e",
        "cpu-clock",
        "--every",
        "300ms",
        "--push",
        &url,
    ]);
    recorder.arg("--spool").arg(folder.path().join("other"));
    recorder.args(["--", "timeout", "1"]).arg(&program);
    let began = Instant::now();
    let told = recorder.output().expect("prof starts").stderr;
    let told = String::from_utf8_lossy(&told);
    assert!(
        told.contains("0 profiles sent") && told.contains(" wait in "),
        "{told}"
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{told}");
}

#[test]
fn what_is_refused_for_who_sends_or_where_to_waits() {
    const TEST: &str = "what_is_refused_for_who_sends_or_where_to_waits";
    let Some(data) = recording(TEST) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let data_name = data.display().to_string();
    for (answer, words) in [
        ("401 Unauthorized", "it answers 401; kept\n"),
        ("404 Not Found", "it answers 404; kept\n"),
        (
            "302 Found\r\nLocation: https://a/ingest",
            "it answers 302 and is elsewhere: https://a/ingest; kept\n",
        ),
    ] {
        let (listener, url) = listening("/ingest");
        let got = receive(listener, &[Does::Answers(answer)]);
        let began = Instant::now();
        let (told, code) = push(&url, folder.path(), &[&data_name, "--patience", "600"]);
        assert!(began.elapsed() < Duration::from_secs(300), "{told}");
        assert_eq!(code, 1, "{told}");
        assert!(
            told.contains(words) && told.contains("1 wait in "),
            "{told}"
        );
        // Once that is mended it goes.
        let (told, code) = again(&told);
        assert_eq!(code, 0, "{told}");
        assert!(!next(&got).body.is_empty());
    }
}

/// Runs the command that `prof push` tells for what is left.
fn again(told: &str) -> (String, i32) {
    let mut lines = told.lines();
    let line = lines.find_map(|line| line.trim().strip_suffix(" sends them"));
    let words = line.and_then(|line| line.strip_prefix("prof "));
    let command = format!("exec \"$0\" {}", words.expect(told));
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &command, env!("CARGO_BIN_EXE_prof")]);
    let sent = shell.output().expect("sh starts");
    let told = String::from_utf8_lossy(&sent.stderr).into_owned();
    (told, sent.status.code().unwrap_or(-1))
}

/// OpenSSL's server for some connections, one after the other; ended when
/// dropped.
struct Secure {
    server: Child,
    told: BufReader<ChildStdout>,
    port: u16,
}

impl Secure {
    /// At a port of its own, which it has until it ends.
    fn start(certificate: &Path, key: &Path, connections: u32) -> Self {
        let mut server = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-naccept"])
            .arg(connections.to_string())
            .arg("-cert")
            .arg(certificate)
            .arg("-key")
            .arg(key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl starts");
        let mut told = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let port = loop {
            line.clear();
            assert!(told.read_line(&mut line).expect("text") > 0, "it listens");
            if let Some(at) = line.trim().strip_prefix("ACCEPT") {
                let found = at.rsplit_once(':').expect("an address");
                break found.1.parse().expect("a number");
            }
        };
        Self { server, told, port }
    }

    /// Answers 204 to the next connection.
    fn answer(&self) {
        let mut answer = self.server.stdin.as_ref().expect("a pipe");
        answer
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .expect("written");
    }

    /// What came, among what the server says of itself.
    fn got(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.told.read_to_end(&mut all).expect("it ends");
        all
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn an_encrypted_receiver_gets_profiles_once_it_is_believed() {
    const TEST: &str = "an_encrypted_receiver_gets_profiles_once_it_is_believed";
    let Some(data) = recording(TEST).filter(|_| have(TEST, "openssl")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=receiver"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl starts");
    assert!(made.status.success(), "{made:?}");
    let spool = folder.path().join("spool");
    let receiver = Secure::start(&certificate, &key, 2);
    let port = receiver.port;
    let url = format!("https://127.0.0.1:{port}/v1development/profiles");
    let data_name = data.display().to_string();
    let (told, code) = push(&url, &spool, &[&data_name, "--patience", "0"]);
    assert_eq!(code, 1, "{told}");
    for part in ["is not believed", "kept", "try: --cacert", "1 wait in"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let has_word = |all: &[u8], word: &[u8]| all.windows(word.len()).any(|part| part == word);
    // What waits goes once the authority is known.
    receiver.answer();
    let certificate = certificate.display().to_string();
    let (told, code) = push(&url, &spool, &["--cacert", &certificate]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("1 profile sent to https://"), "{told}");
    let got = receiver.got();
    for word in ["POST /v1development/profiles HTTP/1.1", "recursive"] {
        assert!(has_word(&got, word.as_bytes()), "{word}");
    }
    let posts = got.windows(5).filter(|part| part == b"POST ").count();
    assert_eq!(posts, 1, "nothing was sent to a stranger");
    // One that is of another name is not believed either.
    let receiver = Secure::start(Path::new(&certificate), &key, 1);
    let url = format!("https://localhost:{}/ingest", receiver.port);
    let more = [&*data_name, "--cacert", &certificate, "--patience", "0"];
    let (told, code) = push(&url, &spool, &more);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("is not believed"), "{told}");
}

#[test]
fn a_recording_on_a_full_disk_waits_as_far_as_it_came() {
    const TEST: &str = "a_recording_on_a_full_disk_waits_as_far_as_it_came";
    let can_unshare = Command::new("unshare").args(["-m", "true"]).status();
    if !can_unshare.is_ok_and(|status| status.success()) {
        skipped(TEST, "unshare -m is not permitted");
        return;
    }
    let Some(program) = compiled(TEST, "steady-calls.c", &["-O1", "-g"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().display();
    let (prof, program) = (env!("CARGO_BIN_EXE_prof"), program.display());
    let script = format!(
        "mount -t tmpfs -o size=64k none {place} || exit 9
         {prof} record -g -F 4000 -e cpu-clock --every 60s --push http://127.0.0.1:1/ingest \
           --spool {place}/spool -- timeout 2 {program}
         find {place}/spool -type f"
    );
    let mut shell = Command::new("unshare");
    let shell = shell.args(["-m", "sh", "-c", &script]);
    let done = shell.env("PROF_EMBED_MS", "0").output().expect("sh starts");
    let told = String::from_utf8_lossy(&done.stderr);
    let left = String::from_utf8_lossy(&done.stdout);
    assert!(told.contains("No space left on device"), "{told}");
    assert!(
        told.contains("1 wait in ") && !told.contains("left out"),
        "{told}"
    );
    let names = |end: &str| left.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!((names(".push"), left.lines().count()), (1, 2), "{left}");
}

#[test]
fn what_a_killed_recorder_left_is_sent() {
    const TEST: &str = "what_a_killed_recorder_left_is_sent";
    let Some(program) = compiled(TEST, "steady-calls.c", &["-O1", "-g"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (listener, url) = listening("/ingest");
    let got = receive(listener, &[]);
    let words = ["record", "-g", "-F", "4000", "-e", "cpu-clock"];
    let mut recorder = prof_command();
    let recorder = recorder
        .args(words)
        .args(["--every", "600s", "--push", &url, "--spool"])
        .arg(folder.path())
        .args(["--", "timeout", "20"])
        .arg(&program)
        .stderr(Stdio::null());
    let mut recorder = recorder.spawn().expect("prof starts");
    let of_url = || std::fs::read_dir(folder.path()).ok()?.flatten().next();
    let left = || {
        let entries = std::fs::read_dir(of_url()?.path()).ok()?.flatten();
        let mut entries = entries.map(|entry| entry.path());
        entries.find(|path| path.to_string_lossy().contains("/recording-"))
    };
    let length = || Some(std::fs::metadata(left()?.join("perf.data")).ok()?.len());
    let began = Instant::now();
    while length().unwrap_or(0) < 50_000 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", length());
        thread::sleep(Duration::from_millis(50));
    }
    // What is a recorder's that goes on stays its own.
    let (told, code) = push(&url, folder.path(), &[]);
    assert!(
        told.contains("0 profiles sent") && left().is_some(),
        "{told}"
    );
    assert_eq!(code, 0, "{told}");
    recorder.kill().expect("it runs");
    recorder.wait().expect("it ends");
    let (told, code) = push(&url, folder.path(), &[]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("1 profile sent"), "{told}");
    assert!(!next(&got).body.is_empty());
    assert_eq!(left(), None);
}

#[test]
fn a_recording_is_sent_while_it_goes_on() {
    const TEST: &str = "a_recording_is_sent_while_it_goes_on";
    let Some(program) = compiled(TEST, "steady-calls.c", &["-O1", "-g"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (listener, url) = listening("/ingest");
    let got = receive(listener, &[Does::Answers("500 Broken")]);
    let words = [
        "record",
        "-g",
        "-F",
        "99",
        "-e",
        "cpu-clock",
        "--every",
        "400ms",
    ];
    let mut recorder = prof_command();
    recorder
        .args(words)
        .args(["--push", &url, "--spool"])
        .arg(folder.path());
    let recorded = recorder
        .arg("--")
        .args([Path::new("timeout"), Path::new("1.5"), &program])
        .output()
        .expect("prof starts");
    let told = String::from_utf8_lossy(&recorded.stderr).into_owned();
    let sent: usize = told
        .lines()
        .find_map(|line| {
            line.strip_prefix("prof: ")?
                .split_once(" profiles sent")?
                .0
                .parse()
                .ok()
        })
        .expect(&told);
    assert!(sent >= 2, "{told}");
    let mut samples = 0;
    for number in 0..sent {
        let got = next(&got);
        let file: PathBuf = folder.path().join(format!("{number}.pb.gz"));
        std::fs::write(&file, part(&got.body, "profile")).expect("written");
        let name = file.display().to_string();
        let text = prof(&[
            "report",
            "--csv",
            "--no-children",
            "-n",
            "-s",
            "sym",
            "-i",
            &name,
        ]);
        assert!(text.succeeded("prof report").text().lines().count() > 1);
        samples += 1;
    }
    assert_eq!(samples, sent);
    // No file stays, and nothing waits.
    let left = |path: &Path| -> usize {
        let entries = std::fs::read_dir(path).expect("a folder").flatten();
        let of = |it: std::fs::DirEntry| it.file_name() != "lock";
        entries
            .filter(|it| it.path().is_file())
            .filter_map(|it| of(it).then_some(()))
            .count()
    };
    let of_url = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten();
    let folders: Vec<PathBuf> = of_url
        .map(|it| it.path())
        .filter(|it| it.is_dir())
        .collect();
    assert_eq!(folders.len(), 1);
    assert_eq!(left(&folders[0]), 0, "{folders:?}");
}

#[test]
fn who_says_no_receiver_is_told_what_to_type() {
    let ended = prof(&["push", "perf.data", "--service", "shop"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let line = "try: prof push perf.data --service shop --url URL, where URL is one of";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    let ended = prof(&["push", "a.data", "http://127.0.0.1:9/ingest"]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let line = "try: prof push a.data --url http://127.0.0.1:9/ingest";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
    let ended = prof(&["push"]);
    let line = "try: prof push perf.data --url URL";
    assert!(ended.stderr.contains(line), "{}", ended.stderr);
}
