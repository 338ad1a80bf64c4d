//! What could not be found out about the code that was sampled, dso by dso.

use crate::trust;
use prof_profile::{DsoId, DsoKind, Profile, UnnamedReason};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The kind of symbol information that a dso lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum What {
    /// The functions' names.
    Names,
    /// Source lines, and with them inlined functions.
    Lines,
}

/// Symbol information that one dso lacks, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Which dso.
    pub dso: DsoId,
    /// What kind of information.
    pub what: What,
    /// Why there are no names; `None` where lines are missing.
    pub reason: Option<UnnamedReason>,
    /// How many distinct addresses in stacks lack it.
    pub addresses: u64,
    /// How many distinct addresses of the dso are in stacks.
    pub of: u64,
    /// Whether other addresses of the dso have a line, so that it has debug
    /// information.
    has_some: bool,
}

impl Missing {
    /// The reason, in words.
    pub fn cause(&self) -> &'static str {
        match self.reason {
            Some(reason) => trust::unnamed(reason).0,
            None if self.has_some => {
                "its debug information has no line for them: code in assembly, or of the linker"
            }
            None => "the file has no debug information",
        }
    }

    /// Whether lines are missing for a part of the dso only, which no package
    /// would change.
    pub fn is_in_part(&self) -> bool {
        self.reason.is_none() && self.has_some
    }

    /// What to do on any distribution; empty if nothing is known to help.
    pub fn cure(&self) -> &'static str {
        self.reason.map_or("", |reason| trust::unnamed(reason).1)
    }
}

/// The missing symbol information of all dsos, most addresses first.
pub fn missing(profile: &Profile) -> Vec<Missing> {
    let mut all: BTreeMap<DsoId, u64> = BTreeMap::new();
    let mut with_lines: BTreeSet<DsoId> = BTreeSet::new();
    let mut found: BTreeMap<(DsoId, What, Option<UnnamedReason>), u64> = BTreeMap::new();
    for location in &profile.locations {
        let dso = location.dso;
        *all.entry(dso).or_default() += 1;
        let frames = profile.frames.get(location.frames.range());
        let Some(innermost) = frames.and_then(<[_]>::first) else {
            continue;
        };
        let function = profile.function(innermost.function);
        if innermost.line != 0 {
            with_lines.insert(dso);
        }
        let has_lines = match profile.dso(dso).kind {
            // What stands for no code, as for frames left out, has no path.
            DsoKind::File => !profile.name(profile.dso(dso).path).starts_with('['),
            kind => kind == DsoKind::KernelModule,
        };
        let key = match function.unnamed {
            Some(reason) => (dso, What::Names, Some(reason)),
            None if has_lines && innermost.line == 0 => (dso, What::Lines, None),
            None => continue,
        };
        *found.entry(key).or_default() += 1;
    }
    let mut rows: Vec<Missing> = found
        .into_iter()
        .map(|((dso, what, reason), addresses)| Missing {
            dso,
            what,
            reason,
            addresses,
            of: all.get(&dso).copied().unwrap_or(0),
            has_some: with_lines.contains(&dso),
        })
        .collect();
    rows.sort_by_key(|row| (Reverse(row.addresses), row.dso, row.what));
    rows
}

#[cfg(test)]
mod tests {
    use super::{What, missing};
    use prof_profile::DsoKind;
    use prof_sketch::Sketch;

    #[test]
    fn what_has_a_name_but_no_line_lacks_lines() {
        let mut sketch = Sketch::new();
        let dso = sketch.dso("/bin/app", DsoKind::File);
        sketch.location(dso, &["main"]);
        sketch.location(dso, &["leaf"]);
        let profile = sketch.profile;
        let rows = missing(&profile);
        let lines = rows.iter().find(|row| row.dso == dso).expect("a row");
        assert_eq!((lines.what, lines.addresses, lines.of), (What::Lines, 2, 2));
        assert!(lines.cause().contains("debug information"));
    }

    #[test]
    fn frames_left_out_lack_no_lines() {
        let mut sketch = Sketch::new();
        let dso = sketch.dso("[512 frames left out]", DsoKind::File);
        sketch.location(dso, &["[512 frames left out]"]);
        let module = sketch.dso("[ext4]", DsoKind::KernelModule);
        sketch.location(module, &["ext4_read"]);
        let rows = missing(&sketch.profile);
        assert_eq!(rows.iter().map(|row| row.dso).collect::<Vec<_>>(), [module]);
    }

    #[test]
    fn where_only_some_addresses_have_no_line_the_file_has_debug_information() {
        let mut sketch = Sketch::new();
        let dso = sketch.dso("/bin/app", DsoKind::File);
        sketch.location(dso, &["main"]);
        sketch.location(dso, &["_start"]);
        sketch.profile.frames[0].line = 7;
        let rows = missing(&sketch.profile);
        let lines = rows.iter().find(|row| row.dso == dso).expect("a row");
        assert!(lines.is_in_part() && lines.cause().contains("assembly"));
        assert_eq!(lines.cure(), "");
    }
}
