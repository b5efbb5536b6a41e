/** The page as a whole: every model, access, appearance, speed and the keyboard. */
import assert from "node:assert/strict";
import { build } from "vite";
import { describe, drawImage } from "./captioning.mjs";
import { accessibilityProblems, badge, delta, errors, listModels, open, outputText, screenshot, settled, TEXT, widths } from "./page.mjs";

export async function firstPaint() {
  const page = await open();
  const paint = await page.evaluate(
    () => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true })),
  );
  console.log(`first paint after ${paint.toFixed(0)} ms`);
  assert(paint < 1000);
  await page.context().close();
}

/** Every model gives an output without an error message. */
export async function everyModel() {
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

/** A server that requires an access token: the form, the page with the hash of the link, an ended session, signing out. */
export async function accessToken() {
  if (!process.env.GUARDED) return;
  const page = await open(`#text=${encodeURIComponent(TEXT)}`, {}, process.env.GUARDED);
  const enter = async (token) => {
    await page.locator("input[type=password]").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForLoadState("networkidle");
  };
  await enter("wrong");
  assert.match(await page.locator("main").innerText(), /This token is wrong/);
  assert.deepEqual(await accessibilityProblems(page), []);
  await enter("s3cret");
  await settled(page);
  assert(page.url().startsWith(`${process.env.GUARDED}/#`) && page.url().includes("text="), page.url());
  assert((await outputText(page)).length > 5);
  assert.equal(await page.evaluate(() => document.cookie), "regard_signed_in=1");
  await page.context().clearCookies();
  await page.click("button.submit");
  await page.locator("input[type=password]").waitFor();
  await enter("s3cret");
  await settled(page);
  assert((await outputText(page)).length > 5);
  assert.equal(await page.locator("input[type=password]").count(), 0);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForLoadState("networkidle");
  assert.match(await page.locator("main").innerText(), /needs an access token/);
  assert(errors.every((text) => /status of 401/.test(text)), errors.join());
  errors.length = 0; // the 401s of this test
  await page.context().close();
}

/** Dark, small and French: everything fits, and axe finds nothing. */
export async function appearances() {
  for (const [name, hash, options] of [
    ["dark", "view=links&lecture=2", { colorScheme: "dark" }],
    ["small", "lecture=3", { viewport: { width: 360, height: 740 } }],
    ["small-dark", "lecture=7&view=links", { viewport: { width: 360, height: 740 }, colorScheme: "dark" }],
    ["french", "lecture=7&site=encoder", { locale: "fr-FR" }],
  ]) {
    const page = await open(`#${hash}&${new URLSearchParams({ text: TEXT })}`, options);
    await settled(page);
    const [width, available] = await widths(page);
    assert(width <= available, `${name}: ${width} px do not fit into ${available}`);
    assert.deepEqual(await accessibilityProblems(page), [], name);
    if (name === "french") assert.equal(await page.locator("button.submit").innerText(), "Traduire");
    await screenshot(page, name);
    await page.context().close();
  }
}

/** Draw 48 heads of 512 × 512 with the code of the page, about as fast as a loop that only copies the numbers. */
export async function drawingSpeed() {
  const entry = new URL("../../src/figure/heatmap.ts", import.meta.url).pathname;
  const [{ output }] = await build({
    configFile: false,
    logLevel: "error",
    build: { write: false, lib: { entry, name: "heatmap", formats: ["iife"] } },
  });
  const page = await open();
  const [ours, plain] = await page.evaluate(async (code) => {
    const heatmap = new Function(`${code}; return heatmap`)();
    const ramp = Uint32Array.from({ length: 256 }, (_, i) => (0xff000000 | (i * 0x010101)) >>> 0);
    const canvases = Array.from({ length: 48 }, () => document.body.appendChild(document.createElement("canvas")));
    const weights = Array.from({ length: 48 }, () => Float32Array.from({ length: 512 * 512 }, Math.random));
    const copy = (canvas, numbers) => {
      canvas.width = canvas.height = 512;
      const context = canvas.getContext("2d");
      const image = context.createImageData(512, 512);
      const pixels = new Uint32Array(image.data.buffer);
      for (let i = 0; i < numbers.length; i++) pixels[i] = ramp[Math.floor(255 * numbers[i])];
      context.putImageData(image, 0, 0);
    };
    const draw = (canvas, numbers) => heatmap.drawHeatmap(canvas, heatmap.weightLevels(numbers), 512, ramp);
    const seconds = async (paint) => {
      const start = performance.now();
      canvases.forEach((canvas, i) => paint(canvas, weights[i]));
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      return performance.now() - start;
    };
    const times = [[], []];
    for (let round = 0; round < 4; round++)
      for (const [i, paint] of [draw, copy].entries()) times[i].push(await seconds(paint));
    return times.map((each) => Math.min(...each));
  }, output[0].code).catch((error) => assert.fail(error.message));
  console.log(`48 heads of 512 × 512 in ${ours.toFixed(0)} ms, ${(ours / plain).toFixed(1)} × a plain loop`);
  assert(ours < 4 * plain, `${ours} and ${plain} ms`);
  await page.context().close();
}

/** With Tab and the arrow keys alone, a sentence can be translated and every control is reached. */
export async function keyboard() {
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
