//! `prof buildid-list`: the identities of a recording's files.

use crate::outcome::Outcome;
use crate::recording::Input;
use prof_listing::build_ids::{Which, build_id_lines, recorded_build_ids, seen_build_ids};
use prof_record::synthesize::{kernel_build_id, kernel_images};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  prof buildid-list              the files of perf.data
  prof buildid-list -H           those that samples are in
  prof buildid-list -k           the running kernel
  prof buildid-list -i ./app     a program";

/// List the build-ids of the files of a recording
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Only files that samples or their call chains are in
    #[arg(short = 'H', long)]
    with_hits: bool,
    /// The build-id of the running kernel
    #[arg(short, long, conflicts_with = "with_hits")]
    kernel: bool,
    /// Build-ids and addresses of the running kernel and its modules
    #[arg(short = 'm', long, conflicts_with = "with_hits")]
    kernel_maps: bool,
    /// Tell nothing more, as there is nothing
    #[arg(short, long, hide = true)]
    verbose: bool,
}

/// Writes the list to stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::Done;
    let text = if args.kernel_maps {
        maps()
    } else if args.kernel {
        let id = kernel_build_id().ok_or_else(|| {
            anyhow::anyhow!("the kernel does not tell its build-id in /sys/kernel/notes")
        })?;
        format!("{id}\n")
    } else if is_elf(&args.input.path) {
        let id = prof_live::open_elf(&args.input.path).and_then(|file| file.build_id());
        let id = id.ok_or_else(|| anyhow::anyhow!("{} has no build-id", args.input.name()))?;
        format!("{id}\n")
    } else {
        let mut reader = args.input.open()?;
        let recorded = if args.with_hits {
            None
        } else {
            recorded_build_ids(&mut reader)?
        };
        outcome = args.input.say_damages(&reader);
        let files = match recorded {
            Some(files) => files,
            None => seen_build_ids(args.input.open()?, Which::WithHits)?,
        };
        build_id_lines(&files)
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(outcome)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let is_file = path.metadata().is_ok_and(|about| about.is_file());
    let read =
        is_file.then(|| std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)));
    matches!(read, Some(Ok(()))) && magic == *b"\x7fELF"
}

/// Build-id, first and last address and name of the kernel and its modules.
fn maps() -> String {
    let mut text = String::new();
    for image in kernel_images() {
        let id = image.build_id.map(|id| id.to_string()).unwrap_or_default();
        let path = String::from_utf8_lossy(&image.path);
        let name = if path.starts_with("[kernel.kallsyms]") {
            "[kernel.kallsyms]"
        } else {
            &path
        };
        let end = image.start.saturating_add(image.len);
        // Writing to a String does not fail.
        let _ = writeln!(text, "{id} {:16x} {end:16x} {name}", image.start);
    }
    text
}
