//! Reading numbers and text from a payload.

use prof_abi::ByteOrder;
use rustc_hash::FxHashMap;

/// What a payload needs to be printed, besides its format.
pub struct Surroundings<'a> {
    /// Byte order of its numbers.
    pub order: ByteOrder,
    /// Size of a `long` in the recorded kernel, bytes.
    pub long_size: u8,
    /// The kernel function that holds an address: its name and start.
    pub function: &'a dyn Fn(u64) -> Option<(String, u64)>,
    /// The kernel's constant texts by address.
    pub texts: &'a KernelTexts,
}

/// Constant texts of the kernel that payloads point to, by address.
#[derive(Debug, Clone, Default)]
pub struct KernelTexts(FxHashMap<u64, Box<[u8]>>);

impl KernelTexts {
    /// Reads `printk_formats` of tracefs: lines of `0xADDRESS : "text"`.
    pub(super) fn parse(text: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let line = str::from_utf8(line).ok()?;
            let (address, text) = line.split_once(':')?;
            let address = address.trim().strip_prefix("0x")?;
            let text = text.trim().strip_prefix('"')?;
            let text = text.strip_suffix('"').unwrap_or(text);
            let text = text.strip_suffix("\\n").unwrap_or(text);
            let address = u64::from_str_radix(address, 16).ok()?;
            Some((address, text.as_bytes().into()))
        };
        Self(text.split(|&byte| byte == b'\n').filter_map(line).collect())
    }

    pub(super) fn get(&self, address: u64) -> Option<&[u8]> {
        self.0.get(&address).map(|text| &**text)
    }
}

/// The `size` bytes at `at` as a number, zero-extended; 0 where the payload
/// ends before, or for a size that is no number's.
pub(super) fn number(payload: &[u8], at: usize, size: usize, order: ByteOrder) -> u64 {
    let value = match size {
        1 => payload.get(at).copied().map(u64::from),
        2 => order.u16(payload, at).map(u64::from),
        4 => order.u32(payload, at).map(u64::from),
        8 => order.u64(payload, at),
        _ => None,
    };
    value.unwrap_or(0)
}

/// A number of `size` bytes with its sign.
pub(super) fn sign_extended(value: u64, size: usize) -> i64 {
    match size {
        1 => (value as i8).into(),
        2 => (value as i16).into(),
        4 => (value as i32).into(),
        _ => value as i64,
    }
}

/// The bytes before the first NUL.
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}
