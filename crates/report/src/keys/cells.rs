//! Columns of a table: headings, widths and what is in a cell. Text, CSV and
//! JSON take them from here; what is fixed of a key stands in its table
//! ([`SortKey`]).

use super::{DetailKey, Shown, SortKey, comm_without_numbers, refused_key};
use crate::escape;
use crate::model::{Group, Row, RowKey, Rows, Scene, Site, SiteKind, Weight};
use crate::text::name_within;
use prof_abi::CpuMode;
use prof_profile::{Detail, DsoKind, FileOffset, UnnamedReason};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::fmt::Write;
use std::str::FromStr;
use thiserror::Error;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Share of the samples with it in the stack.
    Children,
    /// Share of the samples taken in it.
    Overhead,
    /// The kernel's part of `Overhead`.
    OverheadSys,
    /// The user's part of `Overhead`.
    OverheadUs,
    /// Samples taken in it.
    Samples,
    /// Their periods' sum.
    Period,
    /// A part of the row's identity.
    Key(SortKey),
}

/// A word that names no column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldError {
    /// No column has this name.
    #[error("unknown field {given:?}; known are {known}")]
    Unknown {
        /// What was given.
        given: String,
        /// All fields, separated by commas.
        known: String,
    },
    /// It is perf's, but not here.
    #[error("prof does not have perf's {given:?}: {why}")]
    Refused {
        /// What was given.
        given: String,
        /// Why, and what to do instead.
        why: &'static str,
    },
}

/// Columns as typed: separated by commas; after a `+` they are added to the
/// usual ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldList {
    /// The columns.
    pub fields: Vec<Field>,
    /// Whether they are added to the usual ones.
    pub is_added: bool,
    /// As typed, without the `+`.
    pub text: String,
}

impl FromStr for FieldList {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let words = text.strip_prefix('+');
        let fields = words.unwrap_or(text).split(',').map(str::parse);
        Ok(Self {
            fields: fields.collect::<Result<_, _>>()?,
            is_added: words.is_some(),
            text: words.unwrap_or(text).to_owned(),
        })
    }
}

const WEIGHT_FIELDS: [(&str, Field); 6] = [
    ("overhead", Field::Overhead),
    ("overhead_sys", Field::OverheadSys),
    ("overhead_us", Field::OverheadUs),
    ("overhead_children", Field::Children),
    ("sample", Field::Samples),
    ("period", Field::Period),
];

impl FromStr for Field {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let lower = text.to_lowercase();
        if let Some(why) = refused_key(&lower) {
            let given = lower;
            return Err(FieldError::Refused { given, why });
        }
        let weight = WEIGHT_FIELDS
            .iter()
            .find(|(name, _)| *name == lower || (!lower.is_empty() && name.starts_with(&lower)));
        let key = || SortKey::from_str(&lower).map(Field::Key);
        // Sort keys first, as a beginning such as `p` or `s` means `pid`, `symbol`.
        key().or_else(|error| {
            weight
                .map(|&(_, field)| field)
                .ok_or_else(|| FieldError::Unknown {
                    given: text.to_owned(),
                    known: format!(
                        "{}, {}",
                        WEIGHT_FIELDS.map(|(name, _)| name).join(", "),
                        error.known
                    ),
                })
        })
    }
}

impl Field {
    /// As typed after `-F`.
    pub fn name(self) -> &'static str {
        if let Self::Key(key) = self {
            return key.name();
        }
        WEIGHT_FIELDS
            .iter()
            .find(|(_, field)| *field == self)
            .map_or("", |(name, _)| name)
    }

    /// Its heading; beside a `Children` column, overhead is called `Self`.
    pub fn heading(self, beside_children: bool) -> &'static str {
        match self {
            Self::Children => "Children",
            Self::Overhead if beside_children => "Self",
            Self::Overhead => "Overhead",
            Self::OverheadSys => "sys",
            Self::OverheadUs => "usr",
            Self::Samples => "Samples",
            Self::Period => "Period",
            Self::Key(key) => key.heading(),
        }
    }

    /// Whether its cells are numbers, flushed right.
    pub fn is_weight(self) -> bool {
        !matches!(self, Self::Key(_))
    }

    /// Width in characters if it does not depend on the cells.
    pub fn fixed_width(self) -> Option<usize> {
        // perf lets CPU numbers of more digits stand out.
        (self == Self::Key(SortKey::Cpu)).then_some(3)
    }

    /// Least width in characters.
    pub fn least_width(self) -> usize {
        match self {
            Self::Children | Self::Overhead | Self::OverheadSys | Self::OverheadUs => 8,
            Self::Samples | Self::Period => 12,
            Self::Key(key) => key.least_width(),
        }
    }

    /// The weight shown in a row.
    pub fn weight(self, row: &Row) -> Option<Weight> {
        match self {
            Self::Children => Some(row.total),
            Self::Overhead | Self::Samples | Self::Period => Some(row.own),
            Self::OverheadSys => Some(row.own_kernel),
            Self::OverheadUs => Some(row.own.without(row.own_kernel)),
            Self::Key(_) => None,
        }
    }
}

/// Stands behind the names of inlined functions.
const INLINED: &str = " (inlined)";

/// How much cells tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellLook {
    /// Times to the nanosecond, else to the microsecond.
    pub nanoseconds: bool,
    /// Source files with their paths, else only their names.
    pub full_paths: bool,
    /// Modules with their paths; before a symbol the address at which it was
    /// first seen and the letter of where its name is from.
    pub verbose: bool,
}

/// Cells of the key columns.
pub struct Cells<'a> {
    scene: &'a Scene<'a>,
    rows: &'a Rows,
    look: CellLook,
    places: Option<&'a FxHashMap<RowKey, FileOffset>>,
}

impl<'a> Cells<'a> {
    /// Cells of tables of this scene.
    pub fn new(scene: &'a Scene<'a>, rows: &'a Rows) -> Self {
        Self {
            scene,
            rows,
            look: CellLook::default(),
            places: None,
        }
    }

    /// The same that look otherwise.
    #[must_use]
    pub fn with(self, look: CellLook) -> Self {
        Self { look, ..self }
    }

    /// The same with the places where rows were first seen.
    pub(crate) fn at(self, places: &'a FxHashMap<RowKey, FileOffset>) -> Self {
        Self {
            places: Some(places),
            ..self
        }
    }

    /// What a key column shows for a row, safe for a terminal.
    pub fn text(&self, key: SortKey, row: &Row) -> String {
        let mut text = String::new();
        self.write(key, row, &mut text);
        text
    }

    /// The same for a program: not escaped, without the letter of the mode.
    pub(crate) fn plain(&self, key: SortKey, row: &Row) -> String {
        let profile = self.scene.profile();
        let site = row.site.map(|site| self.scene.sites().get(site));
        match (key, site) {
            (SortKey::Comm, _) => {
                let comm = self.rows.group(row).comm;
                comm.map_or("", |comm| profile.name(comm)).to_owned()
            }
            (SortKey::CommNodigit, _) => self.comm_without_numbers(row),
            (SortKey::Dso, Some(site)) => profile.name(profile.dso(site.dso).short_name).to_owned(),
            (SortKey::Symbol, Some(site)) => site.name(profile).to_owned(),
            _ => self.text(key, row).trim().to_owned(),
        }
    }

    /// Its width in characters.
    pub(crate) fn width(&self, key: SortKey, row: &Row) -> usize {
        if key == SortKey::Symbol && self.is_address(row) {
            return self.width_of_origin() + "[.] 0x".len() + 16;
        }
        let site = row.site.map(|site| self.scene.sites().get(site));
        let profile = self.scene.profile();
        match (key, site) {
            // The most common ones without making the text.
            (SortKey::Comm, _) => {
                let comm = self.rows.group(row).comm;
                let comm = comm.map_or("", |comm| profile.name(comm));
                char_count(&escape::terminal(comm))
            }
            (SortKey::Dso, _) => char_count(&self.dso(site)),
            // perf lets the mark of inlined functions stand out.
            (SortKey::Symbol, Some(site)) => {
                let name = char_count(&escape::terminal(site.name(profile)));
                self.width_of_origin() + "[.] ".len() + name
            }
            (SortKey::Detail(key), _) => {
                let text = char_count(&self.text(SortKey::Detail(key), row));
                let detail = self.detail(row);
                let shown = self.shown(row);
                let width = |detail| key.width(profile, detail, shown, text);
                detail.map_or(text, width)
            }
            _ => char_count(&self.text(key, row)),
        }
    }

    fn detail(&self, row: &Row) -> Option<&Detail> {
        self.scene.profile().samples.detail(row.first as usize)
    }

    /// What cells of records need to know of a row.
    fn shown(&self, row: &Row) -> Shown {
        let profile = self.scene.profile();
        let first = profile.samples.get(row.first as usize);
        let leaf = first.and_then(|first| profile.stacks.get(first.stack));
        Shown {
            samples: row.own.samples,
            level: self
                .detail(row)
                .map_or('.', |detail| letter_of_mode(detail.mode)),
            leaf: leaf.map(|(_, leaf)| leaf),
            full_paths: self.look.full_paths,
        }
    }

    /// What the record of the row's first sample tells; all have it in common.
    fn write_detail(&self, key: DetailKey, row: &Row, out: &mut String) {
        let profile = self.scene.profile();
        let Some(detail) = self.detail(row) else {
            return;
        };
        let shown = self.shown(row);
        let mut text = String::new();
        key.write(profile, detail, shown, &mut text);
        out.push_str(&escape::terminal(&text));
    }

    /// Rows with the same number here have the same cell, where many rows
    /// share few cells.
    pub(crate) fn shared(&self, key: SortKey, row: &Row) -> Option<u32> {
        let dso = |site| self.scene.sites().get(site).dso.0;
        match key {
            SortKey::Comm => Some(row.key.group.0),
            SortKey::Dso => Some(row.site.map_or(u32::MAX, dso)),
            _ => None,
        }
    }

    /// What is written behind the name of the row's symbol, whatever the
    /// width of its column.
    pub(crate) fn mark(&self, key: SortKey, row: &Row) -> &'static str {
        let site = row.site.map(|site| self.scene.sites().get(site));
        let is_inline = site.is_some_and(|site| site.kind == SiteKind::Inline);
        if key == SortKey::Symbol && is_inline {
            INLINED
        } else {
            ""
        }
    }

    /// Writes what [`Cells::text`] gives.
    pub(crate) fn write(&self, key: SortKey, row: &Row, out: &mut String) {
        let site = row.site.map(|site| self.scene.sites().get(site));
        let group = self.rows.group(row);
        let profile = self.scene.profile();
        match key {
            SortKey::Comm => {
                let comm = group.comm.map_or("", |comm| profile.name(comm));
                out.push_str(&escape::terminal(comm));
            }
            SortKey::CommNodigit => {
                out.push_str(&escape::terminal(&self.comm_without_numbers(row)));
            }
            SortKey::Pid | SortKey::Tid => out.push_str(&self.thread(&group)),
            SortKey::Tgid => out.push_str(&self.process(&group)),
            SortKey::Dso => out.push_str(&self.dso(site)),
            SortKey::Symbol => {
                if self.look.verbose {
                    self.origin(row, site, out);
                }
                self.symbol(site, None, out);
            }
            SortKey::Srcline => {
                out.push_str(&srcline(self.scene, site, self.look.full_paths));
            }
            SortKey::Srcfile => out.push_str(&self.srcfile(site)),
            SortKey::Cpu => match group.cpu.flatten() {
                Some(cpu) => {
                    let _ = write!(out, "{cpu:03}");
                }
                None => out.push_str("-001"),
            },
            SortKey::Parent => match group.parent.flatten() {
                Some(name) => out.push_str(&escape::terminal(profile.name(name))),
                None => out.push_str("[other]"),
            },
            SortKey::Time => out.push_str(&self.time(group.time.unwrap_or(0))),
            SortKey::Event => {
                let name = self.scene.event().map_or("", |event| event.name.as_str());
                out.push_str(&escape::terminal(name));
            }
            SortKey::SymbolSize => {
                let width = SortKey::SymbolSize.heading().len();
                let size = site.and_then(|site| site.size(profile));
                let size = size.map_or_else(|| "unknown".to_owned(), |size| size.to_string());
                let _ = write!(out, "{size:>width$}");
            }
            SortKey::Detail(key) => self.write_detail(key, row, out),
        }
    }

    /// The name a thread had last, also if it took no sample under it. Of a
    /// process whose first thread no record tells of, that of another.
    fn last_comm(&self, tid: i32) -> Cow<'_, str> {
        let profile = self.scene.profile();
        let known = profile.thread(tid).map(|thread| thread.comm);
        let sampled = |of: fn(&prof_profile::Task) -> i32| {
            let mut tasks = profile.tasks.iter().rev();
            tasks.find(|&task| of(task) == tid).map(|task| task.comm)
        };
        let comm = known
            .or_else(|| sampled(|task| task.tid))
            .or_else(|| sampled(|task| task.pid));
        escape::terminal(comm.map_or("", |comm| profile.name(comm)))
    }

    /// As perf, names the thread of the row's first sample.
    fn comm_without_numbers(&self, row: &Row) -> String {
        let profile = self.scene.profile();
        let first = profile.samples.get(row.first as usize);
        let comm = first.map(|sample| profile.task(sample.task).comm);
        let comm = comm.or(self.rows.group(row).comm_nodigit);
        comm_without_numbers(comm.map_or("", |comm| profile.name(comm)))
    }

    fn thread(&self, group: &Group) -> String {
        let tid = group.tid.unwrap_or(-1);
        format!("{tid:7}:{:<7}", self.last_comm(tid))
    }

    fn process(&self, group: &Group) -> String {
        let pid = group.pid.unwrap_or(-1);
        format!("{pid:7}:{:<7}", self.last_comm(pid))
    }

    fn dso(&self, site: Option<&Site>) -> Cow<'_, str> {
        let profile = self.scene.profile();
        match site.map(|site| profile.dso(site.dso)) {
            Some(dso) if dso.kind != DsoKind::Unknown => {
                let name = if self.look.verbose {
                    dso.path
                } else {
                    dso.short_name
                };
                escape::terminal(profile.name(name))
            }
            _ => Cow::Borrowed("[unknown]"),
        }
    }

    /// Whether the row's symbol is only an address.
    pub fn is_unnamed(&self, row: &Row) -> bool {
        let site = row.site.map(|site| self.scene.sites().get(site));
        site.is_none_or(|site| {
            let function = site.function(self.scene.profile());
            function.unnamed.is_some() && site.kind != SiteKind::Dso
        })
    }

    /// Whether an address stands for the row's symbol: not where the function
    /// is known that has no name.
    pub(crate) fn is_address(&self, row: &Row) -> bool {
        let site = row.site.map(|site| self.scene.sites().get(site));
        site.is_none_or(|site| site.is_bare(self.scene.profile()))
    }

    /// Whether a caller of the row's samples matches the pattern for parents.
    pub(crate) fn has_parent(&self, row: &Row) -> bool {
        self.rows.group(row).parent.flatten().is_some()
    }

    /// Whether the row's symbol has `part` in its name; without one, always.
    pub(crate) fn is_named(&self, row: &Row, part: Option<&str>) -> bool {
        let Some(part) = part else {
            return true;
        };
        let site = row.site.map(|site| self.scene.sites().get(site));
        !self.is_unnamed(row)
            && site.is_some_and(|site| site.name(self.scene.profile()).contains(part))
    }

    /// Columns of what [`Cells::origin`] writes.
    fn width_of_origin(&self) -> usize {
        if self.look.verbose {
            ADDRESS_WIDTH + " k ".len()
        } else {
            0
        }
    }

    /// Address and letter of where the name is from.
    fn origin(&self, row: &Row, site: Option<&Site>, out: &mut String) {
        let place = self.places.and_then(|places| places.get(&row.key));
        let place = place.map_or(0, |place| place.0);
        let address = match place {
            0 => "0".to_owned(),
            _ => format!("{place:#x}"),
        };
        let letter = origin(self.scene, site);
        let _ = write!(out, "{address:<ADDRESS_WIDTH$} {letter} ");
    }

    /// Writes what [`Cells::text`] gives of a row's symbol; its name is
    /// shortened if the cell would be longer than `width` characters.
    pub(crate) fn write_symbol(&self, row: &Row, width: usize, out: &mut String) {
        let site = row.site.map(|site| self.scene.sites().get(site));
        if self.look.verbose {
            self.origin(row, site, out);
        }
        let mark = self.mark(SortKey::Symbol, row).len();
        let room = width.saturating_sub(self.width_of_origin() + "[.] ".len() + mark);
        self.symbol(site, Some(room), out);
    }

    /// The letter of the mode, and the function's name, in `room` characters
    /// if it can be so short, or its address if it has none.
    fn symbol(&self, site: Option<&Site>, room: Option<usize>, out: &mut String) {
        out.push('[');
        out.push(level(self.scene, site));
        out.push_str("] ");
        let Some(site) = site else {
            return push_address(0, out);
        };
        let profile = self.scene.profile();
        let function = profile.function(site.function);
        if site.is_bare(profile) {
            return push_address(function.start.0, out);
        }
        out.push_str(&name_within(site.name(profile), room));
        if site.kind == SiteKind::Inline {
            out.push_str(INLINED);
        }
    }

    fn srcfile(&self, site: Option<&Site>) -> String {
        let profile = self.scene.profile();
        let path = site
            .and_then(|site| site.line)
            .map_or("", |(file, _)| profile.name(file));
        escape::terminal(shortened(path, self.look.full_paths)).into_owned()
    }

    /// Seconds and the digits behind them.
    fn time(&self, ns: u64) -> String {
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        if self.look.nanoseconds {
            format!("{seconds}.{rest:09}")
        } else {
            format!("{seconds}.{:06}", rest / 1000)
        }
    }
}

/// Characters of a text, fast for ASCII.
pub(crate) fn char_count(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// The path, or only its last part.
pub(crate) fn shortened(path: &str, is_full: bool) -> &str {
    if is_full {
        return path;
    }
    path.rsplit('/').next().unwrap_or(path)
}

/// `file:line`; without one, `symbol+offset` or `module[address]`.
pub(crate) fn srcline(scene: &Scene<'_>, site: Option<&Site>, full_paths: bool) -> String {
    let profile = scene.profile();
    let Some(site) = site else {
        return "??:0".into();
    };
    if let Some((file, line)) = site.line {
        let path = shortened(profile.name(file), full_paths);
        return format!("{}:{line}", escape::terminal(path));
    }
    let function = profile.function(site.function);
    let dso = profile.dso(site.dso);
    // The start of what is only an address is that address, in its file.
    let own = site.address.filter(|_| !site.is_bare(profile));
    let at = own.unwrap_or(function.start);
    if function.unnamed.is_none() {
        let offset = at.0.wrapping_sub(function.start.0);
        return format!("{}+{offset}", escape::terminal(site.name(profile)));
    }
    if dso.kind == DsoKind::Unknown {
        return "??:0".into();
    }
    let name = profile.name(dso.short_name);
    format!("{}[{:x}]", escape::terminal(name), at)
}

/// Digits of the widest address, and its `0x`.
const ADDRESS_WIDTH: usize = 18;

/// perf's letter for the file that a module's names are from; `!` for none.
fn origin(scene: &Scene<'_>, site: Option<&Site>) -> char {
    let Some(site) = site else {
        return '!';
    };
    let profile = scene.profile();
    let dso = profile.dso(site.dso);
    let unnamed = site.function(profile).unnamed;
    if dso.kind == DsoKind::Unknown
        || unnamed.is_some_and(|reason| {
            let is_read = [UnnamedReason::NoSymbolThere, UnnamedReason::NotInPerfMap];
            !is_read.contains(&reason)
        })
    {
        return '!';
    }
    let from = dso.symbols_from.map(|from| profile.name(from));
    match dso.kind {
        DsoKind::Jit => 'j',
        DsoKind::GuestKernel => 'g',
        DsoKind::Kernel | DsoKind::KernelSymbol => {
            if from.is_some_and(|from| !from.ends_with("kallsyms")) {
                'v'
            } else {
                'k'
            }
        }
        DsoKind::KernelModule if from.is_none() => 'k',
        DsoKind::KernelModule => 'K',
        _ => from.map_or('d', |from| letter_of_file(profile.name(dso.path), from)),
    }
}

/// The letter of a file that names are from instead of the mapped one.
fn letter_of_file(path: &str, from: &str) -> char {
    let last = from.rsplit('/').next().unwrap_or(from);
    if from.contains("/.build-id/") {
        return match last {
            "debug" => 'D',
            "elf" | "vdso" => 'B',
            _ => 'b',
        };
    }
    // Below a directory for debug files at the path of the file itself.
    match from.strip_suffix(".debug") {
        Some(stem) if stem.ends_with(path) => 'f',
        None if from.ends_with(path) => 'u',
        _ => 'l',
    }
}

/// The letter of the mode a frame ran in.
fn level(scene: &Scene<'_>, site: Option<&Site>) -> char {
    let mode = site.map(|site| site.function(scene.profile()).mode);
    mode.map_or('.', letter_of_mode)
}

/// The letter of a mode.
pub(crate) fn letter_of_mode(mode: CpuMode) -> char {
    match mode {
        CpuMode::Kernel => 'k',
        CpuMode::Hypervisor => 'H',
        CpuMode::GuestKernel => 'g',
        CpuMode::GuestUser => 'u',
        CpuMode::User | CpuMode::Unknown => '.',
    }
}

/// As perf's `%#.16x`: no `0x` before zero.
fn push_address(address: u64, out: &mut String) {
    if address != 0 {
        out.push_str("0x");
    }
    // Broken stacks bring hundreds of thousands of these; formatting with a
    // width costs several times as much.
    let digits = (0..16).rev().map(|place| (address >> (4 * place)) & 0xf);
    out.extend(digits.filter_map(|digit| char::from_digit(digit as u32, 16)));
}

#[cfg(test)]
mod tests {
    use super::{Field, push_address};
    use crate::keys::SortKey;

    #[test]
    fn fields_are_found_by_perfs_names() {
        assert_eq!("overhead".parse(), Ok(Field::Overhead));
        assert_eq!("overhead_ch".parse(), Ok(Field::Children));
        assert_eq!("sym".parse(), Ok(Field::Key(SortKey::Symbol)));
        assert_eq!("sample".parse(), Ok(Field::Samples));
        assert!("bogus".parse::<Field>().is_err());
    }

    #[test]
    fn an_unnamed_address_is_written_as_perf_does() {
        let mut out = String::new();
        push_address(0, &mut out);
        out.push(' ');
        push_address(0x10, &mut out);
        assert_eq!(out, "0000000000000000 0x0000000000000010");
    }
}
