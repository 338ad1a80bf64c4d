//! `prof annotate`: the source and instructions of functions with the weight
//! of each line.

use crate::code_source::FileCode;
use crate::input::NameOptions;
use crate::outcome::{Outcome, UsageError};
use crate::recording::Input;
use anyhow::{Context, bail};
use prof_profile::{EventId, FunctionId, Profile};
use prof_report::annotate;
use prof_report::code::Build;
use prof_report::model::{Scene, Selection, SiteKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

/// Show source and instructions of functions, with the weight of each line
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    names: NameOptions,
    /// The function; without one, all with at least --percent-limit of the
    /// weight. A recording is read, as -i FILE
    #[arg(value_name = "SYMBOL|FILE", num_args = 0..=2)]
    arguments: Vec<OsString>,
    /// The function, as for perf
    #[arg(short, long = "symbol", value_name = "SYMBOL")]
    symbol: Option<String>,
    /// Only functions of this module
    #[arg(short, long, value_name = "MODULE")]
    dso: Option<String>,
    /// Write text even on a terminal
    #[arg(long)]
    stdio: bool,
    #[command(flatten)]
    look: crate::tui::LookOptions,
    /// Leave out the source lines
    #[arg(long)]
    no_source: bool,
    /// Leave out instructions far from any with weight
    #[arg(long)]
    only_hot: bool,
    /// Without a symbol: leave out functions below this share of the weight
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5)]
    percent_limit: f64,
}

const EXAMPLES: &str = "\
Examples:
  prof annotate leaf            the function `leaf` in the terminal UI
  prof annotate --stdio leaf    the same as text
  prof annotate my.data leaf    of another recording
  prof annotate > hot.txt       every hot function as text";

impl Args {
    /// Takes the arguments for what they are: a recording, a function.
    pub(crate) fn with_arguments(mut self) -> anyhow::Result<Self> {
        for argument in std::mem::take(&mut self.arguments) {
            let Some(text) = self.input.or_text(argument)? else {
                continue;
            };
            if let Some(known) = self.symbol.replace(text) {
                let message = format!("one function at a time; name one, {known} or the other");
                return Err(UsageError(message).into());
            }
        }
        Ok(self)
    }
}

/// Shows the functions.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let symbol = args.symbol.as_deref();
    let is_terminal = io::stdout().is_terminal() && !args.stdio;
    if is_terminal && args.dso.is_none() {
        let symbol = Some(symbol.unwrap_or_default());
        return crate::tui::run(&args.input, &args.names, &args.look, symbol);
    }
    let symbolizer = Arc::new(args.names.symbolizer());
    let (profile, outcome) = args.input.load(&args.names, &symbolizer)?;
    let scene = Scene::new(&profile, selection(&profile));
    let source = FileCode::new(symbolizer);
    let build = Build {
        profile: &profile,
        leaf_weights: &scene.weights_by_stack(),
        source: &source,
    };
    let options = annotate::Options {
        with_source: !args.no_source,
        only_hot: args.only_hot,
    };
    let event = scene.event().map_or("", |event| event.name.as_str());
    let mut out = io::stdout().lock();
    let functions = chosen(args, symbol, &scene)?;
    let name_of = |id: FunctionId| profile.function(id).name;
    for &function in &functions {
        let view = build.view(function);
        // A function inlined into itself stands in its own listing.
        let is_in_own =
            |host: FunctionId| functions.contains(&host) && name_of(host) == name_of(function);
        if view.host.is_some_and(is_in_own) {
            continue;
        }
        let text = annotate::text(&profile, &view, event, options);
        writeln!(out, "{text}").context("cannot write to stdout")?;
    }
    Ok(outcome)
}

/// The first event that has samples.
fn selection(profile: &Profile) -> Selection {
    let first = profile.events.iter().position(|event| event.samples > 0);
    let event = first.and_then(|at| u16::try_from(at).ok()).unwrap_or(0);
    Selection {
        event: EventId(event),
        ..Selection::default()
    }
}

/// The functions asked for, heaviest first.
fn chosen(args: &Args, symbol: Option<&str>, scene: &Scene<'_>) -> anyhow::Result<Vec<FunctionId>> {
    let profile = scene.profile();
    let mut weights: BTreeMap<FunctionId, u64> = BTreeMap::new();
    let tree = scene.tree();
    tree.walk(|node| {
        let Some(site) = tree.site(node).map(|site| scene.sites().get(site)) else {
            return;
        };
        // What is inlined stands in its host's code.
        if site.kind != SiteKind::Module {
            let mut add = |function| {
                let sum: &mut u64 = weights.entry(function).or_default();
                *sum = sum.saturating_add(tree.own(node).period);
            };
            add(site.function);
            if site.host != site.function {
                add(site.host);
            }
        }
    });
    let total = scene.total().period;
    let mut found: Vec<(FunctionId, u64)> = weights
        .into_iter()
        .filter(|&(id, weight)| {
            let function = profile.function(id);
            let dso = profile.dso(function.dso);
            let is_in = |dso_name: &String| {
                profile.name(dso.short_name) == dso_name || profile.name(dso.path) == dso_name
            };
            let name = profile.name(function.name);
            let is_asked = match symbol {
                Some(symbol) => is_called(name, symbol),
                None => function.unnamed.is_none() && is_hot(weight, total, args.percent_limit),
            };
            is_asked && args.dso.as_ref().is_none_or(is_in)
        })
        .collect();
    if found.is_empty() {
        bail!("{}", nothing(profile, symbol, args.percent_limit));
    }
    found.sort_by_key(|&(id, weight)| (Reverse(weight), id));
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

/// Whether `name` is the function `symbol`, with or without its arguments.
fn is_called(name: &str, symbol: &str) -> bool {
    name == symbol
        || name
            .strip_prefix(symbol)
            .is_some_and(|rest| rest.starts_with('('))
}

#[expect(clippy::cast_precision_loss, reason = "compared with a rough limit")]
fn is_hot(weight: u64, total: u64, percent: f64) -> bool {
    weight > 0 && weight as f64 * 100.0 >= total as f64 * percent
}

/// What to say when no function fits: which names come near.
fn nothing(profile: &Profile, symbol: Option<&str>, limit: f64) -> String {
    let Some(symbol) = symbol else {
        return format!(
            "no function has {limit} % of the weight\n  try: a smaller --percent-limit"
        );
    };
    let wanted = symbol.to_lowercase();
    let mut near: Vec<&str> = profile
        .functions
        .iter()
        .filter(|function| function.unnamed.is_none())
        .map(|function| profile.name(function.name))
        .filter(|name| name.to_lowercase().contains(&wanted))
        .collect();
    near.sort_unstable_by_key(|name| (name.len(), *name));
    near.dedup();
    near.truncate(5);
    if near.is_empty() {
        return format!(
            "no function with samples is called {symbol}\n  try: prof report --stdio   (lists them)"
        );
    }
    format!(
        "no function with samples is called {symbol}\n  these come near: {}",
        near.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::is_called;

    #[test]
    fn a_function_is_found_without_its_arguments() {
        assert!(is_called("push(int)", "push"));
        assert!(is_called("push", "push"));
        assert!(!is_called("push_back(int)", "push"));
    }
}
