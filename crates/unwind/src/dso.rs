//! Files with unwind information, opened once and shared by all processes.

use crate::code_frame::{self, CodeFrame, OwnFp, Reaches, ReadCode, Wanted};
use crate::eh_return::EhReturn;
use crate::go_table::{GoCall, GoRules, GoTable};
use crate::image::Image;
use crate::lua::LuaCode;
use crate::memory::UnwindDsoId;
use crate::pointed::Pointed;
use crate::row::{Row, Save};
use crate::symbols::Symbols;
use crate::tables::{Found, Tables};
use crate::{CallBefore, ImageError, Layout, Machine, Source, symbols};
use prof_abi::BuildId;
use prof_profile::Svma;
use rustc_hash::FxHashMap;

/// Whether a file has code of GHC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haskell {
    Yes,
    /// Not as far as it was tried, for so much.
    Unknown(u16),
}

/// Most addresses whose rules one dso keeps.
const MAX_CACHED: usize = 1 << 17;

/// What leads debuggers to the code that a JIT compiler made.
const JIT_DESCRIPTOR: &[u8] = b"__jit_debug_descriptor\0";
/// The function that is the first on the stack of a greenlet (Python), which switches
/// away from it at its end: `greenlet::UserGreenlet::inner_bootstrap`. What it would return
/// to is of the stack of whoever started it, who has gone on since.
const GREENLET: &[u8] = b"_ZN8greenlet12UserGreenlet15inner_bootstrapEP9_greenletP7_object\0";
/// What Erlang's schedulers run, which goes on to code made at run time.
const ERLANG_MAIN: &[u8] = b"process_main\0";
/// What leads to all of them.
const ERLANG_SCHEDULERS: &[u8] = b"erts_aligned_scheduler_data\0";
/// The longest function at which a file is entered, bytes.
const LONGEST_ENTRY: u64 = 256;
/// Code behind a thread's first call in which the thread ends, bytes.
const TO_EXIT: usize = 24;
/// Code before that call which marks the outermost frame, bytes.
const TO_CALL: usize = 16;

/// Where the rules of an address are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Row of the dso's row list.
    Row(u32),
    /// A Go function that switches stacks is there.
    Switches,
    /// No unwind information covers it.
    Nothing,
    /// What covers it cannot be read.
    Damaged,
}

/// How a stack starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// With a call of the function that begins the program, or threads.
    Thread,
    /// With a place that was put on it as what its first function returns to.
    Last,
}

/// One ELF file: its unwind tables and the rules already looked up.
#[derive(Debug)]
pub struct UnwindDso {
    image: Image,
    tables: Tables,
    go: GoTable,
    symbols: Symbols,
    pointed: Pointed,
    /// By return address: whether threads begin with the call before it, and how.
    thread_starts: FxHashMap<u64, Option<Start>>,
    rows: Vec<Row>,
    row_numbers: FxHashMap<Row, u32>,
    /// By address: its rules and its function's start, 0 if unknown.
    rules: FxHashMap<u64, (Rules, u64)>,
    /// The address that was looked up last, which often comes again, and what
    /// was found.
    latest: (u64, (Rules, u64)),
    /// By function and place in it: frames found in the code.
    code_frames: FxHashMap<(u64, Wanted), Option<CodeFrame>>,
    /// Where functions lead that do not lead to what was wanted.
    reaches: Reaches,
    /// The same of landing pads.
    pad_frames: FxHashMap<(u64, Wanted), Option<CodeFrame>>,
    /// By place: frames found in the code behind it.
    return_frames: FxHashMap<Wanted, Option<CodeFrame>>,
    /// By start: registers that a function and what it calls may change.
    written: FxHashMap<u64, Option<u32>>,
    /// The same where calls are believed to keep the stack, and by how far the stack
    /// pointer is above a multiple of 16.
    abi_frames: FxHashMap<(Wanted, u8), Option<CodeFrame>>,
    /// By place: where its return address was found on a stack.
    found_frames: FxHashMap<Wanted, CodeFrame>,
    /// By place: whether its function keeps a frame pointer.
    kept_fps: FxHashMap<Wanted, Option<OwnFp>>,
    /// By start: functions that install the context of a landing pad.
    eh_returns: FxHashMap<u64, Option<EhReturn>>,
    /// What was found when it was first asked for.
    jit_descriptor: Option<Option<u64>>,
    greenlet: Option<Option<u64>>,
    erlang_main: Option<Option<u64>>,
    /// The interpreter of LuaJIT that was found in the file.
    lua: Option<LuaCode>,
    /// Whether it has code of GHC.
    pub(crate) haskell: Haskell,
}

/// Reads the code of a file.
fn code_of(image: &Image) -> impl ReadCode {
    code_frame::ahead(|at: u64, out: &mut [u8]| image.read_svma_up_to(at, out))
}

impl UnwindDso {
    /// Reads the headers of an ELF file; its tables are read when needed.
    ///
    /// # Errors
    /// When it is no ELF file or its headers are damaged.
    pub fn open(source: Source) -> Result<Self, ImageError> {
        Ok(Self::of(Image::parse(source)?))
    }

    /// Unwind information of code that is in no file: the contents of an
    /// `.eh_frame`, taken to be loaded at `at`, whose addresses may be relative to
    /// `text`, where the code begins. Code and symbols are not available.
    pub fn of_eh_frame(at: Svma, eh_frame: Vec<u8>, text: Svma) -> Self {
        Self::of(Image::of_eh_frame(at.0, eh_frame, text.0))
    }

    /// The same of the contents of a `.debug_frame`, whose addresses are those of the
    /// code.
    pub fn of_debug_frame(debug_frame: Vec<u8>) -> Self {
        Self::of(Image::of_debug_frame(debug_frame))
    }

    fn of(image: Image) -> Self {
        Self {
            image,
            tables: Tables::default(),
            go: GoTable::default(),
            symbols: Symbols::default(),
            pointed: Pointed::default(),
            thread_starts: FxHashMap::default(),
            rows: Vec::new(),
            row_numbers: FxHashMap::default(),
            rules: FxHashMap::default(),
            latest: (u64::MAX, (Rules::Nothing, 0)),
            code_frames: FxHashMap::default(),
            reaches: Reaches::default(),
            pad_frames: FxHashMap::default(),
            return_frames: FxHashMap::default(),
            written: FxHashMap::default(),
            abi_frames: FxHashMap::default(),
            found_frames: FxHashMap::default(),
            kept_fps: FxHashMap::default(),
            eh_returns: FxHashMap::default(),
            jit_descriptor: None,
            greenlet: None,
            erlang_main: None,
            lua: None,
            haskell: Haskell::Unknown(0),
        }
    }

    /// The file has the interpreter of LuaJIT.
    pub(crate) fn has_lua(&mut self, code: LuaCode) {
        self.lua = Some(code);
    }

    /// The interpreter of LuaJIT, if it is at this address.
    pub(crate) fn lua_at(&self, at: Svma) -> Option<LuaCode> {
        self.lua.filter(|code| code.has(at))
    }

    /// The address of `__jit_debug_descriptor`, the variable by which a process
    /// tells debuggers about its JIT code, if the file defines it.
    pub fn jit_descriptor(&mut self) -> Option<Svma> {
        let image = &self.image;
        let find = || symbols::value_of(image, JIT_DESCRIPTOR);
        self.jit_descriptor.get_or_insert_with(find).map(Svma)
    }

    /// The address of `erts_aligned_scheduler_data`, a variable that leads to what each
    /// scheduler of Erlang's machine has, if the file is that machine.
    pub fn erlang_schedulers(&self) -> Option<Svma> {
        symbols::value_of(&self.image, ERLANG_SCHEDULERS).map(Svma)
    }

    /// The address of `process_main`, if the file has Erlang's machine.
    pub(crate) fn erlang_main(&mut self) -> Option<Svma> {
        let image = &self.image;
        let find = || symbols::value_of(image, ERLANG_MAIN);
        self.erlang_main.get_or_insert_with(find).map(Svma)
    }

    /// Approximate memory it takes, in bytes: cached pieces of the file, looked-up
    /// rules, and where functions lead.
    pub fn held_bytes(&self) -> usize {
        fn entries<K, V>(map: &FxHashMap<K, V>) -> usize {
            map.capacity() * (size_of::<(K, V)>() + 1)
        }
        let rows = self.rows.capacity() * 2 * size_of::<Row>();
        let found = entries(&self.rules) + entries(&self.code_frames) + entries(&self.eh_returns);
        let found = found + entries(&self.pad_frames) + entries(&self.return_frames);
        let found = found + entries(&self.written);
        let found = found + entries(&self.abi_frames) + entries(&self.found_frames);
        let found = found + self.pointed.held_bytes();
        let found = found + entries(&self.kept_fps) + self.reaches.held_bytes();
        self.image.held_bytes() + self.tables.held_bytes() + rows + found
    }

    /// Drops what can be read from the file again.
    pub fn forget_read(&mut self) {
        self.image.forget_read();
    }

    /// The identity of the file's build, if it carries one.
    pub fn build_id(&self) -> Option<BuildId> {
        self.image.build_id()
    }

    /// Where the file's parts are loaded.
    pub fn layout(&self) -> Layout {
        self.image.layout()
    }

    /// Copies code of the file into `out`; how many bytes are there.
    pub fn code(&self, at: Svma, out: &mut [u8]) -> usize {
        self.image.read_svma_up_to(at.0, out)
    }

    /// The code from up to `before` bytes before an address on to `behind`
    /// bytes behind it, as far as both are in its segment, and where it starts.
    pub(crate) fn code_around(&self, at: Svma, before: u64, behind: u64) -> (Svma, Vec<u8>) {
        let first = self.image.segment_start(at.0).unwrap_or(at.0);
        let start = at.0.saturating_sub(before).max(first);
        let mut code = vec![0; (at.0 - start).saturating_add(behind) as usize];
        let got = self.image.read_svma_up_to(start, &mut code);
        code.truncate(got);
        (Svma(start), code)
    }

    /// Where execution of the file begins, if it is a program.
    pub(crate) fn entry(&self) -> Option<Svma> {
        (self.image.entry != 0).then_some(Svma(self.image.entry))
    }

    /// Whether a linkage stub is at an address.
    pub(crate) fn is_stub(&self, at: Svma) -> bool {
        self.image.plts.iter().any(|plt| plt.contains(&at.0))
    }

    /// The frame at a place in a landing pad of the function at `entry`, by the
    /// function's code.
    pub(crate) fn pad_frame(
        &mut self,
        entry: Svma,
        wanted: Wanted,
        machine: Machine,
    ) -> Option<CodeFrame> {
        if self.pad_frames.len() >= MAX_CACHED {
            self.pad_frames.clear();
        }
        let image = &self.image;
        let mut read = code_of(image);
        let find = || code_frame::in_pad(machine, entry.0, wanted, &mut read);
        *self
            .pad_frames
            .entry((entry.0, wanted))
            .or_insert_with(find)
    }

    /// The frame at a place, by all ways from there to a return, or by the next of an
    /// interrupted one.
    pub(crate) fn return_frame(&mut self, wanted: Wanted, machine: Machine) -> Option<CodeFrame> {
        if self.return_frames.len() >= MAX_CACHED {
            self.return_frames.clear();
        }
        let image = &self.image;
        let mut read = code_of(image);
        let find = || match wanted {
            Wanted::Return(at) => code_frame::by_returns(machine, at, &mut read),
            Wanted::Exact(at) => code_frame::by_returns(machine, at, &mut read)
                .or_else(|| code_frame::by_next_return(machine, (at, None), &mut read)),
        };
        *self.return_frames.entry(wanted).or_insert_with(find)
    }

    /// Whether the function at `entry`, and what it calls, leave a register as it is; false
    /// where that is not known.
    pub(crate) fn keeps_register(&mut self, entry: Svma, register: u8, machine: Machine) -> bool {
        if self.written.len() >= MAX_CACHED {
            self.written.clear();
        }
        let image = &self.image;
        let mut read = code_of(image);
        let find = || code_frame::written_by_function(machine, entry.0, &mut read);
        let written = *self.written.entry(entry.0).or_insert_with(find);
        written.is_some_and(|written| written & (1 << register) == 0)
    }

    /// The frame at a place of x86-64 code by the ways to a return, where calls are
    /// believed to keep the stack; the stack pointer is `beyond_16` above a multiple of
    /// 16.
    pub(crate) fn abi_frame(&mut self, wanted: Wanted, beyond_16: u8) -> Option<CodeFrame> {
        if self.abi_frames.len() >= MAX_CACHED {
            self.abi_frames.clear();
        }
        let image = &self.image;
        let mut read = code_of(image);
        let (behind_call, at) = match wanted {
            Wanted::Exact(at) => (false, at),
            Wanted::Return(at) => (true, at),
        };
        let find = || code_frame::by_abi((at, beyond_16), behind_call, &mut read);
        let frames = &mut self.abi_frames;
        *frames.entry((wanted, beyond_16)).or_insert_with(find)
    }

    /// Where a return address was found that was proven to be that of a frame at a place.
    pub(crate) fn found_frame(&self, wanted: Wanted) -> Option<CodeFrame> {
        self.found_frames.get(&wanted).copied()
    }

    /// Keeps where the return address of a frame at a place was found.
    pub(crate) fn keep_found_frame(&mut self, wanted: Wanted, frame: CodeFrame) {
        if self.found_frames.len() >= MAX_CACHED {
            self.found_frames.clear();
        }
        self.found_frames.insert(wanted, frame);
    }

    /// How the function at a place keeps its frame pointer.
    pub(crate) fn kept_fp(&mut self, wanted: Wanted) -> Option<OwnFp> {
        if self.kept_fps.len() >= MAX_CACHED {
            self.kept_fps.clear();
        }
        let image = &self.image;
        let mut read = code_of(image);
        let (behind_call, at) = match wanted {
            Wanted::Exact(at) => (false, at),
            Wanted::Return(at) => (true, at),
        };
        let find = || code_frame::kept_fp(at, behind_call, &mut read);
        *self.kept_fps.entry(wanted).or_insert_with(find)
    }

    /// The frame at a place, by the code of the function at `entry`.
    pub(crate) fn code_frame(
        &mut self,
        entry: Svma,
        wanted: Wanted,
        machine: Machine,
    ) -> Option<CodeFrame> {
        if self.code_frames.len() >= MAX_CACHED {
            self.code_frames.clear();
        }
        if let Some(&known) = self.code_frames.get(&(entry.0, wanted)) {
            return known;
        }
        let image = &self.image;
        let mut read = code_of(image);
        let frame = if self.symbols.known_builtin(entry.0) == Some(entry.0) {
            code_frame::follow_kept(machine, entry.0, wanted, &mut read)
        } else if self.reaches.rules_out(entry.0, wanted) {
            return None;
        } else {
            let found = code_frame::search(machine, entry.0, wanted, &mut read);
            found.unwrap_or_else(|reached| {
                self.reaches.keep(entry.0, reached);
                None
            })
        };
        self.code_frames.insert((entry.0, wanted), frame);
        frame
    }

    /// Whether the function at `entry` may go on to another by a jump through a pointer,
    /// which then returns to its caller.
    pub(crate) fn leaves_by_pointer(&mut self, entry: Svma, machine: Machine) -> bool {
        let nowhere = Wanted::Exact(u64::MAX);
        // Asked for a place that it does not lead to, it is kept.
        self.code_frame(entry, nowhere, machine);
        self.reaches.leaves(entry.0).unwrap_or(false)
    }

    /// The start of the last function that symbols tell at or before `at`.
    pub(crate) fn symbol_before(&mut self, at: Svma) -> Option<Svma> {
        self.symbols.start_before(&self.image, at.0).map(Svma)
    }

    /// Places at or before `at` that the file has the address of, the nearest first.
    pub(crate) fn pointed_before(&mut self, at: Svma) -> impl Iterator<Item = Svma> {
        self.pointed.before(&self.image, at.0).map(Svma)
    }

    /// The start of the function of V8's own code at `at`.
    pub(crate) fn builtin(&mut self, at: Svma) -> Option<Svma> {
        self.symbols.builtin(&self.image, at.0).map(Svma)
    }

    /// Whether the function at `at` makes the frame of the one that calls it.
    pub(crate) fn makes_frame(&self, at: Svma) -> bool {
        self.symbols.makes_frame(at.0)
    }

    /// Whether a thread begins with the call that returns to `at`: in the
    /// function at which the file is entered, or in that which starts threads; or a
    /// stack that a program made for itself ends there.
    pub fn starts_thread(&mut self, at: Svma, machine: Machine) -> bool {
        self.start(at, machine).is_some()
    }

    /// The same, and how.
    pub(crate) fn start(&mut self, at: Svma, machine: Machine) -> Option<Start> {
        if self.thread_starts.len() >= MAX_CACHED {
            self.thread_starts.clear();
        }
        if let Some(&known) = self.thread_starts.get(&at.0) {
            return known;
        }
        let is_entry = self.is_in_entry(Wanted::Return(at.0), machine);
        let starts_thread = is_entry || self.clones_before(at);
        let is_last = || self.ends_stack(at, machine).then_some(Start::Last);
        let start = starts_thread.then_some(Start::Thread).or_else(is_last);
        self.thread_starts.insert(at.0, start);
        start
    }

    /// Whether a place is in the function at which the file is entered.
    pub(crate) fn is_in_entry(&self, wanted: Wanted, machine: Machine) -> bool {
        let (Wanted::Exact(at) | Wanted::Return(at)) = wanted;
        let mut read = code_of(&self.image);
        self.entry().is_some_and(|Svma(entry)| {
            (entry..entry.saturating_add(LONGEST_ENTRY)).contains(&at)
                && code_frame::reaches(machine, entry, wanted, &mut read)
        })
    }

    /// Whether what returns to `at`, where no call stands before, was the last function of
    /// its stack: there all ends, as in `make_fcontext` of boost and PHP.
    fn ends_stack(&self, at: Svma, machine: Machine) -> bool {
        let mut before = [0; CallBefore::LONGEST];
        let from = Svma(at.0.saturating_sub(before.len() as u64));
        machine != Machine::Aarch64
            && self.code(from, &mut before) == before.len()
            && CallBefore::decode(machine, &before) == CallBefore::None
            && code_frame::ends_all(machine, at.0, &mut code_of(&self.image))
    }

    /// Whether a new thread made its first call before `at`: before that the
    /// frame pointer was cleared, to mark the outermost frame, and what
    /// follows ends the thread.
    fn clones_before(&self, at: Svma) -> bool {
        const CLEAR: [u8; 2] = [0x31, 0xed];
        const SYSTEM_CALLS: [[u8; 2]; 2] = [[0x0f, 0x05], [0xcd, 0x80]];
        let (mut before, mut behind) = ([0; TO_CALL], [0; TO_EXIT]);
        let got = self.code(Svma(at.0.saturating_sub(TO_CALL as u64)), &mut before);
        let has = |code: &[u8], part: &[u8]| code.windows(part.len()).any(|it| it == part);
        let has_clear = before.get(..got).is_some_and(|code| has(code, &CLEAR));
        let got = self.code(at, &mut behind);
        let code = behind.get(..got).unwrap_or_default();
        has_clear && SYSTEM_CALLS.iter().any(|call| has(code, call))
    }

    /// The frame at a place, if what follows takes it down by the frame pointer.
    pub(crate) fn frame_by_fp(&self, wanted: Wanted, machine: Machine) -> Option<CodeFrame> {
        let (Wanted::Exact(at) | Wanted::Return(at)) = wanted;
        if machine != Machine::X86_64 {
            return None;
        }
        code_frame::taken_down_by_fp(at, &mut code_of(&self.image))
    }

    /// The frame at a place behind which only pops and a return stand.
    pub(crate) fn epilogue(&self, at: Svma, machine: Machine) -> Option<CodeFrame> {
        let mut read = code_of(&self.image);
        code_frame::epilogue(machine, at.0, &mut read)
    }

    /// Whether the frame that executes at `pc` or returns to it leaves for a
    /// landing pad; its rules are those of `at`.
    pub(crate) fn is_leaving(&mut self, at: Svma, pc: Svma, machine: Machine) -> bool {
        let Some(Svma(start)) = self.function(at, machine) else {
            return false;
        };
        let (image, tables) = (&self.image, &mut self.tables);
        let find = || EhReturn::find(image, tables, start, machine);
        let leaves = self.eh_returns.entry(start).or_insert_with(find);
        leaves
            .as_ref()
            .is_some_and(|leaves| leaves.is_leaving(pc.0))
    }

    pub(crate) fn row(&self, number: u32) -> Option<&Row> {
        self.rows.get(number as usize)
    }

    /// The rules for `at`, from the cache or the tables.
    pub(crate) fn rules(&mut self, at: Svma, machine: Machine) -> Rules {
        self.look_up(at, machine).0
    }

    /// The start of the function at `at`, as unwind information has it; cold
    /// parts of a function count as functions.
    pub(crate) fn function(&mut self, at: Svma, machine: Machine) -> Option<Svma> {
        let (_, start) = self.look_up(at, machine);
        (start != 0).then_some(Svma(start))
    }

    fn look_up(&mut self, at: Svma, machine: Machine) -> (Rules, u64) {
        if self.latest.0 == at.0 {
            return self.latest.1;
        }
        if let Some(&known) = self.rules.get(&at.0) {
            self.latest = (at.0, known);
            return known;
        }
        let rules = match self.go.find(&self.image, at.0, machine) {
            Some((GoRules::Row(row), start)) => (self.intern(row), start),
            Some((GoRules::Switches, start)) => (Rules::Switches, start),
            None => self.by_tables(at, machine),
        };
        if self.rules.len() >= MAX_CACHED {
            self.rules.clear();
        }
        self.rules.insert(at.0, rules);
        rules
    }

    /// The rules that unwind sections have for an address.
    fn by_tables(&mut self, at: Svma, machine: Machine) -> (Rules, u64) {
        match self.tables.find(&self.image, at.0) {
            Found::Row { mut row, function } => {
                if self.begins_greenlets(function) {
                    row.return_address = Save::Undefined;
                }
                (self.intern(row), function)
            }
            Found::Damaged => (Rules::Damaged, 0),
            Found::Nothing => match self.plt_row(at, machine) {
                Some(row) => (self.intern(row), 0),
                None => (Rules::Nothing, 0),
            },
        }
    }

    /// Whether the function that starts at an address is the first on a stack of its own.
    fn begins_greenlets(&mut self, function: u64) -> bool {
        let image = &self.image;
        let find = || symbols::dynamic_value_of(image, GREENLET);
        *self.greenlet.get_or_insert_with(find) == Some(function)
    }

    /// Whether a Go function starts at an address.
    pub(crate) fn starts_go_function(&mut self, at: Svma, machine: Machine) -> bool {
        self.go.is_there(&self.image) && self.look_up(at, machine).1 == at.0
    }

    /// Whether the Go function at an address is the outermost of its stacks.
    pub(crate) fn begins_goroutines(&mut self, at: Svma, machine: Machine) -> bool {
        if !self.go.is_there(&self.image) {
            return false;
        }
        let Rules::Row(number) = self.rules(at, machine) else {
            return false;
        };
        let row = self.row(number);
        row.is_some_and(|row| row.return_address == Save::Undefined)
    }

    /// Bytes from the stack pointer to the return address of the Go function
    /// at an address, if right below it the frame pointer is saved.
    pub(crate) fn go_frame_with_fp(&mut self, at: Svma, machine: Machine) -> Option<u64> {
        if !self.go.is_there(&self.image) {
            return None;
        }
        let Rules::Row(number) = self.rules(at, machine) else {
            return None;
        };
        let word = i64::from(machine.word());
        let kept = (machine.fp(), Save::At(-2 * word));
        let row = self.row(number)?;
        if row.return_address != Save::At(-word) || !row.saves.contains(&kept) {
            return None;
        }
        self.go_frame_size(at)
    }

    /// Where the direct calls to `target` in the Go function at `start` return
    /// to; of several those that pass the function at `closure` on.
    pub(crate) fn calls_to(
        &self,
        start: Svma,
        (target, closure): (Svma, Option<Svma>),
        machine: Machine,
    ) -> Vec<Svma> {
        let calls = self.go.calls_to(&self.image, start.0, target.0, machine);
        match (calls.as_slice(), closure) {
            ([], _) | ([_], _) => calls.iter().map(|call| Svma(call.back)).collect(),
            (_, Some(closure)) => self.passing(&calls, closure),
            (_, None) => Vec::new(),
        }
    }

    /// Where those of these calls return to that pass the function at `closure` on.
    fn passing(&self, calls: &[GoCall], closure: Svma) -> Vec<Svma> {
        let passing = calls
            .iter()
            .filter(|call| call.passes(&self.image, closure.0));
        passing.map(|call| Svma(call.back)).collect()
    }

    /// Where the calls to `target` return to, of the Go function that makes the closure
    /// at `closure`, that pass this closure on; none unless `outer`, where that function
    /// returns to, is where a goroutine's stack ends.
    pub(crate) fn calls_of_maker(
        &mut self,
        outer: Svma,
        (target, closure): (Svma, Svma),
        machine: Machine,
    ) -> Vec<Svma> {
        if !self.go.is_outermost(&self.image, outer.0) {
            return Vec::new();
        }
        let Some(maker) = self.go.maker(&self.image, closure.0) else {
            return Vec::new();
        };
        let calls = self.go.calls_to(&self.image, maker, target.0, machine);
        self.passing(&calls, closure)
    }

    /// Whether a Go function that switches stacks is at an address.
    pub(crate) fn switches_stacks(&mut self, at: Svma, machine: Machine) -> bool {
        self.go.is_there(&self.image) && self.rules(at, machine) == Rules::Switches
    }

    /// Bytes from the stack pointer to the return address of the Go function
    /// at an address.
    pub(crate) fn go_frame_size(&mut self, at: Svma) -> Option<u64> {
        self.go.frame_size(&self.image, at.0)
    }

    fn intern(&mut self, row: Row) -> Rules {
        if let Some(&number) = self.row_numbers.get(&row) {
            return Rules::Row(number);
        }
        let number = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        self.rows.push(row.clone());
        self.row_numbers.insert(row, number);
        Rules::Row(number)
    }

    /// Rules for linkage stubs, for which lld writes no unwind information.
    ///
    /// An entry of x86 is `[endbr] jmp *slot` or `push index; jmp first`; the
    /// first pushes the link map on top of the index.
    fn plt_row(&self, at: Svma, machine: Machine) -> Option<Row> {
        const ENTRY: u64 = 16;
        let plt = self.image.plts.iter().find(|plt| plt.contains(&at.0))?;
        if machine == Machine::Aarch64 {
            return None;
        }
        let within = (at.0 - plt.start) % ENTRY;
        let mut entry = [0; ENTRY as usize];
        if !self.image.read_svma(at.0 - within, &mut entry) {
            return None;
        }
        let word = i64::from(machine.word());
        let before = entry.get(..within as usize)?;
        let is_first = entry.starts_with(&[0xff, 0x35]) || entry.starts_with(&[0xff, 0xb3]);
        let pushed = if is_first {
            1 + i64::from(before.len() >= 6)
        } else {
            // `push imm32` of an entry begins at its start, behind an
            // `endbr` of 4 bytes or behind a `jmp` of 6.
            let push = [0, 4, 6]
                .iter()
                .find(|&&push| entry.get(push) == Some(&0x68));
            i64::from(push.is_some_and(|push| before.len() >= push + 5))
        };
        Some(Row::pushed(
            machine.sp(),
            word * (1 + pushed),
            machine.word(),
        ))
    }
}

/// All dsos of a recording.
#[derive(Debug, Default)]
pub struct UnwindDsos {
    /// `None` where one was removed: no other gets its handle.
    list: Vec<Option<Box<UnwindDso>>>,
}

impl UnwindDsos {
    /// Adds a dso.
    pub fn add(&mut self, dso: UnwindDso) -> UnwindDsoId {
        let id = UnwindDsoId(u32::try_from(self.list.len()).expect("fewer than 2^32 dsos"));
        self.list.push(Some(Box::new(dso)));
        id
    }

    /// The dso of a handle of this list, unless it was removed.
    pub fn get(&self, id: UnwindDsoId) -> Option<&UnwindDso> {
        self.list.get(id.0 as usize)?.as_deref()
    }

    /// The same, to look things up in it.
    pub fn get_mut(&mut self, id: UnwindDsoId) -> Option<&mut UnwindDso> {
        self.list.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Closes a dso's file and forgets all of it.
    pub fn remove(&mut self, id: UnwindDsoId) {
        if let Some(dso) = self.list.get_mut(id.0 as usize) {
            *dso = None;
        }
    }
}
