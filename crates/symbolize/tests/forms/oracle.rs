//! What other programs say of addresses.

use super::needed::is_there;
use prof_profile::Svma;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A function at an address, as a program printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// `??` where it is not known.
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    /// 0 where it is not known.
    pub(crate) line: u32,
}

/// The newest `llvm-symbolizer`, from 19 on: older ones differ from it.
pub(crate) fn newest_llvm(test: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let versions = folders.filter_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        let version: u32 = name.strip_prefix("llvm-")?.parse().ok()?;
        let program = folder.path().join("bin/llvm-symbolizer");
        (version >= 19 && program.exists()).then_some((version, program))
    });
    let newest = versions.max().map(|(_, program)| program);
    is_there(test, "llvm-symbolizer-19", newest.is_some())
        .then_some(newest)
        .flatten()
}

/// Runs a program with addresses on its input.
fn asked(command: &mut Command, addresses: &[Svma]) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
    let input: String = addresses
        .iter()
        .map(|svma| format!("{svma:#x}\n"))
        .collect();
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let done = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("written");
    assert!(done.status.success(), "{command:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// `FILE:LINE` and what may stand behind it.
fn place(text: &str) -> (Option<String>, u32) {
    let text = text.split(" (discriminator").next().unwrap_or(text);
    let (file, line) = text.rsplit_once(':').unwrap_or((text, "0"));
    let file = (file != "??").then(|| file.to_owned());
    (file, line.parse().unwrap_or(0))
}

fn without_column(text: &str) -> &str {
    text.rsplit_once(':').map_or(text, |(place, _)| place)
}

/// What `llvm-symbolizer` says, innermost frame first.
pub(crate) fn llvm(program: &Path, path: &Path, addresses: &[Svma]) -> Vec<Vec<Frame>> {
    let mut command = Command::new(program);
    command.args(["--inlines", "--no-demangle"]);
    command.arg(format!("--obj={}", path.display()));
    let text = asked(&mut command, addresses);
    let frames = |answer: &str| {
        let lines: Vec<&str> = answer.lines().collect();
        let frame = |pair: &[&str]| {
            let (file, line) = place(without_column(pair[1]));
            let name = pair[0].to_owned();
            Frame { name, file, line }
        };
        lines.chunks_exact(2).map(frame).collect()
    };
    text.trim_end().split("\n\n").map(frames).collect()
}

/// What `eu-addr2line` says, innermost frame first. It takes most of a millisecond an
/// address, so several of it share them.
pub(crate) fn elfutils(path: &Path, addresses: &[Svma]) -> Vec<Vec<Frame>> {
    let share = addresses.len().div_ceil(4).max(1);
    std::thread::scope(|scope| {
        let shares = addresses.chunks(share);
        let asked: Vec<_> = shares
            .map(|share| scope.spawn(|| elfutils_at(path, share)))
            .collect();
        let answers = asked.into_iter().map(|it| it.join().expect("no panic"));
        answers.flatten().collect()
    })
}

fn elfutils_at(path: &Path, addresses: &[Svma]) -> Vec<Vec<Frame>> {
    let mut command = Command::new("eu-addr2line");
    command.args(["--addresses", "--inlines", "--functions", "--exe"]);
    let text = asked(command.arg(path), addresses);
    let mut answers: Vec<Vec<Frame>> = Vec::new();
    let mut lines = text.lines();
    while let Some(name) = lines.next() {
        if name.starts_with("0x") {
            answers.push(Vec::new());
            continue;
        }
        let (file, line) = place(without_column(lines.next().unwrap_or_default()));
        let name = name.split(" inlined at ").next().unwrap_or(name).to_owned();
        if let Some(answer) = answers.last_mut() {
            answer.push(Frame { name, file, line });
        }
    }
    answers
}

/// Which names of a file are of the same code.
pub(crate) struct Names(HashMap<String, Vec<u64>>);

impl Names {
    pub(crate) fn of(path: &Path) -> Self {
        let listed = Command::new("nm").arg(path).output().expect("nm runs");
        let mut names: HashMap<String, Vec<u64>> = HashMap::new();
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [address, _, name] = words[..]
                && let Ok(address) = u64::from_str_radix(address, 16)
            {
                names.entry(name.to_owned()).or_default().push(address);
            }
        }
        Self(names)
    }

    /// Whether two names stand at one address.
    pub(crate) fn are_same(&self, one: &str, other: &str) -> bool {
        let of = |name: &str| self.0.get(name).map_or(&[][..], |at| at);
        of(one).iter().any(|address| of(other).contains(address))
    }
}
