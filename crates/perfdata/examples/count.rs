//! Counts the records of a recording: the least a program does with them.
//!
//! `cargo run --release -p prof-perfdata --example count -- perf.data`

use prof_perfdata::Reader;
use std::fs::File;
use std::io::{Error, Write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or(Error::other("which file?"))?;
    let mut reader = Reader::open_file(File::open(path)?)?;
    let (mut records, mut bytes) = (0_u64, 0_u64);
    while let Some(record) = reader.next()? {
        records += 1;
        bytes += record.bytes.len() as u64;
    }
    writeln!(std::io::stdout(), "{records} records, {bytes} bytes")?;
    Ok(())
}
