//! How the screen is divided: the view in the middle has what is left by the
//! words that stand around it.

use super::overlay::Overlay;
use super::paint;
use super::shared::Shared;
use super::tab::Tab;
use super::text;
use super::theme::Kind;
use prof_report::model::{SiteKind, Sure};
use prof_report::trust;
use prof_statistics::Share;
use ratatui::layout::Rect;
use std::borrow::Cow;

/// A list in fewer rows than these needs those around the view, too.
const LOW: u16 = 12;

/// Where the parts of the screen are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) tabs: Rect,
    pub(super) filters: Rect,
    pub(super) body: Rect,
    pub(super) detail: Rect,
    pub(super) status: Rect,
    /// For what lies on top: the views' place, or all below the tabs where
    /// that is small.
    pub(super) top: Rect,
}

/// Divides the screen. The detail takes as many rows as the selected name
/// needs, and so does what the user is told, each up to a third of the screen.
pub(super) fn layout(shared: &Shared, tab: &dyn Tab) -> Screen {
    let area = shared.area;
    let wanted =
        detail(shared, tab).map_or(1, |words| text::wrap(&words, usize::from(area.width)).len());
    let most = usize::from(area.height / 3).max(1);
    let rows = u16::try_from(wanted.clamp(1, most)).unwrap_or(1);
    let strip = |y: u16, height: u16| Rect {
        x: area.x,
        y: area.y + y.min(area.height),
        width: area.width,
        height: height.min(area.height.saturating_sub(y)),
    };
    let told = told(shared).map_or(1, |words| text::wrap(&words, usize::from(area.width)).len());
    let told = u16::try_from(told.clamp(1, most)).unwrap_or(1);
    let body = area.height.saturating_sub(2 + rows + told);
    Screen {
        tabs: strip(0, 1),
        filters: strip(1, 1),
        body: strip(2, body),
        detail: strip(2 + body, rows),
        status: strip(2 + body + rows, told),
        top: if body < LOW {
            strip(1, 1 + body + rows)
        } else {
            strip(2, body)
        },
    }
}

/// All about what the cursor is on. Not escaped.
pub(super) fn detail(shared: &Shared, tab: &dyn Tab) -> Option<String> {
    let seen = shared.seen.as_ref()?;
    let extra = tab.detail(shared);
    let selected = tab.selected(shared).site;
    let Some(site) = selected else {
        return extra;
    };
    let site = seen.site(site);
    let profile = &seen.profile;
    let kind = Kind::of(profile, site);
    let mut words = format!("{} {}", kind.sign(), site.name(profile));
    if site.kind == SiteKind::Inline {
        let host = profile.name(profile.function(site.host).name);
        words.push_str(&format!(" (inlined into {host})"));
    }
    words.push_str(&format!("  {}", profile.name(profile.dso(site.dso).path)));
    let about = site.function(profile);
    if let Some((file, line)) = about.defined_at {
        words.push_str(&format!("  {}:{line}", profile.name(file)));
    }
    if let Some(reason) = about.unnamed {
        words.push_str(&format!("  no name: {}", trust::unnamed(reason).0));
    }
    if let Some(extra) = extra {
        words.push_str("  ");
        words.push_str(&extra);
    }
    // Of two recordings it is the change that has an interval.
    if let (Some(sure), None) = (selected.and_then(|it| shared.sure_of(it)), &shared.changes) {
        words.push_str(&format!("  {}", how_sure(sure)));
    }
    Some(words)
}

/// Where sampling the same run again would find a function's shares.
fn how_sure(sure: Sure) -> String {
    let words = |share: &Share| paint::between(share.interval(0.95));
    let (own, total) = (words(&sure.own), words(&sure.total));
    match own == total {
        true => format!("95%: {own}%"),
        false => format!("95%: self {own}%, total {total}%"),
    }
}

/// What the user is told or asked; a prompt to type in stands above it.
pub(super) fn told(shared: &Shared) -> Option<Cow<'_, str>> {
    match &shared.overlay {
        Some(Overlay::Ask(..)) => None,
        Some(Overlay::Replace(write)) => Some(Cow::Owned(format!(
            "{} exists already. y: replace it; any other key: leave it as it is",
            write.path
        ))),
        _ => shared.message.words().map(Cow::Borrowed),
    }
}

impl Shared {
    /// The room of a tab, if it is the one that is shown.
    pub(super) fn body(&self, tab: &dyn Tab) -> Rect {
        layout(self, tab).body
    }

    /// Rows for lists of a tab, below their heading.
    pub(super) fn body_rows(&self, tab: &dyn Tab) -> usize {
        let body = self.body(tab).height;
        usize::from(body).saturating_sub(usize::from(self.switches.headings))
    }
}
