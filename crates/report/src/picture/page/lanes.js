// Lanes: what each thread did, below the strip of time.

/** Height of a lane, pixels. */
const LANE = 16;
/** Lanes that are drawn, at most: a canvas has an end. */
const MOST_LANES = 500;

class Lanes {
    /** Calls `events.choose(thread, range)` for a span, `events.hover(lines, x, y)`. */
    constructor(holder, profile, events) {
        this.holder = holder;
        this.profile = profile;
        this.events = events;
        this.about = profile.header.lanes;
        this.lanes = this.read().slice(0, MOST_LANES);
        this.at = { lane: 0, run: 0 };
        holder.classList.add("laned");
        this.canvas = make("canvas", {
            class: "lanes", tabindex: "0", role: "application",
            "aria-label": "What each thread did. Arrow keys move, Enter shows the stacks of a span.",
        });
        this.labels = make("div", { class: "labels", "aria-hidden": "true" },
            ...this.lanes.map((lane) => make("div", {}, thread_name(lane))));
        this.legend = make("div", { class: "legend" });
        const more = this.about.list.length - this.lanes.length;
        this.more = more > 0 ? ` and ${grouped.format(more)} threads more` : "";
        const rows = make("div", { class: "threads" }, this.labels, this.canvas);
        holder.querySelector("canvas").after(rows);
        holder.querySelector(".below").append(this.legend);
        this.canvas.style.height = `${this.lanes.length * LANE}px`;
        this.canvas.addEventListener("mousemove", (event) => this.hover(event));
        this.canvas.addEventListener("mouseleave", () => this.events.hover(null));
        this.canvas.addEventListener("click", (event) => this.click(event));
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        for (const what of ["focus", "blur"]) {
            this.canvas.addEventListener(what, () => this.draw());
        }
        new ResizeObserver(() => this.draw()).observe(this.canvas);
    }

    /** The lanes, each with its runs: first and last slice, and where the span
     * that they stand for ends. */
    read() {
        const { doing, slices, behind } = this.profile.runs;
        let run = 0;
        return this.about.list.map((lane) => {
            const runs = [];
            let first = 0;
            for (const end = run + lane.runs; run < end; run++) {
                const last = first + slices[run] - 1;
                if (doing[run] > 0) {
                    runs.push({ doing: doing[run] - 1, first, last, end: last + behind[run] });
                }
                first = last + 1;
            }
            return { ...lane, runs };
        });
    }

    /** What a thread does, in words. */
    words(doing) {
        const word = this.about.doings[doing];
        const { at_least } = this.about;
        return word === "running" && at_least ? `${word}, or waits under ${at_least}` : word;
    }

    colour(doing) {
        const of = look();
        const word = this.about.doings[doing];
        const kind = (name) => this.profile.header.kinds.indexOf(name);
        if (word === "running") {
            return of.of_kind(kind("user"));
        }
        if (word === "for a CPU") {
            return of.of_kind(kind("for a CPU"));
        }
        return word === "not known" ? of.hidden : of.of_kind_in(kind("waiting"), this.shade(doing));
    }

    /** Kinds of waits are shades of one colour, from 0 to 1. */
    shade(doing) {
        const others = ["running", "for a CPU", "not known"];
        const kinds = this.about.doings.filter((word) => !others.includes(word));
        const place = kinds.indexOf(this.about.doings[doing]);
        return kinds.length > 1 ? place / (kinds.length - 1) : 0;
    }

    /** The lane and the run at a place of the canvas. */
    hit(event) {
        const { width } = this.canvas.getBoundingClientRect();
        const { slices } = this.profile.header.time;
        const slice = Math.min(Math.floor(event.offsetX / Math.max(width, 1) * slices), slices - 1);
        const lane = Math.floor(event.offsetY / LANE);
        const run = this.lanes[lane]?.runs.findIndex(({ first, last }) => first <= slice && slice <= last) ?? -1;
        return { lane, run };
    }

    /** Lines of text about a run. */
    lines({ lane, run }) {
        const { sums, runs } = this.lanes[lane];
        const name = thread_name(this.lanes[lane]);
        const { slice } = this.profile.header.time;
        const life = sums.reduce((sum, [, ns]) => sum + ns, 0);
        const parts = sums.map(([doing, ns]) => `${this.words(doing)} ${seconds(ns)}`);
        const lived = `lived ${seconds(life)}: ${parts.join(", ")}`;
        if (!runs[run]) {
            return [name, lived];
        }
        const { doing, first, last } = runs[run];
        const when = `from ${(first * slice / 1e9).toFixed(3)} s to ${((last + 1) * slice / 1e9).toFixed(3)} s`;
        return [`${name}: ${this.words(doing)}`, `${when}, most of it`, lived];
    }

    hover(event) {
        const at = this.hit(event);
        this.events.hover(this.lanes[at.lane] ? this.lines(at) : null, event.clientX, event.clientY);
    }

    click(event) {
        const at = this.hit(event);
        if (at.run >= 0) {
            this.choose(at);
        }
    }

    choose(at) {
        this.at = at;
        const { thread, runs } = this.lanes[at.lane];
        const { first, end } = runs[at.run];
        this.draw();
        this.events.choose(thread, [first, end], this.lines(at));
    }

    key(event) {
        const { lane, run } = this.at;
        const runs = this.lanes[lane].runs.length;
        const moved = {
            ArrowLeft: { lane, run: Math.max(run - 1, 0) },
            ArrowRight: { lane, run: Math.min(run + 1, runs - 1) },
            Home: { lane: 0, run: 0 },
            End: { lane: this.lanes.length - 1, run: 0 },
            ArrowUp: { lane: Math.max(lane - 1, 0), run: 0 },
            ArrowDown: { lane: Math.min(lane + 1, this.lanes.length - 1), run: 0 },
        }[event.key];
        if (event.key === "Enter") {
            if (runs > 0) {
                this.choose(this.at);
            }
        } else if (moved) {
            this.at = moved;
            this.into_sight(moved.lane);
            this.draw();
            this.events.tell(this.lines(moved));
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }

    /** Scrolls a lane out from under the strip above and the words below. */
    into_sight(lane) {
        const strip = this.holder.querySelector("canvas").getBoundingClientRect();
        const words = this.holder.querySelector(".below").getBoundingClientRect();
        const top = this.canvas.getBoundingClientRect().top + lane * LANE;
        this.holder.scrollTop += Math.min(0, top - strip.bottom) || Math.max(0, top + LANE - words.top);
    }

    draw() {
        const { canvas } = this;
        const ratio = window.devicePixelRatio || 1;
        const { width, height } = canvas.getBoundingClientRect();
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        const pen = canvas.getContext("2d");
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        const { slices } = this.profile.header.time;
        const x = (slice) => slice * width / slices;
        this.lanes.forEach(({ runs }, lane) => {
            for (const { doing, first, last } of runs) {
                pen.fillStyle = this.colour(doing);
                pen.fillRect(x(first), lane * LANE + 1, Math.max(x(last + 1) - x(first), 0.5), LANE - 2);
            }
        });
        const run = this.lanes[this.at.lane]?.runs[this.at.run];
        if (document.activeElement === canvas && run) {
            pen.strokeStyle = look().ink;
            pen.lineWidth = 2;
            pen.strokeRect(x(run.first) + 1, this.at.lane * LANE + 1, Math.max(x(run.last + 1) - x(run.first) - 2, 2), LANE - 2);
        }
        this.tell();
    }

    /** What the colours mean. */
    tell() {
        const used = [...new Set(this.lanes.flatMap(({ runs }) => runs.map(({ doing }) => doing)))].sort((a, b) => a - b);
        this.legend.replaceChildren(...used.map((doing) => {
            const mark = make("i", { class: "mark", "aria-hidden": "true" });
            mark.style.backgroundColor = this.colour(doing);
            return make("span", {}, mark, this.words(doing));
        }), this.more);
    }
}
