//! Sort keys: what the rows of a table are told apart by.
//!
//! A key is one `Spec`: its name after `--sort` (which JSON and CSV have,
//! too), its heading, what it tells apart, how rows compare by it and what
//! its cells show. To add one: a constant in the file of its kind, and its
//! line in `ALL`. Tables of text, CSV, JSON and the terminal UI ask the key,
//! and know none by name but those that perf treats otherwise.

mod branch;
mod cells;
mod cost;
mod field;
mod frame;
mod history;
mod line;
mod memory;
mod moment;
mod origin;
mod place;
mod rank;
mod recorded;
mod refused;
mod room;
mod task;
mod tracepoint;

pub use branch::CYCLES;
pub(crate) use branch::{DSO_FROM, SYMBOL_FROM, SYMBOL_TO};
pub use cells::{CellLook, Cells};
pub use cost::PARALLELISM;
pub(crate) use cost::{LOCAL_INS_LAT, LOCAL_WEIGHT};
pub use field::{Field, FieldError, FieldList};
pub use frame::{DSO, SYMBOL};
pub use history::{IPC, USUAL_FOR_HISTORY};
#[cfg(test)]
pub(crate) use line::SRCLINE;
pub(crate) use line::srcline;
pub(crate) use moment::CPU;
pub use moment::{PARENT, WAIT};
pub(crate) use place::{host, write_line};
pub(crate) use rank::Ranks;
pub(crate) use refused::refused_key;
pub(crate) use room::{char_count, name_within};
pub use task::COMM;
#[cfg(test)]
pub(crate) use task::PID;
pub(crate) use task::{TGID, TID};
pub use tracepoint::FieldRoom;

use crate::model::{Apart, By, Filter, Row, Scene, Site};
use prof_profile::{Counting, Detail, Profile};
use recorded::Recorded;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use thiserror::Error;

/// All keys, in the order in which a beginning of a name is looked for, as in
/// perf.
const ALL: [SortKey; 57] = [
    task::COMM,
    task::COMM_NODIGIT,
    task::PID,
    task::TID,
    task::TGID,
    frame::DSO,
    frame::SYMBOL,
    line::SRCLINE,
    line::SRCFILE,
    moment::CPU,
    moment::PARENT,
    moment::TIME,
    frame::SYMBOL_SIZE,
    moment::EVENT,
    cost::LOCAL_WEIGHT,
    cost::WEIGHT,
    cost::TRANSACTION,
    tracepoint::TRACE,
    moment::SOCKET,
    moment::CGROUP,
    moment::CGROUP_ID,
    cost::CODE_PAGE_SIZE,
    cost::LOCAL_INS_LAT,
    cost::INS_LAT,
    cost::LOCAL_STAGE_CYCLES,
    cost::STAGE_CYCLES,
    moment::ADDRESS,
    cost::LOCAL_RETIRE_LAT,
    cost::RETIRE_LAT,
    cost::SIMD,
    cost::PARALLELISM,
    branch::DSO_FROM,
    branch::DSO_TO,
    branch::SYMBOL_FROM,
    branch::SYMBOL_TO,
    branch::MISPREDICT,
    branch::ABORT,
    branch::IN_TRANSACTION,
    branch::CYCLES,
    branch::SRCLINE_FROM,
    branch::SRCLINE_TO,
    branch::ADDR_FROM,
    branch::ADDR_TO,
    history::PREDICTED,
    history::ABORT,
    history::CYCLES,
    memory::SYMBOL_DADDR,
    memory::DSO_DADDR,
    memory::LOCKED,
    memory::TLB,
    memory::MEM,
    memory::SNOOP,
    memory::SYMBOL_IADDR,
    memory::PHYS_DADDR,
    memory::DATA_PAGE_SIZE,
    memory::BLOCKED,
    moment::WAIT,
];

/// A part of a row's identity, with perf's name for it.
#[derive(Clone, Copy)]
pub struct SortKey(&'static Spec);

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        // Those of two different keys stand at two addresses; one key can
        // have several.
        std::ptr::eq(self.0, other.0) || self.0.name == other.0.name
    }
}

impl Eq for SortKey {}

impl Hash for SortKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.name)
    }
}

/// All that there is to say of a key.
struct Spec {
    /// As typed after `--sort`; the name in JSON and CSV.
    name: &'static str,
    /// The column's heading, as perf writes it.
    heading: &'static str,
    /// Least width of its column, characters.
    width: usize,
    /// The same where times are told in nanoseconds.
    width_in_ns: usize,
    /// Whether perf fills the column even where it is the last.
    pads: bool,
    /// Whether perf makes it as wide as an address beside rows without a
    /// name.
    widens: bool,
    /// What tells rows apart.
    by: By,
    /// How rows compare that are equal in what comes before, as in perf.
    order: Order,
    /// What a cell shows.
    text: Text,
    /// What it shows in CSV and JSON; else what text has, trimmed.
    plain: Option<fn(&Cells<'_>, &Row) -> Option<String>>,
    /// How wide a cell is.
    measure: Measure,
    /// A number that rows with the same cell share, where many rows share
    /// few cells.
    shared: Option<fn(&Cells<'_>, &Row) -> u32>,
    /// How a cell is made to fit.
    fit: Fit,
    /// What the line above the tables calls it, if a filter lets only one
    /// pass, and that filter.
    told_above: Option<(&'static str, NamesOf)>,
    /// What has to be counted for the key to mean something.
    counting: Counting,
    /// Whether source lines are needed.
    needs_lines: bool,
}

/// The names that a filter lets pass.
type NamesOf = fn(&Filter) -> &[String];

/// What most keys have in common.
const USUAL: Spec = Spec {
    name: "",
    heading: "",
    width: 0,
    width_in_ns: 0,
    pads: false,
    widens: false,
    by: By::Table,
    order: Order::Same,
    text: Text::OfRow(|_, _, _| {}),
    plain: None,
    measure: Measure::Text,
    shared: None,
    fit: Fit::Cut,
    told_above: None,
    counting: Counting::Samples,
    needs_lines: false,
};

/// How rows compare.
#[derive(Clone, Copy)]
enum Order {
    /// All are equal.
    Same,
    /// By a number.
    Rank(fn(&Ranks<'_>, &Row) -> u32),
    /// By a text of their frames.
    FrameText(fn(&Scene<'_>, &Site, CellLook) -> String),
    /// Otherwise.
    Rows(fn(&Ranks<'_>, &Row, &Row) -> Ordering),
    /// By what the record tells, the largest first.
    LargestFirst,
    /// The same; perf subtracts addresses, so that the kernel's come first.
    Signed,
    /// By what the record tells, otherwise.
    Details(fn(&Profile, &Detail, &Detail) -> Ordering),
}

/// What writes a cell.
#[derive(Clone, Copy)]
enum Text {
    /// Safe for a terminal.
    OfRow(fn(&Cells<'_>, &Row, &mut String)),
    /// From what the record of the row's first sample tells: all have it in
    /// common. Not escaped yet.
    OfRecord(fn(&Recorded<'_>, &mut String)),
}

/// How wide a cell is, characters.
#[derive(Clone, Copy)]
enum Measure {
    /// As wide as its text.
    Text,
    /// Told without making the text.
    OfRow(fn(&Cells<'_>, &Row) -> usize),
    /// The width that perf gives it, where that is not the text's.
    OfRecord(fn(&Recorded<'_>) -> Option<usize>),
}

/// How a cell is made to fit a column that is too narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Its end is cut off.
    Cut,
    /// A number of so many digits; more stand out, and a given width is
    /// filled with zeros.
    Digits(usize),
    /// A thread: cut where more than its number has space.
    Thread,
    /// A text that is flushed right.
    Right,
    /// A function: shortened, and no address is cut.
    Function,
}

impl Fit {
    /// Digits of a column of numbers.
    pub(crate) fn digits(self) -> Option<usize> {
        match self {
            Self::Digits(digits) => Some(digits),
            _ => None,
        }
    }
}

impl SortKey {
    /// All keys, in the order in which a beginning of a name is looked for.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter()
    }

    /// As typed after `--sort`; the name in JSON and CSV.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The column's heading, as perf writes it.
    pub fn heading(self) -> &'static str {
        self.0.heading
    }

    /// The property by which it tells rows apart.
    pub fn apart(self) -> Apart {
        Apart {
            name: self.0.name,
            by: self.0.by,
        }
    }

    /// What the profile must count for the key to have a meaning.
    pub fn counting(self) -> Counting {
        self.0.counting
    }

    /// Whether its value is a field of the sample's record beyond the usual
    /// ones.
    pub fn is_of_record(self) -> bool {
        matches!(self.0.by, By::Detail(_) | By::TraceField(_))
    }

    /// Whether its value comes from branches in call chains.
    pub fn is_of_branches_in_chains(self) -> bool {
        history::is_of_chains(self)
    }

    /// Whether source lines are needed.
    pub fn needs_lines(self) -> bool {
        self.0.needs_lines
    }

    /// Whether frames are told apart by their source lines.
    pub fn splits_by_line(self) -> bool {
        self.0.needs_lines && self.0.by.is_of_frame()
    }

    /// Least width of its column, characters.
    pub(crate) fn least_width(self, look: CellLook) -> usize {
        match look.nanoseconds {
            true => self.0.width.max(self.0.width_in_ns),
            false => self.0.width,
        }
    }

    /// Whether perf fills its column even where it is the last.
    pub(crate) fn pads_itself(self) -> bool {
        self.0.pads
    }

    /// Whether perf makes its column as wide as an address beside rows
    /// without a name.
    pub(crate) fn widens_beside_addresses(self) -> bool {
        self.0.widens
    }

    /// How its cells are made to fit.
    pub(crate) fn fit(self) -> Fit {
        self.0.fit
    }

    /// The only name that a filter lets pass, and what it is a name of.
    pub(crate) fn told_above(self, filter: &Filter) -> Option<(&'static str, &str)> {
        let (what, names) = self.0.told_above?;
        match names(filter) {
            [only] => Some((what, only)),
            _ => None,
        }
    }

    /// A number by which rows compare, if there is one.
    pub(crate) fn rank(self, ranks: &Ranks<'_>, row: &Row) -> Option<u32> {
        match self.0.order {
            Order::Same => Some(0),
            Order::Rank(of) => Some(of(ranks, row)),
            Order::FrameText(_) => Some(ranks.text(self, row)),
            _ => None,
        }
    }

    /// The order of rows that are equal in what comes before, as perf's.
    pub(crate) fn compare(self, ranks: &Ranks<'_>, a: &Row, b: &Row) -> Ordering {
        let profile = ranks.profile();
        let details = || Some((ranks.detail(a)?, ranks.detail(b)?));
        let identities = || {
            let (a, b) = details()?;
            Some((
                self.0.by.of_record(profile, a)?,
                self.0.by.of_record(profile, b)?,
            ))
        };
        let order = match self.0.order {
            Order::Same => None,
            Order::Rank(_) | Order::FrameText(_) => {
                Some(self.rank(ranks, a).cmp(&self.rank(ranks, b)))
            }
            Order::Rows(compare) => Some(compare(ranks, a, b)),
            Order::LargestFirst => identities().map(|(a, b)| b.cmp(&a)),
            Order::Signed => {
                identities().map(|(a, b)| a.map(u64::cast_signed).cmp(&b.map(u64::cast_signed)))
            }
            Order::Details(compare) => details().map(|(a, b)| compare(profile, a, b)),
        };
        order.unwrap_or(Ordering::Equal)
    }
}

/// The sort keys if none are given.
pub fn usual(counting: Counting) -> &'static [SortKey] {
    match counting {
        Counting::Samples => &[COMM, DSO, SYMBOL],
        Counting::Branches => &[COMM, DSO_FROM, SYMBOL_FROM, SYMBOL_TO, CYCLES],
        Counting::Memory => &[
            LOCAL_WEIGHT,
            memory::MEM,
            SYMBOL,
            DSO,
            memory::SYMBOL_DADDR,
            memory::DSO_DADDR,
            memory::SNOOP,
            memory::TLB,
            memory::LOCKED,
            memory::BLOCKED,
            LOCAL_INS_LAT,
        ],
    }
}

/// perf's sort keys for memory accesses, as it writes them.
pub const USUAL_FOR_MEMORY: &str = "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,\
                                    blocked,local_ins_lat,local_p_stage_cyc";

impl fmt::Display for SortKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A word that is no sort key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown sort key {given:?}; known are {known}")]
pub struct KeyError {
    /// What was given.
    pub given: String,
    /// All keys, separated by commas.
    pub known: String,
}

impl FromStr for SortKey {
    type Err = KeyError;

    /// Like perf, takes any beginning of a key's name (`sym` for `symbol`),
    /// whatever the case.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let lower = text.to_lowercase();
        let exact = Self::all().find(|key| key.name() == lower);
        let prefixed =
            || Self::all().find(|key| !lower.is_empty() && key.name().starts_with(&lower));
        exact.or_else(prefixed).ok_or_else(|| KeyError {
            given: text.to_owned(),
            known: Self::all().map(Self::name).collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, CellLook, SortKey, task};

    #[test]
    fn a_heading_fits_its_column_and_a_name_is_of_one_key() {
        for (at, key) in ALL.into_iter().enumerate() {
            let width = key.heading().chars().count();
            assert!(key.least_width(CellLook::default()) >= width, "{key}");
            assert_eq!(key.name().parse(), Ok(key));
            assert_eq!(ALL.iter().position(|other| *other == key), Some(at));
        }
    }

    #[test]
    fn a_beginning_of_a_name_is_enough() {
        assert_eq!("sym".parse(), Ok(super::SYMBOL));
        assert_eq!("pid".parse(), Ok(task::PID));
        assert_eq!("com".parse(), Ok(super::COMM));
        assert_eq!("comm_".parse(), Ok(task::COMM_NODIGIT));
        assert_eq!("DSO".parse(), Ok(super::DSO));
        let error = "nonsense".parse::<SortKey>().unwrap_err();
        assert!(error.to_string().contains("srcline"));
        assert!("".parse::<SortKey>().is_err());
    }
}
