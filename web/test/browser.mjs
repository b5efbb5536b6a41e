/**
 * Test the page in a real browser against a running server:
 *   regard serve DIR… --port 8123
 *   node test/browser.mjs http://127.0.0.1:8123 [folder for screenshots]
 * The first model must be a Transformer translator with two layers; the others are `rnn`, `text` (a language model) and `captioner`.
 * ONLY=name,name runs only these tests. The first failed assertion ends the run with an error.
 */
import assert from "node:assert/strict";
import * as depth from "./browser/depth.mjs";
import * as frame from "./browser/frame.mjs";
import { browser, errors, foreignRequests } from "./browser/page.mjs";
import * as whatif from "./browser/whatif.mjs";

const only = process.env.ONLY?.split(",");
const all = [frame, depth, whatif].flatMap((tests) => Object.values(tests)).filter(({ name }) => !only || only.includes(name));
/** What measures time runs alone, the rest a few at a time. */
const TIMED = ["firstPaint", "drawingSpeed"];
const AT_ONCE = 3;

async function runTests(tests) {
  for (let run = tests.shift(); run; run = tests.shift()) {
    const start = performance.now();
    await run();
    console.log(`ok ${run.name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  }
}

try {
  await runTests(all.filter(({ name }) => TIMED.includes(name)));
  const others = all.filter(({ name }) => !TIMED.includes(name));
  await Promise.all(Array.from({ length: AT_ONCE }, () => runTests(others)));
  assert.deepEqual(foreignRequests, [], "requests to other origins");
  assert.deepEqual(errors, [], "errors on the page");
  console.log("no request to another origin, no error");
} finally {
  await browser.close();
}
