//! Bytes to parts; the layout is described in the parent. Whatever the bytes,
//! it ends, and takes memory in proportion to what they unpack to, which is
//! bounded by their number.

use super::encode::MARK;
use super::part::{Answer, Part, PartFrame, PartKey, PartRows, PartSymbol, Parts, Piece};
use super::reasons;
use super::wire::Cursor;
use crate::perf_map::{LineFault, RefusedLines};
use crate::{LineRow, unpack};
use prof_abi::BuildId;
use prof_profile::Svma;
use std::sync::Arc;

/// Frames that all answers together may have: bounds what a hostile recording
/// costs.
const FRAMES_MAX: u64 = 1 << 23;

/// Inlined functions within each other.
const DEPTH_MAX: u32 = 1024;
/// Unpacked bytes; those of the largest recordings are some 20 MB.
const UNPACKED_MAX: u64 = 96 << 20;

/// Reads all parts; what is wrong is the error, in words.
pub(super) fn decode(packed: &[u8]) -> Result<Parts, String> {
    let rest = packed.strip_prefix(MARK);
    let (size, frame) = rest
        .and_then(|rest| rest.split_first_chunk::<8>())
        .ok_or("they do not begin with their mark")?;
    let size = u64::from_le_bytes(*size);
    if size > UNPACKED_MAX {
        return Err(format!(
            "they claim to unpack to {size} bytes; no more than {UNPACKED_MAX} are taken"
        ));
    }
    let bytes = unpack::zstd(frame, size)?;
    let mut reading = Reading {
        cursor: Cursor::new(&bytes),
        tables: Tables::default(),
        frames: 0,
    };
    reading
        .parts()
        .ok_or_else(|| "their tables make no sense".to_owned())
}

/// A function as it may stand in many places.
type TableFunction = (Arc<str>, Option<(Arc<str>, u32)>);

#[derive(Default)]
struct Tables {
    texts: Vec<Arc<str>>,
    functions: Vec<TableFunction>,
}

impl Tables {
    fn text(&self, cursor: &mut Cursor<'_>) -> Option<Arc<str>> {
        self.texts.get(cursor.small()? as usize).cloned()
    }

    /// The inner `None` is a text that is left out.
    fn optional(&self, cursor: &mut Cursor<'_>) -> Option<Option<Arc<str>>> {
        match cursor.small()? {
            0 => Some(None),
            number => Some(Some(self.texts.get(number as usize - 1)?.clone())),
        }
    }
}

struct Reading<'a> {
    cursor: Cursor<'a>,
    tables: Tables,
    /// Frames of all answers so far.
    frames: u64,
}

impl Reading<'_> {
    fn parts(&mut self) -> Option<Parts> {
        let text = |cursor: &mut Cursor<'_>| Some(Arc::from(str::from_utf8(cursor.bytes()?).ok()?));
        self.tables.texts = self.cursor.list(text)?;
        let tables = &self.tables;
        let functions = self.cursor.list(|cursor| {
            // A name of its own: functions of the same name are told apart.
            let name: Arc<str> = Arc::from(&*tables.text(cursor)?);
            let file = tables.optional(cursor)?;
            let line = cursor.small()?;
            Some((name, file.map(|file| (file, line))))
        })?;
        let sources = self.cursor.list(|cursor| {
            let path = tables.text(cursor)?.to_string();
            let text = String::from_utf8_lossy(cursor.bytes()?).into_owned();
            Some((path, text))
        })?;
        self.tables.functions = functions;
        let mut parts = Parts {
            sources: sources.into_iter().collect(),
            ..Parts::default()
        };
        for _ in 0..self.cursor.count()? {
            let key = self.key()?;
            let part = self.part()?;
            self.cursor.take_memory(2 * size_of::<Part>())?;
            parts.by_key.insert(key, Arc::new(part));
        }
        Some(parts)
    }

    fn key(&mut self) -> Option<PartKey> {
        let kind = self.cursor.number()?;
        let name = self.tables.text(&mut self.cursor)?.to_string();
        let id = BuildId::new(self.cursor.bytes()?);
        Some(match kind {
            0 => PartKey::File(name, id),
            1 => PartKey::Vdso(name, id),
            2 => PartKey::Kernel(name, id),
            3 => PartKey::RunTime(name.parse().ok()?),
            _ => return None,
        })
    }

    fn part(&mut self) -> Option<Part> {
        let reason = match self.cursor.number()? {
            0 => None,
            number => Some(reasons::reason_of(number)?),
        };
        let refusal = match reason {
            Some(reason) => Some((reason, self.tables.text(&mut self.cursor)?.to_string())),
            None => None,
        };
        let flags = self.cursor.number()?;
        let from = self.tables.text(&mut self.cursor)?.to_string();
        let mut part = Part {
            refusal,
            from: (flags & 4 != 0).then_some(from),
            is_64_bit: flags & 1 != 0,
            has_lines: flags & 2 != 0,
            ..Part::default()
        };
        part.pieces = self.cursor.list(|cursor| {
            Some(Piece {
                offset: cursor.number()?,
                svma: cursor.number()?,
                size: cursor.number()?,
            })
        })?;
        self.names(&mut part)?;
        self.answers(&mut part)?;
        self.code(&mut part)?;
        Some(part)
    }

    fn names(&mut self, part: &mut Part) -> Option<()> {
        let (cursor, tables) = (&mut self.cursor, &self.tables);
        part.symbols = cursor.list(|cursor| {
            Some(PartSymbol {
                name: tables.text(cursor)?,
                start: cursor.number()?,
                size: cursor.number()?,
            })
        })?;
        for number in 0..cursor.count()? {
            let (name, defined_at) = tables.functions.get(cursor.small()? as usize)?.clone();
            let file = tables.optional(cursor)?;
            let line = cursor.small()?;
            let back = cursor.small()?;
            // Callers come first, so that no frame can be its own caller.
            let caller = match back {
                0 => None,
                back => Some(u32::try_from(number).ok()?.checked_sub(back)?),
            };
            let above = caller.and_then(|caller| part.frames.get(caller as usize));
            let depth = above.map_or(1, |above| above.depth + 1);
            if depth > DEPTH_MAX {
                return None;
            }
            cursor.take_memory(2 * size_of::<PartFrame>())?;
            part.frames.push(PartFrame {
                name,
                defined_at,
                file,
                line,
                caller,
                depth,
            });
        }
        Some(())
    }

    fn answers(&mut self, part: &mut Part) -> Option<()> {
        let mut before = 0_u64;
        for _ in 0..self.cursor.count()? {
            before = before.checked_add(self.cursor.number()?)?;
            let answer = match self.cursor.small()? {
                0 => self.unnamed()?,
                symbol => {
                    let (symbol, frame) = (symbol - 1, self.cursor.small()?);
                    part.symbols.get(symbol as usize)?;
                    let depth = part.frames.get(frame as usize)?.depth;
                    self.frames += u64::from(depth);
                    if self.frames > FRAMES_MAX {
                        return None;
                    }
                    Answer::Named(symbol, frame)
                }
            };
            self.cursor.take_memory(2 * size_of::<(u64, Answer)>())?;
            part.answers.push((before, answer));
        }
        before = 0;
        for _ in 0..self.cursor.count()? {
            before = before.checked_add(self.cursor.number()?)?;
            let answer = match self.cursor.small()? {
                0 => self.unnamed()?,
                symbol => Answer::Named(symbol - 1, u32::MAX),
            };
            self.cursor.take_memory(2 * size_of::<(u64, Answer)>())?;
            part.names.push((before, answer));
        }
        Some(())
    }

    fn unnamed(&mut self) -> Option<Answer> {
        let cursor = &mut self.cursor;
        let reason = reasons::reason_of(cursor.number()?)?;
        let extent = match cursor.number()? {
            0 => None,
            _ => Some((Svma(cursor.number()?), cursor.number()?)),
        };
        Some(Answer::Unnamed(reason, extent))
    }

    fn code(&mut self, part: &mut Part) -> Option<()> {
        let (cursor, tables) = (&mut self.cursor, &self.tables);
        part.code = cursor.list(|cursor| Some((cursor.number()?, cursor.bytes()?.to_vec())))?;
        part.code.sort_by_key(|(start, _)| *start);
        part.rows = cursor.list(|cursor| {
            let (start, end) = (cursor.number()?, cursor.number()?);
            let mut before = start;
            let rows = cursor.list(|cursor| {
                before = before.wrapping_add(cursor.number()?);
                Some(LineRow {
                    address: Svma(before),
                    file: tables.optional(cursor)?,
                    line: cursor.small()?,
                })
            })?;
            Some(PartRows { start, end, rows })
        })?;
        let refused: Vec<(LineFault, RefusedLines)> = cursor.list(|cursor| {
            let fault = reasons::fault_of(cursor.number()?)?;
            let (count, first) = (cursor.number()?, cursor.number()?);
            Some((fault, RefusedLines { count, first }))
        })?;
        part.refused = refused.into_iter().collect();
        Some(())
    }
}
