//! Integers at offsets of untrusted bytes: `None` where the bytes end.

use object::Endianness;

macro_rules! word {
    ($name:ident, $type:ty) => {
        #[doc = concat!("The `", stringify!($type), "` at byte `at`.")]
        #[inline]
        pub(crate) fn $name(bytes: &[u8], at: usize, endian: Endianness) -> Option<$type> {
            let bytes = *bytes.get(at..)?.first_chunk()?;
            Some(match endian {
                Endianness::Little => <$type>::from_le_bytes(bytes),
                Endianness::Big => <$type>::from_be_bytes(bytes),
            })
        }
    };
}

word!(u16_at, u16);
word!(u32_at, u32);
word!(u64_at, u64);

#[cfg(test)]
mod tests {
    use super::{u16_at, u32_at, u64_at};
    use object::Endianness::{Big, Little};

    #[test]
    fn both_orders_are_read_and_the_end_is_seen() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(u16_at(&bytes, 7, Big), Some(0x0809));
        assert_eq!(u32_at(&bytes, 1, Little), Some(0x0504_0302));
        assert_eq!(u64_at(&bytes, 1, Big), Some(0x0203_0405_0607_0809));
        assert_eq!(u64_at(&bytes, 2, Big), None);
        assert_eq!(u16_at(&bytes, usize::MAX, Big), None);
    }
}
