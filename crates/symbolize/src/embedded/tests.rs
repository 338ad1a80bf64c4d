use super::{Embedded, PartKey};
use crate::embedded::notes::{Extent, Notes};
use crate::{Detail, LineRow, Lookup, SourceFrame, Symbol};
use prof_profile::{Avma, Svma, UnnamedReason};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn frame(name: &str, line: u32, is_inline: bool) -> SourceFrame {
    SourceFrame {
        name: name.into(),
        file: Some("src/a.rs".into()),
        line,
        is_inline,
        defined_at: Some(("src/a.rs".into(), 1)),
    }
}

fn named(line: u32) -> Lookup {
    Lookup {
        symbol: Some(Symbol {
            name: "outer".into(),
            start: Svma(0x1000),
            size: 0x100,
        }),
        frames: vec![frame("inner", line, true), frame("outer", 7, false)],
        reason: None,
        extent: None,
    }
}

fn key() -> PartKey {
    PartKey::File("/bin/app".into(), None)
}

fn notes() -> Notes {
    let notes = Notes::with_sources();
    let part = notes.part(key());
    let unnamed = Lookup {
        extent: Some((Svma(0x2000), 16)),
        ..Lookup::unnamed(UnnamedReason::Stripped)
    };
    let answers = [(0x1010, &named(3)), (0x1020, &named(4)), (0x2004, &unnamed)];
    part.answers(Detail::Source, answers);
    part.answers(Detail::Symbol, [(0x1080, &named(3))]);
    part.code(0x1000, Some(&[0x90; 64]));
    let row = LineRow {
        address: Svma(0x1000),
        file: Some("src/a.rs".into()),
        line: 3,
    };
    part.rows((Svma(0x1000), Svma(0x1100)), &[row]);
    notes.note_source("src/a.rs", "fn outer() {}\n");
    notes
}

/// All that fits in so many bytes, without a limit of time.
fn packed_in(notes: &Notes, most: u64) -> Option<(Vec<u8>, Extent)> {
    let packed = notes.encode(most, None)?;
    assert!(packed.is_whole);
    Some((packed.bytes, packed.extent))
}

#[test]
fn what_is_packed_when_the_time_is_over_is_less_and_can_be_read() {
    let now = Instant::now();
    let none = notes().encode(u64::MAX, Some(now)).expect("packed");
    assert!(!none.is_whole);
    let embedded = Embedded::new(none.bytes);
    assert_eq!(embedded.fault(), None);
    assert!(embedded.part(&key()).is_none());
    let hour = Duration::from_secs(3600);
    let all = notes().encode(u64::MAX, Some(now + hour)).expect("packed");
    assert!(all.is_whole);
    let part = Embedded::new(all.bytes).part(&key()).expect("a part");
    assert_eq!(part.lookup(0x1010, Detail::Source), Some(named(3)));
    assert_eq!(part.text_bytes(0x1030, 100), Some(&[0x90; 16][..]));
}

#[test]
fn what_was_asked_is_answered_alike_and_what_was_not_is_not() {
    let (packed, extent) = packed_in(&notes(), u64::MAX).expect("packed");
    assert_eq!(extent, Extent::All);
    let embedded = Embedded::new(packed);
    let part = embedded.part(&key()).expect("a part");
    assert_eq!(part.lookup(0x1010, Detail::Source), Some(named(3)));
    assert_eq!(part.lookup(0x1020, Detail::Source), Some(named(4)));
    let symbol = part.lookup(0x1020, Detail::Symbol).expect("known");
    assert_eq!(symbol, Lookup::of_symbol(named(4).symbol.expect("one")));
    let call = part.lookup(0x1080, Detail::Symbol).expect("known");
    assert_eq!(call.frames.len(), 1);
    let unnamed = part.lookup(0x2004, Detail::Source).expect("known");
    assert_eq!(unnamed.reason, Some(UnnamedReason::Stripped));
    assert_eq!(unnamed.extent, Some((Svma(0x2000), 16)));
    assert_eq!(part.lookup(0x1011, Detail::Source), None);
    assert_eq!(part.text_bytes(0x1030, 100), Some(&[0x90; 16][..]));
    assert_eq!(part.text_bytes(0x1040, 1), None);
    let rows = part.line_rows(Svma(0x1000), Svma(0x1100)).expect("rows");
    assert_eq!(rows[0].line, 3);
    assert_eq!(embedded.source("src/a.rs"), Some("fn outer() {}\n"));
    assert!(embedded.part(&PartKey::RunTime(1)).is_none());
}

#[test]
fn what_does_not_fit_is_left_out_from_the_least_needed_on() {
    let all = packed_in(&notes(), u64::MAX).expect("packed").0.len() as u64;
    let (packed, extent) = packed_in(&notes(), all - 1).expect("fits");
    assert_eq!(extent, Extent::WithoutCode);
    let part = Embedded::new(packed.clone()).part(&key()).expect("a part");
    assert_eq!(part.lookup(0x1010, Detail::Source), Some(named(3)));
    assert_eq!(part.text_bytes(0x1000, 1), None);
    let (packed, extent) = packed_in(&notes(), packed.len() as u64 - 1).expect("fits");
    assert_eq!(extent, Extent::Names);
    let part = Embedded::new(packed).part(&key()).expect("a part");
    let found = part.lookup(0x1010, Detail::Source).expect("known");
    assert_eq!(found.frames.len(), 1);
    assert_eq!(found.frames[0].line, 0);
    assert_eq!(packed_in(&notes(), 10), None);
}

#[test]
fn run_time_code_is_found_by_process_and_by_dump() {
    let notes = Notes::default();
    let refused = std::collections::BTreeMap::new();
    let dump = std::path::Path::new("/tmp/jit-7.dump");
    notes.note_run_time_code(7, Ok((Some(dump), &refused)));
    notes.note_run_time_name(7, Avma(0x1010), &named(3));
    notes.note_jitdump_code("/tmp/jit-7.dump", (Avma(0x1000), &[0xcc; 4]), &[]);
    notes.note_run_time_code(8, Err(UnnamedReason::NoPerfMap));
    let embedded = Embedded::new(packed_in(&notes, u64::MAX).expect("packed").0);
    let symbolizer = crate::Symbolizer::default();
    symbolizer.embed(Arc::new(embedded));
    let code = symbolizer.run_time_code(7).expect("known");
    assert_eq!(code.lookup(Avma(0x1010)).symbol, named(3).symbol);
    let other = code.lookup(Avma(1)).reason;
    assert_eq!(other, Some(UnnamedReason::NotInPerfMap));
    let of_dump = symbolizer.run_time_code_of("/tmp/jit-7.dump").expect("it");
    let (bytes, _) = of_dump.code(Avma(0x1000)).expect("code");
    assert_eq!(bytes, [0xcc; 4]);
    let none = symbolizer.run_time_code(8).expect("known");
    assert_eq!(none.refusal(), Some(UnnamedReason::NoPerfMap));
}

#[test]
fn lies_are_refused_with_a_reason() {
    let (packed, _) = packed_in(&notes(), u64::MAX).expect("packed");
    for end in 0..packed.len() {
        let cut = Embedded::new(packed[..end].to_vec());
        assert!(cut.fault().is_some(), "cut at {end}");
        assert!(cut.part(&key()).is_none());
    }
    let mut large = packed.clone();
    large[8..16].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    let fault = Embedded::new(large);
    assert!(fault.fault().expect("one").contains("claim to unpack"));
}

#[test]
fn any_tables_end_soon_and_take_little_memory() {
    // What is inside the frame is wrong, too: each byte changed.
    let (packed, _) = packed_in(&notes(), u64::MAX).expect("packed");
    let whole = crate::unpack::zstd(
        &packed[16..],
        u64::from_le_bytes(packed[8..16].try_into().expect("8")),
    );
    let whole = whole.expect("unpacked");
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            let embedded = Embedded::new(frame_of(&changed));
            if let Some(part) = embedded.part(&key()) {
                let _ = part.lookup(0x1010, Detail::Source);
            }
        }
    }
    // A million texts, functions that are none, frames within frames.
    let mut bomb = Vec::new();
    super::wire::put(&mut bomb, 90 << 20);
    bomb.resize(91 << 20, 0);
    let began = std::time::Instant::now();
    assert!(Embedded::new(frame_of(&bomb)).fault().is_some());
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

/// Bytes as they are embedded.
fn frame_of(whole: &[u8]) -> Vec<u8> {
    let mut out = super::encode::MARK.to_vec();
    out.extend((whole.len() as u64).to_le_bytes());
    out.extend(zstd::bulk::compress(whole, 1).expect("memory"));
    out
}
