/**
 * Drives the page in a real browser against a real server:
 *   regard serve DIR… --port 8123
 *   node test/browser.mjs http://127.0.0.1:8123 [folder for screenshots]
 * The first model must be a Transformer that translates; with a captioner among them pictures are tried too. Ends with an error at the first thing that is not so.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { build } from "vite";

const [base = "http://127.0.0.1:8123", folder] = process.argv.slice(2);
const TEXT = process.env.TEXT ?? "the green witch arrived";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync"];

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: FLAGS.map((flag) => `--${flag}`),
});
const outside = [];
const errors = [];

async function open(hash = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
  const page = Object.assign(await context.newPage(), { pending: 0 });
  await page.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(base) || url.startsWith("blob:") || url.startsWith("data:")) return route.continue();
    outside.push(url);
    return route.abort();
  });
  page.on("request", () => page.pending++);
  for (const over of ["requestfinished", "requestfailed"]) page.on(over, () => page.pending--);
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(`${base}/${hash}`);
  return page;
}

/** Nothing has been asked for in a while, and nothing is being thought. */
async function settled(page) {
  for (let quiet = 0; quiet < 5; quiet++) {
    await page.waitForTimeout(50);
    if (page.pending || (await page.locator(".progress.busy").count())) quiet = 0;
  }
}

async function serious(page) {
  await page.evaluate(axe); // evaluated by the debugger, which the page's policy does not bind
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 5).map(({ html }) => html.slice(0, 140)).join(" | ")}`);
}

async function shot(page, name) {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

const said = (page) => page.locator(".said").first().innerText();
const badge = (page) => page.locator(".badge").innerText();
const delta = async (page) => Number((await badge(page)).split("=")[1].trim().replace("−", "-"));

async function paints() {
  const page = await open();
  const paint = await page.evaluate(
    () => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true })),
  );
  console.log(`first paint after ${paint.toFixed(0)} ms`);
  assert(paint < 1000);
  await page.context().close();
}

async function walk() {
  const page = await open();
  await settled(page);
  await page.fill("#text", TEXT);
  await page.evaluate(() => {
    globalThis.grown = new Set();
    const look = () => globalThis.grown.add(document.querySelector(".said").innerText);
    new MutationObserver(look).observe(document.querySelector(".said"), { childList: true, characterData: true, subtree: true });
  });
  await page.click("button.go");
  await settled(page);
  const translation = await said(page);
  const grown = await page.evaluate(() => [...globalThis.grown]);
  assert(grown.some((text) => text && text !== translation && translation.startsWith(text)), `it grows: ${grown}`);
  console.log(`${TEXT} → ${translation}`);
  assert(translation.length > 5);
  assert((await delta(page)) < 1e-4, await badge(page));

  await page.locator(".grid button").nth(6).click();
  await settled(page);
  assert.match(page.url(), /layer=1/);
  assert((await delta(page)) < 1e-4, "the second layer is recomputed too");

  const figure = page.locator('[role="application"]').first();
  await figure.focus();
  for (const key of ["ArrowDown", "ArrowRight", "Enter"]) await page.keyboard.press(key);
  await settled(page);
  assert.match(page.url(), /step=1/, "Enter chooses the row that the arrows went to");
  assert.match(await page.locator("output.hint").first().innerText(), /\d\.\d{4}$/);

  await page.locator('[role="treeitem"]').nth(2).click();
  await settled(page);
  assert.match(page.url(), /node=/);
  assert((await delta(page)) < 1e-4, "a node has its own attention");

  await page.locator("#step-6").click();
  assert.match(await page.locator("#lecture-step").innerText(), /exp/);

  const download = page.waitForEvent("download");
  await page.locator("section[aria-labelledby=attention-title] .saving button", { hasText: "SVG" }).click();
  const svg = readFileSync(await (await download).path(), "utf8");
  assert(svg.startsWith("<svg") && (svg.match(/<rect/g) ?? []).length > 10, "each cell is a rectangle");
  for (const kind of ["PNG", "CSV", "JSON"]) {
    const file = page.waitForEvent("download");
    await page.locator("section[aria-labelledby=attention-title] .saving button", { hasText: kind }).click();
    const bytes = readFileSync(await (await file).path());
    if (kind === "PNG") assert.equal(bytes.subarray(1, 4).toString(), "PNG");
    if (kind === "JSON") assert.equal(JSON.parse(bytes).text, TEXT);
    if (kind === "CSV") assert(bytes.toString().split("\r\n").length > 3);
  }
  assert.deepEqual(await serious(page), []);

  const same = await open(new URL(page.url()).hash);
  await settled(same);
  for (const part of [".said", ".strips", ".where", ".badge", "#lecture-step", ".readout"]) {
    const [a, b] = await Promise.all([page, same].map((one) => one.locator(part).first().innerText()));
    assert.equal(a, b, `a permalink reproduces ${part}`);
  }
  await shot(same, "light");
  await same.context().close();
  await page.context().close();
}

async function whatIf() {
  const page = await open(`#${new URLSearchParams({ text: TEXT, layer: "1" })}`);
  await settled(page);
  const before = await said(page);

  await page.getByRole("button", { name: "Switch head off" }).click();
  await settled(page);
  assert.match(page.url(), /ablate=cross\.1\.0/);
  assert.equal(await page.locator(".grid .off").count(), 1);
  // One head may fall silent without a word changing. Switch off one after the other until what is said changes.
  const cells = page.locator(".grid button");
  for (let i = 0; i < (await cells.count()) && (await said(page)) === before; i++) {
    await cells.nth(i).click();
    await settled(page);
    const off = page.getByRole("button", { name: "Switch head off" });
    if (await off.isVisible()) await off.click(); // a mean of heads has no switch, and what is off is off
    await settled(page);
  }
  assert.notEqual(await said(page), before, "heads matter");
  console.log(`with ${await page.locator(".grid .off").count()} heads off → ${await said(page)}`);
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);
  assert.equal(await said(page), before);

  await page.locator("section[aria-labelledby=tokens-title] .strip button").nth(1).click();
  await settled(page);
  assert.match(page.url(), /mask=1/);
  assert.equal(await page.locator(".token.masked").count(), 1);
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);

  const second = page.locator("section[aria-labelledby=next-title] li button").nth(1);
  const forced = await second.innerText();
  await second.click();
  await settled(page);
  assert.equal(await page.locator(".token.forced").first().innerText(), forced, "what is forced is said first");
  assert.notEqual(await said(page), before);
  assert.match(page.url(), /step=1/, "and the next step is looked at");
  await shot(page, "forced");
  await page.context().close();
}

/** The server keeps a trace for minutes only; one that is gone is made again without a word. */
async function expires() {
  const page = await open(`#${new URLSearchParams({ text: TEXT })}`);
  await settled(page);
  let refused = 0;
  await page.route("**/v1/trace/*/tensors*", (route) =>
    refused++ ? route.continue() : route.fulfill({ status: 404, contentType: "application/problem+json", body: "{}" }),
  );
  await page.locator(".grid button").nth(3).click();
  await settled(page);
  errors.length = 0; // the refusal that was asked for
  assert(refused > 1);
  assert.equal(await page.locator(".problem").innerText(), "");
  assert.match(await page.locator(".where").innerText(), /head 3/);
  await page.context().close();
}

/** A picture of so many pixels, drawn by the browser: a triangle on the left, a cross on the right */
async function drawn(page, wide, high) {
  const url = await page.evaluate(([wide, high]) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: wide, height: high });
    const context = canvas.getContext("2d");
    const [side, left, top] = [Math.min(wide, high), (wide - Math.min(wide, high)) / 2, (high - Math.min(wide, high)) / 2];
    const at = (x, y, w, h) => context.fillRect(left + x * side, top + y * side, w * side, h * side);
    context.fillStyle = "#e4e2dc";
    context.fillRect(0, 0, wide, high);
    context.fillStyle = "#2846dc";
    for (let i = 0; i < 28; i++) at(0.16 - i / 200, 0.35 + i / 100, i / 100, 0.011);
    context.fillStyle = "#f050b4";
    at(0.62, 0.48, 0.24, 0.05);
    at(0.715, 0.385, 0.05, 0.24);
    return canvas.toDataURL();
  }, [wide, high]);
  return { name: "shapes.png", mimeType: "image/png", buffer: Buffer.from(url.split(",")[1], "base64") };
}

const captioner = async () => (await (await fetch(`${base}/v1/models`)).json()).models.find(({ task }) => task === "captioner");

async function describe(page, file) {
  await page.locator("#picture").setInputFiles(file);
  await page.locator(".drop img").waitFor();
  await page.click("button.go");
  await settled(page);
}

/** What a canvas shows, as a string to compare */
const painted = (canvas) => canvas.evaluate((node) => node.toDataURL());

async function pictures() {
  const model = await captioner();
  if (!model) return console.log("no captioner");
  const hash = `#${new URLSearchParams({ model: model.id, layer: "1" })}`;
  const page = await open(hash);
  await settled(page);
  assert(await page.locator("button.go").isDisabled(), "without a picture there is nothing to ask");
  assert.equal(await page.locator("#text").count() + (await page.locator(".strips").count()), 0);
  assert.deepEqual(await serious(page), []);
  const asked = page.waitForRequest("**/v1/trace");
  await describe(page, await drawn(page, 320, 200));
  const body = (await asked).postDataJSON();
  assert.equal(Buffer.from(body.pixels, "base64").length, 3 * model.picture.size ** 2);
  assert.equal(body.text, undefined);
  const corner = Buffer.from(body.pixels, "base64").subarray(0, 3);
  assert.deepEqual([...corner], [0xe4, 0xe2, 0xdc], "red, green, blue");
  console.log(`a picture → ${await said(page)}`);
  assert((await said(page)).length > 5);
  assert((await delta(page)) < 1e-4, await badge(page));
  assert.match(page.url(), /layer=1/, "a link's choices wait for the picture");
  assert(!page.url().includes(body.pixels.slice(0, 20)));

  const panel = page.locator("section[aria-labelledby=attention-title]");
  const large = panel.locator('[role="application"] canvas');
  const [before, grid] = await Promise.all([painted(large), painted(page.locator(".grid canvas").first())]);
  const words = page.locator("section[aria-labelledby=tokens-title] .strip button");
  await words.nth(2).click();
  await settled(page);
  assert.notEqual(await painted(large), before, "another word has another light");
  assert.notEqual(await painted(page.locator(".grid canvas").first()), grid, "in the overview too");
  assert.equal(await painted(panel.locator(".words canvas").nth(2)), await painted(large), "its small picture is the large one");
  await panel.locator(".words button").nth(0).click();
  assert.equal(await painted(large), before, "and the way back");

  await panel.locator('[role="application"]').focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  const readout = await panel.locator("output.hint").first().innerText();
  assert.match(readout, /row 1, column 1: 0\.\d{4}$/);
  const file = page.waitForEvent("download");
  await panel.locator(".saving button", { hasText: "CSV" }).click();
  const [, first] = readFileSync(await (await file).path(), "utf8").split("\r\n");
  const value = Number(first.split(",")[1 + model.picture.regions + 1]); // after the word's name
  assert.equal(value.toFixed(4), readout.split(": ")[1], "the value is the server's");
  for (const kind of ["SVG", "PNG"]) {
    const download = page.waitForEvent("download");
    await panel.locator(".saving button", { hasText: kind }).click();
    const saved = await (await download).path();
    if (kind === "SVG") assert.equal(readFileSync(saved, "utf8").match(/<image/g).length, 1 + (await words.count()));
    if (kind === "PNG") assert(readFileSync(saved).length > 5000, "a picture, not an empty sheet");
    if (folder) writeFileSync(join(folder, `saved.${kind.toLowerCase()}`), readFileSync(saved));
  }
  await shot(page, "picture");
  assert.deepEqual(await serious(page), []);

  const caption = await said(page);
  await page.locator("section[aria-labelledby=next-title] li button").nth(1).click();
  await settled(page);
  assert.notEqual(await said(page), caption, "a forced word changes the caption");
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);
  assert.equal(await said(page), caption);
  await page.locator('[role="treeitem"]').nth(2).click();
  await settled(page);
  assert((await delta(page)) < 1e-4, "a node has its own attention");
  const [other] = await page.locator("header select").nth(1).locator("option:not([value=''])").allInnerTexts();
  if (other) {
    await page.locator("header select").nth(1).selectOption(other);
    await settled(page);
    const panel = page.locator("section[aria-labelledby=compare-title]");
    assert.deepEqual(await panel.locator("h3").allInnerTexts(), [model.id, other]);
    console.log(`${other}: ${await panel.locator(".said").nth(1).innerText()}`);
    await shot(page, "picture-compare");
  }
  for (const site of ["Encoder", "Decoder"]) {
    await page.getByRole("tab", { name: site }).click();
    await settled(page);
    assert((await delta(page)) < 1e-4, site);
    assert.equal(await page.locator(".lit").count(), 0, `${site}: a matrix`);
    await shot(page, `picture-${site.toLowerCase()}`);
  }
  const models = page.locator("header select").first();
  const [translator] = await models.locator("option").allInnerTexts();
  for (const [name, expected] of [[translator, ""], [model.id, caption]]) {
    await models.selectOption(name);
    await settled(page);
    if (expected) assert.equal(await said(page), expected, "the picture waits for its model");
    else assert.equal(await page.locator("#picture, .lit").count(), 0);
  }
  await page.locator("#picture").setInputFiles({ name: "no.png", mimeType: "image/png", buffer: Buffer.from("no picture") });
  await page.locator(".problem:not(.empty)").waitFor();
  await page.context().close();
  for (const [name, options] of [
    ["picture-dark", { colorScheme: "dark" }],
    ["picture-small", { viewport: { width: 360, height: 740 }, locale: "fr-FR" }],
  ]) {
    const page = await open(`${hash}&step=1`, options);
    await settled(page);
    await describe(page, await drawn(page, 100, 240));
    const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert(wide <= room, `${name}: ${wide} px do not fit into ${room}`);
    assert.deepEqual(await serious(page), [], name);
    assert.match(page.url(), /step=1/);
    if (options.locale) assert.equal(await page.locator("button.go").innerText(), "Dire ce qu’on y voit");
    await shot(page, name);
    await page.context().close();
  }
}

/** What is dropped is taken as what is chosen. */
async function drops() {
  const model = await captioner();
  if (!model) return;
  const page = await open(`#model=${model.id}`);
  await settled(page);
  const { buffer } = await drawn(page, 60, 60);
  await page.evaluate((bytes) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([Uint8Array.from(bytes)], "dropped.png", { type: "image/png" }));
    document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, [...buffer]);
  await page.locator(".drop img").waitFor();
  assert.equal(await page.locator("#picture").evaluate((input) => input.files[0].name), "dropped.png");
  await page.keyboard.press("Tab"); // the way to the field without a mouse
  for (let i = 0; i < 12 && !(await page.locator("#picture:focus").count()); i++) await page.keyboard.press("Tab");
  assert.equal(await page.locator("#picture:focus").count(), 1, "the keyboard reaches the field");
  await page.context().close();
}

async function everyModel() {
  const page = await open();
  await settled(page);
  const names = await page.locator("header select").first().locator("option").allInnerTexts();
  for (const name of names) {
    await page.locator("header select").first().selectOption(name);
    await settled(page);
    if (await page.locator("#picture").count()) await describe(page, await drawn(page, 96, 96));
    else {
      await page.locator("#text").fill(TEXT);
      await page.click("button.go");
      await settled(page);
    }
    assert((await said(page)).length > 3, name);
    if (await page.locator(".badge").count()) assert((await delta(page)) < 1e-4, `${name}: ${await badge(page)}`);
    console.log(`${name}: ${await said(page)} · ${(await page.locator(".badge").count()) ? await badge(page) : "no attention"}`);
    await shot(page, `model-${name}`);
  }
  await page.context().close();
}

async function compares() {
  const page = await open(`#${new URLSearchParams({ text: TEXT })}`);
  await settled(page);
  const [first, second] = await Promise.all([0, 1].map((i) => page.locator("header select").nth(i)));
  const names = await second.locator("option").allInnerTexts();
  if (names.length < 2) return console.log("only one model, nothing to compare");
  await second.selectOption(names[1]);
  await settled(page);
  const panel = page.locator("section[aria-labelledby=compare-title]");
  assert.deepEqual(await panel.locator("h3").allInnerTexts(), [await first.inputValue(), names[1]]);
  assert.equal(await panel.locator('[role="application"]').count(), 2);
  assert.deepEqual(await serious(page), []);
  await shot(page, "compare");
  await page.context().close();
}

/** A server that asks for a token: the page asks for it once and sends it with every request. */
async function door() {
  const page = await open("#text=");
  await settled(page);
  await page.route("**/v1/**", (route) =>
    route.request().headers().authorization === "Bearer s3cret"
      ? route.continue()
      : route.fulfill({ status: 401, contentType: "application/problem+json", body: '{"detail": "no token"}' }),
  );
  await page.reload();
  await page.locator("input[type=password]").fill("s3cret");
  errors.length = 0; // the refusals that were asked for
  await page.getByRole("button", { name: "Enter" }).click();
  await settled(page);
  assert.equal(await page.locator("input[type=password]").count(), 0);
  await page.fill("#text", TEXT);
  await page.click("button.go");
  await settled(page);
  assert((await said(page)).length > 5);
  await page.context().close();
}

async function looks() {
  for (const [name, hash, options] of [
    ["dark", "view=links&lecture=2", { colorScheme: "dark" }],
    ["small", "lecture=3", { viewport: { width: 360, height: 740 } }],
    ["small-dark", "lecture=7&view=links", { viewport: { width: 360, height: 740 }, colorScheme: "dark" }],
    ["french", "lecture=7&site=encoder", { locale: "fr-FR" }],
  ]) {
    const page = await open(`#${hash}&${new URLSearchParams({ text: TEXT })}`, options);
    await settled(page);
    const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert(wide <= room, `${name}: ${wide} px do not fit into ${room}`);
    assert.deepEqual(await serious(page), [], name);
    if (name === "french") assert.equal(await page.locator("button.go").innerText(), "Traduire");
    await shot(page, name);
    await page.context().close();
  }
}

/** The drawing code itself, on 48 heads of 512 × 512, as the page uses it */
async function fast() {
  const entry = new URL("../src/figure/heat.ts", import.meta.url).pathname;
  const [{ output }] = await build({
    configFile: false,
    logLevel: "error",
    build: { write: false, lib: { entry, name: "heat", formats: ["iife"] } },
  });
  const page = await open();
  const took = await page.evaluate(async (code) => {
    const heat = new Function(`${code}; return heat`)();
    const ramp = Uint32Array.from({ length: 256 }, (_, i) => (0xff000000 | (i * 0x010101)) >>> 0);
    const canvases = Array.from({ length: 48 }, () => document.body.appendChild(document.createElement("canvas")));
    const weights = Array.from({ length: 48 }, () => Float32Array.from({ length: 512 * 512 }, Math.random));
    const start = performance.now();
    canvases.forEach((canvas, i) => heat.drawHeat(canvas, heat.levels(weights[i]), 512, ramp));
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    return performance.now() - start;
  }, output[0].code).catch((error) => assert.fail(error.message));
  console.log(`48 heads of 512 × 512 in ${took.toFixed(0)} ms`);
  assert(took < 500, `${took} ms`);
  await page.context().close();
}

/** Tab and the arrow keys alone: a sentence is typed and translated, and everything that can be used is reached. */
async function keys() {
  const page = await open();
  await settled(page);
  const focused = () =>
    page.evaluate(() => {
      const here = document.activeElement;
      here?.setAttribute("data-reached", "");
      return { tag: here?.tagName ?? "", item: !!here?.closest("[data-item], [role=treeitem]"), end: here === document.body };
    });
  for (let here = await focused(); here.tag !== "TEXTAREA"; here = await focused()) await page.keyboard.press("Tab");
  await page.keyboard.type(TEXT);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await settled(page);
  assert((await said(page)).length, "translated without a mouse");
  await page.evaluate(() => (document.activeElement instanceof HTMLElement ? document.activeElement.blur() : null));
  const ITEMS = "[data-item], [role=treeitem]";
  for (let i = 0; i < 500; i++) {
    await page.keyboard.press("Tab");
    const here = await focused();
    if (here.end) break;
    if (!here.item) continue;
    // Inside a group that Tab enters once, the arrows lead on.
    for (const key of ["Home", ...Array(80).fill("ArrowRight"), "Home", ...Array(12).fill("ArrowDown")]) {
      await page.keyboard.press(key);
      await focused();
    }
  }
  const missed = await page.evaluate((items) => {
    const usable = [...document.querySelectorAll(`button, input, select, textarea, a[href], summary, ${items}`)];
    const shown = usable.filter((each) => !each.disabled && each.getClientRects().length && each.getAttribute("aria-hidden") !== "true");
    const names = (each) => each.outerHTML.slice(0, 120);
    return shown.filter((each) => !each.hasAttribute("data-reached") && !each.closest("[data-reached]")).map(names);
  }, ITEMS);
  assert.deepEqual(missed, [], "what the keyboard does not reach");
  await page.context().close();
}

try {
  for (const part of [paints, keys, walk, whatIf, expires, pictures, drops, everyModel, compares, door, looks, fast]) {
    await part();
    console.log(`ok ${part.name}`);
  }
  assert.deepEqual(outside, [], "requests that leave the origin");
  assert.deepEqual(errors, [], "errors on the page");
  console.log("no request left the origin; nothing failed");
} finally {
  await browser.close();
}
