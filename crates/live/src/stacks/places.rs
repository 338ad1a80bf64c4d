//! Where the code of each process is, in terms of the unwinder.

use super::OpenFile;
use crate::address_space::Mapping;
use crate::modules::ModuleId;
use crate::processes::Processes;
use prof_abi::CpuMode;
use prof_profile::{Avma, Bias, DsoKind};
use prof_unwind::{Layout, Modules, Place};
use rustc_hash::FxHashMap;

/// Bits of an address within the smallest page.
const PAGE_BITS: u32 = 12;
/// Pages that are remembered; a power of two.
const REMEMBERED: usize = 4096;

/// What one page of one address space holds.
#[derive(Debug, Clone, Copy)]
struct Page {
    version: u64,
    number: u64,
    place: Place,
}

/// A file that could be opened.
#[derive(Debug)]
struct Opened {
    id: prof_unwind::ModuleId,
    layout: Layout,
    is_vdso: bool,
}

/// Answers "what is at this pc" from the mappings, and opens files for it.
pub(crate) struct Places<F> {
    pub(crate) open: F,
    opened: FxHashMap<ModuleId, Option<Opened>>,
    pages: Box<[Option<Page>]>,
}

impl<F: OpenFile> Places<F> {
    pub(crate) fn new(open: F) -> Self {
        Self {
            open,
            opened: FxHashMap::default(),
            pages: vec![None; REMEMBERED].into(),
        }
    }

    /// Opens a module's file, if that was not tried before.
    pub(crate) fn prepare(
        &mut self,
        files: &mut Modules,
        processes: &Processes,
        module: ModuleId,
        pid: i32,
    ) {
        let open = &mut self.open;
        self.opened.entry(module).or_insert_with(|| {
            let described = processes.modules().get(module);
            if !matches!(described.kind, DsoKind::File | DsoKind::Vdso) {
                return None;
            }
            let file = open.open(described, pid)?;
            let layout = file.layout();
            let id = files.add(file);
            Some(Opened {
                id,
                layout,
                is_vdso: described.kind == DsoKind::Vdso,
            })
        });
    }
}

impl<F> Places<F> {
    /// What is at `pc` in a process.
    #[inline]
    pub(crate) fn find(&mut self, processes: &Processes, pid: i32, pc: Avma) -> Place {
        let (_, version) = processes.versions(pid);
        let number = pc.0 >> PAGE_BITS;
        let slot = (number ^ version.wrapping_mul(0x9e37_79b9)) as usize % REMEMBERED;
        if let Some(Some(page)) = self.pages.get(slot)
            && page.version == version
            && page.number == number
        {
            return page.place;
        }
        let place = self.look_up(processes, pid, pc);
        if let Some(page) = self.pages.get_mut(slot) {
            *page = Some(Page {
                version,
                number,
                place,
            });
        }
        place
    }

    fn look_up(&self, processes: &Processes, pid: i32, pc: Avma) -> Place {
        let space = processes.space(pid, CpuMode::User);
        let Some(mapping) = space.and_then(|space| space.find_own(pc)) else {
            return Place::Nothing;
        };
        // The vDSO at hand is the 64-bit one.
        let is_32_bit = mapping.end.0 >> 32 == 0;
        match self.opened.get(&mapping.module) {
            Some(Some(opened)) if !(opened.is_vdso && is_32_bit) => {
                bias_of(&opened.layout, &mapping).map_or(Place::Anonymous, |bias| Place::Module {
                    id: opened.id,
                    bias,
                })
            }
            _ => match processes.modules().get(mapping.module).kind {
                DsoKind::File => Place::FileMissing,
                _ => Place::Anonymous,
            },
        }
    }
}

/// Live address minus address in the file.
fn bias_of(layout: &Layout, mapping: &Mapping) -> Option<Bias> {
    let len = mapping.end.0 - mapping.start.0;
    let svma = layout.svma_of_mapping(mapping.offset, len)?;
    Some(Bias::between(mapping.start, svma))
}
