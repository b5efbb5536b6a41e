/**
 * Test a page that `regard export --to web` wrote, in a real browser:
 *   python -m http.server --directory OUT 8124
 *   TEXTS='["a text", "another text"]' node test/exported.mjs http://127.0.0.1:8124 [folder for screenshots]
 * The network is cut after the page has loaded. Prints the translations of the texts, by beam and by greedy search, and
 * the times that the page shows, as JSON.
 */
import assert from "node:assert/strict";
import { accessibilityProblems, browser, errors, folder, foreignRequests, open, screenshot, widths } from "./browser/page.mjs";

const texts = JSON.parse(process.env.TEXTS);

async function ready(page) {
  await page.waitForFunction(() => !document.getElementById("translate").disabled);
}

/** Translate by the keyboard; returns the translation and what the page says of its time. */
async function translate(page, text) {
  await page.fill("#text", text);
  await page.press("#text", "Enter");
  await page.waitForFunction(() => / in /.test(document.getElementById("status").textContent));
  return { text: await page.locator("#output").textContent(), status: await page.locator("#status").textContent() };
}

const WINDOWS = [["desktop", 1280, "light"], ["phone-dark", 375, "dark"], ["desktop-dark", 1280, "dark"], ["phone", 375, "light"]];

async function appearances() {
  for (const [name, width, colorScheme] of folder ? WINDOWS : WINDOWS.slice(0, 2)) {
    const page = await open("", { viewport: { width, height: 700 }, colorScheme });
    await ready(page);
    await translate(page, texts[0]);
    const [content, window] = await widths(page);
    assert.ok(content <= window, `${name}: the content is ${content} pixels wide`);
    assert.deepEqual(await accessibilityProblems(page), [], name);
    await screenshot(page, `exported-${name}`);
    await page.context().close();
  }
}

try {
  const page = await open();
  await ready(page);
  const result = { status: await page.locator("#status").textContent() };
  await page.context().setOffline(true);
  for (const search of await page.locator("#search option").evaluateAll((options) => options.map(({ value }) => value))) {
    await page.selectOption("#search", search);
    result[search === "1" ? "greedy" : "beam"] = [];
    for (const text of texts) result[search === "1" ? "greedy" : "beam"].push(await translate(page, text));
  }
  await appearances();
  assert.deepEqual(foreignRequests, [], "requests to other origins");
  assert.deepEqual(errors, [], "errors on the page");
  console.log(JSON.stringify(result));
} finally {
  await browser.close();
}
