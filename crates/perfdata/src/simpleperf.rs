//! What Android's simpleperf adds to perf.data: files with their symbols.
//!
//! Source: simpleperf's `record_file.proto` and `record_file_reader.cpp` in
//! AOSP `system/extras`.

use crate::features::entries::{SimpleperfFile, SimpleperfSymbolEntry};
use crate::features::text::Text;
use crate::fields::{Fields, Short};
use prof_abi::ByteOrder;

/// FILE2: u32 size and a `FileFeature` message, in turn.
///
/// # Errors
/// If a message ends early.
pub(crate) fn files_v2(bytes: &[u8], order: ByteOrder) -> Result<Vec<SimpleperfFile>, String> {
    let mut fields = Fields::new(bytes, order);
    let mut files = Vec::new();
    while fields.left() >= 4 {
        let file = next_message(&mut fields)
            .and_then(file_message)
            .map_err(|short| {
                format!(
                    "file {} needs {} bytes, but {} are left",
                    files.len(),
                    short.needs,
                    short.left
                )
            })?;
        files.push(file);
    }
    Ok(files)
}

fn next_message<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], Short> {
    let size = fields.u32()?;
    fields.items(size.into(), 1)
}

/// FILE: for each file u32 size, path NUL, u32 type, u64 min_vaddr, u32 count
/// of symbols, each u64 start, u32 length, name NUL; then, for DEX files, u32
/// count and u64 offsets, for ELF files u64 file offset of min_vaddr.
///
/// # Errors
/// If a part ends early.
pub(crate) fn files_v1(bytes: &[u8], order: ByteOrder) -> Result<Vec<SimpleperfFile>, String> {
    let mut fields = Fields::new(bytes, order);
    let mut files = Vec::new();
    while fields.left() >= 4 {
        let file = next_message(&mut fields)
            .and_then(|part| old_file(Fields::new(part, order)))
            .map_err(|short| {
                format!(
                    "file {} needs {} bytes, but {} are left",
                    files.len(),
                    short.needs,
                    short.left
                )
            })?;
        files.push(file);
    }
    Ok(files)
}

/// `DSO_ELF_FILE` and `DSO_DEX_FILE` of simpleperf.
const ELF_FILE: u32 = 2;
const DEX_FILE: u32 = 3;

fn old_file(mut fields: Fields<'_>) -> Result<SimpleperfFile, Short> {
    let path = Text::from(fields.terminated());
    let (kind, min_vaddr, nr) = (fields.u32()?, fields.u64()?, fields.u32()?);
    let mut symbols = Vec::new();
    for _ in 0..nr {
        symbols.push(SimpleperfSymbolEntry {
            vaddr: fields.u64()?,
            len: fields.u32()?,
            name: Text::from(fields.terminated()),
        });
    }
    let mut dex_file_offsets = Vec::new();
    if kind == DEX_FILE && fields.left() >= 4 {
        let nr = fields.u32()?;
        let mut offsets = Fields::new(fields.items(nr.into(), 8)?, fields.order());
        dex_file_offsets.extend(std::iter::from_fn(|| offsets.u64().ok()));
    }
    let has_offset = kind == ELF_FILE && fields.left() >= 8;
    Ok(SimpleperfFile {
        path,
        kind,
        min_vaddr,
        file_offset_of_min_vaddr: if has_offset {
            Some(fields.u64()?)
        } else {
            None
        },
        memory_offset_of_min_vaddr: None,
        dex_file_offsets,
        symbols,
    })
}

/// A field of a protobuf message.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a protobuf message, number and value.
struct Message<'a>(Fields<'a>);

impl<'a> Message<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self(Fields::new(bytes, ByteOrder::Little))
    }

    /// Seven bits a byte, lowest first; ten bytes at most.
    fn varint(&mut self) -> Result<u64, Short> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.0.u8()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Short> {
        if self.0.left() == 0 {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Number(self.0.u64()?),
            2 => {
                let len = self.varint()?;
                Wire::Bytes(self.0.items(len, 1)?)
            }
            5 => Wire::Number(self.0.u32()?.into()),
            // Groups are not in use: nothing after one can be read.
            _ => return Ok(None),
        };
        Ok(Some((key >> 3, value)))
    }
}

/// `FileFeature`: 1 path, 2 type, 3 min_vaddr, 4 symbols, 5 dex_file
/// (1 offsets), 6 elf_file (1 file_offset_of_min_vaddr), 7 kernel_module
/// (1 memory_offset_of_min_vaddr).
fn file_message(bytes: &[u8]) -> Result<SimpleperfFile, Short> {
    let mut file = SimpleperfFile::default();
    let mut message = Message::new(bytes);
    while let Some((number, value)) = message.next()? {
        match (number, value) {
            (1, Wire::Bytes(path)) => file.path = Text::from(path),
            (2, Wire::Number(kind)) => file.kind = kind as u32,
            (3, Wire::Number(vaddr)) => file.min_vaddr = vaddr,
            (4, Wire::Bytes(symbol)) => file.symbols.push(symbol_message(symbol)?),
            (5, Wire::Bytes(dex)) => file.dex_file_offsets = repeated_numbers(dex)?,
            (6, Wire::Bytes(elf)) => {
                file.file_offset_of_min_vaddr = repeated_numbers(elf)?.first().copied();
            }
            (7, Wire::Bytes(module)) => {
                file.memory_offset_of_min_vaddr = repeated_numbers(module)?.first().copied();
            }
            _ => {}
        }
    }
    Ok(file)
}

/// `Symbol`: 1 vaddr, 2 len, 3 name.
fn symbol_message(bytes: &[u8]) -> Result<SimpleperfSymbolEntry, Short> {
    let mut symbol = SimpleperfSymbolEntry::default();
    let mut message = Message::new(bytes);
    while let Some((number, value)) = message.next()? {
        match (number, value) {
            (1, Wire::Number(vaddr)) => symbol.vaddr = vaddr,
            (2, Wire::Number(len)) => symbol.len = len as u32,
            (3, Wire::Bytes(name)) => symbol.name = Text::from(name),
            _ => {}
        }
    }
    Ok(symbol)
}

/// The numbers of field 1, packed or one by one.
fn repeated_numbers(bytes: &[u8]) -> Result<Vec<u64>, Short> {
    let mut numbers = Vec::new();
    let mut message = Message::new(bytes);
    while let Some((number, value)) = message.next()? {
        match (number, value) {
            (1, Wire::Number(value)) => numbers.push(value),
            (1, Wire::Bytes(packed)) => {
                let mut packed = Message::new(packed);
                while packed.0.left() > 0 {
                    numbers.push(packed.varint()?);
                }
            }
            _ => {}
        }
    }
    Ok(numbers)
}
