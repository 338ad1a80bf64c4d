//! Any text as a tracepoint's format, printing any payload; any bytes as the
//! section that holds the formats.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prof_perfdata::tracepoint::{EventFormat, TracingData};

fuzz_target!(|input: (&str, &[u8])| {
    let (text, bytes) = input;
    let _ = TracingData::parse(bytes);
    if let Some(format) = EventFormat::parse("system", text) {
        let mut out = Vec::new();
        format.print_fields(bytes, prof_fuzz::order(0), &mut out);
    }
});
