//! What names the addresses of one dso: its files, and what a recording
//! carries of it.

use crate::embedded::{Part, PartNotes};
use crate::file::FileOnDisk;
use crate::{Detail, LineRow, Lookup, Symbol};
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma};
use std::path::Path;
use std::sync::Arc;

/// The symbols and lines of one dso, read from its files as far as they are
/// needed; where the files are missing or have nothing, from the names embedded
/// in the recording. Shared between threads.
///
/// They come from its files; where those are not at hand, or say nothing, from
/// what was embedded in the recording.
#[derive(Debug)]
pub struct SymbolFile {
    sides: Sides,
    notes: Option<PartNotes>,
}

/// Where the names are.
#[derive(Debug)]
enum Sides {
    Disk(FileOnDisk),
    /// Both, and whether the part is asked first.
    Both(FileOnDisk, Arc<Part>, bool),
    Part(Arc<Part>),
}

impl SymbolFile {
    /// Of files and what the recording carries; `None` of nothing. `is_sure`
    /// says that the files are those of the recording.
    pub(crate) fn new(
        disk: Option<FileOnDisk>,
        part: Option<Arc<Part>>,
        is_sure: bool,
        notes: Option<PartNotes>,
    ) -> Option<Self> {
        let sides = match (disk, part.filter(|part| part.refusal.is_none())) {
            (Some(disk), Some(part)) => {
                // What was known while recording may be gone since.
                let part_first = !is_sure || (part.has_lines && !disk.has_lines());
                Sides::Both(disk, part, part_first)
            }
            (Some(disk), None) => Sides::Disk(disk),
            (None, Some(part)) => Sides::Part(part),
            (None, None) => return None,
        };
        if let (Some(notes), Sides::Disk(disk) | Sides::Both(disk, ..)) = (&notes, &sides) {
            let mut noted = notes.lock();
            noted.from = Some(disk.symbols_path().to_string_lossy().into_owned());
            noted.is_64_bit = disk.is_64_bit();
            noted.has_lines = disk.has_lines();
            noted.pieces = disk.pieces();
        }
        Some(Self { sides, notes })
    }

    fn disk(&self) -> Option<&FileOnDisk> {
        match &self.sides {
            Sides::Disk(disk) | Sides::Both(disk, ..) => Some(disk),
            Sides::Part(_) => None,
        }
    }

    fn part(&self) -> Option<&Arc<Part>> {
        match &self.sides {
            Sides::Part(part) | Sides::Both(_, part, _) => Some(part),
            Sides::Disk(_) => None,
        }
    }

    /// The part, if it is asked before the files.
    fn part_first(&self) -> Option<&Arc<Part>> {
        match &self.sides {
            Sides::Part(part) | Sides::Both(_, part, true) => Some(part),
            _ => None,
        }
    }

    /// The file that the names come from, or came from when they were
    /// embedded.
    pub fn symbols_path(&self) -> &Path {
        match (self.part_first(), self.disk()) {
            (None, Some(disk)) => disk.symbols_path(),
            (part, _) => Path::new(part.and_then(|part| part.from.as_deref()).unwrap_or("")),
        }
    }

    /// The build-id of the mapped file, if that is at hand.
    pub fn build_id(&self) -> Option<BuildId> {
        self.disk()?.build_id()
    }

    /// The address (svma) of the byte at a file offset, by the program headers;
    /// `None` if no segment loads it.
    pub fn svma_of_file_offset(&self, offset: FileOffset) -> Option<Svma> {
        // Where only a debug file is left, its segments have no bytes, and
        // their offsets are not those that were mapped.
        let of_part = self.part().and_then(|part| part.svma_of(offset));
        match (self.part_first(), self.disk()) {
            (None, Some(disk)) => of_part.or_else(|| disk.svma_of_file_offset(offset)),
            _ => of_part,
        }
    }

    /// Reads the tables that look-ups of this detail need, so that later
    /// look-ups do not wait for them.
    pub fn prepare(&self, detail: Detail) {
        if let Some(disk) = self.disk() {
            disk.prepare(detail);
        }
    }

    /// Drops the files' mapped pages from memory; they are read again when
    /// needed. Call it after many look-ups, when few will follow.
    pub fn release_pages(&self) {
        if let Some(disk) = self.disk() {
            disk.release_pages();
        }
    }

    /// Whether symbols or debug information of the files are in memory.
    pub fn holds_tables(&self) -> bool {
        self.disk().is_some_and(FileOnDisk::holds_tables)
    }

    /// Whether the file is still what stands at its path; `None` if that cannot be
    /// told.
    pub(crate) fn is_in_place(&self) -> Option<bool> {
        self.disk()?.is_in_place()
    }

    /// Bytes that [`SymbolFile::forget_tables`] would give back, roughly.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.disk().map_or(0, FileOnDisk::table_bytes)
    }

    /// Whether tables should be read anew before more is asked: see
    /// [`FileOnDisk::is_worn`].
    pub(crate) fn is_worn(&self) -> bool {
        self.disk().is_some_and(FileOnDisk::is_worn)
    }

    /// Drops what was read of the files from memory; it is read again when
    /// needed. Call it when nothing more is expected to be looked up.
    pub fn forget_tables(&self) {
        if let Some(disk) = self.disk() {
            disk.forget_tables();
        }
    }

    /// What stands at an address. For a return address, ask for the address
    /// one byte before it.
    pub fn lookup(&self, svma: Svma, detail: Detail) -> Lookup {
        let by_part = || self.part()?.lookup(svma.0, detail);
        let first = match self.part_first() {
            Some(_) => by_part(),
            None => None,
        };
        let found = first
            .or_else(|| Some(self.or_part(svma, detail, self.disk()?.lookup(svma, detail))))
            .unwrap_or_else(|| Lookup::unnamed(prof_profile::UnnamedReason::FileMissing));
        if let Some(notes) = &self.notes {
            notes.answers(detail, [(svma.0, &found)]);
        }
        found
    }

    /// What the files say of an address, or, if that is no name, the part.
    fn or_part(&self, svma: Svma, detail: Detail, found: Lookup) -> Lookup {
        if !found.frames.is_empty() {
            return found;
        }
        let embedded = self.part().and_then(|part| part.lookup(svma.0, detail));
        embedded
            .filter(|embedded| !embedded.frames.is_empty())
            .unwrap_or(found)
    }

    /// [`SymbolFile::lookup`] for many addresses, in the order given; each
    /// distinct one is looked up once, in parallel.
    pub fn lookup_many(&self, addresses: &[Svma], detail: Detail) -> Vec<Lookup> {
        let found = match (self.part_first(), self.disk()) {
            (None, Some(disk)) => {
                let all = disk.lookup_many(addresses, detail).into_iter();
                let with_part = all.zip(addresses);
                with_part
                    .map(|(found, &svma)| self.or_part(svma, detail, found))
                    .collect()
            }
            // What was embedded is found at once.
            _ => {
                let one = |&svma: &Svma| self.lookup(svma, detail);
                return addresses.iter().map(one).collect();
            }
        };
        if let Some(notes) = &self.notes {
            notes.answers(detail, addresses.iter().map(|svma| svma.0).zip(&found));
        }
        found
    }

    /// The source lines of `start..end`, by address; none without debug
    /// information.
    pub fn line_rows(&self, start: Svma, end: Svma) -> Vec<LineRow> {
        let of_disk = self.disk().map(|disk| disk.line_rows(start, end));
        let rows = match of_disk.filter(|rows| !rows.is_empty() && self.part_first().is_none()) {
            Some(rows) => rows,
            None => {
                let part = self.part();
                part.and_then(|part| part.line_rows(start, end))
                    .unwrap_or_default()
            }
        };
        if let Some(notes) = &self.notes {
            notes.rows((start, end), &rows);
        }
        rows
    }

    /// All symbols by address, as perf would show them; none without a file.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> {
        self.disk().into_iter().flat_map(FileOnDisk::symbols)
    }

    /// The last symbol that starts at or before an address, even if it ends
    /// long before it.
    pub fn symbol_before(&self, svma: Svma) -> Option<Symbol> {
        let of_part = || self.part()?.lookup(svma.0, Detail::Symbol)?.symbol;
        let of_disk = || self.disk()?.symbol_before(svma);
        let found = match self.part_first() {
            Some(_) => of_part().or_else(of_disk),
            None => of_disk().or_else(of_part),
        };
        if let (Some(notes), Some(symbol)) = (&self.notes, &found) {
            let found = Lookup::of_symbol(symbol.clone());
            notes.answers(Detail::Symbol, [(svma.0, &found)]);
        }
        found
    }

    /// The address of the symbol with this name, as in the symbol table.
    pub fn address_of(&self, name: &str) -> Option<Svma> {
        self.disk()?.address_of(name)
    }

    /// Instruction bytes from an address on, up to `length` of them; `None`
    /// if the file does not load that address.
    pub fn text_bytes(&self, start: Svma, length: u64) -> Option<&[u8]> {
        let of_part = || self.part()?.text_bytes(start.0, length);
        let of_disk = || self.disk()?.text_bytes(start, length);
        let bytes = match self.part_first() {
            Some(_) => of_part().or_else(of_disk),
            None => of_disk().or_else(of_part),
        };
        if let Some(notes) = &self.notes {
            notes.code(start.0, bytes);
        }
        bytes
    }

    /// Whether the file is for 64-bit processes.
    pub fn is_64_bit(&self) -> bool {
        match (self.disk(), self.part()) {
            (Some(disk), _) => disk.is_64_bit(),
            (None, part) => part.is_some_and(|part| part.is_64_bit),
        }
    }
}
