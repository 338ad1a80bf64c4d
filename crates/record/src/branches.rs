//! Which branches to record (`-j`, `branch_type=`).

use prof_abi::BranchSampleType;

/// The filters by perf's names.
///
/// Source: perf-record(1), `-j`.
const FILTERS: [(&str, BranchSampleType); 20] = [
    ("any", BranchSampleType::ANY),
    ("any_call", BranchSampleType::ANY_CALL),
    ("any_ret", BranchSampleType::ANY_RETURN),
    ("ind_call", BranchSampleType::IND_CALL),
    ("ind_jmp", BranchSampleType::IND_JUMP),
    ("call", BranchSampleType::CALL),
    ("cond", BranchSampleType::COND),
    ("stack", BranchSampleType::CALL_STACK),
    ("abort_tx", BranchSampleType::ABORT_TX),
    ("in_tx", BranchSampleType::IN_TX),
    ("no_tx", BranchSampleType::NO_TX),
    ("save_type", BranchSampleType::TYPE_SAVE),
    ("priv", BranchSampleType::PRIV_SAVE),
    ("counter", BranchSampleType::COUNTERS),
    ("hw_index", BranchSampleType::HW_INDEX),
    ("no_flags", BranchSampleType::NO_FLAGS),
    ("no_cycles", BranchSampleType::NO_CYCLES),
    ("u", BranchSampleType::USER),
    ("k", BranchSampleType::KERNEL),
    ("hv", BranchSampleType::HV),
];

/// The modes of the CPU, which alone say nothing of the kind of branch.
const MODES: BranchSampleType = BranchSampleType(
    BranchSampleType::USER.0 | BranchSampleType::KERNEL.0 | BranchSampleType::HV.0,
);

/// The filters of a list such as `any_call,u`; of modes alone, all branches
/// there. Fails with the name that is none.
pub fn parse_branches(text: &str) -> Result<BranchSampleType, String> {
    let mut all = BranchSampleType::default();
    for name in text.split(',').map(str::trim) {
        let known = FILTERS.iter().find(|(known, _)| *known == name);
        let (_, filter) = known.ok_or_else(|| name.to_owned())?;
        all = all.with(*filter);
    }
    if all.without(MODES).0 == 0 {
        all = all.with(BranchSampleType::ANY);
    }
    Ok(all)
}

/// The names of the filters, for a message.
pub fn branch_filters() -> String {
    FILTERS.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::parse_branches;
    use prof_abi::BranchSampleType;

    /// covers unit: BR-01, BR-02, BR-03, BR-04, BR-06, BR-07, BR-08
    #[test]
    fn filters_add_up_and_modes_alone_mean_all_branches() {
        let filter = |text| parse_branches(text).expect(text);
        assert_eq!(filter("u,k"), filter("any,k,u"));
        assert_eq!(
            filter("hv"),
            BranchSampleType::HV.with(BranchSampleType::ANY)
        );
        let kinds = "any_call,any_ret,ind_call,ind_jmp,call,cond,abort_tx,in_tx,no_tx";
        assert_eq!(filter(kinds).0, 0b11_0111_1111_0000);
        assert_eq!(
            filter("stack,no_flags,no_cycles").0,
            1 << 11 | 1 << 14 | 1 << 15
        );
        assert_eq!(
            filter("any,save_type,hw_index,priv,counter").0,
            1 << 3 | 0b1111 << 16
        );
        assert_eq!(parse_branches("any,bogus"), Err("bogus".to_owned()));
    }
}
