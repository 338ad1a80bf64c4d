//! The schedulers of Erlang's machine: which process each of their threads runs.
//!
//! Where C functions run, the stack of the Erlang process that called them is not what the
//! kernel copies. It is read with the samples of a scheduler's thread, from what that
//! knows itself, an object of an array:
//!
//! ```text
//!  erts_aligned_scheduler_data ─► … ┌ registers, …, current process, … ┐ …
//!                                       │               └─► ┌ …, stack pointer, … ┐
//!                                       └─► what is 128 bytes below rbx
//! ```
//!
//! Which object is of a thread follows from the registers that it points to. Where in it
//! the process stands differs from version to version: it is the word that leads to one
//! with a stack, whenever that is looked at. Where in a process its stack pointer is, the
//! code of schedulers tells.

use crate::erlang::ErlangMain;
use crate::memory::{LinkedList, Memory, word};
use rustc_hash::FxHashMap;

/// The array begins at a multiple of this, and its objects do.
const ALIGNED: usize = 64;
/// Most bytes of the array that are looked through, and read at once.
const MOST_OF_ARRAY: u64 = 4 << 20;
/// Most bytes of arrays that are looked through for all threads together.
const MOST_IN_ALL: u64 = 64 << 20;
const AT_ONCE: usize = 64 << 10;
/// Bytes of an object in which the current process is looked for.
const OBJECT: usize = 2048;
/// It is believed after so many looks that found it in the same place, and looked for in
/// no more than this.
const SURE: u32 = 3;
const MOST_LOOKS: u32 = 200;
/// Bytes of a stack that are read at first, and the most: four times as many where they
/// were too few, for so many samples.
const STACK: u64 = 1024;
const MOST_OF_STACK: u64 = 1 << 16;
const LONGER: u32 = 1000;
/// Words of a stack among which the first return address has to be.
const FIRST: usize = 64;
/// How far above the stack pointer a frame pointer on the stack leads.
const MOST_FRAME: u64 = 1 << 16;
/// The largest heap of a process.
const MOST_HEAP: u64 = 1 << 34;
/// Most threads that are known.
const MAX_THREADS: usize = 4096;

/// What is known of the schedulers of one machine.
#[derive(Debug)]
pub struct ErlangSchedulers {
    /// Where the address of the array stands.
    array: u64,
    /// By thread.
    objects: FxHashMap<i32, Option<u64>>,
    /// Where in an object the current process stands.
    current: Option<u64>,
    /// By place: how many looks found a process there.
    found: FxHashMap<u64, u32>,
    looks: u32,
    /// Bytes that were looked through for objects.
    searched: u64,
    /// Bytes of stacks that are read, for so many more samples.
    size: (u64, u32),
}

impl ErlangSchedulers {
    /// The schedulers of the array whose address stands here.
    pub fn new(array: u64) -> Self {
        Self {
            array,
            objects: FxHashMap::default(),
            current: None,
            found: FxHashMap::default(),
            looks: 0,
            searched: 0,
            size: (STACK, 0),
        }
    }

    /// A stack was longer than what of it was read.
    pub fn was_too_little(&mut self) {
        let (size, _) = self.size;
        self.size = ((size * 4).min(MOST_OF_STACK), LONGER);
    }

    /// Where to read, with the samples of a thread, what its process has on its stack;
    /// `below` is the stack pointer below its registers if that was just seen, `is_code`
    /// tells whether an address is of Erlang's code.
    pub fn wanted(
        &mut self,
        (tid, below): (i32, Option<u64>),
        main: ErlangMain,
        is_code: impl Fn(u64) -> bool,
        memory: &mut impl Memory,
    ) -> Option<LinkedList> {
        let stack = main.stack?;
        if !self.objects.contains_key(&tid) {
            let below = below.filter(|_| self.objects.len() < MAX_THREADS)?;
            let object = self.find(below, memory);
            self.objects.insert(tid, object);
        }
        let object = (*self.objects.get(&tid)?)?;
        if self.current.is_none() {
            self.look(object, stack, is_code, memory);
        }
        let at = object.checked_add(self.current?)?;
        let (size, left) = self.size;
        self.size = match left {
            0 => (STACK, 0),
            _ => (size, left - 1),
        };
        Some(LinkedList {
            head: at,
            via: Some(stack),
            size,
            next: None,
        })
    }

    /// The object of the scheduler whose registers are there.
    fn find(&mut self, below: u64, memory: &mut impl Memory) -> Option<u64> {
        let array = word(memory, self.array).filter(|&at| at != 0)?;
        let mut read = vec![0; AT_ONCE];
        let mut at = array;
        while at - array < MOST_OF_ARRAY && self.searched < MOST_IN_ALL {
            self.searched += AT_ONCE as u64;
            let got = memory.read(at, &mut read);
            for (index, bytes) in read.get(..got)?.chunks(ALIGNED).enumerate() {
                if bytes
                    .first_chunk()
                    .is_some_and(|it| u64::from_le_bytes(*it) == below)
                {
                    return Some(at + (index * ALIGNED) as u64);
                }
            }
            if got < AT_ONCE {
                return None;
            }
            at = at.checked_add(AT_ONCE as u64)?;
        }
        None
    }

    /// Looks where in an object a process stands.
    fn look(
        &mut self,
        object: u64,
        stack: u64,
        is_code: impl Fn(u64) -> bool,
        memory: &mut impl Memory,
    ) {
        if self.looks >= MOST_LOOKS {
            return;
        }
        self.looks += 1;
        let mut bytes = [0; OBJECT];
        let got = memory.read(object, &mut bytes);
        let words = bytes.get(..got).unwrap_or_default().chunks_exact(8);
        let words = words.filter_map(|word| word.first_chunk());
        let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        for (index, &process) in words.iter().enumerate() {
            if process >= 1 << 16
                && process.is_multiple_of(8)
                && has_stack(process, stack, &is_code, memory).is_some()
            {
                *self.found.entry(index as u64 * 8).or_default() += 1;
            }
        }
        let sure = self.found.iter().filter(|&(_, &count)| count >= SURE);
        let sure: Vec<u64> = sure.map(|(&at, _)| at).collect();
        match sure.as_slice() {
            [at] => self.current = Some(*at),
            [] => {}
            // Two places look alike: neither is believed.
            _ => self.looks = MOST_LOOKS,
        }
    }
}

/// Whether a process of Erlang is there: its heap ends where its stack begins, on which
/// the first word that is no value is a return address.
fn has_stack(
    process: u64,
    stack: u64,
    is_code: impl Fn(u64) -> bool,
    memory: &mut impl Memory,
) -> Option<()> {
    let at = process.checked_add(stack)?;
    let (heap, stack) = (word(memory, at.checked_sub(8)?)?, word(memory, at)?);
    let is_heap = heap != 0 && heap.is_multiple_of(8) && stack.is_multiple_of(8);
    (is_heap && stack.checked_sub(heap)? < MOST_HEAP).then_some(())?;
    let mut bytes = [0; FIRST * 8];
    let got = memory.read(stack, &mut bytes);
    let words = bytes.get(..got)?.chunks_exact(8);
    let mut words = words.filter_map(|it| it.first_chunk().map(|it| u64::from_le_bytes(*it)));
    // Or a frame pointer.
    let is_frame = |word: u64| word.checked_sub(stack).is_some_and(|by| by < MOST_FRAME);
    let first = words.find(|&word| word & 3 == 0 && word != 0 && !is_frame(word))?;
    is_code(first).then_some(())
}

#[cfg(test)]
mod tests {
    use super::{ErlangSchedulers, SURE};
    use crate::erlang::ErlangMain;
    use crate::memory::tests::Image;

    const ARRAY: u64 = 0x1000;
    const OBJECTS: u64 = 0x10_0000;
    const PROCESS: u64 = 0x20_0000;
    const STACK: u64 = 0x30_0000;
    const CODE: u64 = 0x7000_0000;
    const MAIN: ErlangMain = ErlangMain {
        start: CODE,
        end: CODE + 64,
        room: 0x4110,
        align: 64,
        registers: 0x80,
        stack: Some(0x58),
    };

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn machine() -> Image {
        // Two objects of 256 bytes; the second has a process at 48, a word that is none
        // at 56.
        let mut objects = vec![0; 128];
        (objects[0], objects[32]) = (0x5000, 0x6000);
        (objects[38], objects[39]) = (PROCESS, STACK);
        let mut process = vec![0; 32];
        (process[10], process[11]) = (STACK - 64, STACK);
        Image(vec![
            (ARRAY, bytes(&[OBJECTS])),
            (OBJECTS, bytes(&objects)),
            (PROCESS, bytes(&process)),
            (STACK, bytes(&[0x2f, 0x1001, CODE + 8, 0x3f])),
        ])
    }

    fn wanted(
        schedulers: &mut ErlangSchedulers,
        tid: i32,
        below: Option<u64>,
        memory: &mut Image,
    ) -> Option<u64> {
        let is_code = |at: u64| (CODE..CODE + 64).contains(&at);
        let list = schedulers.wanted((tid, below), MAIN, is_code, memory)?;
        assert_eq!((list.via, list.next), (Some(0x58), None));
        Some(list.head)
    }

    #[test]
    fn the_process_of_a_scheduler_is_found_by_its_stack() {
        let mut schedulers = ErlangSchedulers::new(ARRAY);
        let mut memory = machine();
        for _ in 1..SURE {
            assert_eq!(wanted(&mut schedulers, 7, Some(0x6000), &mut memory), None);
        }
        let at = OBJECTS + 256 + 48;
        assert_eq!(
            wanted(&mut schedulers, 7, Some(0x6000), &mut memory),
            Some(at)
        );
        assert_eq!(
            wanted(&mut schedulers, 7, None, &mut memory),
            Some(at),
            "later"
        );
        // Of another thread, at once; of one that is none, never.
        assert_eq!(
            wanted(&mut schedulers, 8, Some(0x5000), &mut memory),
            Some(OBJECTS + 48)
        );
        assert_eq!(wanted(&mut schedulers, 9, Some(0x7000), &mut memory), None);
        assert_eq!(wanted(&mut schedulers, 10, None, &mut memory), None);
    }

    #[test]
    fn where_two_words_lead_to_processes_none_is_read() {
        let mut schedulers = ErlangSchedulers::new(ARRAY);
        let mut memory = machine();
        memory.0[1].1[320..328].copy_from_slice(&PROCESS.to_le_bytes());
        for _ in 0..2 * SURE {
            assert_eq!(wanted(&mut schedulers, 7, Some(0x6000), &mut memory), None);
        }
    }
}
