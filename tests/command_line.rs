//! The frame around all commands: help, versions, refusals, exit codes.

use crate::oracle::prof;

#[test]
fn help_and_version_go_to_stdout_and_exit_0() {
    let help = prof(&["--help"]).succeeded("prof --help");
    assert!(help.text().contains("Usage: prof"), "{}", help.text());
    let version = prof(&["--version"]).succeeded("prof --version");
    assert!(version.text().starts_with("prof "), "{}", version.text());
}

#[test]
fn an_unknown_command_or_option_exits_2_and_is_named() {
    for args in [&["frobnicate"][..], &["--frobnicate"][..]] {
        let refused = prof(args);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("frobnicate"), "{}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
}
