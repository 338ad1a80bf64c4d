//! Pipe mode: nothing can be patched, so everything is a record.

use super::compress::{DeepChains, Packing};
use super::event::EventDescription;
use super::features::{Features, fits_a_pipe};
use super::own;
use super::session;
use super::taken::{Kept, Taken};
use prof_abi::ByteOrder;
use std::io::{self, Write};

/// The header's size in bytes.
const HEADER_SIZE: u64 = 16;
/// Bytes held back before a write.
const BUFFER: usize = 64 * 1024;

/// Writes a perf.data stream.
///
/// ```text
/// header (16) · HEADER_ATTR and EVENT_UPDATE per event · HEADER_FEATURE … ·
/// our own · data · what of our own is known at the end
/// ```
///
/// Features above 31 and the end mark that perf writes behind them are left
/// out: the mark is the writer's own count of known features, which perf 6.1
/// and 7.2 misread in each other's streams.
#[derive(Debug)]
pub struct PipeWriter<W: Write> {
    out: W,
    /// What was not handed over yet.
    buffer: Vec<u8>,
    taken: Taken,
    deep: Option<DeepChains>,
}

impl<W: Write> PipeWriter<W> {
    /// Writes the header, the events with their names, and those of
    /// `features` that a stream can carry.
    pub fn new(mut out: W, events: &[EventDescription], features: &Features) -> io::Result<Self> {
        let mut head = b"PERFILE2".to_vec();
        head.extend(ByteOrder::NATIVE.bytes_u64(HEADER_SIZE));
        for event in events {
            session::event(event, &mut head).map_err(io::Error::other)?;
        }
        for (bit, section) in features.iter() {
            if fits_a_pipe(bit) {
                // One that is too long for a record is left out: readers need
                // none of them.
                let _ = session::feature(bit, section, &mut head);
            }
        }
        own::encode_records(features, &mut head);
        out.write_all(&head)?;
        out.flush()?;
        Ok(Self {
            out,
            buffer: Vec::with_capacity(BUFFER),
            taken: Taken::default(),
            deep: None,
        })
    }

    /// Packs records with deep chains from here on; a stream is never packed
    /// whole.
    pub fn pack(&mut self, packing: Packing) {
        self.deep = (packing == Packing::DeepChains).then(DeepChains::default);
    }

    /// Appends whole records. After an error [`PipeWriter::salvage`] says what
    /// the reader was given.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        match &mut self.deep {
            Some(deep) => deep.pack([records, &[]], &mut self.buffer)?,
            None if records.len() > BUFFER => {
                self.drain()?;
                return self.taken.put(records, &mut self.out);
            }
            None => self.buffer.extend_from_slice(records),
        }
        match self.buffer.len() < BUFFER {
            true => Ok(()),
            false => self.drain(),
        }
    }

    /// Appends an `AUXTRACE` record and the trace behind it, a multiple of 8
    /// bytes, which are never packed.
    pub fn write_trace(&mut self, record: &[u8], trace: &[u8]) -> io::Result<()> {
        if let Some(deep) = &mut self.deep {
            deep.flush(&mut self.buffer)?;
        }
        self.drain()?;
        self.out.write_all(record)?;
        self.out.write_all(trace)?;
        self.taken.bytes += (record.len() + trace.len()) as u64;
        Ok(())
    }

    fn drain(&mut self) -> io::Result<()> {
        let put = self.taken.put(&self.buffer, &mut self.out);
        self.buffer.clear();
        put
    }

    /// Hands everything to the reader.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(deep) = &mut self.deep {
            deep.flush(&mut self.buffer)?;
        }
        self.drain()?;
        self.out.flush()
    }

    /// After an error: what was handed over. How much of it is read nobody
    /// knows.
    pub fn salvage(&mut self) -> Kept {
        self.buffer.clear();
        let deep = self.deep.as_ref();
        let packed = deep.map_or(0, |deep| deep.samples_in(self.taken.packed));
        Kept {
            bytes: self.taken.bytes,
            samples: self.taken.samples + packed,
        }
    }

    /// Bytes of records so far, without the header.
    pub fn data_size(&self) -> u64 {
        self.taken.bytes + self.buffer.len() as u64
    }

    /// [`PipeWriter::end`], then returns the destination.
    pub fn finish(mut self, late: &Features) -> io::Result<W> {
        self.end(late)?;
        Ok(self.out)
    }

    /// Writes the sections of our own among `late`, flushes and ends the
    /// stream. perf's can stand before the data only.
    pub fn end(&mut self, late: &Features) -> io::Result<()> {
        self.flush()?;
        let mut tail = Vec::new();
        own::encode_records(late, &mut tail);
        self.out.write_all(&tail)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{Kept, PipeWriter};
    use crate::features::FeatureBit;
    use crate::write::{EventDescription, Features, finished_round};
    use prof_abi::EventAttr;
    use std::io::Write;

    /// A destination that has room for so many bytes.
    struct Room(usize);

    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_destination_took_is_known() {
        let mut sample = vec![9, 0, 0, 0, 0, 0, 24, 0];
        sample.resize(24, 7);
        let head = PipeWriter::new(Vec::new(), &[], &Features::default()).expect("memory");
        let head = head.finish(&Features::default()).expect("memory").len();
        for (room, samples) in [(24 * 4000, 4000), (24 * 4000 + 23, 4000), (3, 0)] {
            let room = Room(head + room);
            let mut writer = PipeWriter::new(room, &[], &Features::default()).expect("room");
            let mut all = (0..5000).map(|_| writer.write(&sample));
            let result = all.find(Result::is_err).unwrap_or(Ok(()));
            assert!(result.and_then(|()| writer.flush()).is_err());
            let bytes = 24 * samples;
            assert_eq!(writer.salvage(), Kept { bytes, samples });
            assert_eq!(writer.data_size(), bytes);
        }
    }

    #[test]
    fn a_stream_is_header_attrs_names_features_data() {
        let event = EventDescription {
            attr: EventAttr::default(),
            ids: vec![3],
            name: "cycles".into(),
        };
        let mut features = Features::default();
        features.cpu_counts(2, 2);
        features.build_ids(&[]); // no reader takes it from a stream
        features.set(FeatureBit::E_MACHINE, vec![0; 8]); // above 31
        features.trust("{}");
        features.set(FeatureBit::CMDLINE, vec![0; 70_000]); // fits no record
        let mut writer = PipeWriter::new(Vec::new(), &[event], &features).expect("memory");
        let mut mark = Vec::new();
        finished_round(&mut mark);
        writer.write(&mark).expect("memory");
        assert_eq!(writer.data_size(), 8);
        let mut late = Features::default();
        late.trust("{}");
        late.cpu_counts(3, 3); // only before the data
        let stream = writer.finish(&late).expect("memory");
        assert_eq!(stream[..16], *b"PERFILE2\x10\0\0\0\0\0\0\0");
        let mut kinds = Vec::new();
        let mut at = 16;
        while at < stream.len() {
            kinds.push(stream[at]);
            at += usize::from(u16::from_ne_bytes([stream[at + 6], stream[at + 7]]));
        }
        assert_eq!(kinds, [64, 78, 80, 65, 68, 65]);
    }
}
