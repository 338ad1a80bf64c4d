//! A whole recording to a profile.

use crate::about::About;
use crate::ahead::{Ahead, Job};
use crate::dso_files::DsoFiles;
use crate::early_names::{EarlyAnswer, EarlyChoice};
use crate::loader::Loader;
use crate::options::{How, LoadOptions};
use crate::progress::{Phase, Progress};
use crate::reading::in_time_order;
use crate::recorded::RecordedKernel;
use crate::threads::{self, prepare_threads};
use prof_perfdata::{Error, Reader, Record};
use prof_profile::Profile;
use prof_symbolize::{Detail, Embedded, Symbolizer};
use rayon::ThreadPool;
use std::sync::Arc;
use std::time::Instant;

/// Reads a recording to its end and resolves it. The reader is returned, since
/// it knows damages, notes and features.
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
    let how = How {
        symbolizer,
        options,
        progress,
    };
    take_embedded(&reader, symbolizer);
    let (_, length) = reader.progress();
    let collector = Collector::new(&About::of(&reader), length, how);
    let (records, collected) = in_time_order(reader, |batches| {
        let mut batches = batches;
        collector.collect(|loader| {
            let batch = batches.next()?;
            loader.take_all(batch.records());
            let progress = batch.progress();
            batches.give_back(batch);
            Some(progress)
        })
    });
    let (loader, early) = collected?;
    let late = records.late();
    let reader = records.into_reader();
    let about = About {
        late,
        ..About::of(&reader)
    };
    Ok((loader.finish(&about, early, how), reader))
}

/// Lets a symbolizer answer from the names embedded in a recording, if it has
/// any; only in a file, where they can be read before the first record.
/// [`load`] does this itself.
pub fn take_embedded(reader: &Reader, symbolizer: &Symbolizer) {
    if let Some(packed) = reader.features().symbols()
        && symbolizer.embedded().is_none()
    {
        symbolizer.embed(Arc::new(Embedded::new(packed.to_vec())));
    }
}

/// Resolves records that arrive in the order of time from any source: a part of
/// a recording, several recordings, or a recorder's memory.
pub fn profile_of<'r>(
    records: impl IntoIterator<Item = Record<'r>>,
    about: &About<'_>,
    symbolizer: &Symbolizer,
    options: &LoadOptions,
) -> Profile {
    let how = How {
        symbolizer,
        options,
        progress: &(),
    };
    let mut records = records.into_iter();
    let mut done = 0;
    let (loader, early) = Collector::new(about, None, how).collect(|loader| {
        let before = done;
        let portion = records.by_ref().take(PORTION);
        loader.take_all(portion.inspect(|record| done += record.bytes.len() as u64));
        (done > before).then_some((done, None))
    });
    loader.finish(about, early, how)
}

/// Records that are taken before names are looked up for them.
const PORTION: usize = 1 << 12;

/// Takes records, and looks up names meanwhile.
struct Collector<'a> {
    loader: Loader,
    files: DsoFiles<'a>,
    kernel: RecordedKernel,
    how: How<'a>,
}

impl<'a> Collector<'a> {
    fn new(about: &About<'_>, length: Option<u64>, how: How<'a>) -> Self {
        Self {
            loader: Loader::new(about, length, how),
            files: DsoFiles::new(how.symbolizer, about.features, how.options.recorded_at),
            kernel: RecordedKernel::new(about.features),
            how,
        }
    }

    /// Takes all records. `next` hands over some of them and says how many
    /// bytes were read by then, and of how many; `None` at the end.
    fn collect(
        self,
        mut next: impl FnMut(&mut Loader) -> Option<(u64, Option<u64>)>,
    ) -> (Loader, Vec<EarlyAnswer>) {
        let How {
            options, progress, ..
        } = self.how;
        let (mut loader, kernel) = (self.loader, self.kernel);
        // What is looked up for the notes of a symbolizer alone is not kept.
        let symbols_first = options.symbols_first();
        let (mut early, detail) = match symbols_first {
            true => (EarlyChoice::in_small_parts(), Detail::Symbol),
            false => (EarlyChoice::default(), options.detail),
        };
        // What is fetched from elsewhere is fetched in the order of heat, which
        // is known at the end.
        let waits = self.how.symbolizer.sources().fetch.is_some();
        let ahead = Ahead::new(&self.files, &kernel, detail);
        let began = Instant::now();
        prepare_threads();
        // As many as leave a core to the thread that takes the records, since
        // all wait for that one.
        let helpers = threads::pool(threads::cores().saturating_sub(1).max(1), "name");
        // Symbol tables are read while records are: each dso's from its
        // first sample on; and then names are looked up.
        in_scope(helpers.as_ref(), |scope| {
            let add = |job| {
                ahead.add(job);
                if let Some(scope) = scope {
                    scope.spawn(|_| _ = ahead.do_next());
                }
            };
            while let Some((done, total)) = next(&mut loader) {
                if !waits {
                    loader.new_work(&kernel, &mut early).for_each(add);
                }
                progress.update(Phase::Reading, done, total);
                let is_over = |limit| began.elapsed() >= limit;
                if options.reading_time.is_some_and(is_over) {
                    break;
                }
            }
            // Nothing is left to read, but names are looked up.
            let addresses = Some(loader.stacks.builder.locations().len() as u64);
            loop {
                progress.update(Phase::Naming, ahead.answers.count(), addresses);
                if !ahead.do_next() {
                    break;
                }
            }
        });
        match symbols_first {
            true => (loader, Vec::new()),
            false => (loader, ahead.answers.into_ordered()),
        }
    }
}

impl Loader {
    /// What can be done for names since the last call: files of dsos to
    /// get ready, addresses to look up.
    fn new_work(
        &mut self,
        kernel: &RecordedKernel,
        early: &mut EarlyChoice,
    ) -> impl Iterator<Item = Job> + use<> {
        let (builder, dsos) = (&mut self.stacks.builder, self.processes.dsos());
        let prepare = |dso| Job::Prepare {
            dso: Box::new(dsos.get(dso).clone()),
            kernel: kernel.clone().mapped_in(&self.processes),
        };
        let files: Vec<Job> = builder.new_dsos().map(prepare).collect();
        let parts = early.next(dsos, builder.locations());
        files.into_iter().chain(parts.into_iter().map(Job::LookUp))
    }
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

#[cfg(test)]
mod tests {
    use super::{Collector, PORTION, profile_of};
    use crate::About;
    use crate::loader::Loader;
    use crate::options::{How, LoadOptions};
    use crate::progress::{Phase, Progress};
    use prof_abi::{ByteOrder, EventAttr, SampleType};
    use prof_perfdata::{Event, Events, Features, Record};
    use prof_symbolize::{Notes, Sources, Symbolizer};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// One event, whose samples tell address, thread and time.
    fn events() -> Events {
        let attr = EventAttr {
            sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
            sample_period: 3,
            ..EventAttr::default()
        };
        let mut events = Events::new(ByteOrder::NATIVE);
        events.push(Event::new(attr, vec![1]));
        events
    }

    /// Samples of so many addresses, in no mapping, in the order of time.
    fn samples(count: usize) -> Vec<Vec<u8>> {
        let sample = |number: u64| {
            let mut bytes = 9_u32.to_ne_bytes().to_vec();
            bytes.extend([2_u16, 32].map(u16::to_ne_bytes).concat());
            bytes.extend((0x1000 + number * 16).to_ne_bytes());
            bytes.extend([7_u32, 7].map(u32::to_ne_bytes).concat());
            bytes.extend((number + 1).to_ne_bytes());
            bytes
        };
        (0..count as u64).map(sample).collect()
    }

    /// How many of so many samples are in the profile.
    fn taken(count: usize, options: &LoadOptions) -> usize {
        let (events, features, bytes) = (events(), Features::default(), samples(count));
        let records = bytes.iter().map(|one| Record::new(one, 0, &events));
        let about = About::new(&features, &events);
        let symbolizer = Symbolizer::new(Sources::default());
        let profile = profile_of(records.flatten(), &about, &symbolizer, options);
        assert_eq!(profile.events.len(), 1);
        assert_eq!(profile.events[0].period, 3 * profile.samples.len() as u64);
        profile.samples.len()
    }

    #[test]
    fn when_the_time_is_over_the_portion_that_was_read_is_kept() {
        let over = LoadOptions {
            reading_time: Some(Duration::ZERO),
            ..LoadOptions::default()
        };
        let all = LoadOptions::default();
        assert_eq!(taken(PORTION + 5, &all), PORTION + 5);
        assert_eq!(taken(PORTION + 5, &over), PORTION);
        assert_eq!(taken(5, &over), 5);
        assert_eq!(taken(0, &all), 0);
    }

    #[derive(Default)]
    struct Noted(Mutex<Vec<(Phase, u64, Option<u64>)>>);

    impl Progress for Noted {
        fn update(&self, phase: Phase, done: u64, total: Option<u64>) {
            self.0.lock().expect("no panic").push((phase, done, total));
        }
    }

    #[test]
    fn progress_counts_bytes_and_then_the_addresses_that_were_met() {
        let (events, features, bytes) = (events(), Features::default(), samples(30));
        let (noted, options) = (Noted::default(), LoadOptions::default());
        let symbolizer = Symbolizer::new(Sources::default());
        let how = How {
            symbolizer: &symbolizer,
            options: &options,
            progress: &noted,
        };
        let about = About::new(&features, &events);
        let mut portions = bytes.chunks(10);
        let mut done = 0;
        let (loader, early) = Collector::new(&about, Some(960), how).collect(|loader| {
            let portion = portions.next()?;
            for bytes in portion {
                loader.take(&Record::new(bytes, 0, &events)?);
                done += bytes.len() as u64;
            }
            Some((done, Some(960)))
        });
        // Addresses in no mapping have no file to be looked up in.
        assert!(early.is_empty());
        let noted = std::mem::take(&mut *noted.0.lock().expect("no panic"));
        let reading = |done| (Phase::Reading, done, Some(960));
        let naming = (Phase::Naming, 0, Some(30));
        assert_eq!(noted[..3], [320, 640, 960].map(reading));
        assert!(noted[3..].iter().all(|told| *told == naming), "{noted:?}");
        assert_eq!(loader.finish(&about, early, how).samples.len(), 30);
    }

    /// What was noted when the first addresses had their lines.
    struct FirstLines {
        notes: Arc<Notes>,
        named: Mutex<Option<usize>>,
    }

    impl Progress for FirstLines {
        fn update(&self, phase: Phase, done: u64, _: Option<u64>) {
            if phase == Phase::Naming && done > 0 {
                let mut named = self.named.lock().expect("no panic");
                named.get_or_insert_with(|| self.notes.named());
            }
        }
    }

    /// A mapping of this test's own program at 0x1000, and samples all over it.
    fn samples_of_own_program(count: usize) -> Vec<Vec<u8>> {
        let path = std::env::current_exe().expect("a path");
        let size = path.metadata().expect("there").len();
        let mut name = path.into_os_string().into_encoded_bytes();
        name.resize(name.len().next_multiple_of(8) + 8, 0);
        let mut bytes = 1_u32.to_ne_bytes().to_vec();
        bytes.extend([2, 40 + name.len() as u16].map(u16::to_ne_bytes).concat());
        bytes.extend([7_u32, 7].map(u32::to_ne_bytes).concat());
        bytes.extend([0x1000, size, 0].map(u64::to_ne_bytes).concat());
        bytes.extend(name);
        let mut records = samples(count);
        for (record, number) in records.iter_mut().zip(0_u64..) {
            // Scattered, so that any part of them has functions of its own.
            let at = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size;
            record[8..16].copy_from_slice(&(0x1000 + at).to_ne_bytes());
        }
        records.insert(0, bytes);
        records
    }

    #[test]
    fn where_time_is_short_all_names_are_looked_up_before_any_line() {
        // More than are looked up in one wave.
        const COUNT: usize = 80_000;
        let (events, features) = (events(), Features::default());
        let bytes = samples_of_own_program(COUNT);
        let hurried = LoadOptions {
            reading_time: Some(Duration::from_secs(3600)),
            ..LoadOptions::default()
        };
        for (options, at_first) in [(hurried, true), (LoadOptions::default(), false)] {
            let first = FirstLines {
                notes: Arc::default(),
                named: Mutex::default(),
            };
            let symbolizer = Symbolizer::new(Sources::default()).noting(first.notes.clone());
            let how = How {
                symbolizer: &symbolizer,
                options: &options,
                progress: &first,
            };
            let about = About::new(&features, &events);
            // Nothing is looked up while these are taken, since how far that
            // comes is a matter of luck.
            let mut loader = Loader::new(&about, None, how);
            for one in &bytes {
                loader.take(&Record::new(one, 0, &events).expect("a record"));
            }
            let profile = loader.finish(&about, Vec::new(), how);
            assert_eq!(profile.samples.len(), COUNT);
            let named = first.named.lock().expect("no panic").expect("some lines");
            assert!(first.notes.named() > 4096, "{} noted", first.notes.named());
            assert_eq!(named == first.notes.named(), at_first, "{named}");
        }
    }
}
