/** From the drawing of the whole model down to a number and back, for every kind of model. */
import assert from "node:assert/strict";
import { describe, drawImage } from "./image.mjs";
import { accessibilityProblems, base, delta, listModels, openAt, outputText, screenshot, settled, reaches, TEXT } from "./page.mjs";

async function openModel(id, options) {
  const page = await openAt({ model: id }, options);
  if (await page.locator("#image").count()) await describe(page, await drawImage(page, 96, 96));
  assert.equal(await page.locator(".problem").innerText(), "", id);
  return page;
}

/** Click a layer, a head and a cell; then up again by Esc, the trail and the browser's Back. */
async function walk(id, { stack, layer, part }) {
  const page = await openModel(id);
  assert((await outputText(page)).length > 0, id);
  const slab = await page.locator(`[data-block="${stack}.${layer}"] .slab`).boundingBox();
  await page.mouse.click(slab.x + slab.width / 2, slab.y + slab.height / 2); // a stream inside of a layer opens the layer
  await reaches(page, "level", "block");
  await settled(page);
  await page.locator(`[data-zoom="${stack}.${layer}.${part}"] button.thumb`).first().click();
  await settled(page);
  await reaches(page, "level", "heads");
  await page.getByRole("application").press("ArrowDown");
  await page.getByRole("application").press("Enter");
  await settled(page);
  await reaches(page, "level", "cell");
  assert((await delta(page)) < 1e-4, `${id}: page and server agree`);
  const address = page.url();
  await page.keyboard.press("Escape");
  await page.locator(".matrix canvas").first().waitFor();
  await page.goBack();
  await reaches(page, "level", "cell"); // Back returns to the cell
  assert.equal(page.url(), address);
  await page.getByRole("navigation").getByRole("button", { name: /^layer/ }).click();
  await reaches(page, "level", "block");
  await page.getByRole("navigation").getByRole("button", { name: "model" }).click();
  await page.locator("svg.map").waitFor();
  await page.context().close();
  return address;
}

export async function encoderDecoder() {
  const [model] = await listModels();
  const address = await walk(model.id, { stack: "decoder", layer: 1, part: "cross" });
  await walk(model.id, { stack: "encoder", layer: 0, part: "self" });
  const copy = await openAt(Object.fromEntries(new URLSearchParams(new URL(address).hash.slice(1))));
  assert((await delta(copy)) < 1e-4, "the address reproduces the cell");
  assert.deepEqual(await accessibilityProblems(copy), []);
  await screenshot(copy, "cell");
  await copy.context().close();
}

export const decoderOnly = () => walk("text", { stack: "decoder", layer: 0, part: "self" });
export const recurrent = () => walk("rnn", { stack: "decoder", layer: 0, part: "cross" });
export const captioner = () => walk("captioner", { stack: "decoder", layer: 1, part: "cross" });

/** The page computes every stage of every block of every model again; it agrees with the server. */
export async function everyStage() {
  for (const { id } of (await listModels()).filter(({ id }) => id !== "toy")) {
    const page = await openModel(id);
    const blocks = (await (await fetch(`${base}/v1/describe?${new URLSearchParams({ model: id })}`)).json()).blocks;
    await page.locator('[data-block="output"]').focus();
    await page.keyboard.press("Enter");
    let worst = 0;
    let stages = 0;
    for (const block of blocks) {
      await page.getByRole("combobox", { name: "Block" }).selectOption(block);
      await page.locator(`[data-checked="${block}"]`).waitFor();
      stages += await page.locator("[data-stage]").count();
      const shown = await page.locator(".badge").count();
      if (shown) worst = Math.max(worst, await delta(page));
      assert.equal(await page.locator(".problem").innerText(), "", `${id} ${block}`);
    }
    console.log(`${id}: ${blocks.length} blocks, ${stages} stages, max |Δ| = ${worst}`);
    assert(stages > 3 && worst < 1e-3, `${id}: ${worst}`);
    await page.context().close();
  }
}

/** A number of the arithmetic lights what it is made of, and its sum is written out. */
export async function arithmetic() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id, level: "arithmetic", block: "decoder.0", stage: "cross.query" });
  const result = page.locator("figure").last().locator("canvas");
  await result.hover({ position: { x: 30, y: 12 } });
  assert((await page.locator(".light").count()) >= 3, "row, column and result are lit");
  assert.match(await page.locator(".sum").innerText(), /×.*\+.*more\).*= −?\d/);
  await page.locator('[data-stage="cross.weights"]').click();
  await settled(page);
  assert.match(await page.locator(".sum").innerText(), /exp\(.*÷/);
  assert.deepEqual(await accessibilityProblems(page), []);
  await screenshot(page, "arithmetic");
  await page.context().close();
}

/** Hovering a word lights it in the sentence, on the map, in the lens and in the steps. */
export async function oneHover() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  await page.locator(".output .word").nth(1).hover();
  for (const place of [".output .word.hot", "g.stream.decoder.hot", "g.lens .hot", "footer .hot", "g.stream.encoder.hot"]) {
    assert((await page.locator(place).count()) > 0, `${place} is lit`);
  }
  await page.mouse.move(5, 5);
  assert.equal(await page.locator(".hot").count(), 0);
  const name = page.locator("g.name.decoder[data-row='2']");
  await name.hover();
  assert.equal(await name.evaluate((each) => each.classList.contains("hot")), true, "the label itself");
  assert.equal(await page.locator(".output .word").nth(1).evaluate((word) => word.classList.contains("hot")), true, "the word that is read");
  await page.context().close();
}

/** The logit lens: a row per part; a row's name opens its layer. */
export async function lens() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  await page.locator("g.lens rect").first().click();
  await settled(page);
  await reaches(page, "level", "lens");
  const rows = page.locator("tbody tr");
  assert.equal(await rows.count(), 7, "as read, and three parts of two layers");
  const said = await page.locator(".output .word").first().innerText();
  assert((await rows.last().locator("td").first().innerText()).startsWith(said), "the last row is what is said");
  assert.deepEqual(await accessibilityProblems(page), []);
  await rows.nth(5).getByRole("button").click();
  await reaches(page, "level", "block");
  await reaches(page, "layer", "1");
  await page.context().close();
}

/** 200 words: the map and the matrix stay legible, and nothing overflows. */
export async function longInput() {
  const [model] = await listModels();
  const words = Array.from({ length: 200 }, (_, i) => TEXT.split(" ")[i % TEXT.split(" ").length]).join(" ");
  const page = await openAt({ model: model.id, text: words, step: "3" });
  assert.equal(await page.locator(".problem").innerText(), "");
  assert((await page.locator("g.stream.encoder").count()) > 150);
  const labels = page.locator("g.name.encoder text.label");
  assert((await labels.count()) <= 11, "only the words around the chosen one are written");
  await page.locator('[data-block="decoder.0"]').focus();
  await page.keyboard.press("Enter");
  await settled(page);
  await page.locator('[data-zoom="decoder.0.cross"] button.thumb').first().click();
  await settled(page);
  const fits = await page.evaluate(() => document.querySelector(".matrix .cells").getBoundingClientRect().right < innerWidth);
  assert(fits, "the matrix fits");
  await page.getByRole("button", { name: "Zoom in" }).click();
  assert.equal(await page.locator(".overview").count(), 1);
  await screenshot(page, "long");
  await page.context().close();
}
