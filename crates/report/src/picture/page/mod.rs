//! A page to send: one file that shows the profile in any browser, without a
//! network. Its data and how they are embedded are described in `format.md`;
//! its script and style are the files beside this one, as they are.

mod columns;
mod lanes;
mod slices;
mod tree;

use super::diff::diff_html;
use super::folded::scene_of;
use super::format::Spec;
use super::svg::title;
use super::{PictureError, PictureFormat, PictureOptions};
use crate::escape;
use crate::trust;
use columns::base64;
use prof_profile::Profile;
use std::io;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
/// The parts of the script; a later one uses what earlier ones define.
const SCRIPT: [&str; 12] = [
    include_str!("words.js"),
    include_str!("data.js"),
    include_str!("model.js"),
    include_str!("merged.js"),
    include_str!("flame.js"),
    include_str!("matches.js"),
    include_str!("rows.js"),
    include_str!("table.js"),
    include_str!("tree.js"),
    include_str!("timeline.js"),
    include_str!("lanes.js"),
    include_str!("app.js"),
];

/// The picture in a page of its own.
pub const HTML: PictureFormat = PictureFormat::of(&Spec {
    ends: &["html", "htm"],
    told: ".html",
    about: "The picture in a page of its own",
    is_text: false,
    draw: |profile, options, out| html(profile, options, out),
    draw_diff: Some(diff_html),
});

/// Writes an HTML page that draws the profile on a canvas: flame graph, table,
/// call tree, callers and callees, with search and filters, and the whole trust
/// account. The page loads nothing and runs nothing but its own script, which
/// its content security policy names by a nonce.
///
/// # Errors
/// If there is nothing to draw, or `out` cannot be written to.
pub fn html(
    profile: &Profile,
    options: &PictureOptions,
    out: &mut impl io::Write,
) -> Result<(), PictureError> {
    let scene = scene_of(profile, options)?;
    let event = scene.event().map_or("", |event| event.name.as_str());
    let title = title(options, event);
    let data = base64(&tree::packed(&scene, options, &title)?);
    let width = options.width.map_or_else(String::new, |width| {
        format!("\nbody {{ width: 100%; max-width: {width}px; }}\n")
    });
    let style = format!("{STYLE}{width}");
    let lines = trust::lines(profile);
    let items = lines.iter().skip(1).map(|line| escape::markup(line));
    let items: String = items.map(|line| format!("<li>{line}</li>\n")).collect();
    let script = SCRIPT.join("\n");
    let values = [
        ("nonce", nonce(&data)),
        ("title", escape::markup(&title)),
        ("style", style),
        ("summary", escape::markup(&trust::summary(profile))),
        ("trust", items),
        ("data", data),
        ("script", script),
    ];
    out.write_all(filled(PAGE, &values).as_bytes())?;
    Ok(())
}

/// A template with `{name}` replaced by its value; values are not looked into.
fn filled(template: &str, values: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let value = after.split_once('}').and_then(|(name, behind)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some((value, behind))
        });
        if let Some((value, behind)) = value {
            out.push_str(value);
            rest = behind;
        } else {
            out.push('{');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// A number that only this content has, so that equal input gives equal
/// bytes. Names of the recording are nowhere in the page but in its data and,
/// as text, in its title and trust lines, so none can use it.
fn nonce(content: &str) -> String {
    let mix = |seed: u64| {
        content.bytes().fold(seed, |hash, byte| {
            (hash ^ u64::from(byte))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
    };
    format!(
        "{:016x}{:016x}",
        mix(0x243f_6a88_85a3_08d3),
        mix(0x1319_8a2e_0370_7344)
    )
}

#[cfg(test)]
mod tests;
