//! Names and lines of Go code, from the function table that Go programs have
//! even when they are stripped.

use crate::answers::{Detail, SourceFrame};
use crate::dwarf::Source;
use crate::elf::Image;
use object::elf;
use prof_pclntab::{FunctionIn, InlineTrees, Loaded, Table};
use prof_profile::Svma;

/// Sections that hold the table.
const TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Sections that only Go programs have.
const MARKS: [&str; 2] = [".go.buildinfo", ".note.go.buildid"];

impl Loaded for Image {
    fn read(&self, svma: u64, out: &mut [u8]) -> usize {
        let there = self.bytes_at(Svma(svma), out.len() as u64);
        let there = there.unwrap_or_default();
        if let Some(out) = out.get_mut(..there.len()) {
            out.copy_from_slice(there);
        }
        there.len()
    }
}

/// A program's function table.
#[derive(Debug)]
pub(crate) struct GoNames {
    table: Table,
    inlined: Option<InlineTrees>,
}

impl GoNames {
    /// Finds the table of a file; `None` if it is no Go program.
    pub(crate) fn load(image: &Image) -> Option<Self> {
        let text = image.section(".text").map(|section| section.address);
        let told = TABLES.iter().find_map(|name| image.section(name));
        let may_be_hidden =
            image.sections.is_empty() || MARKS.iter().any(|name| image.section(name).is_some());
        let table = match told {
            Some(section) => Table::open(image, section.address, text),
            None if may_be_hidden => prof_pclntab::find(image, loaded(image), text),
            None => None,
        }?;
        let inlined = InlineTrees::find(&table, image, loaded(image));
        Some(Self { table, inlined })
    }

    /// The function at an address with what was inlined there.
    pub(crate) fn find(&self, image: &Image, svma: Svma, detail: Detail) -> Option<Source> {
        let function = self.table.function(image, svma.0)?;
        let inlined = self.inlined.filter(|_| detail != Detail::Symbol);
        let found = FunctionIn {
            table: &self.table,
            file: image,
            function: &function,
        }
        .frames(inlined, svma.0)?;
        let outer = found.len() - 1;
        let with_lines = detail == Detail::Source;
        let frame = |(number, found): (usize, prof_pclntab::SourceFrame)| SourceFrame {
            name: found.name.into(),
            file: found.file.filter(|_| with_lines).map(Into::into),
            line: if with_lines { found.line } else { 0 },
            is_inline: number < outer,
            defined_at: None,
        };
        Some(Source {
            frames: found.into_iter().enumerate().map(frame).collect(),
            function: Some((Svma(function.start), function.end - function.start)),
        })
    }
}

fn loaded(image: &Image) -> impl Iterator<Item = (u64, u64)> {
    let segments = image.segments.iter();
    segments
        .filter(|segment| segment.kind == elf::PT_LOAD && !segment.is_executable)
        .map(|segment| {
            let end = segment.address.saturating_add(segment.file_size);
            (segment.address, end)
        })
}
