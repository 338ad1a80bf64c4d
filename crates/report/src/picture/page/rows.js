// Lists of very many rows: only those in sight are elements.

const LINE = 24;
/** Browsers place nothing further down, pixels. */
const TALLEST = 8e6;

/** A list of rows that can be walked with the keyboard; `fill(element, index)`
 * writes a row, `moved(index)` is told of the row that was gone to, `choose(index)`
 * is what Enter and a click do. */
class RowList {
    constructor(holder, role, { fill, choose, moved, key }) {
        this.holder = holder;
        this.fill = fill;
        this.choose = choose;
        this.moved = moved;
        this.other_key = key ?? (() => false);
        this.count = 0;
        this.at = 0;
        this.pool = [];
        this.role = role;
        this.body = make("div", { class: "rows", role: "presentation" });
        holder.append(this.body);
        holder.setAttribute("tabindex", "0");
        holder.addEventListener("scroll", () => this.draw());
        holder.addEventListener("keydown", (event) => this.key(event));
        new ResizeObserver(() => this.draw()).observe(holder);
    }

    /** Shows so many rows. */
    show(count) {
        this.count = count;
        this.at = Math.min(this.at, Math.max(count - 1, 0));
        this.body.style.height = `${Math.min(count * LINE, TALLEST)}px`;
        this.holder.setAttribute("aria-rowcount", String(count));
        this.draw();
    }

    /** Rows above the first one in sight. */
    first() {
        const { scrollTop, clientHeight } = this.holder;
        const height = Math.min(this.count * LINE, TALLEST);
        if (this.count * LINE <= TALLEST) {
            return Math.floor(scrollTop / LINE);
        }
        const rows = this.count - Math.floor(clientHeight / LINE);
        return Math.floor(scrollTop / Math.max(height - clientHeight, 1) * rows);
    }

    draw() {
        const first = this.first();
        const in_sight = Math.ceil(this.holder.clientHeight / LINE) + 1;
        const is_exact = this.count * LINE <= TALLEST;
        for (let place = 0; place < Math.max(in_sight, this.pool.length); place++) {
            const index = first + place;
            const row = this.pool[place] ?? this.new_row();
            row.hidden = place >= in_sight || index >= this.count;
            if (!row.hidden) {
                const top = is_exact ? index * LINE : this.holder.scrollTop + place * LINE;
                row.style.transform = `translateY(${top}px)`;
                row.dataset.index = index;
                row.setAttribute("aria-rowindex", String(index + 1));
                row.setAttribute("aria-selected", String(index === this.at));
                row.id = `${this.holder.id}-${index}`;
                this.fill(row, index);
            }
        }
        this.holder.setAttribute("aria-activedescendant", `${this.holder.id}-${this.at}`);
    }

    new_row() {
        const row = make("div", { class: "row", role: this.role });
        row.addEventListener("click", (event) => {
            this.at = Number(row.dataset.index);
            this.draw();
            this.moved(this.at);
            this.choose(this.at, event);
        });
        this.pool.push(row);
        this.body.append(row);
        return row;
    }

    /** Moves to a row, which comes into sight. */
    go(index) {
        this.at = Math.max(0, Math.min(index, this.count - 1));
        const { clientHeight } = this.holder;
        const fit = Math.floor(clientHeight / LINE);
        const first = this.first();
        let top = first;
        if (this.at < first) {
            top = this.at;
        } else if (this.at >= first + fit) {
            top = this.at - fit + 1;
        }
        if (top !== first) {
            const is_exact = this.count * LINE <= TALLEST;
            this.holder.scrollTop = is_exact ? top * LINE : top / Math.max(this.count - fit, 1) * (TALLEST - clientHeight);
        }
        this.draw();
    }

    /** Goes to a row and tells of it. */
    move(index) {
        this.go(index);
        this.moved(this.at);
    }

    key(event) {
        if (event.ctrlKey || event.altKey || event.metaKey) {
            return;
        }
        const page = Math.max(1, Math.floor(this.holder.clientHeight / LINE) - 1);
        const to = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -this.count, End: this.count }[event.key];
        if (to !== undefined) {
            this.move(this.at + to);
        } else if (event.key === "Enter" || event.key === " ") {
            this.choose(this.at, event);
        } else if (!this.other_key(event, this.at)) {
            return;
        }
        event.preventDefault();
    }
}
