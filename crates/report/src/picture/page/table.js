// The table of functions: sorted by a column, those that the search finds.

class FunctionTable {
    constructor(holder, page) {
        this.holder = holder;
        this.page = page;
        this.by = "own";
        this.is_opened = false;
        this.down = true;
        const columns = [["own", "Self", "number"], ["total", "Total", "number"], ["count", "Samples", "number"], ["name", "Function", ""], ["module", "Dso", ""]];
        this.heads = new Map();
        const head = make("div", { class: "row head", role: "row" });
        for (const [key, word, kind] of columns) {
            if (key === "total" || key === "count") {
                head.append(make("span", { role: "columnheader", class: "cell interval number" }, "95 %"));
            }
            const button = make("button", { type: "button" }, word);
            const cell = make("span", { role: "columnheader", class: `cell ${key} ${kind}` }, button);
            button.addEventListener("click", () => this.sort_by(key));
            this.heads.set(key, cell);
            head.append(cell);
        }
        const body = make("div", { id: "functions", class: "scroll", role: "grid", "aria-label": "Functions" });
        holder.append(head, body);
        this.list = new RowList(body, "row", {
            fill: (row, index) => this.fill(row, this.order[index]),
            choose: (index) => page.open_sandwich(this.order[index]),
            moved: (index) => page.choose_frame(this.order[index]),
        });
        this.work = new Work();
    }

    sort_by(key) {
        this.down = key === this.by ? !this.down : key !== "name" && key !== "module";
        this.by = key;
        this.sort();
        this.list.go(0);
    }

    /** Counts anew, if the weights changed, and shows. */
    refresh() {
        const { profile } = this.page;
        if (profile.sums !== null) {
            this.sort();
            return;
        }
        this.work.start(profile.functions(), (sums) => {
            profile.sums = sums;
            this.sort();
        });
    }

    sort() {
        const { profile, found } = this.page;
        const { sums } = profile;
        const order = [];
        for (let frame = 0; frame < profile.names.length; frame++) {
            if (sums.total[frame] > 0 && profile.kind[frame] !== 0 && (found === null || found[frame])) {
                order.push(frame);
            }
        }
        // Frames are numbered by their names' order.
        const keys = {
            own: sums.own, total: sums.total, count: sums.count,
            name: order.length > 0 ? Float64Array.from(profile.names.keys()) : [],
            module: profile.module,
        }[this.by];
        const sign = this.down ? -1 : 1;
        order.sort((a, b) => sign * (keys[a] - keys[b]) || sums.total[b] - sums.total[a] || a - b);
        this.order = order;
        for (const [key, cell] of this.heads) {
            cell.setAttribute("aria-sort", key !== this.by ? "none" : this.down ? "descending" : "ascending");
        }
        this.holder.classList.toggle("filtered", !profile.is_whole());
        this.name_room = room_for_names(this.heads.get("name"));
        this.list.show(order.length);
        this.follow();
    }

    /** A row further among those found. */
    step(by) {
        const of = this.order?.length ?? 0;
        const has_begun = of > 0 && this.order[this.list.at] === this.page.chosen;
        const at = stepped(has_begun ? this.list.at : -1, by, of);
        if (at >= 0) {
            this.list.move(at);
        }
        return { at, of };
    }

    /** Once the table is opened: to the function that was chosen elsewhere. */
    follow() {
        const at = this.is_opened ? this.order.indexOf(this.page.chosen) : -1;
        if (at >= 0) {
            this.list.go(at);
        }
        this.is_opened = false;
    }

    fill(row, frame) {
        const { profile } = this.page;
        const { sums } = profile;
        const whole = profile.total[ROOT];
        row.replaceChildren(
            bar_cell("own", sums.own[frame], whole, profile.header.event.unit),
            interval_cell(profile, frame, "own"),
            bar_cell("total", sums.total[frame], whole, profile.header.event.unit),
            interval_cell(profile, frame, "total"),
            make("span", { role: "gridcell", class: "cell count number" }, grouped.format(sums.count[frame])),
            name_cell(profile, frame, this.name_room),
            make("span", { role: "gridcell", class: "cell module" }, visible(profile.module_of(frame))),
        );
    }
}

/** A share with a bar behind it. */
function bar_cell(name, part, whole, unit) {
    const cell = make("span", { role: "gridcell", class: `cell bar ${name} number`, title: weight(part, unit) }, share(part, whole));
    cell.style.backgroundSize = `${whole > 0 ? 100 * part / whole : 0}% 100%`;
    return cell;
}

/** Where the share before it would be found again. */
function interval_cell(profile, frame, which) {
    const title = "Sampling the same run again finds a share in here in 95 of 100 cases. Nothing of filtered samples is known.";
    return make("span", { role: "gridcell", class: "cell interval number", title }, profile.interval(frame, which));
}

/** How wide names below this heading may be, pixels. */
function room_for_names(heading) {
    const padding_and_mark = 16 + 14;
    return heading.clientWidth - padding_and_mark;
}

const ruler = document.createElement("canvas").getContext("2d");

/** A function's name behind the colour of its kind, shortened to the room it
 * has, pixels; the whole name is its title. */
function name_cell(profile, frame, room) {
    const mark = make("i", { class: "mark", "aria-hidden": "true" });
    mark.style.backgroundColor = look().fill(profile, frame);
    const name = visible(profile.name_of(frame).slice(0, 4096));
    const kind = profile.header.kinds[frame < 0 ? 0 : profile.kind[frame]];
    ruler.font = getComputedStyle(document.body).font;
    const fits = (text) => text.length * 4 <= room + 40 && ruler.measureText(text).width <= room;
    return make("span", { role: "gridcell", class: "cell name", title: `${name} (${kind})` }, mark, short_name(profile, frame, fits) || name);
}
