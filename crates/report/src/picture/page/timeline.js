// The strip of time: weight by slice, and a range to choose.

/** Samples that a column of the strip has on average, at least. */
const SAMPLES_OF_COLUMN = 4;
/** Columns of the strip, also where samples are few. */
const FEWEST_COLUMNS = 40;

class Timeline {
    constructor(holder, profile, changed) {
        this.holder = holder;
        this.samples = profile.count[ROOT];
        this.profile = profile;
        this.changed = changed;
        this.from = null;
        this.range = null;
        this.time = profile.header.time;
        this.canvas = make("canvas", {
            tabindex: "0", role: "slider", "aria-label": "Time range",
            "aria-valuemin": "0", "aria-valuemax": String(this.time.slices - 1), "aria-valuenow": "0",
        });
        this.label = make("span", { class: "range", role: "status" });
        this.all = make("button", { type: "button", hidden: "" }, "All time");
        this.all.addEventListener("click", () => this.choose(null));
        holder.append(this.canvas, make("div", { class: "below" }, this.label, this.all));
        this.canvas.addEventListener("pointerdown", (event) => this.start(event));
        this.canvas.addEventListener("pointermove", (event) => this.move(event));
        this.canvas.addEventListener("pointerup", (event) => this.stop(event));
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        new ResizeObserver(() => this.draw()).observe(this.canvas);
        this.tell();
    }

    slice_at(event) {
        const { width } = this.canvas.getBoundingClientRect();
        // Near an end the end is meant.
        const x = event.offsetX < 4 ? 0 : event.offsetX > width - 4 ? width : event.offsetX;
        const slice = Math.floor(x / Math.max(width, 1) * this.time.slices);
        return Math.max(0, Math.min(slice, this.time.slices - 1));
    }

    start(event) {
        this.from = this.slice_at(event);
        this.moved = false;
        this.canvas.setPointerCapture(event.pointerId);
    }

    move(event) {
        if (this.from === null) {
            return;
        }
        const at = this.slice_at(event);
        this.moved ||= at !== this.from;
        if (this.moved) {
            this.range = [Math.min(at, this.from), Math.max(at, this.from)];
            this.tell();
            this.draw();
        }
    }

    stop() {
        if (this.from !== null) {
            this.from = null;
            this.choose(this.moved ? this.range : null);
        }
    }

    /** Left and right move the range, with Shift its end; Escape is all. */
    key(event) {
        const last = this.time.slices - 1;
        const step = Math.max(1, Math.round(this.time.slices / 50));
        const by = { ArrowLeft: -step, ArrowRight: step }[event.key];
        if (event.key === "Escape" && this.range !== null) {
            this.choose(null);
        } else if (by !== undefined) {
            let [first, end] = this.range ?? [0, Math.min(last, 5 * step - 1)];
            if (this.range !== null && event.shiftKey) {
                end = Math.max(first, Math.min(last, end + by));
            } else if (this.range !== null) {
                const moved = Math.max(-first, Math.min(by, last - end));
                [first, end] = [first + moved, end + moved];
            }
            this.choose([first, end]);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }

    choose(range) {
        this.range = range;
        this.tell();
        this.draw();
        this.changed(range);
    }

    tell() {
        const { slice, slices } = this.time;
        const [first, last] = this.range ?? [0, slices - 1];
        this.label.textContent = this.range === null
            ? `${seconds(slices * slice)}; drag over the strip to look at a part`
            : `from ${(first * slice / 1e9).toFixed(3)} s to ${((last + 1) * slice / 1e9).toFixed(3)} s`;
        this.all.hidden = this.range === null;
        this.canvas.setAttribute("aria-valuenow", String(first));
        this.canvas.setAttribute("aria-valuetext", this.label.textContent);
    }

    draw() {
        const { canvas, profile } = this;
        const ratio = window.devicePixelRatio || 1;
        const { width, height } = canvas.getBoundingClientRect();
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        const pen = canvas.getContext("2d");
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        const colours = look();
        const { slices } = this.time;
        // As many slices in each column, or some would seem to be heavier; and some
        // samples in each, or columns show when the clock ticked and not what ran.
        const most_columns = Math.min(Math.floor(width / 2), Math.floor(this.samples / SAMPLES_OF_COLUMN));
        const together = Math.ceil(slices / Math.max(1, Math.min(slices, Math.max(most_columns, FEWEST_COLUMNS))));
        const columns = Math.ceil(slices / together);
        const sums = new Float64Array(columns);
        profile.slices.forEach((sum, slice) => { sums[Math.floor(slice / together)] += sum; });
        const most = Math.max(...sums, 1);
        for (let column = 0; column < columns; column++) {
            const tall = sums[column] / most * (height - 2);
            const slice = column * together;
            const is_in = this.range === null || (slice >= this.range[0] && slice <= this.range[1]);
            pen.fillStyle = is_in ? colours.accent : colours.hidden;
            const wide = width * together / slices;
            pen.fillRect(column * wide, height - tall, Math.max(wide - 0.5, 0.5), tall);
        }
        if (this.range !== null) {
            const [first, last] = this.range;
            pen.strokeStyle = colours.ink;
            pen.strokeRect(first * width / slices + 0.5, 0.5, Math.max((last + 1 - first) * width / slices - 1, 1), height - 1);
        }
    }
}
