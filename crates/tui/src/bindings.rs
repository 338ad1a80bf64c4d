//! What keys do: one table that the session obeys, the help shows, the
//! command palette lists and the manual prints.

use super::action::Action;
use super::binding_table::bindings;
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

/// What a key does in a scope.
pub(super) fn lookup(key: &KeyEvent, scope: KeyScope) -> Option<Action> {
    let name = key_name(key)?;
    let find = |scope: KeyScope| {
        bindings().find(|binding| binding.scope == scope && binding.keys.contains(&name.as_str()))
    };
    find(scope)
        .or_else(|| find(KeyScope::Everywhere))
        .map(|binding| binding.action)
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

/// The bindings as a section of the manual, in plain text lines.
pub fn manual() -> String {
    let mut text = String::new();
    for scope in KeyScope::ALL {
        text.push_str(&format!("{}:\n", scope.title()));
        for binding in bindings().filter(|binding| binding.scope == scope) {
            let keys = binding.keys.join(", ");
            text.push_str(&format!("  {keys:<18} {}\n", binding.help));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Action, KeyScope, bindings, lookup};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use std::collections::BTreeSet;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn no_key_is_bound_twice_in_a_scope() {
        let mut seen = BTreeSet::new();
        for binding in bindings() {
            for name in binding.keys {
                assert!(
                    seen.insert((binding.scope.title(), name)),
                    "{name} is bound twice"
                );
            }
        }
    }

    #[test]
    fn a_view_may_bind_a_key_anew() {
        let s = key(KeyCode::Char('s'));
        assert_eq!(lookup(&s, KeyScope::Tree), Some(Action::Focus));
        assert_eq!(lookup(&s, KeyScope::Code), Some(Action::ToggleSource));
    }

    #[test]
    fn the_keys_of_vi_mean_the_same_everywhere_as_the_arrows() {
        let keys = [
            ('h', KeyCode::Left),
            ('j', KeyCode::Down),
            ('k', KeyCode::Up),
            ('l', KeyCode::Right),
        ];
        for scope in KeyScope::ALL {
            for (letter, arrow) in keys {
                let of_letter = lookup(&key(KeyCode::Char(letter)), scope);
                assert_eq!(of_letter, lookup(&key(arrow), scope), "{letter}");
                assert!(of_letter.is_some());
            }
        }
    }

    #[test]
    fn the_keys_of_perf_keep_their_meaning() {
        let expected = [
            ('?', Action::Help),
            ('a', Action::Annotate),
            ('d', Action::ZoomDso),
            ('t', Action::ZoomThread),
            ('+', Action::Toggle),
            ('E', Action::ExpandAll),
            ('C', Action::CollapseAll),
            ('e', Action::ToggleDeep),
            ('F', Action::TogglePercentage),
            ('H', Action::ToggleHeaders),
            ('L', Action::PercentLimit),
            ('P', Action::Print),
            ('V', Action::ToggleVerbose),
            ('i', Action::Info),
            ('m', Action::Menu),
            ('q', Action::Quit),
            ('/', Action::Search),
        ];
        for (letter, action) in expected {
            assert_eq!(
                lookup(&key(KeyCode::Char(letter)), KeyScope::Tree),
                Some(action),
                "{letter}"
            );
        }
        assert_eq!(
            lookup(&key(KeyCode::Tab), KeyScope::Tree),
            Some(Action::NextEvent)
        );
        let quit = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(lookup(&quit, KeyScope::Code), Some(Action::QuitNow));
    }
}
