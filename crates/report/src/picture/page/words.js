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
        return `${grouped.format(period)} events`;
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

/** A name in a width: first without what is within brackets, then without
 * leading paths, then its end gives way. */
function short_name(name, fits) {
    if (fits(name)) {
        return name;
    }
    const of_script = script_forms(name);
    const bare = of_script.at(-1) ?? without_brackets(name);
    for (const form of of_script) {
        if (fits(form)) {
            return form;
        }
    }
    for (let rest = bare; ; ) {
        if (fits(rest)) {
            return rest;
        }
        const at = rest.indexOf("::");
        if (at < 0) {
            break;
        }
        rest = rest.slice(at + 2);
        if (fits(rest)) {
            return rest;
        }
    }
    const last = bare.slice(bare.lastIndexOf("::") + 1).replace(/^:/, "") || bare;
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

/** Forms of a name of Python or V8, which lose the folders of the file, the file
 * and the runtime, as `short/scripts.rs` has them; none of other names. */
function script_forms(name) {
    const python = /^(py::)([^:]+)(:)(.*)$/s.exec(name);
    const v8 = /^(JS:|Function:|LazyCompile:|Script:|Eval:)([^ ]+)( )(.*)$/s.exec(name);
    if (!(python || v8)) {
        return [];
    }
    const [, runtime, own, between, file] = python ?? v8;
    const forms = [`${runtime}${own}`, own];
    if (file.includes("/")) {
        forms.unshift(`${runtime}${own}${between}${file.slice(file.lastIndexOf("/") + 1)}`);
    }
    const method = own.slice(own.lastIndexOf(".") + 1);
    return method !== "" && method !== own ? [...forms, method] : forms;
}

/** `<T as Trait>::f<U>(V)` as `T::f`; a name whose brackets do not match, as
 * it is. */
function without_brackets(name) {
    const qualified = /^<(?:&?(?:mut )?)?([^<> ]+)(?: as [^<>]+)?>::(.+)$/.exec(name);
    const text = qualified ? `${qualified[1]}::${qualified[2]}` : name;
    let out = "";
    let depth = 0;
    for (let index = 0; index < text.length; index++) {
        const sign = text[index];
        if ((sign === "<" || sign === "(") && index > 0 && !out.endsWith("operator")) {
            depth++;
        } else if ((sign === ">" || sign === ")") && depth > 0) {
            depth--;
        } else if (depth === 0) {
            out += sign;
        }
    }
    out = out.replace(/:{4}/g, "::").replace(/::$/, "");
    return depth === 0 && out !== "" ? out : name;
}
