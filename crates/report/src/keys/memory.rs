//! Keys of memory accesses, for `report --mem-mode`.

use super::place::{self, ADDRESS};
use super::recorded::{one, page_size};
use super::{Measure, Order, SortKey, Spec, Text, USUAL};
use crate::model::By;
use prof_abi::DataSource;
use prof_profile::{Counting, Detail};
use std::fmt::Write;

const OF_MEMORY: Spec = Spec {
    order: Order::Signed,
    counting: Counting::Memory,
    ..USUAL
};

/// Variable.
pub(super) const SYMBOL_DADDR: SortKey = SortKey(&Spec {
    name: "symbol_daddr",
    heading: "Data Symbol",
    width: ADDRESS,
    by: By::Detail(|_, it| one(it.address)),
    text: Text::OfRecord(place::write_variable),
    measure: Measure::OfRecord(|of| Some(place::beside_address(of.profile, of.detail.data))),
    ..OF_MEMORY
});

/// What the data is in.
pub(super) const DSO_DADDR: SortKey = SortKey(&Spec {
    name: "dso_daddr",
    heading: "Data Object",
    width: 11,
    pads: true,
    by: By::Detail(|profile, it| one(place::dso_identity(profile, it.data))),
    order: Order::Details(|profile, a, b| {
        place::dso_order(profile, a.data).cmp(&place::dso_order(profile, b.data))
    }),
    text: Text::OfRecord(|of, out| place::write_dso(of.profile, of.detail.data, out)),
    measure: Measure::OfRecord(|of| of.detail.data.is_none().then_some(16)),
    ..OF_MEMORY
});

/// Whether the access was locked.
pub(super) const LOCKED: SortKey = SortKey(&Spec {
    name: "locked",
    heading: "Locked",
    width: 6,
    by: By::Detail(|_, it| one(source(it).lock())),
    text: Text::OfRecord(|of, out| out.push_str(source(of.detail).lock_text())),
    ..OF_MEMORY
});

/// What the buffer for translations did.
pub(super) const TLB: SortKey = SortKey(&Spec {
    name: "tlb",
    heading: "TLB access",
    width: 22,
    pads: true,
    by: By::Detail(|_, it| one(source(it).tlb())),
    text: Text::OfRecord(|of, out| {
        let _ = write!(out, "{}", source(of.detail).tlb_text());
    }),
    ..OF_MEMORY
});

/// Where the data came from.
pub(super) const MEM: SortKey = SortKey(&Spec {
    name: "mem",
    heading: "Memory access",
    width: 24,
    pads: true,
    by: By::Detail(|_, it| one(source(it).level())),
    text: Text::OfRecord(|of, out| {
        let _ = write!(out, "{}", source(of.detail).level_text());
    }),
    ..OF_MEMORY
});

/// What other caches were asked.
pub(super) const SNOOP: SortKey = SortKey(&Spec {
    name: "snoop",
    heading: "Snoop",
    width: 12,
    pads: true,
    by: By::Detail(|_, it| one(source(it).snoop())),
    text: Text::OfRecord(|of, out| {
        let _ = write!(out, "{}", source(of.detail).snoop_text());
    }),
    ..OF_MEMORY
});

/// Function, by the instruction's live address.
pub(super) const SYMBOL_IADDR: SortKey = SortKey(&Spec {
    name: "symbol_iaddr",
    heading: "Code Symbol",
    width: ADDRESS,
    by: By::Detail(|_, it| one(it.ip)),
    text: Text::OfRecord(place::write_code),
    measure: Measure::OfRecord(|of| Some(place::beside_address(of.profile, of.leaf))),
    ..OF_MEMORY
});

/// Physical address of the data.
pub(super) const PHYS_DADDR: SortKey = SortKey(&Spec {
    name: "phys_daddr",
    heading: "Data Physical Address",
    width: ADDRESS,
    pads: true,
    by: By::Detail(|_, it| one(it.physical_address)),
    text: Text::OfRecord(|of, out| of.write_address(of.detail.physical_address, out)),
    ..OF_MEMORY
});

/// Size of the page that the data is in.
pub(super) const DATA_PAGE_SIZE: SortKey = SortKey(&Spec {
    name: "data_page_size",
    heading: "Data Page Size",
    width: ADDRESS,
    pads: true,
    by: By::Detail(|_, it| one(it.data_page_size)),
    text: Text::OfRecord(|of, out| page_size(of.detail.data_page_size, out)),
    ..OF_MEMORY
});

/// Why the access had to wait.
pub(super) const BLOCKED: SortKey = SortKey(&Spec {
    name: "blocked",
    heading: "Blocked",
    width: 10,
    by: By::Detail(|_, it| one(source(it).blocked())),
    text: Text::OfRecord(|of, out| {
        let _ = write!(out, "{}", source(of.detail).blocked_text());
    }),
    ..OF_MEMORY
});

fn source(detail: &Detail) -> DataSource {
    DataSource(detail.data_src)
}
