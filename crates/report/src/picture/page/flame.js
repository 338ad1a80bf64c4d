// A flame graph on a canvas: of the call tree, or of any tree with a total.

const ROW = 19;
/** Narrower boxes are drawn together with their neighbours, pixels. */
const NARROW = 1;
/** In the place of a node: boxes too narrow to draw. */
const HIDDEN = -1;

/**
 * Draws `source`: `root`, `total(node)`, `frame(node)`, `children(node)` in
 * order, `parent(node)`. Calls `events.hover(box, x, y)`, `events.choose(box)`
 * after a click, `events.focus(box)` after a key, and `events.zoomed()`.
 */
class Flame {
    constructor(holder, profile, events) {
        this.profile = profile;
        this.events = events;
        this.holder = holder;
        this.grows_up = false;
        this.rows = [];
        this.zoomed = null;
        this.history = [];
        this.focused = null;
        this.found = null;
        this.canvas = make("canvas", { role: "application", tabindex: "0", "aria-label": "Flame graph. Arrow keys move, Enter zooms, Escape zooms out." });
        this.spacer = make("div", { class: "spacer" });
        holder.classList.add("flame");
        holder.append(this.canvas, this.spacer);
        // How much is hidden below: the browser moves what it shows when there is more
        // room, before anybody is told of that.
        this.hidden_below = 0;
        holder.addEventListener("scroll", () => this.draw());
        this.canvas.addEventListener("mousemove", (event) => this.hover(event));
        this.canvas.addEventListener("mouseleave", () => this.events.hover(null));
        this.canvas.addEventListener("click", (event) => this.click(event));
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        this.canvas.addEventListener("focus", () => this.draw());
        this.canvas.addEventListener("blur", () => this.draw());
        new ResizeObserver(() => this.resized()).observe(holder);
    }

    /** Shows another tree, or the same after its weights changed. */
    show(source) {
        const is_same = this.source === source && source.total(this.zoomed) > 0;
        this.source = source;
        this.focused = null;
        if (!is_same) {
            this.zoomed = source.root;
            this.history = [];
        }
        this.lay_out();
        this.to_root();
    }

    /** Makes a frame as wide as the window. */
    zoom(node) {
        if (node !== this.zoomed) {
            this.history.push(this.zoomed);
            this.go(node);
        }
    }

    /** To what was zoomed before; whether there was anything. */
    back() {
        const node = this.history.pop();
        if (node !== undefined) {
            this.go(node);
        }
        return node !== undefined;
    }

    go(node) {
        this.zoomed = node;
        this.focused = null;
        this.lay_out();
        this.to_root();
        this.events.zoomed();
    }

    /** Scrolls to where the zoomed frame is. */
    to_root() {
        this.holder.scrollTop = this.grows_up ? this.spacer.offsetHeight : 0;
        this.draw();
    }

    /** Another height is only seen more of. */
    resized() {
        const { clientWidth, clientHeight } = this.holder;
        const below = this.hidden_below;
        if (this.width !== clientWidth) {
            this.lay_out();
        }
        this.height = clientHeight;
        // What is at the bottom stays there where callers are below.
        if (this.grows_up) {
            this.holder.scrollTop = this.holder.scrollHeight - clientHeight - below;
        }
        this.draw();
    }

    /** Boxes by row: what is around the zoomed frame, then what it calls. */
    lay_out() {
        this.width = this.holder.clientWidth;
        if (!this.source || this.width === 0) {
            return;
        }
        const { source } = this;
        this.rows = [];
        const around = [];
        for (let node = source.parent(this.zoomed); node !== null; node = source.parent(node)) {
            around.unshift(node);
        }
        for (const node of around) {
            this.rows.push([{ node, x: 0, width: this.width, weight: source.total(node), row: this.rows.length, is_around: true }]);
        }
        const whole = source.total(this.zoomed);
        this.scale = whole > 0 ? this.width / whole : 0;
        const first = { node: this.zoomed, x: 0, width: this.width, weight: whole, row: around.length };
        const least = Math.max(NARROW, this.profile.header.show.min_share / 100 * this.width);
        for (let open = [first]; open.length > 0;) {
            const box = open.pop();
            (this.rows[box.row] ??= []).push(box);
            const inner = this.callees(box, least);
            for (let index = inner.length - 1; index >= 0; index--) {
                open.push(inner[index]);
            }
        }
        this.focused = this.box_of(this.focused);
        this.spacer.style.height = `${this.rows.length * ROW + 2}px`;
        this.draw();
    }

    /** The box that stands for one of another width; null if that was of several. */
    box_of(box) {
        const row = box === null ? [] : this.rows[box.row] ?? [];
        return row.find(({ node }) => node === box.node && node !== HIDDEN) ?? null;
    }

    /** The boxes next to a box, those too narrow as one. */
    callees(box, least) {
        const boxes = [];
        if (box.node === HIDDEN) {
            return boxes;
        }
        let x = box.x;
        let hidden = null;
        const { source, scale } = this;
        for (const node of source.children(box.node)) {
            const weight = source.total(node);
            const width = weight * scale;
            if (width >= least) {
                boxes.push({ node, x, width, weight, row: box.row + 1, above: box });
                hidden = null;
            } else if (hidden === null) {
                hidden = { node: HIDDEN, x, width, weight, row: box.row + 1, above: box, count: 1 };
                boxes.push(hidden);
            } else {
                hidden.width += width;
                hidden.weight += weight;
                hidden.count++;
            }
            x += width;
        }
        return boxes.filter((each) => each.node !== HIDDEN || each.width >= 0.2);
    }

    /** The boxes that a search found, stack by stack. */
    found_boxes() {
        const { source, found } = this;
        const is_found = ({ node }) => node !== HIDDEN && source.frame(node) >= 0 && found[source.frame(node)];
        const boxes = found === null ? [] : this.rows.flat().filter(is_found);
        return boxes.sort((a, b) => a.x - b.x || a.row - b.row);
    }

    /** The top of a row, in the canvas. */
    top(row) {
        const place = this.grows_up ? this.rows.length - 1 - row : row;
        return place * ROW + 1 - this.holder.scrollTop + this.slack();
    }

    /** Room above a graph that grows up and is lower than the window. */
    slack() {
        const free = this.holder.clientHeight - this.spacer.offsetHeight;
        return this.grows_up ? Math.max(0, free) : 0;
    }

    draw() {
        const { scrollHeight, scrollTop, clientHeight } = this.holder;
        // In another height nothing was put back where it was yet.
        if (clientHeight === this.height) {
            this.hidden_below = Math.max(0, scrollHeight - scrollTop - clientHeight);
        }
        const ratio = window.devicePixelRatio || 1;
        const height = this.holder.clientHeight;
        const { canvas, width } = this;
        if (!width || !height) {
            return;
        }
        if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
            canvas.width = Math.round(width * ratio);
            canvas.height = Math.round(height * ratio);
            canvas.style.width = `${width}px`;
            canvas.style.height = `${height}px`;
        }
        const pen = canvas.getContext("2d");
        pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        pen.clearRect(0, 0, width, height);
        pen.font = "12px system-ui, sans-serif";
        pen.textBaseline = "middle";
        this.look = look();
        for (let row = 0; row < this.rows.length; row++) {
            const top = this.top(row);
            if (top + ROW >= 0 && top <= height) {
                for (const box of this.rows[row]) {
                    this.draw_box(pen, box, top);
                }
            }
        }
    }

    draw_box(pen, box, top) {
        const frame = box.node === HIDDEN ? -1 : this.source.frame(box.node);
        const width = Math.max(box.width - (box.width > 3 ? 1 : 0), 0.5);
        const is_found = this.found !== null && frame >= 0 && this.found[frame];
        const alpha = box.is_around ? 0.55 : this.found !== null && !is_found ? 0.4 : 1;
        pen.globalAlpha = alpha;
        pen.fillStyle = box.node === HIDDEN ? this.look.hidden : is_found ? this.look.found : this.look.fill(this.profile, frame);
        pen.fillRect(box.x, top, width, ROW - 1);
        if (box === this.focused) {
            pen.globalAlpha = 1;
            pen.strokeStyle = this.look.ink;
            pen.lineWidth = 2;
            pen.strokeRect(box.x + 1, top + 1, Math.max(width - 2, 1), ROW - 3);
        }
        if (width > 24 && box.node !== HIDDEN) {
            // What is dimmed is as dark as its ground.
            pen.globalAlpha = 1;
            pen.fillStyle = alpha < 1 ? this.look.ink : this.look.on_box;
            const room = width - 8;
            const name = short_name(this.profile, frame, (text) => this.fits(pen, text, room));
            pen.fillText(name, box.x + 4, top + ROW / 2);
        }
    }

    /** Whether a text has room; most are told by their length. */
    fits(pen, text, room) {
        return text.length * 4 <= room + 40 && pen.measureText(text).width <= room;
    }

    /** The box at a place in the canvas. */
    at(x, y) {
        const place = Math.floor((y - 1 + this.holder.scrollTop - this.slack()) / ROW);
        const row = this.rows[this.grows_up ? this.rows.length - 1 - place : place];
        return row?.find((box) => x >= box.x && x < box.x + Math.max(box.width, 1)) ?? null;
    }

    hover(event) {
        const box = this.at(event.offsetX, event.offsetY);
        this.canvas.style.cursor = box && box.node !== HIDDEN ? "pointer" : "default";
        this.events.hover(box, event.clientX, event.clientY);
    }

    click(event) {
        const box = this.at(event.offsetX, event.offsetY);
        if (box && box.node !== HIDDEN) {
            this.zoom(box.node);
            this.events.choose(box);
        }
    }

    /** Moves over the boxes; tells whoever listens where. */
    key(event) {
        const outwards = this.grows_up ? "ArrowDown" : "ArrowUp";
        const inwards = this.grows_up ? "ArrowUp" : "ArrowDown";
        const box = this.focused ?? this.rows.find((row) => !row[0]?.is_around)?.[0];
        if (!box) {
            return;
        }
        const row = this.rows[box.row ?? this.row_of(box)];
        const to = (other) => this.focus(other ?? box);
        const moves = {
            [outwards]: () => to(box.above ?? this.rows[this.row_of(box) - 1]?.[0]),
            [inwards]: () => to((this.rows[this.row_of(box) + 1] ?? [])
                .filter((inner) => (inner.above ?? box) === box && inner.node !== HIDDEN)
                .reduce((most, inner) => (most === null || inner.weight > most.weight ? inner : most), null)),
            ArrowLeft: () => to(row[row.indexOf(box) - 1]),
            ArrowRight: () => to(row[row.indexOf(box) + 1]),
            Home: () => to(this.rows[0][0]),
            Enter: () => this.zoom_by_key(box),
            " ": () => this.zoom_by_key(box),
            Escape: () => this.back(),
            Backspace: () => this.back(),
        };
        if (moves[event.key] && !event.ctrlKey && !event.altKey && !event.metaKey) {
            event.preventDefault();
            moves[event.key]();
        }
    }

    zoom_by_key(box) {
        if (box.node !== HIDDEN) {
            this.zoom(box.node);
            this.focus(this.rows.flat().find((other) => other.node === box.node && !other.is_around));
        }
    }

    row_of(box) {
        return box.row ?? this.rows.findIndex((row) => row.includes(box));
    }

    focus(box) {
        this.focused = box;
        const top = this.top(this.row_of(box));
        const below = top + 2 * ROW - this.holder.clientHeight;
        this.holder.scrollTop += top < ROW ? top - ROW : below > 0 ? below : 0;
        this.draw();
        this.events.focus(box);
    }
}

let known_look = null;

/** Colours as the style sheet has them now. */
function look() {
    known_look ??= read_look();
    return known_look;
}

/** After another theme was chosen. */
function forget_look() {
    known_look = null;
}

function read_look() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const dark = of("--dark") === "1";
    const hues = of("--kinds").split(",").map((tone) => tone.trim().split(/\s+/).map(Number));
    return {
        ink: of("--ink"),
        on_box: of("--on-box"),
        hidden: of("--hidden"),
        found: of("--found"),
        line: of("--line"),
        accent: of("--accent"),
        of_kind: (kind) => hsl(hues[kind] ?? hues[0]),
        /** A shade of the colour of a kind, from 0, itself, to 1. */
        of_kind_in: (kind, shade) => {
            const [hue, saturation, lightness] = hues[kind] ?? hues[0];
            return hsl([hue - 50 * shade, saturation, lightness - 30 * (shade * 3 % 1)]);
        },
        fill: (profile, frame) => fill(profile, frame, hues, dark),
    };
}

/** Colours that were made, in light and in dark. */
const fills = [new Map(), new Map()];

function hsl([hue, saturation, lightness]) {
    return `hsl(${hue.toFixed(1)} ${saturation}% ${lightness.toFixed(1)}%)`;
}

/** The colour of a frame: of its kind, or of its module; neighbours of one
 * kind stay apart by a little. */
function fill(profile, frame, hues, dark) {
    const made = fills[dark ? 1 : 0];
    let colour = made.get(frame);
    if (colour === undefined) {
        const kind = frame < 0 ? 0 : profile.kind[frame];
        let [hue, saturation, lightness] = hues[kind] ?? hues[0];
        const colours = profile.header.show.colours;
        const by_name = spread(profile.name_of(frame));
        if (kind !== 0 && colours === "module") {
            [hue, saturation] = [360 * spread(profile.module_of(frame)), 55];
        } else if (kind !== 0 && colours === "hot") {
            [hue, saturation] = [60 * by_name, 85];
        }
        lightness += 10 * (by_name - 0.5);
        colour = hsl([hue, saturation, lightness]);
        made.set(frame, colour);
    }
    return colour;
}

/** A number from 0 to 1 that a text always gets. */
function spread(text) {
    let hash = 0x811c9dc5;
    for (let index = 0; index < text.length && index < 256; index++) {
        hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
    }
    return (hash >>> 8) / (1 << 24);
}
