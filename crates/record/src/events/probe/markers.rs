//! Markers of programs (USDT, `sdt_PROVIDER:NAME`): places that their authors
//! named, from the notes of an ELF file.
//!
//! A note of the owner `stapsdt` and type 3 has three addresses (the marker, the
//! base that the linker may have moved, and a semaphore that is not 0 while
//! somebody looks), then provider, name and arguments, each ending with a NUL.
//!
//! Source: <https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>

use super::super::no_probe::NoProbe;
use super::functions::{At, Binary, file_offset};
use object::elf::NoteType;
use object::read::elf::{ElfFile64, SectionHeader};
use object::{Endianness, Object, ObjectSection, ReadRef};

/// `NT_STAPSDT`.
const KIND: NoteType = NoteType(3);

/// Where a marker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) at: At,
    /// Where in the file its semaphore is, if it has one.
    pub(super) semaphore: Option<u64>,
}

/// The markers of this name, of one provider or of any.
pub(super) fn find(
    binary: &Binary,
    provider: Option<&str>,
    name: &str,
) -> Result<Vec<Marker>, NoProbe> {
    let elf = binary.elf()?;
    let mut found = Vec::new();
    for (note_provider, note_name, addresses) in notes(&elf) {
        if note_name == name && provider.is_none_or(|provider| provider == note_provider) {
            found.extend(place(&elf, addresses));
        }
    }
    Ok(found)
}

/// Provider and name of each marker, for a message.
pub(super) fn names(binary: &Binary) -> Vec<String> {
    let Ok(elf) = binary.elf() else {
        return Vec::new();
    };
    let mut names: Vec<String> = notes(&elf)
        .into_iter()
        .map(|(provider, name, _)| format!("{provider}:{name}"))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Address of the marker, base and semaphore, as the note has them.
type Addresses = [u64; 3];

fn notes<'a, R: ReadRef<'a>>(
    elf: &ElfFile64<'a, Endianness, R>,
) -> Vec<(String, String, Addresses)> {
    let endian = elf.endian();
    let data = elf.data();
    let mut all = Vec::new();
    for section in elf.elf_section_table().iter() {
        let Ok(Some(mut notes)) = section.notes(endian, data) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"stapsdt" && note.n_type(endian) == KIND {
                all.extend(description(note.desc(), endian));
            }
        }
    }
    all
}

fn description(bytes: &[u8], endian: Endianness) -> Option<(String, String, Addresses)> {
    let word = |at: usize| -> Option<u64> {
        let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
        Some(match endian {
            Endianness::Little => u64::from_le_bytes(bytes),
            Endianness::Big => u64::from_be_bytes(bytes),
        })
    };
    let addresses = [word(0)?, word(8)?, word(16)?];
    let mut texts = bytes.get(24..)?.split(|&byte| byte == 0);
    let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
    Some((text()?, text()?, addresses))
}

/// `None` where the addresses are of nothing in the file.
fn place<'a, R: ReadRef<'a>>(
    elf: &ElfFile64<'a, Endianness, R>,
    [marker, base, semaphore]: Addresses,
) -> Option<Marker> {
    // Prelinking moves the sections, but not what notes say.
    let moved = elf
        .section_by_name(".stapsdt.base")
        .map_or(0, |section| section.address().wrapping_sub(base));
    let at = file_offset(elf, marker.wrapping_add(moved))?;
    let semaphore = match semaphore {
        0 => None,
        address => Some(file_offset(elf, address.wrapping_add(moved))?),
    };
    Some(Marker {
        at: At(at),
        semaphore,
    })
}
