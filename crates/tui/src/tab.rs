//! What a tab is: a type with its state, what keys do to it, and how it is drawn.
//! What all of them work on is [`Shared`].

use super::action::Action;
use super::bindings::KeyScope;
use super::data::{Answer, Found, GrownTree, Seen};
use super::filters::Remap;
use super::scroll::Scroll;
use super::shared::{Selected, Shared, TabId};
use prof_profile::FunctionId;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// What is known of a tab before there are data.
#[derive(Debug)]
pub(super) struct About {
    /// On its tab.
    pub(super) title: &'static str,
    /// On a narrow tab and in file names.
    pub(super) word: &'static str,
    /// The command that shows it.
    pub(super) command: &'static str,
    /// What that command's help says.
    pub(super) help: &'static str,
    /// Which bindings hold in it.
    pub(super) scope: KeyScope,
    /// What it is about.
    pub(super) subject: Subject,
    /// What shows the selected function in it.
    pub(super) shown_by: Option<Action>,
    /// What to say of keys of its scope that do nothing in it.
    pub(super) idle: &'static [(Action, &'static str)],
}

/// What a tab is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// All samples of the selection.
    Samples,
    /// One function.
    Function,
    /// Processes and threads.
    Threads,
}

/// The data of a selection, as they come.
pub(super) struct Fresh<'a> {
    /// What was seen before.
    pub(super) before: Option<&'a Seen>,
    /// The tree from the callees up; taken by the tab that shows it.
    pub(super) bottom_up: Option<GrownTree>,
}

/// A tab. What it cannot do itself it leaves in [`Shared`]: questions to the
/// worker, effects on the terminal, another tab to be shown.
pub(super) trait Tab {
    /// What is known of it before there are data.
    fn about(&self) -> &'static About;

    /// Another selection is seen.
    fn renew(&mut self, shared: &mut Shared, fresh: &mut Fresh<'_>);

    /// Another profile came: functions have other numbers.
    fn remap(&mut self, _remap: &Remap<'_>) {}

    /// It gets on the screen, or stays there with other data or another size:
    /// asks for what is missing.
    fn shown(&mut self, _shared: &mut Shared) {}

    /// The screen has another size.
    fn resized(&mut self, _shared: &mut Shared) {}

    /// Whether what was asked for is on its way.
    fn is_waiting(&self) -> bool {
        false
    }

    /// The worker answered something; gives back what is for another tab.
    fn take(&mut self, _shared: &mut Shared, answer: Answer) -> Option<Answer> {
        Some(answer)
    }

    /// What the cursor is on.
    fn selected(&self, shared: &Shared) -> Selected;

    /// More about what the cursor is on. Not escaped.
    fn detail(&self, _shared: &Shared) -> Option<String> {
        None
    }

    /// Does what a key or command asks for.
    fn act(&mut self, shared: &mut Shared, action: Action);

    /// Shows a function; `from` is the tab that was shown, if another one.
    fn open(&mut self, _shared: &mut Shared, _function: FunctionId, _from: Option<TabId>) {}

    /// Takes the last step in it back; whether there was one.
    fn back(&mut self, _shared: &mut Shared) -> bool {
        false
    }

    /// A click, in columns and rows of its room.
    fn click(&mut self, shared: &mut Shared, at: Position);

    /// The mouse moved to a column of the screen with its button down.
    fn drag(&mut self, _shared: &mut Shared, _column: u16) {}

    /// The button was let go.
    fn drop_at(&mut self, _shared: &mut Shared) {}

    /// The list that the wheel moves, if that is all it does.
    fn scroll(&mut self) -> Option<&mut Scroll> {
        None
    }

    /// The wheel moved by so many rows where there is no such list.
    fn wheel(&mut self, _shared: &mut Shared, _rows: isize) {}

    /// Moves the cursor to a match; whether there is another one.
    fn find(&mut self, _shared: &mut Shared, _found: &Found, _forwards: bool) -> bool {
        false
    }

    /// Rows of a screen that shows all of it; `None` of a picture, which is
    /// as large as the screen.
    fn written_rows(&self) -> Option<usize>;

    /// Draws it.
    fn draw(&self, shared: &Shared, area: Rect, buffer: &mut Buffer);
}

pub(super) const NO_TURNING: (Action, &str) =
    (Action::Invert, "I turns the call tree around; 2 shows it");

const BY_WEIGHT: &str = "these rows are ordered by weight";

pub(super) const NO_ORDER: (Action, &str) = (Action::NextOrder, BY_WEIGHT);

pub(super) const NO_REVERSE: (Action, &str) = (Action::ReverseOrder, BY_WEIGHT);
