//! Erlang's virtual machine (BEAM): what its compiler tells debuggers.
//!
//! It tells by the JIT interface of GDB ([`GdbJit`](crate::GdbJit)) of its code, without
//! being asked to, but not with ELF files: a reader that debuggers load knows its form.
//! For the machine once:
//!
//! | offset | size | field |
//! |---:|---:|---|
//! | 0 | 4 | 0 |
//! | 8 | 4 | layout of frames: 0 return addresses only, 1 frame pointers |
//! | 16 | 8 | where a process goes that is done |
//!
//! For each module:
//!
//! | offset | size | field |
//! |---:|---:|---|
//! | 0 | 4 | 1 |
//! | 8 | 8 | where its code begins |
//! | 16 | 4 | functions |
//! | 20 | 4 | bytes of code |
//! | 24 | 2 | length of its name with the NUL, n |
//! | 26 | n | the name; what follows begins at 32 + n |
//!
//! A function is 16 bytes and its name: first and last offset in the code, lines, and the
//! length of the name with its NUL (2 bytes), behind which the name is; and so a line, of
//! 12 bytes and the name of its file: offset, number, length of the name.
//!
//! Source: `beam_jit_metadata.cpp` of Erlang/OTP 25 to 28.

use crate::memory::{Memory, slice};
use std::ops::Range;

/// Of the machine, and of a module.
const OF_MACHINE: u32 = 0;
const OF_MODULE: u32 = 1;
/// The modules that the machine itself makes: what all code calls, and what is returned to
/// in place of a function.
const SHARED: &[u8] = b"global";
const RETURNED_TO: &[u8] = b"erts_beamasm";
/// In the first, what a scheduler runs; in the second, where processes end.
const MAIN: &str = "global::process_main";
const EXITS: [&str; 2] = ["erts_beamasm:normal_exit/0", "erts_beamasm:continue_exit/0"];
/// Behind the name of a function, of what is in front of it.
const IN_FRONT: &str = "-CodeInfoPrologue";
/// How `process_main` enters a process, and the bytes of the number that follows.
const ENTERS: [(&[u8], usize); 2] = [(&[0x49, 0x8b, 0x65], 1), (&[0x49, 0x8b, 0xa5], 4)];
const LONGEST_NAME: usize = 512;

/// What code of Erlang's machine is, as its compiler tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErlangTold {
    /// How all frames are made.
    Machine {
        /// With frame pointers.
        has_frame_pointers: bool,
    },
    /// A module.
    Module,
    /// The code that modules call.
    Shared(Option<ErlangMain>),
    /// Code that is returned to without a call before it.
    ReturnedTo {
        /// Where a process goes that is done.
        exits: Vec<Range<u64>>,
    },
}

/// What a scheduler runs (`process_main`): it leaves room on the stack of the thread, at
/// the end of which the registers of its processes are, and goes to their stacks. C
/// functions are called on that of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErlangMain {
    /// Its first byte, and the one behind its last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// What it takes from the stack pointer, bytes.
    pub room: u64,
    /// To a multiple of which it then goes, downwards.
    pub align: u64,
    /// From the stack pointer to what `rbx` holds from then on.
    pub registers: u64,
    /// Where in a process its stack pointer stands, if the code tells.
    pub stack: Option<u64>,
}

impl ErlangMain {
    /// The return address of a frame that stands for all of a process whose stack was not
    /// copied: nothing returns to behind the first byte.
    pub fn stand_in(&self) -> u64 {
        self.start + 1
    }

    /// Whether a frame with this return address is such a one.
    pub fn stands_for_others(&self, pc: u64) -> bool {
        pc == self.stand_in()
    }

    /// The stack pointer below the room, above which a return address stands here.
    pub fn below(&self, slot: u64) -> Option<u64> {
        let end = slot.checked_sub(self.room)?;
        Some(end - end % self.align)
    }

    /// Reads it from its code, whose last part enters processes (`mov stack(%r13),%rsp`)
    /// and whose first is `sub $room,%rsp; and $-align,%rsp; mov %rsp,(%rdi);
    /// lea registers(%rsp),%rbx`.
    fn read(range: &Range<u64>, memory: &mut impl Memory) -> Option<Self> {
        let size = usize::try_from(range.end - range.start).ok()?;
        let code = slice(memory, range.start, size)?;
        let number = |at: usize| Some(u32::from_le_bytes(*code.get(at..)?.first_chunk()?));
        let is =
            |at: usize, wanted: &[u8]| code.get(at..).is_some_and(|rest| rest.starts_with(wanted));
        if !is(0, &[0x48, 0x81, 0xec]) || !is(7, &[0x48, 0x83, 0xe4]) {
            return None;
        }
        let align = u64::from(code.get(10)?.wrapping_neg());
        let stores: &[u8] = &[0x48, 0x89, 0x27];
        let at = if is(11, stores) { 14 } else { 11 };
        let registers = if is(at, &[0x48, 0x8d, 0x9c, 0x24]) {
            number(at + 4)?
        } else if is(at, &[0x48, 0x8d, 0x5c, 0x24]) {
            u32::from(*code.get(at + 4)?)
        } else {
            return None;
        };
        let found = Self {
            start: range.start,
            end: range.end,
            room: u64::from(number(3)?),
            align,
            registers: u64::from(registers),
            stack: ENTERS.iter().find_map(|(bytes, size)| {
                let at = memmem(&code, bytes)? + bytes.len();
                match size {
                    1 => code.get(at).map(|&it| u64::from(it)),
                    _ => number(at).map(u64::from),
                }
            }),
        };
        let fits = found.align.is_power_of_two()
            && (16..=4096).contains(&found.align)
            && found.room < 1 << 20
            && found.registers < found.room;
        fits.then_some(found)
    }
}

/// Where bytes begin that are these.
fn memmem(all: &[u8], wanted: &[u8]) -> Option<usize> {
    all.windows(wanted.len()).position(|it| it == wanted)
}

/// Ranges of functions and their names.
type Functions = Vec<(Range<u64>, String)>;

/// What is told of in memory that is no ELF file: what code it is, where, and its
/// functions; `None` if it does not have this form.
pub(crate) fn parse(
    file: &[u8],
    most: usize,
    memory: &mut impl Memory,
) -> Option<(ErlangTold, Range<u64>, Functions)> {
    let mut form = Form { file, at: 0 };
    match form.number::<4>()? {
        kind if kind == u64::from(OF_MACHINE) => {
            form.at = 8;
            let layout = form.number::<4>()?;
            let is_known = layout <= 1 && file.len() <= 64;
            let told = ErlangTold::Machine {
                has_frame_pointers: layout == 1,
            };
            is_known.then_some((told, 0..0, Vec::new()))
        }
        kind if kind == u64::from(OF_MODULE) => {
            form.at = 8;
            let base = form.number::<8>()?;
            let (count, size) = (form.number::<4>()?, form.number::<4>()?);
            let name = form.text(0)?;
            form.at += 32 - 26;
            let code = base..base.checked_add(size)?;
            let mut functions = Vec::new();
            for _ in 0..count.min(most as u64) {
                let (start, end) = (form.number::<4>()?, form.number::<4>()?);
                let lines = form.number::<4>()?;
                let name = form.text(2)?;
                for _ in 0..lines {
                    form.at = form.at.checked_add(8)?;
                    form.text(2)?;
                }
                let range = base.checked_add(start)?..base.checked_add(end)?;
                if range.start < range.end && range.end <= code.end && !name.is_empty() {
                    add(&mut functions, range, &String::from_utf8_lossy(name));
                }
            }
            let function = |wanted: &str| {
                let mut all = functions.iter();
                all.find(|(_, name)| name == wanted)
                    .map(|(range, _)| range.clone())
            };
            let told = match (name, function(MAIN)) {
                (SHARED, Some(main)) => ErlangTold::Shared(ErlangMain::read(&main, memory)),
                (RETURNED_TO, _) => ErlangTold::ReturnedTo {
                    exits: EXITS.into_iter().filter_map(function).collect(),
                },
                _ => ErlangTold::Module,
            };
            (code.start < code.end).then_some((told, code, functions))
        }
        _ => None,
    }
}

/// Adds a function. What calls go to, where breakpoints are, is told of as something of
/// its own in front of it.
fn add(functions: &mut Functions, range: Range<u64>, name: &str) {
    let name = name.strip_suffix(IN_FRONT).unwrap_or(name);
    match functions.last_mut() {
        Some((last, of)) if of == name && last.end == range.start => last.end = range.end,
        _ => functions.push((range, name.to_owned())),
    }
}

/// A place in what is told.
struct Form<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Form<'a> {
    /// The number of so many bytes here, and on behind it.
    fn number<const N: usize>(&mut self) -> Option<u64> {
        let bytes: &[u8; N] = self.file.get(self.at..)?.first_chunk()?;
        self.at += N;
        let bytes = bytes.iter().rev();
        Some(bytes.fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// The length of a text with its NUL and the text, behind which so many bytes less
    /// than two follow: structures that texts stand in are rounded up to 4.
    fn text(&mut self, rounded: usize) -> Option<&'a [u8]> {
        let length = self.number::<2>()? as usize;
        let text = self.file.get(self.at..self.at.checked_add(length)?)?;
        self.at += length + rounded;
        let (_, text) = text.split_last()?;
        Some(text.get(..LONGEST_NAME).unwrap_or(text))
    }
}

#[cfg(test)]
mod tests {
    use super::{ErlangMain, ErlangTold, parse};
    use crate::memory::tests::Image;

    const BASE: u64 = 0x7000_0000;

    fn text(name: &str) -> Vec<u8> {
        let length = (name.len() as u16 + 1).to_le_bytes();
        [&length, name.as_bytes(), b"\0"].concat()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        numbers.collect()
    }

    /// A module of functions, each of which has a line.
    fn module(name: &str, functions: &[(u32, u32, &str)]) -> Vec<u8> {
        let mut file = numbers(&[1, 0]);
        file.extend(BASE.to_le_bytes());
        file.extend(numbers(&[functions.len() as u32, 0x1000]));
        file.extend(text(name));
        file.extend([0xaa; 6]);
        for &(start, end, name) in functions {
            file.extend(numbers(&[start, end, 1]));
            file.extend(text(name));
            file.extend([0xaa; 2]);
            file.extend(numbers(&[start, 7]));
            file.extend(text("file.erl"));
            file.extend([0xaa; 2]);
        }
        file
    }

    #[test]
    fn a_module_has_its_functions() {
        let functions = [
            (0, 0x10, "m::codeHeader"),
            (0x10, 0x18, "m:f/1-CodeInfoPrologue"),
            (0x18, 0x40, "m:f/1"),
        ];
        let file = module("m", &functions);
        let found = parse(&file, 100, &mut Image(Vec::new()));
        let (told, code, functions) = found.expect("a module");
        assert_eq!((told, code), (ErlangTold::Module, BASE..BASE + 0x1000));
        let names: Vec<&str> = functions.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["m::codeHeader", "m:f/1"]);
        assert_eq!(functions[1].0, BASE + 0x10..BASE + 0x40);
    }

    #[test]
    fn the_machine_tells_its_frames_where_processes_end_and_what_schedulers_run() {
        let mut machine = numbers(&[0, 0, 1, 0]);
        machine.extend(0x1234_u64.to_le_bytes());
        machine.extend([0; 8]);
        let mut nothing = Image(Vec::new());
        let told = parse(&machine, 9, &mut nothing).expect("the machine").0;
        let has_frame_pointers = true;
        assert_eq!(told, ErlangTold::Machine { has_frame_pointers });
        let exits = [
            (0x188, 0x1b0, "erts_beamasm:normal_exit/0-CodeInfoPrologue"),
            (0x1b0, 0x200, "erts_beamasm:normal_exit/0"),
        ];
        let file = module("erts_beamasm", &exits);
        let told = parse(&file, 9, &mut nothing).expect("a module").0;
        let exits = std::iter::once(BASE + 0x188..BASE + 0x200).collect();
        assert_eq!(told, ErlangTold::ReturnedTo { exits });

        let file = module("global", &[(0x40, 0x60, "global::process_main")]);
        let code = [
            0x48, 0x81, 0xec, 0x10, 0x41, 0, 0, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x89, 0x27, 0x48,
            0x8d, 0x9c, 0x24, 0x80, 0, 0, 0, 0x48, 0x8d, 0x7b, 0xb0, 0x49, 0x8b, 0x65, 0x58, 0, 0,
        ];
        let mut memory = Image(vec![(BASE + 0x40, code.to_vec())]);
        let told = parse(&file, 9, &mut memory).expect("a module").0;
        let main = ErlangMain {
            start: BASE + 0x40,
            end: BASE + 0x60,
            room: 0x4110,
            align: 64,
            registers: 0x80,
            stack: Some(0x58),
        };
        assert_eq!(told, ErlangTold::Shared(Some(main)));
        // A module that people wrote may have the same name.
        let file = module("global", &[(0x40, 0x200, "global:start/0")]);
        assert_eq!(
            parse(&file, 9, &mut memory).expect("a module").0,
            ErlangTold::Module
        );
    }

    #[test]
    fn what_is_cut_or_lies_is_read_without_harm() {
        let whole = module("m", &[(0, 0x10, "m:f/1"), (0x10, 0x40, "m:g/1")]);
        let mut nothing = Image(Vec::new());
        for at in 0..whole.len() {
            assert!(at >= whole.len() - 2 || parse(&whole[..at], 9, &mut nothing).is_none());
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut file = whole.clone();
                file[at] = value;
                let _ = parse(&file, 9, &mut nothing);
            }
        }
        // Code at the end of all addresses, and functions behind it.
        let mut file = whole;
        file[8..16].copy_from_slice(&(u64::MAX - 0x1000).to_le_bytes());
        file[34 + 4..34 + 8].copy_from_slice(&[0xff; 4]);
        assert_eq!(parse(&file, 9, &mut nothing), None);
    }
}
