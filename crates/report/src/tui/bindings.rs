//! What keys do: one table that the session obeys, the help shows, the
//! command palette lists and the manual prints.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the user can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Leaves the program, or the screen on top.
    Quit,
    /// Leaves the program from anywhere.
    QuitNow,
    /// Goes back: closes what is on top, else undoes the last zoom or filter.
    Back,
    /// Shows the bindings.
    Help,
    /// Opens the list of commands.
    Palette,
    /// What can be done with the selected row.
    Menu,
    /// Starts a search.
    Search,
    /// Goes to the next match.
    SearchNext,
    /// Goes to the previous match.
    SearchPrevious,
    /// Asks for a filter.
    Filter,
    /// Takes the last change of filters back.
    Undo,
    /// Makes it again.
    Redo,
    /// Removes all filters.
    ClearFilters,
    /// Shows view number n, from 0.
    View(u8),
    /// The next view.
    NextView,
    /// The view before.
    PreviousView,
    /// The next event of the recording.
    NextEvent,
    /// The event before.
    PreviousEvent,
    /// Writes what is shown to a file whose name is asked for.
    Write,
    /// Writes what is shown as text to `perf.hist.N`.
    Print,
    /// Facts about the recording and how far to trust it.
    Info,
    /// Mouse on or off.
    ToggleMouse,
    /// Draws everything again.
    Redraw,
    /// Stops the program until the shell continues it.
    Suspend,
    /// One up.
    Up,
    /// One down.
    Down,
    /// One to the left: closes a row or goes to its parent.
    Left,
    /// One to the right: opens a row or goes to its first child.
    Right,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// The first.
    Home,
    /// The last.
    End,
    /// Opens or closes the row, or zooms into the frame.
    Enter,
    /// Opens or closes the row.
    Toggle,
    /// Opens or closes all below the row.
    ToggleDeep,
    /// Opens everything.
    ExpandAll,
    /// Closes everything.
    CollapseAll,
    /// Orders by the next column.
    NextOrder,
    /// Turns the order around.
    ReverseOrder,
    /// Call tree from the callees up, or flame graph upside down.
    Invert,
    /// Keeps only the selected module.
    ZoomModule,
    /// Keeps only the selected thread.
    ZoomThread,
    /// Keeps only the kernel.
    ZoomKernel,
    /// Keeps only stacks with the selected function.
    Focus,
    /// Drops stacks with the selected function.
    DropFunction,
    /// Folds the selected module into its callers.
    MergeModule,
    /// Shows recursive calls as one.
    CollapseRecursion,
    /// Shares of all, or of what the filters keep.
    TogglePercentage,
    /// Asks for the least share shown.
    PercentLimit,
    /// Column headings on or off.
    ToggleHeaders,
    /// Modules of chain entries on or off.
    ToggleVerbose,
    /// Source and instructions of the selected function.
    Annotate,
    /// Callers and callees of the selected function.
    Callers,
    /// The selected function in the flame graph.
    ShowInFlame,
    /// Opens the editor at the selected line.
    Edit,
    /// The next line with weight, hottest first.
    NextHot,
    /// The line with weight before.
    PreviousHot,
    /// Follows the jump or call.
    FollowJump,
    /// Source lines on or off.
    ToggleSource,
    /// Starts or ends a range of time.
    Mark,
    /// Narrower range of time on the screen.
    ZoomIn,
    /// Wider range of time on the screen.
    ZoomOut,
    /// Copies the selected name to the terminal's clipboard.
    Copy,
}

/// Where a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
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

impl Scope {
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
    pub scope: Scope,
    /// Its name as a command, in words.
    pub name: &'static str,
    /// What it does, as a sentence without its full stop.
    pub help: &'static str,
}

const fn bind(
    scope: Scope,
    keys: &'static [&'static str],
    action: Action,
    name: &'static str,
    help: &'static str,
) -> Binding {
    Binding {
        keys,
        action,
        scope,
        name,
        help,
    }
}

use Action as A;
use Scope::{Code, Everywhere, Flame, Timeline, Tree};

/// Every binding. A narrower scope wins over [`Scope::Everywhere`].
pub const BINDINGS: &[Binding] = &[
    bind(
        Everywhere,
        &["h", "?", "F1"],
        A::Help,
        "help",
        "Show this help; / searches in it",
    ),
    bind(
        Everywhere,
        &["q"],
        A::Quit,
        "quit",
        "Leave what is on top, or the program",
    ),
    bind(
        Everywhere,
        &["Ctrl-C"],
        A::QuitNow,
        "quit now",
        "Leave the program",
    ),
    bind(
        Everywhere,
        &["Esc"],
        A::Back,
        "back",
        "Close what is on top, end the search, zoom out",
    ),
    bind(
        Everywhere,
        &[":"],
        A::Palette,
        "commands",
        "List the commands; type to search them",
    ),
    bind(
        Everywhere,
        &["m"],
        A::Menu,
        "menu",
        "List what can be done with the selected row",
    ),
    bind(
        Everywhere,
        &["1"],
        A::View(0),
        "view hotspots",
        "Functions by their own and total weight",
    ),
    bind(
        Everywhere,
        &["2"],
        A::View(1),
        "view call tree",
        "Calls from the root down, or from the callees up",
    ),
    bind(
        Everywhere,
        &["3"],
        A::View(2),
        "view flame graph",
        "All stacks at a glance",
    ),
    bind(
        Everywhere,
        &["4"],
        A::View(3),
        "view callers",
        "Callers and callees of one function",
    ),
    bind(
        Everywhere,
        &["5"],
        A::View(4),
        "view code",
        "Source and instructions of one function",
    ),
    bind(
        Everywhere,
        &["6"],
        A::View(5),
        "view threads",
        "Processes and threads with their share over time",
    ),
    bind(
        Everywhere,
        &["7"],
        A::View(6),
        "view timeline",
        "When and on which CPU the samples fell",
    ),
    bind(
        Everywhere,
        &["]"],
        A::NextView,
        "next view",
        "Go to the next view",
    ),
    bind(
        Everywhere,
        &["["],
        A::PreviousView,
        "previous view",
        "Go to the view before",
    ),
    bind(
        Everywhere,
        &["Tab"],
        A::NextEvent,
        "next event",
        "Switch to the next event",
    ),
    bind(
        Everywhere,
        &["Shift-Tab"],
        A::PreviousEvent,
        "previous event",
        "Switch to the event before",
    ),
    bind(
        Everywhere,
        &["/"],
        A::Search,
        "search",
        "Search a regular expression; capitals in it make case count",
    ),
    bind(
        Everywhere,
        &["n"],
        A::SearchNext,
        "next match",
        "Go to the next match",
    ),
    bind(
        Everywhere,
        &["N"],
        A::SearchPrevious,
        "previous match",
        "Go to the match before",
    ),
    bind(
        Everywhere,
        &["f"],
        A::Filter,
        "filter",
        "Filter: comm=, dso=, symbol=, pid=, tid=, cpu=, time=, or a regular expression",
    ),
    bind(
        Everywhere,
        &["d"],
        A::ZoomModule,
        "zoom module",
        "Only the selected module, or all again",
    ),
    bind(
        Everywhere,
        &["t"],
        A::ZoomThread,
        "zoom thread",
        "Only the selected thread, or all again",
    ),
    bind(
        Everywhere,
        &["k"],
        A::ZoomKernel,
        "zoom kernel",
        "Only the kernel, or all again",
    ),
    bind(
        Everywhere,
        &["s"],
        A::Focus,
        "focus",
        "Only stacks with the selected function, or all again",
    ),
    bind(
        Everywhere,
        &["x"],
        A::DropFunction,
        "drop",
        "Without stacks that have the selected function",
    ),
    bind(
        Everywhere,
        &["M"],
        A::MergeModule,
        "merge module",
        "Count the selected module's frames for their callers",
    ),
    bind(
        Everywhere,
        &["R"],
        A::CollapseRecursion,
        "collapse recursion",
        "Show a function that calls itself once",
    ),
    bind(
        Everywhere,
        &["F"],
        A::TogglePercentage,
        "percentage",
        "Shares of all samples, or of those the filters keep",
    ),
    bind(
        Everywhere,
        &["u"],
        A::Undo,
        "undo",
        "Take the last filter or zoom back",
    ),
    bind(Everywhere, &["Ctrl-R", "U"], A::Redo, "redo", "Do it again"),
    bind(
        Everywhere,
        &["Backspace"],
        A::ClearFilters,
        "clear filters",
        "Remove all filters",
    ),
    bind(
        Everywhere,
        &["a"],
        A::Annotate,
        "annotate",
        "Source and instructions of the selected function",
    ),
    bind(
        Everywhere,
        &["c"],
        A::Callers,
        "callers and callees",
        "Callers and callees of the selected function",
    ),
    bind(
        Everywhere,
        &["g"],
        A::ShowInFlame,
        "flame graph of function",
        "Find the selected function in the flame graph",
    ),
    bind(
        Everywhere,
        &["w"],
        A::Write,
        "write",
        "Write to a file: the view as .txt, its samples as .folded, .svg or .html",
    ),
    bind(
        Everywhere,
        &["P"],
        A::Print,
        "print",
        "Write this view as text to perf.hist.N",
    ),
    bind(
        Everywhere,
        &["i"],
        A::Info,
        "information",
        "The recording and how far to trust it",
    ),
    bind(
        Everywhere,
        &["L"],
        A::PercentLimit,
        "percent limit",
        "Hide rows below a share",
    ),
    bind(
        Everywhere,
        &["H"],
        A::ToggleHeaders,
        "headings",
        "Column headings on or off",
    ),
    bind(
        Everywhere,
        &["y"],
        A::Copy,
        "copy name",
        "Copy the selected name to the clipboard (OSC 52)",
    ),
    bind(
        Everywhere,
        &["F2"],
        A::ToggleMouse,
        "mouse",
        "Give the mouse to the terminal, or take it",
    ),
    bind(
        Everywhere,
        &["Ctrl-L"],
        A::Redraw,
        "redraw",
        "Draw the screen again",
    ),
    bind(
        Everywhere,
        &["Ctrl-Z"],
        A::Suspend,
        "suspend",
        "Go to the shell; fg comes back",
    ),
    bind(Everywhere, &["Up"], A::Up, "up", "One up"),
    bind(Everywhere, &["Down"], A::Down, "down", "One down"),
    bind(
        Everywhere,
        &["Left"],
        A::Left,
        "left",
        "Close the row or go to its parent; go left",
    ),
    bind(
        Everywhere,
        &["Right"],
        A::Right,
        "right",
        "Open the row or go into it; go right",
    ),
    bind(
        Everywhere,
        &["PgUp", "Ctrl-B"],
        A::PageUp,
        "page up",
        "A screen up",
    ),
    bind(
        Everywhere,
        &["PgDn", "Space", "Ctrl-F"],
        A::PageDown,
        "page down",
        "A screen down",
    ),
    bind(Everywhere, &["Home"], A::Home, "first", "To the first row"),
    bind(Everywhere, &["End", "G"], A::End, "last", "To the last row"),
    bind(
        Everywhere,
        &["Enter"],
        A::Enter,
        "enter",
        "Open or close the row; zoom into the frame",
    ),
    bind(
        Tree,
        &["+", "-"],
        A::Toggle,
        "toggle",
        "Open or close one level",
    ),
    bind(
        Tree,
        &["e"],
        A::ToggleDeep,
        "toggle all below",
        "Open or close all below the row",
    ),
    bind(Tree, &["E"], A::ExpandAll, "expand all", "Open everything"),
    bind(
        Tree,
        &["C"],
        A::CollapseAll,
        "collapse all",
        "Close everything",
    ),
    bind(
        Tree,
        &["o"],
        A::NextOrder,
        "order",
        "Order by the next column; or click its heading",
    ),
    bind(
        Tree,
        &["O"],
        A::ReverseOrder,
        "reverse order",
        "Turn the order around",
    ),
    bind(
        Tree,
        &["I"],
        A::Invert,
        "invert",
        "Call tree from the root down, or from the callees up",
    ),
    bind(
        Tree,
        &["V"],
        A::ToggleVerbose,
        "verbose",
        "Modules of chain entries on or off",
    ),
    bind(
        Flame,
        &["h"],
        A::Left,
        "left frame",
        "To the frame on the left",
    ),
    bind(Flame, &["j"], A::Down, "frame below", "To the frame below"),
    bind(Flame, &["k"], A::Up, "frame above", "To the frame above"),
    bind(
        Flame,
        &["l"],
        A::Right,
        "right frame",
        "To the frame on the right",
    ),
    bind(
        Flame,
        &["I", "r"],
        A::Invert,
        "flip",
        "Roots at the top, or at the bottom",
    ),
    bind(
        Code,
        &["e"],
        A::Edit,
        "edit",
        "Open $VISUAL or $EDITOR at the line",
    ),
    bind(
        Code,
        &["Enter", "Right"],
        A::FollowJump,
        "follow",
        "Go where the jump goes; show the called function",
    ),
    bind(
        Code,
        &["Tab"],
        A::NextHot,
        "next hottest",
        "To the next hottest line",
    ),
    bind(
        Code,
        &["Shift-Tab"],
        A::PreviousHot,
        "previous hottest",
        "To the next hotter line",
    ),
    bind(
        Code,
        &["s"],
        A::ToggleSource,
        "source",
        "Source lines on or off",
    ),
    bind(
        Timeline,
        &["Enter", "Space"],
        A::Mark,
        "mark",
        "Begin a range, then end it: every view shows only that time",
    ),
    bind(
        Timeline,
        &["+"],
        A::ZoomIn,
        "zoom in",
        "Less time on the screen",
    ),
    bind(
        Timeline,
        &["-"],
        A::ZoomOut,
        "zoom out",
        "More time on the screen",
    ),
];

/// What a key does in a scope.
pub(super) fn lookup(key: &KeyEvent, scope: Scope) -> Option<Action> {
    let name = key_name(key)?;
    let find = |scope: Scope| {
        BINDINGS
            .iter()
            .find(|binding| binding.scope == scope && binding.keys.contains(&name.as_str()))
    };
    find(scope)
        .or_else(|| find(Scope::Everywhere))
        .map(|binding| binding.action)
}

/// A key as the table writes it.
fn key_name(key: &KeyEvent) -> Option<String> {
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
    for scope in Scope::ALL {
        text.push_str(&format!("{}:\n", scope.title()));
        for binding in BINDINGS.iter().filter(|binding| binding.scope == scope) {
            let keys = binding.keys.join(", ");
            text.push_str(&format!("  {keys:<18} {}\n", binding.help));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Action, BINDINGS, Scope, lookup};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use std::collections::BTreeSet;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn no_key_is_bound_twice_in_a_scope() {
        let mut seen = BTreeSet::new();
        for binding in BINDINGS {
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
        let h = key(KeyCode::Char('h'));
        assert_eq!(lookup(&h, Scope::Tree), Some(Action::Help));
        assert_eq!(lookup(&h, Scope::Flame), Some(Action::Left));
    }

    #[test]
    fn the_keys_of_perf_keep_their_meaning() {
        let expected = [
            ('?', Action::Help),
            ('a', Action::Annotate),
            ('d', Action::ZoomModule),
            ('t', Action::ZoomThread),
            ('k', Action::ZoomKernel),
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
                lookup(&key(KeyCode::Char(letter)), Scope::Tree),
                Some(action),
                "{letter}"
            );
        }
        assert_eq!(
            lookup(&key(KeyCode::Tab), Scope::Tree),
            Some(Action::NextEvent)
        );
        let quit = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(lookup(&quit, Scope::Code), Some(Action::QuitNow));
    }
}
