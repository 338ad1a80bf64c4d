//! Counts who writes a variable, and calls of a function, exactly.
//!
//! `cargo run -p prof-sys --example breakpoint`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_abi::ReadFormat;
use prof_sys::breakpoint::{self, Access};
use prof_sys::{Event, Target};
use std::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

#[inline(never)]
fn step(total: &AtomicU64) {
    total.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let total = AtomicU64::new(0);
    let attr = breakpoint::on(&total, Access::Write).ok_or("8 bytes, aligned")?;
    let writes = match Event::open(&attr, Target::THIS, None) {
        Ok(event) => event,
        Err(error) if error.errno() == libc::ENOENT || error.errno() == libc::EOPNOTSUPP => {
            println!("this machine has no breakpoints");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let function: fn(&AtomicU64) = step;
    let calls = Event::open(
        &breakpoint::at_function(function as usize),
        Target::THIS,
        None,
    )?;
    for _ in 0..100 {
        black_box(function)(black_box(&total));
    }
    let value =
        |event: &Event| Ok::<_, std::io::Error>(event.read_counts(ReadFormat(0))?.values[0].value);
    println!("{} writes, {} calls", value(&writes)?, value(&calls)?);
    assert_eq!((value(&writes)?, value(&calls)?), (100, 100));
    Ok(())
}
