//! Pipe mode: nothing can be patched, so everything is a record.

use super::compress::{DeepChains, Packing};
use super::event::EventDescription;
use super::features::{Features, fits_a_pipe};
use super::own;
use super::session;
use prof_abi::ByteOrder;
use std::io::{self, Write};

/// The header's size in bytes.
const HEADER_SIZE: u64 = 16;

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
    out: io::BufWriter<W>,
    written: u64,
    deep: Option<DeepChains>,
    /// For what becomes of records.
    packed: Vec<u8>,
}

impl<W: Write> PipeWriter<W> {
    /// Writes the header, the events with their names, and those of
    /// `features` that a stream can carry.
    pub fn new(out: W, events: &[EventDescription], features: &Features) -> io::Result<Self> {
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
        let mut writer = Self {
            out: io::BufWriter::with_capacity(64 * 1024, out),
            written: 0,
            deep: None,
            packed: Vec::new(),
        };
        writer.out.write_all(&head)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Packs records with deep chains from here on; a stream is never packed
    /// whole.
    pub fn pack(&mut self, packing: Packing) {
        self.deep = (packing == Packing::DeepChains).then(DeepChains::default);
    }

    /// Appends whole records.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        let Some(deep) = &mut self.deep else {
            self.written += records.len() as u64;
            return self.out.write_all(records);
        };
        deep.pack([records, &[]], &mut self.packed)?;
        self.put_packed()
    }

    /// Appends an `AUXTRACE` record and the trace behind it, a multiple of 8
    /// bytes, which are never packed.
    pub fn write_trace(&mut self, record: &[u8], trace: &[u8]) -> io::Result<()> {
        if let Some(deep) = &mut self.deep {
            deep.flush(&mut self.packed)?;
            self.put_packed()?;
        }
        self.written += (record.len() + trace.len()) as u64;
        self.out.write_all(record)?;
        self.out.write_all(trace)
    }

    fn put_packed(&mut self) -> io::Result<()> {
        self.out.write_all(&self.packed)?;
        self.written += self.packed.len() as u64;
        self.packed.clear();
        Ok(())
    }

    /// Hands everything to the reader.
    pub fn flush(&mut self) -> io::Result<()> {
        if let Some(deep) = &mut self.deep {
            deep.flush(&mut self.packed)?;
            self.put_packed()?;
        }
        self.out.flush()
    }

    /// Bytes of records so far, without the header.
    pub fn data_size(&self) -> u64 {
        self.written
    }

    /// [`PipeWriter::end`], then returns the destination.
    pub fn finish(mut self, late: &Features) -> io::Result<W> {
        self.end(late)?;
        self.out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
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
    use super::PipeWriter;
    use crate::features::FeatureBit;
    use crate::write::{EventDescription, Features, finished_round};
    use prof_abi::EventAttr;

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
