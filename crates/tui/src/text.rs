//! Text cut to a width, never raw.

use prof_profile::plural;
use prof_report::escape;
use prof_report::short::shortened;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A name made harmless and cut to `width` columns; if cut, it ends with
/// `ellipsis`.
pub(super) fn fit(name: &str, width: usize, ellipsis: &str) -> String {
    // A name of 64 KiB is not escaped whole for a line of 80 columns.
    let enough = width.saturating_mul(4).saturating_add(16);
    let head = match name.char_indices().nth(enough) {
        Some((end, _)) => name.get(..end).unwrap_or(name),
        None => name,
    };
    let safe = escape::terminal(head);
    if head.len() == name.len() && safe.width() <= width {
        return safe.into_owned();
    }
    let limit = width.saturating_sub(ellipsis.width());
    let mut used = 0;
    let mut cut = String::new();
    for character in safe.chars() {
        used += character.width().unwrap_or(0);
        if used > limit {
            break;
        }
        cut.push(character);
    }
    if width >= ellipsis.width() {
        cut.push_str(ellipsis);
    }
    cut
}

/// A function's name in at most `width` columns: shortened as everywhere, and
/// cut at its end if that is not enough.
pub(super) fn symbol(name: &str, width: usize, ellipsis: &str) -> String {
    let fits = |name: &str| escape::terminal(name).width() <= width;
    fit(&shortened(name, fits), width, ellipsis)
}

/// A path made harmless and cut to `width` columns in front, where the least
/// is lost: the file's name stays longest.
pub(super) fn path(path: &str, width: usize, ellipsis: &str) -> String {
    let enough = width.saturating_mul(4).saturating_add(16);
    let tail = match path.char_indices().nth_back(enough) {
        Some((start, _)) => path.get(start..).unwrap_or(path),
        None => path,
    };
    let safe = escape::terminal(tail);
    if tail.len() == path.len() && safe.width() <= width {
        return safe.into_owned();
    }
    let Some(limit) = width.checked_sub(ellipsis.width()) else {
        return String::new();
    };
    let mut used = 0;
    let kept = safe.char_indices().rev().take_while(|(_, character)| {
        used += character.width().unwrap_or(0);
        used <= limit
    });
    let start = kept.last().map_or(safe.len(), |(start, _)| start);
    format!("{ellipsis}{}", &safe[start..])
}

/// [`fit`], and filled with spaces to exactly `width` columns.
pub(super) fn fill(name: &str, width: usize, ellipsis: &str) -> String {
    let mut text = fit(name, width, ellipsis);
    let used = text.width();
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    text
}

/// Columns that a harmless text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// A harmless text broken into lines of at most `width` columns: at spaces,
/// or within words that are longer than a line.
pub(super) fn wrap(name: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in escape::terminal(name).split_inclusive(' ') {
        let columns = word.trim_end_matches(' ').width();
        if used > 0 && used + columns > width && columns <= width {
            lines.push(String::new());
            used = 0;
        }
        for character in word.chars() {
            let columns = character.width().unwrap_or(0);
            let is_past = used + columns > width;
            if is_past && character != ' ' {
                lines.push(String::new());
                used = 0;
            } else if is_past {
                continue;
            }
            if let Some(line) = lines.last_mut() {
                line.push(character);
            }
            used += columns;
        }
    }
    lines
}

/// A count with its thousands apart: `18 204`.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds in a unit that keeps the number short: `1.25 s`, `3.1 ms`.
pub(super) fn duration(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

/// How long after `origin` a time is, both in ns of one clock; `-` before what is
/// earlier: a wait may have begun before the first sample.
pub(super) fn since(origin: u64, time: u64) -> String {
    match time.checked_sub(origin) {
        Some(after) => duration(after),
        None => format!("-{}", duration(origin - time)),
    }
}

/// So many samples.
pub(super) fn samples(count: u64) -> String {
    format!("{} sample{}", grouped(count), plural(count))
}

#[cfg(test)]
mod tests {
    use super::{duration, fill, fit, grouped, path, since, symbol, wrap};

    #[test]
    fn a_long_name_keeps_type_and_method_before_its_end_goes() {
        let name = "<a::Checker<'_> as b::visit::Visitor>::visit_body";
        assert_eq!(symbol(name, 49, "…"), name);
        assert_eq!(symbol(name, 40, "…"), "<Checker as Visitor>::visit_body");
        assert_eq!(symbol(name, 20, "…"), "Checker::visit_body");
        assert_eq!(symbol(name, 12, "…"), "visit_body");
        assert_eq!(symbol(name, 9, "…"), "visit_bo…");
        assert_eq!(symbol("a<日本語>::b", 8, "…"), "a::b");
        // What a terminal must not get counts as it is shown.
        assert_eq!(symbol("a\x1b<b>", 5, "…"), "a\\x1b");
        assert_eq!(symbol(&"<".repeat(4000), 8, "…"), "<<<<<<<…");
    }

    #[test]
    fn a_cut_name_says_so_and_wide_letters_count_twice() {
        assert_eq!(fit("short", 10, "…"), "short");
        assert_eq!(fit("too long a name", 8, "…"), "too lon…");
        assert_eq!(fit("日本語名", 5, "…"), "日本…");
        assert_eq!(fill("日本", 6, "…"), "日本  ");
        assert_eq!(fit("abc", 0, "…"), "");
    }

    #[test]
    fn a_name_is_harmless_whatever_its_length() {
        assert_eq!(fit("a\x1b[2J", 20, "…"), "a\\x1b[2J");
        let long = "\x1b".repeat(65_536);
        assert_eq!(fit(&long, 9, "~"), "\\x1b\\x1b~");
    }

    #[test]
    fn a_path_keeps_its_end() {
        assert_eq!(path("/a/b.c", 6, "…"), "/a/b.c");
        assert_eq!(path("/a/long/b.c", 7, "…"), "…ng/b.c");
        assert_eq!(path("/日本/x", 4, "…"), "…/x");
        assert_eq!(path("/a/b.c", 1, "…"), "…");
        assert_eq!(path("/a/b.c", 0, "…"), "");
        assert_eq!(path("/a\x1b/b", 6, "…"), "…x1b/b");
        assert_eq!(
            path(&format!("{}/b.c", "\x1b".repeat(65_536)), 5, "…"),
            "…/b.c"
        );
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(12), "12");
        assert_eq!(duration(1_500_000_000), "1.500 s");
        assert_eq!(duration(250_000), "250.0 us");
    }

    #[test]
    fn a_time_before_the_first_sample_has_a_sign() {
        assert_eq!(since(1_000_000, 3_500_000), "2.5 ms");
        assert_eq!(since(1_000_000, 900_000), "-100.0 us");
        assert_eq!(since(7, 7), "0 ns");
    }

    #[test]
    fn lines_break_at_spaces_if_they_can() {
        assert_eq!(wrap("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("one two of it", 8), ["one two ", "of it"]);
        assert_eq!(wrap("abcd efgh ij", 9), ["abcd efgh", "ij"]);
        assert_eq!(wrap("ab /usr/lib", 9), ["ab ", "/usr/lib"]);
        assert_eq!(wrap("a verylongword", 6), ["a very", "longwo", "rd"]);
        assert_eq!(wrap("", 6), [""]);
    }
}
