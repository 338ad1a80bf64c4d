//! What tells samples and frames apart: the identity of a table's rows.

use super::parents::Parents;
use super::select::ParentPattern;
use super::{Site, SiteKind};
use prof_profile::{Detail, DsoKind, NameId, Profile, Sample, Task, TraceField};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::fmt;

/// Equal where a part of the identity is the same.
pub(crate) type Identity = [u64; 3];

/// Stands for what is not known.
pub(crate) const UNKNOWN: Identity = [u64::MAX; 3];

/// One property by which samples or frames are put into different rows.
#[derive(Clone, Copy)]
pub struct Apart {
    /// No two parts have the same name.
    pub(crate) name: &'static str,
    pub(crate) by: By,
}

impl PartialEq for Apart {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Apart {}

impl fmt::Debug for Apart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

/// What a part of the identity is a property of, and how to get it.
#[derive(Clone, Copy)]
pub(crate) enum By {
    /// The same for all samples of a table.
    Table,
    /// A property of the sample's task.
    Task(fn(&Samples<'_>, &Task) -> Identity),
    /// A property of the sample as a whole.
    Sample(fn(&Samples<'_>, &Sample) -> Identity),
    /// A field of the sample's record beyond the usual ones.
    Detail(fn(&Profile, &Detail) -> Identity),
    /// A field of the sample's tracepoint.
    TraceField(&'static TraceField),
    /// A property of the frame.
    Frame(fn(&mut Frames<'_>, &Site) -> Identity),
    /// A property of the frame; each called function has one of its own.
    Function(fn(&mut Frames<'_>, &Site) -> Identity),
}

impl By {
    /// Whether it is a property of a frame, not of the whole sample.
    pub(crate) fn is_of_frame(self) -> bool {
        matches!(self, Self::Frame(_) | Self::Function(_))
    }

    /// What it is of a record, if it is a field of records.
    pub(crate) fn of_record(self, profile: &Profile, detail: &Detail) -> Option<Identity> {
        match self {
            Self::Detail(of) => Some(of(profile, detail)),
            Self::TraceField(field) => {
                let payloads = profile.samples.payloads();
                let value = detail.payload.and_then(|id| payloads.value(id, field));
                Some(value.map_or(UNKNOWN, |value| [value.rank.into(), 0, 0]))
            }
            _ => None,
        }
    }
}

/// The samples of a profile, as they are told apart.
pub(crate) struct Samples<'a> {
    pub(crate) profile: &'a Profile,
    /// Length of a slice of time, ns; not 0.
    pub(crate) quantum: u64,
    /// Names of threads that are taken for one another, where asked for.
    pub(crate) same_comms: OnceCell<FxHashMap<NameId, NameId>>,
    pattern: &'a ParentPattern,
    parents: OnceCell<Parents>,
}

impl<'a> Samples<'a> {
    pub(crate) fn new(profile: &'a Profile, quantum: u64, pattern: &'a ParentPattern) -> Self {
        Self {
            profile,
            quantum: quantum.max(1),
            same_comms: OnceCell::new(),
            pattern,
            parents: OnceCell::new(),
        }
    }

    /// The name of the caller that the pattern for parents finds.
    pub(crate) fn parent(&self, sample: &Sample) -> Option<NameId> {
        let parents = self
            .parents
            .get_or_init(|| Parents::new(self.profile, self.pattern));
        parents.of(sample.stack)
    }

    /// What is told of a sample, the one with this number.
    pub(super) fn told(&self, by: By, sample: &Sample, row: usize) -> Identity {
        match by {
            By::Task(of) => of(self, self.profile.task(sample.task)),
            By::Sample(of) => of(self, sample),
            By::Detail(_) | By::TraceField(_) => {
                let detail = self.profile.samples.detail(row);
                let told = detail.and_then(|detail| by.of_record(self.profile, detail));
                told.unwrap_or(UNKNOWN)
            }
            By::Table | By::Frame(_) | By::Function(_) => UNKNOWN,
        }
    }
}

/// Whether a function inlined in several places is one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InlineRows {
    /// One row for a function, inlined or not.
    #[default]
    Merged,
    /// As perf does: a row for the function where it is called, and another one
    /// for each function that it is inlined into.
    ByHost,
}

/// Which properties of frames a table tells apart.
#[derive(Debug, Clone, Copy, Default)]
pub struct FrameLook {
    /// How inlined functions are counted.
    pub inline_rows: InlineRows,
    /// Whether source files are told apart by their whole paths, else by the
    /// last part, which is what a table shows.
    pub full_paths: bool,
    /// Whether dsos are told apart by their whole paths, else by what a
    /// table shows.
    pub full_dso_paths: bool,
}

/// The frames of a scene, as they are told apart.
pub(crate) struct Frames<'a> {
    pub(crate) profile: &'a Profile,
    look: FrameLook,
    /// Of paths with the same last part, the first: a table shows only that,
    /// and two rows that read the same would be a riddle.
    files: FxHashMap<&'a str, NameId>,
}

impl<'a> Frames<'a> {
    pub(super) fn new(profile: &'a Profile, look: FrameLook) -> Self {
        Self {
            profile,
            look,
            files: FxHashMap::default(),
        }
    }

    /// A source file, as far as files are told apart.
    pub(crate) fn file(&mut self, path: NameId) -> NameId {
        if self.look.full_paths {
            return path;
        }
        let name = self.profile.name(path);
        let base = name.rsplit('/').next().unwrap_or(name);
        *self.files.entry(base).or_insert(path)
    }

    /// The name of a frame's dso, as far as dsos are told apart.
    pub(crate) fn dso(&self, site: &Site) -> NameId {
        let dso = self.profile.dso(site.dso);
        if self.look.full_dso_paths {
            dso.path
        } else {
            dso.short_name
        }
    }

    /// The function of a frame, and the one it is inlined into where that
    /// matters.
    pub(crate) fn function(&self, site: &Site) -> Identity {
        let number = |id: u32| u64::from(id);
        match site.kind {
            SiteKind::Dso => [1, number(self.dso(site).0), number(site.host.0)],
            SiteKind::Inline if self.look.inline_rows == InlineRows::ByHost => {
                let name = site.function(self.profile).name;
                [2, number(name.0), number(site.host.0)]
            }
            SiteKind::Inline | SiteKind::Function => {
                [0, number(site.function.0), number(site.function.0)]
            }
        }
    }

    /// The source line of a frame, or what is shown in its stead.
    pub(crate) fn line(&mut self, site: &Site) -> Identity {
        let number = |id: NameId| u64::from(id.0);
        if let Some((file, line)) = site.line {
            return [0, number(self.file(file)), line.into()];
        }
        let function = site.function(self.profile);
        let at = site.address.unwrap_or(function.start);
        if function.unnamed.is_none() {
            // Where a runtime's function begins is not known, and nothing is shown of it.
            let offset = match function.start.0 {
                0 => 0,
                start => at.0.wrapping_sub(start),
            };
            return [1, number(function.name), offset];
        }
        let dso = self.profile.dso(site.dso);
        if dso.kind == DsoKind::Unknown {
            return UNKNOWN;
        }
        [2, number(self.file(dso.path)), at.0]
    }
}
