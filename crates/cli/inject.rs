//! `prof inject`: a recording again, with something put into it.

mod jit;
mod refused;

use crate::outcome::{Outcome, UsageError, say};
use crate::recording::Input;
use crate::refused::Refused;
use anyhow::Context;
use prof_inject::{Additions, Destination, InjectError, Source, inject};
use prof_listing::build_ids::{Which, seen_build_ids};
use prof_perfdata::Reader;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  prof inject -b -i perf.data -o with-ids.data
  prof inject --convert-callchain -i dwarf.data -o chains.data
  prof inject -j -i node.data -o named.data
  prof inject -s -i sched.data -o sleeps.data && prof report -i sleeps.data
  perf record -o - ./app | prof inject -b -i - -o - | perf report -i -

What prof records needs none of these but -s: it has build-ids and call chains
from the start, and code of JITs is named from jitdump files when it is read.";

/// Copy a recording and put build-ids, call chains, code of JITs or sleeps into it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Recording to write: a file, or - for stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Put in the build-ids of files that samples are in
    #[arg(short, long)]
    build_ids: bool,
    /// Put in the build-ids of all mapped files
    #[arg(long)]
    buildid_all: bool,
    /// Unwind recorded stacks; call chains take the place of registers and
    /// stacks
    #[arg(long)]
    convert_callchain: bool,
    /// Put in the code of JIT compilers that jitdump files tell of: mappings of
    /// ELF files jitted-PID-N.so, which are written beside each jitdump
    #[arg(short, long)]
    jit: bool,
    /// Merge sched_stat_* into sched_switch: who slept where, how long
    #[arg(short, long)]
    sched_stat: bool,
    /// Tell what was written
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    refused: Refused<refused::OfInject>,
}

/// Refuses what has nothing to do, and outputs that cannot be one.
fn check(args: &Args) -> anyhow::Result<()> {
    let nothing = !(args.build_ids
        || args.buildid_all
        || args.convert_callchain
        || args.jit
        || args.sched_stat);
    if nothing {
        let what = "nothing to put in\n  try: -b, --buildid-all, --convert-callchain, -j or -s";
        return Err(UsageError(what.to_owned()).into());
    }
    if args.output.as_path() != Path::new("-") && same_file(&args.input.path, &args.output) {
        let same = "the recording would be overwritten while it is read\n  try: another -o FILE";
        return Err(UsageError(same.to_owned()).into());
    }
    if args.output.as_path() == Path::new("-") {
        refuse_terminal()?;
    }
    refuse_special(&args.output, "-o - for standard output, or another -o FILE")
}

/// Writes the new recording.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    check(&args)?;
    // It is read twice, and its sections once more.
    let spooled = crate::spool::twice_readable(&args.input)?;
    let input = spooled
        .as_ref()
        .map_or(&args.input, |spooled| &spooled.input);
    let which = if args.buildid_all {
        Which::Mapped
    } else {
        Which::WithHits
    };
    let additions = Additions {
        build_ids: if args.build_ids || args.buildid_all {
            seen_build_ids(input.open()?, which)?
        } else {
            Vec::new()
        },
        chains: args.convert_callchain,
        sleeps: args.sched_stat,
        jit: args.jit.then(|| jit::jit_files(input)).transpose()?,
        redaction: None,
    };
    let file = File::open(&input.path).with_context(|| format!("cannot open {}", input.name()))?;
    let section = |offset, size| read_section(&file, offset, size);
    let source = Source {
        reader: input.open()?,
        section: &section,
    };
    let injected = if args.output.as_path() == Path::new("-") {
        let stdout: Destination<File, _> = Destination::Pipe(BufWriter::new(io::stdout().lock()));
        inject(source, &additions, stdout)
    } else {
        into_file(source, &additions, &args.output)
    };
    let (injected, reader) = injected.map_err(|error| {
        let whose = match &error {
            InjectError::Write(_) => shown(&args.output),
            _ => args.input.name(),
        };
        anyhow::Error::new(error).context(whose)
    })?;
    if args.verbose {
        say(&told(injected, args.jit));
    }
    Ok(args.input.say_damages(&reader))
}

/// A destination, for messages.
fn shown(output: &Path) -> String {
    match output == Path::new("-") {
        true => "standard output".to_owned(),
        false => output.display().to_string(),
    }
}

/// What was written, for `-v`.
fn told(injected: prof_inject::Injected, has_code: bool) -> String {
    let prof_inject::Injected {
        records,
        build_ids,
        code,
        samples,
    } = injected;
    let code = if has_code {
        format!(", {code} mappings of code of JITs")
    } else {
        String::new()
    };
    format!("{records} records, {build_ids} new build-ids, {samples} samples changed{code}")
}

/// Refuses to write a recording to a terminal.
pub(crate) fn refuse_terminal() -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        let what = "standard output is a terminal, which a recording is not for\n  try: -o FILE";
        return Err(UsageError(what.to_owned()).into());
    }
    Ok(())
}

/// Refuses the name of what is there and no regular file (a device, a FIFO, a
/// link such as `/dev/stdout`): a new file would take its place.
pub(crate) fn refuse_special(path: &Path, cure: &str) -> anyhow::Result<()> {
    match path.symlink_metadata() {
        Ok(about) if !about.is_file() => Err(UsageError(format!(
            "{} is no regular file, and would be replaced by one\n  try: {cure}",
            path.display()
        ))
        .into()),
        _ => Ok(()),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let about = |path: &Path| path.metadata().map(|about| (about.dev(), about.ino())).ok();
    about(one).is_some_and(|it| about(other) == Some(it))
}

/// The new file takes its name when it is whole; one that was there stays as
/// `.old`.
pub(crate) fn into_file(
    source: Source<'_>,
    additions: &Additions,
    path: &Path,
) -> Result<(prof_inject::Injected, Reader), InjectError> {
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let part = with(".part");
    // One that a killed run left.
    let _ = std::fs::remove_file(&part);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)?;
    let to: Destination<_, io::Sink> = Destination::File(BufWriter::new(file));
    match inject(source, additions, to) {
        Ok(written) => {
            if path.is_file() {
                std::fs::rename(path, with(".old"))?;
            }
            std::fs::rename(&part, path)?;
            Ok(written)
        }
        Err(error) => {
            let _ = std::fs::remove_file(&part);
            Err(error)
        }
    }
}

/// A section of the recording, if it has all of it.
pub(crate) fn read_section(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    let end = offset.checked_add(size)?;
    if end > file.metadata().ok()?.len() {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}
