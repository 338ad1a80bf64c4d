//! Sites: what a frame of a stack is, as finely as a view wants it.

use super::{Granularity, Selection, SelfOf};
use hashbrown::HashTable;
use prof_abi::CpuMode;
use prof_profile::{
    BranchFrameId, DsoId, DsoKind, Frame, Function, FunctionId, LocationId, NameId, Profile, Svma,
};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// A handle to a [`Site`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// What a site is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SiteKind {
    /// A function that stands in a file, or an unnamed address.
    Function,
    /// A function inlined into the next outer frame.
    Inline,
    /// All of a dso, after `Transform::MergeDso`.
    Dso,
}

/// A frame of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site {
    /// What it is.
    pub kind: SiteKind,
    /// The function; of a dso, one function in it.
    pub function: FunctionId,
    /// The function in whose code it is: itself, unless inlined.
    pub host: FunctionId,
    /// The file.
    pub dso: DsoId,
    /// Source file and line, if the view tells lines apart.
    pub line: Option<(NameId, u32)>,
    /// The address, if the view tells addresses apart, or lines and there
    /// is none.
    pub address: Option<Svma>,
    /// The end of a branch that it is, see [`prof_profile::Location::branch`].
    pub branch: Option<BranchFrameId>,
}

impl Site {
    /// Whether it is an address of which nothing more is known. A function
    /// without a name is more, if it is known where that begins and ends.
    pub(crate) fn is_bare(&self, profile: &Profile) -> bool {
        let function = self.function(profile);
        function.unnamed.is_some() && function.size == 0 && self.kind != SiteKind::Dso
    }

    /// The function it is in.
    pub fn function<'p>(&self, profile: &'p Profile) -> &'p Function {
        profile.function(self.function)
    }

    /// Its name as recorded; views escape it.
    pub fn name<'p>(&self, profile: &'p Profile) -> &'p str {
        match self.kind {
            SiteKind::Dso => profile.name(profile.dso(self.dso).short_name),
            SiteKind::Function | SiteKind::Inline => {
                profile.name(profile.function(self.function).name)
            }
        }
    }

    /// Length in bytes of the function that stands in the file; `None` if it
    /// is not known.
    pub fn size(&self, profile: &Profile) -> Option<u64> {
        let host = profile.function(self.host);
        (host.unnamed.is_none() && self.kind != SiteKind::Dso).then_some(host.size)
    }

    /// Whether it is kernel or hypervisor code.
    pub fn is_kernel(&self, profile: &Profile) -> bool {
        matches!(
            profile.function(self.function).mode,
            CpuMode::Kernel | CpuMode::GuestKernel | CpuMode::Hypervisor
        )
    }

    /// Whether it stands for what a thread waited for instead of code.
    pub fn is_waiting(&self, profile: &Profile) -> bool {
        profile.dso(self.dso).kind == DsoKind::Waiting
    }

    /// Whether it stands for a wait for a CPU instead of code.
    pub fn is_runnable(&self, profile: &Profile) -> bool {
        profile.dso(self.dso).kind == DsoKind::Runnable
    }

    /// Whether it is code made at run time.
    pub fn is_jit(&self, profile: &Profile) -> bool {
        profile.dso(self.dso).kind == DsoKind::Jit
    }
}

/// The sites of a scene, each once.
#[derive(Debug, Default)]
pub struct Sites {
    list: Vec<Site>,
    /// Handles by the hash of their site; empty once the scene is made.
    index: HashTable<u32>,
    /// See [`Sites::around`].
    around: FxHashMap<SiteId, SiteId>,
}

impl Sites {
    /// Of an inlined function's site: that of the function around it at the
    /// same place, if the scene counts self weight there; else itself.
    pub(crate) fn around(&self, id: SiteId) -> SiteId {
        self.around.get(&id).copied().unwrap_or(id)
    }

    /// The handle of `site`.
    pub(crate) fn intern(&mut self, site: Site) -> SiteId {
        let hash = FxBuildHasher.hash_one(site);
        let list = &self.list;
        let found = self
            .index
            .find(hash, |&id| list.get(id as usize) == Some(&site));
        if let Some(&id) = found {
            return SiteId(id);
        }
        let id = u32::try_from(self.list.len()).expect("fewer than 2^32 sites");
        self.list.push(site);
        let list = &self.list;
        self.index.insert_unique(hash, id, |&id| {
            list.get(id as usize)
                .map_or(0, |site| FxBuildHasher.hash_one(site))
        });
        SiteId(id)
    }

    /// Gives back what only interning needs.
    pub(crate) fn freeze(&mut self) {
        self.index = HashTable::new();
        self.list.shrink_to_fit();
    }

    /// The site of a handle.
    ///
    /// # Panics
    /// If the handle is of another scene.
    #[inline]
    pub fn get(&self, id: SiteId) -> &Site {
        self.list.get(id.0 as usize).expect("a site of this scene")
    }

    /// All sites in the order of their handles.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Site> {
        self.list.iter()
    }

    /// [`Sites::iter`], to be divided.
    pub(crate) fn list(&self) -> &[Site] {
        &self.list
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Turns locations into sites, each location once.
pub(crate) struct SiteMaker<'p> {
    profile: &'p Profile,
    granularity: Granularity,
    inlines: bool,
    /// Whether frames without a name are left out.
    named_only: bool,
    /// Whether self weight of inlined code is that of the function around it
    /// at the code's own line.
    has_around: bool,
    pub(crate) sites: Sites,
    /// Per location: start and length in `order`; length 0 is not made yet.
    made: Vec<(u32, u32)>,
    order: Vec<SiteId>,
}

impl<'p> SiteMaker<'p> {
    pub(crate) fn new(profile: &'p Profile, selection: &Selection) -> Self {
        Self {
            profile,
            granularity: selection.granularity,
            inlines: selection.inlines,
            named_only: selection.scope.named_only,
            has_around: selection.self_of == SelfOf::HostAtLine
                && selection.granularity >= Granularity::Line,

            sites: Sites::default(),
            made: vec![(0, 0); profile.locations.len()],
            order: Vec::new(),
        }
    }

    /// The sites of a location, outermost first. Empty if it has no frames or
    /// none is wanted.
    pub(crate) fn of(&mut self, location: LocationId) -> &[SiteId] {
        let slot = self.made.get(location.0 as usize).copied();
        let (start, len) = match slot {
            Some((_, 0)) | None => self.make(location),
            Some(made) => made,
        };
        self.order
            .get(start as usize..start as usize + len as usize)
            .unwrap_or_default()
    }

    fn make(&mut self, id: LocationId) -> (u32, u32) {
        let location = *self.profile.location(id);
        let frames = self.profile.frames_at(id);
        let start = self.order.len() as u32;
        let Some(outermost) = frames.last() else {
            return (start, 0);
        };
        // Ends of branches are shown without what is inlined there, as in perf.
        let inlines = self.inlines && location.branch.is_none();
        let wanted = if inlines { frames.len() } else { 1 };
        let lines = self.granularity >= Granularity::Line;
        let unnamed = |frame: &Frame| self.profile.function(frame.function).unnamed.is_some();
        for frame in frames.iter().rev().take(wanted) {
            if self.named_only && unnamed(frame) {
                continue;
            }
            // Without inlined frames, the line is still that of the code
            // itself, not of the call that was inlined away.
            let at = if inlines { Some(frame) } else { frames.first() };
            let line = at
                .and_then(|at| at.file.map(|file| (file, at.line)))
                .filter(|_| lines);
            let by_address = self.granularity == Granularity::Address || (lines && line.is_none());
            let site = Site {
                kind: if frame.is_inline {
                    SiteKind::Inline
                } else {
                    SiteKind::Function
                },
                function: frame.function,
                host: if frame.is_inline {
                    outermost.function
                } else {
                    frame.function
                },
                dso: location.dso,
                line,
                address: by_address.then_some(location.address),
                branch: location.branch,
            };
            let id = self.sites.intern(site);
            self.order.push(id);
            if self.has_around && site.kind == SiteKind::Inline {
                let around = self.sites.intern(Site {
                    kind: SiteKind::Function,
                    function: site.host,
                    ..site
                });
                self.sites.around.insert(id, around);
            }
        }
        let made = (start, self.order.len() as u32 - start);
        if let Some(slot) = self.made.get_mut(id.0 as usize) {
            *slot = made;
        }
        made
    }
}
