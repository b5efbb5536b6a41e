/** The page as a whole: first paint, play, tour, presentation, access, appearance, keyboard, speed. */
import assert from "node:assert/strict";
import { build } from "vite";
import { accessibilityProblems, listModels, open, openAt, outputText, screenshot, settled, reaches, stateOf, TEXT, widths } from "./page.mjs";

export async function firstPaint() {
  const page = await open();
  const paint = await page.evaluate(
    () => new Promise((done) => new PerformanceObserver((list) => done(list.getEntries()[0].startTime)).observe({ type: "paint", buffered: true })),
  );
  console.log(`first paint after ${paint.toFixed(0)} ms`);
  assert(paint < 1000);
  await page.context().close();
}

/** Play shows one word after another; the clock of the page is moved by hand. */
export async function play() {
  const page = await openAt({});
  await page.clock.install();
  const unsaid = () => page.locator(".output .word.unsaid").count();
  const words = await page.locator(".output .word").count();
  await page.getByRole("button", { name: "Play" }).click();
  assert.equal(await unsaid(), words - 1);
  await page.clock.runFor(1700);
  assert.equal(await unsaid(), words - 2);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.clock.runFor(10_000);
  assert.equal(await unsaid(), words - 2, "a pause");
  await page.getByRole("button", { name: "Next word" }).click();
  assert.equal(await unsaid(), words - 3);
  await page.context().close();
}

/** Eight stops, each with an address, one sentence and one question. */
export async function tour() {
  const page = await openAt({});
  await page.keyboard.press("t");
  const levels = [];
  for (let stop = 1; stop <= 8; stop++) {
    await page.getByText(`${stop} of 8`).waitFor();
    await settled(page);
    await reaches(page, "tour", String(stop));
    assert.match(await page.locator(".tour .question").innerText(), /\?$/);
    levels.push((await stateOf(page, "level")) ?? "map");
    if (stop === 4) {
      const copy = await openAt(Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1))));
      await copy.getByText("4 of 8").waitFor();
      await copy.context().close();
    }
    if (stop < 8) await page.keyboard.press("ArrowRight");
  }
  assert.deepEqual(levels, ["map", "map", "map", "map", "block", "heads", "cell", "map"]);
  assert.deepEqual(await accessibilityProblems(page), []);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".tour").count(), 0);
  await page.context().close();
}

/** One model after the other: nothing of the last one stays in the way of the next. */
export async function modelsInTurn() {
  const models = await listModels();
  const page = await openAt({ step: "3" });
  for (const { id } of [...models.filter(({ task }) => task !== "captioner"), models[0]]) {
    await page.locator("select.model").selectOption(id);
    await settled(page);
    assert.equal(await page.locator(".problem").innerText(), "", id);
    assert((await page.locator("svg.map .slab").count()) > 0, id);
  }
  assert((await page.locator("footer .steps button").count()) > 1, "the steps of a translator are back");
  await page.context().close();
}

/** Links to places that the model does not have open the nearest one. */
export async function wrongLinks() {
  for (const [state, selector] of [
    [{ step: "-1" }, "svg.map .slab"],
    [{ level: "cell", part: "cross", row: "-1", step: "1.5" }, ".badge"],
    [{ level: "heads", part: "nope" }, ".card"],
    [{ level: "block", layer: "99" }, ".card"],
    [{ level: "heads", part: "cross", layer: "9", head: "77" }, ".matrix canvas"],
    [{ model: "text", level: "block", stack: "encoder" }, ".card"],
  ]) {
    const page = await openAt(state);
    assert((await page.locator(selector).count()) > 0, JSON.stringify(state));
    await page.context().close();
  }
}

/** A tour goes where the user goes: a change of the model at a stop does not throw back to where the stop began. */
export async function tourLetsGo() {
  const page = await openAt({ tour: "6" });
  await page.getByText("6 of 8").waitFor();
  await settled(page);
  await page.getByRole("button", { name: /head 3/ }).first().click();
  await reaches(page, "head", "2");
  await page.getByRole("button", { name: "Switch head off" }).click();
  await settled(page);
  assert.equal(await stateOf(page, "head"), "2");
  assert.equal(await page.locator(".tour").count(), 1);
  await page.context().close();
}

/** A technical term is explained while it is pointed at or has the focus. */
export async function terms() {
  const page = await openAt({ level: "block", layer: "1" });
  const term = page.locator(".tech .term").first();
  await term.focus();
  assert.match(await page.getByRole("tooltip").innerText(), /sees only the words before it/);
  await page.keyboard.press("Tab");
  await page.locator(".lede .term").first().hover();
  assert.match(await page.getByRole("tooltip").innerText(), /on its way through the model/);
  await page.mouse.move(5, 5);
  await page.locator("h2").first().click();
  assert.equal(await page.getByRole("tooltip").count(), 0);
  await page.context().close();
}

/** Presentation: large type, and the keys of a remote control. */
export async function presentation() {
  const page = await openAt({});
  const size = () => page.locator(".output .words").evaluate((node) => parseFloat(getComputedStyle(node).fontSize));
  const before = await size();
  await page.keyboard.press("p");
  assert((await size()) > before);
  assert.equal(await page.locator(".rail").count(), 0);
  await page.keyboard.press("PageDown");
  await reaches(page, "step", "1");
  await screenshot(page, "present");
  await page.keyboard.press("Escape");
  assert.equal(await size(), before);
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
  await page.context().close();
}

/** Dark, small and French: everything fits, and axe finds nothing. */
export async function appearances() {
  const small = { viewport: { width: 360, height: 740 } };
  for (const [name, state, options] of [
    ["dark", {}, { colorScheme: "dark" }],
    ["dark-block", { level: "block" }, { colorScheme: "dark" }],
    ["small", {}, small],
    ["small-heads", { level: "heads", part: "cross" }, small],
    ["small-cell", { level: "cell", part: "cross" }, { ...small, colorScheme: "dark" }],
    ["small-lens", { level: "lens" }, small],
    ["small-arithmetic", { level: "arithmetic", block: "decoder.0" }, small],
    ["narrow", {}, { viewport: { width: 1024, height: 768 } }],
    ["french", { level: "heads", part: "self", stack: "encoder" }, { locale: "fr-FR" }],
  ]) {
    const page = await openAt(state, options);
    const [content, room] = await widths(page);
    assert(content <= room, `${name}: ${content} of ${room} pixels`);
    assert.deepEqual(await accessibilityProblems(page), [], name);
    if (name === "french") assert.equal(await page.locator("html").getAttribute("lang"), "fr");
    await screenshot(page, name);
    await page.context().close();
  }
}

/** 48 heads of 512 × 512 are painted in half a second, or in a small multiple of a plain loop on a slow machine. */
export async function drawingSpeed() {
  const entry = new URL("../../src/draw/heatmap.ts", import.meta.url).pathname;
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
    const draw = (canvas, numbers) => heatmap.paint(canvas, { rows: 512, columns: 512, data: numbers }, heatmap.weightLevels(numbers), ramp);
    const seconds = async (paint) => {
      const start = performance.now();
      canvases.forEach((canvas, i) => paint(canvas, weights[i]));
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      return performance.now() - start;
    };
    const times = [[], []];
    for (let round = 0; round < 3; round++)
      for (const [i, paint] of [draw, copy].entries()) times[i].push(await seconds(paint));
    return times.map((each) => Math.min(...each));
  }, output[0].code).catch((error) => assert.fail(error.message));
  console.log(`48 heads of 512 × 512 in ${ours.toFixed(0)} ms, ${(ours / plain).toFixed(1)} × a plain loop`);
  assert(ours < 500 || ours < 4 * plain, `${ours} and ${plain} ms`);
  await page.context().close();
}

/** With Tab, the arrow keys and Enter alone, a sentence is translated and a number reached; no control is out of reach. */
export async function keyboard() {
  const [model] = await listModels();
  const page = await openAt({ model: model.id });
  const focused = () =>
    page.evaluate(() => {
      const here = document.activeElement;
      here?.setAttribute("data-reached", "");
      return { tag: here?.tagName ?? "", end: here === document.body, block: here?.getAttribute("data-block") ?? "" };
    });
  const blocks = [];
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press("Tab");
    const here = await focused();
    if (here.end && i) break;
    if (here.block) blocks.push(here.block);
  }
  assert(blocks.includes("decoder.1") && blocks.includes("output"), blocks.join());
  const missed = await page.evaluate(() => {
    const usable = [...document.querySelectorAll("button, input, select, textarea, a[href], summary, [role=button]")];
    const shown = usable.filter((each) => !each.disabled && each.getClientRects().length && each.getAttribute("aria-hidden") !== "true" && !each.closest("details:not([open]) > :not(summary)"));
    return shown.filter((each) => !each.hasAttribute("data-reached")).map((each) => each.outerHTML.slice(0, 120));
  });
  assert.deepEqual(missed, [], "controls that the keyboard does not reach");
  await page.locator("#text").focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("d c b a");
  await page.keyboard.press("Enter");
  await settled(page);
  assert((await outputText(page)).length > 3, "translated without a mouse");
  await page.locator('[data-block="decoder.0"]').focus();
  for (const level of ["block", "heads", "cell"]) {
    await page.keyboard.press("Enter");
    await settled(page);
    await reaches(page, "level", level);
    await page.locator("main").focus();
  }
  for (const level of ["heads", "block", null]) {
    await page.keyboard.press("Escape");
    await reaches(page, "level", level);
  }
  await page.context().close();
}
