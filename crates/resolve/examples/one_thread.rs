//! The functions in which one thread spent its time: a profile of some of a
//! recording's records.
//!
//! `cargo run --release -p prof-resolve --example one_thread -- perf.data TID`

use prof_abi::RecordType;
use prof_perfdata::{Batch, Reader, Record, TimeOrder};
use prof_profile::Profile;
use prof_resolve::{About, LoadOptions, profile_of};
use prof_symbolize::{Sources, Symbolizer};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Write;

/// The profile of what `tid` did.
pub(crate) fn profile_of_thread(recording: File, tid: i32) -> Result<Profile, Box<dyn Error>> {
    let mut records = TimeOrder::new(Reader::open_file(recording)?);
    let mut batches = Vec::new();
    loop {
        let mut batch = Batch::default();
        records.fill(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        batches.push(batch);
    }
    // What else is recorded tells names of threads and what they have mapped.
    let is_wanted = |record: &Record<'_>| {
        record.kind != RecordType::SAMPLE || record.sample_id().tid == Some(tid)
    };
    let wanted = batches.iter().flat_map(Batch::records).filter(is_wanted);
    let symbolizer = Symbolizer::new(Sources::default());
    let about = About {
        late: records.late(),
        ..About::of(records.reader())
    };
    Ok(profile_of(
        wanted,
        &about,
        &symbolizer,
        &LoadOptions::default(),
    ))
}

/// Periods by the function that ran.
pub(crate) fn by_function(profile: &Profile) -> BTreeMap<&str, u64> {
    let mut functions = BTreeMap::new();
    for sample in profile.samples.iter() {
        if let Some((_, leaf)) = profile.stacks.get(sample.stack)
            && let Some(frame) = profile.frames_at(leaf).first()
        {
            let name = profile.name(profile.function(frame.function).name);
            *functions.entry(name).or_default() += sample.period;
        }
    }
    functions
}

#[cfg_attr(test, expect(dead_code, reason = "the test calls what it calls"))]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(tid)) = (arguments.next(), arguments.next()) else {
        return Err("usage: one_thread FILE TID".into());
    };
    let profile = profile_of_thread(File::open(file)?, tid.parse()?)?;
    let functions = by_function(&profile);
    let mut list: Vec<_> = functions.iter().collect();
    list.sort_by_key(|&(_, period)| std::cmp::Reverse(period));
    for (name, period) in list.iter().take(20) {
        writeln!(std::io::stdout(), "{period:>16} {name}")?;
    }
    Ok(())
}
