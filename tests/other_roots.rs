//! Programs that see other files than we do have their names afterwards, too.

use crate::oracle::{compiled, have, perf_at, perfs, prof, prof_command, scratch, skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a static program that spends its time in a function of this name.
fn program(function: &str, to: &Path) {
    program_with(function, "-Wl,--build-id", to);
}

/// The same with an option for the linker.
fn program_with(function: &str, option: &str, to: &Path) {
    let source = scratch().join(format!("{function}.c"));
    let text = format!(
        "#include <time.h>
         static volatile unsigned long sink;
         __attribute__((noinline)) void {function}(void) {{
             for (int i = 0; i < 100000; i++) sink += i;
         }}
         int main(void) {{
             while (clock() < CLOCKS_PER_SEC / 2) {function}();
             return 0;
         }}"
    );
    fs::write(&source, text).expect("written");
    let built = Command::new("gcc")
        .args(["-O1", "-static", option, "-o"])
        .arg(to)
        .arg(&source)
        .status()
        .expect("gcc starts");
    assert!(built.success(), "it compiles");
}

/// An empty directory of the test's own.
fn fresh(name: &str) -> PathBuf {
    let directory = scratch().join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("made");
    directory
}

/// The functions of a report, with this home.
fn report(data: &Path, home: &Path) -> String {
    let output = prof_command()
        .env("HOME", home)
        .args(["report", "--stdio", "-s", "dso,sym", "-i"])
        .arg(data)
        .output()
        .expect("prof starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_program_in_a_chroot_has_names_after_its_end() {
    let test = "a_program_in_a_chroot_has_names_after_its_end";
    let may = Command::new("chroot").args(["/", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skipped(test, "chroot is not permitted");
    }
    if !have(test, "gcc") {
        return;
    }
    let home = fresh("other-roots-home");
    let root = fresh("other-roots-root");
    // The same path outside of the root is another program.
    let outside = fresh("other-roots-outside");
    let path = outside.join("app");
    let inside = root.join(path.strip_prefix("/").expect("absolute"));
    fs::create_dir_all(inside.parent().expect("a directory")).expect("made");
    program("in_the_container", &inside);
    program("on_the_host", &path);
    let data = scratch().join("other-roots.data");
    let recorded = |options: &[&str], home: &Path| {
        let output = prof_command()
            .env("HOME", home)
            .args(["record", "-F", "999", "-o"])
            .arg(&data)
            .args(options)
            .args(["--", "chroot"])
            .arg(&root)
            .arg(&path)
            .output()
            .expect("prof starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for options in [&[][..], &["-g"]] {
        let home = &home.join(options.len().to_string());
        fs::create_dir_all(home).expect("made");
        let said = recorded(options, home);
        assert!(
            said.contains("1 file deleted or of other roots kept"),
            "{said}"
        );
        // It is gone, root and all.
        let hidden = root.with_extension("gone");
        // An earlier run of the test may have ended while it was hidden.
        let _ = fs::remove_dir_all(&hidden);
        fs::rename(&root, &hidden).expect("renamed");
        let text = report(&data, home);
        assert!(text.contains("in_the_container"), "{text}");
        assert!(!text.contains("on_the_host"), "{text}");
        if have(test, "perf") {
            for perf in perfs(test) {
                let cache = home.join(".debug");
                let cache = cache.to_str().expect("UTF-8");
                let data = data.to_str().expect("UTF-8");
                let arguments = ["--buildid-dir", cache, "report", "--stdio", "-i", data];
                let text = perf_at(&perf, &arguments).text();
                assert!(text.contains("in_the_container"), "{text}");
            }
        }
        fs::rename(&hidden, &root).expect("renamed back");
    }
    // Without a copy there are addresses, and never the host's names.
    let bare = home.join("bare");
    fs::create_dir_all(&bare).expect("made");
    let said = recorded(&["-N"], &bare);
    assert!(!said.contains("kept"), "{said}");
    let text = report(&data, &bare);
    assert!(!text.contains("on_the_host"), "{text}");
    assert!(!bare.join(".debug").exists());
}

#[test]
fn what_is_not_kept_of_a_chroot_is_told() {
    let test = "what_is_not_kept_of_a_chroot_is_told";
    let may = Command::new("chroot").args(["/", "true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skipped(test, "chroot is not permitted");
    }
    if !have(test, "gcc") {
        return;
    }
    let home = fresh("not-kept-home");
    let root = fresh("not-kept-root");
    program_with("without_an_id", "-Wl,--build-id=none", &root.join("app"));
    let data = scratch().join("not-kept.data");
    for options in [&[][..], &["-a"]] {
        let may_all = options.is_empty() || fs::metadata("/proc/1/exe").is_ok();
        if !may_all {
            skipped(test, "only root records all processes");
            continue;
        }
        let output = prof_command()
            .env("HOME", &home)
            .args(["record", "-F", "199", "-o"])
            .arg(&data)
            .args(options)
            .args(["--", "chroot"])
            .arg(&root)
            .arg("/app")
            .output()
            .expect("prof starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let told = " deleted or of other roots without a build-id (/app)";
        assert!(said.contains(told), "{options:?}: {said}");
        assert!(said.contains("link with -Wl,--build-id"), "{said}");
        // Where names go into the file, those are taken from the file that is open.
        let output = prof_command()
            .env("HOME", &home)
            .args(["record", "-F", "999", "--embed-time", "20000", "-o"])
            .arg(&data)
            .args(options)
            .args(["--", "chroot"])
            .arg(&root)
            .arg("/app")
            .output()
            .expect("prof starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("without a build-id"), "{options:?}: {said}");
        let text = report(&data, &home);
        assert!(text.contains("without_an_id"), "{options:?}: {text}");
    }
}

/// What a JIT compiler wrote into its container's `/tmp` names its code after
/// the container is gone.
#[test]
fn run_time_code_in_a_container_has_names_after_its_end() {
    let test = "run_time_code_in_a_container_has_names_after_its_end";
    let container = ["unshare", "-m", "-p", "-f", "--mount-proc"];
    let may = Command::new(container[0])
        .args(&container[1..])
        .arg("true")
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skipped(test, "namespaces are not permitted");
    }
    let Some(program) = compiled(test, "jit.c", &["-O1"]) else {
        return;
    };
    // The program is opened before: it may stand below `/tmp` itself.
    let inside = format!(
        "exec 3<{}; mount -t tmpfs none /tmp && cat <&3 >/tmp/jit && chmod +x /tmp/jit &&
         /tmp/jit '@0 c secret' '@1 c secret'",
        program.display()
    );
    let data = scratch().join("container-jit.data");
    for options in [&[][..], &["-g"]] {
        let recorded = prof_command()
            .args(["record", "-F", "999", "-o"])
            .arg(&data)
            .args(options)
            .arg("--")
            .args(container)
            .args(["sh", "-c", &inside])
            .output()
            .expect("prof starts");
        let said = String::from_utf8_lossy(&recorded.stderr);
        assert!(recorded.status.success(), "{said}");
        assert!(said.contains("1 perf map of other roots kept"), "{said}");
        let arguments = [
            "script",
            "-F",
            "pid,ip,sym",
            "-i",
            data.to_str().expect("UTF-8"),
        ];
        let text = prof(&arguments).succeeded("script").text();
        let named = text.matches("secret").count();
        let pid = pid_of(&text, "secret").expect("a sample with the name");
        let map = format!("/tmp/perf-{pid}.map");
        fs::remove_file(&map).expect("the copy");
        assert!(named > 100, "{text}");
    }
}

/// The process of the first sample that has this name; frames are indented by
/// a tab.
fn pid_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pid = None;
    for line in text.lines() {
        if !line.starts_with('\t') {
            pid = line.split_whitespace().next().or(pid);
        }
        if line.ends_with(name) {
            return pid;
        }
    }
    None
}

#[test]
fn files_below_another_root_give_names_lines_and_code() {
    let test = "files_below_another_root_give_names_lines_and_code";
    if !have(test, "gcc") {
        return;
    }
    let home = fresh(test);
    let (path, root) = (home.join("app"), home.join("root"));
    program_with("elsewhere", "-g", &path);
    let data = home.join("perf.data");
    let recorded = prof_command()
        .args(["record", "-q", "-F", "999", "-o"])
        .arg(&data)
        .arg("--")
        .arg(&path)
        .status();
    assert!(recorded.expect("prof starts").success(), "recorded");
    // The program and its source move below the root; others take their place.
    let source = scratch().join("elsewhere.c");
    for moved in [&path, &source] {
        let below = root.join(moved.strip_prefix("/").expect("absolute"));
        fs::create_dir_all(below.parent().expect("a folder")).expect("made");
        fs::rename(moved, below).expect("moved");
        fs::write(moved, "something else").expect("written");
    }
    let told = |command: &str, options: &[&str]| {
        let output = prof_command()
            .env("HOME", &home)
            .args([command, "--stdio", "-i"])
            .arg(&data)
            .args(options)
            .output()
            .expect("prof starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let root = root.to_str().expect("a plain name");
    let by_line = ["-s", "sym,srcline"];
    let without = told("report", &by_line);
    assert!(!without.contains("] elsewhere"), "{without}");
    let with = told("report", &[by_line.as_slice(), &["--symfs", root]].concat());
    assert!(with.contains("] elsewhere"), "{with}");
    assert!(with.contains("elsewhere.c:4"), "{with}");
    let code = told("annotate", &["--symfs", root, "elsewhere"]);
    assert!(code.contains("sink += i"), "{code}");
    assert!(code.contains("<elsewhere"), "{code}");
}

#[test]
fn a_program_whose_path_is_no_text_has_its_names() {
    use std::os::unix::ffi::OsStrExt;
    let test = "a_program_whose_path_is_no_text_has_its_names";
    if !have(test, "gcc") {
        return;
    }
    let folder = fresh(test);
    let odd = folder.join(std::ffi::OsStr::from_bytes(b"od\xff d"));
    program("of_odd_path", &odd);
    let data = folder.join("data");
    // With names in the file, and with those of the program itself.
    for embed in ["--embed-time=60000", "--no-embed"] {
        let recorded = prof_command()
            .args([
                "record",
                "-q",
                "-g",
                "-F",
                "499",
                "-e",
                "cpu-clock:u",
                embed,
                "-o",
            ])
            .arg(&data)
            .arg(&odd)
            .output()
            .expect("prof starts");
        assert!(recorded.status.success(), "{recorded:?}");
        let shown = report(&data, &folder);
        let is_named = |line: &str| line.contains("of_odd_path") && line.contains("od\\xff d");
        assert!(shown.lines().any(is_named), "{shown}");
        assert!(!shown.contains("is gone"), "{shown}");
    }
}

#[test]
fn a_program_that_was_deleted_before_has_its_names() {
    let test = "a_program_that_was_deleted_before_has_its_names";
    if !have(test, "gcc") {
        return;
    }
    let folder = fresh(test);
    let app = folder.join("app");
    program("of_deleted", &app);
    let mut running = Command::new(&app).spawn().expect("it starts");
    fs::remove_file(&app).expect("deleted");
    let data = folder.join("data");
    let recorded = prof_command()
        .env("HOME", &folder)
        .args(["record", "-g", "-F", "499", "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .args(["-p", &running.id().to_string()])
        .output()
        .expect("prof starts");
    running.wait().expect("it ends");
    assert!(recorded.status.success(), "{recorded:?}");
    let said = String::from_utf8_lossy(&recorded.stderr);
    assert!(
        said.contains("1 file deleted or of other roots kept"),
        "{said}"
    );
    let shown = report(&data, &folder);
    assert!(
        shown.lines().any(|line| line.contains("of_deleted")),
        "{shown}"
    );
}
