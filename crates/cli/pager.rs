//! Long text on a terminal goes through a pager, as perf's does.

use prof_report::text::Fitted;
use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

/// A running pager, or standard output where there is none.
pub(crate) struct Pager {
    child: Option<Child>,
}

impl Pager {
    /// Starts `PROF_PAGER`, `PERF_PAGER`, `PAGER` or `less -FRSX`; `cat` or an
    /// empty text means none.
    pub(crate) fn start() -> Self {
        let command = ["PROF_PAGER", "PERF_PAGER", "PAGER"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok())
            .unwrap_or_else(|| "less".into());
        if command.is_empty() || command == "cat" {
            return Self { child: None };
        }
        let child = Command::new("sh")
            .args(["-c", &command])
            .env("LESS", less_options(std::env::var("LESS").ok()))
            .stdin(Stdio::piped())
            .spawn()
            .ok();
        Self { child }
    }

    /// Where to write to.
    pub(crate) fn input(&mut self) -> Box<dyn Write> {
        match self.child.as_mut().and_then(|child| child.stdin.take()) {
            Some(stdin) => Box::new(stdin),
            None => Box::new(io::stdout()),
        }
    }

    /// Waits until the reader has seen enough.
    pub(crate) fn finish(mut self) {
        if let Some(child) = &mut self.child {
            // How a pager ends is no matter of ours.
            let _ = child.wait();
        }
    }
}

/// Columns that text on standard output has: those of the terminal, if it is
/// one.
pub(crate) fn text_columns() -> Option<usize> {
    let is_terminal = io::stdout().is_terminal();
    terminal_columns().filter(|_| is_terminal)
}

/// Columns of the terminal, if it tells them.
fn terminal_columns() -> Option<usize> {
    let size = crossterm::terminal::window_size().ok()?;
    Some(usize::from(size.columns)).filter(|&columns| columns > 0)
}

/// Passes lines on that fit so many columns.
pub(crate) fn fitted<'w>(to: impl Write + 'w, columns: Option<usize>) -> Box<dyn Write + 'w> {
    match columns {
        Some(columns) => Box::new(Fitted::new(to, columns)),
        None => Box::new(to),
    }
}

/// [`paged`], with lines that fit so many columns.
pub(crate) fn paged_within<T>(
    columns: Option<usize>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    paged(|out| {
        let mut out = fitted(out, columns);
        let written = write(&mut out)?;
        out.flush()?;
        Ok(written)
    })
}

/// Gives `write` the way to standard output: through a pager on a terminal.
pub(crate) fn paged<T>(write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
    if !io::stdout().is_terminal() {
        return write(&mut io::stdout().lock());
    }
    let mut pager = Pager::start();
    let written = write(&mut pager.input());
    pager.finish();
    written
}

/// One screen needs no pager; colours pass; lines are cut, not wrapped, and
/// the arrow keys show the rest; the text stays.
fn less_options(users: Option<String>) -> String {
    users.unwrap_or_else(|| "FRSX".into())
}

#[cfg(test)]
mod tests {
    use super::less_options;

    #[test]
    fn the_pager_cuts_lines_unless_its_user_said_how_it_is_to_be() {
        assert_eq!(less_options(None), "FRSX");
        assert_eq!(less_options(Some("R".into())), "R");
    }
}
