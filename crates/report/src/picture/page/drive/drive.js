// Uses every control of the page and of the SVG that the tests beside it make of
// a small profile, in headless Chromium; LANES is a page of a recording with waits:
// node drive.js PAGE SVG LANES [FOLDER FOR PICTURES]
"use strict";
const assert = require("node:assert");
const path = require("node:path");
const { Browser } = require("./browser.js");

const [file, svg, lanes, folder] = process.argv.slice(2);

async function picture(page, name) {
    if (folder) {
        await page.picture(path.join(folder, `${name}.png`));
    }
}

/** Clicks on the middle of an element. */
async function press(page, selector) {
    const place = await page.eval(`(() => { const box = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; })()`);
    await page.click(...place);
}

/** Chooses the option of a list whose text begins so. */
function choose(page, id, start) {
    return page.eval(`(() => { const list = document.getElementById("${id}");
        list.value = [...list.options].find((option) => option.text.startsWith("${start}")).value;
        list.dispatchEvent(new Event("change")); })()`);
}

const text = (page, id) => page.eval(`document.getElementById("${id}").textContent`);
const name_of = (node, id) => `profile_page.profile.name_of(profile_page.${id}.source.frame(${node}))`;
/** The frame that is as wide as the window. */
const zoomed = (page, id = "graph") => page.eval(name_of(`profile_page.${id}.zoomed`, id));
const focused = (page) => page.eval(name_of("profile_page.graph.focused.node", "graph"));
/** The middle of the box of a function. */
const box_of = (page, name, id = "graph") => page.eval(`(() => { const flame = profile_page.${id};
    const frame = profile_page.profile.names.indexOf("${name}");
    const row = flame.rows.findIndex((boxes) => boxes.some((box) => flame.source.frame(box.node) === frame));
    const box = flame.rows[row].find((box) => flame.source.frame(box.node) === frame);
    const place = flame.canvas.getBoundingClientRect();
    return [place.x + box.x + box.width / 2, place.y + flame.top(row) + 8]; })()`);

/** Names are text wherever they stand. */
const HOSTILE = "<img src=x onerror=alert(1)>";

const steps = {
    async "the root is in sight, whatever the window"(page) {
        for (const [width, height] of [[2560, 1440], [1920, 1080], [800, 600], [400, 500], [1200, 800]]) {
            await page.resize(width, height);
            await page.until("profile_page.graph.width === document.getElementById('graph').clientWidth"
                + ` && innerWidth === ${width}`);
            await page.eval("profile_page.graph.to_root()");
            const [, y] = await page.eval(`(() => { const flame = profile_page.graph;
                return [0, flame.canvas.getBoundingClientRect().y + flame.top(0) + 8]; })()`);
            assert(y > 0 && y < height, `${y} of ${height}`);
            assert(await page.eval("document.documentElement.scrollWidth") <= width, `wider than ${width}`);
            await picture(page, `graph-${width}`);
        }
    },

    async "a click zooms; Escape, clicks and buttons go back"(page) {
        await page.click(...await box_of(page, "parse"));
        assert.strictEqual(await zoomed(page), "parse");
        await page.click(...await box_of(page, "main"));
        assert.strictEqual(await zoomed(page), "main");
        await page.key("Escape");
        assert.strictEqual(await zoomed(page), "parse");
        await press(page, "#back");
        assert.strictEqual(await zoomed(page), "all");
        await page.click(...await box_of(page, "worker"));
        assert.match(await text(page, "chosen"), / · 100\.00 % of what is zoomed$/);
        await press(page, "#whole");
        assert.strictEqual(await zoomed(page), "all");
        assert.match(await text(page, "chosen"), /^worker · /);
        assert.doesNotMatch(await text(page, "chosen"), /zoomed/);
    },

    async "what is pointed at is told"(page) {
        const [x, y] = await box_of(page, "parse");
        await page.mouse("mouseMoved", x, y, { button: "none" });
        await page.until("!document.getElementById('tip').hidden");
        assert.match(await text(page, "tip"), /^parseapp, user40\.00 % of all: 40 events, 2 samples20\.00 % itself: 20 eventsfunction's 95 % interval: \d+\.\d-\d+\.\d % itself, \d+\.\d-\d+\.\d % in all$/);
        await page.mouse("mouseMoved", x, 2, { button: "none" });
        await page.until("document.getElementById('tip').hidden");
    },

    async "keys walk over the graph"(page) {
        await page.eval("profile_page.graph.canvas.focus()");
        await page.key("ArrowUp");
        await page.key("ArrowUp");
        assert.strictEqual(await focused(page), "main");
        await page.key("ArrowUp");
        assert.strictEqual(await focused(page), "parse");
        assert.match(await text(page, "chosen"), /^parse · app, user · 40\.00 % of all/);
        await page.key("ArrowLeft");
        assert.strictEqual(await focused(page), "do_syscall_64");
        await page.key("Enter");
        assert.strictEqual(await zoomed(page), "do_syscall_64");
        await page.key("Escape");
        assert.strictEqual(await zoomed(page), "all");
    },

    async "a search is marked and told; a wrong pattern is no error"(page) {
        await page.key("/");
        await page.type("^par|step");
        await page.until("document.getElementById('found').textContent.startsWith('2 functions found, in 40.00 %: 40 events, 2 samples')");
        await picture(page, "search");
        await page.type("[");
        await page.until("document.getElementById('found').textContent.startsWith('searched as it stands, since it is no regular expression: 0 functions found')");
        assert(await page.eval("pattern_of('{closure').pattern.test('a::{Closure#0}') && pattern_of('{closure').is_text"));
        assert.strictEqual(await page.eval(`"\\\\^$.*+?()[]{}|/".replace(pattern_of("\\\\^$.*+?()[]{}|/").pattern, "")`), "");
        await page.key("Escape");
        await page.until("profile_page.found === null && document.getElementById('found').textContent === ''");
        await page.eval("document.activeElement.blur()");
    },

    async "keys and buttons go from match to match in each view"(page) {
        const at = async (place, name) => {
            await page.until(`document.getElementById('match').textContent === ${JSON.stringify(place)}`);
            assert.strictEqual(await page.eval("profile_page.profile.name_of(profile_page.chosen)"), name);
        };
        await page.key("/");
        await page.type("^par|step");
        // Also before what was typed is searched.
        await page.key("Enter");
        await at("1 of 2", "parse");
        assert.strictEqual(await focused(page), "parse");
        await page.key("Enter");
        await at("2 of 2", "step");
        await page.key("Enter");
        await at("1 of 2", "parse");
        await page.key("Enter", 8);
        await at("2 of 2", "step");
        await page.eval("document.activeElement.blur()");
        await page.key("N");
        await at("1 of 2", "parse");
        await page.key("n");
        await at("2 of 2", "step");
        await press(page, "#next");
        await at("1 of 2", "parse");
        await press(page, "#previous");
        await at("2 of 2", "step");
        // In a window of another width the place is kept.
        for (const width of [900, 1200]) {
            await page.resize(width, 800);
            await page.until(`innerWidth === ${width} && profile_page.graph.width === profile_page.graph.holder.clientWidth`);
            assert.strictEqual(await focused(page), "step");
        }
        await picture(page, "match");
        await page.eval("document.activeElement.blur()");
        await page.key("2");
        await page.until("profile_page.table.list.count === 2");
        await page.key("n");
        await page.key("n");
        const [first, second] = await page.eval("profile_page.table.order.map((frame) => profile_page.profile.name_of(frame))");
        await page.until("/^[12] of 2$/.test(document.getElementById('match').textContent)");
        const here = await text(page, "match") === "1 of 2" ? first : second;
        assert.strictEqual(await text(page, "chosen"), here);
        await page.key("3");
        await page.until("profile_page.calls.rows.length > 1");
        // Also in what is closed.
        await page.eval("profile_page.calls.toggle(0)");
        await page.key("n");
        await at("1 of 2", "parse");
        await page.key("n");
        await at("2 of 2", "step");
        await page.key("n");
        await at("1 of 2", "parse");
        assert.strictEqual(await page.eval("[...document.querySelectorAll('#calls .row.found:not([hidden])')].length"), 2);
        await picture(page, "match-tree");
        await page.eval("profile_page.calls.toggle(0), profile_page.calls.list.go(0)");
        await page.key("N");
        await at("2 of 2", "step");
        await page.key("s");
        await page.until("!document.getElementById('view-sandwich').hidden && profile_page.callers.source");
        await page.key("n");
        await page.until("/^1 of [2-9]$/.test(document.getElementById('match').textContent)");
        await picture(page, "match-sandwich");
        await page.eval("document.getElementById('search').value = '', profile_page.search()");
        await page.until("profile_page.found === null && document.getElementById('matches').hidden");
        await page.key("n");
        await page.key("1");
    },

    async "stacks are drawn in three ways"(page) {
        await choose(page, "order", "callers above");
        const top = await page.eval("profile_page.graph.top(0)");
        assert(top >= 0 && top < 20, `${top}`);
        await choose(page, "order", "stacks turned");
        await page.until("profile_page.graph.source !== profile_page.tree_source");
        await page.click(...await box_of(page, "step"));
        assert.strictEqual(await zoomed(page), "step");
        assert.strictEqual(await page.eval("profile_page.graph.rows.length"), 5);
        await picture(page, "reversed");
        await choose(page, "order", "callers below");
        await page.until("profile_page.graph.source === profile_page.tree_source");
    },

    async "the table is sorted by a click and opens callers and callees"(page) {
        await page.key("2");
        const first = () => page.eval("document.querySelector('#functions .row .name').textContent");
        await page.until("document.querySelector('#functions .row .name')");
        assert.strictEqual(await first(), "do_work");
        assert.strictEqual(await page.eval("document.querySelector('.head .own').ariaSort"), "descending");
        const intervals = () => page.eval("[...document.querySelectorAll('#functions .row:first-child .interval')].map((cell) => cell.textContent)");
        for (const interval of await intervals()) {
            const [low, high] = interval.match(/^(\d+\.\d)-(\d+\.\d) %$/).slice(1).map(Number);
            assert(low < 40 && high > 40, interval);
        }
        // A function's name has room in every window.
        for (const width of [2560, 1120, 1000, 800, 600, 1200]) {
            await page.resize(width, 800);
            await page.until(`innerWidth === ${width}`);
            const room = await page.eval("document.querySelector('#functions .row .name').clientWidth");
            assert(room > 150, `${room} px for names at ${width}`);
        }
        await choose(page, "thread", "worker 9");
        await page.until("profile_page.profile.total[0] === 20 && document.querySelector('#functions .interval').textContent === ''");
        await choose(page, "thread", "all");
        await page.until("profile_page.profile.total[0] === 100 && document.querySelector('#functions .interval').textContent !== ''");
        await press(page, "#table .head .total button");
        assert.strictEqual(await first(), "main");
        await press(page, "#table .head .name button");
        assert.strictEqual(await first(), "do_syscall_64");
        await press(page, "#table .head .name button");
        assert.strictEqual(await first(), "step");
        await picture(page, "table");
        await page.eval("document.getElementById('functions').focus()");
        await page.key("Enter");
        await page.until("!document.getElementById('view-sandwich').hidden && profile_page.callers.source");
        assert.strictEqual(await text(page, "sandwiched"), "step");
        assert.strictEqual(await page.eval("profile_page.callers.rows.length"), 4);
        await picture(page, "sandwich");
        await page.click(...await box_of(page, "main", "callers"));
        assert.strictEqual(await zoomed(page, "callers"), "main");
    },

    async "the call tree opens and closes by keys"(page) {
        await page.key("3");
        await page.until("document.querySelector('#calls .row')");
        await picture(page, "tree");
        const rows = () => page.eval("profile_page.calls.rows.length");
        const all = await rows();
        await page.eval("document.getElementById('calls').focus()");
        await page.key("ArrowLeft");
        assert.strictEqual(await rows(), 1);
        await page.key("ArrowRight");
        assert(await rows() > 1 && await rows() <= all);
        await page.key("ArrowRight");
        await page.key("End");
        await page.key("Home");
        assert.strictEqual(await page.eval("profile_page.calls.list.at"), 0);
        await page.key("ArrowDown");
        await page.key("ArrowDown");
        await page.key("s");
        await page.until("!document.getElementById('view-sandwich').hidden");
    },

    async "keys that move go to the view, and what was chosen goes with them"(page) {
        const chosen = () => page.eval("profile_page.profile.name_of(profile_page.chosen)");
        await page.eval("document.activeElement.blur()");
        await page.key("2");
        await page.until("!document.getElementById('view-table').hidden && profile_page.table.list.count > 3");
        await page.key("Home");
        const first = await chosen();
        await page.key("ArrowDown");
        await page.key("ArrowDown");
        const third = await chosen();
        assert.notStrictEqual(third, first);
        assert.strictEqual(await text(page, "chosen"), third);
        await page.key("s");
        await page.until(`document.getElementById("sandwiched").textContent === ${JSON.stringify(third)}`);
        // The table is where it was left; sorted otherwise, it begins at its top.
        await page.eval("document.getElementById('tab-table').focus()");
        await page.key("2");
        assert.strictEqual(await page.eval("document.querySelector('#functions [aria-selected=true] .name').textContent"), third);
        await page.key("1");
        await page.click(...await box_of(page, "parse"));
        await page.key("Escape");
        await press(page, "#tab-table");
        assert.strictEqual(await page.eval("document.querySelector('#functions [aria-selected=true] .name').textContent"), "parse");
        await page.key("PageUp");
        assert.strictEqual(await chosen(), first);
        await press(page, "#tab-tree");
        await page.key("ArrowDown");
        assert.strictEqual(await page.eval("profile_page.calls.list.at"), 1);
        await page.key("1");
    },

    async "what is told of a box is told anew under other filters"(page) {
        await page.click(...await box_of(page, "parse"));
        assert.match(await text(page, "chosen"), /^parse · app, user · 40\.00 % of all: 40 events/);
        await choose(page, "thread", "<img");
        await page.until("profile_page.profile.total[0] === 60");
        assert.match(await text(page, "chosen"), /^parse · app, user · 66\.67 % of all: 40 events/);
        await choose(page, "thread", "all");
        await page.until("profile_page.profile.total[0] === 100");
        await page.key("Escape");
        await page.eval("document.activeElement.blur()");
    },

    async "long names are short by their model where they have no room"(page) {
        const forms = ["py::Job.run:job.py", "py::Job.run", "Job.run", "run"];
        const within = (name, forms, room) => page.eval(`short_name(
            { name_of: () => ${JSON.stringify(name)}, forms_of: () => ${JSON.stringify(forms)} },
            0, (text) => text.length <= ${room})`);
        for (const [name, forms_of_it, room, expected] of [
            ["py::Job.run:/srv/my app/job.py", forms, 20, "py::Job.run:job.py"],
            ["py::Job.run:/srv/my app/job.py", forms, 6, "run"],
            ["py::Job.run:/srv/my app/job.py", forms, 2, "r…"],
            ["do_syscall_64", [], 8, "do_sysc…"],
            ["do_syscall_64", [], 13, "do_syscall_64"],
        ]) {
            assert.strictEqual(await within(name, forms_of_it, room), expected);
        }
        assert(await page.eval("profile_page.profile.names.every((_, frame) => Array.isArray(profile_page.profile.forms_of(frame)))"));
        const shorter = await page.eval(`name_cell(profile_page.profile, profile_page.profile.names.indexOf("do_syscall_64"), 40).textContent`);
        assert.match(shorter, /^do_.*…$/);
    },

    async "names are text"(page) {
        assert(await page.eval(`document.body.innerText.includes(${JSON.stringify(HOSTILE)})`));
        assert.strictEqual(await page.eval("document.images.length"), 0);
    },

    async "filters leave out what they say, in every view"(page) {
        await page.key("1");
        await choose(page, "thread", "worker (2 threads)");
        await page.until("profile_page.profile.total[0] === 40");
        await choose(page, "thread", "worker 9");
        await page.until("profile_page.profile.total[0] === 20");
        await choose(page, "thread", "all");
        await choose(page, "module", "[kernel");
        await page.until("profile_page.profile.total[0] === 20");
        await choose(page, "module", "all");
        await page.until("profile_page.profile.total[0] === 100");
        for (const part of ["user", "kernel", "inlined"]) {
            await page.eval(`[...document.querySelectorAll("#kinds label")].find((label) => label.textContent === "${part}").click()`);
        }
        await page.until("!document.getElementById('nothing').hidden");
        await press(page, "#nothing button");
        await page.until("document.getElementById('nothing').hidden && profile_page.profile.total[0] === 100");
    },

    async "a part of the time is chosen by mouse and keys"(page) {
        const [left, y, width] = await page.eval("(() => { const box = document.querySelector('#time canvas').getBoundingClientRect(); return [box.x, box.y + 10, box.width]; })()");
        await page.drag(left + 2, y, left + width * 0.45);
        await page.until("profile_page.profile.total[0] === 60");
        assert.match(await page.eval("document.querySelector('#time .range').textContent"), /^from 0\.000 s to 0\.0/);
        await picture(page, "time");
        await page.eval("document.querySelector('#time canvas').focus()");
        for (let times = 0; times < 30; times++) {
            await page.key("ArrowRight");
        }
        await page.until("profile_page.profile.total[0] === 40 && profile_page.profile.filter.time[0] > 400");
        await page.key("Escape");
        await page.until("profile_page.profile.total[0] === 100");
    },

    async "themes follow the system or the button"(page) {
        const ground = () => page.eval("getComputedStyle(document.body).backgroundColor");
        const light = await ground();
        await page.scheme("dark");
        const dark = await ground();
        assert.notStrictEqual(light, dark);
        await picture(page, "dark");
        await press(page, "#theme");
        assert.strictEqual(await ground(), light);
        await press(page, "#theme");
        await page.scheme("light");
        assert.strictEqual(await ground(), dark);
        await press(page, "#theme");
        assert.strictEqual(await ground(), light);
    },

    async "names can be read where a search dims them, also in the dark"(page) {
        await page.eval("document.getElementById('search').value = 'nothing of all', profile_page.search()");
        await page.until("profile_page.found !== null");
        for (const scheme of ["light", "dark"]) {
            await page.scheme(scheme);
            await page.until(`look().ink === getComputedStyle(document.documentElement).getPropertyValue("--ink").trim()`);
            for (const name of ["parse", "do_syscall_64", "all"]) {
                const contrast = await page.eval(`(() => { const flame = profile_page.graph;
                    const box = flame.rows.flat().find((box) => profile_page.profile.name_of(flame.source.frame(box.node)) === "${name}");
                    const row = flame.rows.findIndex((boxes) => boxes.includes(box));
                    const copy = document.createElement("canvas");
                    [copy.width, copy.height] = [Math.min(box.width - 4, 80), 14];
                    const pen = copy.getContext("2d", { willReadFrequently: true });
                    pen.drawImage(flame.canvas, -box.x - 2, -flame.top(row) - 2);
                    const { data } = pen.getImageData(0, 0, copy.width, copy.height);
                    const page = getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number);
                    // The canvas lets the page through.
                    const linear = (value, index, alpha) => ((value * alpha + page[index] * (1 - alpha)) / 255) ** 2.2;
                    const seen = (index) => [0.2126, 0.7152, 0.0722].reduce((sum, part, colour) =>
                        sum + part * linear(data[index + colour], colour, data[index + 3] / 255), 0);
                    const ground = seen(0);
                    let most = 1;
                    for (let index = 0; index < data.length; index += 4) {
                        const [low, high] = [ground, seen(index)].sort((a, b) => a - b);
                        most = Math.max(most, (high + 0.05) / (low + 0.05));
                    }
                    return most; })()`);
                assert(contrast > 4.5, `${name}, ${scheme}: ${contrast.toFixed(1)}`);
            }
        }
        await page.scheme("light");
        await page.eval("document.getElementById('search').value = '', profile_page.search()");
        await page.until("profile_page.found === null");
    },

    async "on paper no theme is dark"(page) {
        const dataset = "document.documentElement.dataset";
        await page.eval(`${dataset}.theme = "dark"`);
        for (const [media, ground] of [["screen", "rgb(23, 25, 28)"], ["print", "rgb(255, 255, 255)"]]) {
            await page.send("Emulation.setEmulatedMedia", { media });
            assert.strictEqual(await page.eval("getComputedStyle(document.body).backgroundColor"), ground, media);
        }
        await page.send("Emulation.setEmulatedMedia", { media: "" });
        await page.eval(`${dataset}.theme = "auto"`);
    },

    async "the outermost callers stay in sight in a window that gets lower or higher"(page) {
        const style = "document.getElementById('graph').style";
        await page.eval(`${style}.flex = "none", ${style}.height = "60px"`);
        await page.until("profile_page.graph.height === 60");
        await page.eval("profile_page.graph.to_root()");
        await page.eval(`${style}.height = "45px"`);
        await page.until("profile_page.graph.height === 45");
        assert(await page.eval("profile_page.graph.top(0) + 19") <= 45, `${await page.eval("profile_page.graph.top(0)")}`);
        for (const height of [25, 55]) {
            await page.eval(`${style}.height = "${height}px"`);
            await page.until(`profile_page.graph.height === ${height}`);
            const bottom = await page.eval("profile_page.graph.top(0) + 19");
            assert(bottom > height - 4 && bottom <= height, `${bottom} of ${height}`);
        }
        await page.eval(`${style}.flex = ${style}.height = ""`);
        await page.until("profile_page.graph.height > 100");
    },

    async "samples without weight are no fault of filters"(page) {
        const hidden = (id) => page.eval(`document.getElementById("${id}").hidden`);
        await page.eval(`{ const { profile } = profile_page; window.weights = profile.row_period.slice();
            profile.row_period.fill(0); profile_page.refilter({}); }`);
        await page.until("profile_page.profile.total[0] === 0 && profile_page.work.generator === null");
        assert.deepStrictEqual([await hidden("weightless"), await hidden("nothing")], [false, true]);
        await page.eval("profile_page.profile.row_period.set(weights), profile_page.refilter({})");
        await page.until("profile_page.profile.total[0] === 100 && profile_page.work.generator === null");
        assert.deepStrictEqual([await hidden("weightless"), await hidden("nothing")], [true, true]);
    },

    async "controls have names, tabs are tabs"(page) {
        const nameless = await page.eval(`[...document.querySelectorAll("button, input, select, canvas, [role=grid], [role=treegrid]")]
            .filter((each) => !each.textContent && !each.ariaLabel && !each.labels?.length).map((each) => each.outerHTML)`);
        assert.deepStrictEqual(nameless, []);
        await page.eval("document.getElementById('tab-graph').focus()");
        await page.key("ArrowRight");
        assert.strictEqual(await page.eval("document.activeElement.id"), "tab-table");
        assert(await page.eval("document.getElementById('view-graph').hidden"));
        await page.key("ArrowLeft");
    },
};

/** The place of a time, in ms of 100, in a lane. */
const in_lane = (page, lane, ms) => page.eval(`(() => { const box = document.querySelector("canvas.lanes").getBoundingClientRect();
    return [box.x + box.width * ${ms} / 100, box.y + 16 * ${lane} + 8]; })()`);
const names_shown = (page) => page.eval("[...profile_page.profile.total].flatMap((sum, node) => node && sum"
    + " ? [profile_page.profile.name_of(profile_page.profile.frame[node])] : [])");

const lane_steps = {
    async "a lane tells what its thread did, and its life"(page) {
        await picture(page, "lanes");
        const labels = () => page.eval("[...document.querySelectorAll('.labels div')].map((each) => each.textContent)");
        assert.deepStrictEqual(await labels(), ["main 7", "worker 8"]);
        await page.mouse("mouseMoved", ...await in_lane(page, 0, 50), { button: "none" });
        await page.until("!document.getElementById('tip').hidden");
        assert.match(await text(page, "tip"), /^main 7: futexfrom 0\.020 s to 0\.080 s, most of itlived 100 ms: futex 60\.0 ms, running 40\.0 ms$/);
        await page.mouse("mouseMoved", ...await in_lane(page, 1, 90), { button: "none" });
        assert.match(await text(page, "tip"), /^worker 8lived 20\.0 ms: running 17\.0 ms, for a CPU 3\.00 ms$/);
        assert.strictEqual(await page.eval("document.querySelector('.legend').textContent"), "runningfor a CPUfutex");
        const colours = await page.eval("[...document.querySelectorAll('.legend .mark')].map((each) => each.style.backgroundColor)");
        assert.strictEqual(new Set(colours).size, 3);
    },

    async "a span shows its stacks, by mouse and by keys"(page) {
        await page.click(...await in_lane(page, 0, 50));
        await page.until("profile_page.profile.total[0] === 60e6");
        const of_wait = await names_shown(page);
        assert(of_wait.includes("get_lock") && !of_wait.includes("parse"), of_wait.join());
        await page.click(...await in_lane(page, 0, 10));
        await page.until("profile_page.profile.total[0] === 10e6");
        assert((await names_shown(page)).includes("parse"));
        await page.eval("profile_page.clear_filters()");
        await page.until("profile_page.profile.total[0] === 83e6");
        await page.eval("document.querySelector('canvas.lanes').focus()");
        for (const key of ["ArrowDown", "ArrowUp", "ArrowRight"]) {
            await page.key(key);
        }
        assert.match(await text(page, "chosen"), /^main 7: futex · from/);
        await page.key("Enter");
        await page.until("profile_page.profile.total[0] === 60e6");
        await picture(page, "lanes-chosen");
        await page.scheme("dark");
        await picture(page, "lanes-dark");
    },

    async "keys lead to lanes in sight, also where threads are many"(page) {
        await page.eval(`(() => { const { lanes } = profile_page;
            for (let more = 0; more < 60; more++) lanes.lanes.push(lanes.lanes[1]);
            lanes.canvas.style.height = (16 * lanes.lanes.length) + "px"; })()`);
        await page.eval("document.querySelector('canvas.lanes').focus()");
        for (const [key, lane] of [["End", 61], ["ArrowUp", 60], ["Home", 0], ["ArrowDown", 1]]) {
            await page.key(key);
            const [top, above, below] = await page.eval(`(() => {
                const place = (selector) => document.querySelector(selector).getBoundingClientRect();
                return [place("canvas.lanes").top + 16 * profile_page.lanes.at.lane, place("#time > canvas").bottom, place("#time .below").top]; })()`);
            assert.strictEqual(await page.eval("profile_page.lanes.at.lane"), lane);
            assert(top >= above - 1 && top + 16 <= below + 1, `${key}: ${top}, not in ${above} to ${below}`);
        }
        // A thread of which nothing is known has nothing to choose.
        await page.eval("profile_page.lanes.lanes[2] = { ...profile_page.lanes.lanes[2], runs: [] }");
        await page.key("ArrowDown");
        await page.key("ArrowRight");
        await page.key("Enter");
        assert.match(await text(page, "chosen"), /^worker 8 · lived/);
    },
};

/** The frame of an SVG with this name. */
const group = (name) => `[...frames.children].find((each) => each.querySelector("title").textContent.startsWith("${name} ("))`;
const details = (page) => page.eval("details.nodeValue");

const svg_steps = {
    async "its lines have room in every window"(page) {
        for (const width of [2560, 1200, 800, 400]) {
            await page.resize(width, 600);
            await page.until(`svg.width.baseVal.value === ${width} && Number(searchbtn.getAttribute("x")) === ${width} - xpad`);
            await picture(page, `svg-${width}`);
            const edges = await page.eval(`[...document.querySelectorAll(".subtitle, .legend")].map((line) => {
                const box = line.getBoundingClientRect(); return [box.left, box.right]; })`);
            assert(edges.length >= 2 && edges.every(([left, right]) => left >= 0 && right <= width), JSON.stringify(edges));
            const [title, search] = await page.eval("[document.getElementById('title').getBoundingClientRect().right, searchbtn.getBoundingClientRect().left]");
            assert(title <= search, `the title ends at ${title}, the search begins at ${search}`);
            // The outermost frame is in sight, and so is what tells and searches.
            for (const part of [group("all"), "searchbtn", "details.parentNode"]) {
                const [top, bottom] = await page.eval(`(() => { const box = ${part}.getBoundingClientRect(); return [box.top, box.bottom]; })()`);
                assert(top >= 0 && bottom <= 600, `${part} at ${width}: ${top} to ${bottom}`);
            }
        }
        await page.resize(1200, 600);
    },

    async "no frame is seen behind what tells and searches"(page) {
        for (const width of [2560, 1280, 400]) {
            // Lower than the picture, which opens at its bottom.
            await page.resize(width, 150);
            // Its scroll bar takes some of the width.
            await page.until(`innerWidth === ${width} && innerHeight === 150`
                + " && Number(searchbtn.getAttribute('x')) === svg.width.baseVal.value - xpad");
            await page.eval("show_root(), follow()");
            await page.until("scrollY > 0");
            await picture(page, `svg-low-${width}`);
            for (const control of ["searchbtn", "matchedtxt", "details.parentNode"]) {
                const behind = await page.eval(`(() => { const box = ${control}.getBoundingClientRect();
                    const seen = [[box.left + 1, box.top + 1], [box.right - 1, box.bottom - 1]]
                        .map(([x, y]) => document.elementsFromPoint(x, y).find((each) => each.matches("rect, svg")));
                    return seen.map((each) => frames.contains(each)); })()`);
                assert.deepStrictEqual(behind, [false, false], `${control} at ${width}`);
            }
            // Keys do not lead below them.
            for (const key of ["ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp"]) {
                await page.key(key);
                const [top, bottom] = await page.eval("(() => { const box = cursor.getBoundingClientRect(); return [box.top, box.bottom]; })()");
                const [least, most] = await page.eval("[height_of(bands.above), innerHeight - height_of(bands.below)]");
                assert(top >= least - 1 && bottom <= most + 1, `${top} to ${bottom} at ${width}, not in ${least} to ${most}`);
            }
            await page.eval("cursor.classList.remove('cursor'), cursor = null, details.nodeValue = ' '");
        }
        await page.resize(1200, 600);
    },

    async "keys walk over its frames and zoom"(page) {
        await page.key("ArrowUp");
        assert.match(await details(page), /^Function: all \(/);
        await page.key("ArrowUp");
        await page.key("ArrowUp");
        await page.key("ArrowUp");
        assert.match(await details(page), /^Function: parse \(40 .*; function's 95 %: self \d+\.\d-\d+\.\d%, total \d+\.\d-\d+\.\d%\)$/);
        await page.key("ArrowLeft");
        assert.match(await details(page), /^Function: do_syscall_64 \(/);
        await page.key("ArrowRight");
        await page.key("ArrowDown");
        await page.key("Enter");
        assert(!await page.eval("unzoombtn.classList.contains('hide')"));
        assert(await page.eval(`${group("do_work")}.classList.contains("hide")`));
        await page.key("Escape");
        assert(await page.eval("unzoombtn.classList.contains('hide')"));
    },

    async "a click zooms, a wrong pattern is told"(page) {
        const place = await page.eval(`(() => { const box = ${group("parse")}.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; })()`);
        await page.click(...place);
        assert(await page.eval(`${group("do_work")}.classList.contains("hide")`));
        await page.eval("unzoom()");
        await page.eval("search('[')");
        assert.strictEqual(await page.eval("matchedtxt.textContent"), "Not a regular expression: [");
        await page.eval("search('self|events')");
        assert.match(await page.eval("matchedtxt.textContent"), /^No match/);
        await page.eval("search('^parse')");
        assert.strictEqual(await page.eval("matchedtxt.textContent"), "Matched: 40.0%");
    },
};

/** Opens a file and takes the steps; the console stays empty. */
async function take(browser, file, ready, steps) {
    const page = await browser.page(1200, 800);
    await page.open(file);
    await page.until(ready);
    for (const [name, step] of Object.entries(steps)) {
        try {
            await step(page);
            assert.deepStrictEqual(page.errors, [], "the console says something");
        } catch (error) {
            await picture(page, "failed");
            throw new Error(`${name}: ${error.stack}`);
        }
    }
}

async function main() {
    const browser = new Browser();
    try {
        await take(browser, file, "document.body.dataset.state === 'ready' && profile_page.profile.total[0] === 100", steps);
        await take(browser, lanes, "document.body.dataset.state === 'ready' && profile_page.lanes", lane_steps);
        await take(browser, svg, "window.frames && !document.querySelector('svg').hasAttribute('viewBox')", svg_steps);
    } finally {
        await browser.close();
    }
}

main().then(() => console.log("ok"), (error) => {
    console.log(error.message);
    process.exitCode = 1;
});
