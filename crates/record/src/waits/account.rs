//! What became of the waits of a recording.

use prof_profile::{plural, several};

/// Waits by what became of them, and their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitAccount {
    /// Waits that were written.
    pub written: u64,
    /// The time blocked, of those written, ns.
    pub blocked_ns: u64,
    /// The time that threads could have run but had no CPU, ns.
    pub runnable_ns: u64,
    /// The time of which it is not known which of the two it was, ns.
    pub unknown_ns: u64,
    /// The time of those written that have no stack, ns.
    pub without_stack_ns: u64,
    /// That of threads that were preempted, where no samples are taken that would
    /// stand for them, ns.
    pub preempted_ns: u64,
    /// The time of those written during which records were lost, ns.
    pub unsure_ns: u64,
    /// Waits shorter than asked for, which were left out.
    pub short: u64,
    /// Their time, ns.
    pub short_ns: u64,
    /// Waits whose begin or end was lost.
    pub broken: u64,
    /// Short waits chosen at random to have their stack taken; each stands for
    /// others.
    pub chosen: u64,
    /// Short waits that were not chosen: the chosen ones stand for them.
    pub not_chosen: u64,
}

impl WaitAccount {
    /// In one line for the user.
    pub fn line(&self) -> String {
        let all = self.blocked_ns + self.runnable_ns + self.unknown_ns;
        let mut line = format!(
            "{}: {} blocked, {} waiting for a CPU",
            several(self.written, "wait"),
            time(self.blocked_ns),
            time(self.runnable_ns)
        );
        if self.unknown_ns > 0 {
            line.push_str(&format!(", {} not known which", time(self.unknown_ns)));
        }
        let share = 100.0 * self.without_stack_ns as f64 / all.max(1) as f64;
        line.push_str(&format!("; {share:.1} % of it without a stack"));
        let share = 100.0 * self.preempted_ns as f64 / all.max(1) as f64;
        if share >= 0.05 {
            line.push_str(&format!(
                " ({share:.1} % of threads that were preempted, for which --off-cpu has samples of \
                 CPU time and --off-cpu=only has none)"
            ));
        }
        if self.not_chosen > 0 {
            let all = self.chosen + self.not_chosen;
            let times = all as f64 / self.chosen.max(1) as f64;
            line.push_str(&format!(
                "; of {} one in {times:.1} was chosen by chance to have its stack and stand for \
                 the others (--off-cpu-stacks)",
                several(all, "short wait")
            ));
        }
        if self.short > 0 {
            let (count, ns) = (self.short, time(self.short_ns));
            line.push_str(&format!(
                "; {count} shorter one{} left out ({ns} in all)",
                plural(count)
            ));
        }
        if self.unsure_ns > 0 {
            let ns = time(self.unsure_ns);
            line.push_str(&format!("; {ns} unsure, since records were lost meanwhile"));
        }
        if self.broken > 0 {
            line.push_str(&format!("; {} with a lost begin or end", self.broken));
        }
        line
    }
}

/// A time in the unit that fits, three digits.
fn time(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        ..1e3 => return format!("{ns:.0} ns"),
        ..1e6 => (ns / 1e3, "µs"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    match value {
        ..10.0 => format!("{value:.2} {unit}"),
        ..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::WaitAccount;

    #[test]
    fn the_line_says_what_is_missing() {
        let account = WaitAccount {
            written: 1,
            blocked_ns: 1_500_000_000,
            runnable_ns: 25_000_000,
            without_stack_ns: 15_250_000,
            ..WaitAccount::default()
        };
        assert_eq!(
            account.line(),
            "1 wait: 1.50 s blocked, 25.0 ms waiting for a CPU; 1.0 % of it without a stack"
        );
        let account = WaitAccount {
            preempted_ns: 12_200_000,
            ..account
        };
        let line = account.line();
        assert!(
            line.contains("; 1.0 % of it without a stack (0.8 % of threads that were preempted"),
            "{line}"
        );
        let account = WaitAccount {
            written: 20,
            blocked_ns: 1_000,
            chosen: 4,
            not_chosen: 12,
            ..WaitAccount::default()
        };
        assert_eq!(
            account.line(),
            "20 waits: 1.00 µs blocked, 0 ns waiting for a CPU; 0.0 % of it without a stack; of 16 \
             short waits one in 4.0 was chosen by chance to have its stack and stand for the others \
             (--off-cpu-stacks)"
        );
        let account = WaitAccount {
            unknown_ns: 999,
            short: 3,
            short_ns: 150_000,
            unsure_ns: 2_000,
            broken: 1,
            ..WaitAccount::default()
        };
        assert_eq!(
            account.line(),
            "0 waits: 0 ns blocked, 0 ns waiting for a CPU, 999 ns not known which; 0.0 % of it \
             without a stack; 3 shorter ones left out (150 µs in all); 2.00 µs unsure, since \
             records were lost meanwhile; 1 with a lost begin or end"
        );
    }
}
