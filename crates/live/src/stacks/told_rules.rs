//! Unwind information of code made at run time, which its maker tells: in a
//! jitdump, or debuggers by the JIT interface of GDB.
//!
//! It is looked for once a drain, before the first sample of a process is
//! unwound. All samples of the drain are older than that: where code took the
//! place of other code since the last look, they may be of either, and none of
//! the two counts for them.

use super::OpenFile;
use crate::address_space::Access;
use crate::jitdump_name::jitdump_pid;
use crate::memory::WantedMemory;
use crate::processes::Processes;
use prof_abi::CpuMode;
use prof_profile::{Avma, Bias, DsoKind, Svma};
use prof_runtimes::{
    DumpedCode, ErlangMain, ErlangSchedulers, ErlangTold, GdbJit, JitDumpTail, JitObject, Memory,
    Unwinding,
};
use prof_unwind::{Erlang, Told, UnwindDso, UnwindDsoId, UnwindDsos};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Most processes of which something is known.
const MAX_PROCESSES: usize = 1 << 12;
/// Most pieces of code of one process, and bytes of unwind information.
const MAX_PIECES: usize = 1 << 15;
const MAX_BYTES: usize = 64 << 20;
/// Most records of a jitdump that one look reads.
const MAX_RECORDS: usize = 2048;
/// Most jitdumps and lists of one process.
const MAX_SOURCES: usize = 16;

/// Functions of an object, by address.
type Functions = Arc<[(Range<u64>, Box<str>)]>;

/// A piece of code.
#[derive(Debug, Default)]
struct Piece {
    end: u64,
    /// Its rules, if it has any, and where they count as standing.
    rules: Option<(UnwindDsoId, Bias)>,
    functions: Functions,
    /// It is Erlang's.
    is_erlang: bool,
    /// The entry of a list that told of it; 0 for a jitdump.
    entry: u64,
    /// The drain in which it took the place of other code; 0 if it did not.
    replaced: u64,
    /// The drain in which its compiler was seen to have taken it back.
    gone: Option<u64>,
    /// Of memory.
    bytes: usize,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Known {
    /// The version of its mappings when sources were last looked for.
    version: Option<u64>,
    /// The drain of the last look.
    looked: u64,
    dumps: FxHashMap<u64, Dump>,
    lists: FxHashMap<u64, GdbJit>,
    /// How frames of Erlang's machine are, if it is one.
    erlang: Option<Erlang>,
    /// And its schedulers.
    schedulers: Option<ErlangSchedulers>,
    /// By first address; none overlaps another.
    pieces: BTreeMap<u64, Piece>,
    bytes: usize,
}

/// A jitdump that was mapped.
#[derive(Debug)]
struct Dump {
    file: File,
    tail: Option<JitDumpTail>,
}

/// What all processes tell.
#[derive(Debug, Default)]
pub(crate) struct ToldRules {
    by_pid: FxHashMap<i32, Known>,
    drain: u64,
    /// One of them is, or was, a machine of Erlang.
    has_erlang: bool,
}

/// Where a process tells of its code.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Jitdumps by the address of their mapping.
    pub(super) dumps: Vec<(u64, crate::mapped_dsos::MappedDsoId)>,
    /// Executable memory without a file is mapped.
    pub(super) makes_code: bool,
    /// Addresses of descriptors of lists.
    pub(super) lists: Vec<u64>,
    /// Where the address of what Erlang's schedulers have stands.
    pub(super) schedulers: Option<u64>,
}

impl Sources {
    /// The jitdumps of a process.
    pub(super) fn of(processes: &Processes, pid: i32) -> Self {
        let mut found = Self::default();
        let space = processes.space(pid, CpuMode::User);
        for mapping in space.iter().flat_map(|space| space.iter()) {
            let dso = processes.dsos().get(mapping.dso);
            let is_code = mapping.access.has(Access::EXECUTE);
            found.makes_code |= is_code && dso.kind == DsoKind::Jit;
            if is_code && jitdump_pid(&dso.path).is_some() && found.dumps.len() < MAX_SOURCES {
                found.dumps.push((mapping.start.0, mapping.dso));
            }
        }
        found
    }
}

impl ToldRules {
    /// The samples that follow were drained together, after the ones before.
    pub(crate) fn begin_drain(&mut self) {
        self.drain += 1;
    }

    /// What is told of how the code at an address of a process unwinds.
    pub(super) fn at(&self, pid: i32, pc: Avma) -> Option<Told<'_>> {
        let known = self.by_pid.get(&pid)?;
        let piece = self.piece_of(known, pc.0)?;
        match (piece.rules, &known.erlang) {
            (Some((id, bias)), _) => Some(Told::Rules(id, bias)),
            (None, Some(erlang)) if piece.is_erlang => Some(Told::Erlang(erlang)),
            _ => None,
        }
    }

    /// Whether a process is a machine of Erlang.
    pub(crate) fn is_erlang(&self, pid: i32) -> bool {
        let known = self.by_pid.get(&pid);
        known.is_some_and(|known| known.erlang.is_some())
    }

    /// Whether a frame stands for those of an Erlang process whose stack was not copied.
    pub(crate) fn stands_for_others(&self, pid: i32, pc: u64) -> bool {
        let main = self.erlang_main(pid);
        main.is_some_and(|main| main.stands_for_others(pc))
    }

    /// Whether an address is of what Erlang's schedulers run.
    pub(crate) fn runs_schedulers(&self, pid: i32, pc: u64) -> bool {
        let main = self.erlang_main(pid);
        main.is_some_and(|main| (main.start..main.end).contains(&pc))
    }

    fn erlang_main(&self, pid: i32) -> Option<ErlangMain> {
        // It is asked for each frame that was not copied.
        let known = self.has_erlang.then(|| self.by_pid.get(&pid))??;
        known.erlang.as_ref()?.main
    }

    /// What of the memory of an Erlang scheduler's thread tells which process it runs, if
    /// a sample of it was in Erlang's code: addresses of its frames, and where they stand.
    /// Its chain may have been cut.
    pub(crate) fn of_scheduler(
        &mut self,
        (pid, tid): (i32, i32),
        (frames, is_cut): (impl DoubleEndedIterator<Item = (u64, u64)> + Clone, bool),
        memory: &mut impl Memory,
    ) -> Option<WantedMemory> {
        let known = self.by_pid.get_mut(&pid)?;
        let main = known.erlang.as_ref()?.main?;
        let pieces = &known.pieces;
        let is_code = |pc: u64| {
            let piece = pieces.range(..=pc).next_back();
            piece.is_some_and(|(_, piece)| pc < piece.end && piece.is_erlang)
        };
        frames.clone().any(|(pc, _)| is_code(pc)).then_some(())?;
        let is_cut = is_cut
            && frames
                .clone()
                .next_back()
                .is_some_and(|(pc, _)| is_code(pc));
        // What follows stands where the room for its registers ends.
        let mut outer = frames.skip_while(|&(pc, _)| !main.stands_for_others(pc));
        let below = outer.nth(1).and_then(|(_, slot)| main.below(slot));
        let schedulers = known.schedulers.as_mut()?;
        if is_cut {
            schedulers.was_too_little();
        }
        let process = schedulers.wanted((tid, below), main, is_code, memory)?;
        Some(WantedMemory {
            ranges: std::iter::once(process.head..process.head.checked_add(8)?).collect(),
            pointed: None,
            list: Some(process),
        })
    }

    /// The function at an address, as debuggers are told.
    pub(crate) fn function(&self, pid: i32, pc: u64) -> Option<(Range<u64>, &str)> {
        let functions = &self.piece(pid, pc)?.functions;
        let behind = functions.partition_point(|(range, _)| range.start <= pc);
        let (range, name) = functions.get(behind.checked_sub(1)?)?;
        range.contains(&pc).then(|| (range.clone(), &**name))
    }

    /// Whether a process tells debuggers of functions, and writes no jitdump.
    pub(crate) fn names_functions(&self, pid: i32) -> bool {
        let known = self.by_pid.get(&pid);
        known.is_some_and(|known| known.dumps.is_empty() && !known.lists.is_empty())
    }

    fn piece(&self, pid: i32, pc: u64) -> Option<&Piece> {
        self.piece_of(self.by_pid.get(&pid)?, pc)
    }

    fn piece_of<'a>(&self, known: &'a Known, pc: u64) -> Option<&'a Piece> {
        let (_, piece) = known.pieces.range(..=pc).next_back()?;
        (pc < piece.end && piece.replaced != self.drain).then_some(piece)
    }

    /// Whether a process is to be looked at, which is so once a drain, and
    /// whether its mappings have changed since sources were looked for.
    pub(super) fn begin_look(
        &mut self,
        (pid, version): (i32, u64),
        files: &mut UnwindDsos,
    ) -> Option<bool> {
        if self.by_pid.len() >= MAX_PROCESSES && !self.by_pid.contains_key(&pid) {
            let pids: Vec<i32> = self.by_pid.keys().copied().collect();
            pids.into_iter().for_each(|pid| self.forget(pid, files));
        }
        let known = self.by_pid.entry(pid).or_default();
        if known.looked == self.drain {
            return None;
        }
        known.looked = self.drain;
        Some(known.version.replace(version) != Some(version))
    }

    /// What a process has mapped tells of code here.
    pub(super) fn set_sources(
        &mut self,
        (processes, pid): (&Processes, i32),
        sources: &Sources,
        open: &mut impl OpenFile,
    ) {
        let known = self.by_pid.entry(pid).or_default();
        for &(start, dso) in &sources.dumps {
            if !known.dumps.contains_key(&start)
                && known.dumps.len() < MAX_SOURCES
                && let Some(file) = open.open_file(processes.dsos().get(dso), pid)
            {
                known.dumps.insert(start, Dump { file, tail: None });
            }
        }
        for &at in sources.lists.iter().take(MAX_SOURCES) {
            known.lists.entry(at).or_insert_with(|| GdbJit::new(at));
        }
        known.lists.retain(|at, _| sources.lists.contains(at));
        if known.schedulers.is_none() {
            known.schedulers = sources.schedulers.map(ErlangSchedulers::new);
        }
    }

    /// Reads what is new.
    pub(super) fn read(&mut self, pid: i32, files: &mut UnwindDsos, memory: &mut impl Memory) {
        let drain = self.drain;
        if let Some(known) = self.by_pid.get_mut(&pid) {
            known.drop_gone(drain, files);
            known.read_dumps(drain, files);
            known.read_lists(drain, files, memory);
            self.has_erlang |= known.erlang.is_some();
        }
    }

    /// Processes of which something is known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_pid.len()
    }

    /// A process ended, or runs another program.
    pub(crate) fn forget(&mut self, pid: i32, files: &mut UnwindDsos) {
        if let Some(known) = self.by_pid.remove(&pid) {
            let rules = known.pieces.values().filter_map(|piece| piece.rules);
            rules.for_each(|(id, _)| files.remove(id));
        }
    }
}

impl Known {
    /// Drops what was taken back before this drain.
    fn drop_gone(&mut self, drain: u64, files: &mut UnwindDsos) {
        let is_gone = |piece: &Piece| piece.gone.is_some_and(|gone| gone < drain);
        let gone = self.pieces.iter().filter(|(_, piece)| is_gone(piece));
        let gone: Vec<u64> = gone.map(|(&start, _)| start).collect();
        gone.into_iter().for_each(|start| self.remove(start, files));
    }

    fn remove(&mut self, start: u64, files: &mut UnwindDsos) {
        if let Some(piece) = self.pieces.remove(&start) {
            self.bytes = self.bytes.saturating_sub(piece.bytes);
            piece.rules.into_iter().for_each(|(id, _)| files.remove(id));
        }
    }

    fn read_dumps(&mut self, drain: u64, files: &mut UnwindDsos) {
        let mut codes = Vec::new();
        for Dump { file, tail } in self.dumps.values_mut() {
            let mut read = |at: u64, out: &mut [u8]| file.read_at(out, at).unwrap_or(0);
            if tail.is_none() {
                *tail = JitDumpTail::open(&mut read);
            }
            if let Some(tail) = tail {
                tail.read(&mut read, MAX_RECORDS, &mut |code| codes.push(code));
            }
        }
        for code in codes {
            self.add_dumped(code, drain, files);
        }
    }

    fn add_dumped(
        &mut self,
        DumpedCode { code, how }: DumpedCode,
        drain: u64,
        files: &mut UnwindDsos,
    ) {
        // Erlang's machine tells debuggers of the same code, and of its frames.
        if how == Unwinding::Unknown && self.erlang.is_some() {
            return;
        }
        let piece = match how {
            Unwinding::EhFrame { at, bytes } => Piece {
                rules: self.rules((Some(at), &bytes), code.start, files),
                bytes: bytes.len(),
                ..Piece::default()
            },
            Unwinding::Unknown => Piece::default(),
            Unwinding::AsAt(old) => {
                let mut piece = self.pieces.remove(&old).unwrap_or_default();
                self.bytes = self.bytes.saturating_sub(piece.bytes);
                if let Some((_, bias)) = &mut piece.rules {
                    *bias = Bias::between(Avma(code.start), bias.to_svma(Avma(old)));
                }
                piece
            }
        };
        let end = code.end;
        self.add(code.start, Piece { end, ..piece }, drain, files);
    }

    fn read_lists(&mut self, drain: u64, files: &mut UnwindDsos, memory: &mut impl Memory) {
        let mut lists = std::mem::take(&mut self.lists);
        for list in lists.values_mut() {
            let changes = list.look(memory);
            if !changes.gone.is_empty() {
                let gone: FxHashSet<u64> = changes.gone.into_iter().collect();
                let pieces = self.pieces.values_mut();
                pieces
                    .filter(|piece| gone.contains(&piece.entry))
                    .for_each(|piece| piece.gone = Some(drain));
            }
            for (entry, object) in changes.new {
                self.add_object((entry, object), drain, files);
            }
        }
        self.lists = lists;
    }

    fn add_object(
        &mut self,
        (entry, object): (u64, JitObject),
        drain: u64,
        files: &mut UnwindDsos,
    ) {
        let names = object.functions.iter().map(|(_, name)| name.len());
        let names =
            names.sum::<usize>() + object.functions.len() * size_of::<(Range<u64>, Box<str>)>();
        let functions: Functions = match self.bytes + names <= MAX_BYTES {
            true => {
                let functions = object.functions.into_iter();
                functions
                    .map(|(range, name)| (range, name.into_boxed_str()))
                    .collect()
            }
            false => Functions::default(),
        };
        let is_erlang = object.erlang.is_some();
        if let Some(told) = object.erlang {
            self.add_erlang(told, object.code.first());
        }
        for (number, code) in object.code.into_iter().enumerate() {
            let rules = match (&object.eh_frame, &object.debug_frame) {
                (Some((at, bytes)), _) => Some((Some(*at), bytes.as_slice())),
                (None, Some(bytes)) => Some((None, bytes.as_slice())),
                (None, None) => None,
            };
            let piece = Piece {
                end: code.end,
                rules: rules.and_then(|rules| self.rules(rules, code.start, files)),
                functions: Arc::clone(&functions),
                is_erlang,
                entry,
                // All share the names.
                bytes: rules.map_or(0, |(_, bytes)| bytes.len())
                    + if number == 0 { names } else { 0 },
                ..Piece::default()
            };
            self.add(code.start, piece, drain, files);
        }
    }

    /// Adds what Erlang's machine tells of the code here.
    fn add_erlang(&mut self, told: ErlangTold, code: Option<&Range<u64>>) {
        let erlang = self.erlang.get_or_insert_default();
        match told {
            ErlangTold::Machine { has_frame_pointers } => {
                erlang.has_frame_pointers = has_frame_pointers;
            }
            ErlangTold::Shared(main) => erlang.main = main,
            ErlangTold::ReturnedTo { exits } => {
                erlang.returned_to = code.cloned().unwrap_or_default();
                erlang.exits = exits;
            }
            ErlangTold::Module => {}
        }
    }

    /// Makes rules of unwind information that counts as standing at an address, or of a
    /// `.debug_frame` for `None`, for code that begins at `text`.
    fn rules(
        &self,
        (at, bytes): (Option<u64>, &[u8]),
        text: u64,
        files: &mut UnwindDsos,
    ) -> Option<(UnwindDsoId, Bias)> {
        if self.pieces.len() >= MAX_PIECES || self.bytes + bytes.len() > MAX_BYTES {
            return None;
        }
        let bytes = bytes.to_vec();
        let id = files.add(match at {
            Some(at) => UnwindDso::of_eh_frame(Svma(at), bytes, Svma(text)),
            None => UnwindDso::of_debug_frame(bytes),
        });
        Some((id, Bias::between(Avma(0), Svma(0))))
    }

    /// Adds a piece of code in place of what was there.
    fn add(&mut self, start: u64, piece: Piece, drain: u64, files: &mut UnwindDsos) {
        let before = self.pieces.range(..piece.end).rev();
        let over = before.take_while(|(_, piece)| piece.end > start);
        let over: Vec<u64> = over.map(|(&start, _)| start).collect();
        let replaced = if over.is_empty() { 0 } else { drain };
        over.into_iter().for_each(|start| self.remove(start, files));
        if self.pieces.len() < MAX_PIECES {
            self.bytes += piece.bytes;
            self.pieces.insert(start, Piece { replaced, ..piece });
        } else if let Some((id, _)) = piece.rules {
            files.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, MAX_PIECES, Piece, ToldRules};
    use prof_profile::{Avma, Bias};
    use prof_runtimes::{DumpedCode, ErlangTold, JitObject, Unwinding};
    use prof_unwind::{Told, UnwindDsoId, UnwindDsos};

    const PID: i32 = 7;

    /// A drain in which code came to these addresses, with rules or without.
    fn drain(told: &mut ToldRules, files: &mut UnwindDsos, code: &[(u64, u64, bool)]) {
        told.begin_drain();
        told.begin_look((PID, 0), files).expect("once a drain");
        let drain = told.drain;
        let known = told.by_pid.get_mut(&PID).expect("it was looked at");
        known.drop_gone(drain, files);
        for &(start, end, has_rules) in code {
            let how = match has_rules {
                true => Unwinding::EhFrame {
                    at: end,
                    bytes: vec![0; 4],
                },
                false => Unwinding::Unknown,
            };
            let code = start..end;
            known.add_dumped(DumpedCode { code, how }, drain, files);
        }
    }

    fn rules(told: &ToldRules, at: u64) -> Option<(UnwindDsoId, Bias)> {
        match told.at(PID, Avma(at))? {
            Told::Rules(id, bias) => Some((id, bias)),
            Told::Erlang(_) => None,
        }
    }

    fn has(told: &ToldRules, at: u64) -> bool {
        rules(told, at).is_some()
    }

    #[test]
    fn code_that_takes_the_place_of_other_code_counts_from_the_next_drain_on() {
        let (mut told, mut files) = (ToldRules::default(), UnwindDsos::default());
        drain(
            &mut told,
            &mut files,
            &[(0x100, 0x200, true), (0x200, 0x300, true)],
        );
        assert!(has(&told, 0x100) && has(&told, 0x1ff) && has(&told, 0x200));
        assert!(!has(&told, 0x300) && !has(&told, 0xff));
        // Samples of this drain may be of either.
        drain(&mut told, &mut files, &[(0x180, 0x280, true)]);
        assert!(
            ![0x100, 0x180, 0x27f, 0x2ff]
                .iter()
                .any(|&at| has(&told, at))
        );
        drain(&mut told, &mut files, &[]);
        assert!(has(&told, 0x180) && !has(&told, 0x100) && !has(&told, 0x280));
        // Code of which nothing is told hides what was there, too.
        drain(&mut told, &mut files, &[(0x180, 0x1a0, false)]);
        drain(&mut told, &mut files, &[]);
        assert!(!has(&told, 0x180) && !has(&told, 0x1a0));
        told.forget(PID, &mut files);
        assert!(!has(&told, 0x180));
    }

    #[test]
    fn code_that_was_moved_has_its_rules_where_it_is_now() {
        let (mut told, mut files) = (ToldRules::default(), UnwindDsos::default());
        drain(&mut told, &mut files, &[(0x100, 0x200, true)]);
        let (id, _) = rules(&told, 0x100).expect("rules");
        let drain = told.drain;
        let known = told.by_pid.get_mut(&PID).expect("it was looked at");
        let moved = DumpedCode {
            code: 0x1100..0x1200,
            how: Unwinding::AsAt(0x100),
        };
        known.add_dumped(moved, drain, &mut files);
        let (moved, bias) = rules(&told, 0x1180).expect("rules");
        assert_eq!((moved, bias.to_svma(Avma(0x1180)).0), (id, 0x180));
        assert!(!has(&told, 0x100));
    }

    #[test]
    fn a_jitdump_of_erlangs_code_leaves_what_is_known_of_it() {
        let (mut told, mut files) = (ToldRules::default(), UnwindDsos::default());
        drain(&mut told, &mut files, &[]);
        let known = told.by_pid.get_mut(&PID).expect("it was looked at");
        let module = JitObject {
            code: std::iter::once(0x100..0x300).collect(),
            erlang: Some(ErlangTold::Module),
            ..JitObject::default()
        };
        known.add_object((7, module), 1, &mut files);
        drain(&mut told, &mut files, &[(0x100, 0x200, false)]);
        drain(&mut told, &mut files, &[]);
        for at in [0x100, 0x1ff, 0x200] {
            assert!(matches!(told.at(PID, Avma(at)), Some(Told::Erlang(_))));
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_dropped_is_forgotten() {
        let mut files = UnwindDsos::default();
        let mut known = Known::default();
        for number in 0..MAX_PIECES as u64 + 10 {
            let piece = Piece {
                end: number * 16 + 16,
                rules: known.rules((Some(0), &[0; 4]), 0, &mut files),
                bytes: 4,
                entry: 1,
                ..Piece::default()
            };
            known.add(number * 16, piece, 1, &mut files);
        }
        assert_eq!(known.pieces.len(), MAX_PIECES);
        assert_eq!(known.bytes, MAX_PIECES * 4);
        let ids: Vec<_> = known.pieces.values().filter_map(|it| it.rules).collect();
        known
            .pieces
            .values_mut()
            .for_each(|piece| piece.gone = Some(1));
        known.drop_gone(1, &mut files);
        assert_eq!(known.pieces.len(), MAX_PIECES, "samples of this drain");
        known.drop_gone(2, &mut files);
        assert_eq!((known.pieces.len(), known.bytes), (0, 0));
        assert!(ids.iter().all(|&(id, _)| files.get(id).is_none()));
    }
}
