//! File mode: a header that is valid from the start and stays so.

use super::compress::{Compressor, DeepChains, Packing};
use super::event::{EventDescription, common_attr_size};
use super::features::Features;
use super::own;
use super::record::LONG_SAMPLE;
use super::taken::{Kept, Taken};
use prof_abi::ByteOrder;
use std::io::{self, Seek, SeekFrom, Write};

/// The header's size in bytes.
const HEADER_SIZE: u64 = 104;
/// Where `data.size` stands.
const DATA_SIZE_AT: u64 = 48;
/// Where the 256 feature bits stand.
const FEATURES_AT: u64 = 72;
/// Bytes held back before a write.
const BUFFER: usize = 256 * 1024;

/// Writes a perf.data file.
///
/// ```text
/// header (104) · ids (8 each) · attrs · data · feature table · feature sections · our own
/// ```
///
/// The file is readable, by stock perf too, at every moment after a
/// [`FileWriter::flush`]: the feature bits stay 0 and `data.size` is patched
/// with each flush, so a recorder that dies leaves a valid file without
/// features. perf's own writer sets bits that it has not filled yet, and
/// perf then shows nothing of a file whose recorder was killed.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    buffer: Vec<u8>,
    /// Before these, what became of records where those of deep chains are
    /// packed.
    packed_or_not: Vec<u8>,
    data_at: u64,
    taken: Taken,
    /// Bytes of `taken` that are in the header.
    flushed: u64,
    packer: Packer,
    /// Where the records of pieces of traces are, and their bytes.
    traces: Vec<(u64, u64)>,
}

/// What packs records, if anything does.
#[derive(Debug)]
enum Packer {
    Nothing,
    DeepChains(DeepChains),
    All(Compressor),
}

impl<W: Write + Seek> FileWriter<W> {
    /// Writes header, ids and attrs at the start of `out`, which is empty.
    pub fn new(mut out: W, events: &[EventDescription]) -> io::Result<Self> {
        let head = head_of(events);
        out.write_all(&head)?;
        out.flush()?;
        Ok(Self {
            out,
            buffer: Vec::with_capacity(BUFFER),
            packed_or_not: Vec::new(),
            data_at: head.len() as u64,
            taken: Taken::default(),
            flushed: 0,
            packer: Packer::Nothing,
            traces: Vec::new(),
        })
    }

    /// Packs these records with zstd from here on.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn pack(&mut self, packing: Packing) -> io::Result<()> {
        self.packer = match packing {
            Packing::Never => Packer::Nothing,
            Packing::DeepChains => Packer::DeepChains(DeepChains::default()),
            Packing::All(level) => Packer::All(Compressor::new(level)?),
        };
        Ok(())
    }

    /// Appends whole records. After an error [`FileWriter::salvage`] says what
    /// the file has.
    pub fn write(&mut self, records: &[u8]) -> io::Result<()> {
        let Packer::All(compressor) = &mut self.packer else {
            return self.gather(records);
        };
        let mut packed = Vec::new();
        compressor.append(records, &mut packed)?;
        self.gather(&packed)
    }

    /// Appends an `AUXTRACE` record and the trace behind it, a multiple of 8
    /// bytes, which are never packed; [`FileWriter::end`] tells where they are.
    pub fn write_trace(&mut self, record: &[u8], trace: &[u8]) -> io::Result<()> {
        self.drain()?;
        let place = self.data_at + self.taken.bytes;
        // Cut within a trace, the file ends before its record.
        self.out.write_all(record)?;
        self.out.write_all(trace)?;
        self.taken.bytes += (record.len() + trace.len()) as u64;
        self.traces.push((place, record.len() as u64));
        Ok(())
    }

    fn gather(&mut self, records: &[u8]) -> io::Result<()> {
        let is_direct = match self.packer {
            // Long samples come alone, and are not copied once more.
            Packer::DeepChains(_) => records.len() >= LONG_SAMPLE.into(),
            Packer::Nothing | Packer::All(_) => records.len() > BUFFER,
        };
        if is_direct || self.buffer.len() + records.len() > BUFFER {
            let mut before = std::mem::take(&mut self.buffer);
            let direct = if is_direct { records } else { &[] };
            let result = self.hand_over([&before, direct]);
            before.clear();
            self.buffer = before;
            result?;
        }
        if !is_direct {
            self.buffer.extend_from_slice(records);
        }
        Ok(())
    }

    /// Hands all that was gathered to the file.
    fn drain(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.hand_over([&buffer, &[]]);
        buffer.clear();
        self.buffer = buffer;
        result?;
        let Packer::DeepChains(deep) = &mut self.packer else {
            return Ok(());
        };
        deep.flush(&mut self.packed_or_not)?;
        self.put_packed()
    }

    /// Hands records to the file, packed if their chains are deep: then a
    /// [`FileWriter::drain`] may still be needed.
    fn hand_over(&mut self, pieces: [&[u8]; 2]) -> io::Result<()> {
        let Packer::DeepChains(deep) = &mut self.packer else {
            return pieces.iter().try_for_each(|piece| self.put(piece));
        };
        deep.pack(pieces, &mut self.packed_or_not)?;
        match self.packed_or_not.len() < BUFFER {
            true => Ok(()),
            false => self.put_packed(),
        }
    }

    fn put_packed(&mut self) -> io::Result<()> {
        let mut records = std::mem::take(&mut self.packed_or_not);
        let result = self.put(&records);
        records.clear();
        self.packed_or_not = records;
        result
    }

    fn put(&mut self, records: &[u8]) -> io::Result<()> {
        self.taken.put(records, &mut self.out)
    }

    /// Samples in the file, packed ones included.
    fn samples(&self) -> u64 {
        let packed = match &self.packer {
            Packer::Nothing => 0,
            Packer::DeepChains(deep) => deep.samples_in(self.taken.packed),
            Packer::All(compressor) => compressor.samples_in(self.taken.packed),
        };
        self.taken.samples + packed
    }

    /// After an error: makes the file valid up to the last whole record that
    /// it has, and says what that is. The header is written over in place,
    /// which needs no room.
    pub fn salvage(&mut self) -> Kept {
        self.buffer.clear();
        // Where it fails, readers go on to the end of the file.
        let _ = self.tell_size();
        Kept {
            bytes: self.taken.bytes,
            samples: self.samples(),
        }
    }

    /// Hands everything to the file and makes it valid up to here. After an
    /// error the file is what it was at the last flush.
    pub fn flush(&mut self) -> io::Result<()> {
        let Packer::All(compressor) = &mut self.packer else {
            return self.flush_as_is();
        };
        let mut packed = Vec::new();
        compressor.flush(&mut packed)?;
        self.gather(&packed)?;
        self.flush_as_is()
    }

    fn flush_as_is(&mut self) -> io::Result<()> {
        self.drain()?;
        self.tell_size()
    }

    /// Has the header tell how much data there is.
    fn tell_size(&mut self) -> io::Result<()> {
        if self.taken.bytes == self.flushed {
            return Ok(());
        }
        let size = ByteOrder::NATIVE.bytes_u64(self.taken.bytes);
        self.patch(DATA_SIZE_AT, &size)?;
        self.flushed = self.taken.bytes;
        Ok(())
    }

    /// Overwrites bytes of the header and returns to the end of the data.
    fn patch(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(bytes)?;
        self.out
            .seek(SeekFrom::Start(self.data_at + self.taken.bytes))?;
        self.out.flush()
    }

    /// Bytes of records so far.
    pub fn data_size(&self) -> u64 {
        self.taken.bytes + (self.packed_or_not.len() + self.buffer.len()) as u64
    }

    /// Bytes of records that a reader of the file sees now.
    #[cfg(test)]
    fn flushed_size(&self) -> u64 {
        self.flushed
    }

    /// The destination, to look at.
    #[cfg(test)]
    fn get_ref(&self) -> &W {
        &self.out
    }

    /// [`FileWriter::end`], then returns the destination.
    pub fn finish(mut self, features: &Features) -> io::Result<W> {
        self.end(features)?;
        Ok(self.out)
    }

    /// Flushes, writes the feature table, the sections and those of our own,
    /// then the feature bits. Nothing may be written behind.
    pub fn end(&mut self, features: &Features) -> io::Result<()> {
        self.flush()?;
        let mut features = features.clone();
        let section = match &self.packer {
            Packer::Nothing => None,
            Packer::DeepChains(deep) => deep.section(),
            Packer::All(compressor) => Some(compressor.section()),
        };
        if let Some(section) = section {
            features.compression(&section);
        }
        if !self.traces.is_empty() {
            features.traces(&self.traces);
        }
        let features = &features;
        let table_at = self.data_at + self.taken.bytes;
        let (bits, table) = feature_table(features, table_at);
        self.out.write_all(&table)?;
        let mut end = table_at + table.len() as u64;
        for (_, section) in features.of_header() {
            self.out.write_all(section)?;
            end += section.len() as u64;
        }
        own::write_behind(features, end, &mut self.out)?;
        self.out.flush()?;
        self.out.seek(SeekFrom::Start(FEATURES_AT))?;
        self.out.write_all(&bits)?;
        self.out.flush()
    }
}

/// Header, ids and attrs.
fn head_of(events: &[EventDescription]) -> Vec<u8> {
    let attr_size = common_attr_size(events);
    let entry_size = u64::from(attr_size) + 16;
    let ids: usize = events.iter().map(|event| event.ids.len()).sum();
    let attrs_at = HEADER_SIZE + 8 * ids as u64;
    let attrs_size = entry_size * events.len() as u64;
    let mut head = b"PERFILE2".to_vec();
    let mut word = |value: u64| head.extend(ByteOrder::NATIVE.bytes_u64(value));
    word(HEADER_SIZE);
    word(entry_size);
    word(attrs_at);
    word(attrs_size);
    word(attrs_at + attrs_size);
    word(0); // data.size
    word(0); // event types: dead
    word(0);
    for _ in 0..4 {
        word(0); // feature bits
    }
    for &id in events.iter().flat_map(|event| &event.ids) {
        word(id);
    }
    let mut ids_at = HEADER_SIZE;
    for event in events {
        let ids_size = 8 * event.ids.len() as u64;
        head.extend(event.encoded_attr(attr_size));
        head.extend(ByteOrder::NATIVE.bytes_u64(ids_at));
        head.extend(ByteOrder::NATIVE.bytes_u64(ids_size));
        ids_at += ids_size;
    }
    head
}

/// The feature bits and the table of (offset, size) for sections that stand
/// right behind a table at `table_at`.
fn feature_table(features: &Features, table_at: u64) -> ([u8; 32], Vec<u8>) {
    let count = features.of_header().count() as u64;
    let mut section_at = table_at + 16 * count;
    let mut words = [0_u64; 4];
    let mut table = Vec::new();
    for (bit, section) in features.of_header() {
        if let Some(word) = words.get_mut(bit.0 as usize / 64) {
            *word |= 1 << (bit.0 % 64);
        }
        table.extend(ByteOrder::NATIVE.bytes_u64(section_at));
        table.extend(ByteOrder::NATIVE.bytes_u64(section.len() as u64));
        section_at += section.len() as u64;
    }
    let mut bits = [0; 32];
    for (to, word) in bits.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&ByteOrder::NATIVE.bytes_u64(word));
    }
    (bits, table)
}

#[cfg(test)]
mod tests {
    use super::{EventDescription, FileWriter, Kept};
    use crate::features::{Feature, FeatureBit};
    use crate::write::{Features, Packing, finished_round};
    use prof_abi::EventAttr;
    use std::io::{self, Cursor, Seek, SeekFrom, Write};

    fn event(ids: &[u64]) -> EventDescription {
        EventDescription {
            attr: EventAttr::default(),
            ids: ids.to_vec(),
            name: "cpu-clock".into(),
        }
    }

    fn word(file: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(file[at..at + 8].try_into().expect("8 bytes"))
    }

    #[test]
    fn ids_come_first_then_attrs_that_point_at_them() {
        let events = [event(&[10, 11]), event(&[12])];
        let writer = FileWriter::new(Cursor::new(Vec::new()), &events).expect("memory");
        let file = writer.get_ref().get_ref();
        assert_eq!(file[..8], *b"PERFILE2");
        let header: Vec<u64> = (1..7).map(|index| word(file, index * 8)).collect();
        assert_eq!(header, [104, 80, 128, 160, 288, 0]);
        assert_eq!(file.len(), 288);
        assert_eq!([word(file, 104), word(file, 120)], [10, 12]);
        assert_eq!([word(file, 128 + 64), word(file, 128 + 72)], [104, 16]);
        assert_eq!([word(file, 208 + 64), word(file, 208 + 72)], [120, 8]);
    }

    #[test]
    fn a_flush_makes_the_data_valid_and_sets_no_feature_bit() {
        let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event(&[1])]).expect("memory");
        let mut record = Vec::new();
        finished_round(&mut record);
        writer.write(&record).expect("memory");
        assert_eq!(word(writer.get_ref().get_ref(), 48), 0);
        writer.flush().expect("memory");
        writer.write(&record).expect("memory");
        assert_eq!(writer.data_size(), 16);
        assert_eq!(writer.flushed_size(), 8);
        let file = writer.get_ref().get_ref();
        assert_eq!(word(file, 48), 8);
        assert_eq!(file[72..104], [0; 32]);
        assert_eq!(file[word(file, 40) as usize..], record);
    }

    #[test]
    fn features_follow_the_data_and_their_bits_come_last() {
        let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event(&[1])]).expect("memory");
        let mut record = Vec::new();
        finished_round(&mut record);
        writer.write(&record).expect("memory");
        let mut features = Features::default();
        features.cpu_counts(2, 2);
        features.hostname("box");
        let file = writer.finish(&features).expect("memory").into_inner();
        assert_eq!(word(&file, 72), 1 << 3 | 1 << 7);
        assert_eq!(file[80..104], [0; 24]);
        let table = (word(&file, 40) + word(&file, 48)) as usize;
        let first = word(&file, table) as usize;
        assert_eq!(first, table + 32);
        assert_eq!([word(&file, table + 8), word(&file, table + 24)], [68, 8]);
        assert_eq!(word(&file, table + 16), (first + 68) as u64);
        assert_eq!(file.len(), first + 68 + 8);
    }

    #[test]
    fn sections_of_our_own_stand_behind_the_last_and_have_no_bit() {
        let writer = FileWriter::new(Cursor::new(Vec::new()), &[event(&[1])]).expect("memory");
        let mut features = Features::default();
        features.hostname("box"); // 68 bytes: what follows is aligned
        features.trust("{}");
        let file = writer.finish(&features).expect("memory").into_inner();
        assert_eq!(word(&file, 72), 1 << 3);
        assert_eq!(file[80..104], [0; 24]);
        let table = (word(&file, 40) + word(&file, 48)) as usize;
        let end = table + 16 + 68;
        let own = end.next_multiple_of(8);
        assert_eq!(file[own..own + 8], *b"prof-own");
        assert_eq!(word(&file, own + 8), 24);
        assert_eq!([word(&file, own + 16), word(&file, own + 24)], [200, 2]);
        assert_eq!(file[own + 32..], *b"{}\0\0\0\0\0\0");
    }

    /// A disk with room for `left` bytes beyond what is there.
    struct FullDisk {
        file: Cursor<Vec<u8>>,
        capacity: u64,
    }

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = self.capacity.saturating_sub(self.file.position()) as usize;
            if room == 0 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.file.write(&bytes[..bytes.len().min(room)])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for FullDisk {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.file.seek(to)
        }
    }

    #[test]
    fn a_full_disk_leaves_the_file_of_the_last_flush() {
        let disk = FullDisk {
            file: Cursor::new(Vec::new()),
            capacity: 300,
        };
        let mut writer = FileWriter::new(disk, &[event(&[1])]).expect("the header fits");
        writer.write(&[0; 64]).expect("buffered");
        writer.flush().expect("fits");
        writer.write(&[0; 640]).expect("buffered");
        assert!(writer.flush().is_err());
        assert_eq!(writer.flushed_size(), 64);
        assert_eq!(word(writer.get_ref().file.get_ref(), 48), 64);
    }
    #[test]
    fn of_a_full_disk_every_whole_record_counts() {
        let sample = |size: u16| {
            let mut record = [9_u32.to_ne_bytes(), [0; 4]].concat();
            record[6..8].copy_from_slice(&size.to_ne_bytes());
            record.resize(usize::from(size), 7);
            record
        };
        let mut round = Vec::new();
        finished_round(&mut round);
        let records = [sample(24), round, sample(24), sample(24)].concat();
        // The header takes 192 bytes; the disk ends within the third sample,
        // between two records, within the first one, or nowhere.
        for (room, bytes, samples) in [(70, 56, 2), (56, 56, 2), (32, 32, 1), (9, 0, 0)] {
            let disk = FullDisk {
                file: Cursor::new(Vec::new()),
                capacity: 192 + room,
            };
            let mut writer = FileWriter::new(disk, &[event(&[1])]).expect("the header fits");
            writer.write(&records).expect("buffered");
            assert!(writer.flush().is_err());
            assert_eq!(writer.salvage(), Kept { bytes, samples }, "{room}");
            assert_eq!(writer.data_size(), bytes);
            let file = writer.get_ref().file.get_ref();
            assert_eq!(word(file, 48), bytes, "{room}");
        }
        let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event(&[1])]).expect("memory");
        writer.write(&records).expect("memory");
        let all = Kept {
            bytes: 80,
            samples: 3,
        };
        writer.flush().expect("memory");
        assert_eq!(writer.salvage(), all);
    }

    #[test]
    fn traces_stand_between_records_and_are_listed() {
        // covers unit: AUX-12
        let mut record = [71_u32.to_ne_bytes(), [0, 0, 48, 0]].concat();
        record.extend(16_u64.to_ne_bytes());
        record.resize(48, 0);
        let mut round = Vec::new();
        finished_round(&mut round);
        // Would be a sample, if it were a record.
        let trace = [[9, 0, 0, 0, 0, 0, 16, 0], [0; 8]].concat();
        for packing in [Packing::Never, Packing::DeepChains, Packing::All(1)] {
            let mut writer =
                FileWriter::new(Cursor::new(Vec::new()), &[event(&[1])]).expect("memory");
            writer.pack(packing).expect("memory");
            writer.write(&round).expect("memory");
            writer.write_trace(&record, &trace).expect("memory");
            writer.write(&round).expect("memory");
            let file = writer.finish(&Features::default()).expect("memory");
            let mut copy = tempfile::tempfile().expect("a temporary file");
            copy.write_all(file.get_ref()).expect("room");
            copy.rewind().expect("a file");
            let mut reader = crate::Reader::open_file(copy).expect("a recording");
            let (mut kinds, mut place) = (Vec::new(), 0);
            while let Some(record) = reader.next().expect("memory") {
                kinds.push(record.kind.0);
                place = if record.kind.0 == 71 {
                    record.offset
                } else {
                    place
                };
            }
            // What is packed comes with records about that.
            kinds.retain(|kind| [9, 68, 71].contains(kind));
            kinds.sort_unstable();
            assert_eq!(kinds, [68, 68, 71], "{packing:?}");
            let Some(Feature::Auxtrace(listed)) = reader.features().get(FeatureBit::AUXTRACE)
            else {
                panic!("no list: {packing:?}");
            };
            let listed: Vec<_> = listed.iter().map(|it| (it.offset, it.size)).collect();
            assert_eq!(listed, [(place, 48)], "{packing:?}");
        }
    }

    #[test]
    fn of_a_full_disk_no_piece_of_a_trace_is_left() {
        let disk = FullDisk {
            file: Cursor::new(Vec::new()),
            capacity: 192 + 60,
        };
        let mut writer = FileWriter::new(disk, &[event(&[1])]).expect("the header fits");
        let mut round = Vec::new();
        finished_round(&mut round);
        writer.write(&round).expect("buffered");
        assert!(writer.write_trace(&[0; 48], &[7; 64]).is_err());
        let kept = writer.salvage();
        assert_eq!((kept.bytes, kept.samples), (8, 0));
        assert_eq!(word(writer.get_ref().file.get_ref(), 48), 8);
    }

    /// Samples that a reader finds in a file.
    fn samples_read(file: &[u8]) -> u64 {
        let mut copy = tempfile::tempfile().expect("a temporary file");
        copy.write_all(file).expect("room");
        copy.rewind().expect("a file");
        let mut reader = crate::Reader::open_file(copy).expect("a recording");
        let mut samples = 0;
        while let Some(record) = reader.next().expect("memory") {
            samples += u64::from(record.kind == prof_abi::RecordType::SAMPLE);
        }
        samples
    }

    /// Of packed records that the disk takes in part, those count that a reader
    /// gets.
    #[test]
    fn of_a_full_disk_every_packed_sample_counts_that_can_be_read() {
        // Long samples that do not pack well: of 4 KiB to 60 KiB.
        let mut state = 1_u64;
        let mut noise = |bytes: usize| -> Vec<u8> {
            let mut word = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_ne_bytes()
            };
            (0..bytes / 8).flat_map(|_| word()).collect()
        };
        let mut sample = |at: usize| {
            let size = 4096 + at * 7919 % 57_000 / 8 * 8;
            let mut record = noise(size);
            record[..8].fill(0);
            record[0] = 9;
            record[6..8].copy_from_slice(&(size as u16).to_ne_bytes());
            record
        };
        let records: Vec<Vec<u8>> = (0..60).map(&mut sample).collect();
        for packing in [Packing::DeepChains, Packing::All(1)] {
            let mut seen = std::collections::BTreeSet::new();
            for room in (0..2_000_000).step_by(98_765) {
                let disk = FullDisk {
                    file: Cursor::new(Vec::new()),
                    capacity: 192 + room,
                };
                let mut writer = FileWriter::new(disk, &[event(&[1])]).expect("the header fits");
                writer.pack(packing).expect("memory");
                let written = records.iter().try_for_each(|record| writer.write(record));
                let is_full = written.and_then(|()| writer.flush()).is_err();
                let kept = writer.salvage();
                let read = samples_read(writer.get_ref().file.get_ref());
                assert_eq!(kept.samples, read, "{packing:?}, room for {room}");
                assert_eq!(is_full, read < 60, "{packing:?}, room for {room}");
                seen.insert(read);
            }
            assert!(seen.len() > 10 && seen.contains(&60), "{seen:?}");
        }
    }
}
