//! Addresses that cannot be mixed up.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `bytes` further on; wraps.
            #[inline]
            #[must_use]
            pub const fn plus(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// The address `bytes` before; wraps.
            #[inline]
            #[must_use]
            pub const fn minus(self, bytes: u64) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, out)
            }
        }
    };
}

address! {
    /// Address in the running process, as the kernel reported it.
    Avma
}
address! {
    /// Address as written in the ELF file's program headers and symbols.
    Svma
}
address! {
    /// Bytes from the start of a file.
    FileOffset
}

/// `avma - svma` of one mapping; wraps, because prelinked objects load low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bias(u64);

impl Bias {
    /// The bias of a mapping that shows `svma` at `avma`.
    #[inline]
    pub const fn between(avma: Avma, svma: Svma) -> Self {
        Self(avma.0.wrapping_sub(svma.0))
    }

    /// Moves an address of the file to where it is in the process.
    pub const fn to_avma(self, svma: Svma) -> Avma {
        Avma(svma.0.wrapping_add(self.0))
    }

    /// Moves a live address into the file's address space.
    #[inline]
    pub const fn to_svma(self, avma: Avma) -> Svma {
        Svma(avma.0.wrapping_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Avma, Bias, Svma};

    #[test]
    fn a_bias_may_be_below_zero() {
        let bias = Bias::between(Avma(0x1000), Svma(0x40_0000));
        assert_eq!(bias.to_svma(Avma(0x1010)), Svma(0x40_0010));
    }
}
