//! The file of a program that is launched by its name.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The program's file, if it can be found and executed, as far as can be told
/// before trying; `NotFound` or `PermissionDenied` if not.
pub(crate) fn look_up(program: &OsStr) -> io::Result<PathBuf> {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    if is_path {
        return executable(PathBuf::from(program));
    }
    if program.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    // execvp(3) looks in these where PATH is not set.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for directory in std::env::split_paths(&path) {
        let file = directory.join(program);
        // Of a folder that cannot be looked into, shells say nothing.
        let is_there = file.exists();
        match executable(file) {
            Ok(path) => return Ok(path),
            Err(error) if is_there => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

fn executable(path: PathBuf) -> io::Result<PathBuf> {
    let metadata = std::fs::metadata(&path)?;
    if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        Ok(path)
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

#[cfg(test)]
mod tests {
    use super::look_up;
    use std::ffi::OsStr;
    use std::io::ErrorKind;

    #[test]
    fn a_command_is_looked_up_as_a_shell_does() {
        assert!(look_up(OsStr::new("sh")).is_ok());
        let kind = |name: &str| look_up(OsStr::new(name)).expect_err(name).kind();
        assert_eq!(kind("no-such-command-anywhere"), ErrorKind::NotFound);
        assert_eq!(kind("/no/such"), ErrorKind::NotFound);
        assert_eq!(kind("/etc/passwd"), ErrorKind::PermissionDenied);
        assert_eq!(kind("/"), ErrorKind::PermissionDenied);
        assert_eq!(kind(""), ErrorKind::NotFound);
    }
}
