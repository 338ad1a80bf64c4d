//! Labels of frames in pictures: names shortened as everywhere else.
//!
//! How much room a frame has, its viewer knows: the picture holds the forms
//! of each name, and a script picks one. Titles and search keep whole names.

use crate::short;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What the picture's script does better than inferno's.
pub(super) const ADDED: &str = include_str!("added.js");

/// The script that picks.
const SCRIPT: &str = include_str!("labels.js");
/// How inferno's script gets the label of a frame.
const WHOLE_NAME: &str = r#"find_child(e, "title").textContent.replace(/\([^(]*\)$/,"")"#;
/// Where that script ends; no name stands before it.
pub(super) const SCRIPT_END: &str = "]]></script>";

/// A picture whose labels are shortened; `names` are those of its frames.
pub(super) fn shortened<'a>(picture: &str, names: impl Iterator<Item = &'a str>) -> String {
    let forms: BTreeMap<&str, Vec<String>> = names
        .map(|name| (name, short::forms(name)))
        .filter(|(_, forms)| !forms.is_empty())
        .collect();
    let Some((script, rest)) = picture.split_once(SCRIPT_END) else {
        return picture.to_owned();
    };
    let script = script.replace(WHOLE_NAME, "label_of(e, w)");
    format!("{script}{SCRIPT}{}{SCRIPT_END}{rest}", table(&forms))
}

/// The forms as a script has them.
fn table(forms: &BTreeMap<&str, Vec<String>>) -> String {
    let mut text = String::from("var short_names = new Map([\n");
    for (name, forms) in forms {
        text.push('[');
        push_string(name, &mut text);
        text.push_str(",[");
        for (at, form) in forms.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            push_string(form, &mut text);
        }
        text.push_str("]],\n");
    }
    text.push_str("]);\n");
    text
}

/// A string of a script. What could end it, the script, or the section of the
/// picture that holds the script is written by number.
pub(super) fn push_string(text: &str, out: &mut String) {
    out.push('"');
    for sign in text.chars() {
        let is_plain = sign.is_ascii_alphanumeric() || " _:.,*(){}#$@!'/-+=~|^%;?".contains(sign);
        if is_plain {
            out.push(sign);
            continue;
        }
        for unit in sign.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::{push_string, shortened};

    #[test]
    fn names_cannot_leave_the_script() {
        let mut out = String::new();
        push_string("a\"b\\</script>]]>\u{2028}\u{1f600}", &mut out);
        assert_eq!(
            out,
            "\"a\\u0022b\\u005c\\u003c/script\\u003e\\u005d\\u005d\\u003e\\u2028\\ud83d\\ude00\""
        );
    }

    #[test]
    fn only_names_that_can_be_shorter_are_told() {
        let picture = "<script><![CDATA[one();]]></script><g/>";
        let names = ["main", "a::b::Type<T>::run"].into_iter();
        let drawn = shortened(picture, names);
        assert!(drawn.contains(r#"["a::b::Type\u003cT\u003e::run",["a::b::Type::run","b::Type::run","Type::run","run"]],"#), "{drawn}");
        assert!(!drawn.contains("\"main\""), "{drawn}");
        assert!(drawn.ends_with("]);\n]]></script><g/>"), "{drawn}");
    }
}
