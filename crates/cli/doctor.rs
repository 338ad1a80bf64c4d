//! `prof doctor`: what profiling is possible here for this user, and the one
//! command that enables each missing part.

use crate::outcome::Outcome;
use anyhow::Context;
use prof_profile::several;
use prof_record::doctor::{Environment, Finding, State, findings};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Show what profiling is possible here, and what would enable the rest.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// Writes the findings to stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let environment = Environment::read();
    let findings = findings(&environment);
    let text = if args.json {
        as_json(&environment, &findings)
    } else {
        as_text(&environment, &findings)
    };
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .context("cannot write to stdout")?;
    Ok(Outcome::Done)
}

fn word(state: State) -> &'static str {
    match state {
        State::Yes => "yes",
        State::Partly => "partly",
        State::No => "no",
    }
}

fn as_text(environment: &Environment, findings: &[Finding]) -> String {
    const INDENT: &str = "        ";
    let uid = environment
        .uid
        .map_or("unknown".into(), |uid| uid.to_string());
    let cpus = environment.cpus;
    let mut text = format!(
        "Profiling as uid {uid} on Linux {}, {}:\n\n",
        environment.release,
        several(cpus, "CPU")
    );
    for finding in findings {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{:<8}{}", word(finding.state), finding.what);
        let _ = writeln!(text, "{INDENT}  {}", finding.why);
        if let Some(fix) = &finding.fix {
            let _ = writeln!(text, "{INDENT}  try: {fix}");
        }
    }
    let lacking = findings.iter().filter(|finding| finding.fix.is_some());
    if lacking.count() > 0 {
        text.push_str("\nA sysctl lasts until reboot; put it in /etc/sysctl.d to keep it.\n");
    }
    text
}

fn as_json(environment: &Environment, findings: &[Finding]) -> String {
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "id": finding.id,
                "what": finding.what,
                "possible": word(finding.state),
                "why": finding.why,
                "fix": finding.fix,
            })
        })
        .collect();
    let all = json!({
        "uid": environment.uid,
        "release": environment.release,
        "cpus": environment.cpus,
        "perf_event_paranoid": environment.paranoid,
        "kptr_restrict": environment.kptr_restrict,
        "findings": findings,
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::{as_json, as_text};
    use prof_record::doctor::{Environment, findings};

    #[test]
    fn a_missing_part_shows_its_reason_and_its_command() {
        let environment = Environment {
            uid: Some(1000),
            release: "6.18.2".into(),
            paranoid: Some(2),
            cpus: 1,
            ..Environment::default()
        };
        let found = findings(&environment);
        let text = as_text(&environment, &found);
        let expected = "\
no      the whole system (-a, -C)
          kernel.perf_event_paranoid is 2 and this process lacks CAP_PERFMON
          try: sudo sysctl kernel.perf_event_paranoid=0
";
        assert!(
            text.starts_with("Profiling as uid 1000 on Linux 6.18.2, 1 CPU:\n"),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
        let value: serde_json::Value =
            serde_json::from_str(&as_json(&environment, &found)).expect("JSON");
        let all = value["findings"].as_array().expect("a list");
        let whole_system = all.iter().find(|one| {
            let what = one["what"].as_str().unwrap_or_default();
            what.starts_with("the whole system")
        });
        assert_eq!(whole_system.expect("a finding")["possible"], "no");
        assert_eq!(value["findings"][0]["fix"], serde_json::Value::Null);
    }
}
