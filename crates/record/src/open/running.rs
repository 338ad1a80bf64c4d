//! What is done to open events while they record: turned on and off, and read.

use super::{Descriptor, DescriptorRole, OpenEvent, OpenSet, is_gone};
use crate::hints::Whose;
use crate::planned::{self, OnCpus, Planned, Role};
use prof_abi::ReadFormat;
use prof_sys::Event;
use std::sync::atomic::Ordering;

impl OpenSet {
    /// Does `what` to each descriptor, leaders only where there are groups.
    ///
    /// # Errors
    /// The last one that is not a task's that has ended.
    fn each_leader(
        &self,
        role: Option<Role>,
        what: fn(&Event) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut done = Ok(());
        for (index, event) in self.events.iter().enumerate() {
            let is_member = event.planned.leader.is_some_and(|leader| leader != index);
            if is_member || role.is_some_and(|role| role != event.planned.role) {
                continue;
            }
            let used = event.descriptors.iter();
            for open in used.filter(|open| self.uses(event, open.part)) {
                match what(&open.event) {
                    Err(error) if !is_gone(&error) => done = Err(error),
                    _ => {}
                }
            }
        }
        done
    }

    /// Whether a part of an event works now.
    pub(super) fn uses(&self, event: &OpenEvent, part: DescriptorRole) -> bool {
        let is_on_cpus = match event.planned.on_cpus {
            OnCpus::Never => false,
            OnCpus::WhenNeeded => self.samples_cpus(),
            OnCpus::Always => true,
        };
        match part {
            DescriptorRole::Whole
            | DescriptorRole::OfTasks
            | DescriptorRole::Choosing
            | DescriptorRole::Taking => true,
            DescriptorRole::OfCpu => is_on_cpus,
            DescriptorRole::InTasks => !is_on_cpus && !self.is_shallow(),
            DescriptorRole::Shallow => !is_on_cpus && self.is_shallow(),
        }
    }

    /// Starts what samples whole CPUs, which no exec starts.
    pub(crate) fn enable_on_cpus(&self) -> std::io::Result<()> {
        self.each_part(DescriptorRole::OfCpu, Event::enable)
    }

    /// Goes from samples of tasks to samples of whole CPUs.
    pub(crate) fn go_on_by_cpus(&self) {
        // ORDERING: Relaxed; a flag alone, looked at by the thread that sets
        // it, and by others when that has ended.
        self.by_cpus.store(true, Ordering::Relaxed);
        // It was done to the same events when the recording began.
        let _ = self.each_part(DescriptorRole::InTasks, Event::disable);
        let _ = self.each_part(DescriptorRole::Shallow, Event::disable);
        let _ = self.enable_on_cpus();
    }

    /// Whether less is copied of stacks now.
    fn is_shallow(&self) -> bool {
        // ORDERING: Relaxed, as `by_cpus`; the events are switched by the thread that
        // sets it, while no other does.
        self.is_shallow.load(Ordering::Relaxed)
    }

    /// Whether there are samples of tasks with less of each stack.
    pub(crate) fn may_be_shallow(&self) -> Option<u32> {
        let mut events = self.events.iter();
        events.find_map(|event| event.planned.shallow_piece)
    }

    /// Has less copied of each stack from now on, or as much as before; false where that
    /// was so, or samples are of whole CPUs by now. Between the two there is no sample for
    /// some us.
    pub(crate) fn copy_shallow(&self, is_shallow: bool) -> bool {
        if self.samples_cpus() {
            return false;
        }
        // ORDERING: Relaxed, as in `is_shallow`.
        let was_shallow = self.is_shallow.swap(is_shallow, Ordering::Relaxed);
        let (on, off) = match is_shallow {
            true => (DescriptorRole::Shallow, DescriptorRole::InTasks),
            false => (DescriptorRole::InTasks, DescriptorRole::Shallow),
        };
        // As in `go_on_by_cpus`.
        let _ = self.each_part(off, Event::disable);
        let _ = self.each_part(on, Event::enable);
        was_shallow != is_shallow
    }

    /// Whether [`OpenSet::go_on_by_cpus`] was called, or samples are of whole
    /// CPUs from the start.
    pub(crate) fn samples_cpus(&self) -> bool {
        let always = |event: &OpenEvent| event.planned.on_cpus == OnCpus::Always;
        // ORDERING: Relaxed, as above.
        self.by_cpus.load(Ordering::Relaxed) || self.events.iter().any(always)
    }

    fn each_part(
        &self,
        part: DescriptorRole,
        what: fn(&Event) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut done = Ok(());
        for event in &self.events {
            let used = event.descriptors.iter().filter(|open| open.part == part);
            for open in used.filter(|_| part != DescriptorRole::OfCpu || self.uses(event, part)) {
                match what(&open.event) {
                    Err(error) if !is_gone(&error) => done = Err(error),
                    _ => {}
                }
            }
        }
        done
    }

    /// The samples that were due for the time that the target's tasks ran, where
    /// that is known and samples are of tasks.
    pub(crate) fn samples_due(&self) -> Option<u64> {
        let first = self.events.first()?;
        if self.samples_cpus() || self.scope.whose == Whose::System || !self.samples_one_event() {
            return None;
        }
        let ns = match self.counting() {
            0 if planned::is_clock(&first.planned.attr) => self.count_of(0),
            0 => return None,
            _ => self.time_of_tasks(),
        };
        planned::samples_due(&first.planned.attr, ns)
    }

    /// Descriptors that count the target's tasks.
    pub(crate) fn counting(&self) -> usize {
        let descriptors = self.events.iter().flat_map(|event| &event.descriptors);
        let counting = |open: &&Descriptor| open.part == DescriptorRole::OfTasks;
        descriptors.filter(counting).count()
    }

    /// ns that the target's tasks ran so far, where that is counted.
    pub(crate) fn time_of_tasks(&self) -> u64 {
        let times = self.events.iter().flat_map(|event| {
            let counting = |open: &&Descriptor| open.part == DescriptorRole::OfTasks;
            let counting = event.descriptors.iter().filter(counting);
            counting.filter_map(|open| {
                let format = event.read_format(open.part);
                open.event.read_counts(format).ok()?.running
            })
        });
        times.fold(0, u64::saturating_add)
    }

    /// Starts the events of one role, or all.
    ///
    /// # Errors
    /// When the kernel refuses, but for tasks that have ended.
    pub(crate) fn enable(&self, role: Option<Role>) -> std::io::Result<()> {
        self.each_leader(role, Event::enable)
    }

    /// Stops the events of one role, or all.
    ///
    /// # Errors
    /// See [`OpenSet::enable`].
    pub(crate) fn disable(&self, role: Option<Role>) -> std::io::Result<()> {
        self.each_leader(role, Event::disable)
    }

    /// Whether the event with this name traces.
    pub(crate) fn traces(&self, name: &str) -> bool {
        let mut events = self.events.iter().map(|event| &event.planned);
        events.any(|planned| planned.name == name && planned.tracer.is_some())
    }

    /// Starts or stops the events with this name; `false` if there is none.
    pub(crate) fn switch_named(&self, name: &str, is_on: bool) -> bool {
        let what = if is_on { Event::enable } else { Event::disable };
        let named = |event: &&OpenEvent| event.planned.name == name;
        let mut found = false;
        for event in self.events.iter().filter(named) {
            found = true;
            let used = event.descriptors.iter();
            for open in used.filter(|open| self.uses(event, open.part)) {
                // Fails only for a task that has ended, which is no loss.
                let _ = what(&open.event);
            }
        }
        found
    }

    /// Of each event with this role: by descriptor its id and how many of its
    /// records found no room, as the kernel counts them. `None` if it does not
    /// (before Linux 6.0).
    pub(crate) fn lost_by_id(&self, role: Role) -> Option<Vec<Vec<(u64, u64)>>> {
        let events = self.events.iter().map(|event| &event.planned);
        let mut events =
            events.filter(|planned| planned.role == role || planned.on_cpus != OnCpus::Never);
        let is_counted = |planned: &Planned| planned.attr.read_format.has(ReadFormat::LOST);
        events.all(is_counted).then(|| {
            let events = self.events.iter();
            let by_id = events.map(|event| event.lost_by_id(role, &self.shares));
            by_id
                .filter(|descriptors| !descriptors.is_empty())
                .collect()
        })
    }

    /// Records that events with this role lost; `None` as above.
    pub(crate) fn lost(&self, role: Role) -> Option<u64> {
        let by_id = self.lost_by_id(role)?;
        let counts = by_id.iter().flatten().map(|&(_, lost)| lost);
        Some(counts.fold(0, u64::saturating_add))
    }

    /// Whether records of mappings and tasks come with descriptors of their own.
    pub(crate) fn has_tracking(&self) -> bool {
        let mut events = self.events.iter();
        events.any(|event| event.planned.role == Role::Tracks) || self.follows_by_cpus()
    }

    /// Whether samples are of whole CPUs, or may become so, of which only the
    /// target's are kept.
    pub(crate) fn follows_by_cpus(&self) -> bool {
        let mut events = self.events.iter();
        events.any(|event| event.planned.on_cpus != OnCpus::Never)
    }

    /// Whether all samples are of one event.
    pub(crate) fn samples_one_event(&self) -> bool {
        let events = self.events.iter();
        let roles = events.map(|event| event.planned.role);
        roles.filter(|&role| role == Role::Samples).count() == 1
    }

    /// The count of an event in the target.
    pub(crate) fn count_of(&self, index: usize) -> u64 {
        let Some(event) = self.events.get(index) else {
            return 0;
        };
        let of_target = event.descriptors.iter();
        let of_target = of_target.filter(|open| match open.part {
            DescriptorRole::Whole | DescriptorRole::OfTasks | DescriptorRole::Choosing => true,
            DescriptorRole::OfCpu
            | DescriptorRole::InTasks
            | DescriptorRole::Shallow
            | DescriptorRole::Taking => false,
        });
        let counts = of_target.filter_map(|open| {
            let format = event.read_format(open.part);
            let counts = open.event.read_counts(format).ok()?;
            counts.values.first().map(|count| count.value)
        });
        counts.fold(0, u64::saturating_add)
    }
}
