//! `--switch-on` and `--switch-off`.

use prof_listing::SwitchEvents;

/// Events that begin and end what is considered.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SwitchArgs {
    /// Only samples after one of this event
    #[arg(long, value_name = "EVENT")]
    switch_on: Option<String>,
    /// Only samples before one of this event; with --switch-on until the next
    #[arg(long, value_name = "EVENT")]
    switch_off: Option<String>,
    /// With either, also the samples of these events
    #[arg(long)]
    show_on_off_events: bool,
}

impl SwitchArgs {
    /// Whether they leave anything out.
    pub(crate) fn is_given(&self) -> bool {
        self.switch_on.is_some() || self.switch_off.is_some()
    }

    pub(crate) fn events(&self) -> SwitchEvents {
        SwitchEvents {
            on: self.switch_on.clone(),
            off: self.switch_off.clone(),
            shows_own: self.show_on_off_events,
        }
    }
}
