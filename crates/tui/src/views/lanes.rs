//! Lanes of the timeline: what each thread did, as a row of signs.

use crate::paint::{Pen, style_row};
use crate::shared::Shared;
use crate::text;
use crate::theme::{HEAT_LEVELS, Kind, Theme};
use prof_profile::{Counted, Event, EventId, Profile, StackSource, Wait, WaitKind, WaitState};
use prof_report::model::TimeRange;
use prof_report::waiting::lanes::{Doing, Lane, Span};
use prof_report::waiting::{self, LaneMap};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

/// Columns of the rows' names.
pub(super) const LABEL: u16 = 18;
/// Whether a profile has lanes.
pub(super) fn lanes_of(profile: &Profile) -> bool {
    profile.samples.has_waits()
}

/// The event whose samples tell where a thread was in a span; `None` if there
/// are none.
pub(super) fn event_of(profile: &Profile, tid: i32, span: Span) -> Option<EventId> {
    if let Some(row) = span.row {
        return profile.samples.get(row).map(|sample| sample.event);
    }
    let is_time = |event: &Event| event.weight_is_ns && !event.is_off_cpu;
    let time = profile.events.iter().position(is_time);
    let mut inside = profile.samples.iter().filter(|sample| {
        span.begin < sample.time
            && sample.time <= span.end
            && profile.task(sample.task).tid == tid
            && sample.wait.is_none()
    });
    // Cycles or other events tell it, too.
    let first = inside.next()?.event;
    let is_of_time = |event: EventId| Some(usize::from(event.0)) == time;
    let of_time = std::iter::once(first)
        .chain(inside.map(|sample| sample.event))
        .find(|&event| is_of_time(event));
    Some(of_time.unwrap_or(first))
}

/// How lanes are shown.
pub(super) struct LanesView<'a> {
    pub(super) map: &'a LaneMap,
    /// The cursor's lane.
    pub(super) lane: usize,
    /// First lane on the screen.
    pub(super) top: usize,
    /// First slice on the screen.
    pub(super) left: usize,
    /// The cursor's slice.
    pub(super) cursor: usize,
    /// First and last slice of what is marked.
    pub(super) range: (usize, usize),
}

impl LanesView<'_> {
    /// Lanes below the row of the axis, and the legend in the last row.
    pub(super) fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer) {
        let theme = &shared.theme;
        let rows = area.height.saturating_sub(2);
        for at in 0..rows {
            let index = usize::from(at) + self.top;
            let Some(lane) = self.map.lanes.list.get(index) else {
                break;
            };
            self.draw_lane(shared, (index, lane), Pen::new(buffer, theme, area, at + 1));
            if index == self.lane {
                let label = Rect {
                    width: LABEL.min(area.width),
                    ..area
                };
                style_row(buffer, label, at + 1, theme.selected());
            }
        }
        self.draw_legend(
            theme,
            Pen::new(buffer, theme, area, area.height.saturating_sub(1)),
        );
    }

    fn draw_lane(&self, shared: &Shared, (index, lane): (usize, &Lane), mut pen: Pen<'_>) {
        let theme = &shared.theme;
        pen.cell(&label(shared, lane), usize::from(LABEL) - 1, Style::new())
            .gap(1);
        let cells = self.map.row(index).iter().enumerate().skip(self.left);
        let (first, last) = self.range;
        for (slice, cell) in cells.take(pen.room()) {
            let (sign, mut style) = match cell {
                Some(cell) => sign(theme, cell.doing),
                None => (" ", Style::new()),
            };
            let is_cursor = index == self.lane && slice == self.cursor;
            if is_cursor || (first < last && (first..=last).contains(&slice)) {
                style = style.add_modifier(Modifier::REVERSED);
            }
            pen.put(sign, style);
        }
    }

    fn draw_legend(&self, theme: &Theme, mut pen: Pen<'_>) {
        for doing in self.map.doings() {
            let (glyph, style) = sign(theme, doing);
            pen.put(glyph, style).gap(1);
            pen.put(&self.words(doing), Style::new()).gap(2);
        }
    }

    /// What a thread does, in words.
    fn words(&self, doing: Doing) -> String {
        match (&self.map.lanes.at_least, doing) {
            (Some(least), Doing::Running) => format!("running, or waits under {least}"),
            _ => doing.text().to_owned(),
        }
    }

    /// What the thread at the cursor does there, and what it did all its life.
    pub(super) fn detail(&self, shared: &Shared, marked: Option<TimeRange>) -> Option<String> {
        let since = |time: u64| shared.since(time);
        if let Some(range) = marked {
            let (start, end) = (since(range.start), since(range.end));
            return Some(format!(
                "{start} .. {end}; Space ends the range, Esc drops it"
            ));
        }
        let lane = self.map.lanes.list.get(self.lane)?;
        let life = self.life(shared, lane);
        let Some((_, span, more)) = self.map.at(self.lane, self.cursor) else {
            let time = since(self.map.begin_of(self.cursor));
            return Some(format!("{time}: the thread did not live then; {life}"));
        };
        let others = match more {
            0 => String::new(),
            more => format!(", the longest here of {}", u64::from(more) + 1),
        };
        Some(format!(
            "{} .. {} ({}{others}): {}{}; Enter shows its stacks; {life}",
            since(span.begin),
            since(span.end),
            text::duration(span.length()),
            self.words(span.doing),
            place(shared, span),
        ))
    }

    /// A thread's life and what it is the sum of.
    fn life(&self, shared: &Shared, lane: &Lane) -> String {
        let (begin, end) = lane.life();
        let sums = lane.sums();
        let sums = sums
            .iter()
            .map(|&(doing, ns)| format!("{} {}", self.words(doing), text::duration(ns)));
        let sums: Vec<String> = sums.collect();
        format!(
            "{} lived {}: {}",
            label(shared, lane),
            text::duration(end - begin),
            sums.join(", ")
        )
    }
}

/// Number and name of a thread.
fn label(shared: &Shared, lane: &Lane) -> String {
    let name = shared.profile.as_ref().map(|profile| {
        // The lanes may be those of a profile that is about to be replaced.
        let task = profile.tasks.get(lane.task.0 as usize);
        task.map_or("", |task| profile.name(task.comm))
    });
    format!("{} {}", lane.tid, name.unwrap_or_default())
}

/// Where a wait was, innermost function first.
fn place(shared: &Shared, span: Span) -> String {
    /// Of a line of the detail.
    const COLUMNS: usize = 60;
    let stack = span.row.and_then(|row| {
        let profile = shared.profile.as_ref()?;
        let sample = profile.samples.get(row)?;
        let shown = waiting::shown(profile, sample.stack);
        let line = format!(", in {}", waiting::line(&shown, COLUMNS));
        let wait = profile.samples.wait_at(row);
        let is_without = |wait: &&Wait| {
            wait.source == StackSource::None
                && profile.stacks.locations(sample.stack).nth(1).is_none()
        };
        Some(
            wait.filter(is_without)
                .map_or(line, |wait| without_stack(wait).to_owned()),
        )
    });
    stack.unwrap_or_default()
}

/// Why it is not said where a wait was.
fn without_stack(wait: &Wait) -> &'static str {
    match (wait.counted, wait.state) {
        (Counted::ByOthers, _) => ", without its stack: others stand for it",
        (_, WaitState::Started) => ", since it had not run yet",
        _ => ", without its stack",
    }
}

/// The sign of what a thread does, and its colour: that of the same kind of
/// frames.
fn sign(theme: &Theme, doing: Doing) -> (&'static str, Style) {
    match doing {
        Doing::Running => {
            let full = theme.glyphs.heat.get(HEAT_LEVELS).copied();
            (full.unwrap_or("#"), theme.kind(Kind::User))
        }
        Doing::Runnable => ("r", theme.kind(Kind::Runnable)),
        Doing::Blocked(kind) => (letter(kind), theme.kind(Kind::Waiting)),
        Doing::Unknown => ("?", theme.dim()),
    }
}

/// A letter for each kind of wait.
fn letter(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Unknown | WaitKind::Cpu => "b",
        WaitKind::Futex => "f",
        WaitKind::Poll => "p",
        WaitKind::Sleep => "s",
        WaitKind::Child => "c",
        WaitKind::Pipe => "i",
        WaitKind::Socket => "n",
        WaitKind::FileRead => "R",
        WaitKind::FileWrite => "W",
        WaitKind::FileSync => "S",
        WaitKind::Terminal => "t",
        WaitKind::PageFault => "F",
        WaitKind::AsyncIo => "a",
        WaitKind::Signal => "g",
        WaitKind::KernelLock => "k",
        WaitKind::FileLock => "l",
        WaitKind::Descriptor => "d",
        WaitKind::Ipc => "m",
        WaitKind::Vfork => "v",
        WaitKind::KernelThread => "K",
        WaitKind::SystemCall => "y",
    }
}

#[cfg(test)]
mod tests {
    use super::{letter, without_stack};
    use prof_profile::{Counted, Wait, WaitKind, WaitState};
    use prof_report::waiting::lanes::Doing;
    use std::collections::BTreeSet;

    #[test]
    fn a_wait_of_which_little_is_known_says_so() {
        let blocked = Doing::Blocked(WaitKind::Unknown);
        assert_eq!(blocked.text(), "blocked (cause not known)");
        let of = |state, counted| Wait {
            state,
            counted,
            ..Wait::default()
        };
        let chosen = of(WaitState::Blocked, Counted::ByOthers);
        assert!(without_stack(&chosen).contains("others stand for it"));
        let new = of(WaitState::Started, Counted::ByItself);
        assert!(without_stack(&new).contains("had not run yet"));
        let other = of(WaitState::Blocked, Counted::ByItself);
        assert_eq!(without_stack(&other), ", without its stack");
    }

    #[test]
    fn each_kind_of_wait_has_a_letter_of_its_own() {
        let kinds = WaitKind::ALL.iter().filter(|&&kind| kind != WaitKind::Cpu);
        let letters: BTreeSet<&str> = kinds.map(|&kind| letter(kind)).collect();
        assert_eq!(letters.len(), WaitKind::ALL.len() - 1);
        // That of waiting for a CPU.
        assert!(!letters.contains("r"));
    }
}
