//! Lists of CPUs, as sysfs and users write them.

/// The CPUs of a list such as `0-3,8`; `None` if it is not one.
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    const MOST: u32 = 1 << 20;
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::parse_cpu_list;

    #[test]
    fn cpu_lists_are_ranges_and_numbers() {
        assert_eq!(parse_cpu_list("3,0-1,1"), Some(vec![0, 1, 3]));
        for wrong in ["", "1-0", "a", "1,,2", "0-99999999"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
        }
    }
}
