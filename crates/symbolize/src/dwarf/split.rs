//! Debug information that stands apart from the file: a skeleton in it names
//! a `.dwo` file for each unit, or all of them were put into one `.dwp`.

use super::sections::{Sections, Slice};
use super::session::Session;
use super::{DebugInfo, Fault};
use crate::contents;
use crate::elf::Image;
use gimli::{DwoId, Unit};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Units of a `.dwo` that are looked at for the one that is meant.
const UNITS_MAX: usize = 1 << 12;

/// Where such files are looked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct SplitPlaces {
    /// The file with the skeletons.
    pub(crate) file: PathBuf,
    /// Paths are below this directory (`--symfs`, a process's root).
    pub(crate) root: Option<PathBuf>,
}

impl SplitPlaces {
    /// The package: the file's name with `.dwp` behind it, or in place of
    /// `.debug`.
    pub(super) fn package(&self) -> Option<Arc<Sections>> {
        let mut name = self.file.as_os_str().to_owned();
        name.push(".dwp");
        let paths = [PathBuf::from(name), self.file.with_extension("dwp")];
        let package = paths.iter().find_map(|path| open(path))?;
        package
            .has(".debug_cu_index")
            .then(|| Arc::new(Sections::load_split(&package)))
    }

    /// The `.dwo` of a unit: where the compiler wrote it, or beside the file.
    fn object<'a>(&self, session: &Session<'a>, skeleton: &Unit<Slice<'a>>) -> Option<Arc<Image>> {
        let name = skeleton.dwo_name().ok()??;
        let name = session.dwarf.attr_string(skeleton, name).ok()?;
        let name = Path::new(OsStr::from_bytes(name.slice()));
        let directory = skeleton.comp_dir.map(|dir| dir.slice()).unwrap_or_default();
        let written = Path::new(OsStr::from_bytes(directory)).join(name);
        let mut paths = Vec::new();
        match &self.root {
            Some(root) => {
                let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
                if written.is_absolute() && written.components().all(is_plain) {
                    paths.push(root.join(written.strip_prefix("/").unwrap_or(&written)));
                }
            }
            None => paths.push(written),
        }
        if let (Some(beside), Some(last)) = (self.file.parent(), name.file_name()) {
            paths.push(beside.join(last));
        }
        let absolute = paths.iter().filter(|path| path.is_absolute());
        absolute
            .filter_map(|path| open(path))
            .find(|image| image.has(".debug_info.dwo"))
    }
}

fn open(path: &Path) -> Option<Arc<Image>> {
    let (contents, _) = contents::load(path).ok()?;
    Image::parse(contents).ok().map(Arc::new)
}

/// What a skeleton stands for, and the number of its unit in there.
pub(super) type Opened = Option<Box<(DebugInfo, u32)>>;

/// Whose sections those of a unit are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SplitOf {
    /// All of a `.dwo`.
    Object,
    /// Those of a `.dwp` that belong to this unit.
    Package(DwoId),
}

impl DebugInfo {
    /// What a skeleton stands for, opened once; `None` for any other unit and
    /// where its file is missing or of another build.
    fn split<'a>(
        &'a self,
        session: &Session<'a>,
        number: u32,
        skeleton: &Rc<Unit<Slice<'a>>>,
    ) -> Option<&'a (Self, u32)> {
        let slot = self.splits.get(number as usize)?;
        let opened = slot.get_or_init(|| {
            let id = skeleton.dwo_id?;
            let package = self.package.get_or_init(|| self.places.package());
            let packed = package.as_ref().and_then(|sections| {
                let of = SplitOf::Package(id);
                self.open_split(session, skeleton, (Arc::clone(sections), of))
            });
            let found = packed.or_else(|| {
                let image = self.places.object(session, skeleton)?;
                let sections = Arc::new(Sections::load_split(&image));
                self.open_split(session, skeleton, (sections, SplitOf::Object))
            });
            found.map(Box::new)
        });
        opened.as_deref()
    }

    /// The unit with the skeleton's id among these sections, and its number.
    fn open_split<'a>(
        &self,
        session: &Session<'a>,
        skeleton: &Rc<Unit<Slice<'a>>>,
        (sections, of): (Arc<Sections>, SplitOf),
    ) -> Option<(Self, u32)> {
        let mut info = Self::of_sections(sections, None, (self.demangle, SplitPlaces::default()));
        info.split_of = Some(of);
        let offsets = super::UnitIndex::read_offsets(&info.split_dwarf(&session.dwarf).ok()?);
        info.offsets = offsets.into_iter().take(UNITS_MAX).collect();
        info.units.resize_with(info.offsets.len(), Default::default);
        let number = info.number_of(&session.dwarf, Rc::clone(skeleton))?;
        Some((info, number))
    }

    /// The number of the unit with a skeleton's id.
    fn number_of<'a>(
        &'a self,
        parent: &gimli::Dwarf<Slice<'a>>,
        skeleton: Rc<Unit<Slice<'a>>>,
    ) -> Option<u32> {
        let id = skeleton.dwo_id;
        let inner = Session::of_split(self, parent, skeleton).ok()?;
        let is_meant = |&number: &u32| inner.unit(number).is_ok_and(|unit| unit.dwo_id == id);
        (0..).take(self.offsets.len()).find(is_meant)
    }

    /// The sections of a split unit, with those of the file of its skeleton.
    pub(super) fn split_dwarf<'a>(
        &'a self,
        parent: &gimli::Dwarf<Slice<'a>>,
    ) -> Result<gimli::Dwarf<Slice<'a>>, Fault> {
        let mut dwarf = match self.split_of {
            Some(SplitOf::Package(id)) => self.sections.of_package(id, parent)?.ok_or(Fault)?,
            _ => {
                let mut dwarf = self.sections.dwarf(None);
                dwarf.make_dwo(parent);
                dwarf
            }
        };
        // Split files have no such section: the skeleton's table of files names
        // its strings there.
        dwarf.debug_line_str = parent.debug_line_str;
        Ok(dwarf)
    }
}

impl<'a> Session<'a> {
    /// The session on what a skeleton stands for, and the number of the unit
    /// there.
    pub(super) fn split(
        &self,
        number: u32,
        skeleton: &Rc<Unit<Slice<'a>>>,
    ) -> Option<(Rc<Self>, u32)> {
        skeleton.dwo_id?;
        if let Some(known) = self.splits.borrow().get(&number) {
            return known.clone();
        }
        let opened = self
            .info
            .split(self, number, skeleton)
            .and_then(|(info, inner)| {
                let session = Self::of_split(info, &self.dwarf, Rc::clone(skeleton)).ok()?;
                Some((Rc::new(session), *inner))
            });
        self.splits.borrow_mut().insert(number, opened.clone());
        opened
    }
}
