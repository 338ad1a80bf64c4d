// Opens a file with speedscope in a browser and reads, of each of its
// profiles, the table of functions: `{event: [[name, self, total], …]}`.
"use strict";
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const [, , driver, index, file] = process.argv;
const { Browser } = require(driver);

(async () => {
    const browser = new Browser();
    const page = await browser.page(1600, 8000);
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "prof-speedscope-"));
    const text = fs.readFileSync(file, "utf8");
    const { profiles } = JSON.parse(text);
    const found = {};
    for (const [at, profile] of profiles.entries()) {
        // One profile at a time, with weights as they are and not in rounded units.
        const one = JSON.stringify({ ...JSON.parse(text), profiles: [{ ...profile, unit: "none" }] });
        const event = profile.name.split(" ").pop();
        const base64 = Buffer.from(one).toString("base64");
        // As speedscope's own command opens a file: a script that loads it.
        const script = path.join(folder, `${at}.js`);
        fs.writeFileSync(script, `speedscope.loadFileFromBase64("${event}.json", "${base64}")`);
        await page.send("Page.navigate", { url: "about:blank" });
        await page.open(`${index}#localProfilePath=${script}`);
        await page.until(`document.body && document.body.innerText.includes("Sandwich")`);
        await page.eval(`[...document.querySelectorAll("div")].filter((it) => /Sandwich$/.test(it.innerText) && it.innerText.length < 15).pop().click()`);
        await page.until(`document.querySelector("table tr td")`);
        const rows = await page.eval(`[...document.querySelectorAll("table tr")].slice(1).map((row) => [...row.children].map((cell) => cell.innerText))`);
        // "66,066,066 (57%)"
        const number = (cell) => Number(cell.split(" ")[0].replaceAll(",", ""));
        found[event] = rows.map(([total, own, name]) => [name, number(own), number(total)]);
    }
    fs.rmSync(folder, { recursive: true });
    await browser.close();
    process.stdout.write(JSON.stringify(found));
})().catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    process.exit(1);
});
