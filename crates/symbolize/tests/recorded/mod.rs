//! perf's own answer for addresses of a file: a small perf.data with one
//! mapping and one sample per address, shown by `perf script`.

use std::path::Path;
use std::process::Command;

/// Where the file is mapped in the made-up process.
const START: u64 = 0x7f00_0000_0000;
const PID: u32 = 1000;

/// `name+0xoffset` or `[unknown]` for each file offset, in order.
pub(crate) fn perf_script(file: &Path, offsets: &[u64]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("perf.data");
    std::fs::write(&path, recording(file, offsets)).expect("written");
    let mut command = Command::new("perf");
    // Neither settings nor a cache of files are to have a say.
    command.env("HOME", "/dev/null");
    command.arg("script").arg("-i").arg(&path);
    command.args(["-F", "ip,sym,symoff", "--no-inline"]);
    let done = command.output().expect("perf runs");
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    // The first sample only makes perf read the mapping.
    let lines = text.lines().skip(1);
    lines
        .map(|line| {
            let (_, symbol) = line.trim_start().split_once(' ').unwrap_or_default();
            symbol.trim_end().to_owned()
        })
        .collect()
}

/// A perf.data file: header, one attr without ids, records.
fn recording(file: &Path, offsets: &[u64]) -> Vec<u8> {
    const HEADER: u64 = 104;
    const ATTR: u64 = 112;
    let records = records(file, offsets);
    let mut out = b"PERFILE2".to_vec();
    let (attr_at, data_at) = (HEADER, HEADER + ATTR + 16);
    let sections = [attr_at, ATTR + 16, data_at, records.len() as u64, 0, 0];
    for word in [HEADER, ATTR + 16].into_iter().chain(sections) {
        out.extend(word.to_le_bytes());
    }
    out.resize(HEADER as usize, 0);
    // type software, size; config cpu-clock, period; sample type IP, TID,
    // TIME; read format; flags comm and sample_id_all.
    out.extend(1u32.to_le_bytes());
    out.extend((ATTR as u32).to_le_bytes());
    for word in [0, 1000, 7, 0, 1 << 9 | 1 << 18] {
        out.extend(u64::to_le_bytes(word));
    }
    out.resize((HEADER + ATTR) as usize, 0);
    for word in [HEADER, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(records);
    out
}

fn records(file: &Path, offsets: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    let ids = u64::from(PID) << 32 | u64::from(PID);
    let mut name = file.as_os_str().as_encoded_bytes().to_vec();
    name.resize(name.len() / 8 * 8 + 8, 0);
    // pids; start, length, file offset; device, inode; prot and flags; path;
    // then pids and time of the sample_id.
    let mut mapping = Vec::new();
    for word in [ids, START, 1 << 32, 0, 0, 0, 0, 2 << 32 | 5] {
        mapping.extend(u64::to_le_bytes(word));
    }
    mapping.extend(name);
    mapping.extend(ids.to_le_bytes());
    mapping.extend(1u64.to_le_bytes());
    add_record(&mut out, 10, &mapping);
    for (time, offset) in (2u64..).zip([0].iter().chain(offsets)) {
        let mut sample = Vec::new();
        for word in [START + offset, ids, time] {
            sample.extend(word.to_le_bytes());
        }
        add_record(&mut out, 9, &sample);
    }
    out
}

/// A record in user mode.
fn add_record(out: &mut Vec<u8>, kind: u32, body: &[u8]) {
    out.extend(kind.to_le_bytes());
    out.extend(2u16.to_le_bytes());
    out.extend((body.len() as u16 + 8).to_le_bytes());
    out.extend(body);
}
