//! Counts of branches, as `perf2bolt -pa` reads them.
//!
//! Lines of text, in any order, addresses in hexadecimal as they stand in the
//! program's file:
//!
//! | line | what |
//! |---|---|
//! | `B FROM TO COUNT MISPREDICTED` | a branch was taken |
//! | `F FROM TO COUNT` | code ran through, from where a branch of this file went to the next branch |
//! | `f FROM TO COUNT` | the same behind a branch that came from another file |
//!
//! A place in another file, or where no function is, is `X:0`. Source: `DataAggregator.h` of BOLT; all
//! its versions read these three lines.

use crate::ExportError;
use crate::choice::Chosen;
use prof_profile::{DsoId, DsoKind, LocationId, Profile, TakenBranch, UnnamedReason};
use rustc_hash::FxHashMap;
use std::io::Write;

/// Writes the branches of the file that has most of them.
///
/// # Errors
/// If no chosen branch is of a file that could be read, or `out` cannot be
/// written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let dso = busiest(chosen).ok_or(ExportError::NoBranches)?;
    let name = chosen.profile.name(chosen.profile.dso(dso).path);
    let name = prof_report::escape::terminal(name).into_owned();
    let counts = Counts::of(chosen, dso);
    if counts.taken.is_empty() {
        return Err(ExportError::FileNotRead { path: name });
    }
    counts.write(out)?;
    let mut told = vec![format!(
        "branches of {name}, for perf2bolt -pa -p FILE -o app.fdata {name}"
    )];
    if counts.elsewhere > 0 {
        let (other, all) = (counts.elsewhere, counts.all);
        told.push(format!(
            "{other} of {all} branches are of other files, or where it has no code, and left out"
        ));
    }
    Ok(told)
}

/// Branches of chosen samples, with the index of their event.
fn branches<'a>(chosen: &'a Chosen<'_>) -> impl Iterator<Item = (usize, TakenBranch)> + 'a {
    let samples = &chosen.profile.samples;
    chosen.rows().filter_map(|(row, slot, _)| {
        let branch = samples.detail(row as usize)?.branch?;
        Some((slot, branch))
    })
}

/// The file with the most ends of branches; of several the first one.
fn busiest(chosen: &Chosen<'_>) -> Option<DsoId> {
    let profile = chosen.profile;
    let mut ends: FxHashMap<DsoId, u64> = FxHashMap::default();
    for (_, branch) in branches(chosen) {
        for location in [branch.from, branch.to] {
            *ends.entry(profile.location(location).dso).or_default() += 1;
        }
    }
    ends.retain(|&dso, _| profile.dso(dso).kind == DsoKind::File);
    let most = |&(dso, ends): &(DsoId, u64)| (ends, std::cmp::Reverse(dso.0));
    Some(ends.into_iter().max_by_key(most)?.0)
}

/// An address in the program's file; `None` for one in another.
type ProgramAddress = Option<u64>;

/// Where a location is in the program's file. Where that could not be read its
/// addresses are not known, and BOLT has no function where there is no symbol.
fn place(profile: &Profile, dso: DsoId, id: LocationId) -> ProgramAddress {
    let location = profile.location(id);
    let host = profile.frames_at(id).last()?;
    let is_known = matches!(
        profile.function(host.function).unnamed,
        None | Some(UnnamedReason::Stripped)
    );
    (location.dso == dso && is_known).then_some(location.address.0)
}

/// How often code ran between branches, by where it began and ended.
type Runs = FxHashMap<(u64, u64), u64>;

#[derive(Default)]
struct Counts {
    /// How often, and how often mispredicted.
    taken: FxHashMap<(ProgramAddress, ProgramAddress), (u64, u64)>,
    inside: Runs,
    from_outside: Runs,
    /// Branches between other files.
    elsewhere: u64,
    all: u64,
}

impl Counts {
    fn of(chosen: &Chosen<'_>, dso: DsoId) -> Self {
        let mut counts = Self::default();
        // By event: the branch before in the rows, which is the next in time.
        let mut later: Vec<Option<TakenBranch>> = vec![None; chosen.events.len()];
        for (slot, branch) in branches(chosen) {
            let Some(later) = later.get_mut(slot) else {
                continue;
            };
            let next = later.filter(|later| later.place + 1 == branch.place);
            counts.add(chosen.profile, dso, &branch, next.as_ref());
            *later = Some(branch);
        }
        counts
    }

    fn add(
        &mut self,
        profile: &Profile,
        dso: DsoId,
        branch: &TakenBranch,
        next: Option<&TakenBranch>,
    ) {
        let place = |id| place(profile, dso, id);
        let (from, to) = (place(branch.from), place(branch.to));
        self.all += 1;
        if from.is_none() && to.is_none() {
            self.elsewhere += 1;
            return;
        }
        let taken = self.taken.entry((from, to)).or_default();
        taken.0 += 1;
        taken.1 += u64::from(branch.is_mispredicted == Some(true));
        let end = next.and_then(|next| place(next.from));
        // Code does not run backwards: a branch between them is missing.
        let run = to.zip(end).filter(|(start, end)| start <= end);
        if let Some(run) = run {
            let runs = match from {
                Some(_) => &mut self.inside,
                None => &mut self.from_outside,
            };
            *runs.entry(run).or_default() += 1;
        }
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let text =
            |place: ProgramAddress| place.map_or_else(|| "X:0".to_owned(), |it| format!("{it:x}"));
        let mut taken: Vec<_> = self.taken.iter().collect();
        taken.sort_unstable();
        for ((from, to), (count, mispredicted)) in taken {
            let (from, to) = (text(*from), text(*to));
            writeln!(out, "B {from} {to} {count} {mispredicted}")?;
        }
        for (letter, runs) in [('F', &self.inside), ('f', &self.from_outside)] {
            let mut runs: Vec<_> = runs.iter().collect();
            runs.sort_unstable();
            for ((start, end), count) in runs {
                writeln!(out, "{letter} {start:x} {end:x} {count}")?;
            }
        }
        Ok(())
    }
}
