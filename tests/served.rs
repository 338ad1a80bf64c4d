//! `prof report --web` and `--firefox`, fetched.

use crate::exports::recording;
use crate::oracle::{prof, prof_command};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A server; ended when dropped.
struct Server {
    child: Child,
    /// As it was told.
    url: String,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(data: &Path, form: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let browser = folder.path().join("browser");
        // As a browser: gets the address as its argument.
        let script = format!(
            "#!/bin/sh\necho \"$1\" > {0}/part && mv {0}/part {0}/opened\n",
            folder.path().display()
        );
        std::fs::write(&browser, script).expect("written");
        std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o700)).expect("ours");
        let mut child = prof_command()
            .args(["report", form, "-i"])
            .arg(data)
            .env("BROWSER", &browser)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prof starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let url = lines.by_ref().find_map(|line| {
            let line = line.expect("text");
            Some(line.split_once("serving ")?.1.to_owned())
        });
        let url = url.expect("it says where it serves");
        Self { child, url, folder }
    }

    /// What the browser was given.
    fn opened(&self) -> String {
        let file = self.folder.path().join("opened");
        for _ in 0..600 {
            if let Ok(url) = std::fs::read_to_string(&file) {
                return url.trim().to_owned();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no browser was opened");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request; head and body of the answer.
fn fetch(address: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer
        .windows(4)
        .position(|end| end == b"\r\n\r\n")
        .expect("a head");
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).expect("text"), body)
}

/// `127.0.0.1:port` and the path of an address.
fn parts(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").expect("an address");
    let at = rest.find('/').expect("a path");
    rest.split_at(at)
}

#[test]
fn the_page_is_served_to_who_knows_its_path() {
    let Some(data) = recording("the_page_is_served_to_who_knows_its_path") else {
        return;
    };
    let server = Server::start(&data, "--web");
    assert_eq!(server.opened(), server.url);
    let (address, path) = parts(&server.url);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let get = |path: &str, host: &str| {
        fetch(
            address,
            &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
    };
    let (head, body) = get(path, address);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let html = String::from_utf8(body).expect("UTF-8");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("Content-Security-Policy"));
    // Byte for byte the page to send.
    let file = server.folder.path().join("page.html");
    let words = [
        "report",
        "-i",
        &data.display().to_string(),
        "--html",
        &file.display().to_string(),
    ];
    prof(&words).succeeded("prof report");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), html);
    let (head, body) = get("/", address);
    assert!(
        head.starts_with("HTTP/1.1 404 ") && body.is_empty(),
        "{head}"
    );
    let (head, body) = get(path, "evil.example");
    assert!(
        head.starts_with("HTTP/1.1 403 ") && body.is_empty(),
        "{head}"
    );
    // Who says nothing holds nobody up.
    let _silent = TcpStream::connect(address).expect("it listens");
    assert!(get(path, address).0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn the_firefox_profiler_may_fetch_its_file_and_nobody_else() {
    let Some(data) = recording("the_firefox_profiler_may_fetch_its_file_and_nobody_else") else {
        return;
    };
    let server = Server::start(&data, "--firefox");
    let encoded = server
        .url
        .strip_prefix("https://profiler.firefox.com/from-url/");
    let url = encoded
        .expect("its site")
        .replace("%3A", ":")
        .replace("%2F", "/");
    let (address, path) = parts(&url);
    let ask = |method: &str, origin: &str| {
        fetch(
            address,
            &format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\n\r\n"),
        )
    };
    let site = "https://profiler.firefox.com";
    let (head, body) = ask("GET", site);
    assert!(
        head.contains(&format!("Access-Control-Allow-Origin: {site}\r\n")),
        "{head}"
    );
    let file = server.folder.path().join("fetched.firefox.json.gz");
    std::fs::write(&file, body).expect("written");
    let text = prof(&["report", "--stdio", "-i", &file.display().to_string()]);
    assert!(text.succeeded("prof report").text().contains("recursive"));
    let (head, _) = ask("OPTIONS", site);
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
    assert!(
        head.contains("Access-Control-Allow-Private-Network: true"),
        "{head}"
    );
    let (head, body) = ask("GET", "https://evil.example");
    assert!(
        head.starts_with("HTTP/1.1 403 ") && body.is_empty(),
        "{head}"
    );
}
