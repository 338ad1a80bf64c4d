//! What the features of a recording tell of the machine, its kernel and files.

use crate::lookups::CarriedSymbols;
use prof_abi::CpuMode;
use prof_live::{MappedDso, MappedDsos, Processes};
use prof_perfdata::Features;
use prof_profile::{Avma, EventGroup, EventId, Origin};
use prof_symbolize::{KernelRequest, Symbolizer};
use prof_unwind::Machine;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// What a recording says of its kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedKernel {
    pub(crate) build_id: Option<prof_abi::BuildId>,
    /// `uname -r`.
    release: Option<String>,
    /// A symbol and its address: tells how the kernel was relocated.
    reference: Option<(String, Avma)>,
}

impl RecordedKernel {
    /// As far as the features tell.
    pub(crate) fn new(features: &Features) -> Self {
        let kernel = |path: &[u8]| path.starts_with(b"[kernel.kallsyms]");
        Self {
            build_id: features.build_ids().and_then(|entries| {
                let mut entries = entries.iter();
                entries
                    .find(|entry| kernel(entry.path.as_bytes()))?
                    .build_id
            }),
            release: features
                .os_release()
                .map(|text| text.to_string_lossy().into_owned()),
            reference: None,
        }
    }

    /// With what its mappings tell, too.
    #[must_use]
    pub(crate) fn mapped_in(self, processes: &Processes) -> Self {
        Self {
            build_id: processes.kernel_build_id().or(self.build_id),
            reference: processes
                .kernel_reference()
                .map(|(name, address)| (String::from_utf8_lossy(&name).into_owned(), address)),
            ..self
        }
    }

    /// What to ask a symbolizer for.
    pub(crate) fn request(&self) -> KernelRequest<'_> {
        KernelRequest {
            build_id: self.build_id,
            release: self.release.as_deref(),
            reference: self
                .reference
                .as_ref()
                .map(|(name, address)| (name.as_str(), *address)),
        }
    }
}

/// Whether the recording says that it was made where we run.
pub(crate) fn is_of_this_host(features: &Features) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let recorded = features.hostname().map(|name| name.to_string_lossy());
    recorded.is_some_and(|recorded| !recorded.is_empty() && recorded == own.trim_end())
}

/// The machine that made a recording.
pub(crate) fn machine_of(features: &Features) -> Machine {
    let arch = features.arch();
    let arch = arch.map(|arch| arch.to_string_lossy().into_owned());
    match arch.as_deref() {
        Some("aarch64" | "arm64") => Machine::Aarch64,
        _ => Machine::X86_64,
    }
}

pub(crate) fn build_ids(features: &Features) -> FxHashMap<Vec<u8>, prof_abi::BuildId> {
    let entries = features.build_ids().into_iter().flatten();
    entries
        .filter_map(|entry| Some((entry.path.as_bytes().to_vec(), entry.build_id?)))
        .collect()
}

/// Parts of the kernel that the recording lists with a build-id.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListedKernel {
    /// Kernel modules, by path.
    pub(crate) modules: FxHashSet<Vec<u8>>,
    /// The kernel itself, by the name it has there.
    pub(crate) kernel: Option<Vec<u8>>,
}

impl ListedKernel {
    pub(crate) fn of(features: &Features) -> Self {
        let mut listed = Self::default();
        let entries = features.build_ids().into_iter().flatten();
        for entry in entries.filter(|entry| entry.misc.cpu_mode() == CpuMode::Kernel) {
            let path = entry.path.as_bytes().to_vec();
            let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            let is_dso = file
                .split(|&byte| byte == b'.')
                .skip(1)
                .any(|it| it == b"ko");
            if is_dso {
                listed.modules.insert(path);
            } else if listed.kernel.is_none() {
                listed.kernel = Some(path);
            }
        }
        listed
    }
}

/// Symbols that a simpleperf recording brings along.
///
/// Its own rule, in `ElfDso::IpToVaddrInFile`: where nothing tells where in the file the
/// lowest address (min_vaddr) of code is, that is where the mapping began. Source:
/// `simpleperf/dso.cpp`.
pub(crate) fn carried_symbols(
    features: &Features,
    symbolizer: &Symbolizer,
    mapped: &MappedDsos,
) -> FxHashMap<Vec<u8>, CarriedSymbols> {
    let files = features.simpleperf_files().unwrap_or_default();
    if files.is_empty() {
        return FxHashMap::default();
    }
    let offset = |(id, dso): (_, &MappedDso)| Some((dso.path.clone(), mapped.code_offset(id)?.0));
    let offsets: FxHashMap<Vec<u8>, u64> = mapped.iter().filter_map(offset).collect();
    let one = |file: &prof_perfdata::SimpleperfFile| {
        let demangle = symbolizer.sources().demangle;
        let mut symbols: Vec<(u64, u64, Arc<str>)> = file
            .symbols
            .iter()
            .map(|symbol| {
                let name = demangle.show(symbol.name.as_bytes());
                (symbol.vaddr, symbol.len.into(), name.into())
            })
            .collect();
        symbols.sort_by_key(|symbol| symbol.0);
        let mapped_from = || offsets.get(file.path.as_bytes()).copied();
        let told = file.file_offset_of_min_vaddr.or_else(mapped_from);
        let offset = told.unwrap_or(file.min_vaddr);
        let bias = file.min_vaddr.wrapping_sub(offset);
        (
            file.path.as_bytes().to_vec(),
            CarriedSymbols { symbols, bias },
        )
    };
    files
        .iter()
        .filter(|file| !file.symbols.is_empty())
        .map(one)
        .collect()
}

pub(crate) fn origin(features: &Features, kernel_build_id: Option<prof_abi::BuildId>) -> Origin {
    let text = |text: Option<&prof_perfdata::Text>| {
        text.map(|text| text.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let arguments = features.cmdline().into_iter().flatten();
    Origin {
        hostname: text(features.hostname()),
        os_release: text(features.os_release()),
        tool_version: text(features.version()),
        arch: text(features.arch()),
        cpu_description: text(features.cpu_desc()),
        cpu_id: text(features.cpu_id()),
        cpus: features.nr_cpus().map(|cpus| (cpus.online, cpus.available)),
        total_memory_kb: features.total_mem().copied(),
        command_line: arguments
            .map(|part| part.to_string_lossy().into_owned())
            .collect(),
        kernel_build_id,
        // perf inject writes zeros, as perf reads them: no times.
        time_range: features
            .sample_time()
            .filter(|time| time.last > 0)
            .map(|time| (time.first, time.last)),
        wall_clock: features
            .clock_data()
            .map(|data| (data.wall_clock, data.clock)),
    }
}

/// The groups that make sense for so many events.
pub(crate) fn event_groups(features: &Features, events: usize) -> Vec<EventGroup> {
    let mut end = 0;
    let mut groups = Vec::new();
    for group in features.groups().unwrap_or_default() {
        let (leader, members) = (group.leader as usize, group.members as usize);
        if members < 2 || leader < end || leader.saturating_add(members) > events {
            continue;
        }
        end = leader + members;
        let name = group.name.to_string_lossy().into_owned();
        groups.push(EventGroup {
            name: Some(name).filter(|name| name != "{anon_group}"),
            leader: EventId(leader as u16),
            members: members as u16,
        });
    }
    groups
}
