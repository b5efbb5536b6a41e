/** Measure the frames of each zoom of the page: node test/zoom.mjs ADDRESS TEXT. bench/page_zoom.py runs this with a large model. */
import { chromium } from "playwright-core";

const [base, text] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--no-first-run"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });

/** The times of all frames until no picture of the stage has moved for a while */
const frameTimes = () =>
  page.evaluate(
    () =>
      new Promise((done) => {
        const [begin, times] = [performance.now(), []];
        const isMoving = () => document.getAnimations().some(({ effect, playState }) => playState === "running" && effect.pseudoElement?.startsWith("::view-transition"));
        const frame = (time) => {
          if (isMoving()) times.push(time);
          if (times.length ? time - times.at(-1) < 300 : time - begin < 5000) requestAnimationFrame(frame);
          else done(times);
        };
        requestAnimationFrame(frame);
      }),
  );

async function measure(name, act) {
  const [times] = await Promise.all([frameTimes(), act()]);
  const gaps = times.slice(1).map((time, i) => time - times[i]);
  console.log(`${name.padEnd(20)} ${((1000 * gaps.length) / (times.at(-1) - times[0])).toFixed(1)} frames/s, longest frame ${Math.max(...gaps).toFixed(0)} ms`);
  await page.waitForTimeout(500);
}

try {
  await page.goto(`${base}/#${new URLSearchParams({ text })}`);
  await page.locator("svg.map .slab").first().waitFor();
  await page.waitForTimeout(2000);
  await measure("model to layer", () => page.locator('[data-block="encoder.3"] .slab').click({ force: true }));
  await measure("layer to head", () => page.locator('[data-zoom="encoder.3.self"] button.thumb').first().click());
  await measure("head to weight", () => page.locator(".matrix .cells").click());
  for (const name of ["weight to head", "head to layer", "layer to model"]) await measure(name, () => page.keyboard.press("Escape"));
} finally {
  await browser.close();
}
