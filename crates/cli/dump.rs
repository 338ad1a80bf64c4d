//! `prof dump`: what is in a recording, record by record.

use crate::outcome::Outcome;
use crate::recording::Input;
use prof_listing::dump::{self, HeaderDetail, Stats};
use prof_perfdata::Reader;
use std::io::{self, BufWriter, Write};
use std::time::SystemTime;

/// Show every record of a recording, its header, or how many there are
///
/// One line for each record: offset in the file, type, size in bytes, then all
/// fields as name=value. Damaged places are told on stderr and make the exit
/// code 3.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Show header, events and feature sections instead of records
    #[arg(long, conflicts_with = "stats")]
    header: bool,
    /// Show counts of records by type and of samples by event
    #[arg(long)]
    stats: bool,
    /// Write JSON: an object for each record, or one for --header and --stats
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prof dump | grep ' MMAP2 '            mappings of perf.data
  prof dump --header -i old.data        where and how it was recorded
  prof dump --stats --json              counts, for scripts";

/// Writes header, events and feature sections of the recording as text.
pub(crate) fn write_header(
    input: &Input,
    reader: &mut Reader,
    detail: HeaderDetail,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let written = input.last_written();
    let since_1970 = written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let seconds = since_1970.and_then(|time| i64::try_from(time.as_secs()).ok());
    Ok(dump::write_header(reader, detail, seconds, out)?)
}

/// Writes what was asked for to stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let mut reader = args.input.open()?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    if args.header {
        if args.json {
            dump::write_header_json(&mut reader, &mut out)?;
        } else {
            write_header(&args.input, &mut reader, HeaderDetail::All, &mut out)?;
        }
    } else if args.stats {
        let stats = Stats::count(&mut reader)?;
        if args.json {
            stats.write_json(&reader, &mut out)?;
        } else {
            stats.write_text(&reader, &mut out)?;
        }
    } else {
        dump::write_records(&mut reader, args.json, &mut out)?;
    }
    out.flush()?;
    Ok(args.input.say_damages(&reader))
}
