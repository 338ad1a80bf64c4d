//! Decompression with caps: zlib, zstd and xz, from files that may lie about
//! how much comes out.

use crate::words::{u16_at, u32_at, u64_at};
use object::{Endianness, elf};
use std::io::{self, Read};

/// What may come out at most: 64 times what went in, plus this many bytes.
const SLACK: u64 = 64 << 20;
/// No section unpacks to more than this many bytes.
const UNPACKED_MAX: u64 = 4 << 30;
/// A zstd frame may ask for a window of at most `2^27` bytes.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

fn cap(packed: usize) -> u64 {
    (packed as u64)
        .saturating_mul(64)
        .saturating_add(SLACK)
        .min(UNPACKED_MAX)
}

/// Unpacks a section with `SHF_COMPRESSED`. It starts with an `Elf64_Chdr`
/// (u32 type, u32 reserved, u64 size, u64 alignment) or an `Elf32_Chdr` (u32
/// type, u32 size, u32 alignment).
pub(crate) fn elf_section(data: &[u8], endian: Endianness, is_64: bool) -> Result<Vec<u8>, String> {
    let header = || {
        let kind = u32_at(data, 0, endian)?;
        let (size, length) = if is_64 {
            (u64_at(data, 8, endian)?, 24)
        } else {
            (u64::from(u32_at(data, 4, endian)?), 12)
        };
        Some((kind, size, data.get(length..)?))
    };
    let (kind, size, packed) = header().ok_or("the compression header is cut short")?;
    match elf::CompressionType(kind) {
        elf::ELFCOMPRESS_ZLIB => zlib(packed, size),
        elf::ELFCOMPRESS_ZSTD => zstd(packed, size),
        _ => Err(format!("unknown compression type {kind}")),
    }
}

/// Unpacks a `.zdebug_*` section: "ZLIB", big-endian u64 size, zlib data.
pub(crate) fn gnu_section(data: &[u8]) -> Result<Vec<u8>, String> {
    let rest = data.strip_prefix(b"ZLIB").ok_or("no ZLIB mark")?;
    let (size, packed) = rest
        .split_first_chunk::<8>()
        .ok_or("the compression header is cut short")?;
    zlib(packed, u64::from_be_bytes(*size))
}

/// Unpacks the xz file in `.gnu_debugdata`.
///
/// The decoder keeps a whole block in memory, so how much comes out is added
/// up from the chunks' headers first.
pub(crate) fn xz(packed: &[u8]) -> Result<Vec<u8>, String> {
    let (claimed, most) = (xz_unpacked_length(packed), cap(packed.len()));
    let claimed = claimed.ok_or("bad xz data: its chunks make no sense")?;
    if claimed > most {
        return Err(format!(
            "{} bytes unpack to {claimed}, more than the {most} allowed",
            packed.len()
        ));
    }
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut io::Cursor::new(packed), &mut bytes)
        .map_err(|error| format!("bad xz data: {error:?}"))?;
    Ok(bytes)
}

/// Adds up what the LZMA2 chunks of an xz file say that they unpack to.
///
/// A 12-byte header whose byte 7 tells the kind of check; then blocks: a
/// header of (first byte + 1) * 4 bytes, chunks, padding to four bytes, the
/// check. A zero byte in place of a block starts the index.
/// Source: the .xz file format, version 1.2.1; LZMA2 as in xz-embedded.
fn xz_unpacked_length(file: &[u8]) -> Option<u64> {
    const CHECK_SIZES: [usize; 16] = [0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64];
    let check = *CHECK_SIZES.get(usize::from(file.get(7)? & 0xf))?;
    let mut total = 0u64;
    let mut at = 12;
    loop {
        let header = usize::from(*file.get(at)?);
        if header == 0 {
            return Some(total);
        }
        at += (header + 1) * 4;
        let (end, unpacked) = lzma2_chunks(file, at)?;
        total = total.checked_add(unpacked)?;
        at = end.checked_next_multiple_of(4)?.checked_add(check)?;
    }
}

/// The end of the LZMA2 chunks from `at` on, and what they unpack to. Each
/// starts with a control byte: 0 ends them; 1 and 2 mean plain data with
/// big-endian u16 size - 1; from 0x80 on, packed data with 21 bits of
/// unpacked size - 1, u16 packed size - 1 and, from 0xc0 on, one byte more.
fn lzma2_chunks(file: &[u8], mut at: usize) -> Option<(usize, u64)> {
    let half = |at| u16_at(file, at, Endianness::Big).map(usize::from);
    let mut total = 0u64;
    loop {
        let control = *file.get(at)?;
        let (unpacked, length) = match control {
            0 => return Some((at + 1, total)),
            1 | 2 => {
                let size = half(at + 1)? + 1;
                (size, 3 + size)
            }
            0x80.. => {
                let high = usize::from(control & 0x1f) << 16;
                let properties = usize::from(control >= 0xc0);
                (high + half(at + 1)? + 1, 5 + properties + half(at + 3)? + 1)
            }
            _ => return None,
        };
        total = total.checked_add(unpacked as u64)?;
        at = at.checked_add(length)?;
    }
}

/// Unpacks in one go: a decoder that need not go on later copies no window.
fn zlib(packed: &[u8], claimed: u64) -> Result<Vec<u8>, String> {
    let mut bytes = room_for(packed, claimed)?;
    let status = flate2::Decompress::new(true)
        .decompress_vec(packed, &mut bytes, flate2::FlushDecompress::Finish)
        .map_err(|error| error.to_string())?;
    if status != flate2::Status::StreamEnd {
        return Err(format!("the data does not end after {claimed} bytes"));
    }
    whole(bytes, claimed)
}

/// Unpacks a zstd frame that claims to hold so many bytes.
pub(crate) fn zstd(packed: &[u8], claimed: u64) -> Result<Vec<u8>, String> {
    let mut decoder =
        zstd::stream::read::Decoder::new(packed).map_err(|error| error.to_string())?;
    decoder
        .window_log_max(ZSTD_WINDOW_LOG_MAX)
        .map_err(|error| error.to_string())?;
    read_claimed(decoder, packed, claimed)
}

/// Reads what comes out, which must be exactly as much as was claimed.
fn read_claimed(decoder: impl Read, packed: &[u8], claimed: u64) -> Result<Vec<u8>, String> {
    let mut bytes = room_for(packed, claimed)?;
    decoder
        .take(claimed.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    whole(bytes, claimed)
}

/// Room for what is claimed to come out, if so much may. It takes no memory
/// until something is written there.
fn room_for(packed: &[u8], claimed: u64) -> Result<Vec<u8>, String> {
    let most = cap(packed.len());
    if claimed > most {
        return Err(format!(
            "{} bytes claim to unpack to {claimed}, more than the {most} allowed",
            packed.len()
        ));
    }
    let mut bytes = Vec::new();
    let wanted = usize::try_from(claimed).unwrap_or(usize::MAX);
    bytes
        .try_reserve_exact(wanted.saturating_add(1))
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn whole(bytes: Vec<u8>, claimed: u64) -> Result<Vec<u8>, String> {
    if bytes.len() as u64 != claimed {
        return Err(format!(
            "{claimed} bytes were claimed, {} came out",
            bytes.len()
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{elf_section, gnu_section, xz, xz_unpacked_length};
    use object::Endianness;
    use std::io::Write;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("encoded");
        encoder.finish().expect("encoded")
    }

    /// An `Elf64_Chdr` with the given type and size before `packed`.
    fn section(kind: u32, size: u64, packed: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(size.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(packed);
        bytes
    }

    #[test]
    fn zlib_and_zstd_sections_unpack_to_what_went_in() {
        let text = b"some debug data, some debug data".repeat(100);
        let packed = section(1, text.len() as u64, &zlib(&text));
        assert_eq!(
            elf_section(&packed, Endianness::Little, true).as_deref(),
            Ok(&text[..])
        );
        let squeezed = zstd::encode_all(&text[..], 3).expect("encoded");
        let packed = section(2, text.len() as u64, &squeezed);
        assert_eq!(
            elf_section(&packed, Endianness::Little, true).as_deref(),
            Ok(&text[..])
        );
        let mut old = b"ZLIB".to_vec();
        old.extend((text.len() as u64).to_be_bytes());
        old.extend(zlib(&text));
        assert_eq!(gnu_section(&old).as_deref(), Ok(&text[..]));
    }

    #[test]
    fn a_claim_of_a_terabyte_is_refused_before_anything_is_unpacked() {
        let packed = section(1, 1 << 40, &zlib(b"x"));
        let error = elf_section(&packed, Endianness::Little, true).expect_err("refused");
        assert!(error.contains("1099511627776"), "{error}");
    }

    #[test]
    fn a_wrong_size_or_cut_data_is_an_error() {
        let packed = section(1, 5, &zlib(b"abc"));
        assert!(elf_section(&packed, Endianness::Little, true).is_err());
        let packed = section(1, 2, &zlib(b"abc"));
        assert!(elf_section(&packed, Endianness::Little, true).is_err());
        for length in 0..packed.len() {
            assert!(elf_section(&packed[..length], Endianness::Little, true).is_err());
        }
        assert!(xz(b"\xfd7zXZ\0 and then nonsense").is_err());
    }

    #[test]
    fn xz_files_unpack_and_cut_ones_do_not() {
        let text = b"a symbol table, a symbol table".repeat(5000);
        let mut packed = Vec::new();
        lzma_rs::xz_compress(&mut &text[..], &mut packed).expect("packed");
        assert_eq!(xz_unpacked_length(&packed), Some(text.len() as u64));
        assert_eq!(xz(&packed).as_deref(), Ok(&text[..]));
        for length in 0..packed.len().min(100) {
            assert!(xz(&packed[..length]).is_err());
        }
    }

    #[test]
    fn an_xz_bomb_is_refused_by_its_chunk_headers() {
        // Chunks that claim two megabytes each from one byte.
        let mut packed = b"\xfd7zXZ\0\0\x01\0\0\0\0".to_vec();
        packed.extend([2, 0, 0x21, 1, 22, 0, 0, 0, 0, 0, 0, 0]);
        for _ in 0..1000 {
            packed.extend([0xff, 0xff, 0xff, 0, 0, 0x5d, 0]);
        }
        // The end of the chunks, padding, a check, and the index.
        packed.extend([0; 16]);
        assert_eq!(xz_unpacked_length(&packed), Some(2000 << 20));
        let error = xz(&packed).expect_err("refused");
        assert!(error.contains("2097152000"), "{error}");
    }
}
