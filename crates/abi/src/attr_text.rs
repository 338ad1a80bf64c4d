//! The fields of a `perf_event_attr` that are set, by the names and in the
//! order in which `perf evlist -v` and `perf record -vv` show them.

use crate::{AttrFlags, BranchSampleType, EventAttr, ReadFormat, SampleType};

impl EventAttr {
    /// Name and value of each field that is not 0; the values in perf's form.
    pub fn set_fields(&self) -> Vec<(String, String)> {
        let number = |name, value: u64| (name, value, value.to_string());
        let hex = |name, value: u64| (name, value, format!("{value:#x}"));
        let mut all = vec![
            number("type", self.kind.into()),
            number("size", self.size.into()),
            hex("config", self.config),
            number("{ sample_period, sample_freq }", self.sample_period),
            ("sample_type", self.sample_type.0, self.sample_type_text()),
            ("read_format", self.read_format.0, self.read_format_text()),
        ];
        all.extend(single_flags(self));
        all.extend([
            number("{ wakeup_events, wakeup_watermark }", self.wakeup.into()),
            number("bp_type", self.bp_type.into()),
            hex("{ bp_addr, config1 }", self.config1),
            hex("{ bp_len, config2 }", self.config2),
            (
                "branch_sample_type",
                self.branch_sample_type.0,
                branch_sample_type(self),
            ),
            hex("sample_regs_user", self.sample_regs_user),
            number("sample_stack_user", self.sample_stack_user.into()),
            (
                "clockid",
                u64::from(self.clockid != 0),
                self.clockid.to_string(),
            ),
            hex("sample_regs_intr", self.sample_regs_intr),
            number("aux_watermark", self.aux_watermark.into()),
            number("sample_max_stack", self.sample_max_stack.into()),
            number("aux_sample_size", self.aux_sample_size.into()),
            number("sig_data", self.sig_data),
        ]);
        let set = all.into_iter().filter(|(_, value, _)| *value != 0);
        set.map(|(name, _, text)| (name.to_lowercase(), text))
            .collect()
    }

    /// `IP|TID|TIME`, in perf's order: by bit, but for two that it names late.
    pub fn sample_type_text(&self) -> String {
        let place = |bit: SampleType| match bit {
            SampleType::DATA_SRC => (SampleType::REGS_INTR, 1),
            SampleType::WEIGHT => (SampleType::REGS_INTR, 2),
            bit => (bit, 0),
        };
        let mut names = SampleType::NAMES.to_vec();
        names.sort_by_key(|&(bit, _)| place(bit));
        let names = names.into_iter().map(|(bit, name)| (bit.0, name));
        named_bits(names, self.sample_type.0)
    }

    /// `ID|LOST`, by bit.
    pub fn read_format_text(&self) -> String {
        let names = ReadFormat::NAMES.iter().map(|(bit, name)| (bit.0, *name));
        named_bits(names, self.read_format.0)
    }
}

/// Each flag by its name, in the order of the bits; the two of `precise_ip`
/// are one number.
fn single_flags(attr: &EventAttr) -> Vec<(&'static str, u64, String)> {
    let mut all = Vec::new();
    for &(flag, name) in AttrFlags::NAMES {
        let precise: u64 = attr.precise_ip().into();
        all.push(match flag {
            AttrFlags::PRECISE_LOW => ("precise_ip", precise, precise.to_string()),
            AttrFlags::PRECISE_HIGH => continue,
            flag => (name, u64::from(attr.flags.has(flag)), "1".to_owned()),
        });
    }
    all
}

fn branch_sample_type(attr: &EventAttr) -> String {
    let names = BranchSampleType::NAMES
        .iter()
        .map(|(bit, name)| (bit.0, *name));
    named_bits(names, attr.branch_sample_type.0)
}

/// Bits without a name as `bit25`.
fn named_bits(names: impl Iterator<Item = (u64, &'static str)>, set: u64) -> String {
    let mut left = set;
    let mut parts = Vec::new();
    for (bit, name) in names {
        if set & bit != 0 {
            parts.push(name.to_owned());
            left &= !bit;
        }
    }
    parts.extend(
        (0..64)
            .filter(|bit| left >> bit & 1 != 0)
            .map(|bit| format!("bit{bit}")),
    );
    parts.join("|")
}

#[cfg(test)]
mod tests {
    use crate::{AttrFlags, EventAttr, SampleType};

    #[test]
    fn what_is_set_has_perfs_names() {
        let attr = EventAttr {
            kind: 1,
            sample_period: 4000,
            sample_type: SampleType::IP | SampleType::DATA_SRC | SampleType::IDENTIFIER,
            flags: AttrFlags::FREQ | AttrFlags::PRECISE_HIGH,
            ..EventAttr::default()
        };
        let fields = attr.set_fields();
        let text: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let expected = [
            "type=1",
            "{ sample_period, sample_freq }=4000",
            "sample_type=IP|IDENTIFIER|DATA_SRC",
            "freq=1",
            "precise_ip=2",
        ];
        assert_eq!(text, expected);
    }
}
