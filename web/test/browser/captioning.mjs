/** Captioning: an image goes in, and attention is shown over its regions. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  accessibilityProblems,
  badge,
  delta,
  folder,
  listModels,
  open,
  outputText,
  saveFile,
  screenshot,
  settled,
  widths,
} from "./page.mjs";

/** An image file of this size, drawn by the browser: a triangle on the left, a cross on the right */
export async function drawImage(page, width, height) {
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

const findCaptioner = async () => (await listModels()).find(({ task }) => task === "captioner");
const captionerHash = (model) => `#${new URLSearchParams({ model: model.id, layer: "1" })}`;

/** Choose an image and submit it. */
export async function describe(page, file) {
  await page.locator("#image").setInputFiles(file);
  await page.locator(".drop img").waitFor();
  await page.click("button.submit");
  await settled(page);
}

/** The content of a canvas, as a string to compare */
const canvasContent = (canvas) => canvas.evaluate((node) => node.toDataURL());

/** Caption an image, and look at it in every panel. */
export async function captioning() {
  const model = await findCaptioner();
  if (!model) return console.log("no captioner");
  const page = await open(captionerHash(model));
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

  await imageAttention(page);
  await imageFiles(page, model);
  await screenshot(page, "image");
  assert.deepEqual(await accessibilityProblems(page), []);
  await captionChanges(page);
  await imageComparison(page, model);
  await otherSites(page);
  await otherModel(page, model);
  await page.locator("#image").setInputFiles({ name: "no.png", mimeType: "image/png", buffer: Buffer.from("not an image") });
  await page.locator(".problem:not(.empty)").waitFor();
  await page.context().close();
}

/** The large image, its thumbnails and the grid of heads follow the selected token. */
async function imageAttention(page) {
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
}

/** The displayed weight is the one in the CSV file; the figure can be saved. */
async function imageFiles(page, model) {
  const panel = page.locator("section[aria-labelledby=attention-title]");
  await panel.locator('[role="application"]').focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  const readout = await panel.locator("output.hint").first().innerText();
  assert.match(readout, /row 1, column 1: 0\.\d{4}$/);
  const [, first] = readFileSync(await saveFile(page, "attention", "CSV"), "utf8").split("\r\n");
  const value = Number(first.split(",")[1 + model.picture.regions + 1]); // after the token
  assert.equal(value.toFixed(4), readout.split(": ")[1]);
  const tokens = await page.locator("section[aria-labelledby=tokens-title] .strip button").count();
  const [svg, png] = [await saveFile(page, "attention", "SVG"), await saveFile(page, "attention", "PNG")];
  assert.equal(readFileSync(svg, "utf8").match(/<image/g).length, 1 + tokens);
  assert(readFileSync(png).length > 5000, "an image, not an empty sheet");
  for (const [name, path] of Object.entries({ "saved.svg": svg, "saved.png": png })) {
    if (folder) writeFileSync(join(folder, name), readFileSync(path));
  }
}

/** A forced token and a node of the beam. */
async function captionChanges(page) {
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
}

/** A second captioner, if there is one */
async function imageComparison(page, model) {
  const [other] = await page.locator("header select").nth(1).locator("option:not([value=''])").allInnerTexts();
  if (!other) return;
  await page.locator("header select").nth(1).selectOption(other);
  await settled(page);
  const panel = page.locator("section[aria-labelledby=compare-title]");
  assert.deepEqual(await panel.locator("h3").allInnerTexts(), [model.id, other]);
  console.log(`${other}: ${await panel.locator(".output").nth(1).innerText()}`);
  await screenshot(page, "image-compare");
}

/** Attention inside the encoder and the decoder is shown as a matrix. */
async function otherSites(page) {
  for (const site of ["Encoder", "Decoder"]) {
    await page.getByRole("tab", { name: site }).click();
    await settled(page);
    assert((await delta(page)) < 1e-4, site);
    assert.equal(await page.locator(".image-highlight").count(), 0, `${site}: a matrix`);
    await screenshot(page, `image-${site.toLowerCase()}`);
  }
}

/** The image is kept while another model is selected. */
async function otherModel(page, model) {
  const caption = await outputText(page);
  const models = page.locator("header select").first();
  const [translator] = await models.locator("option").allInnerTexts();
  for (const [name, expected] of [[translator, ""], [model.id, caption]]) {
    await models.selectOption(name);
    await settled(page);
    if (expected) assert.equal(await outputText(page), expected, "the same caption");
    else assert.equal(await page.locator("#image, .image-highlight").count(), 0);
  }
}

/** Dark, small and French: everything fits, and axe finds nothing. */
export async function captioningAppearances() {
  const model = await findCaptioner();
  if (!model) return;
  for (const [name, options] of [
    ["image-dark", { colorScheme: "dark" }],
    ["image-small", { viewport: { width: 360, height: 740 }, locale: "fr-FR" }],
  ]) {
    const page = await open(`${captionerHash(model)}&step=1`, options);
    await settled(page);
    await describe(page, await drawImage(page, 100, 240));
    const [width, available] = await widths(page);
    assert(width <= available, `${name}: ${width} px do not fit into ${available}`);
    assert.deepEqual(await accessibilityProblems(page), [], name);
    assert.match(page.url(), /step=1/);
    if (options.locale) assert.equal(await page.locator("button.submit").innerText(), "Décrire l’image");
    await screenshot(page, name);
    await page.context().close();
  }
}

/** A file can be dropped instead of chosen, and the keyboard reaches the field. */
export async function droppedFile() {
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
