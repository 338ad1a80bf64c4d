//! How sure the shares of functions in an SVG are: its script knows it by
//! name, and adds it to what titles tell.

use super::labels::{SCRIPT_END, push_string};
use crate::model::{Scene, SiteId, Sure, shares_of_groups};
use prof_statistics::Share;
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// The script that adds it.
const SCRIPT: &str = include_str!("intervals.js");

/// A picture whose titles tell intervals of the functions with these names, as
/// titles have them; `name_of` is the name of a site.
pub(super) fn told(
    picture: &str,
    scene: &Scene<'_>,
    names: &[String],
    name_of: &dyn Fn(SiteId) -> String,
) -> String {
    let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
    let mut groups = Vec::new();
    for name in names {
        let next = groups.len() as u32;
        if *numbers.entry(name.as_str()).or_insert(next) == next {
            groups.push(name.as_str());
        }
    }
    let sites = (0..scene.sites().len() as u32).map(|site| name_of(SiteId(site)));
    let of_site: Vec<u32> = sites
        .map(|name| numbers.get(name.as_str()).copied().unwrap_or(u32::MAX))
        .collect();
    let shares = shares_of_groups(scene, &of_site, groups.len());
    let mut table = String::from("var intervals = new Map([\n");
    for (name, sure) in groups.into_iter().zip(&shares) {
        table.push('[');
        push_string(name, &mut table);
        let _ = writeln!(table, ",\"{}\"],", words(sure));
    }
    table.push_str("]);\n");
    picture.replacen(SCRIPT_END, &format!("{SCRIPT}{table}{SCRIPT_END}"), 1)
}

/// Where sampling the same run again would find the shares.
fn words(sure: &Sure) -> String {
    let between = |share: Share| {
        let interval = share.interval(0.95).scaled(100.0);
        format!("{:.1}-{:.1}%", interval.low, interval.high)
    };
    format!("self {}, total {}", between(sure.own), between(sure.total))
}
