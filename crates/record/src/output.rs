//! Where a recording goes: a file that takes its name when its header is
//! valid, or a stream.

use crate::consumer::Consumer;
use crate::output_error::{OutputError, io_error};
use crate::placing::{Placed, hidden_name};
use crate::stream::{KeepWaiting, Reader, Stream};
use prof_perfdata::write::{EventDescription, Features, FileWriter, Kept, Packing, PipeWriter};
use prof_sys::process::effective_user;
use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Where a recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A file; the one that has the name now becomes `NAME.old`. A FIFO, socket
    /// or device of that name is written to as a stream.
    File(PathBuf),
    /// Standard output, as a stream.
    Stdout,
}

/// A destination before there is anything to write.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Open, with a name for messages.
    Stream(Stream, PathBuf),
    /// The name of a file, links followed.
    File(PathBuf),
}

impl Destination {
    /// Opens a stream, or looks where a file will be. While a FIFO has no
    /// reader, `keep_waiting` is asked.
    pub(crate) fn open(&self, keep_waiting: KeepWaiting<'_>) -> Result<Opened, OutputError> {
        let (stream, path) = match self {
            Self::Stdout => {
                let path = PathBuf::from("standard output");
                let stream = Stream::stdout().map_err(io_error("write to", &path))?;
                (stream, path)
            }
            Self::File(name) => {
                let path = follow_trusted_links(name)?;
                let stream = match kind_of(&path)? {
                    Kind::Directory => return Err(OutputError::Directory(path)),
                    Kind::File => return Ok(Opened::File(path)),
                    Kind::Special(kind) => Stream::open(&path, kind, keep_waiting),
                };
                let stream = stream.map_err(io_error("open", &path))?;
                let stream = stream.ok_or_else(|| OutputError::NoReader(path.clone()))?;
                (stream, path)
            }
        };
        match stream.is_terminal() {
            true => Err(OutputError::Terminal),
            false => Ok(Opened::Stream(stream, path)),
        }
    }
}

/// A recording that is being written. At every moment since it was begun,
/// what was flushed is a readable recording under its
/// final name.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
    reader: Option<Reader>,
    path: PathBuf,
    events: Vec<EventDescription>,
    features: Features,
    making: Making,
    placed: Option<Placed>,
}

/// How files are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Making {
    /// User and group who are to own them, if not whoever makes them.
    pub(crate) owner: Option<(u32, u32)>,
    /// Which records are packed.
    pub(crate) packing: Packing,
}

/// A file that is not in its place yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    temporary: PathBuf,
    /// Where it is to be, for messages.
    path: PathBuf,
    writer: FileWriter<File>,
}

impl Prepared {
    /// A file beside `path` with a valid header.
    pub(crate) fn new(
        path: &Path,
        events: &[EventDescription],
        making: Making,
    ) -> Result<Self, OutputError> {
        let (temporary, file) = create_temporary(path).map_err(io_error("create", path))?;
        let given = match making.owner {
            Some((uid, gid)) => fchown(&file, Some(uid), Some(gid)),
            None => Ok(()),
        };
        let given = given.map_err(io_error("give to the user who is to own it:", path));
        let begun = given.and_then(|()| {
            let mut writer = FileWriter::new(file, events);
            if let Ok(writer) = &mut writer {
                let packing = writer.pack(making.packing);
                packing.map_err(io_error("compress", path))?;
            }
            writer.map_err(io_error("write to", path))
        });
        match begun {
            Ok(writer) => Ok(Self {
                temporary,
                path: path.to_owned(),
                writer,
            }),
            Err(error) => {
                let _ = remove(&temporary);
                Err(error)
            }
        }
    }

    /// After an error: makes it valid as far as it was written.
    pub(crate) fn salvage(&mut self) -> Kept {
        self.writer.salvage()
    }

    /// Appends whole records.
    pub(crate) fn write(&mut self, records: &[u8]) -> Result<(), OutputError> {
        let written = self.writer.write(records);
        written.map_err(io_error("write to", &self.path))
    }

    /// Ends it.
    pub(crate) fn end(&mut self, features: &Features) -> Result<(), OutputError> {
        let ended = self.writer.end(features);
        ended.map_err(io_error("finish", &self.path))
    }

    /// Gives it the name `path`, over what may have it.
    pub(crate) fn place(self, path: &Path) -> Result<FileWriter<File>, OutputError> {
        match fs::rename(&self.temporary, path) {
            Ok(()) => Ok(self.writer),
            Err(error) => {
                self.discard();
                Err(io_error("name", path)(error))
            }
        }
    }

    /// Removes it.
    pub(crate) fn discard(self) {
        // The error in hand says more than a failure to clean up would.
        let _ = remove(&self.temporary);
    }

    /// Removes it where there is no other error to tell.
    pub(crate) fn remove(self) -> Result<(), OutputError> {
        remove(&self.temporary).map_err(io_error("remove", &self.temporary))
    }
}

/// Removes a file that nobody knows of but us, and tries that again: it would
/// stay, hidden, for good.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(|_| fs::remove_file(path))
}

#[derive(Debug)]
enum Sink {
    File(FileWriter<File>),
    Stream(PipeWriter<Stream>),
}

impl Output {
    /// Opens the destination and writes header and events. `features` is what
    /// is known at the start; a stream can carry no later ones. Waits for the
    /// reader of a FIFO.
    ///
    /// # Errors
    /// If the destination cannot be opened or written to.
    pub fn create(
        destination: &Destination,
        events: &[EventDescription],
        features: Features,
    ) -> Result<Self, OutputError> {
        let opened = destination.open(&mut |tick| {
            std::thread::sleep(tick);
            true
        });
        let mut output = Self::begin(opened?, events, features, Making::default())?;
        output.placed().map_or(Ok(()), Placed::keep)?;
        Ok(output)
    }

    /// Writes header and events, as [`Output::create`]; `making` says how a file is made.
    pub(crate) fn begin(
        opened: Opened,
        events: &[EventDescription],
        features: Features,
        making: Making,
    ) -> Result<Self, OutputError> {
        let (mut reader, mut placed) = (None, None);
        let (path, sink) = match opened {
            Opened::Stream(stream, path) => {
                reader = Some(stream.reader().map_err(io_error("watch", &path))?);
                let writer = PipeWriter::new(stream, events, &features);
                let mut writer = writer.map_err(io_error("write to", &path))?;
                writer.pack(making.packing);
                (path, Sink::Stream(writer))
            }
            Opened::File(path) => {
                let file = Prepared::new(&path, events, making)?;
                match Placed::new(&file.temporary, &path) {
                    Ok(here) => placed = Some(here),
                    Err(error) => {
                        file.discard();
                        return Err(error);
                    }
                }
                (path, Sink::File(file.writer))
            }
        };
        Ok(Self {
            sink,
            reader,
            path,
            events: events.to_vec(),
            features,
            making,
            placed,
        })
    }

    /// Makes the file that is to follow this one.
    pub(crate) fn prepare(&self) -> Result<Prepared, OutputError> {
        Prepared::new(&self.path, &self.events, self.making)
    }

    /// Ends the file as [`Consumer::finish`] does; nothing may be written until
    /// [`Output::begin_file`].
    pub(crate) fn end_file(&mut self, late: Features) -> Result<(), OutputError> {
        let mut features = self.features.clone();
        features.merge(late);
        // Not forced to the disk: that takes seconds for a large recording
        // and matters only when the machine, not the recorder, dies.
        match &mut self.sink {
            Sink::File(writer) => writer.end(&features),
            Sink::Stream(writer) => writer.end(&features),
        }
        .map_err(io_error("finish", &self.path))
    }

    /// Goes on with a new file, which takes the name.
    pub(crate) fn begin_file(&mut self, next: Prepared) -> Result<(), OutputError> {
        self.sink = Sink::File(next.place(&self.path)?);
        Ok(())
    }

    /// Whoever reads the stream; `None` of a file.
    pub(crate) fn reader(&mut self) -> Option<Reader> {
        self.reader.take()
    }

    /// The file's place, to be kept when the recording has begun; `None` of a
    /// stream.
    pub(crate) fn placed(&mut self) -> Option<Placed> {
        self.placed.take()
    }

    /// The file's name with links followed; for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Consumer for Output {
    fn records(&mut self, records: &[u8]) -> Result<(), OutputError> {
        match &mut self.sink {
            Sink::File(writer) => writer.write(records),
            Sink::Stream(writer) => writer.write(records),
        }
        .map_err(io_error("write to", &self.path))
    }

    fn trace(&mut self, record: &[u8], trace: &[u8]) -> Result<(), OutputError> {
        match &mut self.sink {
            Sink::File(writer) => writer.write_trace(record, trace),
            Sink::Stream(writer) => writer.write_trace(record, trace),
        }
        .map_err(io_error("write to", &self.path))
    }

    /// After an error the recording is what it was at the last flush, or
    /// salvaged.
    fn flush(&mut self) -> Result<(), OutputError> {
        match &mut self.sink {
            Sink::File(writer) => writer.flush(),
            Sink::Stream(writer) => writer.flush(),
        }
        .map_err(io_error("write to", &self.path))
    }

    /// Makes a file valid as far as it was written.
    fn salvage(&mut self) -> Option<Kept> {
        Some(match &mut self.sink {
            Sink::File(writer) => writer.salvage(),
            Sink::Stream(writer) => writer.salvage(),
        })
    }

    fn is_stream(&self) -> bool {
        matches!(self.sink, Sink::Stream(_))
    }

    fn size(&self) -> u64 {
        match &self.sink {
            Sink::File(writer) => writer.data_size(),
            Sink::Stream(writer) => writer.data_size(),
        }
    }

    /// Flushes and, in a file, adds the feature sections: those given at the
    /// start and `late` ones, which win; in a stream those of prof's own.
    fn finish(mut self: Box<Self>, late: Features) -> Result<(), OutputError> {
        self.end_file(late)
    }
}

enum Kind {
    /// A regular file, or nothing yet.
    File,
    Directory,
    /// FIFO, device, socket: nothing that could be renamed over.
    Special(FileType),
}

fn kind_of(path: &Path) -> Result<Kind, OutputError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kind::File),
        // Nothing but entering folders is asked for here.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(OutputError::Folder(path.to_owned()))
        }
        Err(error) => Err(io_error("write the recording to", path)(error)),
        Ok(metadata) => {
            let kind = metadata.file_type();
            let special = kind.is_fifo() || kind.is_char_device() || kind.is_block_device();
            Ok(if kind.is_dir() {
                Kind::Directory
            } else if special || kind.is_socket() {
                Kind::Special(kind)
            } else {
                Kind::File
            })
        }
    }
}

/// The name behind symbolic links that we or root made. A link of somebody
/// else could send root's recording over a file of the linker's choice.
fn follow_trusted_links(name: &Path) -> Result<PathBuf, OutputError> {
    const MOST_LINKS: usize = 16;
    let own = effective_user();
    let mut path = name.to_owned();
    for _ in 0..MOST_LINKS {
        let link = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.file_type().is_symlink() => metadata,
            _ => return Ok(path),
        };
        if link.uid() != 0 && link.uid() != own {
            let owner = link.uid();
            return Err(OutputError::ForeignLink { link: path, owner });
        }
        let target = fs::read_link(&path).map_err(io_error("follow", &path))?;
        let next = path.parent().unwrap_or(Path::new("")).join(target);
        if fs::symlink_metadata(&next).is_err() && fs::metadata(&path).is_ok() {
            // A link of /proc/self/fd, whose text is no path.
            return Ok(path);
        }
        path = next;
    }
    Err(OutputError::LinkLoop(name.to_owned()))
}

/// A file of a new name in the directory of `path`, for its owner only.
fn create_temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    const MOST_TRIES: u32 = 100;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for attempt in 0..MOST_TRIES {
        let temporary = path.with_file_name(hidden_name(name, std::process::id(), attempt));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary);
        match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return Ok((temporary, other?)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::{Destination, Output, OutputError, follow_trusted_links};
    use crate::consumer::Consumer;
    use prof_abi::EventAttr;
    use prof_perfdata::write::{EventDescription, Features, finished_round};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn create(path: &Path) -> Result<Output, OutputError> {
        let event = EventDescription {
            attr: EventAttr::default(),
            ids: vec![1],
            name: "cpu-clock".into(),
        };
        let destination = Destination::File(path.to_owned());
        Output::create(&destination, &[event], Features::default())
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("directory");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("entry").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_recording_has_its_name_from_the_start_and_is_private() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("perf.data");
        let mut output = create(&path).expect("created");
        let mut record = Vec::new();
        finished_round(&mut record);
        output.records(&record).expect("written");
        output.flush().expect("flushed");
        let bytes = fs::read(&path).expect("there already");
        assert_eq!(bytes[..8], *b"PERFILE2");
        assert!(bytes.ends_with(&record));
        assert_eq!(names(directory.path()), ["perf.data"]);
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        Box::new(output)
            .finish(Features::default())
            .expect("finished");
    }

    #[test]
    fn the_recording_before_becomes_old() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("perf.data");
        fs::write(&path, "before").expect("written");
        fs::write(directory.path().join("perf.data.old"), "long before").expect("written");
        create(&path).expect("created");
        assert_eq!(names(directory.path()), ["perf.data", "perf.data.old"]);
        let old = fs::read_to_string(directory.path().join("perf.data.old"));
        assert_eq!(old.expect("there"), "before");
    }

    #[test]
    fn an_own_link_is_followed_and_stays() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let link = directory.path().join("link");
        symlink("real", &link).expect("linked");
        create(&link).expect("created");
        assert!(link.symlink_metadata().expect("there").is_symlink());
        assert_eq!(names(directory.path()), ["link", "real"]);
    }

    #[test]
    fn a_link_of_somebody_else_is_refused() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").expect("written");
        let link = directory.path().join("perf.data");
        symlink("victim", &link).expect("linked");
        // To somebody else, whoever runs this.
        let own = std::os::unix::fs::MetadataExt::uid(&directory.path().metadata().expect("there"));
        let other = if own == 65534 { 65533 } else { 65534 };
        if let Err(error) = std::os::unix::fs::lchown(&link, Some(other), None) {
            println!("skipped: cannot give a link away: {error}");
            return;
        }
        let refused = create(&link);
        assert!(matches!(
            refused,
            Err(OutputError::ForeignLink { owner, .. }) if owner == other
        ));
        assert_eq!(fs::read_to_string(victim).expect("there"), "precious");
    }

    #[test]
    fn links_in_a_circle_end() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        symlink("two", &one).expect("linked");
        symlink("one", &two).expect("linked");
        assert!(matches!(
            follow_trusted_links(&one),
            Err(OutputError::LinkLoop(_))
        ));
    }

    #[test]
    fn a_directory_is_refused_with_a_suggestion() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let error = create(directory.path()).expect_err("a directory");
        assert!(matches!(error, OutputError::Directory(_)));
        assert!(error.to_string().contains("/perf.data"));
        assert_eq!(names(directory.path()), Vec::<String>::new());
    }

    #[test]
    fn a_device_gets_a_stream() {
        let mut output = create(Path::new("/dev/null")).expect("opened");
        output.records(&[0; 8]).expect("swallowed");
        Box::new(output)
            .finish(Features::default())
            .expect("finished");
        assert!(Path::new("/dev/null").exists());
    }

    #[test]
    fn a_failure_leaves_no_temporary_behind() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("perf.data");
        fs::write(&path, "before").expect("written");
        // A directory in the way of `.old` makes the rename fail.
        fs::create_dir_all(directory.path().join("perf.data.old/x")).expect("made");
        assert!(create(&path).is_err());
        assert_eq!(names(directory.path()), ["perf.data", "perf.data.old"]);
        assert_eq!(fs::read_to_string(path).expect("kept"), "before");
    }
}
