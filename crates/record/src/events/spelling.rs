//! Quotes and spaces that do not matter, taken out of what stands behind `-e`:
//! a script's own quotes around an event or a group (`-e "'{a,b}':u"`) and
//! spaces beside signs, which perf passes over too. What is between quotes
//! behind a term's `=` stays as it is, and so does a probe, whose path may hold
//! anything.

use super::error::EventError;
use super::probe;

/// The signs that events are made of; no space beside them means anything.
const SIGNS: [char; 6] = [',', '{', '}', ':', '/', '='];

/// The text without such quotes and spaces. Fails where a quote has no partner
/// and where terms lack one between commas.
pub(super) fn tidy(text: &str) -> Result<String, EventError> {
    let mut tidied = Tidied::default();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        let behind = &rest[letter.len_utf8()..];
        at += match letter {
            '\\' if behind.starts_with(['\'', '"']) => letter.len_utf8(),
            '\'' | '"' => tidied.quote(letter, behind),
            _ if letter.is_whitespace() => {
                tidied.spaces.push(letter);
                letter.len_utf8()
            }
            _ if tidied.is_at_event() && probe::is_probe(rest) => tidied.probe(rest),
            _ => {
                if tidied.lacks_term(letter) {
                    return Err(EventError::syntax(text, "a term is missing", at));
                }
                tidied.push(letter, behind);
                letter.len_utf8()
            }
        };
    }
    match tidied.open.last() {
        Some('"') => Err(EventError::syntax(text, "a \" is missing", text.len())),
        Some(_) => Err(EventError::syntax(text, "a ' is missing", text.len())),
        None => Ok(tidied.text),
    }
}

/// What was read so far.
#[derive(Default)]
struct Tidied {
    text: String,
    /// Where in it the event begins that is being read.
    event: usize,
    /// Spaces before what comes, which may not matter.
    spaces: String,
    /// Quotes without their partners so far.
    open: Vec<char>,
    is_in_terms: bool,
}

impl Tidied {
    fn is_at_event(&self) -> bool {
        self.text.len() == self.event
    }

    /// Takes a quote, or what it quotes; says how many bytes that is.
    fn quote(&mut self, quote: char, behind: &str) -> usize {
        let is_value = self.is_in_terms && self.text.ends_with('=');
        if let Some(end) = behind.find(quote).filter(|_| is_value) {
            let value = behind[..end].trim_end_matches('\\');
            self.text.extend([quote]);
            self.text.push_str(value);
            self.text.extend([quote]);
            self.spaces.clear();
            return end + 2;
        }
        match self.open.last() {
            Some(last) if *last == quote => drop(self.open.pop()),
            _ => self.open.push(quote),
        }
        1
    }

    /// Takes a probe as it is, up to what ends it; says how many bytes that is.
    fn probe(&mut self, rest: &str) -> usize {
        let quote = self.open.last().copied();
        let ends = |letter| matches!(letter, ',' | '}') || Some(letter) == quote;
        let place = &rest[..rest.find(ends).unwrap_or(rest.len())];
        // Between its slashes a comma does not end it.
        let terms = probe::terms_at(place).map_or(0, |at| at + 1 + end_of_terms(&rest[at + 1..]));
        let length = rest[terms..].find(ends).unwrap_or(rest.len() - terms);
        let probe = &rest[..terms + length];
        self.text.push_str(probe.trim_end());
        self.spaces.clear();
        probe.len()
    }

    /// Whether the sign stands where a term should.
    fn lacks_term(&self, sign: char) -> bool {
        let event = &self.text[self.event..];
        self.is_in_terms
            && match sign {
                ',' => event.ends_with(['/', ',']),
                '/' => event.ends_with(','),
                _ => false,
            }
    }

    fn push(&mut self, letter: char, behind: &str) {
        let is_beside_sign = SIGNS.contains(&letter) || self.text.ends_with(SIGNS);
        if !is_beside_sign && !self.text.is_empty() {
            self.text.push_str(&self.spaces);
        }
        self.spaces.clear();
        match letter {
            '/' if opens_terms(&self.text[self.event..], behind, self.is_in_terms) => {
                self.is_in_terms = !self.is_in_terms;
            }
            ',' | '{' if !self.is_in_terms => self.event = self.text.len() + 1,
            _ => {}
        }
        self.text.push(letter);
    }
}

/// Where terms end: at the first slash that is not between quotes, or with the text.
fn end_of_terms(terms: &str) -> usize {
    let mut quote = None;
    let end = terms.find(|letter| match (letter, quote) {
        ('\'' | '"', None) => {
            quote = Some(letter);
            false
        }
        _ if quote == Some(letter) => {
            quote = None;
            false
        }
        _ => letter == '/' && quote.is_none(),
    });
    end.unwrap_or(terms.len())
}

/// Whether a slash of the event opens or closes terms: probes have paths, and
/// a number behind a breakpoint's is its length.
pub(super) fn opens_terms(event: &str, behind: &str, are_open: bool) -> bool {
    let event = event.trim_start();
    if probe::is_probe(event) {
        return are_open || probe::opens_terms(event, behind);
    }
    are_open
        || !event.starts_with("mem:")
        || behind
            .trim_start()
            .starts_with(|letter: char| letter.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn quotes_and_spaces_beside_signs_do_not_matter() {
        for (text, expected) in [
            ("'{a,b}':u", "{a,b}:u"),
            ("\"{a},b\"", "{a},b"),
            ("'\"a\"'", "a"),
            ("\\'a\\'", "a"),
            (" a , b\t", "a,b"),
            ("{ a , b } : u , c", "{a,b}:u,c"),
            ("a / name = x , config=1 / u", "a/name=x,config=1/u"),
            ("a b", "a b"),
            ("a/name='x , y'/u", "a/name='x , y'/u"),
            ("'a/name='x'/'", "a/name='x'/"),
            ("a/name=\\\"x\\\"/", "a/name=\"x\"/"),
            ("a/'name=x'/", "a/name=x/"),
            ("mem: 0x1000 / 4 : w , a", "mem:0x1000/4:w,a"),
            ("uprobe:/a b/it's : f", "uprobe:/a b/it's : f"),
            ("'uprobe:/bin/a:f',b", "uprobe:/bin/a:f,b"),
            (
                "uprobe:/bin/a:f/name='x,y',period=2/u , b",
                "uprobe:/bin/a:f/name='x,y',period=2/u,b",
            ),
            ("a//", "a//"),
        ] {
            assert_eq!(tidy(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_lacks_a_partner_or_a_term_is_said() {
        for (text, expected) in [
            ("a'", "a ' is missing at character 3"),
            ("\"a,b", "a \" is missing at character 5"),
            ("a/name='x/", "a ' is missing at character 11"),
            ("a/,name=x/", "a term is missing at character 3"),
            ("a/name=x,,config=1/", "a term is missing at character 10"),
            ("a/name=x,/u", "a term is missing at character 10"),
        ] {
            let message = tidy(text).expect_err(text).to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
