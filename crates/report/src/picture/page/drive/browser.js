// Headless Chromium by its debugging pipe: no library is needed.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

class Browser {
    constructor() {
        this.folder = fs.mkdtempSync(path.join(os.tmpdir(), "prof-page-"));
        // Speedscope draws by WebGL, here without a graphics card.
        const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage",
            "--remote-debugging-pipe", `--user-data-dir=${this.folder}`, "about:blank"];
        // What it leaves when it is killed goes with the folder.
        const env = { ...process.env, TMPDIR: this.folder };
        this.child = spawn("chromium", options, { env, stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
        this.ended = new Promise((resolve) => this.child.on("close", resolve));
        this.waiting = new Map();
        this.pages = [];
        this.last = 0;
        let text = "";
        this.child.stdio[4].on("data", (data) => {
            text += data;
            const messages = text.split("\0");
            text = messages.pop();
            messages.forEach((message) => this.take(JSON.parse(message)));
        });
    }

    take(message) {
        if (message.id === undefined) {
            this.pages.filter((page) => page.session === message.sessionId).forEach((page) => page.take(message));
            return;
        }
        const { resolve, reject } = this.waiting.get(message.id);
        this.waiting.delete(message.id);
        if (message.error) {
            reject(new Error(JSON.stringify(message.error)));
        } else {
            resolve(message.result);
        }
    }

    send(method, params = {}, sessionId = undefined) {
        const id = ++this.last;
        return new Promise((resolve, reject) => {
            this.waiting.set(id, { resolve, reject });
            this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
        });
    }

    async page(width, height) {
        const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
        const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
        const page = new Page(this, sessionId);
        this.pages.push(page);
        await Promise.all(["Page.enable", "Runtime.enable", "Log.enable"].map((method) => page.send(method)));
        await page.resize(width, height);
        return page;
    }

    async close() {
        this.child.kill("SIGKILL");
        await this.ended;
        // Its other processes end when they see that it has; they write until then, also
        // into folders that are being removed, for which rmSync's own retries do not look.
        for (let left = 100; ; left--) {
            try {
                fs.rmSync(this.folder, { recursive: true, force: true });
                return;
            } catch (error) {
                if (left === 0) throw error;
                await new Promise((resolve) => setTimeout(resolve, 100));
            }
        }
    }
}

const KEYS = { Enter: 13, Escape: 27, Tab: 9, ArrowUp: 38, ArrowDown: 40, ArrowLeft: 37, ArrowRight: 39, Home: 36, End: 35 };

class Page {
    constructor(browser, session) {
        this.browser = browser;
        this.session = session;
        this.errors = [];
        this.loaded = [];
    }

    /** Whatever the console shows is a defect. */
    take({ method, params }) {
        if (method === "Runtime.exceptionThrown") {
            const { exception, text } = params.exceptionDetails;
            this.errors.push(exception?.description ?? text);
        } else if (method === "Log.entryAdded") {
            this.errors.push(params.entry.text);
        } else if (method === "Runtime.consoleAPICalled") {
            this.errors.push(params.args.map((each) => each.value).join(" "));
        } else if (method === "Page.loadEventFired") {
            this.loaded.splice(0).forEach((resolve) => resolve());
        }
    }

    send(method, params) {
        return this.browser.send(method, params, this.session);
    }

    resize(width, height) {
        return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    }

    scheme(value) {
        return this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
    }

    async open(file) {
        const loaded = new Promise((resolve) => this.loaded.push(resolve));
        await this.send("Page.navigate", { url: `file://${path.resolve(file)}` });
        await loaded;
    }

    async eval(expression) {
        const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
        if (exceptionDetails) {
            throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
        }
        return result.value;
    }

    /** Waits until an expression is true. */
    async until(expression) {
        for (let tries = 0; tries < 400; tries++) {
            if (await this.eval(`Boolean(${expression})`)) {
                return;
            }
            await new Promise((resolve) => setTimeout(resolve, 25));
        }
        throw new Error(`never true: ${expression}; it has ${JSON.stringify(await this.eval("document.body.innerText"))}`);
    }

    mouse(type, x, y, more = {}) {
        return this.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1, ...more });
    }

    async click(x, y) {
        await this.mouse("mouseMoved", x, y, { button: "none" });
        await this.mouse("mousePressed", x, y);
        await this.mouse("mouseReleased", x, y);
    }

    async drag(x, y, to) {
        await this.mouse("mousePressed", x, y);
        for (let step = 1; step <= 4; step++) {
            await this.mouse("mouseMoved", x + (to - x) * step / 4, y, { buttons: 1 });
        }
        await this.mouse("mouseReleased", to, y);
    }

    async key(key, modifiers = 0) {
        const text = key.length === 1 ? key : key === "Enter" ? "\r" : undefined;
        const code = KEYS[key] ?? key.toUpperCase().charCodeAt(0);
        await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, text, windowsVirtualKeyCode: code, modifiers });
        await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, windowsVirtualKeyCode: code, modifiers });
    }

    async type(text) {
        for (const sign of text) {
            await this.key(sign);
        }
    }

    async picture(file) {
        const { data } = await this.send("Page.captureScreenshot", { format: "png" });
        fs.writeFileSync(file, Buffer.from(data, "base64"));
    }
}

module.exports = { Browser };
