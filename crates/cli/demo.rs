//! `prof demo`: the first thing a new user runs. Records a built-in program,
//! prints the report and draws the flame graph, by the commands that the user
//! would type for a program of theirs.

mod workload;

use crate::outcome::Outcome;
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Record a built-in program for two seconds, print its report and write
/// perf.data and flamegraph.svg here.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds to record.
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    duration: f64,
    /// Only run the program that the demo records.
    #[arg(long, hide = true)]
    workload: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 3600.0;
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= MOST => Ok(seconds),
        _ => Err(format!("not a number of seconds above 0, at most {MOST}")),
    }
}

const RECORDING: &str = "perf.data";
const PICTURE: &str = "flamegraph.svg";

/// Records, reports and draws.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    if args.workload {
        workload::run(Duration::from_secs_f64(args.duration))
            .context("cannot start the demo's threads")?;
        return Ok(Outcome::Done);
    }
    let prof = std::env::current_exe().context("cannot find the prof that is running")?;
    let time = args.duration.to_string();
    let program = [prof.as_os_str(), "demo".as_ref(), "--workload".as_ref()];
    let workload = [&program[..], &["--duration".as_ref(), time.as_ref()]].concat();

    say("prof record -F 999 -g -o perf.data -- <a built-in program>");
    let record = ["record", "-F", "999", "-g", "-o", RECORDING, "--"].map(OsStr::new);
    step(&prof, &[&record[..], &workload].concat(), Stdio::inherit())?;

    // Flat: all call graphs of seven threads fill a hundred screens.
    let report = [
        "report",
        "--stdio",
        "--no-children",
        "-g",
        "none",
        "--percent-limit",
        "1",
        "-i",
        RECORDING,
    ];
    say(&format!("prof {}", report.join(" ")));
    step(&prof, &report.map(OsStr::new), Stdio::inherit())?;

    say("prof flamegraph -i perf.data > flamegraph.svg");
    let draw = ["flamegraph", "-i", RECORDING].map(OsStr::new);
    draw_into(&prof, &draw, Path::new(PICTURE))?;

    say("wrote perf.data and flamegraph.svg; open the picture in a browser,");
    say("look around with: prof report");
    Ok(Outcome::Done)
}

/// What happens next, on stderr: the report alone is on stdout.
fn say(message: &str) {
    // Nowhere to report a failure of stderr to.
    let _ = writeln!(io::stderr().lock(), "prof demo: {message}");
}

/// Runs one command of this prof to its end.
fn step(prof: &Path, args: &[&OsStr], stdout: Stdio) -> anyhow::Result<()> {
    let shown = args.first().copied().unwrap_or_default().display();
    let status = Command::new(prof)
        .args(args)
        .stdin(Stdio::null())
        .stdout(stdout)
        .status()
        .with_context(|| format!("cannot start prof {shown}"))?;
    if !status.success() {
        bail!("prof {shown} failed ({status}), so the demo ends here");
    }
    Ok(())
}

/// The same with the output in a file that appears when it is complete.
fn draw_into(prof: &Path, args: &[&OsStr], path: &Path) -> anyhow::Result<()> {
    let partial = PathBuf::from(format!(".{}.{}", path.display(), std::process::id()));
    let drawn = File::options()
        .write(true)
        .create_new(true)
        .open(&partial)
        .with_context(|| format!("cannot create {}", partial.display()))
        .and_then(|file| step(prof, args, Stdio::from(file)))
        .and_then(|()| {
            fs::rename(&partial, path).with_context(|| format!("cannot name {}", path.display()))
        });
    if drawn.is_err() {
        // The error in hand says more than a failure to clean up would.
        let _ = fs::remove_file(&partial);
    }
    drawn
}
