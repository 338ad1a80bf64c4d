//! `--clock` and `--idle`: which time a view shows, and how much of it.

use crate::recording::Input;
use prof_profile::Clock;

/// Which time is shown, where waits were recorded.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct ClockOption {
    /// Which time to show of a recording with waits
    ///
    /// Of record --off-cpu: cpu, in which threads ran; off, in which they did not; wall, both
    /// together.
    #[arg(long, value_name = "cpu|off|wall", value_parser = parse)]
    pub(crate) clock: Option<Clock>,
}

impl ClockOption {
    /// The recording, read for this clock.
    pub(crate) fn of(self, input: &Input) -> Input {
        Input {
            clock: self.clock,
            ..input.clone()
        }
    }
}

/// Whether waits of pool threads for work are shown one by one.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct IdleOption {
    /// Show where pool threads wait for work, too: otherwise these waits, of a recording with
    /// waits, are one frame, and the lines of trust say how much time that is
    #[arg(long)]
    idle: bool,
}

impl IdleOption {
    /// The recording, read so.
    pub(crate) fn of(self, input: Input) -> Input {
        Input {
            folds_idle: !self.idle,
            ..input
        }
    }
}

fn parse(text: &str) -> Result<Clock, String> {
    match text {
        "cpu" => Ok(Clock::Cpu),
        "off" => Ok(Clock::Off),
        "wall" => Ok(Clock::Wall),
        _ => Err("not cpu, off or wall".to_owned()),
    }
}
