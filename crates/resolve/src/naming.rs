//! Names for all addresses of a recording, each looked up once.

use crate::dso_files::DsoFiles;
use crate::early_names::EarlyAnswer;
use crate::found::{Found, Resolved};
use crate::jit_names::{JitNames, RefusedLines};
use crate::jit_owners::JitOwners;
use crate::lookups::{CarriedSymbols, look_up_call, look_up_in_file, named_by_itself};
use crate::progress::{Phase, Progress};
use crate::raw_locations::RawLocation;
use crate::recorded::{ListedKernel, RecordedKernel};
use crate::tables::{Named, Tables};
use prof_live::{MappedDso, MappedDsoId, MappedDsos};
use prof_profile::{Avma, Dso, DsoKind, Names, UnnamedReason};
use prof_symbolize::{Demangle, Detail, KernelSymbols, Lookup, OpenError, SymbolFile};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Addresses resolved at once: small enough to spread a large file over all
/// threads, large enough that sorting them by unit pays.
const BATCH: usize = 4096;

/// Batches looked up before their answers are put in place.
const WAVE: usize = 16;

/// Files that are fetched at once, where they come from elsewhere.
const FETCHED_AT_ONCE: usize = 4;

/// What is needed to name addresses.
pub(crate) struct Namer<'a> {
    pub(crate) files: DsoFiles<'a>,
    pub(crate) detail: Detail,
    pub(crate) kernel: RecordedKernel,
    /// Symbols in the recording, by path.
    pub(crate) carried: FxHashMap<Vec<u8>, CarriedSymbols>,
    pub(crate) jit_owners: JitOwners,
    /// See [`crate::LoadOptions::whole_functions`].
    pub(crate) whole_functions: bool,
    /// See [`crate::LoadOptions::forgets_tables`].
    pub(crate) forgets_tables: bool,
    /// See [`crate::LoadOptions::reading_time`].
    pub(crate) symbols_first: bool,
    pub(crate) progress: &'a dyn Progress,
}

/// Where a dso's names come from.
enum Source {
    File(Arc<SymbolFile>),
    Kernel,
    Jit(Box<JitNames>),
    Carried,
    /// The dso is one function: BPF programs, methods, and the mark in place of
    /// frames that were left out.
    Itself,
    None(UnnamedReason),
}

/// The recorded kernel's symbols, opened when first needed.
type Kernel = OnceLock<Result<Arc<KernelSymbols>, OpenError>>;

/// Locations of one dso.
type Batch<'a> = (MappedDsoId, &'a [u32]);

/// What looking up needs.
struct Search<'a> {
    namer: &'a Namer<'a>,
    mapped: &'a MappedDsos,
    raw: &'a [RawLocation],
    sources: &'a [Source],
    kernel: Kernel,
    rest: Rest,
    done: AtomicU64,
    total: u64,
}

/// How many batches there still are of each file, by where it is in memory, so
/// that its tables can go when there are none.
#[derive(Default)]
struct Rest(FxHashMap<usize, AtomicUsize>);

impl Rest {
    fn key(file: &Arc<SymbolFile>) -> usize {
        Arc::as_ptr(file).addr()
    }

    /// Of this work. Files of which nothing is left to do forget their tables
    /// now.
    fn of(sources: &[Source], work: &[Batch<'_>]) -> Self {
        let mut rest = Self::default();
        for source in sources {
            if let Source::File(file) = source {
                rest.0.entry(Self::key(file)).or_default();
            }
        }
        for (id, _) in work {
            if let Some(Source::File(file)) = sources.get(id.0 as usize)
                && let Some(count) = rest.0.get_mut(&Self::key(file))
            {
                *count.get_mut() += 1;
            }
        }
        for source in sources {
            if let Source::File(file) = source
                && let Some(count) = rest.0.get_mut(&Self::key(file))
                && *count.get_mut() == 0
            {
                file.forget_tables();
            }
        }
        rest
    }

    /// A batch of a file was looked up.
    fn done(&self, file: &Arc<SymbolFile>) {
        let count = self.0.get(&Self::key(file));
        // ORDERING: Relaxed, because only the last one matters, and tables that
        // another thread still uses stay until it is done.
        if count.is_some_and(|count| count.fetch_sub(1, Ordering::Relaxed) == 1) {
            file.forget_tables();
        }
    }
}

impl Search<'_> {
    /// Looks a wave up.
    fn look_up(&self, wave: &[Batch<'_>]) -> Vec<Found> {
        wave.par_iter()
            .map(|&(id, part)| {
                let Some(source) = self.sources.get(id.0 as usize) else {
                    return Found::default();
                };
                let at = |&index: &u32| self.raw.get(index as usize).copied();
                let addresses: Vec<RawLocation> = part.iter().filter_map(at).collect();
                let dso = self.mapped.get(id);
                let found = self.look_up_in((dso, source), &addresses, self.namer.detail);
                self.update(part.len());
                let found = Found::of(found);
                if let Source::File(file) = source {
                    file.release_pages();
                    self.rest.done(file);
                }
                found
            })
            .collect()
    }

    /// Looks the symbols up, those of the dsos with most addresses first, for
    /// whoever notes what is asked: lines may come too late.
    fn look_up_symbols(&self, work: &[Batch<'_>]) {
        work.par_iter().with_max_len(1).for_each(|&(id, part)| {
            let Some(source) = self.sources.get(id.0 as usize) else {
                return;
            };
            if matches!(source, Source::File(_) | Source::Kernel) {
                let at = |&index: &u32| self.raw.get(index as usize).copied();
                let addresses: Vec<RawLocation> = part.iter().filter_map(at).collect();
                self.look_up_in((self.mapped.get(id), source), &addresses, Detail::Symbol);
            }
        });
    }

    fn look_up_in(
        &self,
        (dso, source): (&MappedDso, &Source),
        addresses: &[RawLocation],
        detail: Detail,
    ) -> Vec<Resolved> {
        let namer = self.namer;
        let each = |look_up: &dyn Fn(u64) -> Lookup| -> Vec<Resolved> {
            let one = |location: &RawLocation| Resolved {
                address: location.address,
                lookup: look_up_call(location.address, location.is_return, look_up),
            };
            addresses.iter().map(one).collect()
        };
        match source {
            Source::File(file) => look_up_in_file((file, namer.files.machine), addresses, detail),
            Source::Kernel => {
                let open = || namer.files.symbolizer.open_kernel(&namer.kernel.request());
                match self.kernel.get_or_init(open) {
                    Ok(kernel) => each(&|address| kernel.lookup(Avma(address), detail)),
                    Err(error) => each(&|_| Lookup::unnamed(error.reason)),
                }
            }
            Source::Jit(names) => {
                each(&|address| names.lookup(Avma(address), namer.files.symbolizer))
            }
            Source::Carried => match namer.carried.get(&dso.path) {
                Some(carried) => addresses.iter().map(|at| carried.resolve(at)).collect(),
                None => each(&|_| Lookup::unnamed(UnnamedReason::NoSymbolThere)),
            },
            Source::Itself => {
                let name = name_of_itself(&dso.path, namer.files.symbolizer.sources().demangle);
                each(&|_| named_by_itself(&name))
            }
            Source::None(reason) => each(&|_| Lookup::unnamed(*reason)),
        }
    }

    /// So many more are looked up.
    fn update(&self, more: usize) {
        let more = more as u64;
        // ORDERING: Relaxed, because only the sum matters.
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        let progress = self.namer.progress;
        progress.update(Phase::Naming, done, Some(self.total));
    }
}

/// What a mapping tells of itself: its function's name as in the source, of compilers
/// that have names of C++ (numba's, ROOT's), or the mapping's own name.
fn name_of_itself(path: &[u8], demangle: Demangle) -> String {
    let told = prof_live::runtime_function(path);
    let (runtime, name) = told.unwrap_or((&[], path));
    let name = prof_live::without_stand_ins(&String::from_utf8_lossy(name));
    match runtime {
        b"[jit]" => demangle.show(name.as_bytes()),
        _ => name,
    }
}

/// The lines of lists of JIT compilers that could not be used.
fn refused_lines(sources: &[Source]) -> RefusedLines {
    let mut refused = RefusedLines::default();
    for source in sources {
        if let Source::Jit(names) = source {
            names.add_refused(&mut refused);
        }
    }
    refused
}

/// By dso: the indices of its locations.
fn by_dso(mapped: &MappedDsos, raw: &[RawLocation]) -> Vec<Vec<u32>> {
    let mut by_dso: Vec<Vec<u32>> = vec![Vec::new(); mapped.len()];
    for (index, location) in (0_u32..).zip(raw) {
        if let Some(list) = location.dso.and_then(|id| by_dso.get_mut(id.0 as usize)) {
            list.push(index);
        }
    }
    by_dso
}

/// Takes out what was looked up early, of so many locations.
fn take_out(by_dso: &mut [Vec<u32>], early: &[EarlyAnswer], count: usize) {
    let mut is_named = vec![false; count];
    for &index in early.iter().flat_map(|answer| &answer.indices) {
        if let Some(slot) = is_named.get_mut(index as usize) {
            *slot = true;
        }
    }
    for list in by_dso {
        list.retain(|&index| is_named.get(index as usize) != Some(&true));
    }
}

/// Whether an answer is still of the file of its dso: a stream may have told
/// later which file it was.
fn is_of_its_file(answer: &EarlyAnswer, sources: &[Source]) -> bool {
    match sources.get(answer.dso.0 as usize) {
        Some(Source::File(file)) => Arc::ptr_eq(file, &answer.file),
        _ => false,
    }
}

/// What is looked up at a time, each of one dso, the longest first.
fn batches<'a>(mapped: &MappedDsos, by_dso: &'a [Vec<u32>]) -> Vec<Batch<'a>> {
    let mut work: Vec<Batch<'_>> = mapped
        .iter()
        .zip(by_dso)
        .flat_map(|((id, _), list)| list.chunks(BATCH).map(move |part| (id, part)))
        .collect();
    work.sort_by_key(|(_, part)| std::cmp::Reverse(part.len()));
    work
}

impl Namer<'_> {
    /// Names `raw`; the result is the same for any number of threads.
    ///
    /// Works in waves: while one is looked up in parallel, the answers of the
    /// one before are put into the tables in order, so that no more than two
    /// waves' answers are in memory. What was looked up early comes first.
    pub(crate) fn name(
        &self,
        mapped: &MappedDsos,
        raw: &[RawLocation],
        mut early: Vec<EarlyAnswer>,
        names: &mut Names,
    ) -> Named {
        let mut by_dso = by_dso(mapped, raw);
        let sources = self.sources(mapped, &by_dso);
        early.retain(|answer| is_of_its_file(answer, &sources));
        take_out(&mut by_dso, &early, raw.len());
        let work = batches(mapped, &by_dso);
        let count = |parts: &mut dyn Iterator<Item = usize>| parts.sum::<usize>() as u64;
        let done = count(&mut early.iter().map(|answer| answer.indices.len()));
        // Those in no dso are not looked up.
        let wanted = count(&mut work.iter().map(|(_, part)| part.len()));
        let search = Search {
            namer: self,
            mapped,
            raw,
            sources: &sources,
            kernel: Kernel::new(),
            rest: match self.forgets_tables {
                true => Rest::of(&sources, &work),
                false => Rest::default(),
            },
            done: AtomicU64::new(done),
            total: done + wanted,
        };
        search.update(0);
        if self.symbols_first {
            search.look_up_symbols(&work);
        }
        let dsos = self.dsos(mapped, &sources, names);
        let mut waves = work.chunks(WAVE);
        let mut wave = waves.next().unwrap_or_default();
        let (mut found, mut tables) = rayon::join(
            || search.look_up(wave),
            || {
                let mut tables = Tables::new(dsos, (mapped, raw), self.whole_functions, names);
                for answer in early {
                    tables.put_all(&answer.indices, &answer.found, names);
                }
                tables
            },
        );
        for next in waves {
            let (next_found, ()) = rayon::join(
                || search.look_up(next),
                || put_wave(&mut tables, wave, &found, names),
            );
            (wave, found) = (next, next_found);
        }
        put_wave(&mut tables, wave, &found, names);
        tables.finish(refused_lines(&sources).into_notes())
    }

    /// Opens the files that have addresses, in parallel.
    fn sources(&self, mapped: &MappedDsos, by_dso: &[Vec<u32>]) -> Vec<Source> {
        let all: Vec<(MappedDsoId, &MappedDso)> = mapped.iter().collect();
        if self.files.symbolizer.sources().fetch.is_some() {
            self.fetch_hottest_first(&all, by_dso);
        }
        all.par_iter()
            .zip(by_dso)
            .map(|(&(_, dso), used)| {
                if used.is_empty() {
                    Source::None(UnnamedReason::FileMissing)
                } else {
                    self.source(mapped, dso)
                }
            })
            .collect()
    }

    /// Opens the files that have addresses, those with most of them first, so
    /// that they come before the time for fetching is over.
    fn fetch_hottest_first(&self, all: &[(MappedDsoId, &MappedDso)], by_dso: &[Vec<u32>]) {
        let pairs = all.iter().zip(by_dso).filter(|(_, used)| !used.is_empty());
        let mut order: Vec<(usize, &MappedDso)> = pairs
            .map(|(&(_, dso), used)| (used.len(), dso))
            .filter(|(_, dso)| matches!(dso.kind, DsoKind::File))
            .collect();
        order.sort_by_key(|&(used, _)| std::cmp::Reverse(used));
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((_, dso)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                // What is wrong with it is told where its names are looked up.
                let _ = self.files.open(dso, &self.kernel);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..FETCHED_AT_ONCE.min(order.len()) {
                let thread = std::thread::Builder::new().name("fetch".into());
                if thread.spawn_scoped(scope, work).is_err() {
                    work();
                }
            }
        });
    }

    fn source(&self, mapped: &MappedDsos, dso: &MappedDso) -> Source {
        if self.carried.contains_key(&dso.path) {
            return Source::Carried;
        }
        if prof_live::is_left_out(&dso.path) {
            return Source::Itself;
        }
        match dso.kind {
            DsoKind::Kernel | DsoKind::KernelModule => Source::Kernel,
            DsoKind::KernelSymbol => Source::Itself,
            DsoKind::Jit if prof_live::runtime_function(&dso.path).is_some() => Source::Itself,
            DsoKind::Jit => {
                let names = dso.pid.ok_or(UnnamedReason::NoPerfMap).and_then(|pid| {
                    let owners = self.jit_owners.of(pid);
                    JitNames::open((mapped, self.files.symbolizer), pid, &owners)
                });
                names.map_or_else(Source::None, |names| Source::Jit(Box::new(names)))
            }
            DsoKind::File | DsoKind::Vdso => self
                .files
                .open(dso, &self.kernel)
                .map_or_else(Source::None, Source::File),
            DsoKind::Data => Source::None(UnnamedReason::NoPerfMap),
            DsoKind::GuestKernel | DsoKind::Unknown | DsoKind::Waiting | DsoKind::Runnable => {
                Source::None(UnnamedReason::FileMissing)
            }
        }
    }

    /// The profile's dsos: one for each mapped one, in the same order.
    fn dsos(&self, mapped: &MappedDsos, sources: &[Source], names: &mut Names) -> Vec<Dso> {
        let one = |((_, dso), source): ((MappedDsoId, &MappedDso), &Source)| {
            let (path, short_name) = dso_names(dso);
            let from = match source {
                Source::File(file) => Some(file.symbols_path().to_string_lossy()),
                Source::Jit(names) => names.dump_path().map(Path::to_string_lossy),
                _ => None,
            };
            let beside = beside_address(dso, self.files.listed());
            Dso {
                kind: dso.kind,
                path: names.intern_bytes(&path),
                beside_address: names.intern_bytes(&beside),
                short_name: names.intern_bytes(&short_name),
                build_id: self.files.build_id(dso),
                symbols_from: from
                    .filter(|from| from.as_bytes() != path.as_slice())
                    .map(|from| names.intern(&from)),
            }
        };
        mapped.iter().zip(sources).map(one).collect()
    }
}

/// Puts in what was found in a wave.
fn put_wave(tables: &mut Tables, wave: &[Batch<'_>], found: &[Found], names: &mut Names) {
    for ((_, indices), found) in wave.iter().zip(found) {
        tables.put_all(indices, found, names);
    }
}

/// Path and short name as perf shows them.
fn dso_names(dso: &MappedDso) -> (Vec<u8>, Vec<u8>) {
    if dso.kind == DsoKind::Jit
        && prof_live::is_anonymous(&dso.path)
        && let Some(pid) = dso.pid
    {
        let path = format!("/tmp/perf-{pid}.map");
        return (path.into_bytes(), format!("[JIT] tid {pid}").into_bytes());
    }
    if let Some((runtime, _)) = prof_live::runtime_function(&dso.path) {
        return (runtime.to_vec(), runtime.to_vec());
    }
    let last = dso
        .path
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    let short = match dso.kind {
        DsoKind::KernelModule => match last.split(|&byte| byte == b'.').next() {
            Some(stem) if last.contains(&b'.') && !stem.is_empty() => {
                // Modules are named by file with `-`, by the kernel with `_`.
                let stem = stem
                    .iter()
                    .map(|&byte| if byte == b'-' { b'_' } else { byte });
                [b'['].into_iter().chain(stem).chain([b']']).collect()
            }
            _ => last.to_vec(),
        },
        _ if last.is_empty() => dso.path.clone(),
        _ => last.to_vec(),
    };
    (dso.path.clone(), short)
}

/// See [`Dso::beside_address`].
pub(crate) fn beside_address(dso: &MappedDso, listed: &ListedKernel) -> Vec<u8> {
    let (path, short) = dso_names(dso);
    match dso.kind {
        DsoKind::KernelModule if !listed.modules.contains(&dso.path) => short,
        DsoKind::Kernel => listed.kernel.clone().unwrap_or(path),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::{CarriedSymbols, by_dso, dso_names, look_up_call, name_of_itself, named_by_itself};
    use crate::raw_locations::RawLocation;
    use prof_abi::CpuMode;
    use prof_live::{MappedDso, MappedDsoId, MappedDsos};
    use prof_profile::{DsoKind, Svma, UnnamedReason};
    use prof_symbolize::{Demangle, Lookup, Symbol};

    fn dso(kind: DsoKind, path: &str, pid: Option<i32>) -> MappedDso {
        MappedDso {
            kind,
            path: path.into(),
            build_id: None,
            inode: None,
            pid,
        }
    }

    fn location(dso: Option<u32>, address: u64, is_return: bool) -> RawLocation {
        RawLocation {
            mode: CpuMode::User,
            dso: dso.map(MappedDsoId),
            address,
            is_return,
            branch: None,
        }
    }

    #[test]
    fn functions_that_were_told_have_their_names_in_the_source() {
        let names = |path: &str| {
            [Demangle::Yes, Demangle::No].map(|how| name_of_itself(path.as_bytes(), how))
        };
        // As numba has it.
        let mangled = "_ZN8__main__3fibB2v1Ex";
        let told = names(&format!("[jit] {mangled}"));
        assert_eq!(told, ["__main__::fib[abi:v1]", mangled]);
        let erlang = names("[jit] lists:reverse\u{2215}2");
        assert_eq!(erlang, ["lists:reverse/2"; 2]);
        assert_eq!(names("[java] _ZN1A1bEv"), ["_ZN1A1bEv"; 2]);
        assert_eq!(names("[heap]"), ["[heap]"; 2]);
    }

    #[test]
    fn a_dso_is_called_as_perf_calls_it() {
        let names = |kind, path: &str, pid| {
            let (path, short) = dso_names(&dso(kind, path, pid));
            let text = |bytes| String::from_utf8(bytes).expect("ASCII");
            (text(path), text(short))
        };
        let pair = |path: &str, short: &str| (path.to_owned(), short.to_owned());
        use DsoKind::{Data, File, Jit, Kernel, KernelModule};
        for (found, expected) in [
            (
                names(File, "/lib/libc.so.6", None),
                pair("/lib/libc.so.6", "libc.so.6"),
            ),
            (names(File, "/odd/", None), pair("/odd/", "/odd/")),
            (
                names(Jit, "//anon", Some(7)),
                pair("/tmp/perf-7.map", "[JIT] tid 7"),
            ),
            (names(Data, "//anon", None), pair("//anon", "anon")),
            (names(Data, "[heap]", None), pair("[heap]", "[heap]")),
            // Memory of nobody has no list of names.
            (names(Jit, "//anon", None), pair("//anon", "anon")),
            (
                names(Jit, "[java] A.run", Some(7)),
                pair("[java]", "[java]"),
            ),
            (
                names(Kernel, "[kernel.kallsyms]", None),
                pair("[kernel.kallsyms]", "[kernel.kallsyms]"),
            ),
            (
                names(KernelModule, "[ext4]", None),
                pair("[ext4]", "[ext4]"),
            ),
            (
                names(KernelModule, "/lib/modules/6/snd-hda-intel.ko.xz", None),
                pair("/lib/modules/6/snd-hda-intel.ko.xz", "[snd_hda_intel]"),
            ),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn locations_go_to_their_dsos_and_those_of_none_to_nobody() {
        let mut dsos = MappedDsos::default();
        for path in ["/a", "/b"] {
            dsos.intern(dso(DsoKind::File, path, None));
        }
        let raw = [Some(1), None, Some(0), Some(1), Some(9)];
        let raw: Vec<RawLocation> = raw.map(|id| location(id, 1, false)).to_vec();
        assert_eq!(by_dso(&dsos, &raw), [vec![2], vec![0, 3]]);
    }

    #[test]
    fn symbols_in_the_recording_hold_to_their_ends() {
        let carried = CarriedSymbols {
            symbols: vec![(0x100, 0x10, "f".into()), (0x120, 0x10, "g".into())],
            bias: 0x80,
        };
        let name = |address, is_return| {
            let found = carried.resolve(&location(Some(0), address, is_return));
            (
                found.address,
                found.lookup.symbol.map(|symbol| symbol.name.to_string()),
            )
        };
        let f = Some("f".to_owned());
        assert_eq!(name(0x7f, false), (0xff, None));
        assert_eq!(name(0x80, false), (0x100, f.clone()));
        assert_eq!(name(0x8f, false), (0x10f, f.clone()));
        assert_eq!(name(0x90, false), (0x110, None));
        // The call before it was the last of the function.
        assert_eq!(name(0x90, true), (0x110, f));
        assert_eq!(name(0xa0, false), (0x120, Some("g".into())));
        assert_eq!(name(u64::MAX, true).1, None);
    }

    #[test]
    fn a_return_address_looks_up_the_call_and_only_then_what_begins_there() {
        // covers unit: CTX-06
        let function = |name: &str, start: u64, size: u64| {
            let mut found = named_by_itself(name);
            found.symbol = Some(Symbol {
                name: name.into(),
                start: Svma(start),
                size,
            });
            found
        };
        let look_up = |at: u64| match at {
            0x1000..0x1010 => function("caller", 0x1000, 0x10),
            0x1010..0x1020 => function("next", 0x1010, 0x10),
            0x1030..0x1040 => function("start", 0x1030, 0x10),
            _ => Lookup::unnamed(UnnamedReason::NoSymbolThere),
        };
        let name = |at, is_return| {
            let found = look_up_call(at, is_return, &look_up);
            found.symbol.map(|symbol| symbol.name.to_string())
        };
        assert_eq!(name(0x1010, true).as_deref(), Some("caller"));
        assert_eq!(name(0x1010, false).as_deref(), Some("next"));
        assert_eq!(name(0x1030, true).as_deref(), Some("start"));
        // Inside of a function there was a call, or nothing is known of it.
        assert_eq!(name(0x1021, true), None);
    }
}
