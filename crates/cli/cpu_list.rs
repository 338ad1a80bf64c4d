//! Lists of CPUs, as options take them.

use crate::outcome::UsageError;
use prof_profile::Profile;
use prof_record::cpu_list::parse_cpu_list;

/// CPU numbers, ascending; a type of its own, since clap takes a `Vec` for many
/// values.
#[derive(Debug, Clone)]
pub(crate) struct CpuList(pub(crate) Vec<u32>);

/// `0,2-3` as numbers.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn cpus(text: &str) -> Result<CpuList, String> {
    parse_cpu_list(text)
        .map(CpuList)
        .ok_or_else(|| "not numbers and ranges such as 0-3,8".to_owned())
}

/// That samples tell their CPUs, where `-C` is given.
///
/// # Errors
/// If none does.
pub(crate) fn check_cpus(profile: &Profile, is_given: bool) -> anyhow::Result<()> {
    let mut samples = profile.samples.iter();
    let tells_none = !profile.samples.is_empty() && samples.all(|sample| sample.cpu.is_none());
    match is_given && tells_none {
        true => Err(UsageError(
            "-C: these samples do not tell their CPU; record with --sample-cpu or -a".into(),
        )
        .into()),
        false => Ok(()),
    }
}
