//! Keys of source lines.

use super::{Order, SortKey, Spec, Text, USUAL};
use crate::escape;
use crate::model::{By, Scene, Site};
use prof_profile::DsoKind;

/// Source file and line of the executing code.
pub(crate) const SRCLINE: SortKey = SortKey(&Spec {
    name: "srcline",
    heading: "Source:Line",
    width: 11,
    by: By::Frame(|frames, site| frames.line(site)),
    order: Order::FrameText(|scene, site, look| srcline(scene, Some(site), look.full_paths)),
    text: Text::OfRow(|cells, row, out| {
        let line = srcline(cells.scene, cells.site(row), cells.look.full_paths);
        out.push_str(&line);
    }),
    needs_lines: true,
    ..USUAL
});

/// Source file of the executing code.
pub(super) const SRCFILE: SortKey = SortKey(&Spec {
    name: "srcfile",
    heading: "Source File",
    width: 11,
    by: By::Frame(|frames, site| {
        let file = site.line.map(|(file, _)| frames.file(file));
        [
            file.is_some().into(),
            file.map_or(0, |file| file.0.into()),
            0,
        ]
    }),
    order: Order::FrameText(|scene, site, look| {
        file(scene, site, look.full_paths)
            .unwrap_or_default()
            .to_owned()
    }),
    text: Text::OfRow(|cells, row, out| {
        let site = cells.site(row);
        let file = site.and_then(|site| file(cells.scene, site, cells.look.full_paths));
        out.push_str(&escape::terminal(file.unwrap_or_default()));
    }),
    needs_lines: true,
    ..USUAL
});

fn file<'p>(scene: &Scene<'p>, site: &Site, is_full: bool) -> Option<&'p str> {
    let (file, _) = site.line?;
    Some(shortened(scene.profile().name(file), is_full))
}

/// The path, or only its last part.
fn shortened(path: &str, is_full: bool) -> &str {
    if is_full {
        return path;
    }
    path.rsplit('/').next().unwrap_or(path)
}

/// `file:line`; without one, `symbol+offset` or `module[address]`.
pub(crate) fn srcline(scene: &Scene<'_>, site: Option<&Site>, full_paths: bool) -> String {
    let profile = scene.profile();
    let Some(site) = site else {
        return "??:0".into();
    };
    if let Some((file, line)) = site.line {
        let path = shortened(profile.name(file), full_paths);
        return format!("{}:{line}", escape::terminal(path));
    }
    let function = profile.function(site.function);
    let dso = profile.dso(site.dso);
    // The start of what is only an address is that address, in its file.
    let own = site.address.filter(|_| !site.is_bare(profile));
    let at = own.unwrap_or(function.start);
    if function.unnamed.is_none() {
        // Functions that a runtime names may stand anywhere: nobody knows where they begin.
        if function.start.0 == 0 {
            return escape::terminal(site.name(profile)).into_owned();
        }
        let offset = at.0.wrapping_sub(function.start.0);
        return format!("{}+{offset}", escape::terminal(site.name(profile)));
    }
    if dso.kind == DsoKind::Unknown {
        return "??:0".into();
    }
    let name = profile.name(dso.short_name);
    format!("{}[{:x}]", escape::terminal(name), at)
}
