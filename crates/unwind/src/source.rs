//! Bytes of an ELF file: held open and read piece by piece, or in memory.

use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes read at once from a file.
const CHUNK: usize = 4096;
/// As many chunks that were used lately are kept of one file, and as many of
/// those before: 24 KiB. What is found in them is remembered elsewhere, and to
/// read one again takes a microsecond; kept for good, they grew with each
/// function that a long recording met, and 64 KiB of each of some ten files were
/// not met within minutes.
const CHUNKS_KEPT: usize = 3;
/// The same of a file whose chunks are read again soon after they were dropped:
/// each such one is kept from then on, up to 64 KiB. Stacks of node alternate
/// between a dozen, and read more than one for each sample.
const MOST_KEPT: usize = 8;
/// So many of those that were dropped last are remembered.
const DROPPED: usize = 2 * MOST_KEPT;

/// Where an ELF file's bytes come from.
///
/// A file is read with `pread` and not mapped: a build that truncates the file
/// while it is recorded must not kill the recorder with SIGBUS. An open file
/// also still serves after it was deleted.
#[derive(Debug)]
pub enum Source {
    /// A file on disk.
    File(FileSource),
    /// An image in memory: the vDSO, a test.
    Bytes(Arc<[u8]>),
}

impl Source {
    /// Reads from an open file.
    pub fn file(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self::File(FileSource {
            file,
            len,
            chunks: RefCell::default(),
        }))
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::File(file) => file.chunks.borrow().held_bytes(),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Forgets what can be read again.
    pub(crate) fn forget_read(&mut self) {
        if let Self::File(file) = self {
            file.chunks = RefCell::default();
        }
    }

    /// Fills `out` from `offset`; false if that is not all there.
    pub(crate) fn read_exact(&self, offset: u64, out: &mut [u8]) -> bool {
        match self {
            Self::File(file) => file.read_exact(offset, out),
            Self::Bytes(bytes) => {
                let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
                match from.and_then(|rest| rest.get(..out.len())) {
                    Some(found) => {
                        out.copy_from_slice(found);
                        true
                    }
                    None => false,
                }
            }
        }
    }

    /// `len` bytes from `offset`; `None` if not all there.
    pub(crate) fn read_vec(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        if offset.checked_add(len)? > self.len() {
            return None;
        }
        let mut out = vec![0; usize::try_from(len).ok()?];
        let done = match self {
            // Large pieces are wanted once: not worth keeping.
            Self::File(file) => file.file.read_exact_at(&mut out, offset).is_ok(),
            Self::Bytes(_) => self.read_exact(offset, &mut out),
        };
        done.then_some(out)
    }
}

/// An open file and the pieces of it that were needed.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
    chunks: RefCell<Chunks>,
}

/// Chunks of a file by number.
#[derive(Debug, Default)]
struct Chunks {
    /// Those used lately.
    lately: FxHashMap<u64, Box<[u8]>>,
    /// Those used before, and not since.
    before: FxHashMap<u64, Box<[u8]>>,
    /// The numbers of those that were dropped last, the newest last.
    dropped: VecDeque<u64>,
    /// How many more than [`CHUNKS_KEPT`] are kept.
    more: usize,
}

impl Chunks {
    /// The chunk, read with `read` unless it is kept.
    fn get(&mut self, number: u64, read: impl FnOnce() -> Box<[u8]>) -> &[u8] {
        let most = CHUNKS_KEPT + self.more;
        if !self.lately.contains_key(&number) && self.lately.len() >= most {
            let kept = self.before.remove(&number);
            let dropped = std::mem::take(&mut self.before).into_keys();
            self.dropped.extend(dropped);
            let surplus = self.dropped.len().saturating_sub(DROPPED);
            self.dropped.drain(..surplus);
            self.before = std::mem::take(&mut self.lately);
            self.before.extend(kept.map(|kept| (number, kept)));
        }
        if !self.lately.contains_key(&number)
            && !self.before.contains_key(&number)
            && let Some(at) = self.dropped.iter().position(|&it| it == number)
        {
            self.dropped.remove(at);
            self.more = (self.more + 1).min(MOST_KEPT - CHUNKS_KEPT);
        }
        let before = &mut self.before;
        let get = || before.remove(&number).unwrap_or_else(read);
        self.lately.entry(number).or_insert_with(get)
    }

    fn held_bytes(&self) -> usize {
        (self.lately.len() + self.before.len()) * CHUNK
    }
}

impl FileSource {
    fn read_exact(&self, offset: u64, out: &mut [u8]) -> bool {
        let mut offset = offset;
        let mut out = out;
        while !out.is_empty() {
            let Some(done) = self.read_in_chunk(offset, out) else {
                return false;
            };
            offset += done as u64;
            out = out.get_mut(done..).unwrap_or_default();
        }
        true
    }

    /// Copies what the chunk at `offset` has; `None` behind the end.
    fn read_in_chunk(&self, offset: u64, out: &mut [u8]) -> Option<usize> {
        let number = offset / CHUNK as u64;
        let mut chunks = self.chunks.borrow_mut();
        let chunk = chunks.get(number, || {
            let mut bytes = vec![0; CHUNK];
            let got = read_up_to(&self.file, &mut bytes, number * CHUNK as u64);
            bytes.truncate(got);
            bytes.into_boxed_slice()
        });
        let rest = chunk.get((offset % CHUNK as u64) as usize..)?;
        let len = rest.len().min(out.len());
        if len == 0 {
            return None;
        }
        out.get_mut(..len)?.copy_from_slice(rest.get(..len)?);
        Some(len)
    }
}

/// Reads until the buffer is full, the file ends or it fails.
fn read_up_to(file: &File, out: &mut [u8], offset: u64) -> usize {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, CHUNKS_KEPT, Chunks, MOST_KEPT, Source};
    use std::io::Write;

    #[test]
    fn a_file_reads_like_memory_also_across_chunks_and_after_deletion() {
        let path = std::env::temp_dir().join(format!("prof-source-{}", std::process::id()));
        let bytes: Vec<u8> = (0..CHUNK * 2 + 10).map(|at| at as u8).collect();
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(&bytes))
            .expect("temporary file");
        let file = std::fs::File::open(&path)
            .and_then(Source::file)
            .expect("open");
        std::fs::remove_file(&path).expect("remove");
        let memory = Source::Bytes(bytes.into());
        for (offset, len) in [(0, 16), (CHUNK - 3, 7), (CHUNK * 2, 10), (5, CHUNK * 2)] {
            let (mut left, mut right) = (vec![0; len], vec![1; len]);
            assert!(file.read_exact(offset as u64, &mut left));
            assert!(memory.read_exact(offset as u64, &mut right));
            assert_eq!(left, right);
        }
        assert!(!file.read_exact(CHUNK as u64 * 2 + 5, &mut [0; 6]));
        assert!(!memory.read_exact(u64::MAX, &mut [0; 1]));
    }

    #[test]
    fn of_many_chunks_those_used_lately_are_kept() {
        let mut chunks = Chunks::default();
        let mut reads = 0;
        let mut get = |chunks: &mut Chunks, number: u64| {
            let found = chunks.get(number, || {
                reads += 1;
                vec![number as u8; CHUNK].into()
            });
            assert_eq!((found.len(), found[7]), (CHUNK, number as u8));
        };
        for number in 0..10 * CHUNKS_KEPT as u64 {
            get(&mut chunks, number);
            // One that is used all the time.
            get(&mut chunks, 3);
            assert!(chunks.held_bytes() <= 2 * CHUNKS_KEPT * CHUNK);
        }
        // Each was read once, though the fourth was first used before its turn.
        assert_eq!(reads, 10 * CHUNKS_KEPT);
    }

    #[test]
    fn of_a_file_with_many_chunks_in_use_more_are_kept() {
        let mut chunks = Chunks::default();
        let mut reads = 0;
        let mut round = |chunks: &mut Chunks, count: usize| {
            for number in 0..count as u64 {
                chunks.get(number, || {
                    reads += 1;
                    vec![0; CHUNK].into()
                });
                assert!(chunks.held_bytes() <= 2 * MOST_KEPT * CHUNK);
            }
            std::mem::take(&mut reads)
        };
        let first: usize = (0..10).map(|_| round(&mut chunks, 8)).sum();
        assert!(first < 5 * 8, "{first} reads");
        assert_eq!(round(&mut chunks, 8), 0);
        // Far too many.
        assert!((0..10).all(|_| round(&mut chunks, 100) > 90));
    }
}
