//! Text that fits a terminal: whatever wrote it, no line is wider.

use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands at the end of a text that there was no room for.
pub const CUT: char = '~';

/// A line that is longer than this, bytes, is cut before its end is there.
const LONGEST: usize = 1 << 16;

/// A writer that passes lines on in at most this many columns: trailing blanks
/// are dropped, and a line that is still too wide ends in a [`CUT`].
#[derive(Debug)]
pub struct Fitted<W: Write> {
    to: W,
    columns: usize,
    /// The line that has no end yet.
    line: Vec<u8>,
    /// Whether the rest of the line is not wanted.
    is_cut: bool,
}

impl<W: Write> Fitted<W> {
    /// Writes to `to`, for a terminal of so many columns.
    pub fn new(to: W, columns: usize) -> Self {
        Self {
            to,
            columns,
            line: Vec::new(),
            is_cut: false,
        }
    }

    fn end_line(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.line);
        let text = text.trim_end_matches(' ');
        match text.width() > self.columns {
            false => self.to.write_all(text.as_bytes())?,
            true => writeln_cut(text, self.columns, &mut self.to)?,
        }
        self.line.clear();
        Ok(())
    }

    fn add(&mut self, part: &[u8]) {
        let room = LONGEST.saturating_sub(self.line.len());
        if !self.is_cut {
            self.line
                .extend_from_slice(part.get(..room).unwrap_or(part));
        }
        self.is_cut = part.len() > room;
    }
}

/// As much of a line as there is room for, and the mark.
fn writeln_cut(text: &str, columns: usize, to: &mut impl Write) -> io::Result<()> {
    let mut left = columns.saturating_sub(1);
    let mut cut = String::new();
    for sign in text.chars() {
        let width = sign.width().unwrap_or(0);
        if width > left {
            break;
        }
        left -= width;
        cut.push(sign);
    }
    cut.push(CUT);
    to.write_all(cut.as_bytes())
}

impl<W: Write> Write for Fitted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            match part.strip_suffix(b"\n") {
                None => self.add(part),
                Some(rest) => {
                    self.add(rest);
                    self.end_line()?;
                    self.is_cut = false;
                    self.to.write_all(b"\n")?;
                }
            }
        }
        Ok(bytes.len())
    }

    /// A line without its end is passed on when the writer is flushed, which
    /// its user does at the end.
    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::Fitted;
    use std::io::Write;

    #[test]
    fn no_line_is_wider_and_what_is_cut_is_marked() {
        let mut out = Vec::new();
        let mut fitted = Fitted::new(&mut out, 6);
        for part in [
            "123456\n12345",
            "67\na   ",
            "       \n\u{6f22}\u{5b57}",
            "\u{6f22}\u{5b57}\nend",
        ] {
            fitted.write_all(part.as_bytes()).unwrap();
        }
        fitted.flush().unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, "123456\n12345~\na\n\u{6f22}\u{5b57}~\nend");
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut out = Vec::new();
        let mut fitted = Fitted::new(&mut out, 6);
        for _ in 0..100 {
            fitted.write_all(&[b'x'; 10_000]).unwrap();
        }
        assert!(fitted.line.len() <= super::LONGEST);
        fitted.flush().unwrap();
        assert_eq!(out, b"xxxxx~");
    }
}
