// Trees whose nodes are many of the call tree's: who calls a function, what it
// calls in all its places, and stacks from their leaves. Made where they are
// looked at, so that even of a large profile only what has room is made.

/** A node of such a tree: a function, and the parts of the call tree that come
 * together in it. */
class Merged {
    constructor(frame, above) {
        this.frame = frame;
        this.above = above;
        this.total = 0;
        this.count = 0;
        this.places = [];
        this.weights = null;
    }
}

/** What [`Flame`] draws of the call tree itself. */
class CallTree {
    constructor(profile) {
        this.profile = profile;
        this.root = ROOT;
    }
    total(node) { return this.profile.total[node]; }
    count(node) { return this.profile.count[node]; }
    frame(node) { return this.profile.frame[node]; }
    parent(node) { return node === ROOT ? null : this.profile.parent[node]; }
    children(node) { return this.profile.children(node); }
}

/** What both merged trees share. */
class MergedTree {
    constructor(profile) {
        this.profile = profile;
        this.known = new Map();
    }
    total(node) { return node.total; }
    count(node) { return node.count; }
    frame(node) { return node.frame; }
    parent(node) { return node.above; }

    /** Heaviest first; made once. */
    children(node) {
        let made = this.known.get(node);
        if (made === undefined) {
            made = [...this.split(node).values()].sort((a, b) => b.total - a.total || a.frame - b.frame);
            this.known.set(node, made);
        }
        return made;
    }
}

/** What a function calls, wherever it is called. */
class Callees extends MergedTree {
    constructor(profile, places) {
        super(profile);
        this.root = new Merged(profile.frame[places[0]], null);
        for (const node of places) {
            this.add(this.root, node);
        }
    }

    add(merged, node) {
        merged.places.push(node);
        merged.total += this.profile.total[node];
        merged.count += this.profile.count[node];
    }

    split(merged) {
        const by_frame = new Map();
        for (const node of merged.places) {
            for (const child of this.profile.children(node)) {
                const frame = this.profile.frame[child];
                if (!by_frame.has(frame)) {
                    by_frame.set(frame, new Merged(frame, merged));
                }
                this.add(by_frame.get(frame), child);
            }
        }
        return by_frame;
    }
}

/** Who calls the frames at these places, outwards; each place has a weight. */
class Callers extends MergedTree {
    constructor(profile, frame) {
        super(profile);
        this.root = new Merged(frame, null);
        this.root.weights = [];
    }

    add(merged, node, period, samples) {
        merged.places.push(node);
        merged.weights.push(period, samples);
        merged.total += period;
        merged.count += samples;
    }

    split(merged) {
        const by_frame = new Map();
        merged.places.forEach((node, index) => {
            const outer = merged.is_start ? node : this.profile.parent[node];
            if (outer <= ROOT) {
                return;
            }
            const frame = this.profile.frame[outer];
            if (!by_frame.has(frame)) {
                const made = new Merged(frame, merged);
                made.weights = [];
                by_frame.set(frame, made);
            }
            this.add(by_frame.get(frame), outer, merged.weights[2 * index], merged.weights[2 * index + 1]);
        });
        return by_frame;
    }
}

/** Where a function is called that is not called by itself further out. */
function* outermost_calls(profile, frame) {
    const places = [];
    for (let node = 1, steps = 0; node < profile.nodes; steps++) {
        if (steps % PIECE === 0) {
            yield;
        }
        if (profile.frame[node] === frame) {
            if (profile.total[node] > 0) {
                places.push(node);
            }
            node = profile.end[node];
        } else {
            node++;
        }
    }
    return places;
}

/** The callers of a function and what it calls; `null` if nothing that is
 * shown calls it. */
function* sandwich(profile, frame) {
    const places = yield* outermost_calls(profile, frame);
    if (places.length === 0) {
        return null;
    }
    const callers = new Callers(profile, frame);
    for (const node of places) {
        callers.add(callers.root, node, profile.total[node], profile.count[node]);
    }
    return { callers, callees: new Callees(profile, places) };
}

/** All stacks turned around: leaves first. */
function* reversed(profile) {
    const tree = new Callers(profile, -1);
    tree.root.is_start = true;
    for (let node = 1; node < profile.nodes; node++) {
        if (node % PIECE === 0) {
            yield;
        }
        if (profile.own[node] > 0) {
            tree.add(tree.root, node, profile.own[node], profile.own_count[node]);
        }
    }
    return tree;
}
