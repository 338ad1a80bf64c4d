//! `prof report --locks`.

use super::{Args, usage};
use crate::outcome::Outcome;
use prof_profile::Profile;
use prof_report::Format;
use prof_report::waiting::{self, text};
use std::io::{self, BufWriter, Write};

/// Writes the locks that threads waited for.
pub(super) fn locks(args: &Args, profile: &Profile, outcome: Outcome) -> anyhow::Result<Outcome> {
    needs_waits(profile, "--locks")?;
    let locks = waiting::locks(profile);
    shown(outcome, |out| match args.form.format() {
        Format::Json => text::write_locks_json(profile, &locks, out),
        _ => text::write_locks(profile, &locks, out),
    })
}

/// Refuses what only waits tell where there are none.
fn needs_waits(profile: &Profile, option: &str) -> anyhow::Result<()> {
    if profile.samples.has_waits() {
        return Ok(());
    }
    Err(usage(format!(
        "{option} tells of waits, of which the recording has none\n  try: prof record --off-cpu ./app"
    )))
}

/// Writes to stdout until whoever reads has seen enough.
fn shown(
    outcome: Outcome,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<Outcome> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(outcome),
    }
}
