//! Which words in memory threads waited at, and which variables these are.

use crate::dso_files::DsoFiles;
use crate::recorded::RecordedKernel;
use prof_abi::CpuMode;
use prof_live::{MappedDsoId, MappedDsos, Processes};
use prof_perfdata::Sample as RawSample;
use prof_profile::{
    Avma, DsoId, DsoKind, FileOffset, Futex, FutexId, Profile, Variable, Wait, WaitKind,
};
use rustc_hash::FxHashMap;

/// Collects the first arguments of system calls that waited, which of futexes
/// are their addresses: what a call was is told later, by its stack.
#[derive(Debug, Default)]
pub(crate) struct Futexes {
    /// Row of the samples and place in `met`.
    of_rows: Vec<(usize, u32)>,
    index: FxHashMap<(i32, u64), u32>,
    met: Vec<Met>,
}

/// An address of a process.
#[derive(Debug)]
struct Met {
    pid: i32,
    address: Avma,
    /// What is mapped there or before it: dso, offset in its file of the
    /// mapping, and how far behind the mapping's beginning the address is.
    near: Option<(MappedDsoId, FileOffset, u64)>,
}

impl Futexes {
    /// Notes that the wait in row `row` may be for the futex at the address of
    /// its sample.
    pub(crate) fn note(&mut self, row: usize, processes: &Processes, sample: &RawSample<'_>) {
        let address = sample.addr().unwrap_or(0);
        // Futexes are aligned words, and the lowest page is mapped by nobody.
        if address < 4096 || !address.is_multiple_of(4) {
            return;
        }
        let pid = sample.pid().unwrap_or(-1);
        let met = &mut self.met;
        let place = *self.index.entry((pid, address)).or_insert_with(|| {
            let address = Avma(address);
            let space = processes.space(pid, CpuMode::User);
            let mapping = space.and_then(|space| space.at_or_before(address));
            let near = mapping.map(|mapping| {
                let behind = address.0.wrapping_sub(mapping.start.0);
                (mapping.dso, mapping.offset, behind)
            });
            met.push(Met { pid, address, near });
            u32::try_from(met.len() - 1).unwrap_or(u32::MAX)
        });
        self.of_rows.push((row, place));
    }

    /// Tells the waits for futexes which ones they were for.
    pub(crate) fn finish(
        self,
        profile: &mut Profile,
        dsos: &MappedDsos,
        (files, kernel): (&DsoFiles<'_>, &RecordedKernel),
    ) {
        let mut ids: FxHashMap<u32, FutexId> = FxHashMap::default();
        for (row, place) in self.of_rows {
            let wait = profile.samples.wait_at(row).copied();
            let of_futex = wait.filter(|wait| wait.kind == WaitKind::Futex);
            let (Some(wait), Some(met)) = (of_futex, self.met.get(place as usize)) else {
                continue;
            };
            let id = *ids.entry(place).or_insert_with(|| {
                let variable = met.variable(profile, dsos, (files, kernel));
                profile.futexes.push(Futex {
                    pid: met.pid,
                    address: met.address,
                    variable,
                });
                FutexId(u32::try_from(profile.futexes.len() - 1).unwrap_or(u32::MAX))
            });
            let futex = Some(id);
            profile.samples.set_wait(row, Wait { futex, ..wait });
        }
    }
}

impl Met {
    /// The variable that holds the address, by the symbols of the file that is
    /// mapped there or before: a file's segments keep their distances.
    fn variable(
        &self,
        profile: &mut Profile,
        dsos: &MappedDsos,
        (files, kernel): (&DsoFiles<'_>, &RecordedKernel),
    ) -> Option<Variable> {
        let (dso_id, offset, behind) = self.near?;
        let dso = dsos.get(dso_id);
        if dso.kind != DsoKind::File {
            return None;
        }
        let file = files.open(dso, kernel).ok()?;
        let svma = file.svma_of_file_offset(offset)?.plus(behind);
        let symbol = file.symbol_before(svma)?;
        let offset = svma.0.checked_sub(symbol.start.0)?;
        (offset < symbol.size).then(|| Variable {
            dso: DsoId(dso_id.0),
            name: profile.names.intern(&symbol.name),
            offset,
        })
    }
}
