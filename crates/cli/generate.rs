//! `prof generate`: the manual page and shell completions, for packagers.

use crate::Cli;
use crate::outcome::Outcome;
use anyhow::Context;
use clap::{CommandFactory, ValueEnum};
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

/// Write the manual page or shell completions to stdout.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    artifact: Artifact,
}

/// Writes the artifact.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let mut command = Cli::command();
    let mut text = Vec::new();
    let shell = match args.artifact {
        Artifact::Man => {
            clap_mangen::Man::new(command.clone()).render(&mut text)?;
            text.extend(keys_section().bytes());
            None
        }
        Artifact::Bash => Some(clap_complete::Shell::Bash),
        Artifact::Zsh => Some(clap_complete::Shell::Zsh),
        Artifact::Fish => Some(clap_complete::Shell::Fish),
    };
    if let Some(shell) = shell {
        clap_complete::generate(shell, &mut command, "prof", &mut text);
    }
    io::stdout()
        .lock()
        .write_all(&text)
        .context("cannot write to stdout")?;
    Ok(Outcome::Done)
}

/// The keys of the terminal UI as a section of the manual, troff.
fn keys_section() -> String {
    let mut section = String::from(".SH \"KEYS OF THE TERMINAL UI\"\n.nf\n");
    for line in prof_report::tui::manual().lines() {
        // `\\&` keeps a line that begins with a dot from being a request.
        section.push_str("\\&");
        section.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
        section.push('\n');
    }
    section.push_str(".fi\n");
    section
}
