//! The formats of recorded tracepoints, as readers need them: the section
//! `TRACING_DATA`.
//!
//! ```text
//! 17 08 44 "tracing" "0.6\0" u8 endian u8 long-size u32 page-size
//! "header_page\0" u64 size, text     "header_event\0" u64 size, text
//! u32 0 (formats of ftrace's own events)
//! u32 systems, each: name\0 u32 events, each: u64 size, format text
//! u32 0 (kallsyms)   u32 size, printk formats   u64 size, command names
//! ```
//!
//! Source: perf's trace-event-info.c; sizes are those of perf 6.1.

use prof_abi::ByteOrder;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where tracefs is.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The names of commands change nothing for perf.data, whose COMM records have
/// them; a longer list is left out, bytes.
const MOST_TEXT: usize = 16 << 20;

/// The section for tracepoints named `system:name`; `None` if there are none
/// or tracefs cannot be read.
pub(crate) fn section<'a>(names: impl Iterator<Item = &'a str>) -> Option<Vec<u8>> {
    let root = ROOTS
        .iter()
        .map(Path::new)
        .find(|root| root.join("events").is_dir())?;
    let mut systems: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for full in names {
        let mut parts = full.split(':');
        let (system, name) = (parts.next()?, parts.next()?);
        let format = root.join("events").join(system).join(name).join("format");
        systems
            .entry(system)
            .or_default()
            .push(fs::read(format).ok()?);
    }
    (!systems.is_empty()).then(|| encode(root, &systems))
}

fn encode(root: &Path, systems: &BTreeMap<&str, Vec<Vec<u8>>>) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing0.6\0".to_vec();
    out.push(u8::from(ByteOrder::NATIVE == ByteOrder::Big));
    out.push(size_of::<std::ffi::c_long>() as u8);
    put_u32(&mut out, prof_sys::page_size());
    for header in ["header_page", "header_event"] {
        out.extend(header.as_bytes());
        out.push(0);
        put_text(&mut out, &read(root.join("events").join(header)));
    }
    put_u32(&mut out, 0);
    put_u32(&mut out, systems.len());
    for (system, formats) in systems {
        out.extend(system.as_bytes());
        out.push(0);
        put_u32(&mut out, formats.len());
        for format in formats {
            put_text(&mut out, format);
        }
    }
    put_u32(&mut out, 0);
    let printk = read(root.join("printk_formats"));
    put_u32(&mut out, printk.len());
    out.extend(printk);
    put_text(&mut out, &read(root.join("saved_cmdlines")));
    out
}

/// A file's text; nothing if it cannot be read, for readers can do without.
///
/// The kernel gives `header_page` and `header_event` to the first read only,
/// so that must be a large one: `fs::read` begins with 32 bytes.
fn read(path: PathBuf) -> Vec<u8> {
    const PIECE: usize = 64 << 10;
    let Ok(mut file) = fs::File::open(path) else {
        return Vec::new();
    };
    let mut text = Vec::new();
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = file.read(&mut piece) {
        text.extend_from_slice(piece.get(..length).unwrap_or_default());
        if text.len() > MOST_TEXT {
            return Vec::new();
        }
    }
    text
}

fn put_u32(out: &mut Vec<u8>, value: usize) {
    out.extend(ByteOrder::NATIVE.bytes_u32(u32::try_from(value).unwrap_or(0)));
}

/// u64 size and the text.
fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(ByteOrder::NATIVE.bytes_u64(text.len() as u64));
    out.extend(text);
}

#[cfg(test)]
mod tests {
    use super::encode;
    use prof_perfdata::write::tracing_data as append_to_stream;
    use std::collections::BTreeMap;
    use std::path::Path;

    #[test]
    fn a_file_is_read_in_large_pieces() {
        let file = tempfile::NamedTempFile::new().expect("made");
        std::fs::write(file.path(), [7; 100_000]).expect("written");
        assert_eq!(super::read(file.path().to_owned()), [7; 100_000]);
        assert_eq!(super::read("/no/such".into()), [0; 0]);
    }

    #[test]
    fn the_section_has_each_part_in_its_place() {
        let systems = BTreeMap::from([("sched", vec![b"name: x\nID: 7\n".to_vec()])]);
        let section = encode(Path::new("/no/such"), &systems);
        assert_eq!(&section[..14], b"\x17\x08\x44tracing0.6\0");
        let parsed = prof_perfdata::tracepoint::TracingData::parse(&section).expect("readable");
        assert!(parsed.event(7).is_some());
        let mut stream = Vec::new();
        append_to_stream(&section, &mut stream);
        assert!(stream.len().is_multiple_of(8));
        assert_eq!(stream[8..12], (stream.len() as u32 - 16).to_ne_bytes());
    }
}
