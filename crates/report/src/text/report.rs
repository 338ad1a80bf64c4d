//! The report as text: comment lines, then the table of each event, flat or as
//! a hierarchy.

use super::TextOptions;
use super::allowance::Allowance;
use super::group;
use super::hierarchy;
use super::layout::elided;
use super::table::{Table, is_silent, scene_of};
use super::threads::threads;
use crate::escape;
use crate::keys::{Field, SortKey};
use crate::model::{EventsInScope, Scene};
use crate::trust;
use prof_profile::{EventId, Profile};
use std::fmt::Write;
use std::io;

/// Writes the report of all events that were sampled.
///
/// # Errors
/// If `out` cannot be written to.
pub fn report(
    profile: &Profile,
    options: &TextOptions,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let in_scope = EventsInScope::new(profile, &options.selection);
    // perf then writes no table either.
    let is_empty = in_scope.holds_nothing();
    let preamble = match options.quiet {
        false if is_empty => trust_lines(profile, options),
        false => preamble(profile, options),
        true => elided_names(options, ""),
    };
    out.write_all(preamble.as_bytes())?;
    if is_empty {
        return Ok(());
    }
    let mut allowance = Allowance::of(profile, options);
    for events in group::tables(profile, options.grouping) {
        let leader = events.first().copied().unwrap_or(EventId(0));
        if !is_silent(profile, leader) && in_scope.shows(leader) {
            write_events(profile, options, (&events, &mut allowance), out)?;
        }
    }
    if options.threads {
        out.write_all(threads(profile).as_bytes())?;
    }
    Ok(())
}

/// How far to trust the recording.
fn trust_lines(profile: &Profile, options: &TextOptions) -> String {
    let lines = match options.columns {
        Some(columns) => trust::lines_within(profile, columns.saturating_sub("# ".len())),
        None => trust::lines(profile),
    };
    lines
        .into_iter()
        .map(|line| format!("# {line}\n"))
        .collect()
}

/// The comment lines above all events.
pub(super) fn preamble(profile: &Profile, options: &TextOptions) -> String {
    let mut out = trust_lines(profile, options);
    out.push_str(&elided_names(options, "#\n"));
    let _ = writeln!(
        out,
        "#\n# Total Lost Samples: {}\n#",
        profile.trust.most_lost()
    );
    out
}

/// The lines that tell names which all rows share, each after `before`.
fn elided_names(options: &TextOptions, before: &str) -> String {
    let (columns, order) = options.plan(false);
    let has_column = |field| columns.contains(&field) || order.contains(&field);
    let shown = SortKey::all().map(Field::Key).filter(|&it| has_column(it));
    let mut out = String::new();
    for (what, name) in shown.filter_map(|field| elided(&options.selection.filter, field)) {
        let _ = writeln!(out, "{before}# {what}: {}", escape::terminal(name));
    }
    out
}

fn write_events(
    profile: &Profile,
    options: &TextOptions,
    (events, allowance): (&[EventId], &mut Allowance),
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut scenes = events
        .iter()
        .map(|&event| scene_of(profile, options, event));
    let Some((scene, has_chains)) = scenes.next() else {
        return Ok(());
    };
    let others: Vec<Scene<'_>> = scenes.map(|(scene, _)| scene).collect();
    if options.hierarchy {
        let all = (&scene, others.as_slice());
        return hierarchy::write(all, options, (has_chains, allowance), out);
    }
    let table = Table::of_group(&scene, &others, options, has_chains);
    let chains = table.chains(&table.rows().collect::<Vec<_>>());
    if !options.quiet {
        let mut head = String::new();
        table.head(&mut head);
        out.write_all(head.as_bytes())?;
    }
    table.body(&chains, allowance, out)
}
