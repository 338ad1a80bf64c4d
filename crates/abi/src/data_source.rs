//! Where the data of a memory access came from: `perf_mem_data_src`.

use std::fmt;

/// The value of DATA_SRC in a sample.
///
/// | bits | field | bits | field |
/// |---:|---|---:|---|
/// | 0-4 | operation | 37 | remote |
/// | 5-18 | level (old form) | 38-39 | snoop, more |
/// | 19-23 | snoop | 40-42 | blocked by |
/// | 24-25 | lock | 43-45 | hops |
/// | 26-32 | TLB | 46-50 | region |
/// | 33-36 | level number | | |
///
/// The bits are the same in both byte orders once the word is read, because
/// the kernel's declaration has a twin for big-endian machines. Source:
/// `union perf_mem_data_src` up to Linux 7.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DataSource(pub u64);

const OPERATIONS: [&str; 5] = ["N/A", "LOAD", "STORE", "PFETCH", "EXEC"];
const LEVELS: [&str; 14] = [
    "N/A",
    "HIT",
    "MISS",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const LEVEL_NUMBERS: [Option<&str>; 16] = [
    None,
    Some("L1"),
    Some("L2"),
    Some("L3"),
    Some("L4"),
    Some("L2 MHB"),
    Some("Memory-side Cache"),
    Some("L0"),
    Some("Uncached"),
    Some("CXL"),
    Some("I/O"),
    Some("Any cache"),
    Some("LFB/MAB"),
    Some("RAM"),
    Some("PMEM"),
    Some("N/A"),
];
const SNOOPS: [&str; 5] = ["N/A", "None", "Hit", "Miss", "HitM"];
const MORE_SNOOPS: [&str; 2] = ["Fwd", "Peer"];
const TLBS: [&str; 7] = ["N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault"];
const HOPS: [&str; 5] = [
    "N/A",
    "core, same node",
    "node, same socket",
    "socket, same board",
    "board",
];

/// "Hit" and "miss" in the old level and in the TLB field.
const HIT: u64 = 1 << 1;
const MISS: u64 = 1 << 2;

impl DataSource {
    fn bits(self, shift: u32, count: u32) -> u64 {
        self.0 >> shift & ((1 << count) - 1)
    }

    /// Bits: 0 unknown, 1 load, 2 store, 3 prefetch, 4 execution.
    pub fn operation(self) -> u64 {
        self.bits(0, 5)
    }

    /// The old field of the cache level, as bits: 0 unknown, 1 hit, 2 miss, 3
    /// L1, …
    pub fn level(self) -> u64 {
        self.bits(5, 14)
    }

    /// Bits: 0 unknown, 1 none, 2 hit, 3 miss, 4 modified.
    pub fn snoop(self) -> u64 {
        self.bits(19, 5)
    }

    /// Bits: 0 unknown, 1 locked.
    pub fn lock(self) -> u64 {
        self.bits(24, 2)
    }

    /// Bits: 0 unknown, 1 hit, 2 miss, 3 L1, 4 L2, 5 walker, 6 fault.
    pub fn tlb(self) -> u64 {
        self.bits(26, 7)
    }

    /// Number of the level; 15 unknown. 0 in records of before it existed.
    pub fn level_number(self) -> u64 {
        self.bits(33, 4)
    }

    /// Whether the access went to another NUMA node.
    pub fn remote(self) -> bool {
        self.bits(37, 1) != 0
    }

    /// Bits: 0 forwarded, 1 from a peer.
    pub fn more_snoop(self) -> u64 {
        self.bits(38, 2)
    }

    /// Bits: 0 unknown, 1 by data, 2 by an address conflict.
    pub fn blocked(self) -> u64 {
        self.bits(40, 3)
    }

    /// 0 none, 1 another core, 2 another node, 3 another socket, 4 another board.
    pub fn hops(self) -> u64 {
        self.bits(43, 3)
    }

    /// 1 local shared, 2 local not shared, 3 remote shared, 4 remote not
    /// shared, 5 memory-mapped I/O, 8-15 memory 0-7.
    pub fn region(self) -> u64 {
        self.bits(46, 5)
    }

    /// The cache level, as perf's column of memory accesses shows it.
    pub fn level_text(self) -> String {
        let mut text = String::new();
        if self.remote() {
            text.push_str("Remote ");
        }
        match self.hops() {
            0 => text.push_str(&joined(&LEVELS, self.level() & !(HIT | MISS))),
            hops => {
                text.push_str(HOPS.get(hops as usize).unwrap_or(&"N/A"));
                text.push(' ');
            }
        }
        let names_none = self.hops() == 0 && self.level() & !(HIT | MISS) == 0;
        let number = LEVEL_NUMBERS.get(self.level_number() as usize);
        if let Some(Some(name)) = number {
            if !names_none && self.hops() == 0 {
                text.push_str(" or ");
            }
            text.push_str(name);
        }
        if text.is_empty() {
            text.push_str("N/A");
        }
        text + hit_or_miss(self.level())
    }

    /// The TLB access, as perf shows it.
    pub fn tlb_text(self) -> String {
        let mut text = joined(&TLBS, self.tlb() & !(HIT | MISS));
        if text.is_empty() {
            text.push_str("N/A");
        }
        text + hit_or_miss(self.tlb())
    }

    /// The snoop result, as perf shows it.
    pub fn snoop_text(self) -> String {
        let mut parts: Vec<&str> = set_names(&SNOOPS, self.snoop()).collect();
        parts.extend(set_names(&MORE_SNOOPS, self.more_snoop()));
        if parts.is_empty() {
            "N/A".to_owned()
        } else {
            parts.join(" or ")
        }
    }

    fn operation_text(self) -> &'static str {
        let mut names = set_names(&OPERATIONS, self.operation());
        names.next().unwrap_or("No")
    }

    /// Whether it was a locked access, as perf shows it.
    pub fn lock_text(self) -> &'static str {
        match self.lock() {
            lock if lock & 1 != 0 => "N/A",
            lock if lock & 2 != 0 => "Yes",
            _ => "No",
        }
    }

    /// What blocked the access, as perf shows it, after a space.
    pub fn blocked_text(self) -> String {
        match self.blocked() {
            0 | 1 => " N/A".to_owned(),
            blocked => {
                let data = if blocked & 2 != 0 { " Data" } else { "" };
                let addr = if blocked & 4 != 0 { " Addr" } else { "" };
                format!("{data}{addr}")
            }
        }
    }
}

fn hit_or_miss(bits: u64) -> &'static str {
    match (bits & HIT != 0, bits & MISS != 0) {
        (true, true) => " hit miss",
        (true, false) => " hit",
        (false, true) => " miss",
        (false, false) => "",
    }
}

fn set_names<'a>(names: &'a [&'static str], bits: u64) -> impl Iterator<Item = &'static str> + 'a {
    let set = move |&(bit, _): &(u32, &&'static str)| bits >> bit & 1 != 0;
    (0_u32..).zip(names).filter(set).map(|(_, name)| *name)
}

fn joined(names: &[&'static str], bits: u64) -> String {
    let names: Vec<&str> = set_names(names, bits).collect();
    names.join(" or ")
}

/// As `perf script -F data_src` prints it behind the number.
impl fmt::Display for DataSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "|OP {}|LVL {}|SNP {}|TLB {}|LCK {}|BLK {}",
            self.operation_text(),
            self.level_text(),
            self.snoop_text(),
            self.tlb_text(),
            self.lock_text(),
            self.blocked_text()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::DataSource;

    #[test]
    fn levels_by_number_have_names() {
        // covers unit: MEM-07, MEM-08, MEM-09, MEM-10
        let level = |number: u64| {
            let text = DataSource(number << 33 | 1 << 6).to_string();
            let (_, rest) = text.split_once("LVL ").expect("a level");
            rest.split('|').next().map(ToOwned::to_owned)
        };
        for (number, name) in [
            (5, "L2 MHB hit"),
            (6, "Memory-side Cache hit"),
            (7, "L0 hit"),
            (8, "Uncached hit"),
            (9, "CXL hit"),
            (10, "I/O hit"),
        ] {
            assert_eq!(level(number).as_deref(), Some(name));
        }
        assert_eq!(DataSource(9 << 46).region(), 9);
    }
}
