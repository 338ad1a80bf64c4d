//! A whole recording to a profile.

use crate::ahead::{Ahead, Job};
use crate::early_names::EarlyChoice;
use crate::loader::Loader;
use crate::module_files::ModuleFiles;
use crate::progress::{Phase, Progress};
use crate::reading::in_time_order;
use crate::recorded::RecordedKernel;
use crate::threads::{self, prepare_threads};
use prof_perfdata::{Error, Reader};
use prof_profile::{Counting, Profile};
use prof_symbolize::{Detail, Symbolizer};
use rayon::ThreadPool;
use std::time::{Duration, Instant, SystemTime};

/// How a recording is to be resolved.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Whether inlined functions and source lines are wanted.
    pub detail: Detail,
    /// Who looks: perf maps of JIT code may be this user's, root's or that
    /// of the process's own user.
    pub looking_uid: u32,
    /// Whether a function without a name is one function, where unwind
    /// information tells its extent. Else its addresses are shown each, as
    /// perf does.
    pub whole_functions: bool,
    /// Whether who looks or root made the recording: what it says of the
    /// users of processes is believed.
    pub is_own: bool,
    /// What the samples of the profile are; `None` for what perf shows of the
    /// recording: branches, if it says that it has some.
    pub counting: Option<Counting>,
    /// Whether what samples tell beyond who, where and when is kept; always,
    /// if they are not counted by their periods.
    pub details: bool,
    /// Whether user call chains that were recorded after their samples are
    /// joined to them.
    pub merges_callchains: bool,
    /// Longest user stack unwound from a sample's dump, frames.
    pub max_stack: usize,
    /// Callers in no mapping that are told apart; the others are shown as one
    /// `[unknown]`, which is noted. Bounds what broken stacks cost.
    pub unmapped_limit: usize,
    /// When the recording ended, if known. On the machine that made it, files
    /// without a build-id that are newer than this give no names.
    pub recorded_at: Option<SystemTime>,
    /// Reads no longer than this: a first look at a large recording. `None`
    /// reads all.
    pub reading_time: Option<Duration>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            detail: Detail::Source,
            looking_uid: 0,
            whole_functions: true,
            is_own: false,
            counting: Some(Counting::Samples),
            details: false,
            merges_callchains: true,
            max_stack: 1024,
            unmapped_limit: 1 << 14,
            recorded_at: None,
            reading_time: None,
        }
    }
}

/// Reads a recording to its end and resolves it. The reader comes back for
/// what it has to say: damages, notes, features.
///
/// # Errors
/// Only if the input cannot be read; what is damaged in it is listed in the
/// profile's [`prof_profile::Trust`].
pub fn load(
    reader: Reader,
    symbolizer: &Symbolizer,
    options: &LoadOptions,
    progress: &dyn Progress,
) -> Result<(Profile, Reader), Error> {
    let mut loader = Loader::new(&reader, symbolizer, options);
    let files = ModuleFiles::new(symbolizer, reader.features(), options.recorded_at);
    let kernel = RecordedKernel::new(reader.features());
    let mut early = EarlyChoice::default();
    let ahead = Ahead::new(&files, &kernel, options.detail);
    let began = Instant::now();
    prepare_threads();
    // As many as leave a core to the thread that takes the records, since all
    // wait for that one.
    let helpers = threads::pool(threads::cores().saturating_sub(1).max(1), "name");
    let (records, read) = in_time_order(reader, |batches| {
        // Symbol tables are read while records are: each module's from its
        // first sample on; and then names are looked up.
        in_scope(helpers.as_ref(), |scope| {
            let add = |job| {
                ahead.add(job);
                if let Some(scope) = scope {
                    scope.spawn(|_| _ = ahead.do_next());
                }
            };
            for batch in batches {
                for record in batch.records() {
                    loader.take(&record);
                }
                let modules = loader.processes.modules();
                for module in loader.stacks.new_modules() {
                    add(Job::Prepare {
                        module: Box::new(modules.get(module).clone()),
                        kernel: kernel.clone().mapped_in(&loader.processes),
                    });
                }
                let parts = early.next(modules, loader.stacks.locations());
                parts.into_iter().map(Job::LookUp).for_each(add);
                let (done, total) = batch.progress();
                progress.update(Phase::Reading, done, total);
                batches.give_back(batch);
                let is_over = |limit| began.elapsed() >= limit;
                if options.reading_time.is_some_and(is_over) {
                    break;
                }
            }
            // Nothing is left to read, but names are looked up.
            let addresses = Some(loader.stacks.locations().len() as u64);
            loop {
                progress.update(Phase::Naming, ahead.answers.count(), addresses);
                if !ahead.do_next() {
                    break;
                }
            }
        });
    });
    read?;
    let late = records.late();
    let reader = records.into_reader();
    let early = ahead.answers.into_ordered();
    let profile = loader.finish(&reader, late, early, symbolizer, options, progress);
    Ok((profile, reader))
}

/// Runs `work` beside the threads of a pool, if there is one.
fn in_scope<'a, R>(
    pool: Option<&ThreadPool>,
    work: impl FnOnce(Option<&rayon::Scope<'a>>) -> R,
) -> R {
    match pool {
        Some(pool) => pool.in_place_scope(|scope| work(Some(scope))),
        None => work(None),
    }
}
