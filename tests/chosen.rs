//! Live recordings without the frames that perf 6.1 is known to name wrongly,
//! so that a comparison with perf can be exact and hold for any samples.
//!
//! Both tools first say of each sample where it was (`perf script`, `prof
//! script`). Each difference must have a known [`Cause`], else the test
//! fails. Then the recording is written again without the frames that differ:
//! a caller is cut out of its chain, a sample whose own place differs goes as
//! a whole. What is left must be the same for both, to the byte.
//!
//! Periods are replaced, too, by numbers of which no two sets of samples have
//! the same sum: perf's order of rows and branches of equal weight hangs on
//! addresses of its own memory.

use crate::oracle::{perf, prof};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Why perf 6.1 names a frame otherwise than we do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A stub of the procedure linkage table. perf takes the stubs in the
    /// order of the relocations, and newer linkers put them otherwise: it
    /// shows another function's (`__tls_get_addr@plt`), or none's (`@plt`),
    /// or the function before them (`_init+0x30`).
    Stub,
    /// A return address that is the first byte of a function, after a call
    /// that does not return. perf looks up the address itself and takes that
    /// function; we look up the call.
    FirstByte,
    /// A return address behind the last function of a file, for the same
    /// reason: perf finds nothing.
    PastTheEnd,
    /// The user part of a sample taken in the kernel while an exec is under
    /// way. The mappings of the old program are gone; perf keeps them.
    BeforeExec,
    /// A function of the vDSO, which perf knows only from a copy that its
    /// recorder made below the home, and here it has none.
    Vdso,
}

/// Which frames are kept beside those that both tools name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Keep {
    /// Also those without a name, but for callers inside a module: there
    /// perf shows the address in the process, which differs from run to run,
    /// and we, as both do where a sample was taken, that in the file.
    Unnamed,
    /// No other.
    Named,
    /// No other, and only those in files with this in their path.
    NamedIn(&'static str),
}

/// Address, symbol with offset, and dso of a frame's line in a script.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (address, rest) = line.trim_start().split_once(' ')?;
    let (symbol, dso) = rest.rsplit_once(" (")?;
    Some((address, symbol, dso))
}

/// The cause of the difference between a frame's lines, if it is a known one.
/// `is_caller` says that it is not where the sample was taken.
pub(crate) fn cause(perfs: &str, ours: &str, is_caller: bool) -> Option<Cause> {
    let (perf_address, perf_symbol, perf_dso) = parts(perfs)?;
    let (address, symbol, dso) = parts(ours)?;
    if dso == "[unknown])" {
        return perf_symbol.contains("execve").then_some(Cause::BeforeExec);
    }
    if perf_address != address || perf_dso != dso {
        return None;
    }
    if perf_symbol == "[unknown]" && dso == "[vdso])" {
        return Some(Cause::Vdso);
    }
    let is_stub = |symbol: &str| symbol.contains("@plt") || symbol.starts_with("_init+");
    if is_stub(symbol) || is_stub(perf_symbol) {
        return Some(Cause::Stub);
    }
    if !is_caller {
        return None;
    }
    if perf_symbol.ends_with("+0x0") {
        return Some(Cause::FirstByte);
    }
    let is_past = perf_symbol == "[unknown]" && symbol != "[unknown]";
    (is_past && !symbol.ends_with("+0x0")).then_some(Cause::PastTheEnd)
}

/// A sample as a script tells it.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    tid: i32,
    /// ns.
    time: u64,
    frames: Vec<String>,
}

/// The samples in a script of the fields that [`told_by_both`] asks for: a
/// line `PID/TID SECONDS: EVENT: FRAME`, or without the frame and then one
/// line for each.
fn told(script: &str) -> Vec<Told> {
    let mut samples: Vec<Told> = Vec::new();
    for line in script.lines().filter(|line| !line.is_empty()) {
        if line.starts_with('\t') {
            let sample = samples.last_mut().expect("frames follow their sample");
            sample.frames.push(line.trim().to_owned());
            continue;
        }
        let parsed = parse_head(line);
        samples.push(parsed.unwrap_or_else(|| panic!("not the head of a sample: {line:?}")));
    }
    samples
}

fn parse_head(line: &str) -> Option<Told> {
    let (ids, rest) = line.trim_start().split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(": ")?;
    let (seconds, ns) = time.split_once('.')?;
    let (_event, frame) = rest.trim_start().split_once(": ")?;
    let frame = frame.trim();
    Some(Told {
        tid: ids.split_once('/')?.1.parse().ok()?,
        time: seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?,
        frames: (!frame.is_empty())
            .then(|| frame.to_owned())
            .into_iter()
            .collect(),
    })
}

/// What perf and we say of each sample of a recording, in order of time.
fn told_by_both(recording: &Path) -> (Vec<Told>, Vec<Told>) {
    let recording = recording.to_str().expect("a path of ours");
    let fields = "pid,tid,time,event,ip,sym,symoff,dso";
    let args = [
        "script",
        "--no-inline",
        "--ns",
        "-f",
        "-F",
        fields,
        "-i",
        recording,
    ];
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    (told(&perfs), told(&ours))
}

/// What to leave out of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cut {
    /// How many frames the sample has.
    frames: usize,
    /// Which of them go, innermost first.
    gone: Vec<usize>,
}

/// By thread and time: the frames that go from each sample.
///
/// # Panics
/// If the tools disagree for no known cause.
fn cuts(recording: &Path, keep: Keep) -> HashMap<(i32, u64), Cut> {
    let (perfs, ours) = told_by_both(recording);
    let name = recording.display();
    assert_eq!(perfs.len(), ours.len(), "{name}: number of samples");
    let shortened = under_longer_names(recording);
    let mut cuts: HashMap<(i32, u64), Cut> = HashMap::new();
    for (perfs, ours) in perfs.iter().zip(&ours) {
        let key = (perfs.tid, perfs.time);
        assert_eq!(key, (ours.tid, ours.time), "{name}: another sample");
        let frames = perfs.frames.len();
        assert_eq!(frames, ours.frames.len(), "{name}: frames of {perfs:?}");
        let mut gone = Vec::new();
        for (index, (theirs, own)) in perfs.frames.iter().zip(&ours.frames).enumerate() {
            if theirs != own {
                let known = cause(theirs, own, index > 0);
                assert!(
                    known.is_some(),
                    "{name}: frame {index} at {key:?}\nperf: {theirs}\nprof: {own}"
                );
                gone.push(index);
            } else if is_unwanted(theirs, index > 0, keep) {
                gone.push(index);
            }
        }
        if shortened.contains(&key) {
            gone = (0..frames).collect();
        }
        let cut = Cut { frames, gone };
        let earlier = cuts.insert(key, cut);
        assert_eq!(earlier, None, "{name}: two samples at {key:?}");
    }
    cuts
}

/// Thread and time of the samples taken while their thread had a longer name
/// than its last one. perf makes the column for names as wide as the last
/// names of all threads and cuts the others off; we show them whole.
fn under_longer_names(recording: &Path) -> HashSet<(i32, u64)> {
    let recording = recording.to_str().expect("a path of ours");
    let args = ["script", "--ns", "-f", "-i", recording];
    let tasks = [
        &args[..],
        &["--show-task-events", "-F", "comm,tid,time,event"],
    ]
    .concat();
    let tasks = perf(&tasks).succeeded("perf script").text();
    let mut last: HashMap<i32, &str> = HashMap::new();
    for line in tasks.lines() {
        let Some((_, told)) = line.split_once("PERF_RECORD_COMM") else {
            continue;
        };
        let named = told.split_once(": ").map(|(_, named)| named);
        let (comm, ids) = named.and_then(|it| it.rsplit_once(':')).expect("NAME:IDS");
        let tid = ids.split_once('/').and_then(|(_, tid)| tid.parse().ok());
        last.insert(tid.expect("PID/TID"), comm);
    }
    let samples = [&args[..], &["-G", "-F", "comm,tid,time"]].concat();
    let samples = perf(&samples).succeeded("perf script").text();
    let longer = samples.lines().filter_map(|line| {
        let (rest, time) = line.trim().strip_suffix(':')?.rsplit_once(' ')?;
        let (comm, tid) = rest.trim().rsplit_once(' ')?;
        let (seconds, ns) = time.split_once('.')?;
        let time = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
        let tid: i32 = tid.parse().ok()?;
        let last = last.get(&tid)?;
        (comm.trim().len() > last.len()).then_some((tid, time))
    });
    longer.collect()
}

/// Whether a frame goes although both tools say the same of it.
fn is_unwanted(line: &str, is_caller: bool, keep: Keep) -> bool {
    let (_, symbol, dso) = parts(line).unwrap_or_else(|| panic!("no frame: {line:?}"));
    let is_unnamed = symbol == "[unknown]";
    match keep {
        Keep::Named => is_unnamed,
        Keep::NamedIn(file) => is_unnamed || !dso.contains(file),
        Keep::Unnamed => is_unnamed && is_caller && dso != "[unknown])",
    }
}

/// A recording written again without the frames that the tools name
/// differently; beside the original, under another name. Made once in each
/// run of the tests.
///
/// # Panics
/// If they disagree for no known cause, or still do afterwards.
pub(crate) fn chosen(recording: &Path, keep: Keep) -> PathBuf {
    type Choices = HashMap<(PathBuf, Keep), Arc<OnceLock<PathBuf>>>;
    static MADE: OnceLock<Mutex<Choices>> = OnceLock::new();
    let mut made = MADE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let choice = Arc::clone(made.entry((recording.to_owned(), keep)).or_default());
    // Others are made at the same time.
    drop(made);
    choice.get_or_init(|| choose(recording, keep)).clone()
}

fn choose(recording: &Path, keep: Keep) -> PathBuf {
    let bytes = std::fs::read(recording).expect("a recording of ours");
    let bytes = rewritten(&bytes, &cuts(recording, keep));
    let extension = match keep {
        Keep::Unnamed => "chosen.data",
        Keep::Named => "named.data",
        Keep::NamedIn(_) => "only.data",
    };
    let path = recording.with_extension(extension);
    std::fs::write(&path, bytes).expect("the target folder is writable");
    let (perfs, ours) = told_by_both(&path);
    assert_eq!(perfs, ours, "{}", path.display());
    path
}

/// Where the parts of a sample are that [`rewritten`] changes; offsets from
/// the start of the record.
struct Layout {
    tid: usize,
    time: usize,
    period: Option<usize>,
    callchain: Option<usize>,
}

impl Layout {
    /// Of samples with this `sample_type`, whose fields of eight bytes stand
    /// in the order of perf_event_open(2), PERF_RECORD_SAMPLE.
    fn of(sample_type: u64) -> Self {
        const IN_ORDER: [u64; 9] = [
            1 << 16,
            1 << 0,
            1 << 1,
            1 << 2,
            1 << 3,
            1 << 6,
            1 << 9,
            1 << 7,
            1 << 8,
        ];
        const CALLCHAIN: u64 = 1 << 5;
        let known = IN_ORDER.iter().sum::<u64>() + CALLCHAIN;
        assert_eq!(sample_type & !known, 0, "parts after the call chain");
        let has = |bit: &u64| sample_type & bit != 0;
        let at = |bit: u64| {
            8 + 8 * IN_ORDER
                .iter()
                .take_while(|&&each| each != bit)
                .filter(|bit| has(bit))
                .count()
        };
        assert!(has(&2) && has(&4), "samples have thread and time");
        Self {
            tid: at(1 << 1) + 4,
            time: at(1 << 2),
            period: has(&(1 << 8)).then(|| at(1 << 8)),
            callchain: has(&CALLCHAIN).then(|| at(0)),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A recording in file mode with its samples cut and weighed anew. Records
/// that say nothing fill the space that becomes free, since the sections
/// after the data are where they were.
fn rewritten(bytes: &[u8], cuts: &HashMap<(i32, u64), Cut>) -> Vec<u8> {
    const SAMPLE: u32 = 9;
    const FINISHED_INIT: u32 = 82;
    // The header: magic, size, size of an attr, then offset and size of the
    // attrs and of the data. An attr begins with type, size, config, period
    // and sample_type.
    let (attr_size, attrs, attrs_size) = (word(bytes, 16), word(bytes, 24), word(bytes, 32));
    let (start, size) = (word(bytes, 40) as usize, word(bytes, 48) as usize);
    let sample_type = |attr: u64| word(bytes, attr as usize + 24);
    let layout = Layout::of(sample_type(attrs));
    for attr in (attrs..attrs + attrs_size).step_by(attr_size as usize) {
        assert_eq!(sample_type(attr), sample_type(attrs), "one layout");
    }
    let mut out = bytes[..start].to_vec();
    let (mut rest, mut count) = (&bytes[start..start + size], 0);
    while !rest.is_empty() {
        let record_size = usize::from(u16::from_ne_bytes([rest[6], rest[7]]));
        let (record, after) = rest.split_at(record_size);
        rest = after;
        let kind = u32::from_ne_bytes(record[..4].try_into().expect("four bytes"));
        if kind == SAMPLE {
            count += 1;
            out.extend(cut_sample(record, &layout, cuts, count).unwrap_or_default());
        } else {
            out.extend(record);
        }
    }
    while out.len() < start + size {
        out.extend(FINISHED_INIT.to_ne_bytes());
        out.extend([0, 0]);
        out.extend(8_u16.to_ne_bytes());
    }
    out.extend(&bytes[start + size..]);
    out
}

/// A sample without what goes; `None` if it goes as a whole.
fn cut_sample(
    record: &[u8],
    layout: &Layout,
    cuts: &HashMap<(i32, u64), Cut>,
    count: u64,
) -> Option<Vec<u8>> {
    /// Entries from here on are no addresses, but say which come next.
    const FIRST_CONTEXT: u64 = 4096_u64.wrapping_neg();
    let tid = word(record, layout.tid & !7) >> 32;
    let cut = &cuts[&(tid as i32, word(record, layout.time))];
    if cut.gone.first() == Some(&0) {
        return None;
    }
    let mut out = record.to_vec();
    if let Some(period) = layout.period {
        out[period..period + 8].copy_from_slice(&period_of(count).to_ne_bytes());
    }
    let Some(chain) = layout.callchain.filter(|_| !cut.gone.is_empty()) else {
        return Some(out);
    };
    out.truncate(chain);
    let (mut kept, mut frame) = (Vec::new(), 0);
    for entry in record[chain + 8..].chunks_exact(8) {
        let is_frame = word(entry, 0) < FIRST_CONTEXT;
        if !is_frame || !cut.gone.contains(&frame) {
            kept.push(word(entry, 0));
        }
        frame += usize::from(is_frame);
    }
    assert_eq!(frame, cut.frames, "frames of the sample in the file");
    out.extend((kept.len() as u64).to_ne_bytes());
    out.extend(kept.iter().flat_map(|entry| entry.to_ne_bytes()));
    let size = u16::try_from(out.len()).expect("it became shorter");
    out[6..8].copy_from_slice(&size.to_ne_bytes());
    Some(out)
}

/// A period between 2^38 and 2^39 that follows from the sample's number and
/// looks random.
fn period_of(count: u64) -> u64 {
    let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (1 << 38) + (mixed >> 26)
}
