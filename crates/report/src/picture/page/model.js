// The profile as the page has it: frames, the call tree, and rows of samples.

const ROOT = 0;

/** Lets long work go on in pieces, so that keys and clicks are answered. */
class Work {
    /** Runs a generator; what was started before and is not done, ends. */
    start(generator, done) {
        this.generator = generator;
        this.done = done;
        this.step(generator);
    }

    stop() {
        this.generator = null;
    }

    step(generator) {
        if (generator !== this.generator) {
            return;
        }
        const until = performance.now() + 12;
        do {
            const next = generator.next();
            if (next.done) {
                this.generator = null;
                this.done(next.value);
                return;
            }
        } while (performance.now() < until);
        setTimeout(() => this.step(generator));
    }
}

/** How many rows are worked on between two looks at the clock. */
const PIECE = 1 << 15;

class Profile {
    constructor(columns) {
        const header = columns.header;
        const { frames, nodes, samples } = header.counts;
        this.header = header;
        this.names = columns.json("names");
        this.shorter = columns.json("shorter");
        this.module = columns.numbers("frame_module", new Uint32Array(frames));
        this.kind = columns.numbers("frame_kind", new Uint8Array(frames));
        this.intervals = new Map(["own", "total"].map((which) => [which, {
            low: columns.numbers(`frame_${which}_low`, new Uint16Array(frames)),
            range: columns.numbers(`frame_${which}_range`, new Uint16Array(frames)),
        }]));
        this.read_nodes(columns, nodes);
        this.read_samples(columns, samples);
        this.read_lanes(columns);
        this.filter = { thread: "", module: "", kinds: new Set(header.kinds.keys()), time: null };
        this.weigh_all();
    }

    /** The tree: by node its frame, parent, depth, and where its part of the
     * tree ends. */
    read_nodes(columns, count) {
        const up = columns.numbers("node_up", new Uint32Array(count));
        const frames = columns.numbers("node_frame", new Uint32Array(count));
        this.nodes = count + 1;
        this.frame = new Int32Array(count + 1);
        this.frame.set(frames, 1);
        this.frame[ROOT] = -1;
        this.parent = new Int32Array(count + 1).fill(-1);
        this.depth = new Uint32Array(count + 1);
        this.end = new Uint32Array(count + 1);
        for (let index = 0; index < count; index++) {
            const node = index + 1;
            let parent = index;
            for (let left = up[index]; left > 0; left--) {
                this.end[parent] = node;
                parent = this.parent[parent];
            }
            this.parent[node] = parent;
            this.depth[node] = this.depth[parent] + 1;
        }
        for (let node = count; node >= 0; node = this.parent[node]) {
            this.end[node] = count + 1;
        }
    }

    read_samples(columns, count) {
        this.rows = count;
        this.row_node = columns.numbers("sample_node", new Uint32Array(count));
        for (let row = 1; row < count; row++) {
            this.row_node[row] += this.row_node[row - 1];
        }
        this.row_thread = columns.numbers("sample_thread", new Uint32Array(count));
        this.row_slice = columns.numbers("sample_slice", new Uint16Array(count));
        this.row_count = columns.numbers("sample_count", new Uint32Array(count));
        this.row_period = columns.numbers("sample_period", new Float64Array(count));
    }

    /** Runs of slices, of all lanes one behind the other. */
    read_lanes(columns) {
        const count = (this.header.lanes?.list ?? []).reduce((sum, lane) => sum + lane.runs, 0);
        const numbers = (name) => count > 0 ? columns.numbers(`lane_${name}`, new Uint32Array(count)) : [];
        this.runs = { doing: numbers("doing"), slices: numbers("slices"), behind: numbers("behind") };
    }

    /** Weighs without a pause. */
    weigh_all() {
        for (const work = this.weighed(); !work.next().done;);
    }

    /** By row of a kind (thread, module): sums of all periods. */
    sums_by(count, of_row) {
        const sums = new Float64Array(count);
        for (let row = 0; row < this.rows; row++) {
            sums[of_row(row)] += this.row_period[row];
        }
        return sums;
    }

    /** A row's module and kind: those of the frame it was taken in. */
    module_of_row(row) {
        const frame = this.frame[this.row_node[row]];
        return frame < 0 ? 0 : this.module[frame];
    }

    /** The threads that a choice stands for: `n:NAME`, `t:NUMBER` or all. */
    threads_of(choice) {
        const passes = new Uint8Array(this.header.threads.length);
        const [what, rest] = [choice.slice(0, 2), choice.slice(2)];
        this.header.threads.forEach((thread, index) => {
            const is_it = what === "n:" ? thread.name === rest : String(index) === rest;
            passes[index] = choice === "" || is_it ? 1 : 0;
        });
        return passes;
    }

    /** Sums up what passes the filter: `own`, `total` and their samples by
     * node, and periods by time slice (whatever slices are chosen). */
    *weighed() {
        const { module, kinds, time } = this.filter;
        const threads = this.threads_of(this.filter.thread);
        const wanted = module === "" ? -1 : Number(module);
        const all_kinds = kinds.size === this.header.kinds.length;
        const own = new Float64Array(this.nodes);
        const own_count = new Float64Array(this.nodes);
        const slices = new Float64Array(this.header.time ? this.header.time.slices : 1);
        for (let row = 0; row < this.rows; row++) {
            if (row % PIECE === 0) {
                yield;
            }
            const node = this.row_node[row];
            const frame = this.frame[node];
            if (!threads[this.row_thread[row]]
                || (wanted >= 0 && (frame < 0 || this.module[frame] !== wanted))
                || (!all_kinds && frame >= 0 && !kinds.has(this.kind[frame]))) {
                continue;
            }
            const slice = this.row_slice[row];
            slices[slice] += this.row_period[row];
            if (time === null || (slice >= time[0] && slice <= time[1])) {
                own[node] += this.row_period[row];
                own_count[node] += this.row_count[row];
            }
        }
        const total = own.slice();
        const count = own_count.slice();
        for (let node = this.nodes - 1; node > 0; node--) {
            if (node % PIECE === 0) {
                yield;
            }
            total[this.parent[node]] += total[node];
            count[this.parent[node]] += count[node];
        }
        Object.assign(this, { own, own_count, total, count, slices, sums: null });
    }

    /** Sums by function; recursion counts once. */
    *functions() {
        const frames = this.names.length;
        const own = new Float64Array(frames);
        const total = new Float64Array(frames);
        const count = new Float64Array(frames);
        // Where the outermost open call of each function ends.
        const open_until = new Uint32Array(frames);
        for (let node = 1; node < this.nodes; node++) {
            if (node % PIECE === 0) {
                yield;
            }
            const frame = this.frame[node];
            own[frame] += this.own[node];
            count[frame] += this.own_count[node];
            if (node >= open_until[frame]) {
                total[frame] += this.total[node];
                open_until[frame] = this.end[node];
            }
        }
        return { own, total, count };
    }

    /** Whether all samples pass the filter. */
    is_whole() {
        const { thread, module, kinds, time } = this.filter;
        return thread === "" && module === "" && time === null && kinds.size === this.header.kinds.length;
    }

    /** Where sampling the same run again would find a function's share
     * ("own", "total"); nothing of a part of the samples is known. */
    interval(frame, which) {
        if (frame < 0 || this.kind[frame] === 0 || !this.is_whole()) {
            return "";
        }
        const { low, range } = this.intervals.get(which);
        return `${(low[frame] / 10).toFixed(1)}-${((low[frame] + range[frame]) / 10).toFixed(1)} %`;
    }

    /** Which frames a pattern finds. */
    *matching(pattern) {
        const found = new Uint8Array(this.names.length);
        for (let frame = 0; frame < found.length; frame++) {
            if (frame % 4096 === 0) {
                yield;
            }
            found[frame] = pattern.test(this.names[frame]) ? 1 : 0;
        }
        return found;
    }

    /** How many nodes before each, and in all, are of `found` frames and weigh
     * something. */
    found_before(found) {
        const before = new Int32Array(this.nodes + 1);
        for (let node = 0; node < this.nodes; node++) {
            const counts = node > ROOT && this.total[node] > 0 && found[this.frame[node]];
            before[node + 1] = before[node] + (counts ? 1 : 0);
        }
        return before;
    }

    /** What the calls of `found` frames weigh, each sample once. */
    *covered(found) {
        let period = 0;
        let samples = 0;
        let functions = 0;
        for (let node = 1, steps = 0; node < this.nodes; steps++) {
            if (steps % PIECE === 0) {
                yield;
            }
            if (found[this.frame[node]]) {
                period += this.total[node];
                samples += this.count[node];
                node = this.end[node];
            } else {
                node++;
            }
        }
        for (const is_found of found) {
            functions += is_found;
        }
        return { period, samples, functions };
    }

    /** The callees of a node that weigh something, in order. */
    children(node) {
        const { end, total } = this;
        const children = [];
        for (let child = node + 1; child < end[node]; child = end[child]) {
            if (total[child] > 0) {
                children.push(child);
            }
        }
        return children;
    }

    /** Whether it has any. */
    has_children(node) {
        return this.total[node] > this.own[node];
    }

    name_of(frame) {
        return frame < 0 ? "all" : this.names[frame];
    }

    /** Shorter and shorter forms of its name. */
    forms_of(frame) {
        return frame < 0 ? [] : this.shorter[frame];
    }

    module_of(frame) {
        return frame < 0 ? "" : this.header.modules[this.module[frame]];
    }
}
