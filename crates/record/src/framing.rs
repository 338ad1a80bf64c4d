//! What stands before and after the kernel's records: the state of the
//! machine at the start, and what is known only at the end.

use crate::foreign::{ForeignFiles, KeptFiles};
use crate::open::{OpenEvent, OpenSet};
use crate::options::{Options, Target};
use crate::planned::Role;
use crate::runtime_code::RuntimeCode;
use crate::synthesize::{self, Synthesizer, cgroups, processes};
use crate::tally::Tally;
use crate::tasks::process_of;
use prof_abi::{AttrFlags, ByteOrder, Misc};
use prof_perfdata::ClockData;
use prof_perfdata::body::{
    Body, CpuMap, CpuMapRecord, FixedText, IdEntry, Lost, LostSamples, ThreadMapEntry,
};
use prof_perfdata::write::{
    EventDescription, Features, Trailer, append, append_short, id_index, thread_map,
};
use prof_sys::clock;
use std::collections::{BTreeSet, HashMap};

/// A CPU or thread that was not chosen: any.
const ANY: i64 = -1;

/// Writes them.
#[derive(Debug)]
pub(crate) struct Framing<'a> {
    options: &'a Options,
    set: &'a OpenSet,
    tasks: Vec<Option<u32>>,
    trailer: Trailer,
    synthesizer: Synthesizer,
    foreign: ForeignFiles,
    runtime_code: RuntimeCode,
    /// What each descriptor had lost when a file ended, by its id.
    told: HashMap<u64, u64>,
}

impl<'a> Framing<'a> {
    pub(crate) fn new(
        options: &'a Options,
        set: &'a OpenSet,
        tasks: Vec<Option<u32>>,
        written: &EventDescription,
    ) -> Self {
        let tells_data = |event: &OpenEvent| event.planned.attr.flags.has(AttrFlags::MMAP_DATA);
        let what = synthesize::Options {
            build_ids: options.build_ids,
            data_mappings: set.events.iter().any(tells_data),
            namespaces: options.extras.namespaces,
            mappings: options.told.mappings,
        };
        Self {
            options,
            set,
            tasks,
            trailer: Trailer::of(&written.attr),
            synthesizer: Synthesizer::new(&written.attr, what),
            foreign: ForeignFiles::new(
                options.build_ids && options.keeps_files,
                options.user.as_ref(),
            ),
            runtime_code: RuntimeCode::new(options.keeps_files),
            told: HashMap::new(),
        }
    }

    /// Appends what was so before the first record.
    pub(crate) fn first(&mut self, out: &mut Vec<u8>) {
        self.id_index(out);
        out.extend(self.set.trace_info.iter().flatten());
        let threads = self.tasks.iter().map(|tid| {
            let comm = tid.and_then(|tid| std::fs::read(format!("/proc/{tid}/comm")).ok());
            let mut comm = comm.unwrap_or_default();
            comm.retain(|&byte| byte != b'\n');
            ThreadMapEntry {
                pid: tid.map_or(ANY, i64::from),
                comm: FixedText::new(&comm),
            }
        });
        thread_map(&threads.collect::<Vec<_>>(), out);
        let cpus: Vec<u16> = self
            .set
            .scope()
            .cpus
            .iter()
            .filter_map(|&cpu| u16::try_from(cpu).ok())
            .collect();
        // More CPUs than one record holds: readers do without it.
        let cpus = CpuMap::of(&cpus);
        let map = Body::CpuMap(CpuMapRecord { cpus });
        let _ = append(&map, Misc(0), &Trailer::NONE, out);
        self.synthesizer.kernel(out);
        let told = self.options.told;
        if self.options.extras.cgroups && told.cgroups {
            cgroups(&self.trailer, out);
        }
        // A command's own story begins with its exec, which the kernel tells.
        let pids: BTreeSet<u32> = match &self.options.target {
            Target::Command(_) => BTreeSet::new(),
            _ if !told.tasks && !told.mappings => BTreeSet::new(),
            Target::Processes(pids) => pids.iter().copied().collect(),
            Target::Threads(tids) => tids.iter().filter_map(|&tid| process_of(tid)).collect(),
            Target::System => processes().into_iter().collect(),
        };
        let from = out.len();
        self.synthesizer.processes(pids, out);
        let mut rest = out.get(from..).unwrap_or_default();
        while let Some(size) = ByteOrder::NATIVE.u16(rest, 6)
            && let Some((record, behind)) = rest.split_at_checked(usize::from(size).max(8))
        {
            self.foreign.note(record);
            self.runtime_code.note(record);
            rest = behind;
        }
    }

    /// Keeps the build-id of an `MMAP2` from the kernel for the features, and
    /// its file if we would not find that again.
    pub(crate) fn mapping(&mut self, record: &[u8]) {
        self.synthesizer.learn(record);
        self.foreign.note(record);
        self.runtime_code.note(record);
    }

    /// Stores the files that would not be found again; to be called when the
    /// recording is written.
    pub(crate) fn store_files(&mut self) -> KeptFiles {
        let mut kept = self.foreign.store();
        let (maps, failed) = self.runtime_code.store();
        kept.maps = maps;
        if let Some(why) = failed {
            kept.failed.get_or_insert((0, why)).0 += 1;
        }
        kept
    }

    fn id_index(&self, out: &mut Vec<u8>) {
        let entries: Vec<IdEntry> = self
            .set
            .events
            .iter()
            .flat_map(|event| &event.descriptors)
            .map(|open| IdEntry {
                id: open.id,
                ring: open.ring as u64,
                cpu: open.cpu.map_or(ANY, i64::from),
                tid: open.tid.map_or(ANY, i64::from),
            })
            .collect();
        id_index(&entries, out);
    }

    /// Appends what each event lost since the last time, where the kernel counts
    /// that.
    pub(crate) fn last(&mut self, tally: &Tally, out: &mut Vec<u8>) {
        let was_told = tally.lost > 0;
        for descriptors in self.newly_lost(Role::Samples) {
            lost_by_descriptor(&descriptors, was_told, |id, lost| {
                let body = Body::LostSamples(LostSamples { lost });
                append_short(&body, Misc(0), &Trailer { id, ..self.trailer }, out);
            });
        }
        // Beside descriptors that sample a 0 is worth telling, too: no side
        // band is among the samples that their event lost.
        let was_told = was_told && self.set.follows_by_cpus();
        for descriptors in self.newly_lost(Role::Tracks) {
            lost_by_descriptor(&descriptors, was_told, |id, lost| {
                // Not LOST_SAMPLES: readers take these for samples.
                let body = Body::Lost(Lost { id, lost });
                append_short(&body, Misc(0), &Trailer { id, ..self.trailer }, out);
            });
        }
    }

    /// Appends what was lost last, of which no record tells: the kernel tells of
    /// it before the next record of the ring. `told` is what records told of
    /// since the recording began; of which event that was they do not say, so
    /// that what is left is taken for samples as far as these were lost. As the
    /// kernel's, and not as counts of the whole recording, they have a time.
    pub(crate) fn newest(&self, told: u64, time: u64, out: &mut Vec<u8>) {
        let by_role = [Role::Samples, Role::Tracks].map(|role| {
            let by_id = self.set.lost_by_id(role).unwrap_or_default();
            let most = by_id.into_iter().flatten().max_by_key(|&(_, lost)| lost);
            let lost = self.set.lost(role).unwrap_or(0);
            (most.map_or(0, |(id, _)| id), lost)
        });
        let all = by_role.iter().map(|(_, lost)| lost).sum::<u64>();
        let mut left = all.saturating_sub(told);
        for (id, lost) in by_role {
            let lost = lost.min(left);
            left -= lost;
            if lost > 0 {
                let body = Body::Lost(Lost { id, lost });
                let trailer = Trailer {
                    id,
                    time,
                    ..self.trailer
                };
                append_short(&body, Misc(0), &trailer, out);
            }
        }
    }

    /// Of each event with this role: by descriptor what it lost since this was
    /// asked last.
    fn newly_lost(&mut self, role: Role) -> Vec<Vec<(u64, u64)>> {
        let mut by_id = self.set.lost_by_id(role).unwrap_or_default();
        for (id, lost) in by_id.iter_mut().flatten() {
            let before = self.told.insert(*id, *lost).unwrap_or(0);
            *lost = lost.saturating_sub(before);
        }
        by_id
    }

    /// The account of stacks, or of users who made code, if there is one.
    pub(crate) fn trust(&self, of_stacks: Option<String>) -> Option<String> {
        of_stacks.or_else(|| self.runtime_code.users())
    }

    /// Samples that were due in the whole recording, if far fewer came because
    /// tasks were too short.
    pub(crate) fn due(&self, tally: &Tally) -> Option<u64> {
        let due = self.set.samples_due()?;
        let lost = self.set.lost(Role::Samples).unwrap_or(tally.lost);
        let came = tally.samples.saturating_add(lost);
        too_few(came, due, tally).then_some(due)
    }

    /// The sections that are known only at the end.
    pub(crate) fn features(&self, tally: &Tally, trust: Option<String>) -> Features {
        let mut features = Features::default();
        self.synthesizer.build_ids(&mut features);
        if tally.first <= tally.last {
            features.sample_time(tally.first, tally.last);
        }
        if let Some(trust) = trust {
            features.trust(&trust);
        }
        features
    }
}

/// Whether so few samples came of those due that tasks were too short.
pub(crate) fn too_few(came: u64, due: u64, tally: &Tally) -> bool {
    const MANY_TASKS: u64 = 20;
    /// Fewer than these say nothing.
    const MANY_SAMPLES: u64 = 20;
    const MISSING: u64 = 10;
    due >= MANY_SAMPLES
        && due.saturating_sub(came) > due / MISSING
        && tally.throttled == 0
        && tally.ended_tasks >= MANY_TASKS
}

/// Tells (id, count) of each descriptor of an event that lost something.
/// `was_told` says that there are LOST records: where nothing of the event was
/// among what these tell of, a count of 0 says so.
fn lost_by_descriptor(descriptors: &[(u64, u64)], was_told: bool, mut tell: impl FnMut(u64, u64)) {
    let mut is_told = false;
    for &(id, lost) in descriptors.iter().filter(|&&(_, lost)| lost > 0) {
        tell(id, lost);
        is_told = true;
    }
    if let (Some(&(id, lost)), true, false) = (descriptors.first(), was_told, is_told) {
        tell(id, lost);
    }
}

/// The sections about the chosen clock, if one was chosen.
pub(crate) fn clock_features(options: &Options, features: &mut Features) {
    let Some(chosen) = options.used_clock() else {
        return;
    };
    if let Ok(ns) = clock::resolution(chosen.id) {
        features.clock_resolution(ns);
    }
    let both = (clock::now(clock::REALTIME), clock::now(chosen.id));
    if let ((Ok(wall_clock), Ok(clock)), Ok(clockid)) = (both, u32::try_from(chosen.id)) {
        features.clock_data(&ClockData {
            version: 1,
            clockid,
            wall_clock,
            clock,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::lost_by_descriptor;

    /// (count, id) of each record.
    fn told(descriptors: &[(u64, u64)], was_told: bool) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        lost_by_descriptor(descriptors, was_told, |id, lost| out.push((lost, id)));
        out
    }

    #[test]
    fn each_descriptor_tells_what_it_lost() {
        // covers live: RF-05, REC-02
        assert_eq!(told(&[(7, 0), (8, 90), (9, 3)], true), [(90, 8), (3, 9)]);
    }

    #[test]
    fn lost_records_without_a_sample_among_them_are_told_apart() {
        // covers unit: RF-05
        assert_eq!(told(&[(7, 0), (8, 0)], true), [(0, 7)]);
        assert_eq!(told(&[(7, 0), (8, 0)], false), []);
        assert_eq!(told(&[], true), []);
    }
}
