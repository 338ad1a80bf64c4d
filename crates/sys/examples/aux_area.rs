//! Takes the trace of a PMU that has one (Intel PT, Arm SPE, CoreSight).
//!
//! `cargo run -p prof-sys --example aux_area`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_abi::{AttrFlags, EventAttr};
use prof_sys::pmu::Pmu;
use prof_sys::{AuxArea, AuxError, AuxMode, Event, Ring, Target};
use std::error::Error;

/// The type of the first tracing PMU.
fn tracing_pmu() -> Option<u32> {
    let names = ["intel_pt", "intel_bts", "arm_spe_0", "cs_etm"];
    let mut pmus = Pmu::all().into_iter();
    let pmu = pmus.find(|pmu| pmu.name().is_some_and(|name| names.contains(&name)))?;
    pmu.kind()
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    // Without one, an event that has no trace: the refusal is part of the API.
    let pmu = tracing_pmu();
    let attr = EventAttr {
        kind: pmu.unwrap_or(1),
        config: if pmu.is_some() { 0 } else { 1 },
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    let ring = Ring::map(&event, 8)?;
    let bytes = 16 * prof_sys::page_size() as u64;
    let mut area = match AuxArea::map(&event, &ring, bytes, AuxMode::Waits) {
        Ok(area) => area,
        Err(AuxError::Refused(error)) if pmu.is_none() => {
            println!("no PMU here traces: {error}");
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    std::hint::black_box(vec![1_u8; 1 << 20]);
    event.disable()?;
    let mut trace = Vec::new();
    println!("{} bytes of trace", area.take(&mut trace));
    Ok(())
}
