//! `prof generate`: the manual page and shell completions, for packagers.

mod completed;

use crate::outcome::Outcome;
use crate::whole;
use anyhow::Context;
use clap::ValueEnum;
use std::io::{self, Write};

/// What to write to stdout.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Artifact {
    /// The manual page, troff.
    Man,
    /// Completions for bash.
    Bash,
    /// Completions for zsh.
    Zsh,
    /// Completions for fish.
    Fish,
}

/// Write the manual page or shell completions to stdout
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    artifact: Artifact,
}

const EXAMPLES: &str = "\
Examples:
  prof generate man | man -l -         read the manual
  prof generate bash > ~/.local/share/bash-completion/completions/prof";

/// Writes the artifact.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let command = whole();
    let mut text = Vec::new();
    let shell = match args.artifact {
        Artifact::Man => {
            text.extend(
                manual(command.clone())?
                    .chars()
                    .flat_map(|one| troff(one).into_bytes()),
            );
            None
        }
        Artifact::Bash => Some(clap_complete::Shell::Bash),
        Artifact::Zsh => Some(clap_complete::Shell::Zsh),
        Artifact::Fish => Some(clap_complete::Shell::Fish),
    };
    if let Some(shell) = shell {
        clap_complete::generate(
            shell,
            &mut completed::completed(&command),
            "prof",
            &mut text,
        );
    }
    io::stdout()
        .lock()
        .write_all(&text)
        .context("cannot write to stdout")?;
    Ok(Outcome::Done)
}

/// The manual page: what stands for all commands, then each with its options,
/// then the keys of the terminal UI.
fn manual(mut command: clap::Command) -> io::Result<String> {
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    page = page.replace(".SH EXTRA\n", ".SH EXAMPLES\n");
    for part in command.get_subcommands() {
        let name = part.get_name();
        // They are sections of this page, no pages of their own.
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
    Ok(page)
}

/// A character as every troff reads it.
fn troff(one: char) -> String {
    match one.is_ascii() {
        true => one.to_string(),
        false => format!("\\[u{:04X}]", u32::from(one)),
    }
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

/// Usage, description, options and examples of a command, troff.
fn command_section(command: &clap::Command) -> io::Result<String> {
    let mut section = format!(".SH \"PROF {}\"\n", command.get_name().to_uppercase());
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.clone());
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command
        .get_after_help()
        .or(command.get_after_long_help())
        .is_some()
    {
        page.render_extra_section(&mut text)?;
    }
    // The sections of a page are parts of one here.
    for line in String::from_utf8_lossy(&text).lines() {
        match line.strip_prefix(".SH ") {
            Some("EXTRA") => section.push_str(".SS EXAMPLES\n"),
            Some(heading) => section.push_str(&format!(".SS {heading}\n")),
            None => section.push_str(&format!("{line}\n")),
        }
    }
    Ok(section)
}

/// The keys of the terminal UI as a section of the manual, troff.
fn keys_section() -> String {
    let mut section = String::from(".SH \"KEYS OF THE TERMINAL UI\"\n.nf\n");
    for line in prof_tui::manual().lines() {
        // `\\&` keeps a line that begins with a dot from being a request.
        section.push_str("\\&");
        section.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
        section.push('\n');
    }
    section.push_str(".fi\n");
    section
}

#[cfg(test)]
mod tests {
    use super::manual;
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
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            assert!(section.contains(&line), "{line}");
        }
        assert!(
            !page.contains("(1)\n"),
            "a page that does not exist is referred to"
        );
    }
}
