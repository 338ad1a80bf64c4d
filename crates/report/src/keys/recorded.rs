//! Sort keys that a sample's record tells: weights, memory accesses, branches.
//!
//! To add one: a variant, its line in [`SPECS`], and what it is told apart by,
//! ordered by and written as, in the three functions that match on it.

use super::cells::letter_of_mode;
use prof_abi::{DataSource, Transaction};
use prof_profile::{
    Counting, Detail, DsoKind, Frame, Function, Location, LocationId, NameId, Profile, TakenBranch,
};
use std::cmp::{Ordering, Reverse};
use std::fmt::Write;

/// A part of a row's identity that the record of a sample tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is described by its line in SPECS")]
pub enum DetailKey {
    Socket,
    LocalWeight,
    Weight,
    Transaction,
    Trace,
    Cgroup,
    CgroupId,
    CodePageSize,
    LocalInstructionLatency,
    InstructionLatency,
    LocalStageCycles,
    StageCycles,
    Address,
    LocalRetireLatency,
    RetireLatency,
    Simd,
    DsoFrom,
    DsoTo,
    SymbolFrom,
    SymbolTo,
    Mispredict,
    Abort,
    InTransaction,
    Cycles,
    SrclineFrom,
    SrclineTo,
    AddressFrom,
    AddressTo,
    DataSymbol,
    DataDso,
    Locked,
    Tlb,
    Memory,
    Snoop,
    CodeSymbol,
    PhysicalAddress,
    DataPageSize,
    Blocked,
    Parallelism,
}

/// What is fixed of a key.
struct Spec {
    key: DetailKey,
    name: &'static str,
    heading: &'static str,
    /// Least width, characters.
    width: usize,
    /// Whether perf fills the column even where it is the last.
    pads: bool,
    /// What has to be counted for the key to mean something.
    of: Counting,
}

const fn spec(
    key: DetailKey,
    name: &'static str,
    heading: &'static str,
    width: usize,
    pads: bool,
    of: Counting,
) -> Spec {
    Spec {
        key,
        name,
        heading,
        width,
        pads,
        of,
    }
}

/// Width of an address with the letter of its mode.
const ADDRESS: usize = "[k] 0x".len() + 16;

#[rustfmt::skip] // a table
const SPECS: [Spec; 39] = {
    use Counting::{Branches, Memory, Samples};
    use DetailKey as Key;
    [
        spec(Key::LocalWeight, "local_weight", "Local Weight", 12, true, Samples),
        spec(Key::Weight, "weight", "Weight", 12, true, Samples),
        spec(Key::Transaction, "transaction", "Transaction                ", 27, true, Samples),
        spec(Key::Trace, "trace", "Trace output", 12, false, Samples),
        spec(Key::Socket, "socket", "Socket", 6, true, Samples),
        spec(Key::Cgroup, "cgroup", "Cgroup", 6, false, Samples),
        spec(Key::CgroupId, "cgroup_id", "cgroup id (dev/inode)", 21, false, Samples),
        spec(Key::CodePageSize, "code_page_size", "Code Page Size", 14, true, Samples),
        spec(Key::LocalInstructionLatency, "local_ins_lat", "Local INSTR Latency", 19, true, Samples),
        spec(Key::InstructionLatency, "ins_lat", "INSTR Latency", 13, true, Samples),
        spec(Key::LocalStageCycles, "local_p_stage_cyc", "Local Pipeline Stage Cycle", 26, true, Samples),
        spec(Key::StageCycles, "p_stage_cyc", "Pipeline Stage Cycle", 20, true, Samples),
        spec(Key::Address, "addr", "Address", 18, true, Samples),
        spec(Key::LocalRetireLatency, "local_retire_lat", "Local Retire Latency", 20, true, Samples),
        spec(Key::RetireLatency, "retire_lat", "Retire Latency", 14, true, Samples),
        spec(Key::Simd, "simd", "Simd   ", 7, false, Samples),
        spec(Key::Parallelism, "parallelism", "Parallelism", 11, true, Samples),
        spec(Key::DsoFrom, "dso_from", "Source Shared Object", 20, true, Branches),
        spec(Key::DsoTo, "dso_to", "Target Shared Object", 20, true, Branches),
        spec(Key::SymbolFrom, "symbol_from", "Source Symbol", 13, false, Branches),
        spec(Key::SymbolTo, "symbol_to", "Target Symbol", 13, false, Branches),
        spec(Key::Mispredict, "mispredict", "Branch Mispredicted", 19, true, Branches),
        spec(Key::Abort, "abort", "Transaction abort", 17, true, Branches),
        spec(Key::InTransaction, "in_tx", "Branch in transaction", 21, true, Branches),
        spec(Key::Cycles, "cycles", "Basic Block Cycles", 18, true, Branches),
        spec(Key::SrclineFrom, "srcline_from", "From Source:Line", 16, true, Branches),
        spec(Key::SrclineTo, "srcline_to", "To Source:Line", 14, true, Branches),
        spec(Key::AddressFrom, "addr_from", "Source Address", 14, false, Branches),
        spec(Key::AddressTo, "addr_to", "Target Address", 14, false, Branches),
        spec(Key::DataSymbol, "symbol_daddr", "Data Symbol", ADDRESS, false, Memory),
        spec(Key::DataDso, "dso_daddr", "Data Object", 11, true, Memory),
        spec(Key::Locked, "locked", "Locked", 6, false, Memory),
        spec(Key::Tlb, "tlb", "TLB access", 22, true, Memory),
        spec(Key::Memory, "mem", "Memory access", 24, true, Memory),
        spec(Key::Snoop, "snoop", "Snoop", 12, true, Memory),
        spec(Key::CodeSymbol, "symbol_iaddr", "Code Symbol", ADDRESS, false, Memory),
        spec(Key::PhysicalAddress, "phys_daddr", "Data Physical Address", ADDRESS, true, Memory),
        spec(Key::DataPageSize, "data_page_size", "Data Page Size", ADDRESS, true, Memory),
        spec(Key::Blocked, "blocked", "Blocked", 10, false, Memory),
    ]
};

impl DetailKey {
    /// All keys, in the order in which perf looks for the beginning of a name.
    pub fn all() -> impl Iterator<Item = Self> {
        SPECS.iter().map(|spec| spec.key)
    }

    fn spec(self) -> &'static Spec {
        let mut specs = SPECS.iter();
        let found = specs.find(|spec| spec.key == self);
        found.expect("each key has its line")
    }

    /// As typed after `--sort`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The column's heading, as perf writes it.
    pub fn heading(self) -> &'static str {
        self.spec().heading
    }

    /// Least width of the column, characters.
    pub(crate) fn least_width(self) -> usize {
        self.spec().width
    }

    /// Whether perf fills the column even where it is the last.
    pub(crate) fn pads_itself(self) -> bool {
        self.spec().pads
    }

    /// What has to be counted for the key to mean something.
    pub fn counting(self) -> Counting {
        self.spec().of
    }

    /// Its bit in a set of keys.
    pub(crate) fn bit(self) -> u64 {
        1 << self as u32
    }

    /// What tells rows apart: equal for samples of one row.
    pub(crate) fn identity(self, profile: &Profile, detail: &Detail) -> [u64; 2] {
        let source = DataSource(detail.data_src);
        let branch = |of: fn(&TakenBranch) -> u64| detail.branch.as_ref().map_or(0, of);
        let at = |place: fn(&TakenBranch) -> LocationId| detail.branch.as_ref().map(place);
        let one = match self {
            Self::Socket => detail.socket as u64,
            Self::LocalWeight | Self::Weight => detail.weight,
            Self::Transaction => detail.transaction,
            Self::Trace => detail.trace.map_or(u64::MAX, |name| name.0.into()),
            Self::Cgroup => detail.cgroup,
            Self::CgroupId => return [detail.cgroup_namespace.0, detail.cgroup_namespace.1],
            Self::Simd => 0,
            Self::CodePageSize => detail.code_page_size,
            Self::LocalInstructionLatency | Self::InstructionLatency => {
                detail.instruction_latency.into()
            }
            Self::LocalStageCycles
            | Self::StageCycles
            | Self::LocalRetireLatency
            | Self::RetireLatency => detail.stage_latency.into(),
            Self::Address | Self::CodeSymbol => detail.ip,
            Self::DsoFrom => dso_identity(profile, at(|it| it.from)),
            Self::DsoTo => dso_identity(profile, at(|it| it.to)),
            Self::SymbolFrom => function_identity(profile, at(|it| it.from)),
            Self::SymbolTo => function_identity(profile, at(|it| it.to)),
            Self::Mispredict => branch(|it| it.is_mispredicted.map_or(2, u64::from)),
            Self::Abort => branch(|it| it.is_abort.into()),
            Self::InTransaction => branch(|it| it.in_transaction.into()),
            Self::Cycles => branch(|it| it.cycles.into()),
            Self::SrclineFrom => return line_identity(profile, at(|it| it.from)),
            Self::SrclineTo => return line_identity(profile, at(|it| it.to)),
            Self::AddressFrom => {
                let dso = dso_identity(profile, at(|it| it.from));
                return [dso, branch(|it| it.from_address)];
            }
            Self::AddressTo => {
                let dso = dso_identity(profile, at(|it| it.to));
                return [dso, branch(|it| it.to_address)];
            }
            Self::DataSymbol => detail.address,
            Self::DataDso => dso_identity(profile, detail.data),
            Self::Locked => source.lock(),
            Self::Tlb => source.tlb(),
            Self::Memory => source.level(),
            Self::Snoop => source.snoop(),
            Self::PhysicalAddress => detail.physical_address,
            Self::DataPageSize => detail.data_page_size,
            Self::Blocked => source.blocked(),
            Self::Parallelism => detail.parallelism.into(),
        };
        [one, 0]
    }

    /// The order of rows that are equal in what comes before, as perf's.
    pub(crate) fn compare(self, profile: &Profile, a: &Detail, b: &Detail) -> Ordering {
        let identity = |detail| self.identity(profile, detail);
        let largest_first = || identity(b).cmp(&identity(a));
        let place =
            |detail: &Detail, of: fn(&TakenBranch) -> LocationId| detail.branch.as_ref().map(of);
        match self {
            Self::LocalWeight
            | Self::Weight
            | Self::Transaction
            | Self::CgroupId
            | Self::LocalInstructionLatency
            | Self::InstructionLatency
            | Self::LocalStageCycles
            | Self::StageCycles
            | Self::LocalRetireLatency
            | Self::RetireLatency
            | Self::Cycles => largest_first(),
            Self::Trace => {
                let text = |detail: &Detail| detail.trace.map(|name| profile.name(name));
                text(a).cmp(&text(b))
            }
            Self::DsoFrom => {
                let of = |detail| dso_order(profile, place(detail, |it| it.from));
                of(a).cmp(&of(b))
            }
            Self::DsoTo => {
                let of = |detail| dso_order(profile, place(detail, |it| it.to));
                of(a).cmp(&of(b))
            }
            Self::DataDso => {
                let of = |detail: &Detail| dso_order(profile, detail.data);
                of(a).cmp(&of(b))
            }
            Self::SymbolFrom => {
                let of = |detail: &Detail| {
                    let address = detail.branch.map_or(0, |it| it.from_address);
                    function_order(profile, place(detail, |it| it.from), address)
                };
                of(a).cmp(&of(b))
            }
            Self::SymbolTo => {
                let of = |detail: &Detail| {
                    let address = detail.branch.map_or(0, |it| it.to_address);
                    function_order(profile, place(detail, |it| it.to), address)
                };
                of(a).cmp(&of(b))
            }
            Self::AddressFrom => {
                let of = |detail: &Detail| {
                    let address = detail.branch.map_or(0, |it| it.from_address);
                    (
                        dso_order(profile, place(detail, |it| it.from)),
                        address as i64,
                    )
                };
                of(a).cmp(&of(b))
            }
            Self::AddressTo => {
                let of = |detail: &Detail| {
                    let address = detail.branch.map_or(0, |it| it.to_address);
                    (
                        dso_order(profile, place(detail, |it| it.to)),
                        address as i64,
                    )
                };
                of(a).cmp(&of(b))
            }
            Self::SrclineFrom | Self::SrclineTo => {
                let text = |detail| {
                    let mut text = String::new();
                    self.write(profile, detail, Shown::default(), &mut text);
                    text
                };
                text(a).cmp(&text(b))
            }
            // perf subtracts addresses, so that the kernel's come first.
            _ => identity(a)
                .map(u64::cast_signed)
                .cmp(&identity(b).map(u64::cast_signed)),
        }
    }

    /// Writes the cell; names are as recorded, the caller escapes.
    pub(crate) fn write(self, profile: &Profile, detail: &Detail, row: Shown, out: &mut String) {
        let source = DataSource(detail.data_src);
        let times = |value: u64| value.saturating_mul(row.samples);
        let flag = |is_set: fn(&TakenBranch) -> bool, letter| match &detail.branch {
            Some(branch) if is_set(branch) => letter,
            Some(_) => ".",
            None => "N/A",
        };
        let _ = match self {
            Self::Socket => {
                let sign = if detail.socket < 0 { "-" } else { "" };
                let number = format!("{sign}{:03}", detail.socket.unsigned_abs());
                write!(out, "{number:>6}")
            }
            Self::LocalWeight => write!(out, "{}", detail.weight),
            Self::Weight => write!(out, "{}", times(detail.weight)),
            Self::Transaction => write!(out, "{}", transaction(detail.transaction)),
            Self::Trace => return out.push_str(detail.trace.map_or("N/A", |it| profile.name(it))),
            Self::Cgroup => return out.push_str(cgroup(profile, detail)),
            Self::CgroupId => {
                let (device, inode) = detail.cgroup_namespace;
                write!(out, "{device}/0x{inode:x}")
            }
            Self::CodePageSize => return page_size(detail.code_page_size, out),
            Self::DataPageSize => return page_size(detail.data_page_size, out),
            Self::LocalInstructionLatency => write!(out, "{}", detail.instruction_latency),
            Self::InstructionLatency => {
                write!(out, "{}", times(detail.instruction_latency.into()))
            }
            Self::LocalStageCycles | Self::LocalRetireLatency => {
                write!(out, "{}", detail.stage_latency)
            }
            Self::StageCycles | Self::RetireLatency => {
                write!(out, "{}", times(detail.stage_latency.into()))
            }
            Self::Address => match detail.ip {
                0 => write!(out, "0"),
                ip => write!(out, "{ip:#x}"),
            },
            Self::Simd => write!(out, "[.] n/a"),
            Self::Parallelism => write!(out, "{:>11}", detail.parallelism),
            Self::DsoFrom => return dso(profile, detail.branch.map(|it| it.from), out),
            Self::DsoTo => return dso(profile, detail.branch.map(|it| it.to), out),
            Self::DataDso => return dso(profile, detail.data, out),
            Self::SymbolFrom => {
                return branch_symbol(profile, (detail.branch.map(|it| it.from), false), row, out);
            }
            Self::SymbolTo => {
                return branch_symbol(profile, (detail.branch.map(|it| it.to), false), row, out);
            }
            Self::AddressFrom => {
                return branch_symbol(profile, (detail.branch.map(|it| it.from), true), row, out);
            }
            Self::AddressTo => {
                return branch_symbol(profile, (detail.branch.map(|it| it.to), true), row, out);
            }
            Self::Mispredict => {
                let told = detail.branch.and_then(|branch| branch.is_mispredicted);
                return out.push_str(told.map_or("N/A", |is| if is { "Y" } else { "N" }));
            }
            Self::Abort => return out.push_str(flag(|it| it.is_abort, "A")),
            Self::InTransaction => return out.push_str(flag(|it| it.in_transaction, "T")),
            Self::Cycles => match detail.branch.map(|branch| branch.cycles) {
                None => write!(out, "N/A"),
                Some(0) => write!(out, "-"),
                Some(cycles) => write!(out, "{cycles}"),
            },
            Self::SrclineFrom => return line(profile, detail.branch.map(|it| it.from), row, out),
            Self::SrclineTo => return line(profile, detail.branch.map(|it| it.to), row, out),
            Self::DataSymbol => return data_symbol(profile, detail, row, out),
            Self::CodeSymbol => return code_symbol(profile, detail, row, out),
            Self::Locked => return out.push_str(source.lock_text()),
            Self::Tlb => write!(out, "{}", source.tlb_text()),
            Self::Memory => write!(out, "{}", source.level_text()),
            Self::Snoop => write!(out, "{}", source.snoop_text()),
            Self::Blocked => write!(out, "{}", source.blocked_text()),
            Self::PhysicalAddress => {
                let _ = write!(out, "[{}] ", row.level);
                return push_address(detail.physical_address, out);
            }
        };
    }

    /// The width that perf gives the column for this row, whose cell has
    /// `text` characters.
    pub(crate) fn width(
        self,
        profile: &Profile,
        detail: &Detail,
        row: Shown,
        text: usize,
    ) -> usize {
        // Of a symbol, perf has space for an address beside its name.
        let beside_address = |place: Option<LocationId>| {
            let function = place.and_then(|place| host(profile, place));
            let named = function.filter(|(_, function)| function.unnamed.is_none());
            named.map_or(ADDRESS, |(_, function)| {
                ADDRESS + profile.name(function.name).chars().count()
            })
        };
        match self {
            Self::DataSymbol => beside_address(detail.data),
            Self::CodeSymbol => beside_address(row.leaf),
            Self::DataDso if detail.data.is_none() => 16,
            Self::Transaction if detail.transaction != 0 => LONGEST_TRANSACTION,
            _ => text,
        }
    }
}

/// Characters of the flags of a transaction that go together, and of a code.
const LONGEST_TRANSACTION: usize = "EL ASYNC RETRY CON CAP-READ :XX ".len();

/// What a cell needs to know of its row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown {
    /// Samples of the row.
    pub(crate) samples: u64,
    /// Letter of the mode its code ran in.
    pub(crate) level: char,
    /// The place its first sample was taken at.
    pub(crate) leaf: Option<LocationId>,
    /// Source files with their paths.
    pub(crate) full_paths: bool,
}

/// The function that stands in the file at a place.
fn host(profile: &Profile, place: LocationId) -> Option<(&Location, &Function)> {
    let frame = profile.frames_at(place).last()?;
    Some((profile.location(place), profile.function(frame.function)))
}

/// The address of a place in its file: that of a function which is only an
/// address is its start.
fn address_in_file(location: &Location, function: &Function) -> u64 {
    if function.unnamed.is_some() && function.size == 0 {
        function.start.0
    } else {
        location.address.0
    }
}

fn dso_name(profile: &Profile, place: LocationId) -> Option<NameId> {
    let dso = profile.dso(profile.location(place).dso);
    (dso.kind != DsoKind::Unknown).then_some(dso.short_name)
}

fn dso_identity(profile: &Profile, place: Option<LocationId>) -> u64 {
    let name = place.and_then(|place| dso_name(profile, place));
    name.map_or(u64::MAX, |name| name.0.into())
}

/// Unknown ones first, the others backwards by name.
fn dso_order(profile: &Profile, place: Option<LocationId>) -> Option<Reverse<&str>> {
    let name = place.and_then(|place| dso_name(profile, place));
    name.map(|name| Reverse(profile.name(name)))
}

fn function_identity(profile: &Profile, place: Option<LocationId>) -> u64 {
    let frame = place.and_then(|place| profile.frames_at(place).last());
    frame.map_or(u64::MAX, |frame| frame.function.0.into())
}

/// By address in the file, those without a name last and by live address.
fn function_order(profile: &Profile, place: Option<LocationId>, address: u64) -> (bool, i64, i64) {
    let host = place.and_then(|place| host(profile, place));
    match host {
        Some((_, function)) if function.unnamed.is_none() => {
            (false, function.start.0 as i64, function.size as i64)
        }
        _ => (true, address as i64, 0),
    }
}

fn line_identity(profile: &Profile, place: Option<LocationId>) -> [u64; 2] {
    let Some(place) = place else {
        return [u64::MAX, 0];
    };
    match innermost(profile, place).and_then(|frame| Some((frame.file?, frame.line))) {
        Some((file, line)) => [file.0.into(), line.into()],
        None => [
            1 << 32 | u64::from(profile.location(place).dso.0),
            profile.location(place).address.0,
        ],
    }
}

fn innermost(profile: &Profile, place: LocationId) -> Option<&Frame> {
    profile.frames_at(place).first()
}

fn dso(profile: &Profile, place: Option<LocationId>, out: &mut String) {
    let name = place.and_then(|place| dso_name(profile, place));
    out.push_str(name.map_or("[unknown]", |name| profile.name(name)));
}

/// The symbol at an end of a branch, or its address in the file.
fn branch_symbol(
    profile: &Profile,
    (place, offset): (Option<LocationId>, bool),
    row: Shown,
    out: &mut String,
) {
    let Some((location, function)) = place.and_then(|place| host(profile, place)) else {
        return out.push_str("N/A");
    };
    let level = if offset {
        row.level
    } else {
        letter_of_mode(location.mode)
    };
    let _ = write!(out, "[{level}] ");
    if function.unnamed.is_some() {
        return push_address(address_in_file(location, function), out);
    }
    out.push_str(profile.name(function.name));
    let distance = location.address.0.wrapping_sub(function.start.0);
    if offset && distance != 0 {
        let _ = write!(out, "+{distance:#x}");
    }
}

/// The variable at a data address and the distance from its start, or the
/// live address.
fn data_symbol(profile: &Profile, detail: &Detail, row: Shown, out: &mut String) {
    let _ = write!(out, "[{}] ", row.level);
    match detail.data.and_then(|place| host(profile, place)) {
        Some((location, function)) if function.unnamed.is_none() => {
            let distance = location.address.0.wrapping_sub(function.start.0);
            let _ = write!(out, "{}+{distance:#x}", profile.name(function.name));
        }
        _ => push_address(detail.address, out),
    }
}

/// The function that a sample was taken in, or its live address.
fn code_symbol(profile: &Profile, detail: &Detail, row: Shown, out: &mut String) {
    let _ = write!(out, "[{}] ", row.level);
    match row.leaf.and_then(|place| host(profile, place)) {
        Some((_, function)) if function.unnamed.is_none() => {
            out.push_str(profile.name(function.name));
        }
        _ => push_address(detail.ip, out),
    }
}

/// `file:line`; without one, `symbol+offset` or `module[address]`.
fn line(profile: &Profile, place: Option<LocationId>, row: Shown, out: &mut String) {
    let Some(place) = place else {
        return out.push_str("??:0");
    };
    let last_part = |path: &'_ str| path.rsplit('/').next().unwrap_or(path).to_owned();
    if let Some(frame) = innermost(profile, place)
        && let Some(file) = frame.file
    {
        let path = profile.name(file);
        let path = if row.full_paths {
            path.to_owned()
        } else {
            last_part(path)
        };
        let _ = write!(out, "{path}:{}", frame.line);
        return;
    }
    let Some((location, function)) = host(profile, place) else {
        return out.push_str("??:0");
    };
    let dso = profile.dso(location.dso);
    let at = address_in_file(location, function);
    let _ = if function.unnamed.is_none() {
        let distance = at.wrapping_sub(function.start.0);
        write!(out, "{}+{distance}", profile.name(function.name))
    } else if dso.kind == DsoKind::Unknown {
        write!(out, "??:0")
    } else {
        write!(out, "{}[{at:x}]", profile.name(dso.short_name))
    };
}

fn cgroup<'p>(profile: &'p Profile, detail: &Detail) -> &'p str {
    match (detail.cgroup, detail.cgroup_path) {
        (0, _) => "N/A",
        (_, Some(path)) => profile.name(path),
        (_, None) => "unknown",
    }
}

/// As perf's column has it: told, too, where the abort was neither the
/// instruction's own doing nor another's.
fn transaction(value: u64) -> String {
    const SYNC_OR_ASYNC: u64 = 0xc;
    let flags = Transaction(value & 0xffff_ffff).to_string();
    let neither = if value != 0 && value & SYNC_OR_ASYNC == 0 {
        "NEITHER "
    } else {
        ""
    };
    let code = Transaction(value & !0xffff_ffff).to_string();
    format!("{flags}{neither}{code}")
}

/// As perf names a size: divided by 1024 as long as more than 1 is left.
fn page_size(bytes: u64, out: &mut String) {
    if bytes == 0 {
        return out.push_str("N/A");
    }
    let mut left = bytes;
    let mut units = ['B', 'K', 'M', 'G'].into_iter();
    let mut unit = units.next();
    while left / 1024 > 1 {
        let Some(next) = units.next() else {
            break;
        };
        left /= 1024;
        unit = Some(next);
    }
    let _ = write!(out, "{left}{}", unit.unwrap_or('B'));
}

fn push_address(address: u64, out: &mut String) {
    let _ = match address {
        0 => write!(out, "{:016}", 0),
        address => write!(out, "{address:#018x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::{DetailKey, SPECS, page_size, transaction};

    #[test]
    fn each_key_is_described_once_and_has_a_bit_of_its_own() {
        let all = SPECS.iter().fold(0, |all, spec| {
            assert_eq!(all & spec.key.bit(), 0, "{}", spec.name);
            all | spec.key.bit()
        });
        assert_eq!(all.count_ones() as usize, SPECS.len());
        assert_eq!(DetailKey::Parallelism as usize + 1, SPECS.len());
    }

    #[test]
    fn sizes_and_transactions_are_written_as_perf_does() {
        let text = |bytes| {
            let mut out = String::new();
            page_size(bytes, &mut out);
            out
        };
        let sizes = [0, 4096, 1 << 21, 1 << 30].map(text);
        assert_eq!(sizes, ["N/A", "4K", "2M", "1024M"]);
        assert_eq!(transaction(0x6), "TX SYNC ");
        assert_eq!(transaction(0x2a_0000_0003), "EL TX NEITHER :2a");
        assert_eq!(transaction(0), "");
    }
}
