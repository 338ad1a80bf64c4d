//! How a command ended, as an exit code; and errors as text.

use std::io::{self, Write};
use std::process::ExitCode;

/// How a command that did not fail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well: 0.
    Done,
    /// What was shown comes from a damaged file: 3.
    Damaged,
    /// The code that ends the process: a recorded command's own, 126, 127, 130.
    Code(u8),
    /// The signal that ended a recorded command: it ends us too.
    Signal(i32),
}

impl Outcome {
    /// The exit code of the process.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Damaged => ExitCode::from(3),
            Self::Code(code) => ExitCode::from(code),
            Self::Signal(signal) => {
                prof_sys::signal::die_by(signal);
                // It was one that does not end a process after all.
                ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
            }
        }
    }
}

/// A mistake in how the command was called: exit code 2 instead of 1.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Whether the reader of our output has gone away, which is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Writes `prof: ` and the chain of causes to stderr; returns the exit code.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    say(&chain_of_causes(error));
    let is_usage = error.chain().any(|cause| cause.is::<UsageError>());
    ExitCode::from(if is_usage { 2 } else { 1 })
}

/// Prints what clap has to say and ends the process: help and versions on
/// stdout with 0, or 1 if they cannot be written; usage errors on stderr with 2.
pub(crate) fn end_by(message: &clap::Error) -> ! {
    let printed = message.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(error) if !message.use_stderr() && error.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("cannot write to standard output: {error}"));
            std::process::exit(1)
        }
        _ => std::process::exit(message.exit_code()),
    }
}

/// Says that there was no memory; the exit code.
pub(crate) fn out_of_memory() -> ExitCode {
    // Nowhere to report a failure of stderr to.
    let _ = io::stderr().write_all(prof_sys::out_of_memory::message().as_bytes());
    ExitCode::FAILURE
}

/// The error and its causes, joined by `: `. Errors whose text tells their
/// cause already are not followed by it again.
pub(crate) fn chain_of_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    if !text.contains("try: ") {
        let cure = cure_of(error, &text).unwrap_or_default();
        text.push_str(cure);
    }
    text
}

/// What helps where a file cannot be written.
fn cure_of(error: &anyhow::Error, text: &str) -> Option<&'static str> {
    let is_of_new_file = text.starts_with("cannot create ");
    let errnos = error.chain().filter_map(|cause| {
        let cause: &io::Error = cause.downcast_ref()?;
        cause.raw_os_error()
    });
    Some(match errnos.last()? {
        libc::EFBIG => "\n  files may not be larger here\n  try: a larger ulimit -f",
        libc::ENOSPC | libc::EDQUOT => "\n  try: a file on another file system, or free some space",
        libc::EROFS => "\n  try: a file in another folder, as /tmp",
        libc::EACCES if is_of_new_file => {
            "\n  this user may not write to that folder\n  try: -o /tmp/perf.data"
        }
        libc::ENOENT if is_of_new_file => {
            "\n  there is no such folder\n  try: mkdir -p with its name, or another -o"
        }
        _ => return None,
    })
}

/// One message on stderr. Names from files may be in it, so control
/// characters other than line ends are made visible.
pub(crate) fn say(message: &str) {
    let mut text = String::with_capacity(message.len());
    for character in message.chars() {
        match character {
            '\n' => text.push('\n'),
            hidden if hidden.is_control() => text.extend(hidden.escape_default()),
            visible => text.push(visible),
        }
    }
    // Nowhere to report a failure of stderr to.
    let _ = writeln!(io::stderr().lock(), "prof: {text}");
}

#[cfg(test)]
mod tests {
    use super::chain_of_causes;
    use anyhow::anyhow;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file")
            .context("cannot start ./app: no such file")
            .context("record");
        assert_eq!(
            chain_of_causes(&error),
            "record: cannot start ./app: no such file"
        );
        let error = anyhow!("not permitted").context("no priority 50: not permitted\n  try: sudo");
        assert_eq!(
            chain_of_causes(&error),
            "no priority 50: not permitted\n  try: sudo"
        );
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let error = anyhow::Error::from(full).context("cannot write to a");
        let told = chain_of_causes(&error);
        assert!(
            told.contains("to a: No space left") && told.contains("  try: a file"),
            "{told}"
        );
    }
}
