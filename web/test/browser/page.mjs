/** A browser with the page of the server under test, and what the tests need to know about it. */
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const [base = "http://127.0.0.1:8123", folder] = process.argv.slice(2);
export const TEXT = process.env.TEXT ?? "the green witch arrived";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync"];

export const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: FLAGS.map((flag) => `--${flag}`),
});
/** Requests to other origins */
export const foreignRequests = [];
/** Errors on the page and in its console; a test (or a guarded server) whose requests fail on purpose sets `page.forgiven` */
export const errors = [];

/** Open the page with this hash in a browser context of its own. */
export async function open(hash = "", options = {}, address = base) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, acceptDownloads: true, reducedMotion: "reduce", ...options });
  const page = Object.assign(await context.newPage(), { pending: 0, forgiven: address !== base });
  await page.route("**/*", (route) => {
    const url = route.request().url();
    if (url.startsWith(address) || url.startsWith("blob:") || url.startsWith("data:")) return route.continue();
    foreignRequests.push(url);
    return route.abort();
  });
  page.on("request", () => page.pending++);
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, () => page.pending--);
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && !page.forgiven && errors.push(message.text()));
  await page.goto(`${address}/${hash}`);
  return page;
}

/** Wait until no request has been running for a while. */
export async function settled(page) {
  for (let quiet = 0; quiet < 5; quiet++) {
    await page.waitForTimeout(50);
    if (page.pending || (await page.locator(".progress.busy").count())) quiet = 0;
  }
}

/** The serious and critical accessibility problems that axe finds */
export async function accessibilityProblems(page) {
  await page.mouse.move(1, 1); // pointing at a word dims all others
  await page.waitForFunction(() => !document.body.classList.contains("hovering"));
  await page.evaluate(axe); // evaluated by the debugger, to which the page's content security policy does not apply
  const results = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return results.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 5).map(({ html }) => html.slice(0, 140)).join(" | ")}`);
}

export async function screenshot(page, name) {
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

/** The width of the page's content and of the window */
export const widths = (page) => page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);

export const outputText = (page) => page.locator(".output .words").first().innerText();
/** The largest difference between page and server, as the page shows it */
export const delta = async (page) => Number((await page.locator(".badge").first().innerText()).split("=")[1].trim().replace("−", "-"));

export const listModels = async () => (await (await fetch(`${base}/v1/models`)).json()).models;
/** The page with this state */
export const openAt = async (state, options) => {
  const page = await open(`#${new URLSearchParams({ text: TEXT, ...state })}`, options);
  await settled(page);
  return page;
};
/** A field of the state in the address */
export const stateOf = (page, name) => page.evaluate((field) => new URLSearchParams(location.hash.slice(1)).get(field), name);
/** Wait until a field of the state has this value; null: its default. */
export const reaches = (page, name, value) =>
  page.waitForFunction(([field, wanted]) => new URLSearchParams(location.hash.slice(1)).get(field) === wanted, [name, value], { timeout: 5000 });
