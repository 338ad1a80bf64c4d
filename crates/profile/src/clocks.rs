//! Which time a profile shows: that in which threads ran, that in which they
//! did not, or both.

use crate::{DroppedCount, Event, EventId, Profile, Sample};
use std::fmt;

/// What time a profile shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// CPU time: samples taken while threads ran.
    Cpu,
    /// Off-CPU time: waits.
    Off,
    /// CPU time and waits as one event in ns; for a single thread they add up
    /// to its life.
    Wall,
}

/// The tracepoints of waking, which occur where the waker runs. Recorded beside waits
/// they are no time.
pub const WAKE_EVENTS: [&str; 2] = ["sched:sched_waking", "sched:sched_wakeup"];

/// Why a profile has no events of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoClock {
    /// It has no waits.
    NoWaits,
    /// It has nothing but waits.
    OnlyWaits,
    /// The event sampled beside the waits is not a clock.
    NoCpuTime,
}

impl fmt::Display for NoClock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NoWaits => "the recording has no waits\n  try: prof record --off-cpu ./app",
            Self::OnlyWaits => {
                "the recording has nothing but waits\n  try: prof record --off-cpu ./app (without =only)"
            }
            Self::NoCpuTime => {
                "what was sampled beside waits is not CPU time, so that the two do not add up\n  try: prof record --off-cpu -e cpu-clock ./app"
            }
        })
    }
}

impl std::error::Error for NoClock {}

impl Profile {
    /// Removes the events of other clocks. For [`Clock::Wall`], the first event
    /// of CPU time and the event of waits become one event, `wall-clock`.
    ///
    /// # Errors
    /// If it has nothing of this clock; the profile is then as it was.
    pub fn show_clock(&mut self, clock: Clock) -> Result<(), NoClock> {
        let kept = self.events_of_clock(clock)?;
        let new = renumbered(&kept, clock);
        self.samples.filter_map(|sample| {
            let event = *new.get(usize::from(sample.event.0))?;
            Some(Sample {
                event: event?,
                ..*sample
            })
        });
        let mut kept = kept.into_iter();
        self.events.retain(|_| kept.next().unwrap_or(false));
        if clock == Clock::Wall {
            self.events = vec![together(&self.events)];
        }
        // Groups and counts of threads are of events that may be gone.
        self.groups.clear();
        self.thread_counts.clear();
        let is_of = |note: &DroppedCount| note.clock.is_none_or(|of| shows(clock, of));
        self.trust.notes.retain(is_of);
        Ok(())
    }

    /// For each event, whether it belongs to the clock.
    ///
    /// # Errors
    /// If none is.
    pub fn events_of_clock(&self, clock: Clock) -> Result<Vec<bool>, NoClock> {
        let is_off = |event: &Event| event.is_off_cpu;
        if clock != Clock::Cpu && !self.events.iter().any(is_off) {
            return Err(NoClock::NoWaits);
        }
        let has_waits = self.events.iter().any(is_off);
        let is_wake = |event: &Event| has_waits && WAKE_EVENTS.contains(&event.name.as_str());
        let is_of_waits = |event: &Event| is_off(event) || is_wake(event);
        if clock != Clock::Off && self.events.iter().all(is_of_waits) {
            return Err(NoClock::OnlyWaits);
        }
        let is_cpu_time = |event: &Event| event.weight_is_ns && !event.is_off_cpu;
        let cpu_time = self.events.iter().position(is_cpu_time);
        if clock == Clock::Wall && cpu_time.is_none() {
            return Err(NoClock::NoCpuTime);
        }
        let keeps = |(index, event): (usize, &Event)| match clock {
            Clock::Cpu => !is_of_waits(event),
            Clock::Off => event.is_off_cpu,
            Clock::Wall => event.is_off_cpu || Some(index) == cpu_time,
        };
        Ok(self.events.iter().enumerate().map(keeps).collect())
    }
}

/// Whether something of a clock is shown where `shown` is.
fn shows(shown: Clock, of: Clock) -> bool {
    shown == of || shown == Clock::Wall
}

/// The new number of each event; `None` of those that go.
fn renumbered(kept: &[bool], clock: Clock) -> Vec<Option<EventId>> {
    let mut next = 0;
    let mut number = |is_kept: &bool| {
        let id = is_kept.then_some(EventId(next));
        next += u16::from(*is_kept && clock != Clock::Wall);
        id
    };
    kept.iter().map(&mut number).collect()
}

/// Events whose weights are ns, as one.
fn together(events: &[Event]) -> Event {
    let sum = |of: fn(&Event) -> u64| events.iter().map(of).fold(0, u64::saturating_add);
    Event {
        name: "wall-clock".to_owned(),
        samples: sum(|event| event.samples),
        period: sum(|event| event.period),
        lost: sum(|event| event.lost),
        // A wait is no sample that a rate asks for.
        asked: 0,
        is_freq: false,
        weight_is_ns: true,
        is_off_cpu: false,
        has_callchain: events.iter().any(|event| event.has_callchain),
        is_overwritten: events.iter().any(|event| event.is_overwritten),
        tracepoint: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, NoClock};
    use crate::{DroppedCount, Event, EventId, Profile, Sample, StackId, TaskId};

    fn event(name: &str, is_off_cpu: bool, weight_is_ns: bool) -> Event {
        Event {
            name: name.to_owned(),
            samples: 1,
            period: 10,
            is_off_cpu,
            weight_is_ns,
            ..Event::default()
        }
    }

    /// One sample of each event, by the events' order.
    fn profile(events: Vec<Event>) -> Profile {
        let mut profile = Profile::default();
        for number in 0..events.len() {
            profile.samples.push(Sample {
                time: number as u64,
                period: 10,
                task: TaskId(0),
                stack: StackId::EMPTY,
                cpu: None,
                event: EventId(number as u16),
                wait: None,
            });
        }
        profile.events = events;
        profile
    }

    fn three() -> Profile {
        profile(vec![
            event("page-faults", false, false),
            event("offcpu-time", true, true),
            event("cpu-clock", false, true),
        ])
    }

    /// Events, and time and event of the samples.
    fn left(profile: &Profile) -> (Vec<&str>, Vec<(u64, u16)>) {
        let names = profile.events.iter().map(|event| &*event.name).collect();
        let samples = profile.samples.iter();
        (names, samples.map(|it| (it.time, it.event.0)).collect())
    }

    #[test]
    fn what_is_told_of_one_clock_stands_where_that_is_shown() {
        let told_of = |shown: Clock| {
            let mut profile = three();
            for (count, clock) in [(1, None), (2, Some(Clock::Off))] {
                let what = String::new();
                profile
                    .trust
                    .notes
                    .push(DroppedCount { what, count, clock });
            }
            profile.show_clock(shown).expect("it has both");
            let notes = profile.trust.notes.iter();
            notes.map(|note| note.count).collect::<Vec<_>>()
        };
        assert_eq!(told_of(Clock::Cpu), [1]);
        assert_eq!(told_of(Clock::Off), [1, 2]);
        assert_eq!(told_of(Clock::Wall), [1, 2]);
    }

    #[test]
    fn each_clock_leaves_its_events() {
        let mut of_cpu = three();
        of_cpu.show_clock(Clock::Cpu).expect("it has both");
        let expected = (vec!["page-faults", "cpu-clock"], vec![(0, 0), (2, 1)]);
        assert_eq!(left(&of_cpu), expected);
        let mut of_waits = three();
        of_waits.show_clock(Clock::Off).expect("it has both");
        assert_eq!(left(&of_waits), (vec!["offcpu-time"], vec![(1, 0)]));
        let mut of_all = three();
        of_all.show_clock(Clock::Wall).expect("it has both");
        assert_eq!(left(&of_all), (vec!["wall-clock"], vec![(1, 0), (2, 0)]));
        assert_eq!(of_all.events[0].period, 20);
    }

    #[test]
    fn what_is_not_there_is_told() {
        let shown = |events, clock| profile(events).show_clock(clock);
        let cycles = || event("cycles", false, false);
        let waits = || event("offcpu-time", true, true);
        assert_eq!(shown(vec![cycles()], Clock::Off), Err(NoClock::NoWaits));
        assert_eq!(shown(vec![cycles()], Clock::Cpu), Ok(()));
        assert_eq!(shown(vec![waits()], Clock::Wall), Err(NoClock::OnlyWaits));
        let both = shown(vec![cycles(), waits()], Clock::Wall);
        assert_eq!(both, Err(NoClock::NoCpuTime));
        // Those of waking are no time of any clock.
        let waking = || event("sched:sched_waking", false, false);
        for clock in [Clock::Cpu, Clock::Wall] {
            let of_waits = shown(vec![waits(), waking()], clock);
            assert_eq!(of_waits, Err(NoClock::OnlyWaits));
        }
        let mut of_cpu = profile(vec![cycles(), waits(), waking()]);
        of_cpu.show_clock(Clock::Cpu).expect("it has both");
        assert_eq!(left(&of_cpu).0, ["cycles"]);
        assert_eq!(shown(vec![waking()], Clock::Cpu), Ok(()));
    }
}
