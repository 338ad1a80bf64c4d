//! Where the code of each process is, in terms of the unwinder.

use super::OpenFile;
use crate::address_space::Mapping;
use crate::mapped_dsos::{MappedDso, MappedDsoId};
use crate::processes::Processes;
use prof_abi::CpuMode;
use prof_profile::{Avma, Bias, DsoKind};
use prof_unwind::{CodeAt, Layout, UnwindDso as File, UnwindDsos};
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
    place: CodeAt,
}

/// A file that could be opened.
#[derive(Debug)]
struct Opened {
    id: prof_unwind::UnwindDsoId,
    layout: Layout,
    is_vdso: bool,
}

/// Answers "what is at this pc" from the mappings, and opens files for it.
pub(crate) struct Places<F> {
    pub(crate) open: F,
    opened: FxHashMap<MappedDsoId, Kept>,
    /// Counts mappings of files.
    now: u64,
    /// Process and changes when a version was last asked for, and that.
    latest: ((i32, u64), u64),
    pages: Box<[Option<Page>]>,
}

/// A dso whose file was looked for.
#[derive(Debug)]
struct Kept {
    opened: Option<Opened>,
    /// When it was last mapped, or seen to be.
    used: u64,
}

/// How much is kept of files, those that no process maps any more included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) files: usize,
    /// Of memory.
    pub(crate) bytes: usize,
}

impl Most {
    /// While recording. Each file is a descriptor, too; a build with all its
    /// tools has some hundreds.
    pub(crate) const LIVE: Self = Self {
        files: 512,
        bytes: 48 << 20,
    };
}

impl<F: OpenFile> Places<F> {
    pub(crate) fn new(open: F) -> Self {
        Self {
            open,
            opened: FxHashMap::default(),
            now: 0,
            // No process has this number.
            latest: ((i32::MIN, 0), 0),
            pages: vec![None; REMEMBERED].into(),
        }
    }

    /// Opens a dso's file, if that was not tried before.
    pub(crate) fn prepare(
        &mut self,
        files: &mut UnwindDsos,
        processes: &Processes,
        dso: MappedDsoId,
        pid: i32,
    ) {
        self.now += 1;
        let open = &mut self.open;
        let kept = self.opened.entry(dso).or_insert_with(|| Kept {
            opened: opened(open, files, processes.dsos().get(dso), pid),
            used: 0,
        });
        kept.used = self.now;
    }
}

fn opened(
    open: &mut impl OpenFile,
    files: &mut UnwindDsos,
    dso: &MappedDso,
    pid: i32,
) -> Option<Opened> {
    if !matches!(dso.kind, DsoKind::File | DsoKind::Vdso) {
        return None;
    }
    let file = open.open(dso, pid)?;
    let layout = file.layout();
    let id = files.add(file);
    Some(Opened {
        id,
        layout,
        is_vdso: dso.kind == DsoKind::Vdso,
    })
}

impl<F> Places<F> {
    /// Where there is more than `most`, closes files that no process maps, the
    /// one first that was not mapped for longest. What is in use stays, but for
    /// what can be read again.
    pub(crate) fn keep(&mut self, files: &mut UnwindDsos, processes: &Processes, most: Most) {
        let mut held = self.held(files);
        let is_more = |held: Most, part: usize| {
            held.files > most.files / 4 * part || held.bytes > most.bytes / 4 * part
        };
        if !is_more(held, 4) {
            return;
        }
        for dso in processes.in_use() {
            if let Some(kept) = self.opened.get_mut(&dso) {
                kept.used = u64::MAX;
            }
        }
        let mut idle: Vec<(u64, MappedDsoId)> = Vec::new();
        for (&dso, kept) in &mut self.opened {
            match kept.used {
                u64::MAX => kept.used = self.now,
                used => idle.push((used, dso)),
            }
        }
        idle.sort_unstable();
        for (_, dso) in idle {
            // Some more than must be, or all would be looked through again soon.
            if !is_more(held, 3) {
                return;
            }
            let id = self.opened.remove(&dso).and_then(|kept| kept.opened);
            held.files -= 1;
            if let Some(Opened { id, .. }) = id {
                held.bytes -= files.get(id).map_or(0, File::held_bytes).min(held.bytes);
                files.remove(id);
            }
        }
        if held.bytes > most.bytes {
            let ids = self.opened.values().filter_map(|kept| kept.opened.as_ref());
            for opened in ids {
                if let Some(file) = files.get_mut(opened.id) {
                    file.forget_read();
                }
            }
        }
    }

    /// How many dsos are known, and what their files take.
    fn held(&self, files: &UnwindDsos) -> Most {
        let opened = self.opened.values().filter_map(|kept| kept.opened.as_ref());
        let bytes = opened
            .filter_map(|opened| files.get(opened.id))
            .map(File::held_bytes);
        Most {
            files: self.opened.len(),
            bytes: bytes.sum(),
        }
    }

    /// What is at `pc` in a process.
    #[inline]
    pub(crate) fn find(&mut self, processes: &Processes, pid: i32, pc: Avma) -> CodeAt {
        let version = self.version(processes, pid);
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

    /// Where the files of a process have the variables that lead debuggers to
    /// the code that it makes.
    pub(crate) fn jit_descriptors(
        &mut self,
        files: &mut UnwindDsos,
        (processes, pid): (&Processes, i32),
    ) -> (Vec<u64>, Option<u64>) {
        let space = processes.space(pid, CpuMode::User);
        let (mut found, mut schedulers) = (Vec::new(), None);
        for mapping in space.iter().flat_map(|space| space.iter()) {
            let CodeAt::Dso { id, bias } = self.look_up(processes, pid, mapping.start) else {
                continue;
            };
            let Some(file) = files.get_mut(id) else {
                continue;
            };
            let Some(svma) = file.jit_descriptor() else {
                continue;
            };
            let at = bias.to_avma(svma).0;
            if !found.contains(&at) {
                found.push(at);
                let of_erlang = file.erlang_schedulers();
                schedulers = schedulers.or(of_erlang.map(|svma| bias.to_avma(svma).0));
            }
        }
        (found, schedulers)
    }

    /// The version of a process's mappings. It is asked for several times for
    /// each frame, of one process after the other.
    #[inline]
    fn version(&mut self, processes: &Processes, pid: i32) -> u64 {
        let key = (pid, processes.changes());
        if self.latest.0 != key {
            self.latest = (key, processes.versions(pid).1);
        }
        self.latest.1
    }

    fn look_up(&self, processes: &Processes, pid: i32, pc: Avma) -> CodeAt {
        let space = processes.space(pid, CpuMode::User);
        let Some(mapping) = space.and_then(|space| space.find_own(pc)) else {
            return CodeAt::Nothing;
        };
        // The vDSO at hand is the 64-bit one.
        let is_32_bit = mapping.end.0 >> 32 == 0;
        let kept = self.opened.get(&mapping.dso);
        match kept.and_then(|kept| kept.opened.as_ref()) {
            Some(opened) if !(opened.is_vdso && is_32_bit) => bias_of(&opened.layout, &mapping)
                .map_or(CodeAt::Anonymous, |bias| CodeAt::Dso {
                    id: opened.id,
                    bias,
                }),
            _ => match processes.dsos().get(mapping.dso).kind {
                DsoKind::File => CodeAt::FileMissing,
                // A stack, a heap: what points there is no return address.
                DsoKind::Data => CodeAt::Nothing,
                _ => CodeAt::Anonymous,
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

#[cfg(test)]
mod tests {
    use super::{Most, Places};
    use crate::address_space::Access;
    use crate::mapped_dsos::{MappedDso, MappedDsoId};
    use crate::processes::{MapEvent, Processes};
    use crate::stacks::{OpenFile, own_vdso};
    use prof_abi::CpuMode;
    use prof_profile::{Avma, FileOffset};
    use prof_unwind::UnwindDsos;

    /// Gives the same image for every path, and counts how often.
    struct Opens(usize);

    impl OpenFile for Opens {
        fn open(&mut self, _: &MappedDso, _: i32) -> Option<prof_unwind::UnwindDso> {
            self.0 += 1;
            own_vdso()
        }
    }

    /// A process of this number that has mapped the file of the same number.
    fn run(
        processes: &mut Processes,
        places: &mut Places<Opens>,
        files: &mut UnwindDsos,
        (pid, file): (i32, usize),
    ) -> MappedDsoId {
        let dso = processes.map(&MapEvent {
            pid,
            mode: CpuMode::User,
            start: Avma(0x1000),
            length: 0x1000,
            offset: FileOffset(0),
            inode: None,
            build_id: None,
            access: Access::EXECUTE,
            path: format!("/bin/{file}").as_bytes(),
        });
        let dso = dso.expect("a mapping");
        places.prepare(files, processes, dso, pid);
        dso
    }

    #[test]
    fn files_that_nothing_maps_are_closed_the_oldest_first() {
        const MOST: Most = Most {
            files: 8,
            bytes: usize::MAX,
        };
        let (mut processes, mut files) = (Processes::default(), UnwindDsos::default());
        let mut places = Places::new(Opens(0));
        let stays = run(&mut processes, &mut places, &mut files, (1, 0));
        let mut ended = Vec::new();
        for file in 1..=2000 {
            let pid = 1 + file as i32;
            ended.push(run(&mut processes, &mut places, &mut files, (pid, file)));
            processes.forget(pid, Some(pid));
            places.keep(&mut files, &processes, MOST);
            assert!(places.opened.len() <= MOST.files);
        }
        let kept = |dso| places.opened.contains_key(dso);
        assert!(kept(&stays), "in use");
        let known: Vec<bool> = ended.iter().map(kept).collect();
        assert!(known.is_sorted() && known.last() == Some(&true));
        // What comes again is opened again.
        let opens = places.open.0;
        assert_eq!(opens, 2001);
        run(&mut processes, &mut places, &mut files, (9999, 1));
        run(&mut processes, &mut places, &mut files, (9999, 2000));
        assert_eq!(places.open.0, opens + 1);
    }

    #[test]
    fn bytes_are_bounded_too_but_for_what_is_in_use() {
        let (mut processes, mut files) = (Processes::default(), UnwindDsos::default());
        let mut places = Places::new(Opens(0));
        for file in 0..20 {
            run(&mut processes, &mut places, &mut files, (file as i32, file));
        }
        let one = places.held(&files).bytes / 20;
        let most = Most {
            files: 1000,
            bytes: 8 * one,
        };
        places.keep(&mut files, &processes, most);
        assert_eq!(places.opened.len(), 20);
        for pid in 5..20 {
            processes.forget(pid, Some(pid));
        }
        places.keep(&mut files, &processes, most);
        let held = places.held(&files);
        assert!(held.bytes <= most.bytes && held.files >= 5, "{held:?}");
    }
}
