//! A flame graph in a page of its own.

use super::svg::draw;
use super::{PictureError, PictureOptions};
use crate::escape;
use crate::trust;
use prof_profile::Profile;
use std::io;

/// Writes an HTML page with the picture and the whole trust account below
/// it. The page loads nothing and runs nothing but the picture's own script:
/// its content security policy names that script by a nonce.
///
/// # Errors
/// If there is nothing to draw, or `out` cannot be written to.
pub fn html(
    profile: &Profile,
    options: &PictureOptions,
    out: &mut impl io::Write,
) -> Result<(), PictureError> {
    let drawn = draw(profile, options)?;
    let nonce = nonce(&drawn);
    let start = drawn.find("<svg").unwrap_or(0);
    let drawn = drawn.get(start..).unwrap_or_default();
    // In a page, the picture's `onload` attribute would be code without a
    // nonce; the script below does the same.
    let drawn = drawn.replacen(" onload=\"init(evt)\"", "", 1).replacen(
        "<script ",
        &format!("<script nonce=\"{nonce}\" "),
        1,
    );
    // A picture as wide as the window has no width of its own; in a page it
    // would get 300 pixels.
    let width = if options.width.is_none() {
        "width"
    } else {
        "max-width"
    };
    let title = options.title.as_deref().unwrap_or("Flame graph");
    let items: String = trust::lines(profile)
        .iter()
        .map(|line| format!("<li>{}</li>\n", escape::markup(line)))
        .collect();
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'nonce-{nonce}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{}</title>\n\
         <style>body {{ font-family: sans-serif; margin: 1em }} body > svg {{ {width}: 100% }}</style>\n\
         </head>\n<body>\n{drawn}\n\
         <h2>How far to trust it</h2>\n<ul>\n{items}</ul>\n\
         <script nonce=\"{nonce}\">init();</script>\n</body>\n</html>\n",
        escape::markup(title)
    )?;
    Ok(())
}

/// A number that only this content has, so that equal input gives equal
/// bytes. No name of the recording can hold it: it depends on all of them.
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
