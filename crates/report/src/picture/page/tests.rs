//! What is in a page, read back as its script does.

use super::slices::Slices;
use super::*;
use crate::picture::tests::small;
use crate::picture::{Roots, Scheme, svg};
use prof_profile::{Clock, Event, EventId, Lifetime, Sample, Wait, WaitKind, WaitState};
use prof_sketch::Sketch;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

fn page(profile: &Profile, options: &PictureOptions) -> String {
    let mut out = Vec::new();
    html(profile, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The embedded data: the header, and the columns by name.
struct Data {
    header: Value,
    columns: BTreeMap<String, Vec<u8>>,
}

impl Data {
    fn of(page: &str) -> Self {
        let (_, data) = page.split_once("id=\"profile\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let mut bits = Vec::new();
        for sign in data.bytes().filter(|&sign| sign != b'=') {
            let value = match sign {
                b'A'..=b'Z' => sign - b'A',
                b'a'..=b'z' => sign - b'a' + 26,
                b'0'..=b'9' => sign - b'0' + 52,
                b'+' => 62,
                _ => 63,
            };
            bits.extend((0..6).rev().map(|place| value >> place & 1));
        }
        let bytes = bits.chunks_exact(8);
        let packed: Vec<u8> = bytes
            .map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit))
            .collect();
        let mut bytes = Vec::new();
        flate2::read::ZlibDecoder::new(&packed[..])
            .read_to_end(&mut bytes)
            .unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        let mut at = 4 + length;
        let mut columns = BTreeMap::new();
        for column in header["columns"].as_array().unwrap() {
            let end = at + column["bytes"].as_u64().unwrap() as usize;
            columns.insert(
                column["name"].as_str().unwrap().to_owned(),
                bytes[at..end].to_vec(),
            );
            at = end;
        }
        assert_eq!(at, bytes.len());
        Self { header, columns }
    }

    fn numbers(&self, name: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        let (mut number, mut place) = (0, 0);
        for byte in &self.columns[name] {
            number |= u64::from(byte & 0x7f) << place;
            place += 7;
            if byte & 0x80 == 0 {
                numbers.push(number);
                (number, place) = (0, 0);
            }
        }
        numbers
    }

    fn names(&self) -> Vec<String> {
        serde_json::from_slice(&self.columns["names"]).unwrap()
    }

    /// Stacks with their periods, as folded stacks have them.
    fn folded(&self) -> Vec<(String, u64)> {
        let names = self.names();
        let mut stacks = vec![Vec::new()];
        let mut stack: Vec<String> = Vec::new();
        for (up, frame) in self
            .numbers("node_up")
            .iter()
            .zip(self.numbers("node_frame"))
        {
            stack.truncate(stack.len() - *up as usize);
            stack.push(names[frame as usize].clone());
            stacks.push(stack.clone());
        }
        let mut node = 0;
        let mut folded: Vec<(String, u64)> = Vec::new();
        for (step, period) in self
            .numbers("sample_node")
            .iter()
            .zip(self.numbers("sample_period"))
        {
            node += *step as usize;
            let stack = stacks[node].join(";");
            match folded.last_mut() {
                Some((last, sum)) if *last == stack => *sum += period,
                _ => folded.push((stack, period)),
            }
        }
        folded
    }
}

#[test]
fn a_page_holds_every_stack_with_its_weight() {
    let sketch = small(1_000_000);
    let data = Data::of(&page(&sketch.profile, &PictureOptions::default()));
    let expected = [
        ("app;main;work", 20),
        ("app;main;work;step", 5),
        ("app;main;work;step;do_syscall_64", 30),
        ("app;main;work b", 10),
    ];
    assert_eq!(
        data.folded(),
        expected.map(|(stack, period)| (stack.into(), period))
    );
    assert_eq!(data.numbers("sample_count").iter().sum::<u64>(), 4);
    assert_eq!(data.header["threads"][1]["tid"], 8);
    assert_eq!(data.header["counts"]["nodes"], 6);
    // One microsecond less than a millisecond in a thousand slices.
    assert_eq!(data.header["time"]["start"], 1);
    assert_eq!(data.header["time"]["slice"], 1000);
    assert_eq!(data.numbers("sample_slice").iter().max(), Some(&999));
    let names = data.names();
    let kind = |name: &str| {
        let frame = names.iter().position(|known| known == name).unwrap();
        let kind = data.numbers("frame_kind")[frame] as usize;
        data.header["kinds"][kind].as_str().unwrap().to_owned()
    };
    assert_eq!(kind("app"), "thread");
    assert_eq!(kind("step"), "inlined");
    assert_eq!(kind("do_syscall_64"), "kernel");
}

#[test]
fn intervals_of_functions_hold_their_shares() {
    let data = Data::of(&page(&driven().profile, &PictureOptions::default()));
    let between = |which: &str, name: &str| {
        let at = data.names().iter().position(|known| known == name).unwrap();
        let low = data.numbers(&format!("frame_{which}_low"))[at];
        (low, low + data.numbers(&format!("frame_{which}_range"))[at])
    };
    for (which, name, share) in [
        ("own", "main", 0),
        ("total", "main", 600),
        ("own", "do_work", 400),
        ("total", "do_work", 400),
    ] {
        let (low, high) = between(which, name);
        assert!(low <= share && share < high, "{name}: {low} to {high}");
        assert!(low > 0 || share == 0, "{name}: {low}");
        assert!(high < 1000, "{name}: {high}");
    }
}

#[test]
fn roots_filters_and_looks_are_those_asked_for() {
    let sketch = small(1_000_000);
    let mut options = PictureOptions {
        roots: Roots::Thread,
        scheme: Scheme::Dso,
        is_inverted: true,
        ..PictureOptions::default()
    };
    options.selection.filter.tids = vec![8];
    let data = Data::of(&page(&sketch.profile, &options));
    assert_eq!(data.folded(), [("app-8;main;work;step".into(), 5)]);
    assert_eq!(data.header["show"]["order"], "icicle");
    assert_eq!(data.header["show"]["colours"], "module");
    // A single time is no range of time.
    assert_eq!(data.header["time"], Value::Null);
    let options = PictureOptions {
        roots: Roots::Dso,
        ..PictureOptions::default()
    };
    let data = Data::of(&page(&sketch.profile, &options));
    let kernel = "[kernel.kallsyms];main;work;step;do_syscall_64";
    assert_eq!(data.folded()[0], (kernel.into(), 30));
    assert_eq!(data.folded().len(), 4);
    let options = PictureOptions {
        roots: Roots::None,
        ..PictureOptions::default()
    };
    let data = Data::of(&page(&sketch.profile, &options));
    assert_eq!(data.folded()[0], ("main;work".into(), 20));
}

#[test]
fn equal_recordings_give_equal_pages() {
    let once = page(&small(1_000_000).profile, &PictureOptions::default());
    assert_eq!(
        once,
        page(&small(1_000_000).profile, &PictureOptions::default())
    );
}

#[test]
fn a_page_runs_only_its_own_script() {
    let mut sketch = Sketch::new();
    let name = "</title><script>alert(1)</script>{script}<img src=x>\u{202e}\0";
    let task = sketch.task(1, 1, name);
    sketch.sample(task, "main", 1, 1);
    let options = PictureOptions {
        title: Some("</title><script>alert(2)</script>{data}".into()),
        ..PictureOptions::default()
    };
    let drawn = page(&sketch.profile, &options);
    let (_, nonce) = drawn.split_once("script-src 'nonce-").unwrap();
    let (nonce, policy) = nonce.split_once('\'').unwrap();
    assert!(policy.contains("style-src 'nonce-") && drawn.contains("default-src 'none'"));
    let runs = drawn
        .matches(&format!("<script nonce=\"{nonce}\">"))
        .count();
    let data = drawn
        .matches("<script type=\"application/octet-stream\"")
        .count();
    assert_eq!((runs, data, drawn.matches("<script").count()), (1, 1, 2));
    assert_eq!(drawn.matches("</script>").count(), 2);
    assert!(!drawn.contains("alert(1)") && !drawn.contains("<img"));
    assert!(drawn.contains("alert(2)&lt;/script&gt;{data}</title>"));
    assert!(Data::of(&drawn).names().contains(&name.to_owned()));
}

#[test]
fn time_is_told_less_finely_where_there_is_too_much_of_it() {
    let slices = Slices::new(10, 10 + 999, 1000);
    assert_eq!((slices.slice, slices.slices), (1, 1000));
    assert_eq!(
        (slices.at(10), slices.at(1009), slices.at(5000)),
        (0, 999, 999)
    );
    let half = slices.halved();
    assert_eq!((half.slice, half.slices, half.at(1009)), (2, 500, 499));
    let all = Slices::new(0, u64::MAX, 1000);
    assert_eq!(all.at(u64::MAX), all.slices - 1);
}

/// Whether a command is there; where `PROF_TEST_REQUIRE` names it, it must be.
fn have(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(command).is_file());
    let required = std::env::var("PROF_TEST_REQUIRE").unwrap_or_default();
    assert!(
        found || !required.split(',').any(|name| name == command),
        "PROF_TEST_REQUIRE lists {command}, which is not here"
    );
    found
}

/// What `drive/drive.js` knows: 100 events in a tenth of a second.
fn driven() -> Sketch {
    let mut sketch = Sketch::new();
    let task = sketch.task(7, 7, "<img src=x onerror=alert(1)>");
    sketch.sample(task, "app:main;app:parse", 1, 20);
    sketch.sample(task, "app:main;app:parse>step", 10_000_000, 20);
    sketch.sample(
        task,
        "app:main;[kernel.kallsyms]:do_syscall_64",
        20_000_000,
        20,
    );
    let first = sketch.task(7, 8, "worker");
    sketch.sample(first, "libwork.so:start;libwork.so:do_work", 80_000_000, 20);
    let second = sketch.task(7, 9, "worker");
    sketch.sample(
        second,
        "libwork.so:start;libwork.so:do_work",
        100_000_000,
        20,
    );
    sketch
}

/// One thread that runs for 20 ms, waits for 60 ms and runs again; one that is
/// made at 40 ms and lives for 20 ms.
fn with_lanes() -> Profile {
    const MS: u64 = 1_000_000;
    let mut sketch = Sketch::new();
    sketch.profile.events[0].weight_is_ns = true;
    sketch.profile.events.push(Event {
        name: "offcpu-time".to_owned(),
        weight_is_ns: true,
        is_off_cpu: true,
        ..Event::default()
    });
    let (main, worker) = (sketch.task(7, 7, "main"), sketch.task(7, 8, "worker"));
    sketch.sample(main, "app:main;app:parse", 10 * MS, 10 * MS);
    let waits = [
        (
            worker,
            "app:start",
            (40, 43),
            (WaitState::Started, WaitKind::Cpu),
        ),
        (
            main,
            "app:main;app:get_lock",
            (20, 80),
            (WaitState::Blocked, WaitKind::Futex),
        ),
    ];
    for (task, place, (from, to), (state, kind)) in waits {
        let stack = sketch.stack(place);
        let samples = &mut sketch.profile.samples;
        let wait = samples.wait_id(Wait {
            state,
            kind,
            ..Wait::default()
        });
        samples.push(Sample {
            time: to * MS,
            period: (to - from) * MS,
            task,
            stack,
            cpu: Some(0),
            event: EventId(1),
            wait: Some(wait),
        });
    }
    sketch.sample(main, "app:main;app:parse", 99 * MS, 10 * MS);
    for (tid, began, ended) in [(7, 0, 100), (8, 40, 60)] {
        let (began, ended) = (Some(began * MS), Some(ended * MS));
        let life = Lifetime { began, ended };
        sketch.profile.lifetimes.insert(tid, life);
    }
    sketch.profile.show_clock(Clock::Wall).unwrap();
    sketch.profile
}

#[test]
fn runs_of_lanes_fill_the_time_and_their_sums_are_lives() {
    let data = Data::of(&page(&with_lanes(), &PictureOptions::default()));
    let lanes = &data.header["lanes"];
    let doings = serde_json::json!(["running", "for a CPU", "futex"]);
    assert_eq!(lanes["doings"], doings);
    let list = lanes["list"].as_array().unwrap();
    let lives = list.iter().map(|lane| {
        let sums = lane["sums"].as_array().unwrap().iter();
        sums.map(|sum| sum[1].as_u64().unwrap()).sum::<u64>()
    });
    assert_eq!(lives.collect::<Vec<u64>>(), [100_000_000, 20_000_000]);
    let slices = data.header["time"]["slices"].as_u64().unwrap();
    let (doing, length) = (data.numbers("lane_doing"), data.numbers("lane_slices"));
    let mut first = 0;
    for lane in list {
        let behind = first + lane["runs"].as_u64().unwrap() as usize;
        assert_eq!(length[first..behind].iter().sum::<u64>(), slices);
        first = behind;
    }
    assert_eq!(doing, [1, 3, 1, 0, 2, 1, 0]);
    // Without waits there are none.
    let data = Data::of(&page(&driven().profile, &PictureOptions::default()));
    assert!(data.header["lanes"].is_null());
}

#[test]
fn every_control_of_page_and_picture_works_in_a_browser() {
    let missing = ["chromium", "node"].into_iter().find(|&it| !have(it));
    if let Some(missing) = missing {
        eprintln!("skipped: {missing} is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Who wants to look at it names a folder for the page and its pictures.
    let kept = std::env::var_os("PROF_TEST_PICTURES");
    let place = kept.as_ref().map_or(folder.path(), std::path::Path::new);
    let file = place.join("page.html");
    let opened = page(&driven().profile, &PictureOptions::default());
    std::fs::write(&file, opened).unwrap();
    let picture = place.join("picture.svg");
    let mut drawn = Vec::new();
    let options = PictureOptions {
        title: Some("A title of as many words as one has".into()),
        ..PictureOptions::default()
    };
    svg(&driven().profile, &options, &mut drawn).unwrap();
    std::fs::write(&picture, drawn).unwrap();
    let lanes = place.join("lanes.html");
    let lanes_page = page(&with_lanes(), &PictureOptions::default());
    std::fs::write(&lanes, lanes_page).unwrap();
    let script =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/picture/page/drive/drive.js");
    let driven = std::process::Command::new("node")
        .args([&script, &file, &picture, &lanes])
        .args(&kept)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&driven.stdout);
    assert!(driven.status.success(), "{said}");
    assert_eq!(said, "ok\n");
}
