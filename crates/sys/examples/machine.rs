//! What this machine has and allows.
//!
//! `cargo run -p prof-sys --example machine`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_sys::limits::{Limit, Resource};
use prof_sys::pmu::Pmu;
use prof_sys::settings::Settings;
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    println!("{:#?}", Settings::read());
    match prof_sys::kernel_attr_size() {
        Some(bytes) => println!("perf_event_attr: {bytes} bytes"),
        None => println!("perf_event_open is missing or forbidden"),
    }
    for pmu in Pmu::all() {
        let kind = pmu.kind().ok_or("it is a PMU")?;
        println!(
            "{:<12} type {kind}, CPUs {:?}, precise {:?}, turns after {:?} ms, rdpmc {:?}",
            pmu.name().unwrap_or("?"),
            pmu.cpu_mask().or(pmu.cpus()),
            pmu.capability("max_precise"),
            pmu.mux_interval(),
            pmu.user_access(),
        );
    }
    let locked = Limit::get(Resource::LockedMemory)?;
    println!("locked memory: {} bytes", locked.soft);
    Ok(())
}
