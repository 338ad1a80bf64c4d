//! Looks up addresses of a file: `lookup FILE < ADDRESSES`.
//!
//! One address (hex, as in the file's symbols) per line of input; prints the
//! function and its offset, then each frame with file and line. How long
//! each phase took goes to stderr.
#![expect(clippy::print_stderr, reason = "a program")]

use prof_profile::Svma;
use prof_symbolize::{Detail, DsoRequest, Lookup, Sources, Symbolizer};
use std::error::Error;
use std::io::{BufWriter, Read, Write};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: lookup FILE [symbol]")?;
    let detail = match arguments.next().as_deref() {
        Some("symbol") => Detail::Symbol,
        _ => Detail::Source,
    };
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let addresses: Vec<Svma> = input
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok())
        .map(Svma)
        .collect();
    let start = Instant::now();
    let file = Symbolizer::new(Sources::default()).open(&DsoRequest::for_file(&path, None))?;
    let opened = start.elapsed();
    let found = file.lookup_many(&addresses, detail);
    let looked_up = start.elapsed();
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (svma, lookup) in addresses.iter().zip(&found) {
        print(&mut out, *svma, lookup)?;
    }
    eprintln!(
        "{} addresses; opened in {opened:?}, looked up after {looked_up:?}",
        addresses.len()
    );
    Ok(())
}

fn print(out: &mut impl Write, svma: Svma, lookup: &Lookup) -> std::io::Result<()> {
    match (&lookup.symbol, lookup.reason) {
        (Some(symbol), _) => {
            let offset = svma.0 - symbol.start.0;
            writeln!(out, "{svma:x} {}+{offset:#x}", symbol.name)?;
        }
        (None, reason) => writeln!(out, "{svma:x} [unknown] {reason:?}")?,
    }
    for frame in lookup.frames.iter().filter(|frame| frame.file.is_some()) {
        let file = frame.file.as_deref().unwrap_or_default();
        let mark = if frame.is_inline { " (inlined)" } else { "" };
        writeln!(out, "    {} {file}:{}{mark}", frame.name, frame.line)?;
    }
    Ok(())
}
