//! The line of trust: counts and shares, as figures that fit a width.

use super::percent;
use crate::escape;
use prof_profile::{Event, Profile, Trust, several};
use unicode_width::UnicodeWidthStr;

/// One figure of the trust line, such as the lost samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The text between it and the figure before.
    pub divider: &'static str,
    /// Safe for a terminal.
    pub words: String,
    /// Whether it says that the views must be read with care.
    pub is_bad: bool,
}

impl Figure {
    /// The mark in front of the words, by which a bad figure stands out without
    /// colours.
    pub fn sign(&self) -> &'static str {
        if self.is_bad { "!" } else { "" }
    }

    fn width(&self) -> usize {
        self.divider.width() + self.sign().width() + self.words.width()
    }
}

/// Below this share, in percent, stacks that reach their start and frames
/// with a name are a bad figure: the views then show another program's calls
/// or lack its names.
const LEAST_GOOD_PERCENT: u64 = 90;

/// How much the line of trust says.
#[derive(Clone, Copy)]
struct Form {
    samples: bool,
    throttled: bool,
    rate: bool,
    /// What is said of stacks and of frames, after their share.
    shares: [&'static str; 2],
}

impl Form {
    const WHOLE: Self = Self {
        samples: true,
        throttled: true,
        rate: true,
        shares: [
            "of user stacks reach their thread's start",
            "of frames have a name",
        ],
    };

    /// From the longest to the shortest, which leaves out what matters least.
    fn all() -> [Self; 6] {
        let long = Self {
            samples: false,
            shares: ["of user stacks are whole", "of frames have a name"],
            ..Self::WHOLE
        };
        let short = Self {
            shares: ["of stacks whole", "of frames named"],
            ..long
        };
        let rateless = Self {
            rate: false,
            ..short
        };
        let losses = Self {
            throttled: false,
            ..rateless
        };
        let shortest = Self {
            shares: ["whole", "named"],
            ..losses
        };
        [Self::WHOLE, long, short, rateless, losses, shortest]
    }

    fn figures(self, profile: &Profile) -> Vec<Figure> {
        let trust = &profile.trust;
        let mut line: Vec<Figure> = Vec::new();
        let mut add = |divider: &'static str, words: &str, is_bad: bool| {
            line.push(Figure {
                divider: if line.is_empty() { "" } else { divider },
                words: escape::terminal(words).into_owned(),
                is_bad,
            });
        };
        if self.samples {
            add(", ", &several(trust.samples, "sample"), false);
        }
        add(", ", &lost(trust), trust.most_lost() > 0);
        if let Some(seen) = seen(trust) {
            add(", ", &format!("{seen} of the CPU time seen"), true);
        }
        if self.throttled {
            add(", ", &format!("{} throttled", trust.throttled), false);
        }
        if let Some(rate) = rate(profile).filter(|_| self.rate) {
            add("; ", &rate, false);
        }
        let (judged, rooted) = trust.rooted();
        let named = trust.frames.saturating_sub(trust.unnamed_frames());
        // The long form has commas in its pieces.
        let beside = if self.samples || judged == 0 {
            "; "
        } else {
            ", "
        };
        let [stacks, frames] = self.shares;
        for (divider, part, whole, words) in [
            ("; ", rooted, judged, stacks),
            (beside, named, trust.frames, frames),
        ] {
            if whole > 0 {
                let is_bad =
                    u128::from(part) * 100 < u128::from(whole) * u128::from(LEAST_GOOD_PERCENT);
                add(
                    divider,
                    &format!("{} {words}", percent(part, whole)),
                    is_bad,
                );
            }
        }
        line
    }
}

/// The share of the CPU time for which samples stand, if far less than all.
pub(super) fn seen(trust: &Trust) -> Option<String> {
    let came = trust.samples.saturating_add(trust.most_lost());
    (came < trust.due).then(|| percent(came, trust.due))
}

/// Never a bound in the place of a count.
fn lost(trust: &Trust) -> String {
    match (trust.lost, trust.lost_records) {
        (lost, 0) => format!("{lost} lost"),
        (0, records) => format!("up to {} lost", several(records, "record")),
        (lost, records) => format!("{lost} and up to {} lost", several(records, "record")),
    }
}

/// The trust line: samples, lost, throttled, rate, complete stacks, named
/// frames.
pub fn summary(profile: &Profile) -> String {
    let mut line = String::new();
    for figure in Form::WHOLE.figures(profile) {
        line.push_str(figure.divider);
        line.push_str(&figure.words);
    }
    line
}

/// [`summary`] as separate figures that fit into `width` columns, marks
/// included: where there is no room the least important ones are shortened or
/// dropped.
pub fn summary_within(profile: &Profile, width: usize) -> Vec<Figure> {
    let is_damaged = !profile.trust.damages.is_empty();
    let forms = Form::all().map(|form| {
        let mut figures = form.figures(profile);
        if is_damaged {
            // Views of what is left look like those of a whole recording.
            if let Some(first) = figures.first_mut() {
                first.divider = "; ";
            }
            figures.insert(
                0,
                Figure {
                    divider: "",
                    words: "the file is damaged".into(),
                    is_bad: true,
                },
            );
        }
        figures
    });
    let fits = |line: &&Vec<Figure>| line.iter().map(Figure::width).sum::<usize>() <= width;
    let [.., shortest] = &forms;
    forms.iter().find(fits).unwrap_or(shortest).clone()
}

/// The rate that was asked for and what came, over the whole recording; of the
/// first event, which is named where other events have samples, too.
fn rate(profile: &Profile) -> Option<String> {
    let event = profile.events.iter().find(|event| event.samples > 0)?;
    if event.asked == 0 {
        return None;
    }
    let rate = rate_of(profile, event)?;
    if event.samples >= profile.trust.samples {
        return Some(rate);
    }
    Some(format!("{} of {}: {rate}", event.samples, event.name))
}

fn rate_of(profile: &Profile, event: &Event) -> Option<String> {
    if !event.is_freq {
        return Some(format!(
            "one sample every {}",
            several(event.asked, "event")
        ));
    }
    let (first, last) = profile.origin.time_range?;
    let seconds = last.checked_sub(first).filter(|&ns| ns > 0)? as f64 / 1e9;
    let real = event.samples as f64 / seconds;
    Some(format!(
        "asked {} Hz per CPU, {real:.0} samples/s in all over {seconds:.2} s",
        event.asked
    ))
}
