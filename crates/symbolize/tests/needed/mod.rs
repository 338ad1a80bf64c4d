//! Whether what a test compares with is installed.

/// Whether it was found; if not, the test is skipped, or fails in CI, where
/// `PROF_TEST_REQUIRE` lists what has to be there.
pub(crate) fn is_there(test: &str, what: &str, found: bool) -> bool {
    let required = std::env::var("PROF_TEST_REQUIRE").unwrap_or_default();
    assert!(
        found || !required.split(',').any(|it| it == what),
        "{test} needs {what}"
    );
    if !found {
        eprintln!("skipped {test}: {what} is not installed");
    }
    found
}

/// The same of a command.
pub(crate) fn has(test: &str, command: &str) -> bool {
    let found = std::process::Command::new(command)
        .arg("--version")
        .output();
    is_there(test, command, found.is_ok())
}
