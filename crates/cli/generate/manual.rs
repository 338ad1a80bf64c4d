//! The manual page.

use std::io;

/// The manual page: what stands for all commands, then each with its options,
/// then the keys of the terminal UI.
pub(super) fn manual(mut command: clap::Command) -> io::Result<String> {
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().after_help("")).render(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    // Text with long options in it neither fills lines well nor may be broken in them.
    page = page.replacen(".SH NAME\n", ".nh\n.ad l\n.SH NAME\n", 1);
    page.push_str(&notes(&command, "SH"));
    for part in command.get_subcommands_mut() {
        // They are sections of this page, no pages of their own.
        let name = part.get_name();
        let reference = format!("prof\\-{}(1)", name.replace('-', "\\-"));
        page = page.replace(&reference, &format!("prof {name}"));
        // `help` has the other commands below it.
        if !part.is_hide_set() && name != "help" {
            page.push_str(&command_section(part)?);
        }
    }
    page.push_str(&keys_section());
    page.push_str(ENVIRONMENT);
    page.push_str(EXIT_STATUS);
    page.push_str(SEE_ALSO);
    Ok(page.chars().map(troff).collect())
}

/// A character as every troff reads it.
fn troff(one: char) -> String {
    match one.is_ascii() {
        true => one.to_string(),
        false => format!("\\[u{:04X}]", u32::from(one)),
    }
}

/// A line as it is, to be copied: no quote, dash or accent becomes another.
fn verbatim(line: &str) -> String {
    // `\\&` keeps a line that begins with a dot from being a request.
    let mut text = String::from("\\&");
    for one in line.chars() {
        match one {
            '\\' => text.push_str("\\e"),
            '-' => text.push_str("\\-"),
            '\'' => text.push_str("\\(aq"),
            '`' => text.push_str("\\(ga"),
            '^' => text.push_str("\\(ha"),
            '~' => text.push_str("\\(ti"),
            other => text.push(other),
        }
    }
    text + "\n"
}

/// What the environment decides, troff.
const ENVIRONMENT: &str = "\
.SH ENVIRONMENT
.TP
PROF_PAGER, PERF_PAGER, PAGER
What shows long text on a terminal, else less \\-FRSX.
.TP
NO_COLOR
Text and the terminal UI have no colours.
.TP
VISUAL, EDITOR
What the terminal UI opens a source line with.
.TP
BROWSER
What \\-\\-web and \\-\\-firefox open a page with.
.TP
DEBUGINFOD_URLS, DEBUGINFOD_MAXTIME, DEBUGINFOD_MAXSIZE, DEBUGINFOD_TIMEOUT
As for elfutils: the servers that \\-\\-debuginfod asks where it names none, how long and how much
is fetched.
.TP
XDG_CACHE_HOME, XDG_STATE_HOME
Where what was fetched, and what prof push could not send yet, is kept.
";

/// Exit codes, troff.
const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
That of the command that was recorded or counted, and the signal that ended it. Otherwise
.TP
0
All is well.
.TP
1
It failed.
.TP
2
It was called wrongly.
.TP
3
What was shown is of a damaged recording.
.TP
4
prof check: a budget is exceeded.
.TP
5
prof check and prof ab: undecided.
.TP
126, 127
The command cannot be run, or is not there.
.TP
130
Interrupted.
";

/// What else there is to read, troff.
const SEE_ALSO: &str = "\
.SH \"SEE ALSO\"
.BR perf_event_open (2),
.BR perf (1),
.BR perf\\-record (1)
";

/// Usage, description, options and examples of a command, troff.
fn command_section(command: &mut clap::Command) -> io::Result<String> {
    let mut section = format!(".SH \"PROF {}\"\n", command.get_name().to_uppercase());
    section.push_str(".SS SYNOPSIS\n.nf\n");
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines();
    usage.for_each(|line| section.push_str(&verbatim(line.trim())));
    section.push_str(".fi\n");
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone());
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    // The sections of a page are parts of one here.
    for line in String::from_utf8_lossy(&text).lines() {
        match line.strip_prefix(".SH ") {
            Some(heading) => section.push_str(&format!(".SS {heading}\n")),
            None => section.push_str(&format!("{line}\n")),
        }
    }
    section.push_str(&notes(command, "SS"));
    Ok(section)
}

/// What stands behind the options in the help of a command, line by line: examples
/// under a heading of this kind, and what follows them.
fn notes(command: &clap::Command, heading: &str) -> String {
    let notes = command.get_after_long_help().or(command.get_after_help());
    let Some(notes) = notes.map(ToString::to_string) else {
        return String::new();
    };
    let (mut section, mut kind) = (String::new(), "");
    for part in notes.split("\n\n") {
        let (own, indent, lines) = match part.strip_prefix("Examples:\n") {
            Some(examples) => ("EXAMPLES", "  ", examples),
            None => ("NOTES", "", part),
        };
        if own == kind {
            section.push_str(&verbatim(""));
        } else {
            kind = own;
            section.push_str(&format!(".fi\n.{heading} {kind}\n.nf\n"));
        }
        for line in lines.lines() {
            section.push_str(&verbatim(line.strip_prefix(indent).unwrap_or(line)));
        }
    }
    section + ".fi\n"
}

/// The keys of the terminal UI as a section of the manual, troff.
fn keys_section() -> String {
    let mut section = String::from(".SH \"KEYS OF THE TERMINAL UI\"\n.nf\n");
    let lines = prof_tui::manual();
    lines
        .lines()
        .for_each(|line| section.push_str(&verbatim(line)));
    section.push_str(".fi\n");
    section
}

#[cfg(test)]
mod tests {
    use super::{SEE_ALSO, manual, verbatim};
    use crate::whole;

    #[test]
    fn the_manual_has_every_option_of_every_command_and_the_keys() {
        let mut command = whole();
        command.build();
        let page = manual(command.clone()).expect("written to memory");
        let mut section = page.as_str();
        for part in command
            .get_subcommands()
            .filter(|part| part.get_name() != "help")
        {
            let heading = format!(".SH \"PROF {}\"\n", part.get_name().to_uppercase());
            if part.is_hide_set() {
                assert!(!page.contains(&heading));
                continue;
            }
            (_, section) = section
                .split_once(&heading)
                .expect("in the order of the commands");
            let own = section.split(".SH ").next().unwrap_or_default();
            for argument in part
                .get_arguments()
                .filter(|argument| !argument.is_hide_set())
            {
                let Some(long) = argument.get_long() else {
                    continue;
                };
                let long = format!("\\-\\-{}", long.replace('-', "\\-"));
                assert!(own.contains(&long), "{}: {long}", part.get_name());
            }
        }
        for line in prof_tui::manual().lines() {
            assert!(section.contains(&verbatim(line)), "{line}");
        }
        assert!(
            !page.replace(SEE_ALSO, "").contains("(1)\n"),
            "a page that does not exist is referred to"
        );
    }

    #[test]
    fn examples_stand_in_it_as_they_are_to_be_typed() {
        let page = manual(whole()).expect("written to memory");
        let (_, record) = page.split_once(".SH \"PROF RECORD\"").expect("a section");
        let (_, examples) = record.split_once(".SS EXAMPLES\n.nf\n").expect("examples");
        let (examples, _) = examples.split_once(".fi\n").expect("an end");
        assert!(
            examples.contains("\\&prof record \\-g \\-p 1234 sleep 10  "),
            "{examples}"
        );
        assert_eq!(
            verbatim(".a 'b' ~ `\\"),
            "\\&.a \\(aqb\\(aq \\(ti \\(ga\\e\n"
        );
    }
}
