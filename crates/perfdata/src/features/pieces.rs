//! Pieces of feature sections: each from one table, for reading and writing.

use super::text::Text;
use crate::fields::{Encoder, Fields, Short};

/// A piece of a feature section.
pub(crate) trait Piece: Sized {
    /// Reads it.
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short>;
    /// Appends its bytes.
    fn put(&self, out: &mut Encoder);
}

/// Declares pieces as tables of fields, in file order: the struct, how it is
/// read and how it is written.
macro_rules! pieces {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::features::pieces::Piece for $name {
            fn take(
                fields: &mut $crate::fields::Fields<'_>,
            ) -> Result<Self, $crate::fields::Short> {
                Ok(Self {
                    $($field: $crate::features::pieces::Piece::take(fields)?,)*
                })
            }

            fn put(&self, out: &mut $crate::fields::Encoder) {
                $($crate::features::pieces::Piece::put(&self.$field, out);)*
            }
        }
    )*};
}
pub(crate) use pieces;

impl Piece for u32 {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        fields.u32()
    }

    fn put(&self, out: &mut Encoder) {
        out.u32(*self);
    }
}

impl Piece for u64 {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        fields.u64()
    }

    fn put(&self, out: &mut Encoder) {
        out.u64(*self);
    }
}

/// u32 length, then that many bytes: the text, a NUL and zeros; as perf writes
/// it up to a multiple of 64.
impl Piece for Text {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        fields.string().map(Self::from)
    }

    fn put(&self, out: &mut Encoder) {
        const UNIT: usize = 64;
        let text = crate::fields::until_nul(self.as_bytes());
        let len = (text.len() + 1).next_multiple_of(UNIT);
        out.u32(len as u32);
        out.bytes(text);
        out.bytes(&vec![0; len - text.len()]);
    }
}

impl<A: Piece, B: Piece> Piece for (A, B) {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        Ok((A::take(fields)?, B::take(fields)?))
    }

    fn put(&self, out: &mut Encoder) {
        self.0.put(out);
        self.1.put(out);
    }
}

/// u32 count, then that many.
impl<T: Piece> Piece for Vec<T> {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        let nr = fields.u32()?;
        (0..nr).map(|_| T::take(fields)).collect()
    }

    fn put(&self, out: &mut Encoder) {
        out.u32(self.len() as u32);
        self.iter().for_each(|item| item.put(out));
    }
}
