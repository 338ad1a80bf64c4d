//! The tables of a profile that names fill.

use crate::found::{Found, FoundPlace};
use crate::function_table::{FunctionPlace, FunctionTable, Numbers, Unnamed};
use crate::raw_locations::RawLocation;
use prof_live::MappedDsos;
use prof_profile::{
    DroppedCount, Dso, DsoId, DsoKind, FileOffset, Frame, FrameRange, Function, Location, NameId,
    Names, Svma, UnnamedReason,
};

/// All that the names add to a profile.
pub(crate) struct Named {
    pub(crate) dsos: Vec<Dso>,
    pub(crate) functions: Vec<Function>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) locations: Vec<Location>,
    /// What was left out on the way.
    pub(crate) notes: Vec<DroppedCount>,
}

/// The parts of a profile that names fill, location by location.
pub(crate) struct Tables {
    dsos: Vec<Dso>,
    /// By `DsoId`: where a module of the kernel begins, 0 for all else.
    loaded_at: Vec<u64>,
    functions: FunctionTable,
    locations: Vec<Location>,
    /// Functions without a name are one, and not each address in them.
    whole_functions: bool,
}

impl Tables {
    /// Tables in which every location still is an address in no mapping.
    pub(crate) fn new(
        mut dsos: Vec<Dso>,
        (mapped, raw): (&MappedDsos, &[RawLocation]),
        whole_functions: bool,
        names: &mut Names,
    ) -> Self {
        let start = |(id, _)| mapped.loaded_at(id).map_or(0, |start| start.0);
        let loaded_at: Vec<u64> = mapped.iter().map(start).collect();
        let unknown = DsoId(dsos.len() as u32);
        let unknown_name = names.intern("[unknown]");
        dsos.push(plain_dso(DsoKind::Unknown, unknown_name));
        let mut functions = FunctionTable::default();
        let locations = raw
            .iter()
            .map(|location| {
                let RawLocation {
                    mode,
                    is_return,
                    address,
                    branch,
                    ..
                } = *location;
                let dso = location.dso.map_or(unknown, |dso| DsoId(dso.0));
                let frames = if location.dso.is_none() {
                    // Recordings with broken frame pointers have hundreds of
                    // thousands of them, so they share a name and are told
                    // apart by address.
                    let unmapped = Unnamed {
                        dso: unknown,
                        mode,
                        start: Svma(address),
                        size: 0,
                        reason: UnnamedReason::NoMapping,
                    };
                    functions.add_unnamed(unmapped, || unknown_name)
                } else {
                    FrameRange::default()
                };
                Location {
                    mode,
                    dso,
                    address: Svma(address),
                    file_offset: FileOffset(below(&loaded_at, dso, address)),
                    is_return,
                    frames,
                    branch,
                }
            })
            .collect();
        Self {
            dsos,
            loaded_at,
            functions,
            locations,
            whole_functions,
        }
    }

    /// Puts in what was found at locations, in the order of both.
    pub(crate) fn put_all(&mut self, indices: &[u32], found: &Found, names: &mut Names) {
        let mut numbers = Numbers::new(found, names);
        for (&index, place) in indices.iter().zip(&found.places) {
            self.put(index, place, &mut numbers);
        }
    }

    /// Puts in what was found at a location.
    fn put(&mut self, index: u32, found: &FoundPlace, numbers: &mut Numbers<'_>) {
        let Some(location) = self.locations.get_mut(index as usize) else {
            return;
        };
        let (dso, mode) = (location.dso, location.mode);
        let about = self.dsos.get(dso.0 as usize);
        location.frames = if found.frames.len == 0 {
            let extent = found.extent.filter(|_| self.whole_functions);
            let offset = below(&self.loaded_at, dso, location.address.0);
            let (start, size) = extent.unwrap_or((Svma(offset), 0));
            let unnamed = Unnamed {
                dso,
                mode,
                start,
                size,
                reason: found.reason.unwrap_or(UnnamedReason::NoSymbolThere),
            };
            self.functions.add_unnamed(unnamed, || {
                let names = &mut *numbers.names;
                let dso = about.map_or("", |about| names.get(about.short_name));
                let name = format!("{dso}+{:#x}", start.0);
                names.intern(&name)
            })
        } else {
            let kind = about.map_or(DsoKind::Unknown, |about| about.kind);
            let place = FunctionPlace { dso, kind, mode };
            self.functions.add_found(place, numbers, found.frames)
        };
        location.address = Svma(found.address);
    }

    pub(crate) fn finish(self, notes: Vec<DroppedCount>) -> Named {
        Named {
            dsos: self.dsos,
            functions: self.functions.functions,
            frames: self.functions.frames,
            locations: self.locations,
            notes,
        }
    }
}

/// An address as perf shows it: in a module of the kernel, bytes from where
/// that begins.
fn below(loaded_at: &[u64], dso: DsoId, address: u64) -> u64 {
    let start = loaded_at.get(dso.0 as usize).copied().unwrap_or(0);
    address.wrapping_sub(start)
}

fn plain_dso(kind: DsoKind, name: NameId) -> Dso {
    Dso {
        kind,
        path: name,
        short_name: name,
        beside_address: name,
        build_id: None,
        symbols_from: None,
    }
}
