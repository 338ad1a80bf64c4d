//! Methods of the common language runtime in a process, by their code.

use prof_runtimes::{CoreClr, ManagedCode, ManagedName, Memory};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// Most pieces of code, addresses without, and methods that are remembered.
const MAX_KNOWN: usize = 1 << 16;
/// Every so many changes all is asked for again: modules are seldom unloaded.
const ALL: u32 = 16;

/// A runtime, and what it told lately.
#[derive(Debug)]
pub(crate) struct Managed {
    runtime: CoreClr,
    /// How often it was said that code may have changed.
    changes: u32,
    /// By first address; with the last change after which it was there.
    codes: BTreeMap<u64, (ManagedCode, u32)>,
    /// Addresses of no method.
    others: FxHashSet<u64>,
    /// By method; with the change after which it was read.
    names: FxHashMap<u64, (Option<ManagedName>, u32)>,
}

impl Managed {
    pub(super) fn new(runtime: CoreClr) -> Self {
        Self {
            runtime,
            changes: 0,
            codes: BTreeMap::new(),
            others: FxHashSet::default(),
            names: FxHashMap::default(),
        }
    }

    /// The name of a method.
    pub(crate) fn name(&mut self, method: u64, memory: &mut impl Memory) -> Option<&str> {
        let known = self.names.get(&method);
        let is_known = known.is_some_and(|(name, since)| {
            let lasts = name.as_ref().is_some_and(|name| !name.is_dynamic);
            lasts || *since == self.changes
        });
        if !is_known {
            let name = self.runtime.method_name(method, memory);
            self.names.insert(method, (name, self.changes));
        }
        let (name, _) = self.names.get(&method)?;
        Some(&name.as_ref()?.name)
    }

    /// The code of a method at an address.
    pub(crate) fn code(&mut self, pc: u64, memory: &mut impl Memory) -> Option<ManagedCode> {
        let counts = [self.codes.len(), self.others.len(), self.names.len()];
        if counts.into_iter().any(|count| count >= MAX_KNOWN) {
            self.forget();
        }
        let before = self.codes.range_mut(..=pc).next_back();
        if let Some((_, (found, seen))) = before
            && found.code.contains(&pc)
            && (*seen == self.changes || self.runtime.is_still(found, memory))
        {
            *seen = self.changes;
            return Some(found.clone());
        }
        if self.others.contains(&pc) {
            return None;
        }
        let Some(found) = self.runtime.code_at(pc, memory) else {
            self.others.insert(pc);
            return None;
        };
        self.codes
            .insert(found.code.start, (found.clone(), self.changes));
        Some(found)
    }

    /// Code may have been thrown away and its memory used again.
    pub(super) fn ask_again(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        if self.changes.is_multiple_of(ALL) {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.codes.clear();
        self.others.clear();
        self.names.clear();
        self.runtime.ask_again();
    }
}
