//! Launching a program that waits until its events are open.

use crate::identity::{Identity, become_user};
use crate::inherited::Inherited;
use crate::process::{self, Ended, Usage, Wait};
use crate::signal::{self, Disposition, SignalSet};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Whether the file gives capabilities to whoever executes it. `false` also
/// where that cannot be told.
pub fn gives_capabilities(program: &Path) -> bool {
    let Ok(path) = CString::new(program.as_os_str().as_encoded_bytes()) else {
        return false;
    };
    // SAFETY: both strings end with NUL; with a size of 0 the kernel writes
    // nothing and only tells the length.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"security.capability".as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    length > 0
}

/// A program could not be launched.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// An argument has a NUL byte, which execve(2) cannot pass.
    #[error("an argument of the command holds a NUL byte")]
    Nul,
    /// No process or pipe to be had.
    #[error("cannot start a process: {0}")]
    Fork(#[source] io::Error),
    /// execve(2) failed.
    #[error("{0}")]
    Exec(#[source] io::Error),
    /// The program is there, and what has to run it is not: a script's
    /// interpreter.
    #[error("its interpreter, {}, is not there (the first line of the file names it)", .0.display())]
    Interpreter(PathBuf),
}

impl ExecError {
    /// The exit code a shell would give: 127 not found, 126 found but not
    /// executable, 1 for what the shell itself would fail at.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Exec(error) if error.kind() == io::ErrorKind::NotFound => 127,
            Self::Exec(_) | Self::Interpreter(_) => 126,
            Self::Nul | Self::Fork(_) => 1,
        }
    }
}

/// Whether a program is in no folder of `path`, as far as those can be looked
/// into: of one that cannot, execvp(3) says that permission is denied, and
/// shells that the program is not found.
fn is_nowhere(program: &OsStr, path: Option<OsString>) -> bool {
    let is_sought = !program.as_bytes().contains(&b'/');
    let is_in = |folder: PathBuf| folder.join(program).exists();
    is_sought && path.is_some_and(|path| !std::env::split_paths(&path).any(is_in))
}

/// The interpreter that a script names in its first line and that is not there;
/// `None` of what is no script. `path` is where a program without a slash is sought.
fn interpreter(program: &OsStr, path: Option<OsString>) -> Option<PathBuf> {
    /// What the kernel reads of it, bytes.
    const HEAD: u64 = 256;
    let mut places: Vec<PathBuf> = match program.as_bytes().contains(&b'/') {
        true => vec![program.into()],
        false => std::env::split_paths(&path?)
            .map(|folder| folder.join(program))
            .collect(),
    };
    places.retain(|place| place.is_file());
    let mut head = Vec::new();
    let file = File::open(places.first()?).ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let line = head
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let name = line
        .trim_ascii()
        .split(|byte| b" \t".contains(byte))
        .next()?;
    let interpreter = PathBuf::from(OsStr::from_bytes(name));
    (!name.is_empty() && !interpreter.exists()).then_some(interpreter)
}

/// What a launched program finds around it, where it is not what we were
/// started with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// Its working directory.
    pub directory: Option<PathBuf>,
    /// Variables of its environment, in addition or instead.
    pub variables: Vec<(OsString, OsString)>,
    /// Its input is empty, and what it writes to its standard output and error
    /// is thrown away.
    pub is_silent: bool,
    /// What it writes to its standard output goes to standard error, since
    /// the output is for something of ours.
    pub has_no_output: bool,
}

impl Surroundings {
    /// The environment as `NAME=VALUE`; `None` if it is ours.
    fn environment(&self, user: Option<&Identity>) -> Result<Option<Vec<CString>>, ExecError> {
        if self.variables.is_empty() {
            return Ok(user.map(Identity::environment));
        }
        let line = |(name, value): (OsString, OsString)| {
            let mut line = name.into_vec();
            line.push(b'=');
            line.extend(value.into_vec());
            line
        };
        let mut lines: Vec<Vec<u8>> = match user {
            Some(user) => user
                .environment()
                .into_iter()
                .map(CString::into_bytes)
                .collect(),
            None => std::env::vars_os().map(line).collect(),
        };
        for (name, value) in &self.variables {
            let own = line((name.clone(), value.clone()));
            let start = own.get(..=name.len()).unwrap_or_default().to_vec();
            lines.retain(|line| !line.starts_with(&start));
            lines.push(own);
        }
        let lines: Result<Vec<CString>, _> = lines.into_iter().map(CString::new).collect();
        lines.map(Some).map_err(|_| ExecError::Nul)
    }
}

/// A process that waits for [`Launched::start`] to become the program.
///
/// ```text
///   we                            the process
///   ──                            ───────────
///   fork ───────────────────────► waits for a byte
///   open events with its pid
///   start(): a byte ────────────► signals, limits, descriptors as we found
///                                 them, execve
///   end of the second pipe ◄───── closed by the exec, or the errno
/// ```
///
/// Dropped before its start, or when we die, the process ends quietly.
#[derive(Debug)]
pub struct Launched {
    program: OsString,
    pid: u32,
    go: Option<PipeWriter>,
    failure: PipeReader,
    /// See [`Launched::memory_before`].
    memory_before: u64,
}

impl Launched {
    /// Forks. `arguments` begins with the program, which is looked for in
    /// `PATH` unless it has a slash. `changed` are the signals whose
    /// dispositions we change for ourselves, beside SIGPIPE, which Rust's
    /// start-up ignores, and that of [`signal::outlive_size_limits`].
    pub fn fork(arguments: &[OsString], changed: SignalSet) -> Result<Self, ExecError> {
        Self::fork_as(arguments, changed, None, &Surroundings::default())
    }

    /// The same; the program runs as `user`, with its groups and what a login
    /// sets in the environment, where one is given, and finds `around` it what
    /// that says.
    pub fn fork_as(
        arguments: &[OsString],
        changed: SignalSet,
        user: Option<&Identity>,
        around: &Surroundings,
    ) -> Result<Self, ExecError> {
        let program = arguments.first().cloned().unwrap_or_default();
        let arguments: Vec<CString> = arguments
            .iter()
            .map(|argument| CString::new(argument.clone().into_vec()))
            .collect::<Result<_, _>>()
            .map_err(|_| ExecError::Nul)?;
        let mut pointers: Vec<*const libc::c_char> =
            arguments.iter().map(|argument| argument.as_ptr()).collect();
        pointers.push(std::ptr::null());
        if arguments.is_empty() {
            return Err(ExecError::Exec(io::ErrorKind::NotFound.into()));
        }
        let environment = around.environment(user)?;
        let variables = environment.as_ref().map(|lines| {
            let pointers = lines.iter().map(|line| line.as_ptr());
            let pointers: Vec<*const libc::c_char> = pointers.chain([std::ptr::null()]).collect();
            pointers
        });
        let directory = around
            .directory
            .as_ref()
            .map(|path| path.as_os_str().as_bytes());
        let directory = directory.map(CString::new).transpose();
        let directory = directory.map_err(|_| ExecError::Nul)?;
        let (go_reader, go) = io::pipe().map_err(ExecError::Fork)?;
        let (failure, failure_writer) = io::pipe().map_err(ExecError::Fork)?;
        let plan = Plan {
            arguments: &pointers,
            go: go_reader.as_raw_fd(),
            go_writer: go.as_raw_fd(),
            failure: failure_writer.as_raw_fd(),
            changed,
            inherited: Inherited::at_start(),
            user,
            variables: variables.as_deref(),
            directory: directory.as_deref(),
            is_silent: around.is_silent,
            has_no_output: around.has_no_output,
        };
        // SAFETY: the child runs only `Plan::run`, which makes system calls
        // that are async-signal-safe, allocates nothing, takes no lock, and
        // never returns.
        let pid = match crate::checked(unsafe { libc::fork() }).map_err(ExecError::Fork)? {
            0 => plan.run(),
            pid => u32::try_from(pid).expect("a process id is positive"),
        };
        Ok(Self {
            program,
            pid,
            go: Some(go),
            failure,
            memory_before: 0,
        })
    }

    /// Its process id, the same before and after the start.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it become the program. When this comes back without an error, it
    /// has; otherwise the process is gone and reaped.
    pub fn start(&mut self) -> Result<(), ExecError> {
        let Some(mut go) = self.go.take() else {
            return Ok(());
        };
        self.memory_before = process::peak_memory(self.pid).unwrap_or(0);
        let sent = go.write_all(&[1]);
        drop(go);
        let mut errno = [0_u8; 4];
        // Nothing but the end of the pipe: the exec closed it.
        let failed = sent.is_err() || self.failure.read_exact(&mut errno).is_ok();
        if !failed {
            return Ok(());
        }
        let ended = process::reap(self.pid, Wait::ForEnd);
        let path = || std::env::var_os("PATH");
        let errno = match i32::from_ne_bytes(errno) {
            0 => not_begun(ended),
            libc::EACCES if is_nowhere(&self.program, path()) => {
                io::Error::from_raw_os_error(libc::ENOENT)
            }
            errno => io::Error::from_raw_os_error(errno),
        };
        let missing = match errno.kind() {
            io::ErrorKind::NotFound => interpreter(&self.program, path()),
            _ => None,
        };
        Err(missing.map_or(ExecError::Exec(errno), ExecError::Interpreter))
    }

    /// Most memory that the process had before it became the program, bytes: the kernel
    /// counts that, too, in [`Usage::peak_memory`]. 0 before its start.
    pub fn memory_before(&self) -> u64 {
        self.memory_before
    }

    /// How it ended, if it has.
    pub fn ended(&self, wait: Wait) -> io::Result<Option<Ended>> {
        process::reap(self.pid, wait)
    }

    /// The same, and what it used.
    pub fn ended_with_usage(&self, wait: Wait) -> io::Result<Option<(Ended, Usage)>> {
        process::reap_with_usage(self.pid, wait)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.go.take().is_some() {
            // The process reads the end of its pipe and exits; an error means
            // that somebody else reaped it.
            let _ = process::reap(self.pid, Wait::ForEnd);
        }
    }
}

/// All that the new process needs, made before the fork.
struct Plan<'a> {
    arguments: &'a [*const libc::c_char],
    go: RawFd,
    go_writer: RawFd,
    failure: RawFd,
    changed: SignalSet,
    inherited: Inherited,
    /// As whom the program runs.
    user: Option<&'a Identity>,
    /// Its environment, ending with null, if it is not ours.
    variables: Option<&'a [*const libc::c_char]>,
    directory: Option<&'a CStr>,
    is_silent: bool,
    has_no_output: bool,
}

impl Plan<'_> {
    /// Runs in the new process: only async-signal-safe calls, no allocation.
    fn run(&self) -> ! {
        // SAFETY: the descriptors are ours since the fork; the pointers are
        // into memory copied by the fork, the argument list ends with null;
        // _exit ends the process without running anything of the parent's.
        unsafe {
            // Else we would keep our own pipe open if the parent died.
            libc::close(self.go_writer);
            let mut byte = 0_u8;
            loop {
                match libc::read(self.go, (&raw mut byte).cast(), 1) {
                    1 => break,
                    -1 if *libc::__errno_location() == libc::EINTR => {}
                    _ => libc::_exit(0),
                }
            }
            self.restore();
            if self.is_in_place() {
                let arguments = self.arguments.as_ptr();
                match self.variables {
                    None => _ = libc::execvp(self.arguments[0], arguments),
                    Some(variables) => {
                        libc::execvpe(self.arguments[0], arguments, variables.as_ptr());
                    }
                }
            }
            let errno = (*libc::__errno_location()).to_ne_bytes();
            libc::write(self.failure, errno.as_ptr().cast(), errno.len());
            libc::_exit(127)
        }
    }

    /// Takes on what is asked for; `false`, with `errno` set, if that cannot
    /// be had. Only system calls.
    fn is_in_place(&self) -> bool {
        // SAFETY: the strings end with NUL; all else are numbers.
        unsafe {
            if self.is_silent {
                let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                if nothing < 0 || (0..3).any(|standard| libc::dup2(nothing, standard) < 0) {
                    return false;
                }
            }
            if self.has_no_output && libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) < 0 {
                return false;
            }
            if self.user.is_some_and(|user| !become_user(user)) {
                return false;
            }
            self.directory
                .is_none_or(|path| libc::chdir(path.as_ptr()) == 0)
        }
    }

    /// Gives back what the process was started with. Nothing here can be
    /// reported; an exec follows anyway.
    fn restore(&self) {
        let of_everybody = [libc::SIGPIPE, libc::SIGXFSZ];
        for signal in self.changed.iter().chain(of_everybody) {
            let disposition = if self.inherited.ignored.has(signal) {
                Disposition::Ignore
            } else {
                Disposition::Default
            };
            let _ = signal::set_disposition(signal, disposition);
        }
        if let Some(limit) = self.inherited.open_files {
            let _ = limit.set(crate::limits::Resource::OpenFiles);
        }
        for (fd, closed) in (0..).zip(self.inherited.closed) {
            if closed {
                // SAFETY: takes a number; what stands there is /dev/null,
                // opened by Rust's start-up, and this process uses it no more.
                unsafe { libc::close(fd) };
            }
        }
        signal::set_mask(self.inherited.blocked);
    }
}

/// What is told of a process that ended before it was the program, and said no
/// errno of it.
fn not_begun(ended: io::Result<Option<Ended>>) -> io::Error {
    let how = match ended {
        Ok(Some(Ended::Exited(code))) => format!("exit status {code}"),
        Ok(Some(Ended::Signaled(signal))) => format!("signal {signal}"),
        Ok(None) => "how is not known".to_owned(),
        Err(error) => format!("how is not known: {error}"),
    };
    io::Error::other(format!("its process ended before it began ({how})"))
}

#[cfg(test)]
mod tests {
    use super::{ExecError, Inherited, Launched};
    use crate::process::{Ended, Wait};
    use crate::signal::SignalSet;
    use std::ffi::OsString;

    fn fork(arguments: &[&str]) -> Result<Launched, ExecError> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        Launched::fork(&arguments, SignalSet::of(&[]))
    }

    #[test]
    fn it_waits_for_the_start_and_passes_its_exit_code() {
        let mut launched = fork(&["sh", "-c", "exit 7"]).expect("fork");
        assert_eq!(launched.ended(Wait::No).expect("wait"), None);
        launched.start().expect("sh is found");
        assert_eq!(
            launched.ended(Wait::ForEnd).expect("wait"),
            Some(Ended::Exited(7))
        );
    }

    #[test]
    fn a_signal_is_passed_as_a_signal() {
        let mut launched = fork(&["sh", "-c", "kill -9 $$"]).expect("fork");
        launched.start().expect("sh is found");
        assert_eq!(
            launched.ended(Wait::ForEnd).expect("wait"),
            Some(Ended::Signaled(9))
        );
    }

    #[test]
    fn what_cannot_run_says_why_with_a_shells_exit_code() {
        let error = fork(&["/no/such/program"])
            .expect("fork")
            .start()
            .expect_err("missing");
        assert_eq!(error.exit_code(), 127);
        let error = fork(&["/"])
            .expect("fork")
            .start()
            .expect_err("a directory");
        assert_eq!(error.exit_code(), 126);
        let error = fork(&["a\0b"]).expect_err("NUL");
        assert_eq!(error.exit_code(), 1);
        assert_eq!(fork(&[]).expect_err("nothing").exit_code(), 127);
    }

    #[test]
    fn an_interpreter_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().expect("directory");
        let script = directory.path().join("script");
        std::fs::write(&script, "#! /no/such/python -u\nprint()\n").expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).expect("it may be run");
        let name = script.to_str().expect("utf-8");
        let error = fork(&[name]).expect("fork").start().expect_err("missing");
        assert_eq!(error.exit_code(), 126);
        let told = error.to_string();
        assert!(told.contains("its interpreter, /no/such/python,"), "{told}");
        assert_eq!(super::interpreter("sh".as_ref(), Some("/bin".into())), None);
    }

    #[test]
    fn what_no_folder_of_the_path_has_is_not_found() {
        let path = || Some("/no/such:/bin".into());
        let is_nowhere = |program: &str| super::is_nowhere(program.as_ref(), path());
        assert!(is_nowhere("no-such-program"));
        assert!(!is_nowhere("sh") && !is_nowhere("/no/such/program"));
    }

    #[test]
    fn most_files_give_no_capabilities() {
        for path in ["/bin/sh", "/no/such", "/"] {
            assert!(!super::gives_capabilities(path.as_ref()), "{path}");
        }
    }

    #[test]
    fn dropped_before_its_start_it_never_runs() {
        let directory = tempfile::tempdir().expect("directory");
        let mark = directory.path().join("mark");
        let launched = fork(&["touch", mark.to_str().expect("utf-8")]).expect("fork");
        let pid = launched.pid();
        drop(launched);
        assert!(!mark.exists());
        assert!(crate::process::reap(pid, Wait::No).is_err(), "reaped");
    }

    #[test]
    fn it_finds_around_it_what_was_asked_for() {
        let directory = tempfile::tempdir().expect("directory");
        let script = "echo unseen; test \"$PROF_SIDE\" = new && test -n \"$PATH\" && pwd > seen";
        let arguments = ["sh", "-c", script].map(OsString::from);
        let around = super::Surroundings {
            directory: Some(directory.path().to_owned()),
            variables: vec![("PROF_SIDE".into(), "new".into())],
            is_silent: true,
            has_no_output: false,
        };
        let launched = Launched::fork_as(&arguments, SignalSet::of(&[]), None, &around);
        let mut launched = launched.expect("fork");
        launched.start().expect("sh is found");
        let ended = launched.ended_with_usage(Wait::ForEnd).expect("wait");
        assert_eq!(ended.map(|(ended, _)| ended), Some(Ended::Exited(0)));
        assert!(directory.path().join("seen").exists());
    }

    #[test]
    fn the_program_sees_our_signals_and_descriptors_as_they_were() {
        crate::signal::block(SignalSet::of(&[libc::SIGWINCH]));
        crate::signal::outlive_size_limits().expect("a signal's number");
        let script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ls -l /proc/self/fd";
        let direct = std::process::Command::new("sh")
            .args(["-c", "true"])
            .status();
        assert!(direct.expect("sh").success());
        let directory = tempfile::tempdir().expect("directory");
        let seen = directory.path().join("seen");
        let script = format!("{{ {script}; }} > {}", seen.display());
        let mut launched = fork(&["sh", "-c", &script]).expect("fork");
        launched.start().expect("sh is found");
        assert_eq!(
            launched.ended(Wait::ForEnd).expect("wait"),
            Some(Ended::Exited(0))
        );
        let seen = std::fs::read_to_string(seen).expect("written");
        assert!(seen.contains("SigBlk:\t0000000000000000"), "{seen}");
        let ignored = Inherited::at_start().ignored;
        let ignored = (1..32).filter(|&signal| ignored.has(signal));
        let ignored: u64 = ignored.map(|signal| 1 << (signal - 1)).sum();
        let line = seen.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let found = u64::from_str_radix(line.expect("a mask").trim(), 16).expect("hex");
        // Beyond these are signals that the C library keeps for itself.
        assert_eq!(found & 0x7fff_ffff, ignored, "{seen}");
        assert!(!seen.contains("anon_inode"), "{seen}");
    }
}
