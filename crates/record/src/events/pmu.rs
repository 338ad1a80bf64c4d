//! Events of a PMU by its terms: `pmu/term=value,…/`, from sysfs.

use super::{EventError, EventSpec};
use prof_abi::EventAttr;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/bus/event_source/devices";

/// A PMU of sysfs.
#[derive(Debug)]
pub(super) struct Pmu {
    directory: PathBuf,
    kind: u32,
}

/// Which word of the attr a format's bits are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Config,
    Config1,
    Config2,
    Config3,
    Config4,
}

/// A term's place: bits of one word, first to last, the lowest bit of a value
/// first (`config1:1,6-10,44`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Format {
    word: Word,
    bits: Vec<u32>,
}

impl Format {
    fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = match word {
            "config" => Word::Config,
            "config1" => Word::Config1,
            "config2" => Word::Config2,
            "config3" => Word::Config3,
            "config4" => Word::Config4,
            _ => return None,
        };
        let mut bits = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if last > 63 {
                return None;
            }
            bits.extend(first..=last);
        }
        Some(Self { word, bits })
    }

    /// Puts `value` into its bits; `None` if it has more.
    fn put(&self, value: u64, attr: &mut EventAttr) -> Option<()> {
        if self.bits.len() < 64 && value >> self.bits.len() != 0 {
            return None;
        }
        let word = match self.word {
            Word::Config => &mut attr.config,
            Word::Config1 => &mut attr.config1,
            Word::Config2 => &mut attr.config2,
            Word::Config3 => &mut attr.config3,
            Word::Config4 => &mut attr.config4,
        };
        for (index, bit) in self.bits.iter().enumerate() {
            *word = *word & !(1 << bit) | (value >> index & 1) << bit;
        }
        Some(())
    }
}

impl Pmu {
    /// The PMU of that name; an error lists those that there are.
    pub(super) fn open(name: &str, event: &str) -> Result<Self, EventError> {
        Self::open_in(Path::new(ROOT), name, event)
    }

    fn open_in(root: &Path, name: &str, event: &str) -> Result<Self, EventError> {
        let directory = root.join(name);
        let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        let kind = plain
            .then(|| fs::read_to_string(directory.join("type")).ok())
            .flatten()
            .and_then(|text| text.trim().parse().ok());
        match kind {
            Some(kind) => Ok(Self { directory, kind }),
            None => Err(EventError::Pmu {
                event: event.to_owned(),
                pmu: name.to_owned(),
                known: entries(root),
            }),
        }
    }

    /// The type for `perf_event_attr`.
    pub(super) fn kind(&self) -> u32 {
        self.kind
    }

    /// Puts a value into a term's bits; `None` if there is no such term, or it
    /// has fewer bits.
    pub(super) fn put(&self, term: &str, value: u64, attr: &mut EventAttr) -> Option<()> {
        self.format(term)?.put(value, attr)
    }

    /// Applies `name` or `name=value`: a term of its format directory, or an
    /// event of its events directory, which is a list of terms.
    pub(super) fn apply(
        &self,
        name: &str,
        value: Option<&str>,
        spec: &mut EventSpec,
    ) -> Result<(), EventError> {
        if let Some(format) = self.format(name) {
            return put(&format, name, value, spec);
        }
        if value.is_none()
            && let Some(terms) = self.text("events", name)
        {
            for term in terms.trim().split(',') {
                let (name, value) = split_term(term);
                let format = self.format(name).ok_or_else(|| self.unknown(name, spec))?;
                put(&format, name, value, spec)?;
            }
            return Ok(());
        }
        Err(self.unknown(name, spec))
    }

    fn format(&self, name: &str) -> Option<Format> {
        Format::parse(&self.text("format", name)?)
    }

    fn text(&self, folder: &str, name: &str) -> Option<String> {
        let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        plain
            .then(|| fs::read_to_string(self.directory.join(folder).join(name)).ok())
            .flatten()
    }

    fn unknown(&self, term: &str, spec: &EventSpec) -> EventError {
        let mut known = entries(&self.directory.join("format"));
        known.extend(
            entries(&self.directory.join("events"))
                .into_iter()
                .filter(|name| !name.contains('.')),
        );
        EventError::Term {
            event: spec.name.clone(),
            term: term.to_owned(),
            known,
        }
    }
}

fn put(
    format: &Format,
    name: &str,
    value: Option<&str>,
    spec: &mut EventSpec,
) -> Result<(), EventError> {
    let wrong = |spec: &EventSpec| EventError::Number {
        event: spec.name.clone(),
        value: value.unwrap_or("1").to_owned(),
        place: format!("{name} ({} bits)", format.bits.len()),
    };
    let number = match value {
        None => 1,
        Some(text) => parse_number(text).ok_or_else(|| wrong(spec))?,
    };
    format
        .put(number, &mut spec.attr)
        .ok_or_else(|| wrong(spec))
}

/// `name` or `name=value`.
pub(super) fn split_term(term: &str) -> (&str, Option<&str>) {
    match term.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (term.trim(), None),
    }
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::{EventSpec, Format, Pmu, Word};
    use crate::events::EventError;
    use prof_abi::EventAttr;
    use std::fs;

    #[test]
    fn sfs_04_split_ranges_take_the_lowest_bits_first() {
        let format = Format::parse("config1:1,6-10,44\n").expect("a format");
        assert_eq!((format.word, format.bits.len()), (Word::Config1, 7));
        let mut attr = EventAttr::default();
        format.put(0b100_0011, &mut attr).expect("7 bits");
        assert_eq!(attr.config1, 1 << 1 | 1 << 6 | 1 << 44);
        assert!(format.put(128, &mut attr).is_none());
        assert!(Format::parse("config:0-64").is_none());
        assert!(Format::parse("config9:0").is_none());
    }

    #[test]
    fn sfs_05_named_events_are_lists_of_terms() {
        let root = tempfile::tempdir().expect("directory");
        let pmu = root.path().join("cpu");
        fs::create_dir_all(pmu.join("format")).expect("made");
        fs::create_dir_all(pmu.join("events")).expect("made");
        fs::write(pmu.join("type"), "4\n").expect("written");
        fs::write(pmu.join("format/event"), "config:0-7\n").expect("written");
        fs::write(pmu.join("format/umask"), "config:8-15\n").expect("written");
        fs::write(pmu.join("events/loads"), "event=0xd0,umask=0x81\n").expect("written");
        let cpu = Pmu::open_in(root.path(), "cpu", "cpu/loads/").expect("there");
        assert_eq!(cpu.kind(), 4);
        let mut spec = EventSpec::new("cpu/loads/", EventAttr::default());
        cpu.apply("loads", None, &mut spec).expect("an event");
        assert_eq!(spec.attr.config, 0x81d0);
        cpu.apply("umask", Some("0x1"), &mut spec).expect("a term");
        assert_eq!(spec.attr.config, 0x01d0);
        let error = cpu
            .apply("umask", Some("256"), &mut spec)
            .expect_err("9 bits");
        assert!(error.to_string().contains("8 bits"), "{error}");
        let error = cpu.apply("nothing", None, &mut spec).expect_err("unknown");
        assert!(error.to_string().contains("event, umask, loads"), "{error}");
        assert!(matches!(
            Pmu::open_in(root.path(), "../cpu", "x"),
            Err(EventError::Pmu { .. })
        ));
    }
}
