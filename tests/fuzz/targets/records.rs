//! Any bytes as records of an event with any sample_type.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u64, &[u8])| {
    let (order, sample_type, bytes) = input;
    let mut stream = prof_fuzz::stream(sample_type, prof_fuzz::order(order));
    stream.extend(bytes);
    prof_fuzz::read(stream);
});
