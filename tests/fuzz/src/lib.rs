//! What the fuzz targets share: a stream around their bytes, and a reader that
//! uses everything.

use prof_abi::{AttrFlags, ByteOrder, EventAttr, RecordType, SampleType};
use prof_perfdata::{Body, Reader, TimeOrder};
use std::io::Cursor;

/// A pipe-mode header and one event whose samples have `sample_type`.
pub fn stream(sample_type: u64, order: ByteOrder) -> Vec<u8> {
    let mut out = match order {
        ByteOrder::Little => b"PERFILE2".to_vec(),
        ByteOrder::Big => b"2ELIFREP".to_vec(),
    };
    out.extend(order.bytes_u64(16));
    let attr = EventAttr {
        kind: 1,
        sample_type: SampleType(sample_type),
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    record(
        &mut out,
        order,
        RecordType::HEADER_ATTR,
        &attr.encode(order),
    );
    out
}

/// Appends a record; what does not fit is cut off.
pub fn record(out: &mut Vec<u8>, order: ByteOrder, kind: RecordType, body: &[u8]) {
    let body = &body[..body.len().min(65_520)];
    out.extend(order.bytes_u32(kind.0));
    out.extend(order.bytes_u16(0));
    out.extend(order.bytes_u16(8 + body.len() as u16));
    out.extend(body);
}

/// Reads a stream to its end in time order and uses every field.
pub fn read(stream: Vec<u8>) {
    let Ok(reader) = Reader::open_stream(Box::new(Cursor::new(stream))) else {
        return;
    };
    let mut records = TimeOrder::new(reader);
    while let Some(record) = records.next().expect("memory") {
        let body = record.decode();
        let _ = (body.fields(), record.sample_id());
        if let Body::Sample(sample) = body {
            let _ = sample.frames().count();
        }
        if let Ok(parsed) = record.parse() {
            assert_eq!(parsed.encode(record.order()), record.bytes);
        }
    }
    let _ = (records.reader().notes(), records.reader().damages().len());
}

/// The byte order that a byte stands for.
pub fn order(byte: u8) -> ByteOrder {
    if byte & 1 == 0 {
        ByteOrder::Little
    } else {
        ByteOrder::Big
    }
}
