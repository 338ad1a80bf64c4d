//! Finding the table in a file that does not say where it is.

use crate::{Loaded, Table};

/// Bytes that are searched at once.
const PIECE: usize = 1 << 16;
/// The table begins at a multiple of this.
const ALIGNMENT: usize = 32;

/// The first table in parts of a file, given by the addresses of their first
/// byte and behind their last; `text` as for [`Table::open`].
pub fn find(
    file: &impl Loaded,
    parts: impl IntoIterator<Item = (u64, u64)>,
    text: Option<u64>,
) -> Option<Table> {
    let mut piece = vec![0; PIECE];
    for (start, end) in parts {
        let mut at = start.checked_next_multiple_of(ALIGNMENT as u64)?;
        while at < end {
            let got = file.read(at, &mut piece);
            // What the headers say may be longer than the file.
            if got == 0 {
                break;
            }
            let starts = piece.get(..got)?.chunks(ALIGNMENT).enumerate();
            let headers = starts.filter(|(_, bytes)| begins_table(bytes));
            for (number, _) in headers {
                let base = at.checked_add((number * ALIGNMENT) as u64)?;
                if let Some(table) = Table::open(file, base, text) {
                    return Some(table);
                }
            }
            at = at.checked_add(PIECE as u64)?;
        }
    }
    None
}

fn begins_table(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [0xf0 | 0xf1, 0xff, 0xff, 0xff, 0, 0, 1 | 2 | 4, 4 | 8, ..]
    )
}
