//! Samples whose user call chains come later.

use std::collections::HashMap;

/// Samples whose chain comes later, by thread: of each its place among all and its
/// text.
type Waiting = HashMap<i32, Vec<(u64, Vec<u8>)>>;

/// What was printed of samples whose user call chains come later. As perf's, they come
/// out with the next chain of their thread, of whichever samples that is, so that
/// what is before is whole.
pub(super) struct LateChains {
    /// `None` if nothing waits.
    waiting: Option<Waiting>,
    count: u64,
}

impl LateChains {
    pub(super) fn new(waits: bool) -> Self {
        Self {
            waiting: waits.then(HashMap::new),
            count: 0,
        }
    }

    /// Takes away what was printed of a sample.
    pub(super) fn wait(&mut self, tid: i32, text: &mut Vec<u8>, start: usize) {
        if let Some(waiting) = &mut self.waiting {
            let piece = text.split_off(start.min(text.len()));
            waiting.entry(tid).or_default().push((self.count, piece));
            self.count += 1;
        }
    }

    /// Gives back what waited for a chain of a thread.
    pub(super) fn came(&mut self, tid: i32, text: &mut Vec<u8>) {
        let waiting = self.waiting.as_mut();
        let pieces = waiting.and_then(|waiting| waiting.remove(&tid));
        for (_, piece) in pieces.into_iter().flatten() {
            text.extend(piece);
        }
    }

    /// Gives back what waits still.
    pub(super) fn finish(self, text: &mut Vec<u8>) {
        let left = self.waiting.into_iter().flatten();
        let mut left: Vec<_> = left.flat_map(|(_, pieces)| pieces).collect();
        left.sort_by_key(|&(place, _)| place);
        for (_, piece) in left {
            text.extend(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LateChains;

    #[test]
    fn a_sample_comes_out_with_its_chain_and_what_is_left_in_order() {
        let mut late = LateChains::new(true);
        let mut text = b"before ".to_vec();
        for (tid, sample) in [(7, "a "), (9, "b "), (7, "c "), (3, "d ")] {
            let start = text.len();
            text.extend(sample.bytes());
            late.wait(tid, &mut text, start);
        }
        assert_eq!(text, b"before ");
        late.came(8, &mut text);
        late.came(7, &mut text);
        assert_eq!(text, b"before a c ");
        late.finish(&mut text);
        assert_eq!(text, b"before a c b d ");
    }

    #[test]
    fn nothing_waits_where_chains_stand_apart() {
        let mut late = LateChains::new(false);
        let mut text = b"sample".to_vec();
        late.wait(7, &mut text, 0);
        assert_eq!(text, b"sample");
    }
}
