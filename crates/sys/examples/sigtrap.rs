//! Stops where a variable is written: the thread itself gets SIGTRAP before
//! its next instruction.
//!
//! `cargo run -p prof-sys --example sigtrap`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_abi::{AttrFlags, EventAttr};
use prof_sys::breakpoint::{self, Access};
use prof_sys::{Event, Target, Traps, kernel_attr_size};
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};

static BALANCE: AtomicU32 = AtomicU32::new(0);

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    if kernel_attr_size() < Some(prof_abi::attr_size::VER7) {
        println!("needs Linux 5.13");
        return Ok(());
    }
    let watch = breakpoint::on(&BALANCE, Access::Write).ok_or("4 bytes, aligned")?;
    let attr = EventAttr {
        sample_period: 1,
        sig_data: 42, // comes back with the signal
        flags: watch.flags | AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC,
        ..watch
    };
    let mut traps = Traps::watch()?;
    let event = match Event::open(&attr, Target::THIS, None) {
        Ok(event) => event,
        Err(error) if error.errno() == libc::ENOENT || error.errno() == libc::EOPNOTSUPP => {
            println!("this machine has no breakpoints");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    BALANCE.store(100, Ordering::Relaxed);
    // The handler has run by now.
    let trap = traps.take().ok_or("no trap")?;
    event.disable()?;
    println!("written at {:#x}, event {}", trap.address, trap.data);
    assert_eq!((trap.address, trap.data), ((&raw const BALANCE) as u64, 42));
    Ok(())
}
