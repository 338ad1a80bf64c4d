//! What to type in place of a line that is no command of ours.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::recognise;

/// Commands of perf, and what to do with ours instead.
const OF_PERF: [(&str, &str); 21] = [
    ("top", "prof record -a -g --duration 10, then prof report"),
    (
        "sched",
        "prof record --off-cpu --wakers ./app, then prof report --critical-path,\n       \
         or prof report, where 7 has a lane for each thread",
    ),
    (
        "timechart",
        "prof record --off-cpu ./app, then prof report, where 7 has a lane for each thread",
    ),
    (
        "lock",
        "prof record --off-cpu --wakers ./app, then prof report --locks",
    ),
    (
        "trace",
        "prof record -e 'syscalls:sys_enter_*' ./app, then prof script",
    ),
    (
        "probe",
        "prof record -e uprobe:PATH:FUNCTION, kprobe:FUNCTION or usdt:PATH:NAME,\n       \
         which need not be defined before",
    ),
    (
        "buildid-cache",
        "prof archive, which puts names into the recording itself",
    ),
    ("version", "prof --version"),
    (
        "kmem",
        "prof record -a -g -e 'kmem:*', then prof report, where the kernel has these",
    ),
    ("kvm", "prof record -a -g -e 'kvm:*', then prof report"),
    (
        "kwork",
        "prof record -a -g -e 'irq:*' -e 'workqueue:*', then prof report",
    ),
    (
        "ftrace",
        "prof record -e SUBSYSTEM:TRACEPOINT, then prof script; or trace-cmd",
    ),
    (
        "bench",
        "prof ab -- OLD-COMMAND -- NEW-COMMAND, which compares yours",
    ),
    (
        "daemon",
        "prof record -a --overwrite=1m -o FILE, which SIGUSR2 lets write what it has",
    ),
    ("data", "prof export, which writes other tools' formats"),
    (
        "config",
        "prof COMMAND --help: options are all, no file has settings",
    ),
    (
        "iostat",
        "prof stat -a -e EVENT, with events that prof list shows",
    ),
    (
        "kallsyms",
        "grep -w NAME /proc/kallsyms; prof report has these names",
    ),
    ("test", "prof doctor, which tries what works here"),
    (
        "mem",
        "prof record -d -W -e EVENT ./app, with an event that prof list mem- shows,\n       \
         then prof report --mem-mode -s mem,symbol,symbol_daddr",
    ),
    (
        "c2c",
        "prof record -d -W -a -e EVENT, with an event that prof list mem- shows,\n       \
         then prof report --mem-mode -s snoop,symbol_daddr,symbol,comm",
    ),
];

/// What to type in place of the line that `error` refuses, where that is known: a
/// program or a recording stands in place of a command, the commands of `prof ab`
/// are not behind `--`, or `prof push` is not told where to.
pub(crate) fn instead(error: &clap::Error) -> Option<String> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match error.kind() {
        ErrorKind::InvalidSubcommand => in_place_of_a_command(&words),
        ErrorKind::UnknownArgument if *words.first()? == "ab" => without_dashes(error, &words[1..]),
        ErrorKind::UnknownArgument if *words.first()? == "report" => {
            second_recording(error, &words)
        }
        ErrorKind::MissingRequiredArgument if *words.first()? == "push" => {
            Some(without_receiver(&words[1..]))
        }
        _ => None,
    }
}

/// What to say where `words`, which begin with no command, are something else.
fn in_place_of_a_command(words: &[OsString]) -> Option<String> {
    let first = Path::new(words.first()?);
    if let Some((name, instead)) = OF_PERF.iter().find(|(name, _)| first == Path::new(name)) {
        return Some(format!(
            "prof does not have perf's {name}\n  try: {instead}"
        ));
    }
    if !first.is_file() && !first.is_dir() {
        return None;
    }
    let all: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let (all, first) = (all.join(" "), first.display());
    Some(if recognise::is_recording(Path::new(words.first()?)) {
        format!("{first} is a recording, no command of prof\n  try: prof report {all}")
    } else {
        format!(
            "{first} is no command of prof\n  try: prof record -g -- {all}   (then prof report)\n   \
             or: prof flamegraph -- {all}   (records and draws it)"
        )
    })
}

/// What to say where `prof ab` meets a word that is no option, as in `prof ab ./app` or
/// `prof ab ./old -- ./new`, or perf's option for a number of runs.
fn without_dashes(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if word == "-r" || word == "--repeat" {
        return Some(format!(
            "{word}: the number of runs a side is -n\n  try: prof ab -n 10 -- …"
        ));
    }
    if word.starts_with('-') {
        return None;
    }
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let at = words.iter().position(|it| *it == word.as_str())?;
    let (options, commands) = words.split_at(at);
    if commands.iter().any(|word| word == "--") {
        let options: String = options.iter().map(|word| format!("{word} ")).collect();
        let commands = commands.join(" ");
        return Some(format!(
            "{word}: both commands stand behind --\n  try: prof ab {options}-- {commands}"
        ));
    }
    Some(format!(
        "{word}: what prof ab runs stands behind --\n  try: prof ab -- {word}   (this one on both \
         sides, as with --env)\n   or: prof ab -- OLD-COMMAND -- NEW-COMMAND"
    ))
}

/// What to say where `prof report` is given two recordings.
fn second_recording(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(second)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_recording = |word: &&OsString| recognise::is_recording(Path::new(word));
    let first = words.iter().skip(1).find(is_recording)?.to_string_lossy();
    let is_other = *first != **second && recognise::is_recording(Path::new(second));
    is_other.then(|| {
        format!(
            "{second}: one recording at a time\n  try: prof diff {first} {second}   (what changed)\n   \
             or: prof report --diff {first} {second}   (in a terminal)"
        )
    })
}

/// What to say where `prof push` is not told where to: `rest` is what else it was
/// given, perhaps the address without `--url`.
fn without_receiver(rest: &[OsString]) -> String {
    let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
    let is_address = |word: &&Cow<str>| word.starts_with("http://") || word.starts_with("https://");
    if let Some(url) = rest.iter().find(is_address) {
        let others = rest.iter().filter(|word| *word != url);
        let others: String = others.map(|word| format!(" {word}")).collect();
        return format!(
            "the address of the receiver stands behind --url\n  try: prof push{others} --url {url}"
        );
    }
    let words: String = rest.iter().map(|word| format!(" {word}")).collect();
    let words = match words.is_empty() {
        true => " perf.data".to_owned(),
        false => words,
    };
    format!(
        "prof push has nowhere to send to\n  try: prof push{words} --url URL, where URL is one of\n       \
         http://HOST:4040/ingest (Pyroscope), http://HOST:7070/api/profiles/writeraw (Parca),\n       \
         http://HOST:4318/v1development/profiles (OpenTelemetry)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_s_commands_that_are_told_are_none_of_ours() {
        let cli = crate::whole();
        for (name, instead) in OF_PERF {
            assert!(cli.find_subcommand(name).is_none(), "{name}");
            assert!(instead.contains("prof "), "{name}: {instead}");
        }
    }
}
