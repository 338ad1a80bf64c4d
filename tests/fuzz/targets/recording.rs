//! Any bytes as a file: header, attrs, feature table, records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prof_perfdata::Reader;
use std::io::{Seek, Write};

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("prof-fuzz-{}", std::process::id()));
    let options = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path);
    let mut file = options.expect("temporary file");
    file.write_all(bytes).expect("written");
    file.rewind().expect("a regular file");
    if let Ok(mut reader) = Reader::open_file(file) {
        while let Some(record) = reader.next().expect("a regular file") {
            let _ = record.decode().fields();
        }
    }
});
