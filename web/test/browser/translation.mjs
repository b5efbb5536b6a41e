/** Translation: the panels of the page, changes to the model, search settings. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessibilityProblems, badge, delta, errors, listModels, open, outputText, saveFile, screenshot, settled, TEXT } from "./page.mjs";

/** Translate, select a head, a row and a node, open the lecture, save files, and reproduce it all from the link. */
export async function walkThrough() {
  const page = await open();
  await settled(page);
  await page.fill("#text", TEXT);
  await recordShownTexts(page);
  await page.click("button.submit");
  await settled(page);
  const translation = await outputText(page);
  const shown = await page.evaluate(() => [...globalThis.shownTexts]);
  const isHypothesis = (text) => text && text !== "…" && text !== translation;
  assert(shown.some(isHypothesis), `hypotheses are shown before the translation: ${shown}`);
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

  await savedFiles(page);
  assert.deepEqual(await accessibilityProblems(page), []);

  await permalink(page);
  await page.context().close();
}

/** Record every text of the output. The events of a translation arrive one by one, or the page could skip some. */
async function recordShownTexts(page) {
  await page.evaluate(() => {
    const output = document.querySelector(".output");
    globalThis.shownTexts = new Set();
    const record = () => globalThis.shownTexts.add(output.innerText);
    new MutationObserver(record).observe(output, { childList: true, characterData: true, subtree: true });

    const { fetch } = globalThis;
    globalThis.fetch = async (path, init) => {
      const response = await fetch(path, init);
      if (path !== "v1/translate" || !response.ok) return response;
      const events = (await response.text()).split(/(?<=\n\n)/);
      const slowly = new ReadableStream({
        async pull(controller) {
          await new Promise((resolve) => setTimeout(resolve, 50));
          if (events.length) controller.enqueue(new TextEncoder().encode(events.shift()));
          else controller.close();
        },
      });
      return new Response(slowly, response);
    };
  });
}

/** A map can be saved in all four formats. */
async function savedFiles(page) {
  const svg = readFileSync(await saveFile(page, "attention", "SVG"), "utf8");
  assert(svg.startsWith("<svg") && (svg.match(/<rect/g) ?? []).length > 10, "each cell is a rectangle");
  assert.equal(readFileSync(await saveFile(page, "attention", "PNG")).subarray(1, 4).toString(), "PNG");
  assert.equal(JSON.parse(readFileSync(await saveFile(page, "attention", "JSON"))).text, TEXT);
  assert(readFileSync(await saveFile(page, "attention", "CSV"), "utf8").split("\r\n").length > 3);
}

/** The address reproduces the page. */
async function permalink(page) {
  const copy = await open(new URL(page.url()).hash);
  await settled(copy);
  for (const part of [".output", ".strips", ".head-name", ".badge", "#lecture-step", ".readout"]) {
    const [a, b] = await Promise.all([page, copy].map((each) => each.locator(part).first().innerText()));
    assert.equal(a, b, `a permalink reproduces ${part}`);
  }
  await screenshot(copy, "light");
  await copy.context().close();
}

/** The model's own search settings apply until the user changes them; French decimals have a comma. */
export async function searchSettings() {
  const [{ decode }] = await listModels();
  const page = await open(`#${new URLSearchParams({ text: TEXT })}`, { locale: "fr-FR" });
  const sent = [];
  page.on("request", (request) => request.url().endsWith("/v1/trace") && sent.push(request.postDataJSON()));
  await page.reload();
  await settled(page);
  assert(sent.length > 0 && sent.every((body) => !("beam" in body) && !("length_penalty" in body)), JSON.stringify(sent));
  const field = (name) => page.getByRole("spinbutton", { name });
  const [beam, penalty] = [field("Largeur du faisceau"), field("Pénalité de longueur")];
  const own = decode ? [decode.beam, decode.length_penalty].map((value) => String(value).replace(".", ",")) : ["", ""];
  assert.deepEqual([await beam.inputValue(), await penalty.inputValue()], own);
  const change = async (input, text) => {
    sent.length = 0;
    await input.fill(text);
    await input.press("Tab");
    await settled(page);
    return sent.at(-1);
  };
  assert.equal((await change(penalty, "0,35")).length_penalty, 0.35);
  assert.equal(await penalty.inputValue(), "0,35");
  assert.equal((await change(beam, "2")).beam, 2);
  assert.match(page.url(), /beam=2&penalty=0\.35/);
  assert.equal(await change(beam, "99"), undefined, "a value out of bounds is not sent");
  assert.equal(await beam.inputValue(), "2");
  const cleared = await change(penalty, "");
  assert.equal(cleared.beam, 2);
  assert(!("length_penalty" in cleared), "a cleared field means the model's own setting");
  assert.equal(await penalty.inputValue(), own[1]);
  assert.match(await page.locator("section[aria-labelledby=output-title] p.hint").innerText(), /score −?\d+,\d{3} · log p −?\d+,\d{3}/);
  await page.context().close();
}

/** Switch heads off, hide a source token, force a token. */
export async function changes() {
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
export async function expiredTrace() {
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

export async function comparison() {
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
