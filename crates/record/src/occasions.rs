//! Events that have a recording go on in another file (`--switch-output-event`).

use crate::error::RecordError;
use crate::events::{EventSpec, Rate, fields_of};
use crate::hints::{Refusal, Step, Whose};
use crate::open::{filter_text, open_event};
use crate::options::{Options, Target};
use crate::planned::is_clock;
use crate::setup::read_number;
use crate::synthesize::online_cpus;
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, event_kind};
use prof_sys::process::effective_user;
use prof_sys::{Event, OpenError, PollSet, Ring, page_size};
use std::os::fd::AsFd;

/// Bytes of each ring: what is in it is not looked at.
const RING_BYTES: usize = 4096;

/// The events of a CPU, and the ring that they share.
#[derive(Debug)]
struct OfCpu {
    events: Vec<Event>,
    ring: Ring,
    /// In the set of what is waited for.
    place: usize,
}

/// The events, which are of all that runs on the machine, as perf's, or of the
/// target, where it is a running one or this user may not watch the machine.
#[derive(Debug, Default)]
pub(crate) struct Occasions {
    cpus: Vec<OfCpu>,
}

impl Occasions {
    /// Opens them; nothing is on yet.
    pub(crate) fn open(
        options: &Options,
        tasks: &[Option<u32>],
        notices: &mut dyn FnMut(&str),
    ) -> Result<Self, RecordError> {
        let specs = options.switch_events.as_slice();
        if let Some(spec) = specs.iter().find(|spec| spec.tool.is_some()) {
            return Err(RecordError::NoSamples {
                event: spec.name.clone(),
            });
        }
        if let Some(spec) = specs.iter().find(|spec| needs_rate(spec)) {
            return Err(RecordError::TooOften {
                event: spec.name.clone(),
            });
        }
        let is_attached = matches!(options.target, Target::Processes(_) | Target::Threads(_));
        if is_attached {
            return Self::of_tasks(specs, (tasks, Whose::Attached));
        }
        let opened = Self::on_cpus(specs, &[None], Whose::System);
        match (opened, &options.target) {
            (Err(refusal), Target::Command(_)) if is_forbidden(&refusal) => {
                notices(
                    "--switch-output-event is of the command alone: you may not watch the \
                     whole machine",
                );
                Self::of_tasks(specs, (tasks, Whose::Launched))
            }
            (opened, _) => opened.map_err(RecordError::Refused),
        }
    }

    fn of_tasks(
        specs: &[EventSpec],
        (tasks, whose): (&[Option<u32>], Whose),
    ) -> Result<Self, RecordError> {
        Self::on_cpus(specs, tasks, whose).map_err(RecordError::Refused)
    }

    /// On each CPU, of these tasks or, with `None`, of all.
    fn on_cpus(
        specs: &[EventSpec],
        tasks: &[Option<u32>],
        whose: Whose,
    ) -> Result<Self, Box<Refusal>> {
        let mut cpus = Vec::new();
        for cpu in online_cpus() {
            let mut of_cpu: Option<OfCpu> = None;
            for spec in specs {
                for &tid in tasks {
                    let opened = open_on(spec, (tid, cpu), whose, &mut of_cpu);
                    opened.map_err(|(step, errno)| {
                        let (name, kind) = (spec.name.clone(), spec.attr.kind);
                        Box::new(Refusal {
                            step,
                            cpu: Some(cpu),
                            tid,
                            root: effective_user() == 0,
                            kernel: !spec.attr.flags.has(AttrFlags::EXCLUDE_KERNEL),
                            filter: filter_text(spec.filter.as_deref()),
                            fields: fields_of(&spec.attr),
                            paranoid: read_number("/proc/sys/kernel/perf_event_paranoid"),
                            ..Refusal::to_open(name, kind, whose, errno)
                        })
                    })?;
                }
            }
            cpus.extend(of_cpu);
        }
        Ok(Self { cpus })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Switches them on, and has the set wait for them.
    pub(crate) fn begin(&mut self, poll: &mut PollSet) {
        for cpu in &mut self.cpus {
            for event in &cpu.events {
                // Fails only for a task that has ended.
                let _ = event.enable();
            }
            if let Some(owner) = cpu.events.first() {
                cpu.place = poll.add(owner.as_fd());
            }
        }
    }

    /// Whether one of them occurred since this was asked last.
    pub(crate) fn came(&mut self, poll: &mut PollSet) -> bool {
        let mut records = Vec::new();
        for cpu in &mut self.cpus {
            cpu.ring.take(&mut records);
            if poll.is_hung_up(cpu.place) {
                // It would be so for ever.
                poll.replace(cpu.place, None);
            }
        }
        !records.is_empty()
    }
}

/// Opens one more event of a CPU; fails with what was being done, and the errno.
fn open_on(
    spec: &EventSpec,
    (tid, cpu): (Option<u32>, u32),
    whose: Whose,
    of_cpu: &mut Option<OfCpu>,
) -> Result<(), (Step, i32)> {
    let target = match tid {
        Some(tid) => prof_sys::Target::Task {
            tid,
            cpu: Some(cpu),
        },
        None => prof_sys::Target::Cpu(cpu),
    };
    let mut asked = attr(spec, whose);
    let open = |asked: &EventAttr| open_event(asked, spec.probe.as_deref(), target, None);
    let mut opened = open(&asked);
    let is_forbidden = |error: &OpenError| matches!(error.errno(), libc::EACCES | libc::EPERM);
    if opened.as_ref().is_err_and(is_forbidden) && tid.is_some() && spec.may_drop_kernel() {
        // As what is sampled.
        asked.flags = asked
            .flags
            .with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
        opened = open(&asked);
    }
    let event = match opened {
        Ok(event) => event,
        // The task has ended, or the CPU went offline.
        Err(error) if matches!(error.errno(), libc::ESRCH | libc::ENODEV) => return Ok(()),
        Err(error) => return Err((Step::Open, error.errno())),
    };
    let failed =
        |step| move |error: std::io::Error| (step, error.raw_os_error().unwrap_or_default());
    if let Some(filter) = &spec.filter {
        event.set_filter(filter).map_err(failed(Step::Filter))?;
    }
    if let Some(open) = of_cpu {
        let shared = event.set_output(open.events.first());
        shared.map_err(failed(Step::Share))?;
        open.events.push(event);
        return Ok(());
    }
    let ring = Ring::map(&event, RING_BYTES.div_ceil(page_size()));
    *of_cpu = Some(OfCpu {
        ring: ring.map_err(failed(Step::Map))?,
        events: vec![event],
        place: 0,
    });
    Ok(())
}

fn is_forbidden(refusal: &Refusal) -> bool {
    matches!(refusal.errno, libc::EACCES | libc::EPERM) && refusal.step == Step::Open
}

/// What perf asks for, but that each occurrence counts where no period is given:
/// perf's then are of no effect.
fn attr(spec: &EventSpec, whose: Whose) -> EventAttr {
    let mut attr = spec.attr.clone();
    attr.sample_type = SampleType::IDENTIFIER;
    attr.read_format = ReadFormat::ID;
    attr.wakeup = 1;
    attr.flags = attr
        .flags
        .with(AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL | AttrFlags::WATERMARK);
    if !spec.modes.guests && !spec.modes.given {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_GUEST);
    }
    match spec.rate.unwrap_or(Rate::Period(1)) {
        Rate::Period(events) => attr.sample_period = events,
        Rate::Frequency(hz) => {
            attr.sample_period = hz;
            attr.flags = attr.flags.with(AttrFlags::FREQ);
        }
    }
    if whose == Whose::Launched {
        attr.flags = attr.flags.with(AttrFlags::ENABLE_ON_EXEC);
    }
    if whose != Whose::System && spec.may_be_inherited() {
        attr.flags = attr.flags.with(AttrFlags::INHERIT);
    }
    attr
}

/// Whether it occurs so often that a period must be given.
fn needs_rate(spec: &EventSpec) -> bool {
    let counts_cycles = matches!(
        spec.attr.kind,
        event_kind::HARDWARE | event_kind::CACHE | event_kind::RAW
    );
    spec.rate.is_none() && (counts_cycles || is_clock(&spec.attr))
}
