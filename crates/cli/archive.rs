//! `prof archive`: a recording with the names of what was sampled, as one
//! compressed file to send.

use crate::embed::{Embedded, Texts, Wish, embed};
use crate::fetching;
use crate::inject;
use crate::outcome::{Outcome, UsageError, say};
use crate::recording::Input;
use anyhow::{Context, bail};
use prof_inject::{Additions, Source};
use prof_profile::Redaction;
use std::ffi::OsString;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  prof archive                      perf.data, with names, to perf.data.zst
  prof archive other.data -o a.zst  another one
  prof report -i perf.data.zst      what the receiver does; needs no other file
  prof archive -o - | ssh host 'cat > a.zst'
  prof archive --in-place           only puts the names into perf.data
  prof archive --redact             for strangers: no folders, arguments, host name
  zstd -d perf.data.zst             makes a perf.data that perf reads, too

Names, source lines and the code of the hottest functions go in, of any
recording, whoever made it. Texts of source files go in with --embed=source.
Stacks that were dumped and not unwound (--call-graph dwarf) still need the
programs: prof inject --convert-callchain first.

perf archive packs copies of programs from ~/.debug, where perf record puts them.
prof record does not (only of containers' files), so that perf archive packs nothing
of its recordings, unless they are put there first:
  perf buildid-list --with-hits | cut -d' ' -f2- | grep ^/ |
    xargs -d'\\n' -n1 perf buildid-cache -a

--redact puts numbers in the place of folders (/r1/app) and leaves out the
recorder's command line, the host's name and what nobody can look through.
Names of files, functions, threads and events stay, as do ids and times.";

/// Put names into a recording and pack it into one file to send
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The recording, as -i FILE
    #[arg(value_name = "FILE")]
    file: Option<OsString>,
    /// The archive: a file, or - for stdout [default: the recording's name and .zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Put names into the recording itself; write no archive
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Also the texts of the source files of the hottest functions: source
    #[arg(long, value_name = "WHAT", require_equals = true, value_parser = texts)]
    embed: Option<Texts>,
    /// Take out folders of files, the recorder's arguments and the host's name
    #[arg(long, conflicts_with_all = ["in_place", "embed"])]
    redact: bool,
    /// Fetch programs and debug information that are not here [default: from $DEBUGINFOD_URLS]
    #[arg(long, value_name = "URLS", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = fetching::settings)]
    debuginfod: Option<prof_debuginfod::Settings>,
}

/// What `--embed=` takes.
pub(crate) fn texts(text: &str) -> Result<Texts, String> {
    match text {
        "source" => Ok(Texts::Source),
        _ => Err("there is --embed=source; names and code are embedded without it".into()),
    }
}

/// Packs the recording.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let input = input_of(args.input, args.file)?;
    let wish = Wish {
        texts: args.embed.unwrap_or_default(),
        redaction: args.redact.then(Arc::default),
        fetch: args.debuginfod.as_ref().and_then(fetching::fetcher),
        own_kallsyms: None,
        at_hand: Vec::new(),
        limit: None,
    };
    if args.in_place {
        check_takes_names(&input)?;
        let outcome = input.say_damages(&input.open()?);
        let path = input.path.clone();
        embed(&input, &path, wish)?;
        return Ok(outcome);
    }
    let output = match args.output {
        Some(output) => output,
        None => beside(&input)?,
    };
    if output == Path::new("-") {
        inject::refuse_terminal()?;
        let folder = tempfile::tempdir().context("cannot make a folder for the copy")?;
        let part = folder.path().join("perf.data");
        let outcome = write_named(&input, &part, wish)?;
        let packed = pack_into(&part, io::stdout().lock());
        return packed
            .map(|_| outcome)
            .context("cannot write to standard output");
    }
    inject::refuse_special(&output, "-o - for standard output, or another -o FILE")?;
    let part = TemporaryFile(with(&output, ".part"));
    let outcome = write_named(&input, &part.0, wish)?;
    let sizes = pack(&part.0, &output, &input)?;
    say(&format!(
        "{} has {} bytes, of {} with names; prof report -i {} needs nothing else",
        output.display(),
        sizes.1,
        sizes.0,
        output.display()
    ));
    Ok(outcome)
}

/// The recording that is to be packed: a file.
fn input_of(mut input: Input, file: Option<OsString>) -> anyhow::Result<Input> {
    if let Some(file) = file
        && let Some(text) = input.or_text(file)?
    {
        // Says why it cannot be opened.
        input.path = text.into();
        input.open()?;
    }
    let about = fs::metadata(&input.path);
    if !about.is_ok_and(|about| about.is_file()) {
        // Says why it cannot be opened.
        input.open()?;
        bail!(
            "{} is no file; prof inject -b -i {} -o FILE makes one",
            input.name(),
            input.name()
        );
    }
    Ok(input)
}

/// Refuses to add names to what has no room for them.
fn check_takes_names(input: &Input) -> anyhow::Result<()> {
    if input.open()?.takes_sections() {
        return Ok(());
    }
    bail!(
        "{} is a stream, was not finished, or has something else at its end: no names can be added \
         to it\n  try: prof archive{}   (packs a finished copy)",
        input.name(),
        input.option()
    );
}

/// Puts a copy without private things, and with names where they are wished
/// for, in the place of a recording that has just been made. Whose it is and
/// who reads it stays.
///
/// # Errors
/// If there cannot be such a copy; then the recording is as it was.
pub(crate) fn redact_in_place(path: &Path, names: Option<Wish>) -> anyhow::Result<Embedded> {
    let input = Input::of_file(path.to_owned());
    let redaction: Arc<Redaction> = Arc::default();
    let part = TemporaryFile(with(path, ".part"));
    rewritten(&input, &part.0, Some(Arc::clone(&redaction)))?;
    let embedded = match names {
        Some(wish) => {
            let redaction = Some(redaction);
            embed(&input, &part.0, Wish { redaction, ..wish })?
        }
        None => Embedded::All,
    };
    let wrong = || format!("cannot write {}", part.0.display());
    let about = fs::metadata(path).with_context(wrong)?;
    fs::set_permissions(&part.0, about.permissions()).with_context(wrong)?;
    // Only root may give files away, and only there it is needed.
    let _ = chown(&part.0, Some(about.uid()), Some(about.gid()));
    fs::rename(&part.0, path).with_context(wrong)?;
    Ok(embedded)
}

/// A copy of the recording with what is wished for in it; says what of it is damaged.
fn write_named(input: &Input, to: &Path, wish: Wish) -> anyhow::Result<Outcome> {
    let outcome = match wish.redaction.clone() {
        Some(redaction) => rewritten(input, to, Some(redaction))?,
        None if input.open()?.takes_sections() => {
            copy(&input.path, to)?;
            input.say_damages(&input.open()?)
        }
        // A stream, or a file that was not finished: a finished one of its records.
        None => rewritten(input, to, None)?,
    };
    embed(input, to, wish)?;
    Ok(outcome)
}

/// A file that goes when it is not needed any more.
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The archive of a recording where none is named.
fn beside(input: &Input) -> anyhow::Result<PathBuf> {
    let is_packed = input.path.extension().is_some_and(|it| it == "zst");
    if is_packed {
        return Err(UsageError(format!(
            "{} is packed by its name; a new archive needs one\n  try: prof archive{} -o FILE.zst",
            input.name(),
            input.option()
        ))
        .into());
    }
    Ok(with(&input.path, ".zst"))
}

/// `path` with something behind it.
fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// A new file that only its owner reads.
fn create(path: &Path) -> anyhow::Result<File> {
    // One that a killed run left.
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(path);
    file.with_context(|| format!("cannot write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut source = crate::recording::unpacked(from)?;
    let mut copy = create(to)?;
    io::copy(&mut source, &mut copy).with_context(|| format!("cannot write {}", to.display()))?;
    written_as(&source, &copy);
    Ok(())
}

/// Gives a file the time of another: it says when a recording ended.
fn written_as(source: &File, copy: &File) {
    if let Ok(modified) = source.metadata().and_then(|about| about.modified()) {
        let _ = copy.set_times(FileTimes::new().set_modified(modified));
    }
}

/// Copies the records of a recording into a finished one; with a redaction without what
/// tells of its machine and users. Says what of it is damaged, and so is not copied.
fn rewritten(
    input: &Input,
    to: &Path,
    redaction: Option<Arc<Redaction>>,
) -> anyhow::Result<Outcome> {
    let file = crate::recording::unpacked(&input.path)?;
    let section = |offset, size| inject::read_section(&file, offset, size);
    let source = Source {
        reader: input.open()?,
        section: &section,
    };
    let additions = Additions {
        redaction,
        ..Additions::default()
    };
    let copied = inject::into_file(source, &additions, to);
    let (_, reader) = copied.with_context(|| format!("{} cannot be copied", input.name()))?;
    written_as(&file, &File::options().write(true).open(to)?);
    Ok(input.say_damages(&reader))
}

/// Packs a file; bytes before, and what it was packed into.
fn pack_into<W: Write>(from: &Path, to: W) -> io::Result<(u64, W)> {
    /// As the tool's default: fast, and a recording packs well.
    const LEVEL: i32 = 3;
    let source = File::open(from)?;
    let size = source.metadata()?.len();
    let mut encoder = zstd::stream::write::Encoder::new(to, LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_pledged_src_size(Some(size))?;
    io::copy(&mut BufReader::new(source), &mut encoder)?;
    let mut packed = encoder.finish()?;
    packed.flush()?;
    Ok((size, packed))
}

/// Packs a file; bytes before and after.
fn pack(from: &Path, to: &Path, input: &Input) -> anyhow::Result<(u64, u64)> {
    let wrong = || format!("cannot write {}", to.display());
    let new = TemporaryFile(with(to, ".new"));
    let (size, packed) = pack_into(from, create(&new.0)?).with_context(wrong)?;
    // As the recording's: it says when that ended.
    if let Some(modified) = input.last_written() {
        let _ = packed.set_times(FileTimes::new().set_modified(modified));
    }
    let packed_size = packed.metadata()?.len();
    fs::rename(&new.0, to).with_context(wrong)?;
    Ok((size, packed_size))
}
