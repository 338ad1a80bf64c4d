//! gzip on several CPUs: portions are packed each for itself, while the next
//! ones are made, and written in their order as one stream.
//!
//! One member, since readers in browsers refuse what follows the first. A
//! portion ends on a byte (`Z_SYNC_FLUSH`), so that the next one can follow;
//! where portions end does not depend on how many CPUs there are.
//!
//! Source: RFC 1951 (deflate), RFC 1952 (gzip).

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use rayon::Yield;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// Bytes that are packed at once.
const PORTION: usize = 256 << 10;
/// Identification, deflate, no flags, no time, no extra flags, system not known.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The last block of deflate, without content.
const LAST: [u8; 2] = [3, 0];

/// Packs what is written to it; [`Gzip::finish`] ends it.
pub(crate) struct Gzip<W: Write> {
    out: W,
    level: Compression,
    /// What is not yet a portion.
    rest: Vec<u8>,
    /// Portions that are being packed, the first one first.
    packing: VecDeque<Receiver<io::Result<Packed>>>,
    sum: Crc,
}

/// A portion.
struct Packed {
    bytes: Vec<u8>,
    /// Of the unpacked bytes.
    sum: Crc,
}

impl<W: Write> Gzip<W> {
    /// `level` as zlib has it, 1 (fast) to 9.
    ///
    /// # Errors
    /// If `out` cannot be written to.
    pub(crate) fn new(mut out: W, level: u32) -> io::Result<Self> {
        out.write_all(&HEAD)?;
        Ok(Self {
            out,
            level: Compression::new(level),
            rest: Vec::new(),
            packing: VecDeque::new(),
            sum: Crc::new(),
        })
    }

    /// Has what is there packed as a portion.
    fn pack(&mut self) -> io::Result<()> {
        let portion = std::mem::replace(&mut self.rest, Vec::with_capacity(PORTION));
        let level = self.level;
        let (gives, packed) = sync_channel(1);
        rayon::spawn(move || {
            // Nobody waits for it where writing failed.
            let _ = gives.send(pack(&portion, level));
        });
        self.packing.push_back(packed);
        // As many wait as keep all CPUs busy.
        while self.packing.len() > 2 * rayon::current_num_threads() {
            self.write_first()?;
        }
        Ok(())
    }

    fn write_first(&mut self) -> io::Result<()> {
        let Some(first) = self.packing.pop_front() else {
            return Ok(());
        };
        // A thread of the pool, which may be the only one, packs meanwhile.
        let packed = loop {
            match (first.try_recv(), rayon::yield_now()) {
                (Ok(packed), _) => break packed,
                (Err(TryRecvError::Empty), Some(Yield::Executed)) => {}
                _ => break first.recv().unwrap_or_else(|_| Err(failed())),
            }
        };
        let packed = packed?;
        self.sum.combine(&packed.sum);
        self.out.write_all(&packed.bytes)
    }

    /// Writes all that is left.
    ///
    /// # Errors
    /// If the output cannot be written to.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.pack()?;
        while !self.packing.is_empty() {
            self.write_first()?;
        }
        self.out.write_all(&LAST)?;
        self.out.write_all(&self.sum.sum().to_le_bytes())?;
        // Both are modulo 2^32.
        self.out.write_all(&self.sum.amount().to_le_bytes())
    }
}

impl<W: Write> Write for Gzip<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PORTION - self.rest.len().min(PORTION - 1);
        let (taken, _) = bytes.split_at(bytes.len().min(room));
        self.rest.extend_from_slice(taken);
        if self.rest.len() >= PORTION {
            self.pack()?;
        }
        Ok(taken.len())
    }

    /// Portions are whole ones: nothing is written before.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed() -> io::Error {
    io::Error::other("packing failed")
}

fn pack(portion: &[u8], level: Compression) -> io::Result<Packed> {
    let mut packer = Compress::new(level, false);
    let mut bytes = Vec::with_capacity(portion.len() / 4 + 64);
    loop {
        let done = usize::try_from(packer.total_in()).unwrap_or(usize::MAX);
        let rest = portion.get(done..).unwrap_or_default();
        let status = packer.compress_vec(rest, &mut bytes, FlushCompress::Sync)?;
        let is_whole = packer.total_in() == portion.len() as u64;
        // Where room is left, all of it is there.
        if is_whole && bytes.len() < bytes.capacity() {
            break;
        }
        if status == Status::StreamEnd {
            return Err(failed());
        }
        bytes.reserve(portion.len() / 4 + 64);
    }
    let mut sum = Crc::new();
    sum.update(portion);
    Ok(Packed { bytes, sum })
}

#[cfg(test)]
mod tests {
    use super::{Gzip, PORTION};
    use flate2::read::GzDecoder;
    use std::io::{Read, Write};

    /// As where no thread can be started.
    #[test]
    fn a_pool_of_this_thread_alone_packs() {
        let alone = std::thread::spawn(|| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
            let pool = pool.use_current_thread().build().expect("a pool");
            let mut file = Vec::new();
            let mut gzip = Gzip::new(&mut file, 1).expect("written");
            gzip.write_all(&vec![b'a'; 9 * PORTION]).expect("written");
            gzip.finish().expect("written");
            drop(pool);
            file.len()
        });
        assert!(alone.join().expect("it ends") < PORTION);
    }

    #[test]
    fn what_was_written_comes_back_from_one_member() {
        // A generator's low bits: packs badly, so that output outgrows its room.
        let noise = |length: usize| -> Vec<u8> {
            let mut state = 1_u64;
            let next = std::iter::repeat_with(|| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            });
            next.take(length).collect()
        };
        for length in [0, 1, PORTION - 1, PORTION, PORTION + 1, 5 * PORTION + 7] {
            for bytes in [noise(length), vec![b'a'; length]] {
                let mut file = Vec::new();
                let mut gzip = Gzip::new(&mut file, 1).expect("written");
                for part in bytes.chunks(70_001) {
                    gzip.write_all(part).expect("written");
                }
                gzip.finish().expect("written");
                // Takes one member, and nothing is behind it.
                let mut decoder = GzDecoder::new(file.as_slice());
                let mut back = Vec::new();
                decoder.read_to_end(&mut back).expect("gzip");
                assert!(back == bytes && decoder.into_inner().is_empty(), "{length}");
            }
        }
    }
}
