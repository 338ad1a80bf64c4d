// Numbers and names as the page writes them, and what makes elements.

/** An element with attributes, texts and elements in it. */
function make(tag, attributes, ...inner) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value !== undefined) {
            element.setAttribute(name, value);
        }
    }
    element.append(...inner);
    return element;
}

/** A name that shows what it has of control and direction marks. */
function visible(name) {
    return name.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g,
        (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

/** A thread's name and number; what was imported may have no numbers. */
function thread_name({ name, tid }) {
    return tid > 0 ? `${visible(name)} ${tid}` : visible(name);
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** How many of them, in words. */
function several(count, what) {
    return `${grouped.format(count)} ${count === 1 ? what : `${what}s`}`;
}

function samples_of(count) {
    return several(count, "sample");
}

function share(part, whole) {
    return whole > 0 ? `${(100 * part / whole).toFixed(2)} %` : "0 %";
}

/** A period with its unit. */
function weight(period, unit) {
    if (unit !== "ns") {
        return several(period, "event");
    }
    return seconds(period);
}

/** Nanoseconds in a unit that keeps the number short. */
function seconds(ns) {
    for (const [size, word] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
        if (ns >= size) {
            const value = ns / size;
            const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
            return `${value.toFixed(digits)} ${word}`;
        }
    }
    return `${Math.round(ns)} ns`;
}

/** The name of a frame in a width: the longest of its forms that fits, else the
 * beginning of the shortest. */
function short_name(profile, frame, fits) {
    const whole = visible(profile.name_of(frame).slice(0, 1024));
    if (fits(whole)) {
        return whole;
    }
    let last = whole;
    for (const form of profile.forms_of(frame)) {
        last = visible(form);
        if (fits(last)) {
            return last;
        }
    }
    let [low, high] = [0, last.length];
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (fits(`${last.slice(0, middle)}…`)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low > 0 ? `${last.slice(0, low)}…` : "";
}
