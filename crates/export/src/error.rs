//! Why there is no export.

use std::io;
use thiserror::Error;

/// Why there is no export.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// No sample was chosen.
    #[error("there is nothing to export: {}", match .hidden {
        0 => "the recording has no samples".to_owned(),
        hidden => format!("the options leave out all {hidden} samples"),
    })]
    Nothing {
        /// How many samples there are.
        hidden: usize,
    },
    /// No chosen sample has a branch in a file.
    #[error("there is nothing to export: no sample has a branch in a file")]
    NoBranches,
    /// The file that most branches are in could not be read, so that it is not
    /// known which addresses in it they are.
    #[error(
        "cannot tell addresses in {path}, which most branches are in: the file is not here, not \
         readable or another build\n  try: --symfs FOLDER, where it is below FOLDER"
    )]
    FileNotRead {
        /// Its path, fit for a terminal.
        path: String,
    },
    /// The format is [`MadeOf::Records`](crate::MadeOf::Records).
    #[error("this format is made of records, not of a profile")]
    OfRecords,
    /// The output cannot be written to.
    #[error(transparent)]
    Io(#[from] io::Error),
}
