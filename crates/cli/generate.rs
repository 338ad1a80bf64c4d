//! `prof generate`: the manual page and shell completions, for packagers.

mod completed;
mod manual;

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
            text.extend(manual::manual(command.clone())?.into_bytes());
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
