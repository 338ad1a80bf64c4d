//! Values that stand right behind a letter: `-Iax`, as perf takes them.
//!
//! An option whose value may be left out has it behind an equals sign, or the
//! next argument would be taken for one. clap then wants the sign behind the
//! letter, too; so it is put there.

use clap::{Arg, Command};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The arguments of `prof`, with an equals sign where a value that may be left
/// out stands right behind its option's letter. What stands behind the command
/// to record is not touched.
pub(crate) fn with_signs(cli: &Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut out = arguments;
    let named = out.get(1).and_then(|name| cli.find_subcommand(name));
    let Some(command) = named else {
        return out;
    };
    let takes_program = command.get_arguments().any(Arg::is_trailing_var_arg_set);
    let mut is_value = false;
    for argument in out.iter_mut().skip(2) {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let bytes = argument.as_bytes();
        match bytes {
            b"--" => break,
            [b'-', b'-', name @ ..] => {
                is_value = !name.contains(&b'=') && long_takes(command, name)
            }
            [b'-', letters @ ..] if !letters.is_empty() => match end_of(command, letters) {
                End::Flags => {}
                End::Next => is_value = true,
                End::Attached(at) => {
                    let mut signed = bytes.to_vec();
                    signed.insert(1 + at, b'=');
                    *argument = OsString::from_vec(signed);
                }
            },
            _ if takes_program => break,
            _ => {}
        }
    }
    out
}

/// What some letters behind one dash end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Options without a value, or with one that is told as such.
    Flags,
    /// An option whose value is the next argument.
    Next,
    /// An optional value, which begins here.
    Attached(usize),
}

fn end_of(command: &Command, letters: &[u8]) -> End {
    for (at, &letter) in letters.iter().enumerate() {
        let is_it = |arg: &&Arg| arg.get_short() == Some(char::from(letter));
        let Some(arg) = command.get_arguments().find(is_it) else {
            return End::Flags;
        };
        let rest = letters.get(at + 1..).unwrap_or_default();
        match (value_of(arg), rest) {
            (Value::None, _) => {}
            (Value::Needed, []) => return End::Next,
            (Value::Optional, [first, ..]) if *first != b'=' => return End::Attached(at + 1),
            _ => return End::Flags,
        }
    }
    End::Flags
}

/// Whether an option takes the next argument as its value; a name may be
/// shortened.
fn long_takes(command: &Command, name: &[u8]) -> bool {
    let is_it = |arg: &&Arg| arg.get_long().is_some_and(|long| long.as_bytes() == name);
    let starts = |arg: &&Arg| {
        arg.get_long()
            .is_some_and(|long| long.as_bytes().starts_with(name))
    };
    let found = command.get_arguments().find(is_it);
    let found = found.or_else(|| command.get_arguments().find(starts));
    found.is_some_and(|arg| value_of(arg) == Value::Needed)
}

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    /// Behind an equals sign.
    Optional,
    Needed,
}

fn value_of(arg: &Arg) -> Value {
    match (arg.get_action().takes_values(), arg.is_require_equals_set()) {
        (false, _) => Value::None,
        (true, true) => Value::Optional,
        (true, false) => Value::Needed,
    }
}

#[cfg(test)]
mod tests {
    use super::with_signs;
    use crate::whole;

    /// The arguments as they are parsed.
    fn parsed(arguments: &str) -> String {
        let arguments = arguments.split(' ').map(Into::into).collect();
        let words = with_signs(&whole(), arguments).into_iter();
        let words: Vec<_> = words
            .map(|word| word.into_string().expect("UTF-8"))
            .collect();
        words.join(" ")
    }

    #[test]
    fn a_value_behind_its_letter_gets_a_sign() {
        for (typed, expected) in [
            ("prof record -Iax ./app", "prof record -I=ax ./app"),
            ("prof record -gIax,bx ./app", "prof record -gI=ax,bx ./app"),
            ("prof record -I=ax -I ./app", "prof record -I=ax -I ./app"),
            ("prof record -z3 ./app", "prof record -z=3 ./app"),
            ("prof record -o out -Iax x", "prof record -o out -I=ax x"),
        ] {
            assert_eq!(parsed(typed), expected);
        }
    }

    #[test]
    fn what_is_a_value_or_behind_the_program_stays() {
        for typed in [
            "prof record ./app -Iax",
            "prof record -g -- ./app -Iax",
            "prof record -o -Iax ./app",
            "prof record --output -Iax ./app",
            "prof record --outp -Iax ./app",
            "prof record -o-Iax ./app",
            "prof stat -I20 ./app",
            "prof",
            "prof nothing -Iax",
        ] {
            assert_eq!(parsed(typed), typed);
        }
    }
}
