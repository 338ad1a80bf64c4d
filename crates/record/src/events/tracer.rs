//! PMUs that write a trace into an AUX area. No file of sysfs says which do, so
//! they go by their names, as for perf.

/// What writes a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracer {
    /// Intel Processor Trace.
    IntelPt,
    /// Intel's Branch Trace Store.
    IntelBts,
    /// Arm's Statistical Profiling Extension.
    ArmSpe,
    /// HiSilicon's PCIe tune and trace.
    HisiPtt,
    /// Arm CoreSight.
    CoreSight,
}

/// The period of Arm's samples where the driver names no least one: the most
/// that there can be.
const SPE_PERIOD: u64 = 4096;

impl Tracer {
    /// Of a PMU of this name.
    pub(super) fn of(pmu: &str) -> Option<Self> {
        match pmu {
            "intel_pt" => Some(Self::IntelPt),
            "intel_bts" => Some(Self::IntelBts),
            "cs_etm" => Some(Self::CoreSight),
            _ if pmu.starts_with("arm_spe_") => Some(Self::ArmSpe),
            _ if pmu.starts_with("hisi_ptt") => Some(Self::HisiPtt),
            _ => None,
        }
    }

    /// What it is called in perf.data (`PERF_AUXTRACE_*`).
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::IntelPt => 1,
            Self::IntelBts => 2,
            Self::CoreSight => 3,
            Self::ArmSpe => 4,
            Self::HisiPtt => 6,
        }
    }

    /// Whether its data can be told apart by task only where records tell who
    /// runs.
    pub(crate) fn needs_switches(self) -> bool {
        matches!(self, Self::IntelPt | Self::ArmSpe)
    }

    /// The period of its events, given what the driver says is the least.
    pub(super) fn period(self, least: Option<u64>) -> u64 {
        match self {
            Self::ArmSpe => least.unwrap_or(SPE_PERIOD),
            _ => 1,
        }
    }
}

/// The terms of an Intel PT event without any, as perf has them: `file` reads a
/// file of the PMU.
pub(super) fn usual_pt_terms(file: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, u64)> {
    let number = |name, radix| u64::from_str_radix(file(name)?.trim(), radix).ok();
    let usual = |name| {
        let bits = number(name, 16).filter(|&bits| bits > 0)?;
        Some(usual_choice(bits))
    };
    let mut terms = vec![("tsc", 1)];
    let has_mtc = number("caps/mtc", 10).is_none_or(|has| has > 0);
    let mtc = usual("caps/mtc_periods").filter(|_| has_mtc);
    if let Some(period) = mtc {
        terms.extend([("mtc", 1), ("mtc_period", period)]);
    }
    let has_psb = number("caps/psb_cyc", 10).is_none_or(|has| has > 0);
    let psb = usual("caps/psb_periods").filter(|_| has_psb && mtc.is_some());
    terms.extend(psb.map(|period| ("psb_period", period)));
    if file("format/pt").is_some() && file("format/branch").is_some() {
        terms.extend([("pt", 1), ("branch", 1)]);
    }
    terms
}

/// Of the values that a mask allows: 3, or the next smaller one, or the least.
fn usual_choice(mask: u64) -> u64 {
    let up_to_3 = mask & 0xf;
    match up_to_3 {
        0 => mask.trailing_zeros().into(),
        _ => up_to_3.ilog2().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tracer, usual_choice, usual_pt_terms};

    #[test]
    fn tracers_go_by_the_names_of_their_pmus() {
        assert_eq!(Tracer::of("intel_pt"), Some(Tracer::IntelPt));
        assert_eq!(Tracer::of("arm_spe_0"), Some(Tracer::ArmSpe));
        assert_eq!(Tracer::of("hisi_ptt0_5"), Some(Tracer::HisiPtt));
        assert_eq!(Tracer::of("cpu"), None);
    }

    #[test]
    fn an_event_of_intel_pt_has_perfs_terms() {
        assert_eq!(
            [0b1, 0b1001, 0b10111, 0b110000].map(usual_choice),
            [0, 3, 2, 4]
        );
        let file = |name: &str| match name {
            "caps/mtc_periods" => Some("249\n".to_owned()),
            "caps/psb_periods" => Some("3f\n".to_owned()),
            "format/pt" | "format/branch" => Some("config:0\n".to_owned()),
            _ => None,
        };
        let all = [
            ("tsc", 1),
            ("mtc", 1),
            ("mtc_period", 3),
            ("psb_period", 3),
            ("pt", 1),
            ("branch", 1),
        ];
        assert_eq!(usual_pt_terms(file), all);
        assert_eq!(usual_pt_terms(|_| None), [("tsc", 1)]);
    }
}
