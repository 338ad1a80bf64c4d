//! A cursor in a list longer than the screen.

use crate::action::Action;

/// Where the cursor is and which part is on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Scroll {
    cursor: usize,
    top: usize,
    len: usize,
    /// Rows of the screen when last settled.
    height: usize,
}

impl Scroll {
    /// The row of the cursor.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// The list has `len` rows now.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len;
        self.cursor = self.cursor.min(len.saturating_sub(1));
    }

    /// To a row, or the last.
    pub(super) fn go_to(&mut self, row: usize) {
        self.cursor = row.min(self.len.saturating_sub(1));
    }

    /// To a row that is somewhere else: into the middle of the screen, unless
    /// it is on it.
    pub(super) fn jump_to(&mut self, row: usize) {
        let top = self.top(self.height);
        self.go_to(row);
        if !(top..top + self.height).contains(&self.cursor) {
            self.top = self.cursor.saturating_sub(self.height / 2);
        }
    }

    /// Down by `rows`, or up if negative; stops at the ends.
    pub(super) fn step(&mut self, rows: isize) {
        self.go_to(self.cursor.saturating_add_signed(rows));
    }

    /// A screen of `height` rows on: what follows what is shown, with the last
    /// row shown as its first one and the cursor there. The next screen may
    /// have another height, and still no row is passed over.
    pub(super) fn page_down(&mut self, height: usize) {
        let top = self.top(height);
        if top + height >= self.len {
            return self.go_to(usize::MAX);
        }
        self.top = top + height.max(2) - 1;
        self.go_to(self.top);
    }

    /// A screen of `height` rows back: what comes before what is shown, with
    /// the first row shown as its last one and the cursor there.
    pub(super) fn page_up(&mut self, height: usize) {
        let top = self.top(height);
        if top == 0 {
            return self.go_to(0);
        }
        // As far up as the cursor lets it be.
        self.top = 0;
        self.go_to(if height > 1 { top } else { top - 1 });
    }

    /// Does what `action` asks for on a screen of `height` rows; `false` if it
    /// asks for something else than to move.
    pub(super) fn moves(&mut self, action: Action, height: usize) -> bool {
        match action {
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.page_up(height),
            Action::PageDown => self.page_down(height),
            Action::Home => self.go_to(0),
            Action::End => self.go_to(usize::MAX),
            _ => return false,
        }
        true
    }

    /// Moves the screen, not the cursor, by the wheel; the cursor stays
    /// within the `height` rows shown.
    pub(super) fn wheel(&mut self, rows: isize, height: usize) {
        let last_top = self.len.saturating_sub(height);
        self.top = self.top(height).saturating_add_signed(rows).min(last_top);
        let bottom = self.top + height.saturating_sub(1);
        self.go_to(self.cursor.clamp(self.top, bottom.max(self.top)));
    }

    /// First row on a screen of `height` rows, such that the cursor is on it.
    pub(super) fn top(&self, height: usize) -> usize {
        let lowest = (self.cursor + 1).saturating_sub(height.max(1));
        let last_top = self.len.saturating_sub(height);
        self.top
            .clamp(lowest, self.cursor.max(lowest))
            .min(last_top.max(lowest))
    }

    /// Keeps the screen where it is drawn, for the next step.
    pub(super) fn settle(&mut self, height: usize) {
        self.top = self.top(height);
        self.height = height;
    }
}

#[cfg(test)]
mod tests {
    use super::Scroll;

    #[test]
    fn pages_pass_over_no_row_whatever_their_heights() {
        let mut scroll = Scroll::default();
        scroll.set_len(100);
        let mut below = 0;
        // The detail below the list takes another number of rows each time.
        for height in [20, 17, 19, 12, 20, 20, 1, 2, 3, 20] {
            let top = scroll.top(height);
            assert!(top <= below, "{top} {below}");
            below = top + height;
            scroll.page_down(height);
        }
        scroll.go_to(99);
        let mut above = 100;
        for height in [20, 17, 19, 12, 20, 2, 1, 20, 20] {
            scroll.settle(height);
            let top = scroll.top(height);
            assert!(top + height >= above, "{top} {above}");
            above = top;
            scroll.page_up(height);
        }
        // There and back again.
        scroll.go_to(0);
        scroll.settle(10);
        scroll.page_down(10);
        scroll.settle(8);
        scroll.page_up(8);
        assert_eq!(scroll.top(10), 0);
        scroll.set_len(5);
        scroll.page_down(10);
        assert_eq!(scroll.cursor(), 4);
        scroll.page_up(10);
        assert_eq!(scroll.cursor(), 0);
    }

    #[test]
    fn the_cursor_is_always_on_the_screen() {
        let mut scroll = Scroll::default();
        scroll.set_len(100);
        scroll.step(12);
        assert_eq!(scroll.top(10), 3);
        scroll.settle(10);
        scroll.step(-5);
        assert_eq!(scroll.top(10), 3);
        scroll.step(-5);
        assert_eq!(scroll.top(10), 2);
        scroll.go_to(1000);
        assert_eq!((scroll.cursor(), scroll.top(10)), (99, 90));
        scroll.set_len(5);
        assert_eq!((scroll.cursor(), scroll.top(10)), (4, 0));
    }

    #[test]
    fn a_jump_ends_in_the_middle_unless_it_is_short() {
        let mut scroll = Scroll::default();
        scroll.set_len(100);
        scroll.settle(10);
        scroll.jump_to(50);
        assert_eq!(scroll.top(10), 45);
        scroll.jump_to(54);
        assert_eq!(scroll.top(10), 45);
        scroll.jump_to(99);
        assert_eq!(scroll.top(10), 90);
        scroll.jump_to(1);
        assert_eq!(scroll.top(10), 0);
    }

    #[test]
    fn the_wheel_takes_the_cursor_along_at_the_edge() {
        let mut scroll = Scroll::default();
        scroll.set_len(100);
        scroll.wheel(3, 10);
        assert_eq!((scroll.cursor(), scroll.top(10)), (3, 3));
        scroll.wheel(-50, 10);
        assert_eq!((scroll.cursor(), scroll.top(10)), (3, 0));
        scroll.wheel(500, 10);
        assert_eq!(scroll.top(10), 90);
    }
}
