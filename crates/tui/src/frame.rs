//! What stands around every view: tabs, filters, details, messages.

use super::filters;
use super::layout::{detail, layout, told};
use super::overlay::{Asked, Overlay};
use super::paint::{Pen, percent};
use super::prompt::Prompt;
use super::shared::{Shared, TabId};
use super::tab::{About, Tab};
use super::text;
use super::theme::Theme;
use super::views::{self, Tabs};
use prof_profile::{Profile, several};
use prof_report::trust;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// The smallest screen that is drawn on.
const LEAST: (u16, u16) = (40, 10);

/// Draws the whole state.
pub(super) fn draw(shared: &Shared, tabs: &Tabs, buffer: &mut Buffer) {
    let tab = tabs.shown();
    let area = shared.area.intersection(buffer.area);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let words = format!(
            "{}x{} is too small; {}x{} is enough (q leaves)",
            area.width, area.height, LEAST.0, LEAST.1
        );
        for (row, line) in (0..area.height).zip(text::wrap(&words, usize::from(area.width))) {
            Pen::new(buffer, &shared.theme, area, row).put(&line, Style::new());
        }
        return;
    }
    let screen = layout(shared, tab);
    draw_tabs(shared, tabs, screen.tabs, buffer);
    draw_filters(shared, screen.filters, buffer);
    draw_body(shared, tab, screen.body, buffer);
    draw_detail(shared, tab, screen.detail, buffer);
    draw_status(shared, screen.status, buffer);
    if let Some(overlay) = &shared.overlay {
        overlay.draw(&shared.theme, screen.top, buffer);
    }
}

/// The titles of the tabs with their columns: the long ones, the short ones,
/// or only numbers beside the tab that is shown, whichever fit.
fn titles(shown: &Tabs, width: u16) -> Vec<(TabId, String, u16, u16)> {
    type Title<'a> = &'a dyn Fn(TabId, &About) -> Option<&'static str>;
    let (shown, count) = (shown.at(), shown.len());
    let long = |_, about: &About| Some(about.title);
    let short = |_, about: &About| Some(about.word);
    let least = |tab, about: &About| (tab == shown).then_some(about.word);
    let titles: [Title<'_>; 3] = [&long, &short, &least];
    let label = |at: usize, about: &About, title: Title<'_>| {
        let title = title(TabId(at), about);
        let title = title.map_or(String::new(), |title| format!(" {title}"));
        (TabId(at), format!(" {}{title} ", at + 1))
    };
    let labels = titles.map(|title| {
        let all = views::ALL.iter().take(count).enumerate();
        let labels = all.map(|(at, (about, _))| label(at, about, title));
        labels.collect::<Vec<(TabId, String)>>()
    });
    let sum = |labels: &Vec<(TabId, String)>| -> usize {
        labels.iter().map(|(_, label)| text::width(label)).sum()
    };
    let [.., least] = &labels;
    let fitting = labels
        .iter()
        .find(|labels| sum(labels) <= usize::from(width));
    let mut x = 0;
    let labels = fitting.unwrap_or(least).iter().cloned();
    let placed = labels.map(|(tab, label)| {
        let start = x;
        x += u16::try_from(text::width(&label)).unwrap_or(u16::MAX);
        (tab, label, start, x)
    });
    placed.collect()
}

fn draw_tabs(shared: &Shared, tabs: &Tabs, area: Rect, buffer: &mut Buffer) {
    let theme = &shared.theme;
    let mut pen = Pen::new(buffer, theme, area, 0);
    for (tab, label, ..) in titles(tabs, area.width) {
        let style = if tab == tabs.at() {
            theme.tab()
        } else {
            Style::new()
        };
        pen.put(&label, style);
    }
    let rest = pen.room();
    if rest > 12 {
        let title = text::path(&shared.title, rest - 2, theme.glyphs.ellipsis);
        pen.right(&title, rest, theme.dim());
    }
}

/// The tab at a column.
pub(super) fn tab_at(tabs: &Tabs, width: u16, column: u16) -> Option<TabId> {
    titles(tabs, width)
        .into_iter()
        .find(|&(_, _, start, end)| (start..end).contains(&column))
        .map(|(tab, ..)| tab)
}

/// Event, what is shown of it, and the filters.
fn draw_filters(shared: &Shared, area: Rect, buffer: &mut Buffer) {
    let theme = &shared.theme;
    let mut pen = Pen::new(buffer, theme, area, 0);
    let Some(profile) = &shared.profile else {
        return;
    };
    let selection = shared.history.now();
    let event = profile.events.get(usize::from(selection.event.0));
    pen.gap(1).put(
        event.map_or("no event", |event| &event.name),
        theme.heading(),
    );
    if profile.events.len() > 1 {
        let which = format!(" ({} of {})", selection.event.0 + 1, profile.events.len());
        pen.put(&which, theme.dim());
    }
    if let Some(seen) = &shared.seen {
        let words = if seen.shown == seen.scope {
            format!("  {}", text::samples(seen.shown.samples))
        } else {
            let shown = text::grouped(seen.shown.samples);
            let share = percent(seen.shown.percent_of(seen.scope));
            let all = text::grouped(seen.scope.samples);
            format!("  {shown} of {all} samples, {}", share.trim())
        };
        pen.put(&words, Style::new());
    }
    for chip in filters::chips(profile, selection) {
        pen.gap(1).put(&format!(" {chip} "), theme.chip());
    }
    if shared.switches.least > 0 {
        let least = f64::from(shared.switches.least) / 1000.0;
        pen.gap(1).put(&format!(" >= {least}% "), theme.chip());
    }
    if shared.switches.relative {
        pen.gap(1).put(" shares of what is kept ", theme.chip());
    }
}

/// Whether there is nothing else to show: one event, and no filter.
fn has_one_event(shared: &Shared) -> bool {
    let profile = shared.profile.as_ref();
    profile.is_some_and(|profile| {
        profile.events.len() <= 1 && filters::chips(profile, shared.history.now()).is_empty()
    })
}

fn draw_body(shared: &Shared, tab: &dyn Tab, area: Rect, buffer: &mut Buffer) {
    let theme = &shared.theme;
    let note = match (&shared.seen, &shared.progress) {
        (None, Some(progress)) => Some(progress.clone()),
        (None, None) => Some("computing".to_string()),
        (Some(seen), _) if seen.scope.is_zero() && has_one_event(shared) => {
            Some("the recording has no samples".into())
        }
        (Some(seen), _) if seen.scope.is_zero() => Some(
            "no samples of this event: Tab shows another event, Backspace removes filters".into(),
        ),
        (Some(seen), _) if seen.shown.is_zero() => Some(
            "the filters keep no sample: u takes the last one back, Backspace removes all".into(),
        ),
        _ => None,
    };
    if let Some(note) = note {
        let mut pen = Pen::new(buffer, theme, area, area.height / 2);
        let free = pen.room().saturating_sub(text::width(&note)) / 2;
        pen.gap(free).put(&note, theme.warning());
        return;
    }
    tab.draw(shared, area, buffer);
}

fn draw_detail(shared: &Shared, tab: &dyn Tab, area: Rect, buffer: &mut Buffer) {
    let Some(words) = detail(shared, tab) else {
        return;
    };
    draw_wrapped(&words, &shared.theme, area, shared.theme.heading(), buffer);
}

/// Words in as many rows as there are.
fn draw_wrapped(words: &str, theme: &Theme, area: Rect, style: Style, buffer: &mut Buffer) {
    let lines = text::wrap(words, usize::from(area.width));
    let is_cut = lines.len() > usize::from(area.height);
    for (row, line) in (0..area.height).zip(&lines) {
        let is_last = is_cut && row + 1 == area.height;
        let mut pen = Pen::new(buffer, theme, area, row);
        if is_last {
            // More follows, so that it is cut in any case.
            let words = format!("{line}{}", " ".repeat(pen.room()));
            pen.put(words.trim_start(), style);
        } else {
            pen.put(line, style);
        }
    }
}

/// What is asked and typed; of a search also what it covers so far.
fn draw_prompt(shared: &Shared, asked: Asked, prompt: &Prompt, mut pen: Pen<'_>) {
    let theme = &shared.theme;
    let (before, after) = prompt.parts();
    pen.put(asked.label(), theme.heading());
    // The end of what is typed has to be seen, not its beginning.
    let room = pen.room().saturating_sub(30);
    let hidden = before.chars().count().saturating_sub(room.max(8));
    let tail: String = before.chars().skip(hidden).collect();
    // What the next letter replaces is marked as editors do.
    let style = if prompt.is_proposed() {
        theme.selected()
    } else {
        Style::new()
    };
    pen.put(&tail, style);
    let mut rest = after.chars();
    let under: String = rest.next().map_or(" ".into(), String::from);
    let cursor = Style::new().add_modifier(ratatui::style::Modifier::REVERSED);
    pen.put(&under, cursor).put(rest.as_str(), Style::new());
    if asked == Asked::Search {
        pen.gap(2).put(&search_words(shared), theme.dim());
    }
}

/// The prompt, a message, what the search covers, or how far to trust what is
/// shown.
fn draw_status(shared: &Shared, area: Rect, buffer: &mut Buffer) {
    let theme = &shared.theme;
    let mut pen = Pen::new(buffer, theme, area, 0);
    if let Some(Overlay::Ask(asked, prompt)) = &shared.overlay {
        return draw_prompt(shared, *asked, prompt, pen);
    }
    if let Some(words) = told(shared) {
        draw_wrapped(&words, theme, area, theme.warning(), buffer);
        return;
    }
    let hint = if pen.room() < 110 {
        " ? help"
    } else {
        " i trust  ? help  : commands  q quit"
    };
    let room = pen.room();
    let has_hint = room > text::width(hint) + 30;
    let width = if has_hint {
        room - text::width(hint)
    } else {
        room
    };
    if shared.is_slow() {
        pen.cell(
            "computing; what was before is shown",
            width,
            theme.warning(),
        );
    } else if shared.search.found.is_some() {
        pen.cell(&search_words(shared), width, theme.dim());
    } else if let (Some(progress), true) = (&shared.progress, shared.seen.is_some()) {
        let words = format!("{progress}; what is there is shown");
        pen.cell(&words, width, theme.dim());
    } else if let Some(profile) = &shared.profile {
        draw_trust(profile, theme, width, &mut pen);
    }
    if has_hint {
        let free = pen.room().saturating_sub(text::width(hint));
        pen.gap(free).put(hint, theme.dim());
    }
}

/// How far to trust what is shown, in at most `width` columns; a bad figure
/// stands out by its sign and colour.
fn draw_trust(profile: &Profile, theme: &Theme, width: usize, pen: &mut Pen<'_>) {
    let line = trust::summary_within(profile, width);
    let end = pen.room().saturating_sub(width);
    for figure in line {
        let style = if figure.is_bad {
            theme.warning()
        } else {
            theme.dim()
        };
        let words = format!("{}{}", figure.sign(), figure.words);
        for (words, style) in [(figure.divider, theme.dim()), (&words, style)] {
            let room = pen.room().saturating_sub(end);
            pen.cell(words, text::width(words).min(room), style);
        }
    }
}

fn search_words(shared: &Shared) -> String {
    if let Some(error) = &shared.search.error {
        return error.clone();
    }
    let Some(found) = &shared.search.found else {
        return String::new();
    };
    let share = percent(found.covered.percent_of(shared.whole()));
    format!(
        "/{}/ {}, in {} of the samples' stacks; n N go, Esc ends",
        found.pattern.as_str(),
        several(found.functions as u64, "function"),
        share.trim(),
    )
}

/// The recording and its trust, for the information screen.
pub(super) fn about(shared: &Shared) -> Vec<String> {
    let Some(profile) = &shared.profile else {
        return vec!["still reading".into()];
    };
    let origin = &profile.origin;
    let mut lines = Vec::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{name:<16} {value}"));
        }
    };
    add("file", &shared.title);
    add("host", &origin.hostname);
    add("kernel", &origin.os_release);
    add("machine", &origin.arch);
    add("CPU", &origin.cpu_description);
    add("recorded by", &origin.tool_version);
    add("command", &origin.command_line.join(" "));
    if let Some((first, last)) = origin.time_range {
        add("time", &text::duration(last.saturating_sub(first)));
    }
    for event in &profile.events {
        let asked = if event.is_freq { "Hz" } else { "events each" };
        let words = format!(
            "{}: {} samples, {} lost, asked {} {asked}",
            event.name,
            text::grouped(event.samples),
            text::grouped(event.lost),
            text::grouped(event.asked),
        );
        add("event", &words);
    }
    lines.push(String::new());
    lines.extend(trust::lines(profile));
    lines
}

/// The view as plain text, for files.
pub(super) fn text(shared: &Shared, tab: &dyn Tab) -> String {
    let mut out = String::new();
    if let Some(profile) = &shared.profile {
        let selection = shared.history.now();
        let event = profile.events.get(usize::from(selection.event.0));
        let event = event.map_or("", |event| &event.name);
        out.push_str(&format!("# {}: {event}\n", tab.about().title));
        for chip in filters::chips(profile, selection) {
            out.push_str(&format!("# {}\n", prof_report::escape::terminal(&chip)));
        }
        out.push_str(&format!("# {}\n\n", trust::summary(profile)));
    }
    // Drawn as on a screen that is high and wide enough. A picture is as wide
    // as the screen, whatever its names.
    let rows = tab.written_rows();
    let is_picture = rows.is_none();
    let rows = rows.unwrap_or(usize::from(shared.area.height));
    let mut width = WRITTEN_WIDTH.max(shared.area.width);
    let mut drawn = draw_wide(shared, tab, rows, width);
    while drawn.is_cut && !is_picture && width < WIDEST {
        width = width.saturating_mul(2).min(WIDEST);
        drawn = draw_wide(shared, tab, rows, width);
    }
    out.push_str(&drawn.text);
    if drawn.left_out > 0 {
        let left = several(drawn.left_out as u64, "more row");
        out.push_str(&format!("# {left}; prof report --stdio writes all\n"));
    }
    out
}

/// Columns of a view in a file, if that is enough for its names.
const WRITTEN_WIDTH: u16 = 160;
/// Names longer than this are cut also in a file.
const WIDEST: u16 = 5120;
/// Cells that are drawn for a file at most.
const MOST_CELLS: usize = 1 << 21;

/// A view as text.
struct Drawn {
    text: String,
    /// Whether a line ends in a cut name.
    is_cut: bool,
    /// Rows that there was no room for.
    left_out: usize,
}

/// The view as on a screen of this width and `rows` rows.
fn draw_wide(shared: &Shared, tab: &dyn Tab, rows: usize, width: u16) -> Drawn {
    let drawn = rows.min(MOST_CELLS / usize::from(width.max(1)));
    let area = Rect::new(0, 0, width, u16::try_from(drawn).unwrap_or(u16::MAX));
    let mut buffer = Buffer::empty(area);
    draw_body(shared, tab, area, &mut buffer);
    let mut text = String::new();
    let mut is_cut = false;
    for row in 0..area.height {
        let mut line = String::new();
        for column in 0..width {
            if let Some(cell) = buffer.cell((column, row)) {
                line.push_str(cell.symbol());
            }
        }
        let last = buffer.cell((width - 1, row));
        is_cut |= last.is_some_and(|cell| cell.symbol() == shared.theme.glyphs.ellipsis);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let end = text.trim_end().len();
    text.truncate(end);
    text.push('\n');
    Drawn {
        text,
        is_cut,
        left_out: rows - usize::from(area.height),
    }
}
