//! What helps where code that a runtime makes while it runs has no whole stacks or no
//! names: the option of the runtime that was sampled, or all that are known.

use prof_profile::{ChainSource, DsoKind, Profile, UnnamedReason};

/// A runtime, and the commands by which it helps a profiler; empty where nothing does,
/// or nothing is needed.
struct Runtime {
    /// Its program or library, without the version behind it.
    file: &'static str,
    /// So that stacks are whole.
    stacks: &'static str,
    /// So that functions have names.
    names: &'static str,
}

/// oneDNN's kernels, of whichever library has them, get a perf map.
const ONEDNN: &str = "with ONEDNN_JIT_PROFILE=4 in the environment";

const RUNTIMES: [Runtime; 11] = [
    Runtime {
        file: "libjvm.so",
        // With frame pointers fewer are whole than the recorder makes.
        stacks: "",
        names: "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit",
    },
    Runtime {
        file: "libcoreclr.so",
        stacks: "",
        names: "DOTNET_PerfMapEnabled=1 dotnet",
    },
    Runtime {
        file: "node",
        stacks: "",
        names: "node --perf-basic-prof",
    },
    Runtime {
        file: "deno",
        stacks: "",
        names: "deno --v8-flags=--perf-basic-prof",
    },
    Runtime {
        file: "bun",
        stacks: "",
        names: "BUN_JSC_useJITDump=1 bun",
    },
    Runtime {
        file: "beam",
        stacks: "erl +JPperf true",
        names: "erl +JPperf true",
    },
    Runtime {
        file: "mono",
        stacks: "MONO_DEBUG=disable_omit_fp mono",
        names: "mono --jitmap",
    },
    Runtime {
        file: "php",
        stacks: "php -d opcache.jit_debug=256",
        names: "php -d opcache.jit_debug=256",
    },
    Runtime {
        file: "libtensorflow_cc.so",
        stacks: "",
        names: ONEDNN,
    },
    Runtime {
        file: "libopenvino_intel_cpu_plugin.so",
        stacks: "",
        names: ONEDNN,
    },
    Runtime {
        // Python's.
        file: "_libwasmtime.so",
        stacks: "",
        names: "with wasmtime's Config.profiler = \"perfmap\"",
    },
];

impl Runtime {
    /// Whether a file is its: `php8.2`, `mono-sgen`, but not `bundle`.
    fn is_in(&self, file: &str) -> bool {
        file.strip_prefix(self.file)
            .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphabetic() || next == '_'))
    }
}

/// The runtimes of which something was sampled.
fn sampled(profile: &Profile) -> impl Iterator<Item = &'static Runtime> {
    let is_there = |runtime: &&Runtime| {
        let mut dsos = profile.dsos.iter();
        dsos.any(|dso| dso.kind == DsoKind::File && runtime.is_in(profile.name(dso.short_name)))
    };
    RUNTIMES.iter().filter(is_there)
}

/// The commands to run, one for each of some runtimes.
fn commands(of: impl Iterator<Item = &'static str>) -> Option<String> {
    let all: Vec<&str> = of.collect();
    (!all.is_empty()).then(|| all.join(" or "))
}

/// What makes stacks whole that end in code made at run time; empty if nothing is known
/// that was not done.
pub(super) fn whole_stacks(profile: &Profile) -> String {
    if profile.trust.chain_source == ChainSource::Kernel {
        return "record with --call-graph auto".into();
    }
    let mut found = sampled(profile).peekable();
    if found.peek().is_none() {
        return "let the runtime keep frame pointers (MONO_DEBUG=disable_omit_fp mono, erl +JPperf \
                true) or tell debuggers of its code (php -d opcache.jit_debug=256)"
            .into();
    }
    // What gives both was done where there are names.
    let lacks_names = lacks_names(profile);
    let helps = found.filter(|it| lacks_names || it.stacks != it.names);
    let helps = helps.map(|it| it.stacks).filter(|it| !it.is_empty());
    commands(helps).map_or_else(String::new, |all| format!("run {all}"))
}

/// Whether code made at run time has no names since nothing tells any.
fn lacks_names(profile: &Profile) -> bool {
    let reasons = profile.trust.unnamed.keys();
    reasons
        .map(|key| key.1)
        .any(|it| it == UnnamedReason::NoPerfMap)
}

/// What names the functions of code made at run time that no list names; `None` if
/// nothing tells which runtime made it.
pub(super) fn named_functions(profile: &Profile) -> Option<String> {
    let names = sampled(profile).map(|it| it.names);
    commands(names).map(|all| format!("run {all}"))
}

#[cfg(test)]
mod tests {
    use super::RUNTIMES;

    #[test]
    fn a_runtime_is_known_by_the_name_of_its_file_with_any_version() {
        let of = |file: &str| {
            let known = RUNTIMES.iter().filter(|it| it.is_in(file));
            known.map(|it| it.file).collect::<Vec<_>>()
        };
        for (file, runtime) in [
            ("libjvm.so", "libjvm.so"),
            ("libcoreclr.so", "libcoreclr.so"),
            ("beam.smp", "beam"),
            ("mono-sgen", "mono"),
            ("php8.2", "php"),
            ("php-fpm8.2", "php"),
            ("node", "node"),
            ("bun", "bun"),
            ("_libwasmtime.so", "_libwasmtime.so"),
        ] {
            assert_eq!(of(file), [runtime], "{file}");
        }
        for file in ["bundle", "node_exporter", "monolith", "libbeam.so", ""] {
            assert!(of(file).is_empty(), "{file}");
        }
    }
}
