//! Events that were recorded as a group.

use super::{compare, is_of, record, recordings};
use crate::chosen::{Keep, chosen};
use crate::oracle::compiled;

/// Options given to both for events that were recorded as a group.
const GROUPED: &[&str] = &[
    "",
    "-g none --no-children",
    "--no-children -s sym -n",
    "-s sym --show-total-period -g none",
    "-t , -g none -n --no-children",
    "--no-group -g none",
    "--group -s comm,dso -g none",
    "-s dso --percentage relative -d libc.so.6 -g none --no-children",
    "--percent-limit 1 -g caller",
    "-w 8,20,30,40,50 -g none",
    "-s comm,sym --no-children -g folded",
];

#[test]
fn events_of_a_group_stand_side_by_side_as_in_perf() {
    let test = "events_of_a_group_stand_side_by_side_as_in_perf";
    let Some(files) = recordings(test) else {
        return;
    };
    let program = ["-g", "-fno-omit-frame-pointer", "-O1"];
    let Some(program) = compiled(test, "report-calls.c", &program) else {
        return;
    };
    let command = [program.to_str().expect("a path of ours").to_owned()];
    let options = ["-F", "499", "-g", "-e", "{cpu-clock,task-clock}"];
    let group = record("group", &options, &command);
    let group = chosen(&group, Keep::Named);
    compare(std::slice::from_ref(&group), GROUPED);
    // Without a group, only what is asked for is put together.
    let apart = files.iter().find(|file| is_of(file, "two-events"));
    let apart = chosen(apart.expect("recorded above"), Keep::Named);
    compare(&[apart], &["--no-group -g none", "--group -g none"]);
}
