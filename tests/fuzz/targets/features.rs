//! Any bytes as any feature section, tracepoint formats among them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prof_abi::RecordType;

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (order, bit, bytes) = input;
    let order = prof_fuzz::order(order);
    let mut stream = prof_fuzz::stream(0, order);
    let mut body = order.bytes_u64(bit.into()).to_vec();
    body.extend(bytes);
    prof_fuzz::record(&mut stream, order, RecordType::HEADER_FEATURE, &body);
    prof_fuzz::read(stream);
});
