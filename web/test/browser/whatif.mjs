/** What if: changes to the model and its input; the search; samples; errors. */
import assert from "node:assert/strict";
import { startServer } from "./server.mjs";
import { accessibilityProblems, base, listModels, open, openAt, outputText, screenshot, settled, reaches, stateOf } from "./page.mjs";

/** Hide a word and switch heads off: ledger, map and heads show it; undo restores everything. */
export async function ledger() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  const before = await outputText(page);
  await page.locator(".rail .chip").nth(1).click();
  await settled(page);
  await reaches(page, "mask", "1");
  assert.match(await page.locator(".delta b").innerText(), /^[+−]?\d+\.\d\d$/);
  assert.equal(await page.locator("g.stream.struck").count(), 1, "the hidden word is struck out on the map");
  assert((await page.locator(".rail .ba").count()) === 1, "bars before and after");
  const changed = await outputText(page);
  await page.getByRole("button", { name: "as it is" }).click();
  assert.equal(await outputText(page), before);
  await page.getByRole("button", { name: "what if", exact: true }).click();
  assert.equal(await outputText(page), changed);
  await page.getByRole("button", { name: "Undo all" }).click();
  await settled(page);
  assert.equal(await outputText(page), before);

  const ranked = page.locator(".rank button");
  assert((await ranked.count()) >= 5, "heads are ranked");
  await ranked.first().click();
  await settled(page);
  const name = await ranked.first().getAttribute("title");
  await reaches(page, "ablate", name);
  assert.equal(await page.locator(".offmark").count(), 1, "the head is off on the map");
  assert.deepEqual(await accessibilityProblems(page), []);
  const [site, layer, head] = name.split(".");
  const copy = await openAt({ model: model.id, ablate: name, level: "heads", stack: site === "encoder" ? "encoder" : "decoder", part: site === "cross" ? "cross" : "self", layer, head });
  assert((await copy.locator(".thumb .off").count()) >= 1, "and among the heads");
  await copy.context().close();
  await page.context().close();
}

/** Say another word; the output begins with it. */
export async function forced() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  const before = await outputText(page);
  const chip = page.locator(".rail .chips").nth(1).locator(".chip").first();
  const word = (await chip.innerText()).split(" ")[0];
  await chip.click();
  await settled(page);
  assert((await outputText(page)).startsWith(word) || word === "end", `${word}: ${await outputText(page)}`);
  assert.notEqual(await outputText(page), before);
  await page.context().close();
}

/** Vectors of another sentence in the place of this one's: all of the encoder's last layer make the other sentence's output. */
export async function patching() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id, text: "a b c d" });
  await page.getByText("Take over from another sentence").click();
  await page.getByRole("textbox", { name: "Other sentence" }).fill("e f g h");
  await page.getByRole("combobox", { name: "What to replace" }).selectOption("encoder.1");
  await page.getByRole("button", { name: "Replace" }).click();
  await settled(page);
  await reaches(page, "patch", "encoder.1");
  const patched = await outputText(page);
  const other = await openAt({ model: model.id, text: "e f g h" });
  assert.equal(patched, await outputText(other), "the decoder sees only the other sentence");
  await other.context().close();
  await page.context().close();
}

/** The tree fits, dropped branches are numbers until they are opened, and a hypothesis is shown everywhere. */
export async function search() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id, level: "search" });
  const nodes = page.locator("g.node");
  const kept = await nodes.count();
  await page.getByRole("button", { name: "Show what was dropped" }).click();
  assert((await nodes.count()) > kept);
  const second = page.locator("td.text button").nth(1);
  const text = await second.innerText();
  await second.click();
  await settled(page);
  assert(await stateOf(page, "node"));
  assert.equal((await outputText(page)).replace(/ ?end$/, "").trim(), text);
  await screenshot(page, "search");
  await page.context().close();
}

/** A language model: temperature acts on what is written, and there are several samples. */
export async function samples() {
  const page = await openAt({ model: "text", temperature: "1.5" });
  const buttons = page.locator(".samples button");
  assert.equal(await buttons.count(), 4);
  const first = await outputText(page);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByRole("button", { name: "Another sample" }).click();
  await settled(page);
  assert.notEqual(await outputText(page), first, "another seed, another text");
  assert((await page.locator(".output .word").count()) > 4);
  await page.context().close();
}

/** The model's own search settings apply until the user changes them; French decimals have a comma. */
export async function searchSettings() {
  const [{ id, decode }] = await listModels();
  const page = await openAt({ model: id }, { locale: "fr-FR" });
  const sent = [];
  page.on("request", (request) => request.url().endsWith("/v1/trace") && sent.push(request.postDataJSON()));
  await page.getByRole("button", { name: "Réglages" }).click();
  const penalty = page.getByRole("spinbutton", { name: "Pénalité de longueur" });
  assert.equal(await penalty.inputValue(), String(decode.length_penalty).replace(".", ","));
  await penalty.fill("0,35");
  await penalty.press("Tab");
  await settled(page);
  assert.equal(sent.at(-1).length_penalty, 0.35);
  assert(!("beam" in sent.at(-1)));
  assert.match(page.url(), /penalty=0\.35/);
  await page.context().close();
}

async function submit(page, text) {
  await page.fill("#text", text);
  await page.click("button.submit");
  await settled(page);
}

/** How much of an answer is on the page */
const shown = (page) => page.locator(".output .word, svg.map, footer .steps button, .rail .pair").count();

/** After an error, and without a network, nothing of the previous answer is shown as if it were new. */
export async function noStaleData() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  page.forgiven = true;
  await page.route("**/v1/*", (route) => route.fulfill({ status: 413, contentType: "application/problem+json", body: '{"detail": "the text is too long"}' }));
  await submit(page, "d c b a");
  assert.equal(await page.locator(".problem").innerText(), "the text is too long");
  assert.equal(await shown(page), 0, "nothing of the old answer is left");
  await page.unroute("**/v1/*");
  await page.context().setOffline(true);
  await submit(page, "a b c");
  assert.match(await page.locator(".problem").innerText(), /not responding/);
  assert.equal(await shown(page), 0);
  await page.context().setOffline(false);
  await submit(page, "a b c");
  assert.equal(await page.locator(".problem").innerText(), "");
  assert((await shown(page)) > 0, "and it works again");
  await page.context().close();
}

/** A server is killed and started again on the same port: the page says so, shows nothing old, and works again without a reload. */
export async function killedServer() {
  if (!process.env.SERVE) return;
  let server = await startServer(JSON.parse(process.env.SERVE));
  try {
    const page = await open("#text=a+b+c+d", {}, server.address);
    await settled(page);
    assert((await shown(page)) > 0);
    const loaded = await page.evaluate(() => performance.timeOrigin);
    await server.kill();
    await submit(page, "d c b a");
    assert.match(await page.locator(".problem").innerText(), /not responding/);
    assert.equal(await shown(page), 0, "nothing of the old answer is left");
    server = await startServer(JSON.parse(process.env.SERVE), server.port);
    await submit(page, "d c b a");
    assert.equal(await page.locator(".problem").innerText(), "");
    assert((await shown(page)) > 0, "and it works again");
    assert.equal(await page.evaluate(() => performance.timeOrigin), loaded, "without a reload");
    await page.context().close();
  } finally {
    await server.kill();
  }
}

/** A number is not shown under another name: while it is loaded, and after an error, there is none. */
export async function noNumberOfAnother() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id, level: "cell", layer: "1", part: "cross", row: "1", col: "1" });
  page.forgiven = true;
  assert.equal(await page.locator(".badge").count(), 1);
  await page.route("**/v1/explain", (route) => route.fulfill({ status: 500, contentType: "application/problem+json", body: '{"detail": "internal error"}' }));
  await page.evaluate(() => (location.hash = location.hash.replace("row=1", "row=2")));
  await page.getByText("internal error").waitFor();
  assert.equal(await page.locator(".badge").count(), 0);
  assert.doesNotMatch(await page.locator("h2").first().innerText(), /\d/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".problem").innerText(), "", "the message belongs to the view that was left");
  await page.context().close();
}

/** A trace that the server has deleted is made again. */
export async function expiredTrace() {
  const page = await open();
  await settled(page);
  await page.evaluate(() => (performance.now = () => 1e9)); // much later
  let refused = 0;
  page.forgiven = true;
  await page.route(/v1\/trace\/.*\/stages/, (route) => (refused++ ? route.continue() : route.fulfill({ status: 404, contentType: "application/problem+json", body: '{"detail": "there is no such trace"}' })));
  await page.locator('[data-block="decoder.0"]').focus();
  await page.keyboard.press("Enter");
  await settled(page);
  assert(refused > 1, "requested again");
  assert.equal(await page.locator(".problem").innerText(), "");
  assert.equal(await page.locator(".values canvas").count(), 1, "and drawn");
  await page.context().close();
}

/** Enter in a field of the settings changes that setting and nothing else; a new search drops a hypothesis of the old one. */
export async function settingsKeepTheRest() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id, mask: "1", step: "2" });
  await page.getByRole("button", { name: "Settings" }).click();
  const beam = page.getByRole("spinbutton", { name: "Beam size" });
  await beam.press("Enter");
  await settled(page);
  assert.deepEqual([await stateOf(page, "mask"), await stateOf(page, "step")], ["1", "2"]);
  await page.evaluate(() => (location.hash += "&node=1.1"));
  await settled(page);
  await beam.fill("2");
  await beam.press("Enter");
  await settled(page);
  assert.deepEqual([await stateOf(page, "beam"), await stateOf(page, "node")], ["2", null]);
  await page.context().close();
}

/** Stop ends the request, and leaves no half of an answer. */
export async function stop() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  await page.route("**/v1/trace", () => undefined); // never answered
  await page.fill("#text", "d c b a");
  await page.click("button.submit");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator("button.submit").waitFor();
  assert.equal(await page.locator(".output .word").count(), 0);
  assert.equal(await page.locator(".problem").innerText(), "");
  await page.context().close();
}

/** Every sentence is decoded once, the whole text can be read, a click goes to another sentence, and unknown words are marked. */
export async function sentences() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id, text: "a b c d\nZebra b c!\n\nd c b a" });
  const decoded = [];
  page.on("request", (request) => /v1\/(trace|translate)$/.test(request.url()) && decoded.push(request.postDataJSON().text));
  assert.deepEqual(await page.locator("mark").allInnerTexts(), ["Zebra"]);
  const whole = page.locator(".output .whole");
  await page.waitForFunction(() => !document.querySelector(".output .whole")?.innerText.includes("…"));
  const answer = await fetch(`${base}/v1/translate`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: model.id, text: "a b c d\nZebra b c!\n\nd c b a" }) });
  const { text, sentences: translated } = await answer.json();
  assert.equal((await whole.innerText()).trim(), text.trim());
  assert.deepEqual(decoded, [], "nothing is decoded after the first answer");
  await whole.getByRole("button").nth(2).click();
  await settled(page);
  await reaches(page, "sentence", "2");
  assert.equal((await outputText(page)).replace(/\s*end$/, "").trim(), translated[2].text);
  assert.deepEqual(decoded, ["d c b a"], "only the sentence that is looked into");
  assert.deepEqual(await accessibilityProblems(page), []);
  await screenshot(page, "sentences");
  await page.context().close();
}
