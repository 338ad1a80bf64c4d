//! How far long work has come: in words, and as a line on stderr for work that
//! takes more than half a second, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prof_resolve::{Phase, Progress};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_millis(500);
/// Time between two tellings.
const PACE: Duration = Duration::from_millis(100);

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Reading records, or finding names.
    Loading(Phase),
    /// Making what is printed.
    Showing,
}

/// What is fetched from elsewhere now, which is what takes the time.
static FETCHED: Mutex<Option<String>> = Mutex::new(None);

/// Tells what is fetched, or that nothing is.
pub(crate) fn tell_fetched(what: Option<String>) {
    *FETCHED.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

fn fetched() -> Option<String> {
    FETCHED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// How far one stage has come since it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    stage: Stage,
    began: Instant,
    /// Units that were done when it began.
    before: u64,
    done: u64,
    total: Option<u64>,
}

impl Account {
    /// A stage that begins now.
    pub(crate) fn begin(stage: Stage, now: Instant) -> Self {
        Self {
            stage,
            began: now,
            before: 0,
            done: 0,
            total: None,
        }
    }

    /// News of the loader. What is reported late from a stage before does
    /// not count.
    pub(crate) fn update(&mut self, phase: Phase, done: u64, total: Option<u64>, now: Instant) {
        if self.stage != Stage::Loading(phase) {
            if self.stage != Stage::Loading(Phase::Reading) {
                return;
            }
            *self = Self {
                before: done,
                ..Self::begin(Stage::Loading(phase), now)
            };
        }
        // Threads do not report in order.
        self.done = self.done.max(done);
        self.total = total.filter(|&total| total > 0);
    }

    /// Hundredths done.
    fn percent(&self) -> Option<u64> {
        let total = self.total?;
        let percent = u128::from(self.done.min(total)) * 100 / u128::from(total);
        u64::try_from(percent).ok()
    }

    /// Time until the stage ends at the pace it had so far.
    fn left(&self, now: Instant) -> Option<Duration> {
        /// A pace over less than this says nothing.
        const LEAST: Duration = Duration::from_millis(300);
        let took = now.saturating_duration_since(self.began);
        let done = self
            .done
            .checked_sub(self.before)
            .filter(|&done| done > 0)?;
        let left = self.total?.saturating_sub(self.done);
        if took < LEAST || left == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "shown in seconds")]
        let share = left as f64 / done as f64;
        Duration::try_from_secs_f64(took.as_secs_f64() * share).ok()
    }

    /// How long it will take, or has taken so far.
    fn time(&self, now: Instant) -> Option<String> {
        if let Some(left) = self.left(now) {
            return Some(format!("{} left", seconds(left)));
        }
        let took = now.saturating_duration_since(self.began);
        (took >= Duration::from_secs(1)).then(|| format!("for {}", seconds(took)))
    }

    fn name(&self) -> &'static str {
        match self.stage {
            Stage::Loading(Phase::Reading) => "reading",
            Stage::Loading(Phase::Naming) => "finding names",
            Stage::Showing => "making the report",
        }
    }

    /// What comes after it.
    fn next(&self) -> Option<&'static str> {
        match self.stage {
            Stage::Loading(Phase::Reading) => Some("then names"),
            Stage::Loading(Phase::Naming) | Stage::Showing => None,
        }
    }

    /// `reading, 41 %, 4 s left, then names`.
    pub(crate) fn words(&self, now: Instant) -> String {
        if let Some(fetched) = fetched() {
            return fetched;
        }
        let done = match (self.percent(), self.stage) {
            (Some(percent), _) => Some(format!("{percent} %")),
            (None, Stage::Loading(Phase::Reading)) => Some(megabytes(self.done)),
            (None, _) => None,
        };
        let next = self.next().map(str::to_owned);
        let parts = [Some(self.name().into()), done, self.time(now), next];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// The same with a bar and what is counted.
    fn line(&self, now: Instant) -> String {
        const BAR: u64 = 20;
        if let Some(fetched) = fetched() {
            return fetched;
        }
        let mut line = self.name().to_owned();
        if let (Some(percent), Some(total)) = (self.percent(), self.total) {
            let filled = usize::try_from(percent * BAR / 100).unwrap_or(0);
            let free = usize::try_from(BAR).unwrap_or(0) - filled;
            let bar = format!("{}{}", "=".repeat(filled), " ".repeat(free));
            let counted = if self.stage == Stage::Loading(Phase::Reading) {
                format!("{} of {}", self.done >> 20, megabytes(total))
            } else {
                format!("{} of {total}", self.done.min(total))
            };
            line.push_str(&format!(" {percent:>3} % [{bar}] {counted}"));
        } else if self.stage == Stage::Loading(Phase::Reading) {
            line.push_str(&format!(" {}", megabytes(self.done)));
        }
        let next = self.next().map(str::to_owned);
        for part in [self.time(now), next].into_iter().flatten() {
            line.push_str(", ");
            line.push_str(&part);
        }
        line
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes >> 20)
}

fn seconds(time: Duration) -> String {
    // What is left is rounded up: it is not over before it is.
    let seconds = time.as_secs() + u64::from(time.subsec_millis() > 0);
    match seconds {
        0..100 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

/// Tells how far work has come again and again until dropped, whether there
/// is news or not: time passes.
pub(crate) struct Teller {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    account: Mutex<(Account, End)>,
    ended: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    Reached,
}

impl Shared {
    fn account(&self) -> MutexGuard<'_, (Account, End)> {
        // A poisoned lock only means that another thread failed meanwhile.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells until the end; at first after `quiet`.
    fn tell(&self, quiet: Duration, mut tell: impl FnMut(&Account)) {
        let mut wait = quiet;
        loop {
            let goes_on = |(_, end): &mut (Account, End)| *end == End::NotYet;
            let waited = self.ended.wait_timeout_while(self.account(), wait, goes_on);
            let (held, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let (account, end) = *held;
            drop(held);
            if end == End::Reached {
                return;
            }
            tell(&account);
            wait = PACE;
        }
    }
}

impl Teller {
    /// Begins with `stage` now and tells from `quiet` on.
    pub(crate) fn start(
        stage: Stage,
        quiet: Duration,
        tell: impl FnMut(&Account) + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            account: Mutex::new((Account::begin(stage, Instant::now()), End::NotYet)),
            ended: Condvar::new(),
        });
        let told = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("progress".into())
            .spawn(move || told.tell(quiet, tell));
        // Without a thread nothing is told, and that is all.
        Self {
            shared,
            thread: thread.ok(),
        }
    }
}

impl Progress for Teller {
    fn update(&self, phase: Phase, done: u64, total: Option<u64>) {
        let mut account = self.shared.account();
        account.0.update(phase, done, total, Instant::now());
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.shared.account().1 = End::Reached;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // That it could not tell is no failure of the work.
            let _ = thread.join();
        }
    }
}

/// A line with what is done, how much of it, and the time left; gone when
/// dropped.
pub(crate) struct ProgressLine {
    /// On a terminal.
    teller: Option<Teller>,
}

impl ProgressLine {
    /// A line for reading a recording, from now on.
    pub(crate) fn start() -> Self {
        Self::of(Stage::Loading(Phase::Reading), Instant::now())
    }

    /// A line for `stage` of a command that was `started` then.
    pub(crate) fn of(stage: Stage, started: Instant) -> Self {
        let teller = io::stderr().is_terminal().then(|| {
            let mut line = ShownLine::default();
            let quiet = QUIET.saturating_sub(started.elapsed());
            Teller::start(stage, quiet, move |account| line.show(account))
        });
        Self { teller }
    }

    /// A writer to `inner` that clears the line before anything is written.
    pub(crate) fn until_output<W: Write>(self, inner: W) -> UntilOutput<W> {
        UntilOutput {
            line: Some(self),
            inner,
        }
    }
}

impl Progress for ProgressLine {
    fn update(&self, phase: Phase, done: u64, total: Option<u64>) {
        if let Some(teller) = &self.teller {
            teller.update(phase, done, total);
        }
    }
}

/// What is drawn of it; cleared when dropped.
#[derive(Default)]
struct ShownLine(Option<ProgressBar>);

impl ShownLine {
    fn show(&mut self, account: &Account) {
        let line = self.0.get_or_insert_with(|| {
            let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{msg}").expect("the template is ours");
            line.set_style(style);
            line
        });
        line.set_message(account.line(Instant::now()));
    }
}

impl Drop for ShownLine {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.finish_and_clear();
        }
    }
}

/// Output before which a progress line ends.
pub(crate) struct UntilOutput<W> {
    line: Option<ProgressLine>,
    inner: W,
}

impl<W: Write> Write for UntilOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line = None;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Phase, Stage};
    use std::time::{Duration, Instant};

    const MB: u64 = 1 << 20;

    #[test]
    fn the_time_left_is_that_of_the_stage_from_its_beginning_on() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut account = Account::begin(Stage::Loading(Phase::Reading), start);
        assert_eq!(account.words(after(10)), "reading, 0 MB, then names");
        account.update(Phase::Reading, 100 * MB, Some(1000 * MB), after(500));
        assert_eq!(
            account.words(after(500)),
            "reading, 10 %, 5 s left, then names"
        );
        assert_eq!(
            account.line(after(500)),
            "reading  10 % [==                  ] 100 of 1000 MB, 5 s left, then names"
        );
        // Some names were found meanwhile: they tell nothing of the pace.
        account.update(Phase::Naming, 200, Some(1000), after(5000));
        assert_eq!(account.words(after(5000)), "finding names, 20 %");
        assert_eq!(account.words(after(7000)), "finding names, 20 %, for 2 s");
        account.update(Phase::Naming, 600, Some(1000), after(9000));
        // What comes late from the stage before is not news.
        account.update(Phase::Reading, 1000 * MB, Some(1000 * MB), after(9000));
        assert_eq!(account.words(after(9000)), "finding names, 60 %, 4 s left");
        assert_eq!(
            account.line(after(9000)),
            "finding names  60 % [============        ] 600 of 1000, 4 s left"
        );
        account.update(Phase::Naming, 999, Some(1_000_000), after(305_000));
        assert_eq!(
            account.words(after(305_000)),
            "finding names, 0 %, 6252 min left"
        );
    }

    #[test]
    fn without_a_total_what_is_done_is_told() {
        let start = Instant::now();
        let mut account = Account::begin(Stage::Loading(Phase::Reading), start);
        account.update(Phase::Reading, 7 * MB, None, start);
        let later = start + Duration::from_millis(1500);
        assert_eq!(account.words(later), "reading, 7 MB, for 2 s, then names");
        assert_eq!(account.line(later), "reading 7 MB, for 2 s, then names");
        let account = Account::begin(Stage::Showing, start);
        assert_eq!(account.line(start), "making the report");
        assert_eq!(account.line(later), "making the report, for 2 s");
    }
}
