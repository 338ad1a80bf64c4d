//! Names of single addresses, one at a time: data addresses, branches and
//! pointers in payloads, which no stack holds.

use crate::dso_files::DsoFiles;
use crate::recorded::RecordedKernel;
use prof_abi::CpuMode;
use prof_live::Mapping;
use prof_live::Processes;
use prof_live::{MappedDso, MappedDsoId};
use prof_perfdata::Features;
use prof_profile::{Avma, DsoKind, Svma};
use prof_symbolize::{Detail, KernelSymbols, SymbolFile, Symbolizer};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An address of a process, as a sample has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessAddress {
    /// The process.
    pub pid: i32,
    /// Whether to look in the kernel's mappings or the process's first.
    pub mode: CpuMode,
    /// The live address (avma).
    pub address: u64,
}

/// An address with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedPlace {
    /// Symbol, and bytes from its start.
    pub symbol: Option<(Arc<str>, u64)>,
    /// Path or pseudo name of the file that holds it.
    pub dso: Option<Arc<str>>,
    /// Bytes from the start of that file; in the kernel, the address.
    pub file_offset: u64,
}

/// Code as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCode {
    /// Its bytes, as many as the file holds of those asked for.
    pub bytes: Vec<u8>,
    /// Whether the file is for 64-bit processes.
    pub is_64_bit: bool,
}

/// A source file, and a line in it from 1.
pub type SourceLine = (Arc<str>, u32);

/// Finds names of addresses in processes as they are mapped at the moment of
/// the call; each address of a file is looked up once.
pub struct PlaceNames<'a> {
    files: DsoFiles<'a>,
    kernel: Option<Arc<KernelSymbols>>,
    recorded_kernel: RecordedKernel,
    opened: FxHashMap<MappedDsoId, Option<Arc<SymbolFile>>>,
    known: FxHashMap<(MappedDsoId, u64), NamedPlace>,
    lines: FxHashMap<(MappedDsoId, u64), Option<SourceLine>>,
}

impl<'a> PlaceNames<'a> {
    /// Names by the features of a recording; `processes` tells where its
    /// kernel was.
    pub fn new(features: &Features, processes: &Processes, symbolizer: &'a Symbolizer) -> Self {
        let recorded_kernel = RecordedKernel::new(features).mapped_in(processes);
        let kernel = symbolizer.open_kernel(&recorded_kernel.request());
        Self {
            files: DsoFiles::new(symbolizer, features, None),
            kernel: kernel.ok(),
            recorded_kernel,
            opened: FxHashMap::default(),
            known: FxHashMap::default(),
            lines: FxHashMap::default(),
        }
    }

    /// The kernel function that holds `address`: its name and start.
    pub fn kernel_function(&self, address: u64) -> Option<(Arc<str>, u64)> {
        let kernel = self.kernel.as_ref()?;
        let symbol = kernel.lookup(Avma(address), Detail::Symbol).symbol?;
        Some((symbol.name, symbol.start.0))
    }

    /// What is at an address of a process as it is in `processes`.
    pub fn find(&mut self, processes: &Processes, at: ProcessAddress) -> NamedPlace {
        let address = Avma(at.address);
        let Some(mapping) = mapping_of(processes, at) else {
            return NamedPlace {
                file_offset: address.0,
                ..NamedPlace::default()
            };
        };
        let offset = mapping.file_offset(address);
        let key = (mapping.dso, offset.0);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let dso = processes.dsos().get(mapping.dso);
        let shown = crate::naming::beside_address(dso, self.files.listed());
        let place = NamedPlace {
            symbol: self.symbol(&mapping, dso, address),
            dso: Some(String::from_utf8_lossy(&shown).into()),
            file_offset: offset.0,
        };
        self.known.insert(key, place.clone());
        place
    }

    /// Up to `length` bytes of the code at an address, from the file mapped
    /// there; `None` if it is not at hand.
    pub fn code(
        &mut self,
        processes: &Processes,
        at: ProcessAddress,
        length: u64,
    ) -> Option<FileCode> {
        let address = Avma(at.address);
        let mapping = mapping_of(processes, at)?;
        let dso = processes.dsos().get(mapping.dso);
        if dso.kind == DsoKind::Kernel {
            let bytes = self.kernel.as_ref()?.text_bytes(address, length)?;
            return Some(FileCode {
                bytes: bytes.to_vec(),
                is_64_bit: address.0 > u64::from(u32::MAX),
            });
        }
        let (file, svma) = self.in_file(&mapping, dso, address)?;
        Some(FileCode {
            bytes: file.text_bytes(svma, length)?.to_vec(),
            is_64_bit: file.is_64_bit(),
        })
    }

    /// Source file and line of an address.
    pub fn source_line(&mut self, processes: &Processes, at: ProcessAddress) -> Option<SourceLine> {
        let address = Avma(at.address);
        let mapping = mapping_of(processes, at)?;
        let key = (mapping.dso, mapping.file_offset(address).0);
        if let Some(known) = self.lines.get(&key) {
            return known.clone();
        }
        let dso = processes.dsos().get(mapping.dso);
        let found = self.line_of(&mapping, dso, address);
        self.lines.insert(key, found.clone());
        found
    }

    fn line_of(&mut self, mapping: &Mapping, dso: &MappedDso, address: Avma) -> Option<SourceLine> {
        let frames = if dso.kind == DsoKind::Kernel {
            let kernel = self.kernel.as_ref()?;
            kernel.lookup(address, Detail::Source).frames
        } else {
            let (file, svma) = self.in_file(mapping, dso, address)?;
            file.lookup(svma, Detail::Source).frames
        };
        let innermost = frames.into_iter().next()?;
        Some((innermost.file?, innermost.line))
    }

    /// The file of a mapping that has one, and the place of `address` in it.
    fn in_file(
        &mut self,
        mapping: &Mapping,
        dso: &MappedDso,
        address: Avma,
    ) -> Option<(Arc<SymbolFile>, Svma)> {
        if !matches!(dso.kind, DsoKind::File | DsoKind::Vdso) {
            return None;
        }
        let file = self.file(mapping.dso, dso)?;
        let svma = file.svma_of_file_offset(mapping.file_offset(address))?;
        Some((file, svma))
    }

    fn symbol(
        &mut self,
        mapping: &Mapping,
        dso: &MappedDso,
        address: Avma,
    ) -> Option<(Arc<str>, u64)> {
        match dso.kind {
            DsoKind::Kernel | DsoKind::KernelModule => {
                let (name, start) = self.kernel_function(address.0)?;
                Some((name, address.0.wrapping_sub(start)))
            }
            DsoKind::File | DsoKind::Vdso => {
                let (file, svma) = self.in_file(mapping, dso, address)?;
                let symbol = file.lookup(svma, Detail::Symbol).symbol?;
                Some((symbol.name, svma.0.wrapping_sub(symbol.start.0)))
            }
            _ => None,
        }
    }

    fn file(&mut self, id: MappedDsoId, dso: &MappedDso) -> Option<Arc<SymbolFile>> {
        if let Some(known) = self.opened.get(&id) {
            return known.clone();
        }
        let opened = self.files.open(dso, &self.recorded_kernel).ok();
        self.opened.insert(id, opened.clone());
        opened
    }
}

/// What is mapped at an address: where `mode` says, or else in the kernel or
/// the process.
fn mapping_of(processes: &Processes, at: ProcessAddress) -> Option<Mapping> {
    let modes = [at.mode, CpuMode::Kernel, CpuMode::User];
    modes
        .into_iter()
        .find_map(|mode| processes.find(at.pid, mode, Avma(at.address)))
}
