//! The build-ids of a recording's files, as `perf buildid-list` lists them.

use prof_abi::{BuildId, CpuMode};
use prof_live::{MappedDsoId, Processes, open_elf};
use prof_perfdata::{Body, Reader, TimeOrder};
use prof_profile::{Avma, DsoKind};
use prof_report::escape;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file and its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBuildId {
    /// As recorded.
    pub path: Vec<u8>,
    /// Its build-id, if it is known.
    pub build_id: Option<BuildId>,
    /// Code of the kernel, not of a program.
    pub kernel: bool,
}

/// Those that the recording itself lists, in its order; `None` if it has no
/// such list.
///
/// # Errors
/// When reading fails.
pub fn recorded_build_ids(reader: &mut Reader) -> Result<Option<Vec<FileBuildId>>, super::Error> {
    while reader.advance()? {}
    let entries = reader.features().build_ids();
    Ok(entries.map(|entries| {
        let listed = entries.iter().map(|entry| FileBuildId {
            path: entry.path.as_bytes().to_vec(),
            build_id: entry.build_id,
            kernel: false,
        });
        listed.collect()
    }))
}

/// Which files count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that a sample or its call chain is in.
    WithHits,
    /// All that were mapped.
    Mapped,
}

/// The files of a recording with the build-ids that records tell, the
/// recording lists or, of the same path, files of this machine have; in the
/// order in which they were first seen.
///
/// # Errors
/// When reading fails.
pub fn seen_build_ids(reader: Reader, which: Which) -> Result<Vec<FileBuildId>, super::Error> {
    let mut records = TimeOrder::new(reader);
    let mut processes = Processes::default();
    let mut seen = Seen::default();
    while let Some(record) = records.next()? {
        let body = record.decode();
        if let Some(dso) = processes.apply(&record, &body)
            && which == Which::Mapped
        {
            seen.add(dso);
        }
        if let (Body::Sample(sample), Which::WithHits) = (&body, which) {
            let pid = sample.pid().unwrap_or(-1);
            let own_mode = record.misc.cpu_mode();
            let own = sample.ip().map(|ip| (own_mode, ip));
            for (mode, address) in own.into_iter().chain(sample.frames()) {
                // What stands before all markers is of the sample's own mode.
                let mode = match mode {
                    CpuMode::Unknown => own_mode,
                    mode => mode,
                };
                seen.add_place(&processes, pid, (mode, address));
            }
        }
    }
    let reader = records.into_reader();
    Ok(seen.named(&processes, &reader))
}

#[derive(Default)]
struct Seen {
    known: BTreeSet<MappedDsoId>,
    order: Vec<MappedDsoId>,
}

impl Seen {
    fn add(&mut self, dso: MappedDsoId) {
        if self.known.insert(dso) {
            self.order.push(dso);
        }
    }

    fn add_place(&mut self, processes: &Processes, pid: i32, (mode, address): (CpuMode, u64)) {
        if let Some(mapping) = processes.find(pid, mode, Avma(address)) {
            self.add(mapping.dso);
        }
    }

    fn named(&self, processes: &Processes, reader: &Reader) -> Vec<FileBuildId> {
        let listed = reader.features().build_ids().unwrap_or_default();
        let of_path = |path: &[u8]| {
            let entry = listed.iter().find(|entry| entry.path.as_bytes() == path);
            entry.and_then(|entry| entry.build_id)
        };
        let mut found: Vec<FileBuildId> = Vec::new();
        for &id in &self.order {
            let dso = processes.dsos().get(id);
            let build_id = dso.build_id.or_else(|| of_path(&dso.path));
            let file = FileBuildId {
                build_id: build_id.or_else(|| on_this_machine(&dso.path, dso.kind)),
                path: dso.path.clone(),
                kernel: matches!(dso.kind, DsoKind::Kernel | DsoKind::KernelModule),
            };
            if !found.contains(&file) {
                found.push(file);
            }
        }
        found
    }
}

/// The build-id of the file that has this path now.
fn on_this_machine(path: &[u8], kind: DsoKind) -> Option<BuildId> {
    if kind == DsoKind::Vdso {
        return prof_live::own_vdso()?.build_id();
    }
    let path = Path::new(OsStr::from_bytes(path));
    path.is_absolute().then(|| open_elf(path))??.build_id()
}

/// A line per file: the build-id in 40 columns, and the path.
pub fn build_id_lines(files: &[FileBuildId]) -> String {
    let mut text = String::new();
    for file in files {
        let id = file.build_id.map(|id| id.to_string()).unwrap_or_default();
        let path = String::from_utf8_lossy(&file.path);
        // Writing to a String does not fail.
        let _ = writeln!(text, "{id:<40} {}", escape::terminal(&path));
    }
    text
}
