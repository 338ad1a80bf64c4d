//! `prof report --locks`, `--wakers`, `--critical-path` and `--what-if`.

use super::{Args, usage};
use crate::near::near;
use crate::outcome::Outcome;
use crate::pager::text_columns;
use prof_profile::{Clock, Profile};
use prof_report::Format;
use prof_report::model::Selection;
use prof_report::trust::{self, wrapped};
use prof_report::waiting::{self, Change, Kept, path_text, text};
use std::io::{self, BufWriter, Write};

/// Views of who ended waits.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct WakeArgs {
    /// Only who ended each wait (of record --off-cpu --wakers)
    ///
    /// Waits by who ended them and at which stack, and what those threads had waited for in turn.
    #[arg(long, conflicts_with_all = ["locks", "missing", "csv", "html", "tui", "web", "firefox"])]
    wakers: bool,
    /// Only what set the elapsed time (of record --off-cpu --wakers)
    ///
    /// The chain of running and waiting that set it, by thread and function.
    #[arg(long, conflicts_with_all = ["wakers", "locks", "missing", "csv", "html", "tui", "web", "firefox"])]
    critical_path: bool,
    /// The same, and the elapsed time if a function took so much less
    ///
    /// Or more (+10%), with all that it calls. A short name (add for Ledger::add) or a
    /// pattern (parse*=-20%) is of all that are called so.
    #[arg(long, value_name = "FUNCTION=-N%", value_parser = change, conflicts_with_all = ["wakers", "locks", "missing", "csv", "html", "tui", "web", "firefox"])]
    what_if: Option<Change>,
}

impl WakeArgs {
    /// Whether one of them is asked for.
    pub(super) fn is_given(&self) -> bool {
        self.wakers || self.critical_path || self.what_if.is_some()
    }
}

/// `FUNCTION=-20%`.
fn change(text: &str) -> Result<Change, String> {
    let parsed = text.rsplit_once('=').and_then(|(function, change)| {
        let percent: f64 = change.strip_suffix('%')?.parse().ok()?;
        let is_given = change.starts_with(['-', '+']) && !function.is_empty();
        let is_sane = (-100.0..=1000.0).contains(&percent);
        (is_given && is_sane).then(|| Change {
            text: text.to_owned(),
            function: function.to_owned(),
            factor: 1.0 + percent / 100.0,
        })
    });
    parsed.ok_or_else(|| "write a function and a change, such as parse=-20%".to_owned())
}

/// Writes the view that is asked for, of what filters let pass.
pub(super) fn run(
    args: &Args,
    (profile, selection): (&Profile, &Selection),
    outcome: Outcome,
) -> anyhow::Result<Outcome> {
    if let Some(option) = args.of_text() {
        return Err(usage(format!(
            "{option} shapes tables, which this view is none of; what it shows is chosen by --comms, \
             --pid, --tid, --time and -C"
        )));
    }
    let of = (profile, &Kept::of(profile, selection));
    match args.locks {
        true => locks(args, of, outcome),
        false => wakes(args, of, outcome),
    }
}

/// Writes what wakes tell.
fn wakes(
    args: &Args,
    (profile, kept): (&Profile, &Kept),
    outcome: Outcome,
) -> anyhow::Result<Outcome> {
    needs_waits(profile, "this view", "--off-cpu --wakers")?;
    if profile.wakes.is_empty() {
        return Err(usage(
            "who ended waits was not recorded; that takes root, since other users do not see the \
             kernel's tracepoints of waking\n  try: sudo prof record --off-cpu --wakers ./app",
        ));
    }
    let is_json = args.form.format() == Format::Json;
    if args.wakes.wakers {
        let chains = waiting::chains(profile, kept);
        return shown(outcome, |out| match is_json {
            true => path_text::write_chains_json(&chains, out),
            false => {
                write_trust(profile, out)?;
                path_text::write_chains(&chains, columns(), out)
            }
        });
    }
    let change = args.wakes.what_if.as_ref();
    if let Some(change) = change {
        if profile.events_of_clock(Clock::Wall).is_err() {
            return Err(usage(
                "--what-if: no CPU time was sampled beside the waits, by which functions are seen \
                 to run\n  try: sudo prof record --off-cpu --wakers ./app (without =only)",
            ));
        }
        if change.functions(profile).is_empty() {
            let named = profile.functions.iter();
            let names = named.map(|function| profile.name(function.name));
            let near = near(&change.function, names);
            let near = near.iter().map(|name| format!("\n    {name}"));
            let near = match near.collect::<String>() {
                none if none.is_empty() => none,
                some => format!("\n  these come near:{some}"),
            };
            return Err(usage(format!(
                "--what-if: no function {} was seen{near}\n  try: prof report --critical-path{}",
                change.function,
                args.input.option()
            )));
        }
    }
    let Some(critical) = waiting::critical(profile, kept, change) else {
        return Err(usage(
            "the recording has no thread that was seen to wait and go on",
        ));
    };
    shown(outcome, |out| match is_json {
        true => path_text::write_critical_json(&critical, out),
        false => {
            write_trust(profile, out)?;
            path_text::write_critical(&critical, columns(), out)
        }
    })
}

/// Writes the locks that threads waited for.
fn locks(
    args: &Args,
    (profile, kept): (&Profile, &Kept),
    outcome: Outcome,
) -> anyhow::Result<Outcome> {
    needs_waits(profile, "--locks", "--off-cpu")?;
    let locks = waiting::locks(profile, kept);
    shown(outcome, |out| match args.form.format() {
        Format::Json => text::write_locks_json(profile, &locks, out),
        _ => {
            write_trust(profile, out)?;
            text::write_locks(profile, &locks, columns(), out)
        }
    })
}

/// Writes how far to trust the recording, above a view.
fn write_trust(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let width = columns().saturating_sub("# ".len());
    let lines = trust::lines(profile);
    for line in lines.iter().flat_map(|line| wrapped(line, width)) {
        writeln!(out, "# {line}")?;
    }
    writeln!(out, "#")
}

/// Refuses what only waits tell where there are none.
fn needs_waits(profile: &Profile, view: &str, options: &str) -> anyhow::Result<()> {
    if profile.samples.has_waits() {
        return Ok(());
    }
    Err(usage(format!(
        "{view} tells of waits, of which the recording has none\n  try: prof record {options} ./app"
    )))
}

/// Columns of a line: those of the terminal, but enough for a name.
fn columns() -> usize {
    text_columns().map_or(text::IN_A_FILE, |columns| columns.max(80))
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
