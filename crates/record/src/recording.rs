//! A recording whose events are open: its threads, from the first record to
//! the last.
//!
//! ```text
//! rings ─► drain ─► queue ─► write ─► consumer
//!             ▲                │
//!             └── read ◄───────┘      memory of deep stacks, one for each CPU
//! ```

use crate::choosing::{gate, thinner};
use crate::consumer::{Consume, Taker};
use crate::control::{Control, EndedBy};
use crate::descendants::Descendants;
use crate::drain::{Drainer, Shared};
use crate::error::{RecordError, no_thread, system};
use crate::flight::{Flight, Named};
use crate::framing::{Framing, clock_features};
use crate::open::{OpenEvent, OpenSet, RingSlot};
use crate::options::{Options, Stacks, Start, Target};
use crate::output::{Opened, Output};
use crate::output_error::OutputError;
use crate::placing::Placed;
use crate::plan;
use crate::queue::{Piece, Receiver, Sender, queue};
use crate::rights::Rights;
use crate::rounds::{Rounds, is_overwritten};
use crate::series::Series;
use crate::setup;
use crate::snapshots::{self, DeepStacks, WaitReader};
use crate::stream::Reader;
use crate::synthesize::{MachineFacts, machine_features, processes, threads_of};
use crate::tally::Counter;
use crate::tasks::process_of;
use crate::traces;
use crate::tracing_data;
use crate::tree::{Shares, Tree};
use crate::trim::Trim;
use crate::unwinding::{self, Unwinding};
use crate::waits::{
    self, OfRecording, Parts, ReadAlso, Sleepers, Thinner, Waits, Watch, Watcher, Whom,
};
use crate::witness::WitnessSamples;
use crate::writing::{FLUSH_EVERY, Parting, Writing, Written};
use prof_abi::{AttrFlags, event_kind};
use prof_live::Switches;
use prof_perfdata::GroupDescription;
use prof_perfdata::write::{EventDescription, Features, Packing};
use prof_sys::prompt::run_soon;
use prof_sys::{Launched, RingView};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, Scope, ScopedJoinHandle};

/// Where records go, as far as it is open before the events are.
pub(crate) enum Way<'a> {
    /// A file or stream.
    Output(Opened),
    /// What a caller makes of them.
    Caller(Consume<'a>),
}

impl<'a> Way<'a> {
    fn begin(
        self,
        options: &Options,
        events: &[EventDescription],
        features: Features,
    ) -> Result<Begun<'a>, OutputError> {
        Ok(match self {
            Self::Output(opened) => {
                let flies = options.flight.is_some();
                let has_parts = flies || options.switching.is_some() || options.timestamp_name;
                if let (Opened::Stream(_, path), true) = (&opened, has_parts) {
                    return Err(OutputError::NoFile(path.clone()));
                }
                if let (Opened::File(path), Some(keep)) = (&opened, options.flight) {
                    let named = Named {
                        path: path.clone(),
                        most: options.parting().most_files,
                        making: options.making(),
                        is_stamped: options.switching.is_some() || options.timestamp_name,
                    };
                    let flight = Flight::new(keep, named, events, features)?;
                    return Ok(Begun {
                        file: path.clone(),
                        reader: None,
                        placed: None,
                        taker: Taker::Parts(Box::new(flight)),
                    });
                }
                if let (Opened::Stream(_, path), Packing::All(_)) = (&opened, options.packing) {
                    return Err(OutputError::Packed(path.clone()));
                }
                let mut output = Output::begin(opened, events, features, options.making())?;
                let most = options.parting().most_files;
                Begun {
                    file: output.path().to_owned(),
                    reader: output.reader(),
                    placed: output.placed(),
                    taker: match has_parts {
                        true => Taker::Parts(Box::new(Series::new(output, events, most))),
                        false => Taker::One(Box::new(output)),
                    },
                }
            }
            Self::Caller(consume) => Begun {
                file: PathBuf::new(),
                reader: None,
                placed: None,
                taker: Taker::One(consume(events, features)),
            },
        })
    }
}

/// What takes the records.
struct Begun<'a> {
    taker: Taker<'a>,
    /// Whoever reads the stream, if it is one.
    reader: Option<Reader>,
    /// Its place, if it is a file that is there from the start.
    placed: Option<Placed>,
    /// Its name, empty if it is not an output.
    file: PathBuf,
}

impl Begun<'_> {
    /// Its name, if it is a file or the first of several.
    fn as_file(&self) -> Option<&Path> {
        let is_file = self.placed.is_some() || matches!(self.taker, Taker::Parts(_));
        is_file.then_some(&self.file)
    }
}

/// All that a recording needs; nothing of it runs yet.
pub(crate) struct Recording<'a> {
    options: &'a Options,
    tasks: Vec<Option<u32>>,
    set: OpenSet,
    rings: Vec<RingSlot>,
    /// Records read while attaching.
    early: Vec<Vec<u8>>,
    /// The events as they were opened, and as their records are written.
    opened: Vec<EventDescription>,
    written: Vec<EventDescription>,
    begun: Begun<'a>,
}

/// A recording that ran.
pub(crate) struct Ran {
    pub(crate) ended_by: EndedBy,
    pub(crate) set: OpenSet,
    pub(crate) file: PathBuf,
    pub(crate) written: Written,
}

impl<'a> Recording<'a> {
    /// Begins the output: from here on there is a file.
    pub(crate) fn new<'c: 'a>(
        options: &'a Options,
        way: Way<'c>,
        tasks: Vec<Option<u32>>,
        (mut set, early): (OpenSet, Vec<Vec<u8>>),
    ) -> Result<Self, RecordError> {
        let opened = descriptions(&set);
        let written = written(options, &opened);
        let begun = way.begin(options, &written, features(options, &set, &written))?;
        set.trace_info = traces::info(options, &set);
        let rings = std::mem::take(&mut set.rings);
        set.shares = Shares::of_rings(rings.len());
        Ok(Self {
            options,
            tasks,
            set,
            rings,
            early,
            opened,
            written,
            begun,
        })
    }

    /// Runs the threads until the recording ends, and takes down what they
    /// say.
    pub(crate) fn run(
        self,
        control: &mut Control,
        mut launched: Option<&mut Launched>,
        notices: &mut dyn FnMut(&str),
    ) -> Result<Ran, RecordError> {
        let Self { options, set, .. } = self;
        control.gives_up(Rights::of(options, self.begun.as_file(), notices));
        let mut placed = self.begun.placed;
        let unwound = Unwound::of(options, (&set, self.rings.len()), &self.opened);
        let shared = shared(options, &unwound, self.begun.reader)?;
        let (views, cpus) = views(&self.rings);
        let (queue, pieces) = queue();
        let mut tree = tree(options, &set, launched.as_deref(), &self.opened[0]);
        hand_over(self.early, tree.as_mut(), &shared, &queue);
        let deep = unwound.deep.as_ref();
        let drainer = Drainer::new(self.rings, (&set.events, set.scope().area), &shared, queue)
            .trimming(unwound.trim)
            .keeping(tree, &set)
            .copying_shallow(&set, options.verbose)
            .near_rings(options.affinity);
        let sleepers = sleepers(options, &self.tasks, &self.opened, deep);
        let (watchers, some) = watchers(sleepers, (&views, &cpus), &shared);
        let thinner = thinner(options, &set);
        let gate = thinner.as_ref().and_then(|thinner| gate(thinner, &set));
        let workers = Workers {
            options,
            stop: &shared.stop,
            writing: writing(
                (self.begun.taker, unwound.unwinding, some, thinner),
                (options, self.tasks, &set),
                (&self.opened, &self.written),
                &shared,
            ),
            pieces,
            drainer: by_time(drainer.gated(gate), deep, (&views, &shared)),
            readers: deep.map_or_else(Vec::new, |deep| deep.readers(&views, &set.events, &shared)),
            watchers,
        };
        let (ended_by, written) = thread::scope(|scope| {
            let working = workers.start(scope)?;
            exclude_threads(&set, &shared);
            control.starts();
            let ended_by = start(options, &set, launched.as_deref_mut(), &shared).map(|()| {
                keep(placed.take(), notices);
                control.wait(options, &set, launched.as_deref(), &shared, notices)
            });
            stop(&set, &shared, deep);
            let launched = launched.as_deref().filter(|_| ended_by.is_ok());
            let written = working.end(|| control.wait_for_writer(launched, &shared));
            Ok::<_, RecordError>((ended_by, written))
        })?;
        shared.told().iter().for_each(|line| notices(line));
        control.give_up(notices);
        Ok(Ran {
            ended_by: ended_by.inspect_err(|_| forget(&written))?,
            file: self.begun.file,
            written,
            set,
        })
    }
}

/// Lets rings be drained when their time has come, where stacks are read with
/// samples.
fn by_time<'a>(
    drainer: Drainer<'a>,
    deep: Option<&'a DeepStacks<'a>>,
    (rings, shared): (&'a [RingView], &'a Shared),
) -> Drainer<'a> {
    match deep {
        Some(deep) if deep.is_of_waits() => {
            let mut waiting = WaitReader::new(deep, rings, shared);
            drainer.looking(move || waiting.look())
        }
        Some(_) => drainer.by_time(),
        None => drainer,
    }
}

/// What the writing thread begins with: who takes the records, and what is done
/// to them before.
fn writing<'a>(
    (taker, unwinding, sleepers, thinner): (
        Taker<'a>,
        Option<Unwinding>,
        Option<Sleepers>,
        Option<Thinner>,
    ),
    (options, tasks, set): (&'a Options, Vec<Option<u32>>, &'a OpenSet),
    (opened, written): (&[EventDescription], &[EventDescription]),
    shared: &'a Shared,
) -> Writing<'a> {
    Writing {
        taker,
        parting: Parting::new(options.parting(), is_overwritten(opened)),
        unwinding,
        waits: waits(options, (&tasks, thinner), shared, (opened, written)),
        sleepers,
        counter: Counter::new(&opened[0].attr).knowing(opened),
        descendants: Descendants::default(),
        rounds: rounds(opened),
        max_size: options.max_size,
        tracing_data: tracing_data::section(tracepoints(set)),
        shared,
        framing: Framing::new(options, set, tasks, &written[0]),
    }
}

/// When marks may be written: not where old records come late.
fn rounds(opened: &[EventDescription]) -> Rounds {
    let rounds = Rounds::new(&opened[0].attr);
    match is_overwritten(opened) {
        true => rounds.without_marks(),
        false => rounds,
    }
}

/// What the threads of a recording share.
fn shared(
    options: &Options,
    unwound: &Unwound<'_>,
    reader: Option<Reader>,
) -> Result<Shared, RecordError> {
    let shared = Shared::new(unwound.patience(), reader);
    let mut shared = shared.map_err(system("make a descriptor"))?;
    shared.parts = Parts::of(options);
    Ok(shared)
}

/// Queues the records that were read while attaching, those of the tree.
fn hand_over(early: Vec<Vec<u8>>, mut tree: Option<&mut Tree>, shared: &Shared, queue: &Sender) {
    for records in early {
        let records = match &mut tree {
            Some(tree) => tree.kept(&records),
            None => records,
        };
        shared.queued(records.len());
        queue.send(Piece { records, began: 0 });
    }
}

/// Leaves the threads that there are now out of events that are to be without.
fn exclude_threads(set: &OpenSet, shared: &Shared) {
    if let Err(error) = set.exclude_threads() {
        shared.tell(format!("the recorder's threads are not left out: {error}"));
    }
}

/// Ends the events, and with them the draining.
fn stop(set: &OpenSet, shared: &Shared, deep: Option<&DeepStacks<'_>>) {
    shared.switch(false);
    // The file is whole without it; what comes later is not drained.
    let _ = set.disable(None);
    shared.parts.note(false);
    shared.stop_draining();
    if let Some(deep) = deep {
        deep.wake_all();
    }
}

/// What each of the threads needs where stacks are unwound while recording,
/// and nothing where they are not.
#[derive(Default)]
struct Unwound<'a> {
    /// For the draining thread: what is unwound does not go to the file, nor what is of
    /// no event.
    trim: Option<Trim>,
    /// For the writing thread.
    unwinding: Option<Unwinding>,
    /// For the readers of deep stacks, where they are possible.
    deep: Option<DeepStacks<'a>>,
}

impl<'a> Unwound<'a> {
    /// For events and how many rings they have.
    fn of(
        options: &Options,
        (set, rings): (&'a OpenSet, usize),
        opened: &[EventDescription],
    ) -> Self {
        if !matches!(options.stacks, Stacks::Unwound(_)) {
            return Self {
                trim: Trim::of_shared(opened),
                ..Self::default()
            };
        }
        let witness = set.witness.as_ref();
        // Waits are their own witness.
        let is_possible = witness.is_some()
            || opened.iter().any(|event| waits::is_of_waits(&event.name))
                && plan::may_read_stacks(options, &opened[0].attr, rings);
        let deep = is_possible.then(|| {
            let share = match options.target {
                Target::System => snapshots::SHARE_OF_SYSTEM,
                _ => snapshots::SHARE_OF_TARGET,
            };
            DeepStacks::new(witness, opened, share)
        });
        let orders = deep.as_ref().map(DeepStacks::orders);
        // Waits are made of them behind the unwinder.
        let switches = match options.waits {
            Some(_) => Switches::Keep,
            None => switches(options),
        };
        let unwinding =
            Unwinding::new(opened, switches, orders).with_most_frames(options.extras.most_frames);
        let starts = unwinding.stack_starts();
        Self {
            trim: Some(Trim::new(
                opened,
                witness
                    .map(|it| WitnessSamples::new(&it.attr, it.ids(), opened))
                    .unwrap_or_default(),
                Arc::clone(&starts),
            )),
            unwinding: Some(unwinding),
            deep: deep.map(|deep| deep.with_starts(starts)),
        }
    }

    /// How long records may wait in a ring, at first.
    fn patience(&self) -> std::time::Duration {
        let unwinding = self.unwinding.as_ref();
        unwinding.map_or(FLUSH_EVERY, Unwinding::patience)
    }
}

/// What runs beside the main thread.
struct Workers<'a> {
    options: &'a Options,
    /// Ends the readers.
    stop: &'a AtomicBool,
    writing: Writing<'a>,
    /// What the drainer queues for the writer.
    pieces: Receiver,
    drainer: Drainer<'a>,
    readers: Vec<snapshots::Reader<'a>>,
    /// Read threads that sleep.
    watchers: Vec<Watcher<'a>>,
}

/// Threads that run.
struct Working<'scope> {
    writes: ScopedJoinHandle<'scope, Written>,
    drains: ScopedJoinHandle<'scope, ()>,
}

impl<'a> Workers<'a> {
    fn start<'scope>(self, scope: &'scope Scope<'scope, '_>) -> Result<Working<'scope>, RecordError>
    where
        'a: 'scope,
    {
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        let Self { options, stop, .. } = self;
        let (writing, pieces, drainer) = (self.writing, self.pieces, self.drainer);
        // First the one that ends by itself when the other is not there.
        let writes = thread("write").spawn_scoped(scope, move || {
            hurry(options);
            writing.run(&pieces)
        });
        let writes = writes.map_err(no_thread)?;
        let drains = thread("drain").spawn_scoped(scope, move || {
            hurry(options);
            drainer.run();
        });
        let drains = drains.map_err(no_thread)?;
        for reader in self.readers {
            // Without one, stacks are read later, and some not at all.
            let _ = thread("read").spawn_scoped(scope, move || {
                hurry(options);
                reader.run(stop);
            });
        }
        for watcher in self.watchers {
            // Without them waits have no stacks, and the summary says so.
            let _ = thread("watch").spawn_scoped(scope, move || {
                hurry(options);
                watcher.run(stop);
            });
        }
        Ok(Working { writes, drains })
    }
}

impl Working<'_> {
    /// Waits for the draining thread, which was told to stop, and then for the
    /// writing one, which `wait_for_writer` may hurry.
    fn end(self, wait_for_writer: impl FnOnce()) -> Written {
        self.drains
            .join()
            .expect("the draining thread does not panic");
        wait_for_writer();
        self.writes
            .join()
            .expect("the writing thread does not panic")
    }
}

/// The processes whose samples are kept, where events are of whole CPUs.
fn tree(
    options: &Options,
    set: &OpenSet,
    launched: Option<&Launched>,
    first: &EventDescription,
) -> Option<Tree> {
    if !set.follows_by_cpus() {
        return None;
    }
    match (&options.target, launched) {
        (Target::Command(_), Some(launched)) => Some(Tree::of_command(launched.pid(), &first.attr)),
        (Target::Processes(pids), _) => {
            let threads = |pid| u32::try_from(threads_of(pid).len()).unwrap_or(u32::MAX);
            let pids = pids.iter().map(|&pid| (pid, threads(pid)));
            Some(Tree::of_processes(&pids.collect::<Vec<_>>(), &first.attr))
        }
        _ => None,
    }
}

/// Makes the most of the calling thread's turns: on a busy machine samples get
/// lost otherwise.
fn hurry(options: &Options) {
    if options.realtime.is_none() {
        run_soon();
    }
}

/// What the file says of context switches that were only asked for to read
/// memory at the right time.
fn switches(options: &Options) -> Switches {
    match plan::keeps_switches(options) {
        true => Switches::Keep,
        false => Switches::Drop,
    }
}

pub(crate) fn command_of(options: &Options) -> Option<&[OsString]> {
    match &options.target {
        Target::Command(command) => Some(command),
        _ => options.beside.as_deref(),
    }
}

/// The recording has begun: its file stays. The command runs already, so that
/// a failure is told only.
fn keep(placed: Option<Placed>, notices: &mut dyn FnMut(&str)) {
    let kept = placed.map_or(Ok(()), Placed::keep);
    kept.unwrap_or_else(|error| notices(&error.to_string()));
}

/// Removes what was finished under a name of its own though nothing began.
fn forget(written: &Written) {
    if let Some(stamped) = &written.file {
        // It holds nothing; the error in hand says more.
        let _ = std::fs::remove_file(stamped);
    }
}

/// Lets events and command begin.
fn start(
    options: &Options,
    set: &OpenSet,
    launched: Option<&mut Launched>,
    shared: &Shared,
) -> Result<(), RecordError> {
    if options.start == Start::AtOnce {
        shared.parts.note(true);
        shared.switch(true);
    }
    setup::enable(options, set).map_err(|source| RecordError::System {
        doing: "start the events",
        source,
    })?;
    let Some(launched) = launched else {
        return Ok(());
    };
    launched.start().map_err(|source| RecordError::Command {
        program: command_of(options)
            .and_then(|command| command.first().cloned())
            .unwrap_or_default(),
        source,
    })
}

/// The names of the tracepoints among the events.
fn tracepoints(set: &OpenSet) -> impl Iterator<Item = &str> {
    set.events
        .iter()
        .map(|event| &event.planned)
        .filter(|planned| planned.attr.kind == event_kind::TRACEPOINT)
        .map(|planned| planned.name.as_str())
}

/// The events as they were opened.
fn descriptions(set: &OpenSet) -> Vec<EventDescription> {
    let events = set.events.iter();
    events
        .map(|event| EventDescription {
            attr: event.planned.attr.clone(),
            ids: event.ids(),
            name: event.planned.name.clone(),
        })
        .collect()
}

/// The events as their samples are written.
fn written(options: &Options, opened: &[EventDescription]) -> Vec<EventDescription> {
    let mut written = match (options.stacks, options.waits) {
        (Stacks::Unwound(_), _) => unwound(opened, switches(options)),
        _ => opened.to_vec(),
    };
    let of_waits = written
        .iter_mut()
        .filter(|event| waits::is_of_waits(&event.name));
    for event in of_waits {
        event.attr = waits::written(&event.attr);
        if switches(options) == Switches::Drop {
            event.attr.flags = event.attr.flags.without(AttrFlags::CONTEXT_SWITCH);
        }
    }
    written
}

/// What makes waits, if they are recorded.
fn waits<'a>(
    options: &Options,
    (tasks, thinner): (&[Option<u32>], Option<Thinner>),
    shared: &'a Shared,
    (opened, written): (&[EventDescription], &[EventDescription]),
) -> Option<Waits<'a>> {
    let is_of_leavings = |event: &&EventDescription| {
        waits::is_of_waits(&event.name) && waits::has_stacks(&event.attr)
    };
    let of_leavings = opened.iter().find(is_of_leavings);
    let of = OfRecording {
        options: options.waits?,
        keeps_switches: options.extras.switches,
        whole_cpus: options.target == Target::System,
        has_stacks: of_leavings.is_some(),
        has_kernel: of_leavings.is_some_and(|event| waits::has_kernel(&event.attr)),
        thinner,
        threads: attached(options, tasks),
        clock: options.used_clock()?.id,
        parts: &shared.parts,
    };
    Waits::new(of, written)
}

/// All rings, and the CPUs of those that are of one.
fn views(rings: &[RingSlot]) -> (Vec<RingView>, Vec<u32>) {
    let views = rings.iter().map(|slot| slot.ring.view());
    let cpus = rings.iter().filter_map(|slot| slot.cpu);
    (views.collect(), cpus.collect())
}

/// The threads that read the stacks of who sleeps, where the kernel shows none; else
/// what reads some of them beside.
fn watchers<'a>(
    sleepers: Option<Sleepers>,
    (views, cpus): (&'a [RingView], &[u32]),
    shared: &'a Shared,
) -> (Vec<Watcher<'a>>, Option<Sleepers>) {
    match sleepers {
        Some(all) if all.whom() == Whom::All => {
            let watch = Watch::new(all, views, (&shared.parts, &shared.readings));
            (watch.watchers(cpus), None)
        }
        some => (Vec::new(), some),
    }
}

/// What reads stacks of threads that sleep, where stacks are unwound; `deep` reads them
/// further.
fn sleepers(
    options: &Options,
    tasks: &[Option<u32>],
    opened: &[EventDescription],
    deep: Option<&DeepStacks<'_>>,
) -> Option<Sleepers> {
    let unwinds = matches!(options.stacks, Stacks::Unwound(_) | Stacks::Dump(_));
    options.waits.filter(|_| unwinds)?;
    let event = opened
        .iter()
        .find(|event| waits::is_of_waits(&event.name))?;
    let whom = match waits::has_stacks(&event.attr) {
        true => Whom::AtStart,
        false => Whom::All,
    };
    let clock = options.used_clock()?.id;
    let mut threads = attached(options, tasks);
    if options.target == Target::System {
        // Those that come to run: what they did until then.
        threads = everybody();
    }
    let sleepers = Sleepers::new(whom, clock, opened, &threads)?;
    Some(sleepers.reading_also(deep.map(read_asleep)))
}

/// Process and thread of all threads that there are, as far as these are not too
/// many to be read in the first moments.
fn everybody() -> Vec<(i32, i32)> {
    const MOST: usize = 4096;
    let of_process = |pid: u32| {
        let threads = threads_of(pid).into_iter();
        threads.map(move |tid| (pid.cast_signed(), tid.cast_signed()))
    };
    let threads = processes().into_iter().flat_map(of_process);
    threads.take(MOST).collect()
}

/// Reads for the stacks of threads that sleep what else the unwinder wants.
fn read_asleep(deep: &DeepStacks<'_>) -> ReadAlso {
    let orders = deep.orders();
    Box::new(move |ids, time, copied_until| orders.read_asleep(ids, time, copied_until))
}

/// Process and thread of all threads that are attached to.
fn attached(options: &Options, tasks: &[Option<u32>]) -> Vec<(i32, i32)> {
    let known = match options.target {
        Target::Command(_) => &[],
        _ => tasks,
    };
    let threads = known.iter().flatten().map(|&tid| {
        let pid = process_of(tid).unwrap_or(tid);
        (pid.cast_signed(), tid.cast_signed())
    });
    threads.collect()
}

/// The events as their samples are when they were unwound.
fn unwound(opened: &[EventDescription], switches: Switches) -> Vec<EventDescription> {
    opened
        .iter()
        .map(|event| EventDescription {
            attr: unwinding::written_attr(&event.attr, switches),
            ..event.clone()
        })
        .collect()
}

/// Name, leader and number of members of each group of several events.
fn groups(set: &OpenSet) -> Vec<GroupDescription> {
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
            GroupDescription {
                name: name.into(),
                leader: index as u32,
                members: members.count() as u32,
            }
        })
        .filter(|group| group.members > 1)
        .collect()
}

/// What is known at the start.
fn features(options: &Options, set: &OpenSet, written: &[EventDescription]) -> Features {
    let mut features = machine_features(&MachineFacts {
        version: &options.version,
        command_line: &options.command_line,
        events: written,
    });
    clock_features(options, &mut features);
    let groups = groups(set);
    if !groups.is_empty() {
        features.groups(groups);
    }
    if matches!(options.stacks, Stacks::Unwound(_)) {
        // The account comes at the end; a stream that is cut says at least by
        // whom the chains were made.
        features.trust("{}");
    }
    features
}
