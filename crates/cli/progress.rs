//! A progress line on stderr for work that takes more than half a second, on
//! a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prof_resolve::{Phase, Progress};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_millis(500);

/// A line with phase, share done and time left; gone when dropped.
pub(crate) struct ProgressLine {
    is_terminal: bool,
    started: Instant,
    shown: Mutex<Option<(Phase, ProgressBar)>>,
}

impl ProgressLine {
    /// A line that begins now.
    pub(crate) fn start() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            shown: Mutex::new(None),
        }
    }
}

impl Progress for ProgressLine {
    fn update(&self, phase: Phase, done: u64, total: Option<u64>) {
        if !self.is_terminal || self.started.elapsed() < QUIET {
            return;
        }
        // A poisoned lock only means that another thread failed while drawing.
        let mut shown = self
            .shown
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if shown.as_ref().is_none_or(|(before, _)| *before != phase) {
            if let Some((_, line)) = shown.take() {
                line.finish_and_clear();
            }
            *shown = Some((phase, line(phase, total)));
        }
        if let Some((_, line)) = shown.as_ref() {
            line.set_position(done);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let shown = self
            .shown
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, line)) = shown.take() {
            line.finish_and_clear();
        }
    }
}

fn line(phase: Phase, total: Option<u64>) -> ProgressBar {
    let line = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let (what, count) = match phase {
        Phase::Reading => ("reading", "{bytes} of {total_bytes}"),
        Phase::Naming => ("finding names", "{pos} of {len} addresses"),
    };
    let template = match total {
        Some(_) => format!("{what} {{percent:>3}} % [{{bar:30}}] {count}, {{eta}} left"),
        None => format!("{what} {{spinner}} {{bytes}}, {{elapsed}}"),
    };
    let style = ProgressStyle::with_template(&template).expect("the template is ours");
    line.set_style(style.progress_chars("=> "));
    line
}
