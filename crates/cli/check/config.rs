//! `prof.toml`: the part of TOML that lists of strings need.

use std::iter::Peekable;
use std::str::Chars;

/// What a file says: names, each with its list, in order.
pub(super) type Lists = Vec<(String, Vec<String>)>;

/// Reads `name = ["text", 'text']` as often as it stands there, over any number
/// of lines, with comments. What else TOML has is refused, by line.
pub(super) fn lists(text: &str) -> Result<Lists, String> {
    let mut reader = Reader {
        rest: text.chars().peekable(),
        line: 1,
    };
    let mut all = Lists::new();
    while reader.skip().is_some() {
        let name = reader.name();
        if name.is_empty() {
            return Err(reader.wrong("a name stands here, as in budgets = [\"f <= 3%\"]"));
        }
        if all.iter().any(|(other, _)| *other == name) {
            return Err(reader.wrong(&format!("{name} stands here again")));
        }
        reader.expect('=')?;
        reader.expect('[')?;
        let mut list = Vec::new();
        loop {
            match reader.skip() {
                Some(']') => break,
                Some('"' | '\'') => list.push(reader.string()?),
                _ => return Err(reader.wrong("a text in quotes or ] is missing")),
            }
            match reader.skip() {
                Some(',') => _ = reader.rest.next(),
                Some(']') => break,
                _ => return Err(reader.wrong(", or ] is missing")),
            }
        }
        reader.rest.next();
        all.push((name, list));
    }
    Ok(all)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("line {}: {what}", self.line)
    }

    /// Leaves out blanks and comments; what comes then.
    fn skip(&mut self) -> Option<char> {
        while let Some(&sign) = self.rest.peek() {
            match sign {
                '\n' => self.line += 1,
                '#' => {
                    while self.rest.next_if(|&sign| sign != '\n').is_some() {}
                    continue;
                }
                sign if sign.is_whitespace() => {}
                sign => return Some(sign),
            }
            self.rest.next();
        }
        None
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        let is_part = |sign: &char| sign.is_ascii_alphanumeric() || "-_".contains(*sign);
        while let Some(sign) = self.rest.next_if(is_part) {
            name.push(sign);
        }
        name
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.skip() == Some(sign) {
            self.rest.next();
            return Ok(());
        }
        Err(self.wrong(&format!("{sign} is missing")))
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None | Some('\n') => return Err(self.wrong("the text does not end")),
                sign if sign == quote => return Ok(text),
                Some('\\') if quote == Some('"') => match self.rest.next() {
                    Some(sign @ ('"' | '\\')) => text.push(sign),
                    _ => return Err(self.wrong("only \\\" and \\\\ may stand there")),
                },
                Some(sign) => text.push(sign),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lists;

    #[test]
    fn lists_of_texts_are_read_and_all_else_is_refused_by_line() {
        let text = "# a\nbaseline = [ # b\n \"a#\\\"1\", 'b\\2', ]\nbudgets=[]\n";
        let read = lists(text).unwrap();
        assert_eq!(
            read[0],
            ("baseline".into(), vec!["a#\"1".into(), "b\\2".into()])
        );
        assert_eq!(read[1], ("budgets".into(), Vec::new()));
        for (wrong, said) in [
            ("budgets = [\"a\"", "line 1: , or ]"),
            ("\nbudgets = 3", "line 2: [ is missing"),
            ("[check]", "line 1: a name"),
            ("a = [\"b", "does not end"),
            ("a = []\na = []", "line 2: a stands here again"),
        ] {
            let error = lists(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
