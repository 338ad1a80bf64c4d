//! Why a recording cannot be written.

use std::io;
use std::path::{Path, PathBuf};

/// The recording could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The name is a directory's.
    #[error("cannot write the recording to {}: it is a directory\n  try: -o {}/perf.data", .0.display(), .0.display())]
    Directory(PathBuf),
    /// Its folder is not for this user to enter.
    #[error(
        "cannot write the recording to {}: this user may not enter the folder\n  try: -o /tmp/perf.data", .0.display()
    )]
    Folder(PathBuf),
    /// Somebody else made the link, so following it might overwrite what they
    /// could not.
    #[error(
        "cannot write the recording to {}: it is a symbolic link made by user {owner}\n  try: -o another name, or remove the link",
        link.display()
    )]
    ForeignLink {
        /// The link.
        link: PathBuf,
        /// Who made it.
        owner: u32,
    },
    /// Links led on for too long.
    #[error("cannot write the recording to {}: too many symbolic links", .0.display())]
    LinkLoop(PathBuf),
    /// A recording is not text.
    #[error(
        "cannot write the recording to a terminal\n  try: prof record -o - … | prof report -i -"
    )]
    Terminal,
    /// It was given up before anybody opened the FIFO for reading.
    #[error("nobody has opened {} for reading; nothing is recorded", .0.display())]
    NoReader(PathBuf),
    /// Whoever read the stream does so no more.
    #[error("cannot write the recording to {}: its reader has gone away (EPIPE)", .0.display())]
    ReaderGone(PathBuf),
    /// Whoever should read the stream takes nothing, and was given up.
    #[error("cannot write the recording to {}: its reader takes no more, and was given up", .0.display())]
    ReaderStuck(PathBuf),
    /// Only files are packed.
    #[error(
        "cannot compress what goes to {}: it is no file\n  try: without -z, through zstd(1)", .0.display()
    )]
    Packed(PathBuf),
    /// There can be no file after it.
    #[error(
        "cannot write several recordings to {}: it is no file\n  try: -o a file, without --switch-output, --timestamp-filename and --overwrite", .0.display()
    )]
    NoFile(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Makes an error of what failed with a file or a pipe.
pub(crate) fn io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> OutputError + use<'a> {
    move |source| match source.kind() {
        io::ErrorKind::BrokenPipe => OutputError::ReaderGone(path.to_owned()),
        io::ErrorKind::TimedOut => OutputError::ReaderStuck(path.to_owned()),
        _ => OutputError::Io {
            doing,
            path: path.to_owned(),
            source,
        },
    }
}
