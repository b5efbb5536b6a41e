/**
 * Test the page in a real browser against a running server:
 *   regard serve DIR… --port 8123
 *   node test/browser.mjs http://127.0.0.1:8123 [folder for screenshots]
 * The first model must be a Transformer translator. If there is a captioner, images are tested too.
 * The first failed assertion ends the run with an error.
 */
import assert from "node:assert/strict";
import * as captioning from "./browser/captioning.mjs";
import * as general from "./browser/general.mjs";
import { browser, errors, foreignRequests } from "./browser/page.mjs";
import * as translation from "./browser/translation.mjs";

const TESTS = [
  general.firstPaint,
  general.keyboard,
  translation.walkThrough,
  translation.searchSettings,
  translation.changes,
  translation.expiredTrace,
  captioning.captioning,
  captioning.captioningAppearances,
  captioning.droppedFile,
  general.everyModel,
  translation.comparison,
  general.accessToken,
  general.appearances,
  general.drawingSpeed,
];

try {
  for (const run of TESTS) {
    await run();
    console.log(`ok ${run.name}`);
  }
  assert.deepEqual(foreignRequests, [], "requests to other origins");
  assert.deepEqual(errors, [], "errors on the page");
  console.log("no request to another origin, no error");
} finally {
  await browser.close();
}
