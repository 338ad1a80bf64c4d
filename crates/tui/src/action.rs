//! What the user can ask for, whatever the key.

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
    /// Time in which threads ran, in which they waited, or both.
    NextClock,
    /// What waits were for, as frames on top of their stacks, or not.
    ToggleStates,
    /// The locks that threads waited for.
    Locks,
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
    /// Keeps only the selected dso.
    ZoomDso,
    /// Keeps only the selected thread.
    ZoomThread,
    /// Keeps only the kernel.
    ZoomKernel,
    /// Keeps only stacks with the selected function.
    Focus,
    /// Drops stacks with the selected function.
    DropFunction,
    /// Folds the selected dso into its callers.
    MergeDso,
    /// Inlined functions as frames of their own, or as part of where they are.
    ToggleInlined,
    /// Shows recursive calls as one.
    CollapseRecursion,
    /// Shares of all, or of what the filters keep.
    TogglePercentage,
    /// Asks for the least share shown.
    PercentLimit,
    /// Column headings on or off.
    ToggleHeaders,
    /// Dsos of chain entries on or off.
    ToggleVerbose,
    /// Where sampling again would find shares, instead of bars.
    ToggleIntervals,
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
