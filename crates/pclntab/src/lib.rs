//! `.gopclntab`: the table that every Go program has of its functions.
//!
//! You give a way to read a file's bytes by the addresses they are loaded at
//! ([`Loaded`]) and where the table is ([`find`] searches for it); you get of
//! any code address the function, how large its frame is there, its name,
//! source line and what was inlined. Go's run-time library needs the table to
//! collect garbage and to print tracebacks, so stripping leaves it, and what
//! it says of frames is right at every instruction.
//!
//! ```
//! use prof_pclntab::{Loaded, Table};
//!
//! struct Bytes(Vec<u8>);
//! impl Loaded for Bytes {
//!     fn read(&self, svma: u64, out: &mut [u8]) -> usize {
//!         let rest = self.0.get(svma as usize..).unwrap_or_default();
//!         let len = rest.len().min(out.len());
//!         out[..len].copy_from_slice(&rest[..len]);
//!         len
//!     }
//! }
//! assert!(Table::open(&Bytes(vec![0; 100]), 0, None).is_none());
//! ```
//!
//! Limits: Go 1.18 and later, little-endian. The bytes are trusted in
//! nothing: every read is bounded by the file, every loop by the table.
#![forbid(unsafe_code)]

mod inlined;
mod search;
mod table;
mod values;

pub use inlined::{FunctionIn, InlineTrees, SourceFrame};
pub use search::find;
pub use table::{Function, Table};

/// A file by the addresses its parts are loaded at.
pub trait Loaded {
    /// Copies what is loaded from `svma` on, as much as there is; how many
    /// bytes.
    fn read(&self, svma: u64, out: &mut [u8]) -> usize;
}

fn bytes_at<const N: usize>(file: &impl Loaded, svma: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (file.read(svma, &mut bytes) == N).then_some(bytes)
}

fn u32_at(file: &impl Loaded, svma: u64) -> Option<u32> {
    bytes_at(file, svma).map(u32::from_le_bytes)
}

/// A text that ends with a NUL; `None` if it is longer than any real one.
fn text_at(file: &impl Loaded, svma: u64) -> Option<String> {
    const LONGEST: usize = 1 << 14;
    let mut text = Vec::new();
    while text.len() < LONGEST {
        let mut piece = [0; 64];
        let got = file.read(svma.checked_add(text.len() as u64)?, &mut piece);
        let piece = piece.get(..got).filter(|piece| !piece.is_empty())?;
        match piece.iter().position(|&byte| byte == 0) {
            Some(end) => {
                text.extend_from_slice(piece.get(..end)?);
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
            None => text.extend_from_slice(piece),
        }
    }
    None
}
