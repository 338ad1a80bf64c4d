//! Records a command with whole call stacks, as `prof record -g` does.
//!
//! `cargo run --release -p prof-record --example stacks -- perf.data ls -lR /usr`
#![expect(clippy::print_stderr, reason = "a program")]

use prof_record::options::{Options, Stacks, Target};
use prof_record::output::Destination;
use prof_record::{Finished, RecordError};
use std::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

/// Records `command`, a program and its arguments, into `file`.
pub(crate) fn record(file: PathBuf, command: Vec<OsString>) -> Result<Finished, RecordError> {
    let mut options = Options::new(Target::Command(command), Destination::File(file));
    options.stacks = Stacks::auto(options.sampling);
    prof_record::record(&options, &mut |notice| eprintln!("{notice}"))
}

#[cfg_attr(test, expect(dead_code, reason = "the test calls `record`"))]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next().ok_or("usage: stacks FILE COMMAND…")?;
    let finished = record(file.into(), arguments.collect())?;
    eprintln!("{}", finished.summary.line());
    Ok(())
}
