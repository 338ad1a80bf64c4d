//! What keys do: one table that the session obeys, the help shows, the
//! command palette lists and the manual prints.

use super::action::Action;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Where a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// In every view.
    Everywhere,
    /// Where rows open and close.
    Tree,
    /// In the flame graph.
    Flame,
    /// In the view of code.
    Code,
    /// In the timeline.
    Timeline,
}

impl KeyScope {
    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Everywhere => "Everywhere",
            Self::Tree => "Hotspots, call trees, callers",
            Self::Flame => "Flame graph",
            Self::Code => "Source and instructions",
            Self::Timeline => "Timeline",
        }
    }

    /// All scopes in the order of help.
    pub const ALL: [Self; 5] = [
        Self::Everywhere,
        Self::Tree,
        Self::Flame,
        Self::Code,
        Self::Timeline,
    ];
}

/// Keys that do something somewhere.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The keys, as help writes them: `Ctrl-C`, `PgUp`, `a`.
    pub keys: &'static [&'static str],
    /// What they do.
    pub action: Action,
    /// Where.
    pub scope: KeyScope,
    /// Its name as a command, in words.
    pub name: &'static str,
    /// What it does, as a sentence without its full stop.
    pub help: &'static str,
}

/// A key as the table writes it.
pub(super) fn key_name(key: &KeyEvent) -> Option<String> {
    let name = match key.code {
        KeyCode::Char(' ') => "Space".to_string(),
        KeyCode::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return Some(format!("Ctrl-{}", letter.to_ascii_uppercase()));
        }
        KeyCode::Char(letter) if !key.modifiers.contains(KeyModifiers::ALT) => letter.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::Esc => "Esc".into(),
        KeyCode::Enter => "Enter".into(),
        KeyCode::Tab => "Tab".into(),
        KeyCode::BackTab => "Shift-Tab".into(),
        KeyCode::Backspace => "Backspace".into(),
        KeyCode::Up => "Up".into(),
        KeyCode::Down => "Down".into(),
        KeyCode::Left => "Left".into(),
        KeyCode::Right => "Right".into(),
        KeyCode::PageUp => "PgUp".into(),
        KeyCode::PageDown => "PgDn".into(),
        KeyCode::Home => "Home".into(),
        KeyCode::End => "End".into(),
        _ => return None,
    };
    Some(name)
}
