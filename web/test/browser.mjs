/**
 * Drives the page in a real browser against a real server:
 *   regard serve DIR… --port 8123
 *   node test/browser.mjs http://127.0.0.1:8123 [folder for screenshots]
 * The first model must be a Transformer translator. If there is a captioner, images are tested too.
 * The first failed assertion ends the run with an error.
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
const foreignRequests = [];
const errors = [];

async function open(hash = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
  const page = Object.assign(await context.newPage(), { pending: 0 });
  await page.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(base) || url.startsWith("blob:") || url.startsWith("data:")) return route.continue();
    foreignRequests.push(url);
    return route.abort();
  });
  page.on("request", () => page.pending++);
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, () => page.pending--);
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(`${base}/${hash}`);
  return page;
}

/** Wait until no request has been running for a while. */
async function settled(page) {
  for (let quiet = 0; quiet < 5; quiet++) {
    await page.waitForTimeout(50);
    if (page.pending || (await page.locator(".progress.busy").count())) quiet = 0;
  }
}

/** The serious and critical accessibility problems that axe finds */
async function accessibilityProblems(page) {
  await page.evaluate(axe); // evaluated by the debugger, to which the page's content security policy does not apply
  const results = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return results.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 5).map(({ html }) => html.slice(0, 140)).join(" | ")}`);
}

async function screenshot(page, name) {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

const outputText = (page) => page.locator(".output").first().innerText();
const badge = (page) => page.locator(".badge").innerText();
/** The largest difference between page and server, as the page shows it */
const delta = async (page) => Number((await badge(page)).split("=")[1].trim().replace("−", "-"));

async function firstPaint() {
  const page = await open();
  const paint = await page.evaluate(
    () => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true })),
  );
  console.log(`first paint after ${paint.toFixed(0)} ms`);
  assert(paint < 1000);
  await page.context().close();
}

/** The model's own search settings apply until the user changes them; French decimals have a comma. */
async function searchSettings() {
  const [{ decode }] = await listModels();
  const page = await open(`#${new URLSearchParams({ text: TEXT })}`, { locale: "fr-FR" });
  const sent = [];
  page.on("request", (request) => request.url().endsWith("/v1/trace") && sent.push(request.postDataJSON()));
  await page.reload();
  await settled(page);
  assert(sent.length > 0 && sent.every((body) => !("beam" in body) && !("length_penalty" in body)), JSON.stringify(sent));
  const field = (name) => page.getByRole("spinbutton", { name });
  const [beam, penalty] = [field("Largeur du faisceau"), field("Pénalité de longueur")];
  assert.equal(await beam.inputValue(), decode ? String(decode.beam) : "");
  const change = async (input, text) => {
    sent.length = 0;
    await input.fill(text);
    await input.press("Tab");
    await settled(page);
    return sent.at(-1);
  };
  assert.equal((await change(penalty, "0,6")).length_penalty, 0.6);
  assert.equal(await penalty.inputValue(), "0,6");
  assert.equal((await change(beam, "2")).beam, 2);
  assert.match(page.url(), /beam=2&penalty=0\.6/);
  assert.equal(await change(beam, "99"), undefined, "a value out of bounds is not sent");
  assert.equal(await beam.inputValue(), "2");
  const cleared = await change(penalty, "");
  assert.equal(cleared.beam, 2);
  assert(!("length_penalty" in cleared), "a cleared field means the model's own setting");
  assert.match(await page.locator("section[aria-labelledby=output-title] p.hint").innerText(), /score −?\d+,\d{3} · log p −?\d+,\d{3}/);
  await page.context().close();
}

/** Translate, select a head, a row and a node, open the lecture, save files, and reproduce it all from the link. */
async function walkThrough() {
  const page = await open();
  await settled(page);
  await page.fill("#text", TEXT);
  await page.evaluate(() => {
    const output = document.querySelector(".output");
    globalThis.shownTexts = new Set();
    const record = () => globalThis.shownTexts.add(output.innerText);
    new MutationObserver(record).observe(output, { childList: true, characterData: true, subtree: true });
  });
  await page.click("button.submit");
  await settled(page);
  const translation = await outputText(page);
  const shown = await page.evaluate(() => [...globalThis.shownTexts]);
  const isPartial = (text) => text && text !== translation && translation.startsWith(text);
  assert(shown.some(isPartial), `the translation is shown while it grows: ${shown}`);
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
  assert.match(page.url(), /step=1/, "Enter selects the row that the arrow keys moved to");
  assert.match(await page.locator("output.hint").first().innerText(), /\d\.\d{4}$/);

  await page.locator('[role="treeitem"]').nth(2).click();
  await settled(page);
  assert.match(page.url(), /node=/);
  assert((await delta(page)) < 1e-4, "a node has its own attention");

  await page.locator("#step-6").click();
  assert.match(await page.locator("#lecture-step").innerText(), /exp/);

  const download = page.waitForEvent("download");
  await page.locator("section[aria-labelledby=attention-title] .save-buttons button", { hasText: "SVG" }).click();
  const svg = readFileSync(await (await download).path(), "utf8");
  assert(svg.startsWith("<svg") && (svg.match(/<rect/g) ?? []).length > 10, "each cell is a rectangle");
  for (const kind of ["PNG", "CSV", "JSON"]) {
    const file = page.waitForEvent("download");
    await page.locator("section[aria-labelledby=attention-title] .save-buttons button", { hasText: kind }).click();
    const bytes = readFileSync(await (await file).path());
    if (kind === "PNG") assert.equal(bytes.subarray(1, 4).toString(), "PNG");
    if (kind === "JSON") assert.equal(JSON.parse(bytes).text, TEXT);
    if (kind === "CSV") assert(bytes.toString().split("\r\n").length > 3);
  }
  assert.deepEqual(await accessibilityProblems(page), []);

  const copy = await open(new URL(page.url()).hash);
  await settled(copy);
  for (const part of [".output", ".strips", ".head-name", ".badge", "#lecture-step", ".readout"]) {
    const [a, b] = await Promise.all([page, copy].map((each) => each.locator(part).first().innerText()));
    assert.equal(a, b, `a permalink reproduces ${part}`);
  }
  await screenshot(copy, "light");
  await copy.context().close();
  await page.context().close();
}

/** Switch heads off, hide a source token, force a token. */
async function changes() {
  const page = await open(`#${new URLSearchParams({ text: TEXT, layer: "1" })}`);
  await settled(page);
  const before = await outputText(page);

  await page.getByRole("button", { name: "Switch head off" }).click();
  await settled(page);
  assert.match(page.url(), /ablate=cross\.1\.0/);
  assert.equal(await page.locator(".grid .off").count(), 1);
  // A single head may not matter. Switch off one after the other until the translation changes.
  const cells = page.locator(".grid button");
  for (let i = 0; i < (await cells.count()) && (await outputText(page)) === before; i++) {
    await cells.nth(i).click();
    await settled(page);
    const off = page.getByRole("button", { name: "Switch head off" });
    if (await off.isVisible()) await off.click(); // the mean of the heads has no switch, and a head that is off offers "on"
    await settled(page);
  }
  assert.notEqual(await outputText(page), before, "heads matter");
  console.log(`with ${await page.locator(".grid .off").count()} heads off → ${await outputText(page)}`);
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);
  assert.equal(await outputText(page), before);

  await page.locator("section[aria-labelledby=tokens-title] .strip button").nth(1).click();
  await settled(page);
  assert.match(page.url(), /mask=1/);
  assert.equal(await page.locator(".token.hidden").count(), 1);
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);

  const second = page.locator("section[aria-labelledby=next-title] li button").nth(1);
  const forced = await second.innerText();
  await second.click();
  await settled(page);
  assert.equal(await page.locator(".token.forced").first().innerText(), forced, "the forced token comes first");
  assert.notEqual(await outputText(page), before);
  assert.match(page.url(), /step=1/, "and the next step is selected");
  await screenshot(page, "forced");
  await page.context().close();
}

/** The server keeps a trace for a few minutes only. If it is gone, the page requests it again without an error message. */
async function expiredTrace() {
  const page = await open(`#${new URLSearchParams({ text: TEXT })}`);
  await settled(page);
  let refused = 0;
  await page.route("**/v1/trace/*/tensors*", (route) =>
    refused++ ? route.continue() : route.fulfill({ status: 404, contentType: "application/problem+json", body: "{}" }),
  );
  await page.locator(".grid button").nth(3).click();
  await settled(page);
  errors.length = 0; // the 404 of this test
  assert(refused > 1);
  assert.equal(await page.locator(".problem").innerText(), "");
  assert.match(await page.locator(".head-name").innerText(), /head 3/);
  await page.context().close();
}

/** An image file of this size, drawn by the browser: a triangle on the left, a cross on the right */
async function drawImage(page, width, height) {
  const url = await page.evaluate(([width, height]) => {
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const context = canvas.getContext("2d");
    const side = Math.min(width, height);
    const [left, top] = [(width - side) / 2, (height - side) / 2];
    const fill = (x, y, w, h) => context.fillRect(left + x * side, top + y * side, w * side, h * side);
    context.fillStyle = "#e4e2dc";
    context.fillRect(0, 0, width, height);
    context.fillStyle = "#2846dc";
    for (let i = 0; i < 28; i++) fill(0.16 - i / 200, 0.35 + i / 100, i / 100, 0.011);
    context.fillStyle = "#f050b4";
    fill(0.62, 0.48, 0.24, 0.05);
    fill(0.715, 0.385, 0.05, 0.24);
    return canvas.toDataURL();
  }, [width, height]);
  return { name: "shapes.png", mimeType: "image/png", buffer: Buffer.from(url.split(",")[1], "base64") };
}

const listModels = async () => (await (await fetch(`${base}/v1/models`)).json()).models;
const findCaptioner = async () => (await listModels()).find(({ task }) => task === "captioner");

async function describe(page, file) {
  await page.locator("#image").setInputFiles(file);
  await page.locator(".drop img").waitFor();
  await page.click("button.submit");
  await settled(page);
}

/** The content of a canvas, as a string to compare */
const canvasContent = (canvas) => canvas.evaluate((node) => node.toDataURL());

async function captioning() {
  const model = await findCaptioner();
  if (!model) return console.log("no captioner");
  const hash = `#${new URLSearchParams({ model: model.id, layer: "1" })}`;
  const page = await open(hash);
  await settled(page);
  assert(await page.locator("button.submit").isDisabled(), "without an image there is nothing to submit");
  assert.equal(await page.locator("#text").count() + (await page.locator(".strips").count()), 0);
  assert.deepEqual(await accessibilityProblems(page), []);
  const traceRequest = page.waitForRequest("**/v1/trace");
  await describe(page, await drawImage(page, 320, 200));
  const body = (await traceRequest).postDataJSON();
  assert.equal(Buffer.from(body.pixels, "base64").length, 3 * model.picture.size ** 2);
  assert.equal(body.text, undefined);
  const corner = Buffer.from(body.pixels, "base64").subarray(0, 3);
  assert.deepEqual([...corner], [0xe4, 0xe2, 0xdc], "red, green, blue");
  console.log(`an image → ${await outputText(page)}`);
  assert((await outputText(page)).length > 5);
  assert((await delta(page)) < 1e-4, await badge(page));
  assert.match(page.url(), /layer=1/, "the selection of a link waits for the image");
  assert(!page.url().includes(body.pixels.slice(0, 20)));

  const panel = page.locator("section[aria-labelledby=attention-title]");
  const large = panel.locator('[role="application"] canvas');
  const [before, grid] = await Promise.all([canvasContent(large), canvasContent(page.locator(".grid canvas").first())]);
  const tokens = page.locator("section[aria-labelledby=tokens-title] .strip button");
  await tokens.nth(2).click();
  await settled(page);
  assert.notEqual(await canvasContent(large), before, "another token has other weights");
  assert.notEqual(await canvasContent(page.locator(".grid canvas").first()), grid, "in the grid of heads too");
  assert.equal(await canvasContent(panel.locator(".tokens canvas").nth(2)), await canvasContent(large), "its thumbnail has the content of the large image");
  await panel.locator(".tokens button").nth(0).click();
  assert.equal(await canvasContent(large), before, "and back again");

  await panel.locator('[role="application"]').focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  const readout = await panel.locator("output.hint").first().innerText();
  assert.match(readout, /row 1, column 1: 0\.\d{4}$/);
  const file = page.waitForEvent("download");
  await panel.locator(".save-buttons button", { hasText: "CSV" }).click();
  const [, first] = readFileSync(await (await file).path(), "utf8").split("\r\n");
  const value = Number(first.split(",")[1 + model.picture.regions + 1]); // after the token
  assert.equal(value.toFixed(4), readout.split(": ")[1], "the displayed weight is the one in the file");
  for (const kind of ["SVG", "PNG"]) {
    const download = page.waitForEvent("download");
    await panel.locator(".save-buttons button", { hasText: kind }).click();
    const saved = await (await download).path();
    if (kind === "SVG") assert.equal(readFileSync(saved, "utf8").match(/<image/g).length, 1 + (await tokens.count()));
    if (kind === "PNG") assert(readFileSync(saved).length > 5000, "an image, not an empty sheet");
    if (folder) writeFileSync(join(folder, `saved.${kind.toLowerCase()}`), readFileSync(saved));
  }
  await screenshot(page, "image");
  assert.deepEqual(await accessibilityProblems(page), []);

  const caption = await outputText(page);
  await page.locator("section[aria-labelledby=next-title] li button").nth(1).click();
  await settled(page);
  assert.notEqual(await outputText(page), caption, "a forced token changes the caption");
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);
  assert.equal(await outputText(page), caption);
  await page.locator('[role="treeitem"]').nth(2).click();
  await settled(page);
  assert((await delta(page)) < 1e-4, "a node has its own attention");
  const [other] = await page.locator("header select").nth(1).locator("option:not([value=''])").allInnerTexts();
  if (other) {
    await page.locator("header select").nth(1).selectOption(other);
    await settled(page);
    const panel = page.locator("section[aria-labelledby=compare-title]");
    assert.deepEqual(await panel.locator("h3").allInnerTexts(), [model.id, other]);
    console.log(`${other}: ${await panel.locator(".output").nth(1).innerText()}`);
    await screenshot(page, "image-compare");
  }
  for (const site of ["Encoder", "Decoder"]) {
    await page.getByRole("tab", { name: site }).click();
    await settled(page);
    assert((await delta(page)) < 1e-4, site);
    assert.equal(await page.locator(".image-highlight").count(), 0, `${site}: a matrix`);
    await screenshot(page, `image-${site.toLowerCase()}`);
  }
  const models = page.locator("header select").first();
  const [translator] = await models.locator("option").allInnerTexts();
  for (const [name, expected] of [[translator, ""], [model.id, caption]]) {
    await models.selectOption(name);
    await settled(page);
    if (expected) assert.equal(await outputText(page), expected, "the image is kept for its model");
    else assert.equal(await page.locator("#image, .image-highlight").count(), 0);
  }
  await page.locator("#image").setInputFiles({ name: "no.png", mimeType: "image/png", buffer: Buffer.from("not an image") });
  await page.locator(".problem:not(.empty)").waitFor();
  await page.context().close();
  for (const [name, options] of [
    ["image-dark", { colorScheme: "dark" }],
    ["image-small", { viewport: { width: 360, height: 740 }, locale: "fr-FR" }],
  ]) {
    const page = await open(`${hash}&step=1`, options);
    await settled(page);
    await describe(page, await drawImage(page, 100, 240));
    const [width, available] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert(width <= available, `${name}: ${width} px do not fit into ${available}`);
    assert.deepEqual(await accessibilityProblems(page), [], name);
    assert.match(page.url(), /step=1/);
    if (options.locale) assert.equal(await page.locator("button.submit").innerText(), "Décrire l’image");
    await screenshot(page, name);
    await page.context().close();
  }
}

/** A file can be dropped instead of chosen, and the keyboard reaches the field. */
async function droppedFile() {
  const model = await findCaptioner();
  if (!model) return;
  const page = await open(`#model=${model.id}`);
  await settled(page);
  const { buffer } = await drawImage(page, 60, 60);
  await page.evaluate((bytes) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([Uint8Array.from(bytes)], "dropped.png", { type: "image/png" }));
    document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  }, [...buffer]);
  await page.locator(".drop img").waitFor();
  assert.equal(await page.locator("#image").evaluate((input) => input.files[0].name), "dropped.png");
  await page.keyboard.press("Tab");
  for (let i = 0; i < 12 && !(await page.locator("#image:focus").count()); i++) await page.keyboard.press("Tab");
  assert.equal(await page.locator("#image:focus").count(), 1, "the keyboard reaches the field");
  await page.context().close();
}

/** Every model gives an output without an error message. */
async function everyModel() {
  const described = await listModels();
  const page = await open();
  await settled(page);
  const names = await page.locator("header select").first().locator("option").allInnerTexts();
  for (const name of names) {
    await page.locator("header select").first().selectOption(name);
    await settled(page);
    if (await page.locator("#image").count()) await describe(page, await drawImage(page, 96, 96));
    else {
      await page.locator("#text").fill(TEXT);
      await page.click("button.submit");
      await settled(page);
    }
    assert.equal(await page.locator(".problem").innerText(), "", name);
    assert((await outputText(page)).length > 3, name);
    const { can_hide_tokens: canHide } = described.find(({ id }) => id === name);
    if (canHide !== undefined) {
      const hideButtons = await page.getByRole("button", { name: /^Hide / }).count();
      assert.equal(hideButtons > 0, canHide, `${name}: source tokens can be hidden`);
    }
    if (await page.locator(".badge").count()) assert((await delta(page)) < 1e-4, `${name}: ${await badge(page)}`);
    console.log(`${name}: ${await outputText(page)} · ${(await page.locator(".badge").count()) ? await badge(page) : "no attention"}`);
    await screenshot(page, `model-${name}`);
  }
  await page.context().close();
}

async function comparison() {
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
  assert.deepEqual(await accessibilityProblems(page), []);
  await screenshot(page, "compare");
  await page.context().close();
}

/** If the server requires an access token, the page asks for it once and sends it with every request. */
async function accessToken() {
  const page = await open("#text=");
  await settled(page);
  await page.route("**/v1/**", (route) =>
    route.request().headers().authorization === "Bearer s3cret"
      ? route.continue()
      : route.fulfill({ status: 401, contentType: "application/problem+json", body: '{"detail": "no token"}' }),
  );
  await page.reload();
  await page.locator("input[type=password]").fill("s3cret");
  errors.length = 0; // the 401s of this test
  await page.getByRole("button", { name: "Sign in" }).click();
  await settled(page);
  assert.equal(await page.locator("input[type=password]").count(), 0);
  await page.fill("#text", TEXT);
  await page.click("button.submit");
  await settled(page);
  assert((await outputText(page)).length > 5);
  await page.context().close();
}

/** Dark, small and French: everything fits, and axe finds nothing. */
async function appearances() {
  for (const [name, hash, options] of [
    ["dark", "view=links&lecture=2", { colorScheme: "dark" }],
    ["small", "lecture=3", { viewport: { width: 360, height: 740 } }],
    ["small-dark", "lecture=7&view=links", { viewport: { width: 360, height: 740 }, colorScheme: "dark" }],
    ["french", "lecture=7&site=encoder", { locale: "fr-FR" }],
  ]) {
    const page = await open(`#${hash}&${new URLSearchParams({ text: TEXT })}`, options);
    await settled(page);
    const [width, available] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert(width <= available, `${name}: ${width} px do not fit into ${available}`);
    assert.deepEqual(await accessibilityProblems(page), [], name);
    if (name === "french") assert.equal(await page.locator("button.submit").innerText(), "Traduire");
    await screenshot(page, name);
    await page.context().close();
  }
}

/** Draw 48 heads of 512 × 512 with the code of the page. */
async function drawingSpeed() {
  const entry = new URL("../src/figure/heatmap.ts", import.meta.url).pathname;
  const [{ output }] = await build({
    configFile: false,
    logLevel: "error",
    build: { write: false, lib: { entry, name: "heatmap", formats: ["iife"] } },
  });
  const page = await open();
  const milliseconds = await page.evaluate(async (code) => {
    const heatmap = new Function(`${code}; return heatmap`)();
    const ramp = Uint32Array.from({ length: 256 }, (_, i) => (0xff000000 | (i * 0x010101)) >>> 0);
    const canvases = Array.from({ length: 48 }, () => document.body.appendChild(document.createElement("canvas")));
    const weights = Array.from({ length: 48 }, () => Float32Array.from({ length: 512 * 512 }, Math.random));
    const start = performance.now();
    canvases.forEach((canvas, i) => heatmap.drawHeatmap(canvas, heatmap.weightLevels(weights[i]), 512, ramp));
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    return performance.now() - start;
  }, output[0].code).catch((error) => assert.fail(error.message));
  console.log(`48 heads of 512 × 512 in ${milliseconds.toFixed(0)} ms`);
  assert(milliseconds < 500, `${milliseconds} ms`);
  await page.context().close();
}

/** With Tab and the arrow keys alone, a sentence can be translated and every control is reached. */
async function keyboard() {
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
  assert((await outputText(page)).length, "translated without a mouse");
  await page.evaluate(() => (document.activeElement instanceof HTMLElement ? document.activeElement.blur() : null));
  const ITEMS = "[data-item], [role=treeitem]";
  for (let i = 0; i < 500; i++) {
    await page.keyboard.press("Tab");
    const here = await focused();
    if (here.end) break;
    if (!here.item) continue;
    // Tab enters a group once; inside it the arrow keys move on.
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
  assert.deepEqual(missed, [], "controls that the keyboard does not reach");
  await page.context().close();
}

try {
  for (const part of [
    firstPaint,
    keyboard,
    walkThrough,
    searchSettings,
    changes,
    expiredTrace,
    captioning,
    droppedFile,
    everyModel,
    comparison,
    accessToken,
    appearances,
    drawingSpeed,
  ]) {
    await part();
    console.log(`ok ${part.name}`);
  }
  assert.deepEqual(foreignRequests, [], "requests to other origins");
  assert.deepEqual(errors, [], "errors on the page");
  console.log("no request to another origin, no error");
} finally {
  await browser.close();
}
