//! Processes whose memory lies: damaged tables, lists that come back to
//! themselves, absurd sizes, memory that goes away. Whatever is asked comes to
//! an end after a bounded number of reads, and nothing panics.

use crate::{CPython, HotSpot, LuaJit, LuaJitVm, Memory, RuntimeCode, V8};

/// Reads of memory that one question may cost, and the bytes of them.
const MOST_READS: usize = 40_000;
const MOST_BYTES: usize = 64 << 20;

/// Memory that is everywhere, of which each word is a pointer to an object or a
/// number, and each object of a type that the engine of JavaScript has.
#[derive(Clone, Copy)]
struct Objects(u64);

impl Memory for Objects {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        for (at, byte) in out.iter_mut().enumerate() {
            let at = address.wrapping_add(at as u64);
            let number = Numbers(self.0 ^ (at / 8).wrapping_mul(31)).next();
            const TYPES: [u64; 10] = [262, 262, 262, 261, 167, 191, 245, 9, 13, 11];
            let kind = TYPES[(number >> 40) as usize % TYPES.len()];
            let word = match number % 8 {
                0 => (number >> 50) << 32,
                // A pointer whose upper half is a type, too.
                _ => ((number >> 8) % 0x400 * 8 + 0x1001) | (kind << 32),
            };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        out.len()
    }
}

/// Memory that counts what is read of it, and goes away after some reads.
struct Counted<M> {
    memory: M,
    reads: usize,
    bytes: usize,
    gone_after: usize,
}

impl<M: Memory> Counted<M> {
    fn new(memory: M) -> Self {
        Self {
            memory,
            reads: 0,
            bytes: 0,
            gone_after: usize::MAX,
        }
    }

    /// Asks one question.
    fn ask<T>(&mut self, question: impl FnOnce(&mut Self) -> T) -> T {
        (self.reads, self.bytes) = (0, 0);
        let answer = question(self);
        assert!(self.reads <= MOST_READS, "{} reads", self.reads);
        assert!(self.bytes <= MOST_BYTES, "{} bytes", self.bytes);
        answer
    }
}

impl<M: Memory> Memory for Counted<M> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        self.reads += 1;
        self.bytes += out.len();
        match self.reads > self.gone_after {
            true => 0,
            false => self.memory.read(address, out),
        }
    }
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 27
    }
}

/// Memory that is everywhere: at each address a pointer, mostly, to somewhere
/// in a little space, so that lists come back to themselves.
#[derive(Clone, Copy)]
struct Maze {
    seed: u64,
    space: u64,
}

impl Memory for Maze {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        for (at, byte) in out.iter_mut().enumerate() {
            let at = address.wrapping_add(at as u64);
            let number = Numbers(self.seed ^ (at / 8).wrapping_mul(31)).next();
            let word = match number % 16 {
                0 => 0,
                1 => u64::MAX - (number >> 60),
                2 => number >> 8,
                3 => number >> 58,
                _ => (number >> 8) % self.space * 8 + 0x1000,
            };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        out.len()
    }
}

/// An image of memory from an address on.
#[derive(Clone)]
struct Image {
    base: u64,
    bytes: Vec<u8>,
}

impl Memory for Image {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let from = address.checked_sub(self.base).map(|it| it as usize);
        let there = from.and_then(|from| self.bytes.get(from..));
        let there = there.unwrap_or_default();
        let len = there.len().min(out.len());
        out[..len].copy_from_slice(&there[..len]);
        len
    }
}

impl Image {
    const BASE: u64 = 0x1_0000;

    fn new() -> Self {
        Self {
            base: Self::BASE,
            bytes: Vec::new(),
        }
    }

    /// Adds bytes behind what is there; where they are.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.base + self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }

    fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.add(&bytes)
    }

    fn text(&mut self, text: &str) -> u64 {
        self.add(&[text.as_bytes(), &[0]].concat())
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = (at - self.base) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Makes a file of it that exports these symbols, each of 64 bytes.
    fn export(&mut self, symbols: &[(&str, u64)]) {
        let names: Vec<u64> = symbols.iter().map(|(name, _)| self.text(name)).collect();
        let first_name = names.first().copied().unwrap_or(self.base);
        let mut table = vec![0_u8; 24];
        let mut hashes = Vec::new();
        for ((name, value), at) in symbols.iter().zip(names) {
            table.extend(((at - first_name) as u32).to_le_bytes());
            table.extend([0; 4]);
            table.extend((value - self.base).to_le_bytes());
            table.extend(64_u64.to_le_bytes());
            let hash = |hash: u32, byte: u8| hash.wrapping_mul(33).wrapping_add(byte.into());
            hashes.push(name.bytes().fold(5381, hash) & !1);
        }
        *hashes.last_mut().expect("a symbol") |= 1;
        let table = self.add(&table);
        // One bucket from symbol 1 on, a filter of one word.
        let head = [1_u32, 1, 1, 0, 0, 0, 1];
        let hash: Vec<u8> = head
            .iter()
            .chain(&hashes)
            .flat_map(|it| it.to_le_bytes())
            .collect();
        let hash = self.add(&hash);
        let base = self.base;
        let dynamic = [5, first_name, 6, table, 0x6fff_fef5, hash, 0, 0];
        let dynamic = self.words(&dynamic);
        self.put(base, b"\x7fELF\x02");
        self.put(base + 32, &64_u64.to_le_bytes());
        self.put(base + 56, &2_u16.to_le_bytes());
        self.put(base + 64, &1_u32.to_le_bytes());
        self.put(base + 120, &2_u32.to_le_bytes());
        self.put(base + 136, &(dynamic - base).to_le_bytes());
    }
}

/// The length of file and program headers, which come first.
const HEADERS: usize = 64 + 2 * 56;

/// A virtual machine with one compiled method: its memory, an address of its
/// code, and the method.
fn machine() -> (Image, u64, u64) {
    let mut image = Image::new();
    image.add(&[0; HEADERS]);
    let symbol = |image: &mut Image, name: &str| {
        image.add(&[&(name.len() as u16).to_le_bytes()[..], name.as_bytes()].concat())
    };
    // Method: its constants' place, their pool, and there names.
    let (class, name) = (symbol(&mut image, "a/Ring"), symbol(&mut image, "f0"));
    let holder = image.words(&[class]);
    let pool = image.words(&[holder, name]);
    let constants = image.words(&[pool, 0]);
    let method = image.words(&[constants]);
    // A block: length and mark, then the blob: name, code's first and last
    // address, deoptimisation, method, two numbers; then code.
    let kind = image.text("nmethod");
    let block = image.words(&[1, kind, 0, 0, 0, method, 4 | 4 << 32]);
    let code = image.add(&[0x90; 64]);
    image.put(block + 16, &code.to_le_bytes());
    image.put(block + 24, &(code + 64).to_le_bytes());
    let segments = image.add(&[0, 1, 1, 1]);
    let heap = image.words(&[block, code + 64, segments, segments + 4, 6]);
    let heaps = image.words(&[heap]);
    let list = image.words(&[1, heaps]);
    let list = image.words(&[list]);
    // The interpreter: one piece.
    let about = image.text("method entry point (kind = zerolocals)");
    let piece = image.words(&[64, about, 0, 0, 0, 0, 0, 0]);
    let queue = image.words(&[piece, 64 << 32]);
    let queue = image.words(&[queue]);
    let (entries, sizes) = (fields(&mut image, (list, queue)), sizes(&mut image));
    let values = [
        ("gHotSpotVMStructs", entries),
        ("gHotSpotVMStructEntryArrayStride", 40),
        ("gHotSpotVMStructEntryTypeNameOffset", 0),
        ("gHotSpotVMStructEntryTypeStringOffset", 8),
        ("gHotSpotVMStructEntryFieldNameOffset", 8),
        ("gHotSpotVMStructEntryIsStaticOffset", 16),
        ("gHotSpotVMStructEntryOffsetOffset", 24),
        ("gHotSpotVMStructEntryAddressOffset", 32),
        ("gHotSpotVMTypes", sizes),
        ("gHotSpotVMTypeEntryArrayStride", 16),
        ("gHotSpotVMTypeEntryTypeNameOffset", 0),
        ("gHotSpotVMTypeEntrySizeOffset", 8),
    ];
    let symbols = values.map(|(name, value)| (name, image.words(&[value])));
    image.export(&symbols);
    (image, code, method)
}

/// The virtual machine's table of fields, with where its list of heaps and its
/// interpreter are.
fn fields(image: &mut Image, (list, queue): (u64, u64)) -> u64 {
    let fields = [
        ("CodeBlob", "_name", 0),
        ("CodeBlob", "_code_begin", 8),
        ("CodeBlob", "_code_end", 16),
        ("nmethod", "_deopt_handler_begin", 24),
        ("nmethod", "_method", 32),
        ("CodeBlob", "_frame_complete_offset", 40),
        ("CodeBlob", "_frame_size", 44),
        ("HeapBlock", "_header", 0),
        ("HeapBlock::Header", "_used", 0),
        ("CodeCache", "_heaps", list),
        ("GrowableArrayBase", "_len", 0),
        ("GrowableArray<int>", "_data", 8),
        ("CodeHeap", "_memory", 0),
        ("CodeHeap", "_segmap", 16),
        ("VirtualSpace", "_low_boundary", 0),
        ("VirtualSpace", "_high_boundary", 8),
        ("CodeHeap", "_log2_segment_size", 32),
        ("AbstractInterpreter", "_code", queue),
        ("StubQueue", "_stub_buffer", 0),
        ("StubQueue", "_buffer_limit", 12),
        ("StubQueue", "_queue_begin", 8),
        ("StubQueue", "_queue_end", 12),
        ("InterpreterCodelet", "_size", 0),
        ("InterpreterCodelet", "_description", 8),
        ("Method", "_constMethod", 0),
        ("ConstMethod", "_constants", 0),
        ("ConstMethod", "_name_index", 8),
        ("ConstantPool", "_pool_holder", 0),
        ("Klass", "_name", 0),
        ("Symbol", "_length", 0),
        ("Symbol", "_body", 2),
    ];
    let mut entries = Vec::new();
    for (kind, field, value) in fields {
        let is_static = u64::from(value >= Image::BASE);
        let names = [image.text(kind), image.text(field)];
        entries.extend([names[0], names[1], is_static, value, value]);
    }
    entries.extend([0; 5]);
    image.words(&entries)
}

/// Its table of types.
fn sizes(image: &mut Image) -> u64 {
    let mut sizes = Vec::new();
    for (kind, size) in [
        ("HeapBlock", 8),
        ("InterpreterCodelet", 16),
        ("ConstantPool", 8),
    ] {
        sizes.extend([image.text(kind), size]);
    }
    sizes.extend([0; 2]);
    image.words(&sizes)
}

/// A process of CPython 3.13, which tells its own layout, with one thread.
fn python() -> Image {
    let mut image = Image::new();
    image.add(&[0; HEADERS]);
    let name = {
        // Length, hash, state of compact ASCII; then the text.
        let head = [1, 0, 2, 0, 0b110_0000];
        let at = image.words(&head);
        image.add(b"f0");
        at
    };
    let code_type = image.words(&[0; 8]);
    let code = image.words(&[0; 20]);
    image.put(code + 8, &code_type.to_le_bytes());
    image.put(code + 0x70, &name.to_le_bytes());
    image.put(code + 0x80, &name.to_le_bytes());
    // Frames: code, the one before, and in the last word who owns them.
    let outer = image.words(&[code, 0, 0, 0, 0, 0, 0, 0, 3 << 48]);
    let inner = image.words(&[code, outer, 0, 0, 0, 0, 0, 0, 0]);
    let chunk = image.words(&[0, 32, inner, outer]);
    // A thread: the one before and the next, its id, chunk, frame.
    let thread = image.words(&[0, 0, 5, chunk, inner]);
    let interpreter = image.words(&[0, thread]);
    let mut offsets = [0_u64; 40];
    offsets[0] = u64::from_le_bytes(*b"xdebugpy");
    for (at, value) in [
        (40, 320),
        (64, 0),
        (72, 8),
        (184, 32),
        (200, 16),
        (208, 24),
        (232, 8),
        (240, 0),
        (256, 72),
        (264, 70),
    ] {
        offsets[at / 8] = value;
    }
    let runtime = image.words(&offsets);
    image.words(&[interpreter]);
    let version = image.words(&[0x030d_00f0]);
    let eval = image.add(&[0x90; 64]);
    image.export(&[
        ("Py_Version", version),
        ("_PyRuntime", runtime),
        ("PyCode_Type", code_type),
        ("_PyEval_EvalFrameDefault", eval),
    ]);
    image
}

/// Asks all that is asked of a virtual machine.
fn ask_machine(memory: &mut Counted<impl Memory>, (code, method): (u64, u64)) -> Option<String> {
    let mut machine = memory.ask(|memory| HotSpot::open(Image::BASE, memory))?;
    let found = memory.ask(|memory| machine.code_at(code, memory));
    memory.ask(|memory| machine.block_name(code, memory));
    let named = match found {
        Some(RuntimeCode::Compiled { method, .. }) => method,
        _ => method,
    };
    memory.ask(|memory| machine.method_name(named, memory))
}

/// Asks all that is asked of an interpreter.
fn ask_python(
    memory: &mut Counted<impl Memory>,
    python: &CPython,
) -> Option<Vec<crate::PythonPart>> {
    let thread = memory.ask(|memory| python.thread(5, memory))?;
    memory.ask(|memory| python.ranges(thread, memory))?;
    let parts = memory.ask(|memory| python.functions(thread, memory));
    let code = parts.iter().flatten().flat_map(|part| &part.code);
    for code in code.copied().take(4) {
        memory.ask(|memory| python.identity(code, memory));
        let name = memory.ask(|memory| python.name(code, memory));
        assert!(name.is_none_or(|name| name.len() < 4096));
    }
    parts
}

/// Changes some bytes of an image, cuts it off, or lets it go away.
fn damage(image: &Image, numbers: &mut Numbers) -> Counted<Image> {
    let mut image = image.clone();
    for _ in 0..=numbers.next() % 4 {
        let length = image.bytes.len() as u64;
        let at = (numbers.next() % length) as usize;
        let value = match numbers.next() % 4 {
            0 => u64::MAX,
            1 => Image::BASE + numbers.next() % length,
            2 => 0,
            _ => numbers.next(),
        };
        // A word, or the one byte.
        let size = if numbers.next().is_multiple_of(2) {
            8
        } else {
            1
        };
        let aligned = if size == 8 { at & !7 } else { at };
        let bytes = value.to_le_bytes();
        let to = image.bytes.iter_mut().skip(aligned).take(size);
        to.zip(bytes).for_each(|(to, byte)| *to = byte);
    }
    if numbers.next().is_multiple_of(8) {
        let length = numbers.next() % image.bytes.len() as u64;
        image.bytes.truncate(length as usize);
    }
    let mut counted = Counted::new(image);
    if numbers.next().is_multiple_of(8) {
        counted.gone_after = (numbers.next() % 100) as usize;
    }
    counted
}

#[test]
fn a_virtual_machine_whose_tables_are_damaged_tells_little_soon() {
    let (image, code, method) = machine();
    let mut whole = Counted::new(image.clone());
    let name = ask_machine(&mut whole, (code, method));
    assert_eq!(name.as_deref(), Some("a.Ring.f0"), "undamaged");
    let mut numbers = Numbers(7);
    let mut told = 0;
    for _ in 0..20_000 {
        let mut damaged = damage(&image, &mut numbers);
        told += usize::from(ask_machine(&mut damaged, (code, method)).is_some());
    }
    assert!((500..20_000).contains(&told), "{told} were told");
}

#[test]
fn an_interpreter_whose_lists_are_damaged_tells_little_soon() {
    let image = python();
    let mut whole = Counted::new(image.clone());
    let open = |memory: &mut Counted<Image>| {
        let python = memory.ask(|memory| CPython::open(Image::BASE, memory))?;
        ask_python(memory, &python)
    };
    let parts = open(&mut whole).expect("undamaged");
    assert_eq!(
        parts.iter().map(|part| part.code.len()).collect::<Vec<_>>(),
        [1]
    );
    let mut numbers = Numbers(11);
    let mut told = 0;
    for _ in 0..20_000 {
        told += usize::from(open(&mut damage(&image, &mut numbers)).is_some());
    }
    assert!((2000..20_000).contains(&told), "{told} were told");
}

#[test]
fn memory_that_is_a_maze_of_pointers_is_left_soon() {
    let mut numbers = Numbers(3);
    for seed in 0..300 {
        let space = 1 << (seed % 12);
        let mut maze = Counted::new(Maze { seed, space });
        for python in CPython::of_each_layout(0x1000) {
            ask_python(&mut maze, &python);
            let thread = numbers.next();
            maze.ask(|memory| python.ranges(thread, memory));
            maze.ask(|memory| python.functions(thread, memory));
            maze.ask(|memory| python.name(thread, memory));
        }
        if let Some(exports) = maze.ask(|memory| crate::elf::Exports::anywhere(seed, memory)) {
            maze.ask(|memory| exports.find("name", memory));
        }
    }
}

#[test]
fn objects_that_lead_in_circles_are_functions_of_bounded_names() {
    let mut names = 0;
    for seed in 0..400 {
        for mut engine in V8::of_each_layout() {
            let mut memory = Counted::new(Objects(seed));
            for object in (0x1001..0x3000).step_by(8) {
                let found = memory.ask(|memory| engine.function(object, memory));
                let name = |memory: &mut Counted<Objects>| engine.name(&found?, memory);
                let name = memory.ask(name);
                names += usize::from(name.is_some());
                assert!(name.is_none_or(|name| name.len() < 1 << 13));
            }
        }
    }
    assert!(names > 100, "{names}");
}

#[test]
fn arrays_of_traces_that_lie_are_read_to_an_end() {
    for seed in 0..200 {
        let space = [16, 4096, 1 << 20][seed as usize % 3];
        let mut memory = Counted::new(Maze { seed, space });
        memory.gone_after = [usize::MAX, 3, 100][seed as usize / 3 % 3];
        let mut lua = LuaJit::new(LuaJitVm::of_any_build());
        for step in 0..20 {
            let at = (0x1000 + step * 64, 0x8000 + step % 3 * 8);
            memory.ask(|memory| lua.trace_at(at, memory));
            memory.ask(|memory| lua.rooms(at.1, memory));
        }
    }
}
