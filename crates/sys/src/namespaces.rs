//! User namespaces: whose numbers of users are not those of the machine.
//!
//! Source: user_namespaces(7).

use std::fs;

/// Whether user ids of this `/proc/PID/uid_map` are not those of the whole
/// machine, which map all 2^32 - 1 onto themselves. `false` if it is empty.
pub fn maps_users(uid_map: &str) -> bool {
    let fields: Vec<&str> = uid_map.split_ascii_whitespace().collect();
    !fields.is_empty() && fields != ["0", "0", "4294967295"]
}

/// Whether this process's namespace has a user of this number; `true` where that
/// cannot be read.
pub fn has_user(uid: u32) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map");
    map.map_or(true, |map| map.is_empty() || is_in(&map, uid))
}

/// Lines of first inside, first outside, and how many.
fn is_in(map: &str, uid: u32) -> bool {
    let mut lines = map.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (fields.next()?.ok()?, fields.next(), fields.next()?.ok()?);
        Some((first, count))
    });
    lines.any(|(first, count)| uid.checked_sub(first).is_some_and(|it| it < count))
}

#[cfg(test)]
mod tests {
    use super::{is_in, maps_users};

    #[test]
    fn users_are_those_of_the_map() {
        let whole = "         0          0 4294967295\n";
        let one = "         0       1000          1\n";
        let two = "0 1000 1\n1 100000 65536\n";
        assert!(!maps_users(whole) && !maps_users(""));
        assert!(maps_users(one) && maps_users(two));
        assert!(is_in(whole, 65534) && is_in(one, 0) && is_in(two, 65534));
        assert!(!is_in(one, 1) && !is_in(two, 65537) && !is_in("", 0));
    }
}
