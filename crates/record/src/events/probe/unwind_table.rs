//! Where functions begin by the table of unwind information, which stripped
//! programs have, too.
//!
//! ```text
//! .eh_frame_hdr: version 1 │ encodings of pointer, count, table │ pointer │ count
//!                entries of 8 bytes, ascending: start of a function │ its FDE,
//!                both i32, counted from the section's start
//! ```
//!
//! Source: Linux Standard Base, *DWARF Extensions*; other encodings than linkers
//! write are not read.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ReadRef};

/// Version, `DW_EH_PE_pcrel | sdata4`, `udata4`, `DW_EH_PE_datarel | sdata4`.
const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const ENTRIES: usize = 12;

/// The last function that begins at this address or before.
pub(super) fn function_around<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, object::Endianness, R>,
    svma: u64,
) -> Option<u64> {
    let section = elf.section_by_name(".eh_frame_hdr")?;
    before(section.data().ok()?, section.address(), svma)
}

fn before(table: &[u8], base: u64, svma: u64) -> Option<u64> {
    if !table.starts_with(&HEAD) {
        return None;
    }
    let start = |entry: &[u8]| {
        let offset = entry.get(..4)?.try_into().ok().map(i32::from_le_bytes)?;
        Some(base.wrapping_add_signed(i64::from(offset)))
    };
    let (entries, _) = table.get(ENTRIES..)?.as_chunks::<8>();
    let behind = entries.partition_point(|entry| start(entry).is_some_and(|it| it <= svma));
    start(entries.get(behind.checked_sub(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::before;

    #[test]
    fn the_last_start_before_is_found() {
        let mut table = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for start in [-0x100_i32, -0x80] {
            table.extend(start.to_le_bytes());
            table.extend([0; 4]);
        }
        for (svma, found) in [
            (0xeff, None),
            (0xf00, Some(0xf00)),
            (0xf7f, Some(0xf00)),
            (0xf90, Some(0xf80)),
        ] {
            assert_eq!(before(&table, 0x1000, svma), found, "{svma:#x}");
        }
        table.truncate(15);
        assert_eq!(before(&table, 0x1000, 0xf00), None);
        table[3] = 0xff;
        assert_eq!(before(&table, 0x1000, 0xf00), None);
    }
}
