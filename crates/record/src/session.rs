//! A recording from its options to its summary:
//! launch or find the target → open events → write and drain → end → tell.

use crate::attach;
use crate::commands::Commands;
use crate::consumer::Consume;
use crate::control::{CommandUsed, Control, EndedBy};
use crate::descendants::left_behind;
use crate::error::{RecordError, system};
use crate::events::missed_by_probe;
use crate::late_tasks::LateTasks;
use crate::left_over;
use crate::occasions::Occasions;
use crate::open::OpenSet;
use crate::options::{Options, Target};
use crate::output::{Destination, Opened};
use crate::output_error::OutputError;
use crate::program_file;
use crate::recording::{Ran, Recording, Way, command_of};
use crate::setup;
use crate::summary::Summary;
use crate::trapped::trapped;
use crate::why_empty::why_empty;
use prof_abi::AttrFlags;
use prof_sys::limits::{self, Limit, Resource};
use prof_sys::process::Ended;
use prof_sys::prompt::run_first;
use prof_sys::{ExecError, Launched, clock};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

/// A recording that was made.
#[derive(Debug)]
pub struct Finished {
    /// What it has.
    pub summary: Summary,
    /// What ended it.
    pub ended_by: EndedBy,
    /// How the command ended, if there was one.
    pub command: Option<Ended>,
    /// Why nobody knows how the command ended: it could not be waited for. Then
    /// [`Finished::command`] is a failure.
    pub unknown_end: Option<std::io::Error>,
    /// What the command used, if there was one.
    pub used: Option<CommandUsed>,
    /// Why there are no samples, if there are none.
    pub why_empty: Option<String>,
    /// What the command started and what still runs, where the recording ended with
    /// the command: a line for the user.
    pub left_behind: Option<String>,
    /// Why the file is not complete; what was flushed before is readable.
    pub failure: Option<OutputError>,
}

impl Finished {
    /// A line for the user where a watched address may have ended the command
    /// ([`trapped`]).
    #[must_use]
    pub fn trapped_line(&self) -> Option<&'static str> {
        self.summary
            .watches_addresses
            .then(|| trapped(self.command))?
    }
}

/// Makes a recording into [`Options::destination`]. `notices` gets lines that a
/// user should see at once, such as which event is used instead of another.
///
/// Signals are blocked in this thread meanwhile and taken as wishes to end; in
/// a program with other threads these should block them, too. The command is
/// never ended because of an error of ours.
///
/// # Errors
/// If nothing could be recorded. What ended a recording early is in
/// [`Finished::failure`].
pub fn record(options: &Options, notices: &mut dyn FnMut(&str)) -> Result<Finished, RecordError> {
    run(options, None, notices).map_err(RecordError::with_limit)
}

/// Makes a recording whose records go to what `consume` makes, and to no file:
/// [`Options::destination`] is not looked at.
///
/// # Errors
/// As [`record`].
pub fn record_into(
    options: &Options,
    consume: Consume<'_>,
    notices: &mut dyn FnMut(&str),
) -> Result<Finished, RecordError> {
    run(options, Some(consume), notices).map_err(RecordError::with_limit)
}

/// Buffers that grow for a moment, of drains and of records that wait, are not
/// kept by the allocator from here on, bytes: a recording may last for days.
const LARGE: usize = 256 << 10;

/// When a recording began, and the CPU time of this process until then.
type Began = (Instant, Duration);

/// The phases of a recording.
fn run(
    options: &Options,
    consume: Option<Consume<'_>>,
    notices: &mut dyn FnMut(&str),
) -> Result<Finished, RecordError> {
    let began = (Instant::now(), clock::own_cpu_time());
    limits::give_freed_memory_back(LARGE);
    // Before descriptors of ours have the numbers that are asked for.
    let commands = options.commands.as_ref().map(Commands::open);
    let commands = commands.transpose().map_err(RecordError::Commands)?;
    let mut control = Control::new(options).map_err(system("take signals"))?;
    control.listen_to(commands);
    let mut launched = launch(options, &control)?;
    if let Some(priority) = options.realtime {
        // The command has been forked and keeps its own; threads get this.
        run_first(priority).map_err(|source| RecordError::RealTime { priority, source })?;
    }
    // If that is not enough, opening says which limit it met.
    let _ = Limit::raise(Resource::OpenFiles);
    let way = match consume {
        Some(consume) => Way::Caller(consume),
        None => Way::Output(open_output(options, &mut control, notices)?),
    };
    let tasks = attach::tasks(options, launched.as_ref().map(Launched::pid))?;
    let opened = setup::open(options, &tasks, notices)?;
    control.watches(Occasions::open(options, &tasks, notices)?);
    let late = late_tasks(options, &tasks);
    if let (None, None, Some(what)) = (&launched, options.duration, options.target.endless()) {
        notices(&format!("recording {what}; Ctrl-C ends it"));
    }
    let recording = Recording::new(options, way, tasks, opened)?;
    let ran = recording.run(&mut control, launched.as_mut(), notices)?;
    if let (Err(error), Some(_)) = (&ran.written.result, &launched) {
        notices(&format!(
            "recording has ended ({error}); the command goes on"
        ));
    }
    tell_of_missed_tasks(late, &ran.set, notices);
    let command = launched
        .as_ref()
        .and_then(|launched| control.wait_for_command(launched, ran.ended_by, notices));
    Ok(Finished {
        unknown_end: control.take_unknown(),
        ..finished(options, ran, command, began)
    })
}

/// Where probes miss tasks that start later.
fn late_tasks(options: &Options, tasks: &[Option<u32>]) -> Option<LateTasks> {
    if !options.inherit || options.per_thread || !LateTasks::are_missed(&options.events) {
        return None;
    }
    let flags = match options.target {
        // Of threads that were named no others are meant.
        Target::System | Target::Threads(_) => return None,
        Target::Command(_) => AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC,
        Target::Processes(_) => AttrFlags(0),
    };
    let tids = tasks.iter().copied().flatten();
    let targets: Vec<_> = tids
        .map(|tid| prof_sys::Target::Task { tid, cpu: None })
        .collect();
    LateTasks::open(&targets, flags)
}

fn tell_of_missed_tasks(late: Option<LateTasks>, set: &OpenSet, notices: &mut dyn FnMut(&str)) {
    if !late.is_some_and(|late| late.have_run().unwrap_or(true)) {
        return;
    }
    let planned = set.events.iter().map(|event| &event.planned);
    for event in planned.filter(|it| it.misses_tasks()) {
        notices(&missed_by_probe(&event.name));
    }
}

/// How many of a series of so many finished files are gone where only so many stay.
fn removed(most: Option<usize>, finished: usize) -> usize {
    most.map_or(0, |most| finished.saturating_sub(most))
}

/// What is told of a recording that ran.
fn finished(
    options: &Options,
    ran: Ran,
    command: Option<(Ended, CommandUsed)>,
    began: Began,
) -> Finished {
    let Ran {
        ended_by,
        set,
        file,
        written,
    } = ran;
    // The last one is none of them if it could not be finished.
    let files = written.files_before + usize::from(written.result.is_ok());
    let summary = Summary {
        kept: written.kept,
        waits: written.waits,
        stacks: written.stacks,
        files_before: written.files_before,
        files_removed: removed(options.parting().most_files, files),
        ..Summary::new(
            &set,
            written.tally,
            written.bytes,
            written.file.unwrap_or(file),
            began,
        )
    };
    let has_some = summary.tally.samples > 0 || summary.tally.traced > 0;
    let is_empty = !has_some && written.result.is_ok();
    let left_behind = match (&options.target, ended_by) {
        (Target::Command(command), EndedBy::Command) => {
            let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
            left_behind(program, &written.descendants.alive())
        }
        _ => None,
    };
    Finished {
        left_behind,
        why_empty: is_empty.then(|| why_empty(options, &set, &summary, ended_by)),
        summary: match written.result {
            Ok(()) if options.flight.is_none() => summary,
            _ => summary.of_a_part(),
        },
        ended_by,
        command: command.map(|(ended, _)| ended),
        unknown_end: None,
        used: command.map(|(_, used)| used),
        failure: written.result.err(),
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
    // A path is one from where the command begins.
    let sought = match &options.around.directory {
        Some(directory) if program.as_encoded_bytes().contains(&b'/') => {
            directory.join(&program).into_os_string()
        }
        _ => program.clone(),
    };
    program_file::look_up(&sought).map_err(|error| wrong(ExecError::Exec(error)))?;
    let user = options.user.as_ref();
    let mut around = options.around.clone();
    // What the command prints would stand between the records.
    around.has_no_output |= options.destination == Destination::Stdout;
    Launched::fork_as(command, control.changed(), user, &around)
        .map(Some)
        .map_err(wrong)
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
    let opened = opened.map_err(|doing| match came {
        Some(signal) => RecordError::Interrupted { doing, signal },
        None => doing.into(),
    })?;
    if let Opened::File(path) = &opened {
        left_over::tell(path, notices);
    }
    Ok(opened)
}
