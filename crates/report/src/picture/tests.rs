//! Pictures of friendly and hostile recordings.

use super::folded::parse_frame;
use super::*;
use crate::model::ModeFilter;
use prof_profile::{Profile, Wait, WaitKind, WaitState};
use prof_sketch::Sketch;
use proptest::prelude::*;

fn text(
    draw: fn(&Profile, &PictureOptions, &mut Vec<u8>) -> Result<(), PictureError>,
    profile: &Profile,
    options: &PictureOptions,
) -> String {
    let mut out = Vec::new();
    draw(profile, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Functions called and inlined, one of the kernel; the last sample at a time.
pub(super) fn small(last: u64) -> Sketch {
    let mut sketch = Sketch::new();
    let task = sketch.task(7, 7, "app");
    sketch.sample(
        task,
        "main;work>step;[kernel.kallsyms]:do_syscall_64",
        1,
        30,
    );
    sketch.sample(task, "main;work", 2, 20);
    sketch.sample(task, "main;work b", 3, 10);
    let other = sketch.task(7, 8, "app");
    sketch.sample(other, "main;work>step", last, 5);
    sketch
}

#[test]
fn folded_stacks_mark_kernel_and_inlined_frames() {
    let profile = small(4).profile;
    assert_eq!(
        text(folded, &profile, &PictureOptions::default()),
        "app;main;work 20\n\
         app;main;work;step_[i] 5\n\
         app;main;work;step_[i];do_syscall_64_[k] 30\n\
         app;main;work b 10\n"
    );
    let threads = PictureOptions {
        roots: Roots::Thread,
        is_reversed: true,
        ..PictureOptions::default()
    };
    assert_eq!(
        text(folded, &profile, &threads),
        "app-7;do_syscall_64_[k];step_[i];work;main 30\n\
         app-7;work;main 20\n\
         app-7;work b;main 10\n\
         app-8;step_[i];work;main 5\n"
    );
}

/// [`small`], whose first two samples are waits, with what for.
fn with_states() -> Profile {
    let mut profile = small(4).profile;
    for (row, state, kind) in [
        (0, WaitState::Blocked, WaitKind::Futex),
        (1, WaitState::Preempted, WaitKind::Cpu),
    ] {
        let wait = Wait {
            state,
            kind,
            ..Wait::default()
        };
        profile.samples.set_wait(row, wait);
    }
    profile.show_wait_states();
    profile
}

#[test]
fn states_of_waits_are_frames_in_their_own_colours() {
    let profile = with_states();
    assert_eq!(
        text(folded, &profile, &PictureOptions::default()),
        "app;main;work;for a CPU: preempted 20\n\
         app;main;work;step_[i] 5\n\
         app;main;work;step_[i];do_syscall_64_[k];blocked: futex 30\n\
         app;main;work b 10\n"
    );
    let drawn = text(svg, &profile, &PictureOptions::default());
    for words in ["\u{25a0}</tspan> waiting", "\u{25a0}</tspan> for a CPU"] {
        assert!(drawn.contains(words), "{words}");
    }
    let mut colours = Vec::new();
    for title in [
        "blocked: futex (",
        "for a CPU: preempted (",
        "do_syscall_64",
    ] {
        let at = drawn.find(&format!("<title>{title}")).expect(title);
        let fill = drawn[at..].split("fill=\"").nth(1).expect("a colour");
        colours.push(fill.split('"').next());
    }
    assert!(colours[0] != colours[1] && colours[0] != colours[2] && colours[1] != colours[2]);
    // Without waits there is nothing to say of them.
    let drawn = text(svg, &small(4).profile, &PictureOptions::default());
    assert!(!drawn.contains("</tspan> waiting"));
}

#[test]
fn filters_are_for_the_code_below_a_state() {
    let mut options = PictureOptions::default();
    options.selection.filter.mode = Some(ModeFilter::Kernel);
    assert_eq!(
        text(folded, &with_states(), &options),
        "app;main;work;step_[i];do_syscall_64_[k];blocked: futex 30\n"
    );
}

#[test]
fn labels_are_short_where_there_is_no_room_and_titles_whole() {
    let mut sketch = Sketch::new();
    let task = sketch.task(7, 7, "app");
    let stack = "app:main;[kernel.kallsyms]:a::b::Type::run";
    sketch.sample(task, stack, 1, 30);
    let drawn = text(svg, &sketch.profile, &PictureOptions::default());
    let forms = r#"["a::b::Type::run",["b::Type::run","Type::run","run"]],"#;
    assert!(drawn.contains(forms), "{drawn}");
    // It is made for both places where inferno's script labels a frame.
    assert_eq!(drawn.matches("label_of(e, w)").count(), 3);
    assert!(drawn.contains("<title>a::b::Type::run ("), "{drawn}");
    assert!(drawn.contains("var intervals = new Map([\n["), "{drawn}");
}

#[test]
fn periods_that_sum_past_64_bits_are_drawn_by_their_shares() {
    let mut sketch = Sketch::new();
    let task = sketch.task(1, 1, "app");
    for (time, name) in (1..).zip(["a", "b", "c", "d"]) {
        sketch.sample(task, name, time, u64::MAX);
    }
    {
        let drawn = text(svg, &sketch.profile, &PictureOptions::default());
        for name in ["a", "b", "c", "d"] {
            // 2^64 - 1, in units of 8.
            let title =
                format!("<title>{name} (2,305,843,009,213,693,952 ×2^3 cpu-clock events, 25.00%)");
            let titles = drawn.split("<title>").skip(1);
            let titles: Vec<&str> = titles.filter_map(|at| at.split('<').next()).collect();
            assert!(drawn.contains(&title), "{titles:?}");
        }
        assert!(drawn.contains(" ×2^3 cpu-clock events, 100.00%)"));
    }
}

#[test]
fn a_frame_whose_callee_has_a_space_in_its_name_is_drawn_once() {
    let drawn = text(svg, &small(4).profile, &PictureOptions::default());
    assert_eq!(drawn.matches("<title>main (").count(), 1);
    assert_eq!(drawn.matches("<title>work (").count(), 1);
    assert!(drawn.contains("<title>work (55 cpu-clock events, 84.62%)</title>"));
    assert!(drawn.contains("<title>work b (10 cpu-clock events, 15.38%)</title>"));
}

#[test]
fn the_trust_line_is_in_the_picture() {
    let profile = small(4).profile;
    let drawn = text(svg, &profile, &PictureOptions::default());
    let line = crate::trust::summary(&profile);
    assert!(drawn.contains(&format!(">{line}</text>")), "{line}");
    let narrow = PictureOptions {
        width: Some(100),
        ..PictureOptions::default()
    };
    let drawn = text(svg, &profile, &narrow);
    let lines = drawn.split("<text class=\"subtitle\"").skip(1);
    let lines: Vec<&str> = lines
        .map(|at| &at[at.find('>').unwrap() + 1..at.find('<').unwrap()])
        .collect();
    assert!(
        lines.len() > 1 && lines.iter().all(|line| line.len() <= 20),
        "{lines:?}"
    );
    assert!(drawn.contains(&format!("<svg id=\"frames\" y=\"{}\"", lines.len() * 15)));
    assert!(drawn.contains("<desc>4 samples, 0 lost"));
}

#[test]
fn names_with_a_semicolon_have_it() {
    let mut sketch = Sketch::new();
    let dso = sketch.dso("app", prof_profile::DsoKind::File);
    let location = sketch.location(dso, &["get::<[u8; 4]>"]);
    let stacks = &mut sketch.profile.stacks;
    let stack = stacks.push(prof_profile::StackId::EMPTY, location);
    let task = sketch.task(1, 1, "app");
    sketch.sample(task, "", 1, 77);
    let mut sample = sketch.profile.samples.get(0).unwrap();
    sample.stack = stack;
    sketch.profile.samples = prof_profile::Samples::default();
    sketch.profile.samples.push(sample);
    let drawn = text(svg, &sketch.profile, &PictureOptions::default());
    assert!(drawn.contains("<title>get::&lt;[u8; 4]&gt; ("), "{drawn}");
    // What its shorter form is looked up by.
    assert!(
        drawn.contains(r#"["get::\u003c\u005bu8; 4\u005d\u003e","#),
        "{drawn}"
    );
}

#[test]
fn what_is_not_drawn_is_counted() {
    let mut sketch = Sketch::new();
    let task = sketch.task(7, 7, "app");
    sketch.sample(task, "main", 1, 1_000_000);
    sketch.sample(task, "main;a;b", 2, 10);
    sketch.sample(task, "main;c", 2, 10);
    let drawn = text(svg, &sketch.profile, &PictureOptions::default());
    assert!(drawn.contains(">3 frames hidden, each less than 0.01 %</text>"));
    assert!(drawn.contains("<title>main (1,000,020 cpu-clock events, 100.00%)</title>"));
    assert!(!text(svg, &small(4).profile, &PictureOptions::default()).contains("hidden,"));
}

#[test]
fn stacks_stand_on_the_cpus_they_ran_on() {
    let options = PictureOptions {
        roots: "cpu".parse().unwrap(),
        ..PictureOptions::default()
    };
    assert_eq!(
        text(folded, &small(4).profile, &options),
        "cpu-0;main;work 20\n\
         cpu-0;main;work;step_[i] 5\n\
         cpu-1;main;work;step_[i];do_syscall_64_[k] 30\n\
         cpu-1;main;work b 10\n"
    );
    assert!("core".parse::<Roots>().is_err());
}

#[test]
fn stacks_stand_on_the_dsos_they_end_in() {
    let mut options = PictureOptions {
        roots: "dso".parse().unwrap(),
        ..PictureOptions::default()
    };
    assert_eq!(
        text(folded, &small(4).profile, &options),
        "[kernel.kallsyms];main;work;step_[i];do_syscall_64_[k] 30\n\
         app;main;work 20\n\
         app;main;work;step_[i] 5\n\
         app;main;work b 10\n"
    );
    options.is_reversed = true;
    let reversed = text(folded, &small(4).profile, &options);
    assert!(reversed.starts_with("[kernel.kallsyms];do_syscall_64_[k];step_[i];work;main 30\n"));
    assert!(reversed.contains("app;work;main 20\n"), "{reversed}");
}

#[test]
fn colours_tell_kinds_apart() {
    let drawn = text(svg, &small(4).profile, &PictureOptions::default());
    let fill = |name: &str| {
        let (_, rest) = drawn.split_once(&format!("<title>{name} (")).unwrap();
        let (_, rest) = rest.split_once("fill=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    assert_ne!(fill("work"), fill("step"));
    assert_ne!(fill("step"), fill("do_syscall_64"));
    assert_ne!(fill("app"), fill("main"));
}

#[test]
fn without_samples_there_is_a_message_and_no_picture() {
    let empty = Sketch::new().profile;
    let mut out = Vec::new();
    let error = svg(&empty, &PictureOptions::default(), &mut out).unwrap_err();
    // More of that clock helps, not it.
    let told = error.to_string();
    assert!(told.contains("no samples of cpu-clock") && !told.contains("-e cpu-clock"));
    let mut options = PictureOptions::default();
    options.selection.filter.pids = vec![99];
    let error = html(&small(4).profile, &options, &mut out).unwrap_err();
    assert!(error.to_string().contains("filters hide all 4 samples"));
    assert!(out.is_empty());
}

#[test]
fn pictures_begin_at_the_callers_and_searches_cannot_fail() {
    {
        let drawn = text(svg, &small(4).profile, &PictureOptions::default());
        let script = drawn.split("<![CDATA[").last().unwrap();
        let (script, _) = script.split_once("]]>").unwrap();
        for name in ["init", "search", "get_params"] {
            let (_, after) = script.split_once(&format!("function {name}(")).unwrap();
            assert!(after.contains(&format!("\n{name} = function(")), "{name}");
        }
    }
}

/// Whether every tag is closed in order, every attribute quoted, and every
/// `&` begins an entity. Enough of XML for what inferno writes.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let (between, tag) = rest.split_at(at);
        if between.contains("]]>") || !entities_end(between) {
            return false;
        }
        let skip = |end: &str| tag.find(end).map(|at| at + end.len());
        let end = if tag.starts_with("<![CDATA[") {
            skip("]]>")
        } else if tag.starts_with("<!--") {
            skip("-->")
        } else {
            skip(">")
        };
        let Some(end) = end else { return false };
        let inside = &tag[1..end - 1];
        if let Some(name) = inside.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !inside.starts_with(['!', '?']) && !inside.ends_with('/') {
            if inside.matches('"').count() % 2 == 1 || !entities_end(inside) {
                return false;
            }
            open.push(inside.split([' ', '\n']).next().unwrap());
        }
        rest = &tag[end..];
    }
    open.is_empty() && !xml.chars().any(|c| c.is_control() && c != '\n')
}

fn entities_end(text: &str) -> bool {
    text.split('&').skip(1).all(|part| {
        part.find(';').is_some_and(|at| {
            part[..at]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'#')
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hostile_names_stay_inside(names in prop::collection::vec("[<>&\"'; \\\\\\x00-\\x1f\u{202e}\u{fffe}a-c0-9#\\]\\[_k]{0,12}|\\PC{0,8}", 1..5)) {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, &names[0]);
        for (time, name) in names.iter().enumerate() {
            let name = name.replace([';', ':', '>'], "");
            sketch.sample(task, &format!("app:{name}x;app:y"), time as u64 + 1, 1);
        }
        let drawn = text(svg, &sketch.profile, &PictureOptions::default());
        prop_assert!(is_well_formed(&drawn), "{}", drawn);
    }

    #[test]
    fn folded_stacks_read_back(names in prop::collection::vec("\\PC{0,6}|[;\\\\ \\n#0-9]{0,6}|x_\\[[ijkw]\\]", 1..5)) {
        let mut sketch = Sketch::new();
        let dso = sketch.dso("app", prof_profile::DsoKind::File);
        let mut stack = prof_profile::StackId::EMPTY;
        for name in &names {
            let location = sketch.location(dso, &[name.as_str()]);
            stack = sketch.profile.stacks.push(stack, location);
        }
        let task = sketch.task(1, 1, &names[0]);
        sketch.sample(task, "", 1, 77);
        let mut sample = sketch.profile.samples.get(0).unwrap();
        sample.stack = stack;
        sketch.profile.samples = prof_profile::Samples::default();
        sketch.profile.samples.push(sample);
        let lines = text(folded, &sketch.profile, &PictureOptions::default());
        let (frames, weight) = lines.strip_suffix('\n').unwrap().rsplit_once(' ').unwrap();
        prop_assert_eq!(weight, "77");
        let read: Vec<String> = frames.split(';').map(|frame| parse_frame(frame).0).collect();
        let mut expected = vec![names[0].clone()];
        expected.extend(names.iter().cloned());
        prop_assert_eq!(read, expected);
    }
}
