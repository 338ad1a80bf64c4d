//! What the lines of trust say.

use super::{
    chain_end, chain_end_of_any, cut_stacks, lines, lines_within, losses, unnamed_frames, wrapped,
};
use prof_profile::{ChainEnd, ChainSource, Damage, DsoKind, Event, Profile, UnnamedReason};
use prof_sketch::Sketch;

/// 10 000 stacks and frames, with causes large and small.
fn doubtful() -> Profile {
    let mut sketch = Sketch::new();
    let kernel = sketch.dso("[kernel.kallsyms]", DsoKind::Kernel);
    let app = sketch.dso("app", DsoKind::File);
    let trust = &mut sketch.profile.trust;
    trust.frames = 10_000;
    trust.chain_ends.insert(ChainEnd::Root, 9_450);
    trust.chain_ends.insert(ChainEnd::StackCut, 500);
    trust.chain_ends.insert(ChainEnd::NoUnwindInfo, 50);
    trust
        .unnamed
        .insert((kernel, UnnamedReason::FileMissing), 4_000);
    trust.unnamed.insert((app, UnnamedReason::FileMissing), 200);
    trust.unnamed.insert((app, UnnamedReason::Stripped), 10);
    sketch.profile
}

#[test]
fn damage_is_the_first_figure_of_a_line() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, "app:main", 1, 1);
    let mut profile = sketch.profile;
    let line = |profile: &Profile, width| {
        let figures = super::summary_within(profile, width);
        let each = figures
            .iter()
            .map(|it| format!("{}{}{}", it.divider, it.sign(), it.words));
        each.collect::<String>()
    };
    assert!(!line(&profile, 200).contains("damaged"));
    profile.trust.damages.push(Damage {
        offset: 0x30,
        what: "at offset 0x30".into(),
        bytes: 7,
    });
    for width in [20, 200] {
        let line = line(&profile, width);
        assert!(line.starts_with("!the file is damaged; "), "{line}");
    }
}

#[test]
fn causes_are_told_by_size_and_small_ones_together() {
    let told = lines(&doubtful());
    let starts: Vec<&str> = told.iter().skip(1).map(|line| &line[..6]).collect();
    assert_eq!(
        starts,
        ["40.0 %", "5.0 % ", "2.0 % ", "0.5 % "],
        "{told:#?}"
    );
    let last = told.last().unwrap();
    assert!(last.contains("; 0.1 % of frames have no name"), "{last}");
    let mut one = doubtful();
    one.trust.chain_ends.remove(&ChainEnd::NoUnwindInfo);
    let told = lines(&one);
    assert!(told.last().unwrap().ends_with("install its debug symbols"));
}

#[test]
fn the_kernel_is_no_file_that_is_gone_and_an_offset_is_told_once() {
    let mut profile = doubtful();
    profile.trust.damages.push(Damage {
        offset: 0x30,
        what: "at 0x30: too short (8 bytes skipped)".into(),
        bytes: 8,
    });
    let told = lines(&profile);
    let kernel = told.iter().find(|line| line.contains("[kernel")).unwrap();
    assert!(!kernel.contains("gone"), "{kernel}");
    assert!(told.iter().any(|line| line.contains("gone (app 200)")));
    let damage = &told[1];
    assert_eq!(damage.matches("0x30").count(), 1, "{damage}");
}

#[test]
fn lines_fit_the_terminal_and_lose_no_word() {
    let profile = doubtful();
    let narrow = lines_within(&profile, 60);
    assert!(narrow.iter().all(|line| line.len() <= 60), "{narrow:#?}");
    let words = |lines: &[String]| lines.join(" ").split_whitespace().count();
    assert_eq!(words(&narrow), words(&lines(&profile)));
    assert_eq!(wrapped("a longword b", 6), ["a", "  longword", "  b"]);
}

#[test]
fn code_made_at_run_time_cannot_be_built_anew() {
    let told = |library: &str, of_jit, source| {
        let mut sketch = Sketch::new();
        sketch.profile.trust.chain_source = source;
        let code = sketch.dso("[JIT] tid 7", DsoKind::Jit);
        let app = sketch.dso(library, DsoKind::File);
        let trust = &mut sketch.profile.trust;
        let end = ChainEnd::NoUnwindInfo;
        trust.chain_ends.insert(end, 10);
        trust.unrooted_jit.insert(end, of_jit);
        trust.unrooted_by_dso.insert((code, end), of_jit);
        trust.unrooted_by_dso.insert((app, end), 10 - of_jit);
        let mut caveats = Vec::new();
        cut_stacks(&sketch.profile, &mut caveats);
        caveats
    };
    let java = told("libjvm.so", 8, ChainSource::Kernel);
    let [code, rest] = &java[..] else {
        panic!("{java:?}");
    };
    assert!(code.what.starts_with("80.0 %"), "{code:?}");
    assert!(code.cause.ends_with("([JIT] tid 7 8)"), "{code:?}");
    assert!(code.cure.contains("--call-graph auto"), "{code:?}");
    assert!(rest.what.starts_with("20.0 %"), "{rest:?}");
    assert!(rest.cause.ends_with("(libjvm.so 2)"), "{rest:?}");
    assert!(rest.cure.contains("-fasynchronous"), "{rest:?}");
    // Nothing makes more of them whole than the recorder did.
    let java = told("libjvm.so", 8, ChainSource::Recorder);
    assert_eq!(java[0].cure, "", "{java:?}");
    let mono = told("mono-sgen", 8, ChainSource::Recorder);
    assert!(mono[0].cure.contains("MONO_DEBUG"), "{mono:?}");
    let other = told("app", 10, ChainSource::Recorder);
    assert_eq!(other.len(), 1, "{other:?}");
    assert!(!other[0].cure.contains("java"), "{other:?}");
    assert!(!other[0].cure.contains("-fasynchronous"), "{other:?}");
}

#[test]
fn the_runtime_that_was_sampled_is_told_how_to_help() {
    let cures = |file: &str, without_names: u64| {
        let mut sketch = Sketch::new();
        let code = sketch.dso("[JIT] tid 7", DsoKind::Jit);
        sketch.dso(file, DsoKind::File);
        let trust = &mut sketch.profile.trust;
        trust.chain_source = ChainSource::Recorder;
        trust.frames = 10;
        trust.chain_ends.insert(ChainEnd::NoUnwindInfo, 10);
        trust.unrooted_jit.insert(ChainEnd::NoUnwindInfo, 10);
        if without_names > 0 {
            let key = (code, UnnamedReason::NoPerfMap);
            trust.unnamed.insert(key, without_names);
        }
        let mut caveats = Vec::new();
        cut_stacks(&sketch.profile, &mut caveats);
        unnamed_frames(&sketch.profile, &mut caveats);
        let cures = caveats.into_iter().map(|caveat| caveat.cure);
        cures.collect::<Vec<_>>()
    };
    let erl = "run erl +JPperf true";
    assert_eq!(cures("beam.smp", 5), [erl, erl]);
    assert_eq!(
        cures("beam.smp", 0),
        [""],
        "its names show that it was done"
    );
    let mono = "run MONO_DEBUG=disable_omit_fp mono";
    assert_eq!(cures("mono-sgen", 5), [mono, "run mono --jitmap"]);
    assert_eq!(cures("mono-sgen", 0), [mono]);
    assert_eq!(cures("node", 5), ["", "run node --perf-basic-prof"]);
    let dotnet = "run DOTNET_PerfMapEnabled=1 dotnet";
    assert_eq!(cures("libcoreclr.so", 5), ["", dotnet]);
    let all = cures("app", 5);
    assert!(
        all.iter().all(|cure| cure.contains("erl +JPperf true")),
        "{all:?}"
    );
}

#[test]
fn what_overwritten_rings_miss_has_another_cause_than_a_late_recorder() {
    let lossy = |is_overwritten| Event {
        lost: 3,
        is_overwritten,
        ..Event::default()
    };
    let caveat = |overwritten: [bool; 2]| {
        let mut profile = Profile {
            events: overwritten.map(lossy).to_vec(),
            ..Profile::default()
        };
        profile.events.push(Event::default());
        profile.trust.samples = 94;
        profile.trust.lost = 6;
        let mut caveats = Vec::new();
        losses(&profile, &mut caveats);
        caveats.remove(0)
    };
    let paused = caveat([true, true]);
    assert!(paused.cause.contains("stood still"), "{paused:?}");
    assert_eq!(paused.cure, "");
    let late = caveat([true, false]);
    assert!(late.cause.contains("did not empty"), "{late:?}");
    assert!(late.cure.contains("-m 16M"), "{late:?}");
}

#[test]
fn a_larger_piece_is_advised_only_where_there_is_one() {
    let cure_with = |event: Event, command_line: &[&str]| {
        let mut profile = Profile::default();
        profile.events.push(event);
        let words = command_line.iter();
        profile.origin.command_line = words.map(|&word| word.to_owned()).collect();
        profile.trust.chain_source = ChainSource::Recorder;
        profile.trust.chain_ends.insert(ChainEnd::Unproven, 3);
        let mut caveats = Vec::new();
        cut_stacks(&profile, &mut caveats);
        caveats.remove(0).cure
    };
    let cure_of = |event| cure_with(event, &["prof", "record", "-g", "./app"]);
    let cure = |asked, is_freq| {
        cure_of(Event {
            asked,
            is_freq,
            ..Event::default()
        })
    };
    assert!(cure(999, true).contains("lower rate (-F 99)"));
    assert!(cure(4000, true).contains("lower rate (-F 999)"));
    assert!(cure(999, false).contains("larger piece"));
    assert_eq!(cure(99, true), "");
    // Both clocks as one event, which has no rate of its own.
    assert!(cure(0, false).contains("lower rate (-F 99)"));
    let waits = Event {
        asked: 1,
        is_off_cpu: true,
        ..Event::default()
    };
    // Waits have no rate: the stacks of those that are chosen are read later.
    assert!(cure_of(waits.clone()).contains("--off-cpu-stacks all"));
    let all = ["prof", "record", "--off-cpu=only", "--off-cpu-stacks=all"];
    assert_eq!(cure_with(waits, &all), "");
    // Also at a low rate less of what is beyond the piece is read without it.
    for option in ["--no-deep-stacks", "--no-deep"] {
        let bare = ["prof", "record", "-g", option, "./app"];
        let cure = cure_with(Event::default(), &bare);
        assert_eq!(cure, "record without --no-deep-stacks");
    }
}

#[test]
fn of_an_unfinished_recording_nobody_says_that_it_has_no_frame_pointers() {
    let told = |source| chain_end(ChainEnd::BrokenFramePointers, source);
    let (cause, cure) = told(ChainSource::Unfinished);
    assert!(
        cause.contains("did not finish") && cure.is_empty(),
        "{cause}"
    );
    assert!(told(ChainSource::Kernel).1.contains("--call-graph auto"));
    let (cause, cure) = told(ChainSource::Injected);
    assert!(
        cause.contains("perf inject") && cure.contains("prof inject"),
        "{cause}; {cure}"
    );
}

#[test]
fn what_was_recorded_as_advised_is_not_advised_again() {
    let told = |end: &ChainEnd| *end != ChainEnd::BrokenFramePointers;
    for end in ChainEnd::ALL.into_iter().filter(told) {
        let (cause, cure) = chain_end(end, ChainSource::Recorder);
        assert!(!cure.contains("auto, or"), "{cure}");
        assert!(!cause.is_empty());
        let other = chain_end(end, ChainSource::Kernel);
        assert_eq!(other, chain_end_of_any(end));
    }
}
