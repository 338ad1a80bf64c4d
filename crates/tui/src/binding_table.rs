//! The table of bindings.

use super::action::Action;
use super::bindings::{Binding, KeyScope};
use super::views::ALL;
use Action as A;
use KeyScope::{Code, Everywhere, Flame, Timeline, Tree};

const fn bind(
    scope: KeyScope,
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

/// Every binding. A narrower scope wins over [`KeyScope::Everywhere`].
pub fn bindings() -> impl Iterator<Item = &'static Binding> + Clone {
    FIRST.iter().chain(&TABS).chain(OTHERS)
}

/// The number of each tab shows it.
static TABS: [Binding; ALL.len()] = {
    const DIGITS: [&[&str]; 9] = [
        &["1"],
        &["2"],
        &["3"],
        &["4"],
        &["5"],
        &["6"],
        &["7"],
        &["8"],
        &["9"],
    ];
    let mut bindings = [bind(Everywhere, &[], A::View(0), "", ""); ALL.len()];
    let mut at = 0;
    while at < ALL.len() {
        let about = ALL[at].0;
        let show = A::View(at as u8);
        bindings[at] = bind(Everywhere, DIGITS[at], show, about.command, about.help);
        at += 1;
    }
    bindings
};

/// Those before the keys of the tabs.
static FIRST: &[Binding] = &[
    bind(
        Everywhere,
        &["?", "F1"],
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
        "Close what is on top, end the search, zoom out, go back, undo a filter",
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
];

/// Those behind the keys of the tabs.
static OTHERS: &[Binding] = &[
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
        &["W"],
        A::NextClock,
        "next clock",
        "Of a recording with waits: CPU time, waits, both as one, each event by itself",
    ),
    bind(
        Everywhere,
        &["B"],
        A::ToggleStates,
        "states of waits",
        "What waits were for (blocked: futex) as frames on top of their stacks",
    ),
    bind(
        Everywhere,
        &["X"],
        A::Locks,
        "locks",
        "The locks that threads waited for, for how long and where",
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
        A::ZoomDso,
        "zoom dso",
        "Only the selected dso, or all again",
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
        &["K"],
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
        A::MergeDso,
        "merge dso",
        "Count the selected dso's frames for their callers",
    ),
    bind(
        Everywhere,
        &["b"],
        A::ToggleInlined,
        "inlined",
        "Inlined functions as frames of their own, or not",
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
    bind(Everywhere, &["Up", "k"], A::Up, "up", "One up"),
    bind(Everywhere, &["Down", "j"], A::Down, "down", "One down"),
    bind(
        Everywhere,
        &["Left", "h"],
        A::Left,
        "left",
        "Close the row or go to its parent; go left",
    ),
    bind(
        Everywhere,
        &["Right", "l"],
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
        Everywhere,
        &["S"],
        A::ToggleIntervals,
        "intervals",
        "Hotspots: 95 % intervals of Self in the place of bars, on or off",
    ),
    bind(
        Tree,
        &["V"],
        A::ToggleVerbose,
        "verbose",
        "Hotspots: dsos of the rows of chains, on or off",
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
        &["Enter", "Right", "l"],
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
        &["Space"],
        A::Mark,
        "mark",
        "Begin a range, then end it: every view shows only that time",
    ),
    bind(
        Timeline,
        &["Enter"],
        A::Enter,
        "show span",
        "Show the stacks of what the thread does there; without lanes, as Space",
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
    bind(
        Timeline,
        &["o"],
        A::NextOrder,
        "rows",
        "Lanes of threads, or samples by CPU, process or thread",
    ),
];
