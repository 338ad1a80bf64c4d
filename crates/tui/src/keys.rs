//! What a key does in a view, and all keys as text.

use super::action::Action;
use super::binding_table::bindings;
use super::bindings::{KeyScope, key_name};
use crossterm::event::KeyEvent;

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
