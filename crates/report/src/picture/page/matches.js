// From one place that a search found to the next, in the view that is open.

/** The place a step from `at`, -1 for none yet, around a list of so many. */
function stepped(at, by, count) {
    return at < 0 ? (by > 0 ? 0 : count - 1) : (at + by + count) % count;
}

/** A pattern, or the text as it stands where it is none. */
function pattern_of(text) {
    try {
        return { pattern: new RegExp(text, "iu"), is_text: false };
    } catch (error) {
        return { pattern: new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu"), is_text: true };
    }
}

/** Goes through the boxes that flame graphs draw; which one it is of how many. */
function step_boxes(flames, by) {
    const places = flames.flatMap((flame) => flame.found_boxes().map((box) => ({ flame, box })));
    const at = stepped(places.findIndex(({ flame, box }) => box === flame.focused), by, places.length);
    for (const flame of flames) {
        flame.focused = null;
        flame.draw();
    }
    if (places.length > 0) {
        places[at].flame.focus(places[at].box);
    }
    return { at, of: places.length };
}

/** Goes through the rows of a call tree, which opens where something is found
 * in what is closed. */
class TreeMatches {
    constructor(tree) {
        this.tree = tree;
        this.profile = tree.page.profile;
        this.found = tree.page.found;
        this.before = this.profile.found_before(this.found);
    }

    /** How many are in a subtree, without its root. */
    inside({ node }) {
        return node === HIDDEN ? 0 : this.before[this.profile.end[node]] - this.before[node + 1];
    }

    is_found({ node }) {
        return node > ROOT && this.before[node + 1] > this.before[node];
    }

    step(by) {
        const { list } = this.tree;
        const of = this.before[this.profile.nodes];
        let at = list.at;
        for (let turns = 0; of > 0 && turns < 2;) {
            at += by;
            if (at < 0 || at >= this.tree.rows.length) {
                turns++;
                at = by > 0 ? -1 : this.tree.rows.length;
                continue;
            }
            const row = this.tree.rows[at];
            const before = this.tree.rows.length;
            if (!row.is_open && this.inside(row) > 0) {
                this.tree.open(at);
            }
            if (by < 0 && this.tree.rows.length > before) {
                // What was opened stands behind it.
                at += this.tree.rows.length - before + 1;
            } else if (this.is_found(row)) {
                list.show(this.tree.rows.length);
                list.move(at);
                return { at: this.rank(row.node), of };
            }
        }
        list.show(this.tree.rows.length);
        return { at: -1, of };
    }

    /** How many are found before a node, in the order of rows. */
    rank(node) {
        const { profile } = this;
        let rank = 0;
        for (let caller = ROOT; caller !== node;) {
            rank += Number(this.is_found({ node: caller }));
            const callees = [...profile.children(caller)].sort((a, b) => profile.total[b] - profile.total[a]);
            for (const callee of callees) {
                if (callee <= node && node < profile.end[callee]) {
                    caller = callee;
                    break;
                }
                rank += this.before[profile.end[callee]] - this.before[callee];
            }
        }
        return rank;
    }
}
