/**
 * Test the main path of the page in Firefox against a running server, with the zoom that other tests switch off:
 *   regard serve DIR --port 8123
 *   node --experimental-websocket test/firefox.mjs http://127.0.0.1:8123 [folder for screenshots]
 * The first model must be a Transformer translator with two layers.
 */
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch } from "./browser/bidi.mjs";

const [base = "http://127.0.0.1:8123", folder] = process.argv.slice(2);
const TEXT = process.env.TEXT ?? "the green witch arrived";
const ENTER = "\uE007";

const count = (selector) => `document.querySelectorAll(${JSON.stringify(selector)}).length`;
const level = `new URLSearchParams(location.hash.slice(1)).get("level")`;
const isMoving = `document.getAnimations().some(({ effect }) => effect.pseudoElement?.startsWith("::view-transition"))`;

/** Wait until a view is there and does not move any more. */
async function reach(tab, wanted, selector, shot) {
  await tab.until(`${level} === ${wanted && `"${wanted}"`} && ${count(selector)} > 0 && !${count(".progress.busy")} && !${isMoving}`);
  assert.equal(await tab.evaluate(`document.querySelector(".problem").innerText`), "", `at ${wanted ?? "map"}`);
  if (folder) await tab.screenshot(join(folder, `firefox-${shot ?? wanted ?? "map"}.png`));
}

async function translate(tab) {
  await tab.open(base);
  await tab.until(count("#text:enabled"));
  await tab.evaluate(`document.querySelector("#text").select()`);
  await tab.type(TEXT + ENTER);
  await tab.until(`new URLSearchParams(location.hash.slice(1)).get("text") === ${JSON.stringify(TEXT)} && ${count(".output .word")} > 0`);
  await reach(tab, null, "svg.map .slab");
  const shown = await tab.evaluate(`document.querySelector(".output .words").innerText`);
  const body = JSON.stringify({ q: TEXT, source: "auto", target: (await firstModel()).languages[1] });
  const answer = await fetch(`${base}/translate`, { method: "POST", headers: { "content-type": "application/json" }, body });
  assert.equal(shown.replace(/\s*end$/, "").trim(), (await answer.json()).translatedText);
}

const firstModel = async () => (await (await fetch(`${base}/v1/models`)).json()).models[0];

/** From the whole model to a number, by the mouse, and back by the browser's Back */
async function walk(tab) {
  assert.equal(await tab.evaluate(count("svg.map .slab")), 4, "two layers on each side");
  await tab.click('[data-block="decoder.1"] .slab');
  await tab.until(isMoving);
  await reach(tab, "block", '[data-zoom="decoder.1.cross"] button.thumb');
  await tab.click('[data-zoom="decoder.1.cross"] button.thumb');
  await reach(tab, "heads", ".matrix .cells canvas");
  await tab.click(".matrix .cells", 0.6, 0.6);
  await reach(tab, "cell", ".badge");
  const delta = Number((await tab.evaluate(`document.querySelector(".badge").innerText`)).split("=")[1].replace("−", "-"));
  assert(delta < 1e-4, `page and server differ by ${delta}`);
  for (const [wanted, selector] of [["heads", ".matrix .cells canvas"], ["block", "button.thumb"], [null, "svg.map .slab"]]) {
    await tab.back();
    await reach(tab, wanted, selector, `back-${wanted ?? "map"}`);
  }
  console.log(`Firefox: map, layer, heads, cell and back; max |Δ| = ${delta}`);
}

if (folder) mkdirSync(folder, { recursive: true });
const tab = await launch(process.env.FIREFOX ?? "/usr/bin/firefox-esr");
try {
  await translate(tab);
  await walk(tab);
  assert(tab.requests.length > 5, "requests are seen");
  assert.deepEqual(tab.requests.filter((url) => !/^(blob|data):/.test(url) && new URL(url).origin !== base), [], "requests to other origins");
  assert.deepEqual(tab.errors, [], "errors on the page");
} finally {
  await tab.close();
}
