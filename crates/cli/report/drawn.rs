//! What the terminal UI shows of what is asked for, and what is shown as text.

use super::{Args, usage};
use crate::outcome::Outcome;
use crate::tui::{Begin, can_draw};
use prof_abi::event_kind;
use prof_profile::Counting;
use prof_report::Format;

impl Args {
    /// Whether something is asked for that is not the terminal UI.
    pub(super) fn has_form(&self) -> bool {
        self.form.stdio
            || self.columns.hierarchy
            || self.columns.total_cycles
            || self.columns.branch_history
            || self.form.format() != Format::Text
            || self.missing
            || self.locks
            || self.wakes.is_given()
            || self.form.is_page()
            || self.switch.is_given()
            || self.of_text().is_some()
    }

    /// With perf's rows of recordings that have tracepoints alone, by what these tell,
    /// unless other rows are asked for; only in text, and of files, which can be looked
    /// at before.
    pub(super) fn sorted_as_perf(mut self) -> Self {
        let columns = &self.columns;
        let are_asked = columns.sort.is_some()
            || columns.fields.is_some()
            || columns.parent.is_some()
            || columns.branch_history
            || !matches!(self.counting(), None | Some(Counting::Samples));
        let is_drawn = self.form.is_page() || self.is_drawn();
        let is_text = self.form.format() == Format::Text && !is_drawn;
        if are_asked || !is_text || !self.input.is_file() {
            return self;
        }
        // What cannot be opened is told of where it is read.
        let reader = self.input.open().ok();
        let events = reader.as_ref().map(|reader| reader.events().list());
        let mut kinds = events.into_iter().flatten().map(|event| event.attr.kind);
        let is_first = kinds.next() == Some(event_kind::TRACEPOINT);
        if is_first && kinds.all(|kind| kind == event_kind::TRACEPOINT) {
            self.columns.sort = "trace".parse().ok();
        }
        self
    }

    /// Whether the terminal UI shows it.
    pub(super) fn is_drawn(&self) -> bool {
        self.form.tui || (can_draw() && !self.has_form())
    }

    /// The first option that shapes text, and of which the terminal UI knows nothing.
    pub(super) fn of_text(&self) -> Option<&'static str> {
        let (columns, filters) = (&self.columns, &self.filters);
        let given = [
            ("--sort", columns.sort.is_some()),
            ("--fields", columns.fields.is_some()),
            ("--parent", columns.parent.is_some()),
            ("--field-separator", columns.field_separator.is_some()),
            ("--column-widths", !columns.column_widths.is_empty()),
            ("--show-nr-samples", columns.show_nr_samples),
            ("--show-total-period", columns.show_total_period),
            ("--show-cpu-utilization", columns.show_cpu_utilization),
            ("--percent-limit", columns.percent_limit.is_some()),
            ("--branch-stack", columns.branch_stack),
            ("--mem-mode", columns.mem_mode),
            ("--symbol-filter", filters.symbol_filter.is_some()),
            ("--parallelism", filters.parallelism.is_some()),
            ("--hide-unresolved", filters.hide_unresolved),
            ("--ignore-callees", self.ignore_callees.is_some()),
            ("--max-stack", self.max_stack.is_some()),
            ("--threads", self.form.threads),
            ("--header", self.form.header),
        ];
        let mut given = given.into_iter();
        given.find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// That the terminal UI, where it is asked for, is all that is asked for.
    pub(super) fn check_drawn(&self) -> anyhow::Result<()> {
        match self.of_text().filter(|_| self.form.tui) {
            Some(option) => Err(usage(format!(
                "{option} is of text, and the terminal UI (--tui) has keys of its own, which ? lists\n  \
                 try: the same without --tui"
            ))),
            None => Ok(()),
        }
    }

    /// Shows it in the terminal UI.
    pub(super) fn draw(&self) -> anyhow::Result<Outcome> {
        let input = self.idle.of(self.clock.of(&self.input));
        let begin = Begin {
            filters: self.typed_filters(),
            ..Begin::default()
        };
        crate::tui::run(&input, &self.names, &self.form.look, begin)
    }

    /// The filters of samples, as they would be typed in the terminal UI.
    fn typed_filters(&self) -> Vec<String> {
        let filters = &self.filters;
        let cpus = filters.cpu.as_ref().map_or(&[][..], |cpus| &cpus.0);
        let lists = [
            ("comm", filters.comms.join(",")),
            ("dso", filters.dsos.join(",")),
            ("symbol", filters.symbols.join(",")),
            ("pid", joined(&filters.pid)),
            ("tid", joined(&filters.tid)),
            ("cpu", joined(cpus)),
            ("time", filters.time.clone().unwrap_or_default()),
        ];
        let given = lists.into_iter().filter(|(_, values)| !values.is_empty());
        given
            .map(|(key, values)| format!("{key}={values}"))
            .collect()
    }
}

fn joined(numbers: &[impl ToString]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}
