// The page: what its controls do.

const by_id = (id) => document.getElementById(id);

class Page {
    constructor(profile) {
        this.profile = profile;
        this.found = null;
        /** What was searched, and what is said of how. */
        this.searched = this.found_as = "";
        this.chosen = -1;
        this.sandwiched = -1;
        /** Makes the last line; anew after filters changed. */
        this.chosen_words = () => [];
        this.work = new Work();
        this.search_work = new Work();
        this.graph_work = new Work();
        this.tree_source = new CallTree(profile);
        this.graph = this.flame("graph");
        this.callers = this.flame("callers");
        this.callees = this.flame("callees");
        this.table = new FunctionTable(by_id("table"), this);
        this.calls = new CallTreeRows(by_id("tree"), this);
        this.timeline = profile.header.time
            ? new Timeline(by_id("time"), profile, (range) => this.refilter({ time: range }))
            : null;
        by_id("time").hidden = !this.timeline;
        this.lanes = profile.header.lanes
            ? new Lanes(by_id("time"), profile, {
                choose: (thread, range, lines) => this.choose_span(thread, range, lines),
                hover: (lines, x, y) => this.tip(lines, x, y),
                tell: (lines) => this.tell_chosen(() => lines),
            })
            : null;
        this.fill_filters();
        this.listen();
        this.callers.grows_up = true;
        this.order = profile.header.show.order;
        by_id("order").value = this.order;
        this.view = "graph";
        this.show_view("graph");
    }

    /** A flame graph in the element with this id. */
    flame(id) {
        return new Flame(by_id(id), this.profile, {
            hover: (box, x, y) => this.hover(id, box, x, y),
            choose: (box) => this.tell(id, box),
            focus: (box) => this.tell(id, box),
            zoomed: () => this.tell_zoom(),
        });
    }

    listen() {
        for (const tab of document.querySelectorAll("[role=tab]")) {
            tab.addEventListener("click", () => this.show_view(tab.dataset.view));
            tab.addEventListener("keydown", (event) => this.tab_key(event, tab));
        }
        by_id("search").addEventListener("input", () => {
            clearTimeout(this.searching);
            this.searching = setTimeout(() => this.search(), 120);
        });
        by_id("search").addEventListener("keydown", (event) => {
            if (event.key === "Escape") {
                by_id("search").value = "";
            }
            if (event.key === "Escape" || (event.key === "Enter" && this.searched !== by_id("search").value)) {
                this.search(() => this.go_to_match(event.shiftKey ? -1 : 1));
            } else if (event.key === "Enter") {
                this.go_to_match(event.shiftKey ? -1 : 1);
            }
        });
        by_id("next").addEventListener("click", () => this.go_to_match(1));
        by_id("previous").addEventListener("click", () => this.go_to_match(-1));
        by_id("thread").addEventListener("change", (event) => this.refilter({ thread: event.target.value }));
        by_id("module").addEventListener("change", (event) => this.refilter({ module: event.target.value }));
        by_id("order").addEventListener("change", (event) => {
            this.order = event.target.value;
            this.refresh();
        });
        by_id("back").addEventListener("click", () => this.graph.back());
        by_id("whole").addEventListener("click", () => this.graph.zoom(this.graph.source.root));
        by_id("to-sandwich").addEventListener("click", () => this.open_sandwich(this.chosen));
        by_id("theme").addEventListener("click", () => this.next_theme());
        for (const button of document.querySelectorAll(".clear")) {
            button.addEventListener("click", () => this.clear_filters());
        }
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
        document.addEventListener("keydown", (event) => this.key(event));
    }

    /** Keys that hold everywhere but where text is written. */
    key(event) {
        const is_text = event.target.matches("input, select, textarea");
        if (is_text || event.ctrlKey || event.altKey || event.metaKey) {
            return;
        }
        const views = ["graph", "table", "tree", "sandwich"];
        if (event.key === "/") {
            by_id("search").focus();
        } else if (views[Number(event.key) - 1]) {
            this.show_view(views[Number(event.key) - 1]);
        } else if (event.key === "n" || event.key === "N") {
            this.go_to_match(event.key === "n" ? 1 : -1);
        } else if (event.key === "s" && this.chosen >= 0) {
            this.open_sandwich(this.chosen);
        } else {
            this.hand_on(event);
            return;
        }
        event.preventDefault();
    }

    /** A key that moves belongs to the view that is open, also where nothing, a
     * tab, or the strip of time, which has no use for it, has the focus. */
    hand_on(event) {
        const is_nothing = event.target === document.body;
        const moves = ["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", "Escape",
            ...is_nothing ? ["ArrowLeft", "ArrowRight", "Enter"] : []];
        const has_use = event.defaultPrevented || !(is_nothing || event.target.matches("[role=tab], #time canvas"));
        if (has_use || !moves.includes(event.key)) {
            return;
        }
        const [element, view] = {
            graph: [this.graph.canvas, this.graph],
            table: [this.table.list.holder, this.table.list],
            tree: [this.calls.list.holder, this.calls.list],
            sandwich: [this.callees.canvas, this.callees],
        }[this.view];
        if (element.clientHeight > 0) {
            element.focus();
            view.key(event);
        }
    }

    tab_key(event, tab) {
        const tabs = [...document.querySelectorAll("[role=tab]")];
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (by !== undefined) {
            const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length];
            next.focus();
            this.show_view(next.dataset.view);
            event.preventDefault();
        }
    }

    show_view(view) {
        by_id("match").textContent = "";
        this.table.is_opened ||= view === "table" && this.view !== view;
        this.view = view;
        for (const tab of document.querySelectorAll("[role=tab]")) {
            const is_it = tab.dataset.view === view;
            tab.setAttribute("aria-selected", String(is_it));
            tab.tabIndex = is_it ? 0 : -1;
            by_id(`view-${tab.dataset.view}`).hidden = !is_it;
        }
        this.refresh();
    }

    /** Shows the view that is open with what is true now. */
    refresh() {
        const is_empty = this.profile.total[ROOT] === 0;
        const { profile } = this;
        by_id("nothing").hidden = !is_empty || profile.is_whole();
        by_id("weightless").hidden = !is_empty || !profile.is_whole();
        by_id("views").hidden = is_empty;
        if (is_empty) {
            return;
        }
        const show = {
            graph: () => this.show_graph(),
            table: () => this.table.refresh(),
            tree: () => this.calls.refresh(),
            sandwich: () => this.show_sandwich(),
        };
        show[this.view]();
    }

    show_graph() {
        this.graph.found = this.found;
        this.graph.grows_up = this.order !== "icicle";
        if (this.order !== "reversed") {
            this.graph_work.stop();
            this.graph.show(this.tree_source);
            this.tell_zoom();
            return;
        }
        this.graph_work.start(reversed(this.profile), (tree) => {
            this.graph.show(tree);
            this.tell_zoom();
        });
    }

    open_sandwich(frame) {
        if (frame >= 0) {
            this.sandwiched = frame;
            this.choose_frame(frame);
            this.show_view("sandwich");
        }
    }

    show_sandwich() {
        const frame = this.sandwiched;
        const name = frame < 0
            ? "Choose a function: in the table, or in a graph and then Callers and callees at the bottom (s)."
            : visible(this.profile.name_of(frame).slice(0, 4096));
        by_id("sandwiched").textContent = name;
        by_id("callers").hidden = by_id("callees").hidden = true;
        if (frame < 0) {
            return;
        }
        this.graph_work.start(sandwich(this.profile, frame), (both) => {
            by_id("callers").hidden = by_id("callees").hidden = both === null;
            if (both === null) {
                by_id("sandwiched").textContent = `${name}: nothing of it passes the filters`;
                return;
            }
            this.callers.found = this.callees.found = this.found;
            this.callers.show(both.callers);
            this.callees.show(both.callees);
        });
    }

    /** Takes part of the filter as given, and counts anew. */
    refilter(part) {
        Object.assign(this.profile.filter, part);
        this.work.start(this.profile.weighed(), () => {
            this.timeline?.draw();
            this.tell_zoom();
            this.tell_found();
            this.tell_chosen(this.chosen_words);
            this.refresh();
        });
    }

    /** Shows the stacks of a thread in a range of slices. */
    choose_span(thread, range, lines) {
        const value = thread === null ? "" : `t:${thread}`;
        const list = by_id("thread");
        if (![...list.options].some((option) => option.value === value)) {
            const name = thread_name(this.profile.header.threads[thread]);
            list.append(make("option", { value }, name));
        }
        list.value = value;
        this.timeline.range = range;
        this.timeline.tell();
        this.refilter({ thread: value, time: range });
        by_id("tip").hidden = true;
        this.tell_chosen(() => lines);
    }

    clear_filters() {
        by_id("thread").value = by_id("module").value = "";
        for (const box of document.querySelectorAll("#kinds input")) {
            box.checked = true;
        }
        const kinds = new Set(this.profile.header.kinds.keys());
        this.profile.filter = { thread: "", module: "", kinds, time: null };
        if (this.timeline) {
            this.timeline.range = null;
            this.timeline.tell();
        }
        this.refilter({});
    }

    /** Threads and modules to choose from, heaviest first; kinds to leave out. */
    fill_filters() {
        const { profile } = this;
        const { threads, modules, kinds } = profile.header;
        const by_thread = profile.sums_by(threads.length, (row) => profile.row_thread[row]);
        const by_name = new Map();
        threads.forEach((thread, index) => {
            const known = by_name.get(thread.name) ?? { sum: 0, count: 0 };
            by_name.set(thread.name, { sum: known.sum + by_thread[index], count: known.count + 1 });
        });
        const named = [...by_name].filter(([, { count }]) => count > 1).sort((a, b) => b[1].sum - a[1].sum);
        for (const [name, { count }] of named.slice(0, MOST_CHOICES)) {
            by_id("thread").append(make("option", { value: `n:${name}` }, `${visible(name)} (${count} threads)`));
        }
        for (const index of heaviest(by_thread)) {
            const name = thread_name(threads[index]);
            by_id("thread").append(make("option", { value: `t:${index}` }, name));
        }
        for (const index of heaviest(profile.sums_by(modules.length, (row) => profile.module_of_row(row)))) {
            by_id("module").append(make("option", { value: String(index) }, visible(modules[index])));
        }
        const used = new Set(profile.kind);
        kinds.forEach((word, kind) => {
            if (kind > 0 && used.has(kind)) {
                by_id("kinds").append(this.kind_box(kind, word));
            }
        });
        this.paint_kinds();
    }

    kind_box(kind, word) {
        const box = make("input", { type: "checkbox" });
        box.checked = true;
        box.addEventListener("change", () => {
            const chosen = new Set(this.profile.filter.kinds);
            if (box.checked) {
                chosen.add(kind);
            } else {
                chosen.delete(kind);
            }
            this.refilter({ kinds: chosen });
        });
        const mark = make("i", { class: "mark", "data-kind": String(kind), "aria-hidden": "true" });
        return make("label", {}, box, mark, word);
    }

    /** Legends have the colours of kinds only where colours mean kinds. */
    paint_kinds() {
        for (const mark of document.querySelectorAll(".mark[data-kind]")) {
            mark.style.backgroundColor = look().of_kind(Number(mark.dataset.kind));
            mark.hidden = this.profile.header.show.colours !== "kind";
        }
    }

    /** Looks for what stands in the field, and then does `then`. */
    search(then = () => {}) {
        clearTimeout(this.searching);
        const text = by_id("search").value;
        const { profile } = this;
        this.searched = text;
        const { pattern, is_text } = pattern_of(text);
        this.found_as = is_text ? "searched as it stands, since it is no regular expression: " : "";
        function* look_for() {
            return text === "" ? null : yield* profile.matching(pattern);
        }
        this.search_work.start(look_for(), (found) => {
            this.found = found;
            this.tell_found();
            this.show_found();
            then();
        });
    }

    /** To the next place that was found in the view that is open, or with -1
     * to the one before. */
    go_to_match(by) {
        if (this.found === null || by_id("views").hidden) {
            return;
        }
        const step = {
            graph: () => step_boxes([this.graph], by),
            table: () => this.table.step(by),
            tree: () => this.calls.step(by),
            sandwich: () => step_boxes([this.callers, this.callees].filter((flame) => !flame.holder.hidden), by),
        };
        const { at, of } = step[this.view]();
        const unseen = this.view === "table" ? "none here" : "none is wide enough here";
        by_id("match").textContent = at < 0 ? unseen : `${grouped.format(at + 1)} of ${grouped.format(of)}`;
    }

    /** How much of all that is shown goes through what was found. */
    tell_found() {
        const { profile, found } = this;
        by_id("matches").hidden = found === null;
        by_id("match").textContent = "";
        if (found === null) {
            by_id("found").textContent = "";
            return;
        }
        this.search_work.start(profile.covered(found), ({ period, samples, functions }) => {
            const { unit } = profile.header.event;
            by_id("found").textContent = `${this.found_as}${several(functions, "function")} found, in ${share(period, profile.total[ROOT])}: `
                + `${weight(period, unit)}, ${samples_of(samples)}`;
        });
    }

    show_found() {
        for (const flame of [this.graph, this.callers, this.callees]) {
            flame.found = this.found;
            flame.draw();
        }
        this.calls.found_changed();
        if (this.view === "table") {
            this.table.refresh();
        }
    }

    /** What a box is: its lines of text. */
    words_of(id, box) {
        const { profile } = this;
        const { source, zoomed } = this[id];
        const { unit } = profile.header.event;
        const whole = profile.total[ROOT];
        if (box.node === HIDDEN) {
            return [`${grouped.format(box.count)} frames too narrow to draw`, `${share(box.weight, whole)} of all: ${weight(box.weight, unit)}`];
        }
        const frame = source.frame(box.node);
        const total = source.total(box.node);
        const lines = [visible(profile.name_of(frame).slice(0, 4096))];
        if (frame >= 0 && profile.kind[frame] !== 0) {
            lines.push(`${visible(profile.module_of(frame))}, ${profile.header.kinds[profile.kind[frame]]}`);
        }
        lines.push(`${share(total, whole)} of all: ${weight(total, unit)}, ${samples_of(source.count(box.node))}`);
        if (source === this.tree_source) {
            lines.push(`${share(profile.own[box.node], whole)} itself: ${weight(profile.own[box.node], unit)}`);
        }
        if (profile.interval(frame, "own") !== "") {
            lines.push(`function's 95 % interval: ${profile.interval(frame, "own")} itself, ${profile.interval(frame, "total")} in all`);
        }
        if (source.total(zoomed) < whole && !box.is_around) {
            lines.push(`${share(total, source.total(zoomed))} of what is zoomed`);
        }
        return lines;
    }

    hover(id, box, x, y) {
        this.tip(box === null ? null : this.words_of(id, box), x, y);
    }

    /** Shows lines of text beside the pointer; none for `null`. */
    tip(lines, x, y) {
        const tip = by_id("tip");
        tip.hidden = lines === null;
        if (lines === null) {
            return;
        }
        tip.replaceChildren(...lines.map((line) => make("div", {}, line)));
        const { width, height } = tip.getBoundingClientRect();
        const left = Math.min(x + 14, innerWidth - width - 6);
        const top = y + 18 + height > innerHeight ? y - height - 10 : y + 18;
        tip.style.left = `${Math.max(left, 4)}px`;
        tip.style.top = `${Math.max(top, 4)}px`;
    }

    /** Says in the last line what was chosen. */
    tell(id, box) {
        by_id("tip").hidden = true;
        const frame = box.node === HIDDEN ? -1 : this[id].source.frame(box.node);
        this.choose_frame(frame);
        const { source } = this[id];
        const name = by_id("chosen").textContent;
        // What a box of another tree than this weighs under other filters is not known.
        this.tell_chosen(() => this[id].source === source && source === this.tree_source ? this.words_of(id, box) : [name],
            this.words_of(id, box));
    }

    /** Shows lines as the last one. */
    tell_chosen(words, lines = words()) {
        this.chosen_words = words;
        by_id("chosen").textContent = by_id("chosen").title = lines.join(" · ");
    }

    choose_frame(frame) {
        const is_function = frame >= 0 && this.profile.kind[frame] !== 0;
        this.chosen = is_function ? frame : -1;
        by_id("to-sandwich").hidden = !is_function;
        const lines = is_function ? [visible(this.profile.name_of(frame).slice(0, 4096))] : [];
        this.tell_chosen(() => lines);
    }

    tell_zoom() {
        by_id("back").disabled = this.graph.history.length === 0;
        by_id("whole").disabled = this.graph.source === undefined || this.graph.zoomed === this.graph.source.root;
        const { profile } = this;
        const whole = profile.total[ROOT];
        const { unit } = profile.header.event;
        by_id("sum").textContent = `${weight(whole, unit)}, ${samples_of(profile.count[ROOT])} shown`;
        // What was chosen has another share of what is zoomed now.
        this.tell_chosen(this.chosen_words);
    }

    /** As the system has it, light, dark. */
    next_theme() {
        const { dataset } = document.documentElement;
        const themes = ["auto", "light", "dark"];
        dataset.theme = themes[(themes.indexOf(dataset.theme ?? "auto") + 1) % themes.length];
        by_id("theme").textContent = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" }[dataset.theme];
        this.repaint();
    }

    repaint() {
        forget_look();
        this.paint_kinds();
        this.timeline?.draw();
        this.lanes?.draw();
        this.refresh();
    }
}

/** Choices in one list, at most. */
const MOST_CHOICES = 300;

/** The indices of the largest sums, largest first. */
function heaviest(sums) {
    const some = [...sums.keys()].filter((index) => sums[index] > 0);
    return some.sort((a, b) => sums[b] - sums[a]).slice(0, MOST_CHOICES);
}

read_profile("profile").then((profile) => {
    window.profile_page = new Page(profile);
    document.body.dataset.state = "ready";
}, (error) => {
    by_id("nothing").hidden = false;
    by_id("nothing").textContent = `The data of this page cannot be read: ${error.message}. It needs a browser of 2023 or later.`;
    document.body.dataset.state = "broken";
});
