// The call tree as rows that open and close.

/** Smaller shares of what calls them are one row, percent. */
const SMALL = 0.1;
/** Rows that are shown of one caller, however small, at least. */
const SOME = 50;

class CallTreeRows {
    constructor(holder, page) {
        this.page = page;
        this.rows = [];
        /** Where the search found something; made when it is gone to. */
        this.matches = null;
        const head = make("div", { class: "row head", role: "row" });
        for (const [key, word] of [["total", "Total"], ["own", "Self"], ["count", "Samples"], ["name", "Function"]]) {
            this.heading = make("span", { role: "columnheader", class: `cell ${key} ${key === "name" ? "" : "number"}` }, word);
            head.append(this.heading);
        }
        const body = make("div", { id: "calls", class: "scroll", role: "treegrid", "aria-label": "Call tree" });
        holder.append(head, body);
        this.list = new RowList(body, "row", {
            fill: (row, index) => this.fill(row, this.rows[index]),
            choose: (index) => this.toggle(index),
            moved: (index) => page.choose_frame(this.rows[index].node > ROOT ? page.profile.frame[this.rows[index].node] : -1),
            key: (event, index) => this.key(event.key, index),
        });
    }

    /** Begins anew with what is hottest open. */
    refresh() {
        this.rows = [];
        this.rows.push({ node: ROOT, level: 0, is_open: false });
        for (let at = 0; at < this.rows.length && this.rows.length < 60; ) {
            const { node } = this.rows[at];
            this.open(at);
            const heaviest = this.rows[at + 1];
            const { profile } = this.page;
            const goes_on = heaviest && heaviest.node !== HIDDEN && this.rows[at].is_open
                && profile.total[heaviest.node] > 0.5 * profile.total[node];
            if (!goes_on) {
                break;
            }
            at++;
        }
        this.list.at = 0;
        this.matches = null;
        this.name_room = room_for_names(this.heading);
        this.list.show(this.rows.length);
    }

    found_changed() {
        this.matches = null;
        this.list.draw();
    }

    /** To the next row that is found, or the one before. */
    step(by) {
        this.matches ??= new TreeMatches(this);
        return this.matches.step(by);
    }

    has_callees(node) {
        return node !== HIDDEN && this.page.profile.has_children(node);
    }

    open(index) {
        const row = this.rows[index];
        const { profile } = this.page;
        if (!row || row.is_open || row.node === HIDDEN) {
            return;
        }
        const least = profile.total[row.node] * SMALL / 100;
        const level = row.level + 1;
        const shown = [];
        const rest = { node: HIDDEN, level, total: 0, count: 0, nodes: 0 };
        for (const node of profile.children(row.node)) {
            if (profile.total[node] >= least || shown.length < SOME) {
                shown.push({ node, level, is_open: false });
            } else {
                rest.nodes++;
                rest.total += profile.total[node];
                rest.count += profile.count[node];
            }
        }
        shown.sort((a, b) => profile.total[b.node] - profile.total[a.node]);
        row.is_open = shown.length > 0;
        this.rows.splice(index + 1, 0, ...shown, ...(rest.nodes > 0 ? [rest] : []));
    }

    close(index) {
        const row = this.rows[index];
        let after = index + 1;
        while (after < this.rows.length && this.rows[after].level > row.level) {
            after++;
        }
        this.rows.splice(index + 1, after - index - 1);
        row.is_open = false;
    }

    toggle(index) {
        if (this.rows[index].is_open) {
            this.close(index);
        } else {
            this.open(index);
        }
        this.list.show(this.rows.length);
    }

    /** Right opens, or goes to the callees; left closes, or goes to the caller. */
    key(key, index) {
        const row = this.rows[index];
        if (key === "ArrowRight") {
            if (row.is_open) {
                this.list.move(index + 1);
            } else {
                this.toggle(index);
            }
        } else if (key === "ArrowLeft") {
            if (row.is_open) {
                this.toggle(index);
            } else {
                let outer = index;
                while (outer > 0 && this.rows[outer].level >= row.level) {
                    outer--;
                }
                this.list.move(outer);
            }
        } else if (key === "s" && row.node > ROOT) {
            this.page.open_sandwich(this.page.profile.frame[row.node]);
        } else {
            return false;
        }
        return true;
    }

    fill(element, row) {
        const { profile } = this.page;
        const whole = profile.total[ROOT];
        const { unit } = profile.header.event;
        const is_hidden = row.node === HIDDEN;
        const { found } = this.page;
        element.classList.toggle("found", !is_hidden && row.node > ROOT && found !== null && found[profile.frame[row.node]] === 1);
        const [total, own, count] = is_hidden
            ? [row.total, 0, row.count]
            : [profile.total[row.node], profile.own[row.node], profile.count[row.node]];
        let name;
        if (is_hidden) {
            name = make("span", { role: "gridcell", class: "cell name quiet" }, `${grouped.format(row.nodes)} smaller`);
            element.removeAttribute("aria-expanded");
        } else {
            const twist_and_step = 16 + 12 * Math.min(row.level, 60);
            name = name_cell(profile, profile.frame[row.node], this.name_room - twist_and_step);
            const opens = this.has_callees(row.node);
            name.prepend(make("span", { class: "twist", "aria-hidden": "true" }, opens ? (row.is_open ? "▾" : "▸") : ""));
            if (opens) {
                element.setAttribute("aria-expanded", String(row.is_open));
            } else {
                element.removeAttribute("aria-expanded");
            }
        }
        name.style.paddingLeft = `${8 + 12 * Math.min(row.level, 60)}px`;
        element.setAttribute("aria-level", String(row.level + 1));
        element.replaceChildren(
            bar_cell("total", total, whole, unit),
            bar_cell("own", own, whole, unit),
            make("span", { role: "gridcell", class: "cell count number" }, grouped.format(count)),
            name,
        );
    }
}
