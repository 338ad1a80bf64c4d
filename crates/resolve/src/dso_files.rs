//! The files behind dsos, and getting them ready while records are read.

use crate::recorded::{ListedKernel, RecordedKernel, build_ids, is_of_this_host, machine_of};
use prof_abi::BuildId;
use prof_live::MappedDso;
use prof_perfdata::Features;
use prof_profile::{DsoKind, UnnamedReason, visible};
use prof_symbolize::{Detail, DsoRequest, SymbolFile, Symbolizer};
use prof_unwind::Machine;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Opens the files of dsos by what the features of a recording say.
pub(crate) struct DsoFiles<'a> {
    pub(crate) symbolizer: &'a Symbolizer,
    /// The machine that made the recording.
    pub(crate) machine: Machine,
    /// Build-ids of paths, told apart from the mappings.
    build_ids: FxHashMap<Vec<u8>, BuildId>,
    listed: ListedKernel,
    /// When the recording ended, if it was made here.
    recorded_at: Option<SystemTime>,
}

impl<'a> DsoFiles<'a> {
    pub(crate) fn new(
        symbolizer: &'a Symbolizer,
        features: &Features,
        recorded_at: Option<SystemTime>,
    ) -> Self {
        Self {
            symbolizer,
            machine: machine_of(features),
            build_ids: build_ids(features),
            listed: ListedKernel::of(features),
            recorded_at: recorded_at.filter(|_| is_of_this_host(features)),
        }
    }

    /// The file of a dso, if it is a file.
    ///
    /// # Errors
    /// Why there is none that names anything.
    pub(crate) fn open(
        &self,
        dso: &MappedDso,
        kernel: &RecordedKernel,
    ) -> Result<Arc<SymbolFile>, UnnamedReason> {
        let path = visible(&dso.path);
        let build_id = self.build_id(dso);
        // A vDSO belongs to its kernel: that of another kernel is another one.
        let is_vdso = dso.kind == DsoKind::Vdso;
        let is_embedded = self.symbolizer.embedded().is_some();
        if is_vdso && build_id.is_none() && !is_embedded && !kernel.request().is_running() {
            return Err(UnnamedReason::BuildIdMismatch);
        }
        let request = DsoRequest {
            kind: dso.kind,
            inode: dso.inode.map(|inode| inode.inode),
            recorded_at: self.recorded_at,
            ..DsoRequest::for_file(&path, build_id)
        };
        self.symbolizer.open(&request).map_err(|error| error.reason)
    }

    pub(crate) fn build_id(&self, dso: &MappedDso) -> Option<BuildId> {
        dso.build_id
            .or_else(|| self.build_ids.get(&dso.path).copied())
    }

    /// What the recording lists of the kernel.
    pub(crate) fn listed(&self) -> &ListedKernel {
        &self.listed
    }

    /// Reads what naming addresses of a dso will need. The symbolizer
    /// keeps it; what cannot be read is found out again then.
    pub(crate) fn prepare(&self, dso: &MappedDso, kernel: &RecordedKernel, detail: Detail) {
        match dso.kind {
            DsoKind::File | DsoKind::Vdso => {
                if let Ok(file) = self.open(dso, kernel) {
                    file.prepare(detail);
                }
            }
            DsoKind::Kernel | DsoKind::KernelModule => {
                // The answer is asked for again, from the cache.
                let _ = self.symbolizer.open_kernel(&kernel.request());
            }
            _ => {}
        }
    }
}
