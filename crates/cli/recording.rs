//! Opening the recording that a reading command is about, and saying what was
//! wrong with it.

use crate::fifo::Fifo;
use crate::outcome::{Outcome, UsageError, say};
use crate::recognise::{PACKED, is_profile, is_recording};
use anyhow::{Context, bail};
use prof_perfdata::{Damage, Reader};
use prof_profile::{Clock, Counting, TraceField};
use prof_resolve::BranchHistory;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The recording that is read and written where none is named.
const DEFAULT: &str = "perf.data";

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-./:@%+,=".contains(it);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Which recording to read.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Input {
    /// Recording to read: a file, a directory of `perf record --threads`, or -
    /// for stdin
    #[arg(
        short = 'i',
        long = "input",
        value_name = "FILE",
        default_value = DEFAULT,
        allow_hyphen_values = true
    )]
    pub(crate) path: PathBuf,
    /// Read a recording that belongs to another user
    #[arg(short = 'f', long, overrides_with = "force")]
    pub(crate) force: bool,
    /// Functions without a name are shown address by address, as perf does:
    /// scripts read that.
    #[arg(skip)]
    pub(crate) shows_addresses: bool,
    /// What the samples of the profile are; see [`prof_resolve::LoadOptions`].
    #[arg(skip = Some(Counting::Samples))]
    pub(crate) counting: Option<Counting>,
    /// Whether user call chains that were recorded later stay apart.
    #[arg(skip)]
    pub(crate) separate_callchains: bool,
    /// Whether what samples tell beyond who, where and when is kept.
    #[arg(skip)]
    pub(crate) details: bool,
    /// Fields of tracepoints whose values are kept with that.
    #[arg(skip)]
    pub(crate) trace_fields: Vec<TraceField>,
    /// Whether branch stacks are put into call chains.
    #[arg(skip)]
    pub(crate) branch_history: Option<BranchHistory>,
    /// Which time is shown.
    #[arg(skip)]
    pub(crate) clock: Option<Clock>,
    /// Whether waits of pool threads for work are one frame.
    #[arg(skip)]
    pub(crate) folds_idle: bool,
    /// Most frames of a chain, where branches are put into those.
    #[arg(skip)]
    pub(crate) max_stack: Option<usize>,
}

/// With what helps where a recording is another user's, as that of sudo is root's.
fn denied(error: anyhow::Error, path: &Path) -> anyhow::Error {
    let is_denied = error
        .downcast_ref::<io::Error>()
        .is_some_and(|cause| cause.kind() == io::ErrorKind::PermissionDenied);
    let own = prof_sys::process::effective_user();
    let owner = fs::metadata(path).ok().map(|about| about.uid());
    let Some(owner) = owner.filter(|&owner| is_denied && owner != own) else {
        return error;
    };
    let whose = match owner {
        0 => "root".to_owned(),
        other => format!("user {other}"),
    };
    anyhow::anyhow!(
        "{error:#}\n  it is {whose}'s alone\n  try: sudo chown {own} {}   (sudo prof record --user sudo … \
         gives the file to who called sudo)",
        quoted(&path.to_string_lossy())
    )
}

/// Opens a file; of an archive what it holds, in a file without a name.
///
/// # Errors
/// If it cannot be read, or unpacks to much more than a recording would.
pub(crate) fn unpacked(path: &Path) -> anyhow::Result<File> {
    let wrong = || format!("cannot open {}", path.display());
    let mut file = File::open(path)
        .with_context(wrong)
        .map_err(|error| denied(error, path))?;
    let mut magic = [0; 4];
    let is_packed = file.read_exact(&mut magic).is_ok() && magic == PACKED;
    file.seek(SeekFrom::Start(0)).with_context(wrong)?;
    if !is_packed {
        return Ok(file);
    }
    let about = file.metadata().with_context(wrong)?;
    let most = about.len().saturating_mul(128).saturating_add(256 << 20);
    let mut unpacked = nameless(path)?;
    let decoder = zstd::stream::read::Decoder::new(file).with_context(wrong)?;
    let copied = io::copy(&mut decoder.take(most), &mut unpacked)
        .with_context(|| format!("cannot unpack {}", path.display()))?;
    if copied == most {
        bail!("{} unpacks to more than {most} bytes", path.display());
    }
    unpacked.seek(SeekFrom::Start(0))?;
    if let Ok(modified) = about.modified() {
        let _ = unpacked.set_times(FileTimes::new().set_modified(modified));
    }
    Ok(unpacked)
}

/// A file without a name, in the folder for such files or beside `path`.
fn nameless(path: &Path) -> anyhow::Result<File> {
    let beside = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let folders = [
        std::env::temp_dir(),
        beside.unwrap_or(Path::new(".")).to_owned(),
    ];
    let open = |folder: &PathBuf| {
        let mut options = File::options();
        options.read(true).write(true).mode(0o600);
        options.custom_flags(libc::O_TMPFILE).open(folder)
    };
    let [first, second] = &folders;
    open(first)
        .or_else(|_| open(second))
        .context("cannot make a file to unpack the archive into")
}

impl Input {
    /// A file that is read whoever owns it.
    pub(crate) fn of_file(path: PathBuf) -> Self {
        Self {
            path,
            force: true,
            shows_addresses: false,
            counting: Some(Counting::Samples),
            separate_callchains: false,
            details: false,
            trace_fields: Vec::new(),
            branch_history: None,
            clock: None,
            folds_idle: false,
            max_stack: None,
        }
    }

    /// Takes an argument that is a recording for the one to read; gives back
    /// any other, as text.
    pub(crate) fn or_text(&mut self, argument: OsString) -> anyhow::Result<Option<String>> {
        let path = PathBuf::from(argument);
        if !is_recording(&path) && !is_profile(&path) {
            return Ok(Some(path.to_string_lossy().into_owned()));
        }
        if self.path != Path::new(DEFAULT) && self.path != path {
            let message = format!(
                "two recordings, {} and {}: which one?",
                self.name(),
                path.display()
            );
            return Err(UsageError(message).into());
        }
        self.path = path;
        Ok(None)
    }

    /// Opens it.
    pub(crate) fn open(&self) -> anyhow::Result<Reader> {
        let path = &self.path;
        let name = self.name();
        prof_resolve::prepare_threads();
        let opened = if path == Path::new("-") {
            open_stdin()
        } else {
            let about = fs::metadata(path).with_context(|| match path.to_str() {
                Some("perf.data") => {
                    "cannot open perf.data; record one with prof record, or name one with -i"
                        .to_owned()
                }
                Some("perf.data.old") => {
                    "cannot open perf.data.old, which prof record makes of perf.data when it \
                     records again; or name two recordings"
                        .to_owned()
                }
                _ => format!("cannot open {name}"),
            })?;
            self.check_owner(&about)?;
            if about.is_dir() {
                open_directory(path)
            } else if about.is_file() {
                Reader::open_file(unpacked(path)?).map_err(Into::into)
            } else if about.file_type().is_fifo() {
                let fifo = Fifo::open(path).with_context(|| format!("cannot open {name}"))?;
                Reader::open_stream(Box::new(fifo)).map_err(Into::into)
            } else {
                bail!("{name} is not a regular file");
            }
        };
        opened.context(name)
    }

    /// What names it to a command that a message prints: ` -i FILE`, or nothing where
    /// that command finds it by itself.
    pub(crate) fn option(&self) -> String {
        match self.path == Path::new(DEFAULT) {
            true => String::new(),
            false => format!(" -i {}", quoted(&self.path.to_string_lossy())),
        }
    }

    /// Its name for messages.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Who owns its file; `None` for a stream, which anyone may have written.
    pub(crate) fn owner(&self) -> Option<u32> {
        let about = fs::metadata(&self.path).ok()?;
        about.is_file().then(|| about.uid())
    }

    /// Whether it can be read again from its beginning.
    pub(crate) fn is_file(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|about| about.is_file())
    }

    /// When its file was last written to: the recording's end. `None` for a
    /// stream.
    pub(crate) fn last_written(&self) -> Option<SystemTime> {
        let path = match self.path.to_str() {
            Some("-") => PathBuf::from("/dev/stdin"),
            _ if self.path.is_dir() => self.path.join("data"),
            _ => self.path.clone(),
        };
        let about = fs::metadata(path).ok()?;
        about.is_file().then(|| about.modified().ok()).flatten()
    }

    /// perf's rule: a recording is read only if it is ours or root's, since
    /// what it names is opened.
    fn check_owner(&self, about: &fs::Metadata) -> anyhow::Result<()> {
        let own = fs::metadata("/proc/self").map_or(about.uid(), |process| process.uid());
        if self.force || about.uid() == own || about.uid() == 0 {
            return Ok(());
        }
        bail!(
            "{} belongs to user {}, not to you (user {own}) or root; add -f to read it anyway",
            self.name(),
            about.uid()
        );
    }

    /// Says each damage once, in the order of the file; the outcome of a
    /// command that showed the rest.
    pub(crate) fn say_damages(&self, reader: &Reader) -> Outcome {
        self.say_notes(reader);
        let damages = reader.damages();
        let Some(first) = damages.first() else {
            return Outcome::Done;
        };
        const SHOWN: usize = 10;
        for damage in damages.iter().take(SHOWN) {
            say(&format!("{}: {damage}", self.name()));
        }
        let more = damages.len().saturating_sub(SHOWN) as u64 + reader.notes().more_damages;
        if more > 0 {
            say(&format!("{}: {more} more places are damaged", self.name()));
        }
        say(&format!(
            "{}: the recording is damaged, first at {:#x}; shown is what is whole, {} bytes were skipped",
            self.name(),
            first.offset,
            total_skipped(damages)
        ));
        Outcome::Damaged
    }

    /// Says what is new to us: nothing is wrong with the recording.
    fn say_notes(&self, reader: &Reader) {
        let notes = reader.notes();
        let name = self.name();
        for (kind, count) in notes.unknown_records.iter().take(10) {
            say(&format!(
                "{name}: {count} records of type {kind} are not known here and not shown in full"
            ));
        }
        if notes.unknown_ids > 0 {
            say(&format!(
                "{name}: {} samples have an event id that no event of the recording has",
                notes.unknown_ids
            ));
        }
        let bits = [
            ("sample_type", notes.unknown_sample_bits),
            ("attr flags", notes.unknown_flag_bits),
            ("read_format", notes.unknown_read_bits),
        ];
        for (field, bits) in bits.into_iter().filter(|(_, bits)| *bits != 0) {
            say(&format!(
                "{name}: bits {bits:#x} of {field} are not known here"
            ));
        }
        if notes.longer_attr > 0 {
            say(&format!(
                "{name}: the attrs are {} bytes longer than known here",
                notes.longer_attr
            ));
        }
        // What an unfinished file ends with is a part of a record.
        if let Some(rest) = notes.ownerless.filter(|_| !notes.unfinished) {
            let (size, offset, end) = (rest.size, rest.offset, rest.end());
            say(&format!(
                "{name}: the last section ends at {offset:#x}, but the file at {end:#x}: \
                 {size} bytes belong to nothing"
            ));
        }
        if notes.unfinished {
            say(&format!(
                "{name}: the recording ended early: its recorder did not finish the file; shown \
                 is what it wrote"
            ));
        }
        for bit in &notes.unknown_features {
            say(&format!("{name}: feature section {bit} is not known here"));
        }
    }
}

fn total_skipped(damages: &[Damage]) -> u64 {
    damages
        .iter()
        .fold(0_u64, |sum, damage| sum.saturating_add(damage.bytes))
}

fn open_stdin() -> anyhow::Result<Reader> {
    if io::stdin().is_terminal() {
        bail!(
            "stdin is a terminal; give a recording, as in: prof record -o - ./app | prof dump -i -"
        );
    }
    // `prof dump -i - < perf.data` may be of either mode.
    let stdin = io::stdin();
    let stdin: std::os::fd::OwnedFd = std::os::fd::AsFd::as_fd(&stdin).try_clone_to_owned()?;
    let file = File::from(stdin);
    if file.metadata()?.is_file() {
        return Ok(Reader::open_file(file)?);
    }
    Ok(Reader::open_stream(Box::new(file))?)
}

/// `data`, then `data.0`, `data.1`, … by number.
fn open_directory(folder: &Path) -> anyhow::Result<Reader> {
    let data = File::open(folder.join("data"))
        .context("is a directory without a file `data`; perf record --threads makes one with it")?;
    let mut numbered = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("data."));
        if let Some(number) = number.and_then(|number| number.parse::<u32>().ok())
            && entry.file_type()?.is_file()
        {
            numbered.push((number, entry.path()));
        }
    }
    numbered.sort();
    let streams: Result<Vec<File>, _> = numbered.iter().map(|(_, path)| File::open(path)).collect();
    Ok(Reader::open_directory(data, streams?)?)
}
