//! A recording from its options to its summary:
//! launch or find the target → open events → write and drain → end → tell.

use crate::attach;
use crate::control::{Control, EndedBy};
use crate::drain::{Drainer, Shared};
use crate::error::{RecordError, no_thread, system};
use crate::framing::{Framing, clock_features};
use crate::open::{OpenEvent, OpenSet, Witness};
use crate::options::{Options, Stacks, Target};
use crate::output::{Opened, Output, OutputError};
use crate::rounds::Rounds;
use crate::setup;
use crate::snapshots;
use crate::stage::Stage;
use crate::summary::Summary;
use crate::synthesize::{MachineFacts, machine_features};
use crate::tally::Counter;
use crate::tracing_data;
use crate::trim::Trim;
use crate::why_empty::why_empty;
use crate::writing::{FLUSH_EVERY, Writing, Written};
use prof_abi::event_kind;
use prof_perfdata::write::EventDescription;
use prof_sys::limits::{self, Limit, Resource};
use prof_sys::process::Ended;
use prof_sys::prompt::{run_first, run_soon};
use prof_sys::{ExecError, Launched, RingView, clock};
use std::ffi::OsString;
use std::time::Instant;

/// A recording that was made.
#[derive(Debug)]
pub struct Finished {
    /// What it has.
    pub summary: Summary,
    /// What ended it.
    pub ended_by: EndedBy,
    /// How the command ended, if there was one.
    pub command: Option<Ended>,
    /// Why there are no samples, if there are none.
    pub why_empty: Option<String>,
    /// Why the file is not complete; what was flushed before is readable.
    pub failure: Option<OutputError>,
}

/// Makes a recording. `notices` gets lines that a user should see at once,
/// such as which event is used instead of another.
///
/// Signals are blocked in this thread meanwhile and taken as wishes to end.
/// The command is never ended because of an error of ours.
pub fn record(
    options: &Options,
    stage: Option<Box<dyn Stage>>,
    notices: &mut dyn FnMut(&str),
) -> Result<Finished, RecordError> {
    run(options, stage, notices).map_err(RecordError::with_limit)
}

/// The phases of a recording.
fn run(
    options: &Options,
    stage: Option<Box<dyn Stage>>,
    notices: &mut dyn FnMut(&str),
) -> Result<Finished, RecordError> {
    let began = (Instant::now(), clock::own_cpu_time());
    limits::give_freed_memory_back();
    let mut control = Control::new().map_err(system("take signals"))?;
    let mut launched = launch(options, &control)?;
    if let Some(priority) = options.realtime {
        // The command has been forked and keeps its own; threads get this.
        run_first(priority).map_err(|source| RecordError::RealTime { priority, source })?;
    }
    // If that is not enough, opening says which limit it met.
    let _ = Limit::raise(Resource::OpenFiles);
    let output = open_output(options, &mut control, notices)?;
    let tasks = attach::tasks(&options.target, launched.as_ref().map(Launched::pid))?;
    let (set, early) = setup::open(options, &tasks, notices)?;
    if let (None, None, Some(what)) = (&launched, options.duration, options.target.endless()) {
        notices(&format!("recording {what}; Ctrl-C ends it"));
    }
    let plan = Plan {
        options,
        output,
        tasks,
        early,
    };
    let (ended_by, set, file, written) = plan.run(set, stage, &mut control, launched.as_mut())?;
    if let (Err(error), Some(_)) = (&written.result, &launched) {
        notices(&format!(
            "recording has ended ({error}); the command goes on"
        ));
    }
    let command = launched
        .as_ref()
        .and_then(|launched| control.wait_for_command(launched, ended_by, notices));
    let summary = Summary {
        kept: written.kept,
        ..Summary::new(&set, written.tally, written.bytes, file, began)
    };
    let is_empty = summary.tally.samples == 0 && written.result.is_ok();
    Ok(Finished {
        why_empty: is_empty.then(|| why_empty(options, &set, summary.elapsed)),
        summary: match written.result {
            Ok(()) => summary,
            Err(_) => summary.ending_early(),
        },
        ended_by,
        command,
        failure: written.result.err(),
    })
}

/// What the phases after opening need.
struct Plan<'a> {
    options: &'a Options,
    output: Opened,
    tasks: Vec<Option<u32>>,
    /// Records read while attaching.
    early: Vec<Vec<u8>>,
}

type Ran = (EndedBy, OpenSet, std::path::PathBuf, Written);

impl Plan<'_> {
    /// Creates the output, runs the threads, and takes down what they say.
    fn run(
        self,
        mut set: OpenSet,
        mut stage: Option<Box<dyn Stage>>,
        control: &mut Control,
        launched: Option<&mut Launched>,
    ) -> Result<Ran, RecordError> {
        let options = self.options;
        let patience = stage.as_ref().map_or(FLUSH_EVERY, |stage| stage.patience());
        let mut shared = Shared::new(patience).map_err(system("make a descriptor"))?;
        let rings = std::mem::take(&mut set.rings);
        let opened = descriptions(&set, None);
        let written = descriptions(&set, stage.as_deref());
        let mut output = create_output(options, &set, self.output, &written)?;
        let file = output.path().to_owned();
        shared.reader = output.reader();
        let trim = trim(options, &set, &opened);
        if let Some(stage) = &mut stage {
            stage.begin(&opened);
        }
        let snapshots = stage.as_ref().and_then(|stage| stage.snapshots());
        let views: Vec<RingView> = rings.iter().map(|slot| slot.ring.view()).collect();
        let watch = set
            .witness
            .as_ref()
            .map(|witness| snapshots::Watch::new(witness, reading_share(options)));
        let (queue, pieces) = crossbeam_channel::unbounded();
        let (spare, spares) = crossbeam_channel::bounded(SPARE_BUFFERS);
        for records in self.early {
            shared.queued(records.len());
            // The receiver lives in this function.
            let _ = queue.send(records);
        }
        let writing = Writing {
            output,
            stage,
            counter: Counter::new(&opened[0].attr),
            rounds: Rounds::new(&opened[0].attr),
            max_size: options.max_size,
            tracing_data: tracing_data::section(tracepoints(&set)),
            shared: &shared,
            spare,
            framing: Framing::new(options, &set, self.tasks, &written[0]),
            scratch: Vec::new(),
        };
        let (ended, result) = std::thread::scope(|scope| {
            let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
            let drainer = Drainer::new(rings, &set.events, &shared, queue, spares).trimming(trim);
            // First the one that ends by itself when the other is not there.
            let writes = thread("write")
                .spawn_scoped(scope, || {
                    hurry(options);
                    writing.run(&pieces)
                })
                .map_err(no_thread)?;
            let drains = thread("drain")
                .spawn_scoped(scope, || {
                    hurry(options);
                    drainer.run();
                })
                .map_err(no_thread)?;
            if let (Some(orders), Some(watch)) = (&snapshots, &watch) {
                for reader in
                    snapshots::readers(orders, &views, &set.events, &opened, watch, &shared)
                {
                    // Without one, stacks are read later, and some not at all.
                    let _ = thread("read").spawn_scoped(scope, || {
                        hurry(options);
                        reader.run(&shared.stop);
                    });
                }
            }
            let ended = start(options, &set, launched).map(|launched| {
                let launched: Option<&Launched> = launched.map(|launched| &*launched);
                let ended_by = control.wait(options, &set, launched, &shared);
                (ended_by, launched)
            });
            set.disable();
            shared.stop_draining();
            if let Some(snapshots) = &snapshots {
                snapshots.wake_all();
            }
            drains.join().expect("the draining thread does not panic");
            let launched = ended.as_ref().ok().and_then(|(_, launched)| *launched);
            control.wait_for_writer(launched, &shared);
            let written = writes.join().expect("the writing thread does not panic");
            let ended_by = ended.map(|(ended_by, _)| ended_by);
            Ok::<_, RecordError>((ended_by, written))
        })?;
        Ok((ended?, set, file, result))
    }
}

/// What the stage unwinds does not go to the file.
fn trim(options: &Options, set: &OpenSet, opened: &[EventDescription]) -> Option<Trim> {
    matches!(options.stacks, Stacks::Unwound(_)).then(|| {
        let witness = set.witness.as_ref().map(Witness::ids);
        Trim::new(opened, witness.unwrap_or_default())
    })
}

/// The share of the time that readers of deep stacks may take.
fn reading_share(options: &Options) -> u32 {
    match options.target {
        Target::System => snapshots::SHARE_OF_SYSTEM,
        _ => snapshots::SHARE_OF_TARGET,
    }
}

/// Makes the most of the calling thread's turns: on a busy machine samples get
/// lost otherwise.
fn hurry(options: &Options) {
    if options.realtime.is_none() {
        run_soon();
    }
}

/// Buffers kept for reuse.
const SPARE_BUFFERS: usize = 3;

fn command_of(options: &Options) -> Option<&[OsString]> {
    match &options.target {
        Target::Command(command) => Some(command),
        _ => options.beside.as_deref(),
    }
}

/// Starts a process that waits, if there is a command.
fn launch(options: &Options, control: &Control) -> Result<Option<Launched>, RecordError> {
    let Some(command) = command_of(options) else {
        return Ok(None);
    };
    let program = command.first().cloned().unwrap_or_default();
    let wrong = |source| RecordError::Command {
        program: program.clone(),
        source,
    };
    // Before anything is opened or an old recording is renamed.
    setup::look_up(&program).map_err(|error| wrong(ExecError::Exec(error)))?;
    Launched::fork(command, control.changed())
        .map(Some)
        .map_err(wrong)
}

/// Lets events and command begin.
fn start<'a>(
    options: &Options,
    set: &OpenSet,
    launched: Option<&'a mut Launched>,
) -> Result<Option<&'a mut Launched>, RecordError> {
    setup::enable(options, set);
    let Some(launched) = launched else {
        return Ok(None);
    };
    launched.start().map_err(|source| RecordError::Command {
        program: command_of(options)
            .and_then(|command| command.first().cloned())
            .unwrap_or_default(),
        source,
    })?;
    Ok(Some(launched))
}

/// The names of the tracepoints among the events.
fn tracepoints(set: &OpenSet) -> impl Iterator<Item = &str> {
    set.events
        .iter()
        .map(|event| &event.planned)
        .filter(|planned| planned.attr.kind == event_kind::TRACEPOINT)
        .map(|planned| planned.name.as_str())
}

/// The events for the file, as they leave the stage if there is one.
fn descriptions(set: &OpenSet, stage: Option<&dyn Stage>) -> Vec<EventDescription> {
    set.events
        .iter()
        .map(|event| {
            let opened = &event.planned.attr;
            EventDescription {
                attr: stage.map_or_else(|| opened.clone(), |stage| stage.written_attr(opened)),
                ids: event.ids(),
                name: event.planned.name.clone(),
            }
        })
        .collect()
}

/// Name, leader and number of members of each group of several events.
fn groups(set: &OpenSet) -> Vec<(String, u32, u32)> {
    let leads = |&(index, event): &(usize, &OpenEvent)| event.planned.leader == Some(index);
    let groups = set.events.iter().enumerate().filter(leads);
    groups
        .map(|(index, event)| {
            let members = set.events.iter();
            let members = members.filter(|member| member.planned.leader == Some(index));
            // As perf calls a group without a name, which its readers know.
            let name = event
                .planned
                .group_name
                .as_deref()
                .unwrap_or("{anon_group}");
            (name.to_owned(), index as u32, members.count() as u32)
        })
        .filter(|&(_, _, members)| members > 1)
        .collect()
}

/// Opens the destination; signals end the wait for a reader.
fn open_output(
    options: &Options,
    control: &mut Control,
    notices: &mut dyn FnMut(&str),
) -> Result<Opened, RecordError> {
    let mut came = None;
    let mut is_told = false;
    let opened = options.destination.open(&mut |tick| {
        if !is_told {
            is_told = true;
            notices("waiting for a reader of the FIFO");
        }
        came = control.quiet_for(tick).err();
        came.is_none()
    });
    opened.map_err(|doing| match came {
        Some(signal) => RecordError::Interrupted { doing, signal },
        None => doing.into(),
    })
}

fn create_output(
    options: &Options,
    set: &OpenSet,
    opened: Opened,
    written: &[EventDescription],
) -> Result<Output, RecordError> {
    let mut features = machine_features(&MachineFacts {
        version: &options.version,
        command_line: &options.command_line,
        events: written,
    });
    clock_features(options, &mut features);
    let groups = groups(set);
    if !groups.is_empty() {
        features.groups(&groups);
    }
    if matches!(options.stacks, Stacks::Unwound(_)) {
        // The account comes at the end; a stream that is cut says at least by
        // whom the chains were made.
        features.trust("{}");
    }
    Ok(Output::begin(opened, written, features)?)
}
