//! Places in x86-64 code that a file's data or code has the address of.
//!
//! A function that is called through a pointer begins at one of them. So do the cases of
//! a `switch`, and numbers look like addresses: what is found has to be proven.

use crate::image::Image;

/// The largest parts of a file that are read for addresses, in bytes: all that is
/// loaded of it.
const MAX_READ: u64 = 16 << 20;
/// Most places of a file.
const MAX_PLACES: usize = 1 << 18;
/// The largest distance from a place to what is asked for, in bytes.
const FARTHEST: u64 = 1 << 16;

/// Those of a file, read when first needed, in order.
#[derive(Debug, Default)]
pub(crate) struct Pointed(Option<Box<[u64]>>);

impl Pointed {
    /// The places at or up to 64 KiB before `at`, the nearest first.
    pub(crate) fn before(&mut self, image: &Image, at: u64) -> impl Iterator<Item = u64> {
        let places = self.0.get_or_insert_with(|| read(image));
        let behind = places.partition_point(|&place| place <= at);
        let before = places.get(..behind).unwrap_or_default().iter().rev();
        before
            .copied()
            .take_while(move |&place| at - place <= FARTHEST)
    }

    /// Memory it takes, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.as_deref().map_or(0, size_of_val)
    }
}

fn read(image: &Image) -> Box<[u64]> {
    let parts = || image.loaded().filter(|&(start, end)| start < end);
    let is_small = parts().map(|(start, end)| end - start).sum::<u64>() <= MAX_READ;
    if !is_small || image.address_size() != 8 {
        return Box::default();
    }
    // Code that is loaded where it likes has no address as a number in it.
    let is_fixed = parts().all(|(start, _)| start != 0);
    let mut places = Vec::new();
    for (start, end) in parts() {
        let Some(bytes) = image.read_svma_once(start, end - start) else {
            continue;
        };
        let found: &mut dyn Iterator<Item = u64> = match image.is_code(start) {
            true => &mut in_code(start, &bytes, is_fixed),
            false => &mut in_data(start, &bytes),
        };
        let room = MAX_PLACES - places.len();
        places.extend(found.filter(|&place| image.is_code(place)).take(room));
    }
    places.sort_unstable();
    places.dedup();
    places.into()
}

/// Words of data: pointers, or what the dynamic linker is to make pointers of.
fn in_data(start: u64, bytes: &[u8]) -> impl Iterator<Item = u64> {
    let to_first = start.next_multiple_of(8) - start;
    let aligned = bytes.get(to_first as usize..).unwrap_or_default();
    let (words, _) = aligned.as_chunks();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// What instructions load that may be an address; they are not told from what stands
/// within others. `is_fixed`: addresses may stand in them as they are.
fn in_code(start: u64, code: &[u8], is_fixed: bool) -> impl Iterator<Item = u64> {
    code.windows(7).zip(start..).filter_map(move |(code, at)| {
        Some(match *code {
            // lea N(%rip),%REGISTER
            [0x48 | 0x4c, 0x8d, modrm, a, b, c, d] if modrm & 0xc7 == 5 => {
                let by = i32::from_le_bytes([a, b, c, d]);
                at.wrapping_add(7).wrapping_add_signed(by.into())
            }
            // mov $N,%REGISTER (of 32 bits)
            [0xb8..=0xbf, a, b, c, d, ..]
            // movq $N,%REGISTER
            | [0x48 | 0x49, 0xc7, 0xc0..=0xc7, a, b, c, d]
                if is_fixed =>
            {
                u32::from_le_bytes([a, b, c, d]).into()
            }
            _ => return None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{FARTHEST, Pointed, in_code, in_data};
    use crate::image::Image;

    #[test]
    fn words_of_data_are_read_where_they_are_aligned() {
        let bytes: Vec<u8> = (0..20).collect();
        let word = |first: u8| u64::from_le_bytes(std::array::from_fn(|at| first + at as u8));
        let words = |start| in_data(start, &bytes).collect::<Vec<_>>();
        assert_eq!(words(0x1000), [word(0), word(8)]);
        assert_eq!(words(0x1004), [word(4), word(12)]);
        assert_eq!(words(0x1007), [word(1), word(9)]);
        assert_eq!(in_data(0x1001, &[1, 2]).count(), 0);
    }

    #[test]
    fn instructions_load_addresses() {
        // nop; lea -0x10(%rip),%rdi; lea 0x20(%rip),%r9; mov 0x20(%rip),%rdi
        let relative = [
            0x90, 0x48, 0x8d, 0x3d, 0xf0, 0xff, 0xff, 0xff, 0x4c, 0x8d, 0x0d, 0x20, 0, 0, 0, 0x48,
            0x8b, 0x3d, 0x20, 0, 0, 0,
        ];
        // mov $0x401234,%edi; mov $0x405678,%r9d; movq $0x409abc,%rsi; nop; nop
        let fixed = [
            0xbf, 0x34, 0x12, 0x40, 0, 0x41, 0xb9, 0x78, 0x56, 0x40, 0, 0x48, 0xc7, 0xc6, 0xbc,
            0x9a, 0x40, 0, 0x90, 0x90,
        ];
        let found = |code: &[u8], is_fixed| in_code(0x1000, code, is_fixed).collect::<Vec<_>>();
        let addresses = [0x1008 - 0x10, 0x100f + 0x20];
        assert_eq!(found(&relative, false), addresses);
        assert_eq!(found(&fixed, true), [0x40_1234, 0x40_5678, 0x40_9abc]);
        assert!(found(&fixed, false).is_empty());
    }

    #[test]
    fn the_places_before_one_are_told_from_the_nearest_on() {
        let image = Image::of_eh_frame(0, Vec::new(), 0);
        let mut pointed = Pointed(Some([8, 0x2_0000, 0x2_0004, 0x3_0000].into()));
        let mut before = |at| pointed.before(&image, at).collect::<Vec<_>>();
        assert_eq!(before(0x2_0003), [0x2_0000]);
        assert_eq!(before(0x2_0004), [0x2_0004, 0x2_0000]);
        assert_eq!(before(0x2_0000 + FARTHEST), [0x3_0000, 0x2_0004, 0x2_0000]);
        assert_eq!(before(7), [0_u64; 0]);
    }
}
