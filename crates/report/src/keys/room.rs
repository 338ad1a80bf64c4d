//! The room that lines on a terminal have for names of functions.

use crate::escape;
use crate::short::shortened;
use std::borrow::Cow;

/// Less room than this is none, characters: a line that begins so far to the
/// right has to be scrolled to whatever it says.
const LEAST: usize = 20;
/// What a line has that is scrolled to.
const SCROLLED: usize = 40;

/// A function's name, safe for a terminal and in at most `room` characters if
/// it can be so short; whole without a limit.
pub(crate) fn name_within(name: &str, room: Option<usize>) -> Cow<'_, str> {
    let Some(room) = room else {
        return escape::terminal(name);
    };
    let room = if room < LEAST { SCROLLED } else { room };
    let fits = |name: &str| char_count(&escape::terminal(name)) <= room;
    match shortened(name, fits) {
        Cow::Borrowed(name) => escape::terminal(name),
        Cow::Owned(name) => escape::terminal(&name).into_owned().into(),
    }
}

/// Characters of a text, fast for ASCII.
pub(crate) fn char_count(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

#[cfg(test)]
mod tests {
    use super::name_within;
    use crate::text::{TextOptions, report};
    use prof_sketch::Sketch;

    #[test]
    fn reports_have_short_names_only_where_a_terminal_has_no_room() {
        let mut sketch = Sketch::new();
        let task = sketch.task(7, 7, "app");
        let name = "app::store::Index::insert_or_else(std::string const&, unsigned long)";
        sketch.sample(task, &format!("app:main;app:{name}"), 1, 30);
        let text = |columns, full_names| {
            let options = TextOptions {
                columns,
                full_names,
                ..TextOptions::default()
            };
            let mut out = Vec::new();
            report(&sketch.profile, &options, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let piped = text(None, false);
        // The row of each of the two functions, and its chain.
        assert_eq!(piped.matches(name).count(), 3, "{piped}");
        assert_eq!(text(Some(300), false), piped);
        let tables = |text: &str| text.split_once("# Samples").unwrap().1.to_owned();
        assert_eq!(tables(&text(Some(80), true)), tables(&piped));
        let narrow = text(Some(80), false);
        assert!(!narrow.contains(name), "{narrow}");
        assert_eq!(narrow.matches("store::Index::insert_or_else").count(), 3);
        assert!(narrow.lines().all(|line| line.len() <= 80), "{narrow}");
    }

    #[test]
    fn names_are_made_as_short_as_the_room_needs_and_no_shorter_than_is_of_use() {
        let name = "app::store::Index<alloc::string::String>::insert";
        assert_eq!(name_within(name, None), name);
        assert_eq!(name_within(name, Some(48)), name);
        for room in [0, 25, 47] {
            assert_eq!(name_within(name, Some(room)), "app::store::Index::insert");
        }
        assert_eq!(name_within(name, Some(24)), "store::Index::insert");
        assert_eq!(name_within("a\u{1b}b::c", Some(0)), "a\\x1bb::c");
    }
}
