//! Probes by name, made by the kernel's PMUs `uprobe` and `kprobe` for as long
//! as their events are open; nothing is written to tracefs.
//!
//! ```text
//! probe  = ( "uprobe:" | "uretprobe:" ) path ":" place [ rest ]
//!        | ( "kprobe:" | "kretprobe:" ) place [ rest ]
//!        | "usdt:" path ":" [ provider ":" ] name [ rest ]
//!        | "sdt_" provider ":" name "@" path [ ":" letters ]
//! place  = function [ "+" offset ] | address
//! rest   = ":" letters | "/" terms "/" [ letters ]
//! ```
//!
//! Terms begin with the name of one that probes have (`terms::OF_PROBES`), so that
//! `operator/` is a function. Behind a marker's path there are none: the
//! path may have such a name in it.
//!
//! The attr's `config1` points at the file's path or the function's name, and
//! `config2` is the offset: in the file, or in the function. For bit 0 of
//! `config` the function's return is meant, bits 32 to 63 are where in the file
//! the semaphore of a marker is (`format/` of the PMU says so).
//!
//! On x86-64 a place must be where an instruction begins: the kernel would put the
//! probe into its middle, and the program would crash there. On other machines, and of an
//! address that is in no function by the file's symbols and unwind information,
//! that is not checked.
//!
//! Source: perf_event_open(2), `kprobe_func`, `uprobe_path`.

pub(super) mod functions;
mod markers;
mod unwind_table;

use super::error::EventError;
use super::modifiers::LETTERS;
use super::no_probe::NoProbe;
use super::pmu::{Pmu, parse_number};
use super::programs::Programs;
use super::spec::EventSpec;
use super::terms;
use functions::{At, Binary};
use prof_abi::EventAttr;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The kinds of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    UserReturn,
    Kernel,
    KernelReturn,
    Marker,
}

const KINDS: [(&str, Kind); 5] = [
    ("uprobe", Kind::User),
    ("uretprobe", Kind::UserReturn),
    ("kprobe", Kind::Kernel),
    ("kretprobe", Kind::KernelReturn),
    ("usdt", Kind::Marker),
];

impl Kind {
    fn pmu(self) -> &'static str {
        match self {
            Self::Kernel | Self::KernelReturn => "kprobe",
            _ => "uprobe",
        }
    }

    fn is_return(self) -> bool {
        matches!(self, Self::UserReturn | Self::KernelReturn)
    }
}

/// A marker as perf names it, with its file: `sdt_PROVIDER:NAME@PATH`.
fn named_marker(event: &str) -> Option<(&str, &str)> {
    let rest = event.strip_prefix("sdt_")?;
    rest.contains('@').then(|| rest.split_once(':')).flatten()
}

fn kind_of(event: &str) -> Option<(Kind, &str)> {
    let (word, rest) = event.split_once(':')?;
    let (_, kind) = KINDS.iter().find(|(name, _)| *name == word)?;
    Some((*kind, rest))
}

/// Whether the event is written as a probe.
pub(super) fn is_probe(event: &str) -> bool {
    kind_of(event).is_some() || named_marker(event).is_some()
}

/// Whether a slash of a probe opens its terms, given what stands before and behind
/// it.
pub(super) fn opens_terms(before: &str, behind: &str) -> bool {
    let is_behind_place = kind_of(before).is_some_and(|(kind, rest)| match kind.pmu() {
        "kprobe" => !rest.is_empty(),
        _ => rest
            .split_once(':')
            .is_some_and(|(_, place)| !place.is_empty()),
    });
    let name = behind.split(['=', ',', '/']).next().unwrap_or_default();
    is_behind_place && name.len() < behind.len() && terms::of_probes().any(|term| term == name)
}

/// Where the terms of a probe begin, if it has any: at the slash before them. What
/// is searched may go on behind the probe.
pub(super) fn terms_at(text: &str) -> Option<usize> {
    let slashes = text.match_indices('/');
    let mut opening = slashes.filter(|&(at, _)| opens_terms(&text[..at], &text[at + 1..]));
    opening.next().map(|(at, _)| at)
}

/// A probe as it was written, in its parts.
pub(super) struct Written<'a> {
    /// Its name: the place without what follows.
    pub(super) name: &'a str,
    pub(super) terms: &'a str,
    pub(super) letters: &'a str,
}

/// Takes a probe apart.
pub(super) fn written(event: &str) -> Written<'_> {
    if let Some(at) = terms_at(event)
        && let Some((terms, letters)) = event[at + 1..].rsplit_once('/')
    {
        return Written {
            name: &event[..at],
            terms,
            letters: letters.strip_prefix(':').unwrap_or(letters),
        };
    }
    let letters = match kind_of(event) {
        Some((_, rest)) => modifiers(rest).1,
        // Behind a path.
        None => event
            .rsplit_once(':')
            .filter(|(before, tail)| before.contains('@') && are_letters(tail))
            .map_or("", |(_, letters)| letters),
    };
    Written {
        name: without(event, letters),
        terms: "",
        letters,
    }
}

/// The events of a probe of this name, which has neither terms nor modifiers:
/// several where a function or marker is at several places.
pub(super) fn parse(name: &str) -> Result<Vec<EventSpec>, EventError> {
    let wrong = |why| EventError::Probe {
        event: name.to_owned(),
        why,
    };
    let found = match (kind_of(name), named_marker(name)) {
        (Some((kind, rest)), _) => of_kind(name, kind, rest),
        (None, Some((provider, rest))) => marker_at(name, provider, rest),
        (None, None) => Err(NoProbe::Form("it is not a probe")),
    };
    found.map_err(wrong)
}

/// The marker `sdt_PROVIDER:NAME` in the programs that are recorded, `None` if
/// it is in none of them.
pub(super) fn marker_of(programs: &Programs, system: &str, name: &str) -> Option<Vec<EventSpec>> {
    let provider = system.strip_prefix("sdt_")?;
    let event = format!("{system}:{name}");
    let asked = Asked {
        name: &event,
        kind: Kind::Marker,
    };
    programs.files().into_iter().find_map(|path| {
        let binary = Binary::open(&path).ok()?;
        asked.markers(&(binary, path), Some(provider), name).ok()
    })
}

/// Why there is no marker `sdt_PROVIDER:NAME` in the programs that are recorded,
/// `None` if it has another form.
pub(super) fn no_marker(programs: &Programs, system: &str, name: &str) -> Option<EventError> {
    system.strip_prefix("sdt_")?;
    let event = format!("{system}:{name}");
    let opened = |path: PathBuf| Some((Binary::open(&path).ok()?, path));
    let mut files = programs.files().into_iter().filter_map(opened);
    let with_markers = files.find_map(|(binary, path)| {
        let known = markers::names(&binary);
        (!known.is_empty()).then_some((path, known))
    });
    let why = match with_markers {
        Some((path, known)) => NoProbe::NoMarker {
            path,
            name: event.clone(),
            known,
        },
        None => NoProbe::MarkerElsewhere(event.clone()),
    };
    Some(EventError::Probe { event, why })
}

fn of_kind(name: &str, kind: Kind, rest: &str) -> Result<Vec<EventSpec>, NoProbe> {
    let asked = Asked { name, kind };
    if kind.pmu() == "kprobe" {
        return Ok(vec![asked.in_kernel(rest)?]);
    }
    let form = || NoProbe::Form("write uprobe:PATH:FUNCTION[+OFFSET] or usdt:PATH:[PROVIDER:]NAME");
    let (path, place) = rest.split_once(':').ok_or_else(form)?;
    if path.is_empty() || place.is_empty() {
        return Err(form());
    }
    let binary = find_file(path)?;
    if kind == Kind::Marker {
        let (provider, name) = match place.split_once(':') {
            Some((provider, name)) => (Some(provider), name),
            None => (None, place),
        };
        return asked.markers(&binary, provider, name);
    }
    asked.in_file(&binary, place)
}

fn marker_at(event: &str, provider: &str, rest: &str) -> Result<Vec<EventSpec>, NoProbe> {
    let (name, path) = rest
        .split_once('@')
        .ok_or(NoProbe::Form("write sdt_PROVIDER:NAME@PATH"))?;
    let asked = Asked {
        name: event,
        kind: Kind::Marker,
    };
    let binary = find_file(path)?;
    asked.markers(&binary, Some(provider), name)
}

/// The event without `:letters`.
fn without<'a>(event: &'a str, letters: &str) -> &'a str {
    match letters {
        "" => event,
        letters => &event[..event.len() - letters.len() - 1],
    }
}

fn are_letters(tail: &str) -> bool {
    !tail.is_empty() && tail.chars().all(|letter| LETTERS.contains(letter))
}

/// What stands before the modifiers, and these. In `ns::u` there are none.
fn modifiers(rest: &str) -> (&str, &str) {
    match rest.rsplit_once(':') {
        Some((place, letters))
            if are_letters(letters)
                && !place.ends_with(':')
                && place.contains(|letter: char| letter != ':')
                // A path alone is followed by a function, however short.
                && (!place.contains('/') || place.contains(':')) =>
        {
            (place, letters)
        }
        _ => (rest, ""),
    }
}

/// A path as written, or the program or library of this name.
fn find_file(name: &str) -> Result<(Binary, PathBuf), NoProbe> {
    const LIBRARIES: [&str; 6] = [
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        #[cfg(target_arch = "x86_64")]
        "/usr/lib/x86_64-linux-gnu",
        #[cfg(not(target_arch = "x86_64"))]
        "/usr/lib/aarch64-linux-gnu",
    ];
    let path = if name.contains('/') {
        PathBuf::from(name)
    } else {
        let programs = std::env::var_os("PATH").unwrap_or_default();
        let programs: Vec<PathBuf> = std::env::split_paths(&programs).collect();
        let mut folders = programs.into_iter().chain(LIBRARIES.map(PathBuf::from));
        folders
            .find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
            .ok_or_else(|| NoProbe::NoFile(name.to_owned()))?
    };
    let unreadable = |error: io::Error| NoProbe::Unreadable(path.clone(), error.kind());
    // The kernel looks the path up from where it stands, which is where we do.
    let whole = path.canonicalize().map_err(unreadable)?;
    Ok((Binary::open(&whole)?, whole))
}

/// The place of an address as the file has it.
fn at_address(binary: &Binary, address: u64) -> Result<At, NoProbe> {
    let place = binary.address(address)?;
    if let Some((function, svma)) = binary.function_around(address) {
        let offset = address.saturating_sub(svma);
        let start = binary.address(svma)?;
        check_boundary(binary, (&function, start), offset)?;
    }
    Ok(place)
}

/// The places of `FUNCTION[+OFFSET]`.
fn in_function(binary: &Binary, place: &str) -> Result<Vec<At>, NoProbe> {
    let (function, offset) = with_offset(place)?;
    let starts = binary.function(function)?;
    let sizes: Option<Vec<u64>> = starts.iter().map(|&it| binary.size_of(it)).collect();
    if let Some(size) = sizes.and_then(|sizes| sizes.into_iter().max())
        && offset >= size
    {
        return Err(NoProbe::BehindFunction {
            function: function.to_owned(),
            size,
            offset,
        });
    }
    for &start in &starts {
        check_boundary(binary, (function, start), offset)?;
    }
    let places = starts.into_iter();
    Ok(places.map(|At(at)| At(at.saturating_add(offset))).collect())
}

/// That an instruction begins so far behind the start of a function.
fn check_boundary(
    binary: &Binary,
    (function, start): (&str, At),
    offset: u64,
) -> Result<(), NoProbe> {
    match binary.instruction_around(start, offset) {
        None => Ok(()),
        Some((before, after)) => Err(NoProbe::WithinInstruction {
            function: function.to_owned(),
            offset,
            before,
            after,
        }),
    }
}

/// A probe to be made.
struct Asked<'a> {
    name: &'a str,
    kind: Kind,
}

impl Asked<'_> {
    fn attr(&self) -> Result<(Pmu, EventAttr), NoProbe> {
        let none = match self.kind.pmu() {
            "kprobe" => {
                "this kernel has no kprobes (it is older than Linux 4.17, or without \
                 CONFIG_KPROBES), or hides /sys\n  try: prof list tracepoint"
            }
            _ => {
                "this kernel has no uprobes (it is older than Linux 4.17, or without \
                 CONFIG_UPROBES), or hides /sys\n  try: prof doctor"
            }
        };
        let pmu = Pmu::open(self.kind.pmu(), self.name).map_err(|_| NoProbe::NoPmu(none))?;
        let mut attr = EventAttr {
            kind: pmu.kind(),
            ..EventAttr::default()
        };
        if self.kind.is_return() {
            pmu.put("retprobe", 1, &mut attr).ok_or(NoProbe::NoPmu(
                "this kernel has no probes of returns (Linux 4.17 has)",
            ))?;
        }
        Ok((pmu, attr))
    }

    /// Specs of all places, with `_1` and so on behind the names of the later
    /// ones, as perf numbers them.
    fn specs(&self, place: &Path, attrs: Vec<EventAttr>) -> Result<Vec<EventSpec>, NoProbe> {
        let path = CString::new(place.as_os_str().as_bytes())
            .map_err(|_| NoProbe::Form("a path holds no NUL"))?;
        let named = attrs.into_iter().enumerate().map(|(index, attr)| {
            let name = match index {
                0 => self.name.to_owned(),
                index => format!("{}_{index}", self.name),
            };
            let mut spec = EventSpec::new(name, attr);
            spec.probe = Some(path.clone());
            spec
        });
        Ok(named.collect())
    }

    fn in_file(
        &self,
        (binary, path): &(Binary, PathBuf),
        place: &str,
    ) -> Result<Vec<EventSpec>, NoProbe> {
        let (_, attr) = self.attr()?;
        let places = match parse_number(place) {
            Some(address) => vec![at_address(binary, address)?],
            None => in_function(binary, place)?,
        };
        let attrs = places.into_iter().map(|At(offset)| EventAttr {
            config2: offset,
            ..attr.clone()
        });
        self.specs(path, attrs.collect())
    }

    fn markers(
        &self,
        (binary, path): &(Binary, PathBuf),
        provider: Option<&str>,
        name: &str,
    ) -> Result<Vec<EventSpec>, NoProbe> {
        let (pmu, attr) = self.attr()?;
        let found = markers::find(binary, provider, name)?;
        if found.is_empty() {
            return Err(NoProbe::NoMarker {
                path: path.clone(),
                name: name.to_owned(),
                known: markers::names(binary),
            });
        }
        let attrs = found.into_iter().map(|marker| {
            let mut attr = EventAttr {
                config2: marker.at.0,
                ..attr.clone()
            };
            if let Some(offset) = marker.semaphore {
                pmu.put("ref_ctr_offset", offset, &mut attr)
                    .ok_or(NoProbe::NoPmu(
                        "the marker has a semaphore, which this kernel cannot set (Linux 4.20 can)",
                    ))?;
            }
            Ok(attr)
        });
        let attrs: Result<Vec<_>, NoProbe> = attrs.collect();
        self.specs(path, attrs?)
    }

    fn in_kernel(&self, place: &str) -> Result<EventSpec, NoProbe> {
        let (_, attr) = self.attr()?;
        kernel_place(attr, self.name, place)
    }
}

/// A function of the kernel goes by its name, an address by itself.
fn kernel_place(mut attr: EventAttr, name: &str, place: &str) -> Result<EventSpec, NoProbe> {
    if let Some(address) = parse_number(place) {
        attr.config2 = address;
        return Ok(EventSpec::new(name, attr));
    }
    let (function, offset) = with_offset(place)?;
    if function.is_empty() {
        return Err(NoProbe::Form("write kprobe:FUNCTION[+OFFSET]"));
    }
    attr.config2 = offset;
    let mut spec = EventSpec::new(name, attr);
    spec.probe = CString::new(function).ok();
    Ok(spec)
}

/// `function+offset`; operators of C++ may hold a `+` too.
fn with_offset(place: &str) -> Result<(&str, u64), NoProbe> {
    match place.rsplit_once('+') {
        Some((function, offset)) if offset.starts_with(|letter: char| letter.is_ascii_digit()) => {
            let offset = parse_number(offset);
            let offset = offset.ok_or(NoProbe::Form("the offset is not a number"))?;
            Ok((function, offset))
        }
        _ => Ok((place, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_probe, kernel_place, modifiers, named_marker, with_offset, written};
    use prof_abi::{ByteOrder, EventAttr};

    #[test]
    fn a_place_may_be_followed_by_an_offset_and_modifiers() {
        for (rest, expected) in [
            ("/bin/app:main", ("/bin/app:main", "")),
            ("/bin/app:main:u", ("/bin/app:main", "u")),
            ("/bin/app:ns::u", ("/bin/app:ns::u", "")),
            ("/bin/app:ns::run:ku", ("/bin/app:ns::run", "ku")),
            ("/bin/app:u", ("/bin/app:u", "")),
            ("vfs_read:k", ("vfs_read", "k")),
            ("vfs_read", ("vfs_read", "")),
        ] {
            assert_eq!(modifiers(rest), expected);
        }
        assert_eq!(with_offset("main+0x10"), Ok(("main", 16)));
        assert_eq!(with_offset("operator+"), Ok(("operator+", 0)));
        assert!(with_offset("main+1x").is_err());
        assert!(is_probe("uprobe:x") && !is_probe("uprobes:x") && !is_probe("cs"));
        assert_eq!(named_marker("sdt_a:b@/bin/c"), Some(("a", "b@/bin/c")));
        assert_eq!(named_marker("sdt_a:b"), None);
    }

    #[test]
    fn terms_of_a_probe_stand_behind_its_place() {
        for (event, expected) in [
            (
                "uprobe:/opt/time/a:f/time=1/u",
                ("uprobe:/opt/time/a:f", "time=1", "u"),
            ),
            (
                "usdt:./a:p:n/call-graph=no,name='x/y'/",
                ("usdt:./a:p:n", "call-graph=no,name='x/y'", ""),
            ),
            ("kprobe:f+4/period=7/:k", ("kprobe:f+4", "period=7", "k")),
            ("uprobe:/a:operator/", ("uprobe:/a:operator/", "", "")),
            ("uprobe:/a:operator/:u", ("uprobe:/a:operator/", "", "u")),
            ("uprobe:/opt/time/a:f:u", ("uprobe:/opt/time/a:f", "", "u")),
            ("sdt_a:b@/opt/time/c:u", ("sdt_a:b@/opt/time/c", "", "u")),
        ] {
            let it = written(event);
            assert_eq!((it.name, it.terms, it.letters), expected, "{event}");
        }
    }

    /// covers unit: ATTR-69, EV-29
    #[test]
    fn a_function_of_the_kernel_goes_by_its_name() {
        // No kernel here has the PMU: its type is made up.
        let attr = EventAttr {
            kind: 6,
            ..EventAttr::default()
        };
        let spec = kernel_place(attr.clone(), "kprobe:vfs_read+4", "vfs_read+4").expect("a place");
        assert_eq!(spec.probe.as_deref(), Some(c"vfs_read"));
        assert_eq!((spec.attr.kind, spec.attr.config2), (6, 4));
        let bytes = spec.attr.encode(ByteOrder::Little);
        assert_eq!(
            &bytes[64..72],
            4_u64.to_le_bytes(),
            "probe_offset is config2"
        );
        let spec = kernel_place(attr, "kprobe:0xffffffff81000000", "0xffffffff81000000");
        let spec = spec.expect("an address");
        assert_eq!(
            (spec.probe, spec.attr.config2),
            (None, 0xffff_ffff_8100_0000)
        );
    }
}
