//! Looking addresses up as stacks have them.

use crate::found::Resolved;
use crate::raw_locations::RawLocation;
use prof_abi::CpuMode;
use prof_profile::{FileOffset, Svma, UnnamedReason};
use prof_symbolize::{Detail, Lookup, SymbolFile};
use prof_unwind::{CallBefore, Machine};
use std::sync::Arc;

/// Looks up file offsets in a file for this machine.
pub(crate) fn look_up_in_file(
    (file, machine): (&SymbolFile, Machine),
    addresses: &[RawLocation],
    detail: Detail,
) -> Vec<Resolved> {
    let svma = |location: &RawLocation| {
        // The call is in the segment; what follows it may not be.
        let back = u64::from(location.is_return);
        let probe = FileOffset(location.address.wrapping_sub(back));
        file.svma_of_file_offset(probe).map(|probe| (probe, back))
    };
    let places: Vec<Option<(Svma, u64)>> = addresses.iter().map(svma).collect();
    let probes: Vec<Svma> = places.iter().flatten().map(|(probe, _)| *probe).collect();
    let mut found = file.lookup_many(&probes, detail).into_iter();
    let one = |(location, place): (&RawLocation, &Option<(Svma, u64)>)| match place {
        Some((probe, back)) => {
            let mut lookup = found.next().unwrap_or_default();
            let address = probe.plus(*back).0;
            let has_no_call = || {
                lookup.frames.is_empty()
                    || ends_before(&lookup, address) && !follows_call((file, machine), address)
            };
            if location.is_return && has_no_call() {
                let behind = file.lookup(Svma(address), detail);
                if starts_at(&behind, address) {
                    lookup = behind;
                }
            }
            Resolved { address, lookup }
        }
        None => Resolved {
            address: location.address,
            lookup: Lookup::unnamed(UnnamedReason::NoSymbolThere),
        },
    };
    addresses.iter().zip(&places).map(one).collect()
}

/// Looks up an address. One that is returned to belongs to the call, which
/// ends just before it; but what was put on the stack to be returned to may be
/// the first byte of a function (`__start_context`), which nothing precedes.
pub(crate) fn look_up_call(
    address: u64,
    is_return: bool,
    look_up: &dyn Fn(u64) -> Lookup,
) -> Lookup {
    if !is_return {
        return look_up(address);
    }
    let call = look_up(address.wrapping_sub(1));
    if !call.frames.is_empty() {
        return call;
    }
    let behind = look_up(address);
    if starts_at(&behind, address) {
        behind
    } else {
        call
    }
}

/// Whether what is there ends before an address.
fn ends_before(lookup: &Lookup, address: u64) -> bool {
    let symbol = lookup.symbol.as_ref();
    symbol.is_some_and(|symbol| symbol.start.plus(symbol.size).0 <= address)
}

/// Whether what is there begins here.
fn starts_at(lookup: &Lookup, address: u64) -> bool {
    let symbol = lookup.symbol.as_ref();
    symbol.is_some_and(|symbol| symbol.start == Svma(address))
}

/// Whether a call ends just before an address, or its code is not known.
fn follows_call((file, machine): (&SymbolFile, Machine), address: u64) -> bool {
    let length = CallBefore::LONGEST as u64;
    let code = address
        .checked_sub(length)
        .and_then(|start| file.text_bytes(Svma(start), length));
    // Fewer end before a hole, and not where they are asked for.
    let code = code.filter(|code| code.len() == CallBefore::LONGEST);
    code.is_none_or(|code| CallBefore::decode(machine, code) != CallBefore::None)
}

/// What has just this name.
pub(crate) fn named_by_itself(name: &str) -> Lookup {
    let frame = prof_symbolize::SourceFrame {
        name: name.into(),
        file: None,
        line: 0,
        is_inline: false,
        defined_at: None,
    };
    Lookup {
        symbol: None,
        frames: vec![frame],
        reason: None,
        extent: None,
    }
}

/// Symbols that the recording itself carries for a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct CarriedSymbols {
    /// Start, length in bytes and demangled name, sorted by start.
    pub(crate) symbols: Vec<(u64, u64, Arc<str>)>,
    /// svma − file offset of the executable segment.
    pub(crate) bias: u64,
}

impl CarriedSymbols {
    /// The symbol at a location.
    pub(crate) fn resolve(&self, location: &RawLocation) -> Resolved {
        let is_file = location.mode == CpuMode::User;
        let address = location
            .address
            .wrapping_add(if is_file { self.bias } else { 0 });
        let probe = address.wrapping_sub(u64::from(location.is_return));
        let behind = self.symbols.partition_point(|&(start, ..)| start <= probe);
        let found = behind
            .checked_sub(1)
            .and_then(|index| self.symbols.get(index));
        let found = found.filter(|(start, len, _)| probe.wrapping_sub(*start) < *len);
        let lookup = match found {
            Some((start, len, name)) => {
                let mut lookup = named_by_itself(name);
                let symbol = prof_symbolize::Symbol {
                    name: Arc::clone(name),
                    start: Svma(*start),
                    size: *len,
                };
                lookup.symbol = Some(symbol);
                lookup
            }
            None => Lookup::unnamed(UnnamedReason::NoSymbolThere),
        };
        Resolved { address, lookup }
    }
}
