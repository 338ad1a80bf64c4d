//! Any bytes as zstd: the pieces of the input are successive records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prof_abi::{ByteOrder, RecordType};

fuzz_target!(|pieces: Vec<&[u8]>| {
    let order = ByteOrder::Little;
    let mut stream = prof_fuzz::stream(7, order);
    for (number, piece) in pieces.into_iter().enumerate() {
        if number % 2 == 0 {
            prof_fuzz::record(&mut stream, order, RecordType::COMPRESSED, piece);
        } else {
            let mut body = order.bytes_u64(piece.len() as u64).to_vec();
            body.extend(piece);
            prof_fuzz::record(&mut stream, order, RecordType::COMPRESSED2, &body);
        }
    }
    prof_fuzz::read(stream);
});
