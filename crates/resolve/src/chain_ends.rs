//! Did a user stack reach its thread's start?
//!
//! Judged by the name of the outermost user frame, for recordings that do not
//! say it themselves: the entry points of programs and threads in the C
//! libraries and runtimes, from which nothing was called.

/// Functions that are the outermost frame of a thread.
const THREAD_STARTS: [&str; 16] = [
    "_start",
    "_dl_start_user",
    "_rt0_amd64",
    "_rt0_amd64_linux",
    "_rt0_arm64_linux",
    "__clone",
    "__clone2",
    "__clone3",
    "__clone_internal",
    "__start",
    "__thread_start__",
    "_start_c",
    "clone",
    "clone3",
    "runtime.goexit",
    "runtime.mstart",
];

/// More of them, which only some C libraries and tools name so; `start_thread`
/// is called by `clone` but is the last frame that has a symbol of its own in
/// stripped copies of older C libraries.
const LAST_NAMED: [&str; 10] = [
    "start_thread",
    "__libc_start_main",
    "__pthread_start",
    "__pthread_start(void*)",
    "__start_thread",
    "__dl__start",
    "__libc_init",
    "thread_start",
    "__bionic_clone",
    "start",
];

/// Whether nothing calls the function of this name.
pub(crate) fn is_thread_start(name: &str) -> bool {
    let name = name.split_once('@').map_or(name, |(plain, _version)| plain);
    // Go's symbol tables tell how such functions are called (abi0).
    let name = name.strip_suffix(".abi0").unwrap_or(name);
    THREAD_STARTS.contains(&name) || LAST_NAMED.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_thread_start;

    #[test]
    fn entry_points_are_starts_and_their_callees_are_not() {
        assert!(is_thread_start("_start"));
        assert!(is_thread_start("clone3"));
        // Android's.
        assert!(is_thread_start("__start_thread"));
        // Go's since 1.17.
        assert!(is_thread_start("runtime.goexit.abi0"));
        assert!(!is_thread_start("main"));
        assert!(!is_thread_start("start_thread_pool"));
    }
}
