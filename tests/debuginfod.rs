//! `--debuginfod`: names and lines from a server, what is believed of it, and
//! where it is kept.

use crate::oracle::{compiled, copy_program, have, prof_command, scratch, skipped};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// What the server sends to whoever asks for debug information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sends {
    /// What was asked for, in pieces.
    Pieces,
    /// The half of it.
    Half,
    /// An ELF file of another build.
    OtherBuild,
    Text,
    Error,
    /// A length beyond all bounds, and nothing.
    Huge,
    /// An answer's head, and then nothing.
    Nothing,
}

/// A server and the paths that were asked for.
struct Server {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(sends: Sends, program: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let program = fs::read(program).expect("the program");
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (program, noted) = (program.clone(), Arc::clone(&noted));
                thread::spawn(move || serve(stream.expect("it"), sends, &program, &noted));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().expect("paths"))
    }
}

fn serve(mut stream: TcpStream, sends: Sends, program: &[u8], asked: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("it")).lines();
    let first = lines.next().expect("a request").expect("UTF-8");
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|it| !it.is_empty()))
    {}
    let path = first.split(' ').nth(1).expect("a path").to_owned();
    let is_debug = path.ends_with("/debuginfo");
    asked.lock().expect("paths").push(path);
    // Who does not want the rest closes.
    let _ = match (is_debug, sends) {
        (false, _) => answer(&mut stream, "404 Not Found", b"no"),
        (_, Sends::Pieces) => in_pieces(&mut stream, program),
        (_, Sends::OtherBuild) => answer(
            &mut stream,
            "200 OK",
            &fs::read("/proc/self/exe").expect("it"),
        ),
        (_, Sends::Text) => answer(&mut stream, "200 OK", b"<html>a login page</html>"),
        (_, Sends::Error) => answer(&mut stream, "503 Busy", b""),
        (_, Sends::Half) => promise(&mut stream, program.len() as u64)
            .and_then(|()| stream.write_all(&program[..program.len() / 2])),
        (_, Sends::Huge) => promise(&mut stream, 1 << 50),
        (_, Sends::Nothing) => {
            promise(&mut stream, 1 << 20).map(|()| sleep(Duration::from_secs(30)))
        }
    };
}

fn answer(stream: &mut TcpStream, status: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

fn promise(stream: &mut TcpStream, length: u64) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
    )
}

fn in_pieces(stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    )?;
    for piece in body.chunks(5000) {
        write!(stream, "{:x}\r\n", piece.len())?;
        stream.write_all(piece)?;
        stream.write_all(b"\r\n")?;
    }
    stream.write_all(b"0\r\n\r\n")
}

/// A recording of a program that has neither symbols nor debug information any
/// more.
struct Recorded {
    /// The program as it was built.
    whole: PathBuf,
    stripped: PathBuf,
    data: PathBuf,
    cache: PathBuf,
}

fn recorded(test: &str) -> Option<Recorded> {
    if !have(test, "objcopy") {
        return None;
    }
    let flags = ["-O1", "-g", "-Wl,--build-id=sha1"];
    let whole = compiled(test, "two_costs.c", &flags)?;
    let folder = scratch().join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let stripped = folder.join("stripped");
    let done = Command::new("objcopy")
        .arg("--strip-all")
        .arg(&whole)
        .arg(&stripped)
        .status();
    assert!(done.expect("objcopy").success());
    let data = folder.join("perf.data");
    let recorded = prof_command()
        .args(["record", "-q", "--no-embed", "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .arg("--")
        .arg(&stripped)
        .args(["400", "400"])
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let cache = folder.join("cache");
    Some(Recorded {
        whole,
        stripped,
        data,
        cache,
    })
}

impl Recorded {
    /// The report's text, and what was said.
    fn report(&self, option: &str) -> (String, String) {
        self.report_within("30", option)
    }

    /// The same, with so many seconds for what is fetched.
    fn report_within(&self, seconds: &str, option: &str) -> (String, String) {
        let output = prof_command()
            .args(["report", "--stdio", "-s", "sym,srcline", option, "-i"])
            .arg(&self.data)
            .env("DEBUGINFOD_CACHE_PATH", &self.cache)
            .env("DEBUGINFOD_MAXTIME", seconds)
            .env_remove("DEBUGINFOD_URLS")
            .output()
            .expect("prof starts");
        assert!(output.status.success(), "{output:?}");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr))
    }

    /// What the cache has of the program.
    fn kept(&self, kind: &str) -> Option<PathBuf> {
        let folders = fs::read_dir(&self.cache).into_iter().flatten().flatten();
        let mut paths = folders.map(|folder| folder.path().join(kind));
        paths.find(|path| path.exists())
    }
}

fn has_names(report: &str) -> bool {
    report.contains("two_costs.c:")
}

#[test]
fn names_and_lines_come_from_a_server_and_stay() {
    let Some(recorded) = recorded("debuginfod-names") else {
        return;
    };
    assert!(!has_names(&recorded.report("--inline").0));
    let server = Server::start(Sends::Pieces, &recorded.whole);
    let option = format!("--debuginfod={}", server.url);
    let (report, said) = recorded.report(&option);
    assert!(has_names(&report), "{report}{said}");
    let asked = server.asked();
    assert!(
        asked.iter().any(|path| path.ends_with("/debuginfo")),
        "{asked:?}"
    );
    let kept = recorded.kept("debuginfo").expect("it is kept");
    assert_eq!(
        fs::read(&kept).expect("read"),
        fs::read(&recorded.whole).expect("read")
    );
    // The next report needs nobody.
    let (again, said) = recorded.report("--debuginfod=http://127.0.0.1:1");
    assert_eq!((again, said.as_str()), (report, ""));
    // Without the program, too, is asked for it; that it is nowhere is noted.
    copy_program(
        &recorded.stripped,
        &recorded.stripped.with_extension("moved"),
    );
    fs::remove_file(&recorded.stripped).expect("removed");
    recorded.report(&option);
    let nowhere = recorded.kept("executable").expect("it is noted");
    let about = fs::metadata(nowhere).expect("there");
    assert_eq!((about.len(), about.permissions().mode() & 0o777), (0, 0));
    server.asked();
    recorded.report(&option);
    assert_eq!(server.asked(), Vec::<String>::new(), "asked again at once");
}

#[test]
fn servers_that_send_something_else_harm_nothing() {
    let Some(recorded) = recorded("debuginfod-hostile") else {
        return;
    };
    for (sends, expected) in [
        (Sends::OtherBuild, "another build"),
        (Sends::Text, "no ELF file"),
        (Sends::Error, "503"),
        (Sends::Half, "of"),
        (Sends::Huge, "DEBUGINFOD_MAXSIZE"),
        (Sends::Nothing, "in time"),
    ] {
        let server = Server::start(sends, &recorded.whole);
        let began = Instant::now();
        let seconds = if sends == Sends::Nothing { "1" } else { "30" };
        let option = format!("--debuginfod={}", server.url);
        let (report, said) = recorded.report_within(seconds, &option);
        assert!(began.elapsed() < Duration::from_secs(20), "{sends:?}");
        assert!(!has_names(&report), "{sends:?}: {report}");
        assert!(
            said.contains(expected) && said.contains(&server.url),
            "{sends:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{sends:?}: {said}");
        assert_eq!(recorded.kept("debuginfo"), None, "{sends:?}");
    }
    // A cache that cannot be written is no fault of the server.
    fs::write(&recorded.cache, "no folder")
        .or_else(|_| {
            fs::remove_dir_all(&recorded.cache)?;
            fs::write(&recorded.cache, "no folder")
        })
        .expect("a file in its place");
    let server = Server::start(Sends::Pieces, &recorded.whole);
    let (_, said) = recorded.report(&format!("--debuginfod={}", server.url));
    assert!(said.contains("DEBUGINFOD_CACHE_PATH"), "{said}");
    assert!(!said.contains(&server.url), "{said}");
    // Without a server the option says what it needs.
    for (option, expected) in [
        ("--debuginfod", "DEBUGINFOD_URLS"),
        ("--debuginfod=x", "https://"),
    ] {
        let output = prof_command()
            .args(["report", option])
            .env_remove("DEBUGINFOD_URLS")
            .output()
            .expect("prof starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_real_server_is_understood() {
    let test = "debuginfod-real";
    if !have(test, "debuginfod") {
        return;
    }
    let Some(recorded) = recorded(test) else {
        return;
    };
    let folder = recorded.cache.with_file_name("served");
    fs::create_dir_all(&folder).expect("a folder");
    copy_program(&recorded.whole, &folder.join("whole"));
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let port = port.expect("a port").port().to_string();
    let mut server = Command::new("debuginfod")
        .args(["-p", &port, "-d", ":memory:", "-F"])
        .arg(&folder)
        .env("HOME", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("debuginfod starts");
    // It answers before it has looked through the folder.
    let option = format!("--debuginfod=http://127.0.0.1:{port}");
    let began = Instant::now();
    let mut seen = recorded.report(&option);
    while !has_names(&seen.0) && began.elapsed() < Duration::from_secs(30) {
        let _ = fs::remove_dir_all(&recorded.cache);
        sleep(Duration::from_millis(300));
        seen = recorded.report(&option);
    }
    server.kill().expect("killed");
    server.wait().expect("waited");
    if !has_names(&seen.0) && seen.1.contains("refused") {
        return skipped(test, "its port was taken by another");
    }
    assert!(has_names(&seen.0), "{seen:?}");
}
