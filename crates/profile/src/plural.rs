//! Counts in words.

/// A count with its noun: "1 sample", "2 samples".
pub fn several(count: u64, one: &str) -> String {
    format!("{count} {one}{}", plural(count))
}

/// The plural ending for a count: empty for 1, else "s".
pub fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// "was" or "were" for a count.
pub fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

#[cfg(test)]
mod tests {
    use super::{several, were};

    #[test]
    fn one_is_no_plural() {
        let told = [0, 1, 2].map(|count| format!("{} {}", several(count, "wait"), were(count)));
        assert_eq!(told, ["0 waits were", "1 wait was", "2 waits were"]);
    }
}
