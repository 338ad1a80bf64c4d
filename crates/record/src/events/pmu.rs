//! Events of a PMU by its terms: `pmu/term=value,…/`, from sysfs.

use super::error::EventError;
use super::spec::{EventSpec, Rate};
use super::tracer::{Tracer, usual_pt_terms};
use crate::cpu_list::parse_cpu_list;
use prof_abi::{EventAttr, event_kind};
use std::fs;
use std::path::{Path, PathBuf};

/// Where sysfs has the PMUs. `SYSFS_PATH` names another tree, as for perf.
pub(crate) fn devices() -> PathBuf {
    let sysfs = std::env::var_os("SYSFS_PATH").unwrap_or_else(|| "/sys".into());
    Path::new(&sysfs).join("bus/event_source/devices")
}

/// A PMU of sysfs.
#[derive(Debug)]
pub(crate) struct Pmu {
    name: String,
    directory: PathBuf,
    kind: u32,
}

/// The PMUs of cores, if the machine has several kinds; each is of some of its
/// CPUs.
pub(super) fn kinds_of_cores() -> Vec<Pmu> {
    let all = Pmu::all_in(&devices()).into_iter();
    let mut cores: Vec<Pmu> = all
        .filter(|pmu| pmu.directory.join("cpus").exists())
        .collect();
    cores.sort_by_key(|pmu| pmu.kind);
    if cores.len() < 2 { Vec::new() } else { cores }
}

/// Whether the PMU of this type filters by address (`nr_addr_filters`).
pub(super) fn filters_addresses(kind: u32) -> bool {
    let all = Pmu::all_in(&devices());
    let filters = |pmu: &Pmu| {
        let text = fs::read_to_string(pmu.directory.join("nr_addr_filters")).unwrap_or_default();
        text.trim().parse::<u32>().is_ok_and(|most| most > 0)
    };
    all.iter().any(|pmu| pmu.kind == kind && filters(pmu))
}

/// The PMU of this type.
pub(crate) fn of_kind(kind: u32) -> Option<Pmu> {
    let mut all = Pmu::all_in(&devices()).into_iter();
    all.find(|pmu| pmu.kind == kind)
}

/// The event that a PMU names so, by itself: `tsc` for `msr/tsc/`.
pub(super) fn of_event(name: &str) -> Option<Vec<EventSpec>> {
    let all = Pmu::all_in(&devices()).into_iter();
    let specs = all.filter_map(|pmu| {
        pmu.text("events", name)?;
        let mut spec = pmu.spec();
        spec.name = format!("{}/{name}/", pmu.name);
        pmu.apply(name, None, &mut spec).ok()?;
        Some(spec)
    });
    let mut specs: Vec<EventSpec> = specs.collect();
    if let [only] = specs.as_mut_slice() {
        name.clone_into(&mut only.name);
    }
    (!specs.is_empty() && !name.contains('.')).then_some(specs)
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

/// A term's place: bits of one word (`config1:1,6-10,44`). The lowest bit of a
/// value goes to the lowest of them, in whatever order the file names them, as
/// perf does it; one that is named twice is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Format {
    word: Word,
    mask: u64,
}

impl Format {
    /// What a file of a PMU's `format` folder says; an error says what is wrong
    /// with it.
    fn parse(text: &str) -> Result<Self, &'static str> {
        const NO_WORD: &str = "it is not config, config1, … config4, a colon and bits";
        let (word, ranges) = text.trim().split_once(':').ok_or(NO_WORD)?;
        let word = match word {
            "config" => Word::Config,
            "config1" => Word::Config1,
            "config2" => Word::Config2,
            "config3" => Word::Config3,
            "config4" => Word::Config4,
            _ => return Err(NO_WORD),
        };
        let mut mask = 0;
        for range in ranges.split(',') {
            mask |= bits_of_range(range)?;
        }
        Ok(Self { word, mask })
    }

    /// How many bits a value may have.
    fn bits(self) -> u32 {
        self.mask.count_ones()
    }

    /// Puts `value` into its bits; `None` if it has more.
    fn put(self, value: u64, attr: &mut EventAttr) -> Option<()> {
        let word = match self.word {
            Word::Config => &mut attr.config,
            Word::Config1 => &mut attr.config1,
            Word::Config2 => &mut attr.config2,
            Word::Config3 => &mut attr.config3,
            Word::Config4 => &mut attr.config4,
        };
        let (mut spread, mut rest) = (0, value);
        for bit in (0..64).filter(|bit| self.mask >> bit & 1 == 1) {
            spread |= (rest & 1) << bit;
            rest >>= 1;
        }
        if rest != 0 {
            return None;
        }
        *word = *word & !self.mask | spread;
        Some(())
    }
}

/// The bits of `FIRST-LAST` or of one number.
fn bits_of_range(range: &str) -> Result<u64, &'static str> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let bit = |text: &str| match text.parse::<u32>() {
        Ok(bit @ 0..=63) => Ok(bit),
        Ok(_) => Err("a word of an event has 64 bits, 0 to 63"),
        Err(_) => Err("bits are numbers or FIRST-LAST, with commas between them"),
    };
    let (first, last) = (bit(first)?, bit(last)?);
    if last < first {
        return Err("a range's last bit is below its first");
    }
    Ok(u64::MAX >> (63 - last) & u64::MAX << first)
}

impl Pmu {
    /// The PMU of that name; an error lists those that there are.
    pub(super) fn open(name: &str, event: &str) -> Result<Self, EventError> {
        Self::open_in(&devices(), name, event)
    }

    /// Every PMU, by name.
    fn all_in(root: &Path) -> Vec<Self> {
        let names = entries(root).into_iter();
        names
            .filter_map(|name| Self::open_in(root, &name, "").ok())
            .collect()
    }

    /// The PMU of that name, or those that it is a pattern of or that have a
    /// number behind it: `uncore_imc` for `uncore_imc_0`; an error lists those
    /// that there are.
    pub(super) fn all_of(name: &str, event: &str) -> Result<Vec<Self>, EventError> {
        let one = Self::open(name, event);
        let Err(error) = one else {
            return one.map(|pmu| vec![pmu]);
        };
        let is_one = |pmu: &Self| {
            let number = pmu
                .name
                .strip_prefix(name)
                .map(|rest| rest.trim_start_matches('_'));
            let numbered = number.is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            numbered
                || name.contains(['*', '?'])
                    && super::tracepoint::glob(name.as_bytes(), pmu.name.as_bytes())
        };
        let all: Vec<Self> = Self::all_in(&devices())
            .into_iter()
            .filter(is_one)
            .collect();
        if all.is_empty() { Err(error) } else { Ok(all) }
    }

    fn open_in(root: &Path, name: &str, event: &str) -> Result<Self, EventError> {
        let directory = root.join(name);
        let plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        let kind = plain
            .then(|| fs::read_to_string(directory.join("type")).ok())
            .flatten()
            .and_then(|text| text.trim().parse().ok());
        match kind {
            Some(kind) => Ok(Self {
                name: name.to_owned(),
                directory,
                kind,
            }),
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

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// An event of it, of which nothing more is said yet.
    pub(super) fn spec(&self) -> EventSpec {
        let attr = EventAttr {
            kind: self.kind,
            ..EventAttr::default()
        };
        let mut spec = EventSpec::new(self.name.as_str(), attr);
        spec.cpus = self.cpus();
        if let Some(tracer) = Tracer::of(&self.name) {
            self.set_tracer(tracer, &mut spec);
        }
        spec
    }

    fn set_tracer(&self, tracer: Tracer, spec: &mut EventSpec) {
        let file = |name: &str| fs::read_to_string(self.directory.join(name)).ok();
        spec.tracer = Some(tracer);
        let least = file("caps/min_interval").and_then(|text| text.trim().parse().ok());
        spec.rate = Some(Rate::Period(tracer.period(least)));
        if tracer == Tracer::IntelPt {
            for (term, value) in usual_pt_terms(file) {
                // Those that this PMU lacks are left out.
                let _ = self.put(term, value, &mut spec.attr);
            }
        }
    }

    /// The CPUs that it can be opened on for all tasks: one of each package for
    /// an uncore PMU (`cpumask`), those of its kind for a core's (`cpus`).
    /// `None`: all.
    fn cpus(&self) -> Option<Vec<u32>> {
        let read = |file: &str| fs::read_to_string(self.directory.join(file)).ok();
        parse_cpu_list(read("cpumask").or_else(|| read("cpus"))?.trim())
    }

    /// Whether it has the events that all cores have.
    pub(super) fn has_generalized(&self, attr: &EventAttr) -> bool {
        match attr.kind {
            event_kind::SOFTWARE => self.kind == event_kind::SOFTWARE,
            event_kind::HARDWARE | event_kind::CACHE | event_kind::RAW => {
                self.name == "cpu" || self.directory.join("cpus").exists()
            }
            _ => false,
        }
    }

    /// Whether sysfs has a term or an event of this name.
    pub(super) fn has_term(&self, name: &str) -> bool {
        self.text("format", name)
            .or_else(|| self.text("events", name))
            .is_some()
    }

    /// A generalized event on this kind of cores only, if there are several.
    pub(super) fn place(&self, mut spec: EventSpec) -> EventSpec {
        if !self.directory.join("cpus").exists() {
            return spec;
        }
        match spec.attr.kind {
            event_kind::RAW => spec.attr.kind = self.kind,
            event_kind::HARDWARE | event_kind::CACHE => {
                spec.attr.config |= u64::from(self.kind) << 32;
            }
            _ => {}
        }
        spec.cpus = self.cpus();
        spec
    }

    /// Puts a value into a term's bits; `None` if there is no such term, or it
    /// has fewer bits.
    pub(super) fn put(&self, term: &str, value: u64, attr: &mut EventAttr) -> Option<()> {
        self.format(term)?.ok()?.put(value, attr)
    }

    /// The bits of `config` that a term sets; 0 if there is none of that name.
    pub(crate) fn config_bits(&self, term: &str) -> u64 {
        match self.format(term) {
            Some(Ok(format)) if format.word == Word::Config => format.mask,
            _ => 0,
        }
    }

    /// A number in a file of its own.
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        text.trim().parse().ok()
    }

    /// Applies `name` or `name=value`: a term of its format directory, or an
    /// event of its events directory, which is a list of terms.
    pub(super) fn apply(
        &self,
        name: &str,
        value: Option<&str>,
        spec: &mut EventSpec,
    ) -> Result<(), EventError> {
        if let Some(format) = self.understood(name, spec)? {
            return put(format, name, value, spec);
        }
        if value.is_none()
            && let Some(terms) = self.event_terms(name)
        {
            for term in terms.trim().split(',') {
                let (name, value) = split_term(term);
                let format = self.understood(name, spec)?;
                let format = format.ok_or_else(|| self.unknown(name, spec))?;
                put(format, name, value, spec)?;
            }
            return Ok(());
        }
        Err(self.unknown(name, spec))
    }

    /// A term's place, or what is wrong with its file; `None` if there is no
    /// such term.
    fn format(&self, name: &str) -> Option<Result<Format, &'static str>> {
        Some(Format::parse(&self.text("format", name)?))
    }

    /// A term's place, with an error for the user where its file is not
    /// understood.
    fn understood(&self, name: &str, spec: &EventSpec) -> Result<Option<Format>, EventError> {
        self.format(name)
            .transpose()
            .map_err(|why| EventError::Format {
                event: spec.name.clone(),
                term: name.to_owned(),
                path: self.directory.join("format").join(name),
                why,
            })
    }

    /// Whether a term without a value is the name of an event of this PMU.
    pub(super) fn names(&self, term: &str) -> bool {
        match super::names::plain_attr(term) {
            Some(attr) if self.has_generalized(&attr) => true,
            _ => self.text("format", term).is_none() && self.event_terms(term).is_some(),
        }
    }

    /// The terms of an event by its name, in upper or lower case as by perf.
    fn event_terms(&self, name: &str) -> Option<String> {
        self.text("events", name).or_else(|| {
            let all = entries(&self.directory.join("events"));
            let known = all.iter().find(|known| known.eq_ignore_ascii_case(name))?;
            self.text("events", known)
        })
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
    format: Format,
    name: &str,
    value: Option<&str>,
    spec: &mut EventSpec,
) -> Result<(), EventError> {
    let wrong = |spec: &EventSpec| EventError::Number {
        event: spec.name.clone(),
        value: value.unwrap_or("1").to_owned(),
        place: format!("{name} ({} bits)", format.bits()),
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
        // covers unit: SFS-04
        let format = Format::parse("config1:1,6-10,44\n").expect("a format");
        assert_eq!((format.word, format.bits()), (Word::Config1, 7));
        let mut attr = EventAttr::default();
        format.put(0b100_0011, &mut attr).expect("7 bits");
        assert_eq!(attr.config1, 1 << 1 | 1 << 6 | 1 << 44);
        assert!(format.put(128, &mut attr).is_none());
        for wrong in ["config:0-64", "config:0-79", "config1:60-70", "config9:0"] {
            assert!(Format::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "config",
            "config:",
            "config:9-5",
            "config:1,,2",
            "config:-1",
        ] {
            assert!(Format::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// perf 6.1 gives 0x1, 0x100 and 0xf for these three, and takes no 0x1f for
    /// the last.
    #[test]
    fn sfs_04_bits_are_a_set_as_perf_has_it() {
        // covers unit: SFS-04
        let put = |text: &str, value: u64| {
            let mut attr = EventAttr::default();
            let format = Format::parse(text).expect("a format");
            format.put(value, &mut attr).map(|()| attr.config)
        };
        assert_eq!(put("config:8-15,0-7", 1), Some(1));
        assert_eq!(put("config:8-15,0-7", 0x100), Some(0x100));
        assert_eq!(put("config:0-3,0-3", 0xf), Some(0xf));
        assert_eq!(put("config:0-3,0-3", 0x1f), None);
        let whole = "config:0-63,0-63,0-63";
        assert_eq!(put(whole, u64::MAX), Some(u64::MAX));
    }

    /// A folder of sysfs with a PMU that has one term, `term`.
    fn pmu_with_format(text: &str) -> (tempfile::TempDir, Pmu) {
        let root = tempfile::tempdir().expect("directory");
        let pmu = root.path().join("odd");
        fs::create_dir_all(pmu.join("format")).expect("made");
        fs::create_dir_all(pmu.join("events")).expect("made");
        fs::write(pmu.join("type"), "90\n").expect("written");
        fs::write(pmu.join("format/term"), text).expect("written");
        fs::write(pmu.join("events/named"), "term=1\n").expect("written");
        let pmu = Pmu::open_in(root.path(), "odd", "odd/term/").expect("there");
        (root, pmu)
    }

    #[test]
    fn sfs_04_a_format_that_is_not_understood_is_told() {
        // covers unit: SFS-04
        for name in ["term", "named"] {
            let (_root, pmu) = pmu_with_format("config1:60-70\n");
            let mut spec = EventSpec::new("odd/term/", EventAttr::default());
            let error = pmu.apply(name, None, &mut spec).expect_err("70 bits");
            let told = error.to_string();
            assert!(told.contains("format/term"), "{told}");
            assert!(told.contains("64 bits, 0 to 63"), "{told}");
            assert_eq!(pmu.config_bits("term"), 0);
        }
    }

    proptest::proptest! {
        #[test]
        fn sfs_04_no_format_file_is_a_crash(
            text in "(config[0-5]?)?:?(([0-9]{1,3}|[0-9]{9,21})?[-,]?){0,40}",
            value: u64,
        ) {
            // covers unit: SFS-04
            let (_root, pmu) = pmu_with_format(&text);
            let mut attr = EventAttr::default();
            let _ = pmu.put("term", value, &mut attr);
            let ones = pmu.config_bits("term");
            let mut attr = EventAttr::default();
            let most = u64::MAX.checked_shr(64 - ones.count_ones()).unwrap_or(0);
            let put = pmu.put("term", most, &mut attr);
            // All bits of the term, and no others.
            proptest::prop_assert!(ones == 0 || put.is_some());
            proptest::prop_assert!(ones == 0 || attr.config == ones);
        }
    }

    #[test]
    fn sfs_05_named_events_are_lists_of_terms() {
        // covers unit: SFS-05
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
