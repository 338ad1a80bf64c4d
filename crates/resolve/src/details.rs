//! What samples tell beyond who, where and when: collected where a view asks
//! for it.

use crate::about::About;
use crate::options::LoadOptions;
use crate::payloads::Payloads;
use crate::raw_locations::ProcessNow;
use crate::stack_builder::{BRANCH_MODES, StackBuilder};
use prof_abi::{CpuMode, Misc, SampleType};
use prof_perfdata::{Body, Branch, Features, Record, Sample as RawSample};
use prof_profile::{Avma, Counting, Detail, LocationId, NameId, Names, TakenBranch};
use rustc_hash::FxHashMap;

/// Index of the cgroup among the namespaces of a NAMESPACES record.
const CGROUP_NAMESPACE: usize = 6;

/// Collects details sample by sample.
pub(crate) struct Details {
    is_wanted: bool,
    counting: Counting,
    /// Paths by id.
    cgroups: FxHashMap<u64, NameId>,
    /// Device and inode of the cgroup namespace by thread.
    namespaces: FxHashMap<i32, (u64, u64)>,
    /// By CPU.
    sockets: Vec<u32>,
    /// Threads that run, as perf counts them: it begins with 1.
    running: i64,
    /// CPUs of the machine.
    cpus: i64,
    pub(crate) payloads: Payloads,
}

impl Details {
    pub(crate) fn new(options: &LoadOptions, counting: Counting, features: &Features) -> Self {
        let topology = features.cpu_topology();
        let cpus = topology.map_or(&[][..], |topology| &topology.cpus);
        Self {
            is_wanted: options.details || counting != Counting::Samples,
            counting,
            cgroups: FxHashMap::default(),
            namespaces: FxHashMap::default(),
            sockets: cpus.iter().map(|cpu| cpu.socket).collect(),
            running: 1,
            cpus: features
                .nr_cpus()
                .map_or(i64::MAX, |cpus| cpus.available.into()),
            payloads: Payloads::new(&options.trace_fields),
        }
    }

    pub(crate) fn counting(&self) -> Counting {
        self.counting
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Learns from a record that is no sample.
    pub(crate) fn learn(&mut self, record: &Record<'_>, body: &Body<'_>, names: &mut Names) {
        match body {
            // The idle task does not count.
            Body::Switch(_) | Body::SwitchCpuWide(_) if record.sample_id().tid != Some(0) => {
                let is_out = record.misc.has(Misc::SWITCH_OUT);
                self.running += if is_out { -1 } else { 1 };
            }
            // There is no switch away from a thread that ends.
            Body::Exit(_) => self.running -= 1,
            Body::Cgroup(cgroup) => {
                let path = names.intern(&String::from_utf8_lossy(cgroup.path.bytes()));
                self.cgroups.insert(cgroup.id, path);
            }
            Body::Namespaces(record) => {
                let own = record.namespaces.iter().nth(CGROUP_NAMESPACE);
                if let Some(own) = own {
                    self.namespaces.insert(record.tid, (own.device, own.inode));
                }
            }
            _ => {}
        }
    }

    /// What a sample tells, without the branch it is of; `data` finds what
    /// holds the address that it has.
    pub(crate) fn of(
        &self,
        sample: &RawSample<'_>,
        mode: CpuMode,
        data: impl FnOnce(Avma) -> Option<LocationId>,
    ) -> Detail {
        let (_, latency, stage) = sample.weight_parts().unwrap_or_default();
        let address = sample.addr().unwrap_or(0);
        let cgroup = sample.cgroup().unwrap_or(0);
        let socket = sample.cpu().and_then(|cpu| self.sockets.get(cpu as usize));
        Detail {
            weight: sample.weight().unwrap_or(0),
            instruction_latency: latency,
            stage_latency: stage,
            transaction: sample.transaction().unwrap_or(0),
            data_src: sample.data_src().unwrap_or(0),
            address,
            data: data(Avma(address)),
            mode,
            ip: sample.ip().unwrap_or(0),
            physical_address: sample.phys_addr().unwrap_or(0),
            data_page_size: sample.data_page_size().unwrap_or(0),
            code_page_size: sample.code_page_size().unwrap_or(0),
            cgroup,
            cgroup_path: self.cgroups.get(&cgroup).copied(),
            cgroup_namespace: sample
                .tid()
                .and_then(|tid| self.namespaces.get(&tid))
                .copied()
                .unwrap_or_default(),
            socket: socket.map_or(-1, |&socket| socket as i32),
            parallelism: self.running.min(self.cpus).max(1) as u32,
            payload: None,
            branch: None,
        }
    }
}

/// Whether a recording is one of branches, as perf decides it: it says that
/// it has branch stacks, and no stacks are to be unwound from its dumps.
pub(crate) fn counting_of(about: &About<'_>) -> Counting {
    let has_branches = about.features.has(prof_perfdata::FeatureBit::BRANCH_STACK);
    let mut events = about.events.list().iter();
    let has_dumps = events.any(|event| event.attr.sample_type.has(SampleType::STACK_USER));
    if has_branches && !has_dumps {
        Counting::Branches
    } else {
        Counting::Samples
    }
}

/// A branch of a process with names for its ends. Branches cross from user to
/// kernel, so both are looked at.
pub(crate) fn taken_branch(
    (place_in_stack, branch): (u32, Branch),
    process: ProcessNow<'_>,
    stacks: &mut StackBuilder,
) -> TakenBranch {
    let mut place = |address: u64| -> LocationId {
        let found = stacks.place(process, &BRANCH_MODES, Avma(address));
        found.unwrap_or_else(|| stacks.nowhere(Avma(address)))
    };
    let flags = branch.flags;
    TakenBranch {
        from_address: branch.from,
        from: place(branch.from),
        to_address: branch.to,
        to: place(branch.to),
        is_mispredicted: match (flags.predicted(), flags.mispredicted()) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) => None,
        },
        in_transaction: flags.in_transaction(),
        is_abort: flags.abort(),
        cycles: flags.cycles(),
        place: place_in_stack,
    }
}
