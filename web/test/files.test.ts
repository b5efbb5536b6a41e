import { expect, test } from "vitest";
import { eventsIn } from "../src/api/events";
import { said } from "../src/api/problem";
import { csv } from "../src/figure/csv";
import { layoutOf } from "../src/figure/layout";
import { levels, signedLevels } from "../src/figure/heat";
import { tableOf, viewOf } from "../src/figure/view";
import { en } from "../src/i18n/en";
import { fr } from "../src/i18n/fr";

test("CSV quotes what needs it", () => {
  expect(csv([["a,b", 'say "x"', 1.5], ["line\nbreak", "▁é", ""]])).toBe('"a,b","say ""x""",1.5\r\n"line\nbreak",▁é,\r\n');
});

test("events are read however they are cut", () => {
  const text = 'event: said\ndata: {"text": "la"}\n\nevent: done\r\ndata: {}\r\n\r\n: nothing\n\n';
  const whole = eventsIn(text);
  expect(whole.events).toEqual([
    { name: "said", data: '{"text": "la"}' },
    { name: "done", data: "{}" },
  ]);
  let left = "";
  const found = [];
  for (const letter of text.replaceAll("\r", "")) {
    const next = eventsIn(left + letter);
    left = next.left;
    found.push(...next.events);
  }
  expect(found).toEqual(whole.events);
});

test("problems speak for themselves", () => {
  expect(said({ title: "Not found", detail: "there is no such trace" })).toBe("there is no such trace");
  expect(said({ title: "Not found", detail: "" })).toBe("Not found");
  expect(said("oops")).toBeNull();
});

const token = (text: string) => ({ id: 1, text, word: 0 });
const weights = { rows: 2, columns: 3, data: Float32Array.from([0.5, 0.25, 0.25, 0, 0, 1]) };

test("a view without specials keeps the places of its rows, and its table its numbers", () => {
  const view = viewOf(weights, ["<s>", "a"].map(token), ["x", "y", "</s>"].map(token), false);
  expect(view.places).toEqual([1]);
  expect(tableOf(view)).toEqual([
    ["", "x", "y"],
    ["a", 0, 0],
  ]);
});

test.each([1, 5, 48, 512])("a matrix of %i columns fits into its room", (n) => {
  const names = Array.from({ length: n }, (_, i) => `▁${i}`);
  const view = { weights: { rows: n, columns: n, data: new Float32Array() }, rows: names, columns: names, places: [] };
  const { width, every, cell, font } = layoutOf(view, 700);
  expect(width).toBeLessThanOrEqual(700);
  expect(layoutOf({ ...view, weights: { ...view.weights, rows: 1 } }, 700).width).toBeLessThanOrEqual(700);
  expect(every * cell).toBeGreaterThanOrEqual(Math.min(font, 9));
});

test("levels: √w of weights, the middle for zero of numbers with a sign", () => {
  expect(Array.from(levels(Float32Array.from([0, 0.25, 1, 2])))).toEqual([0, 128, 255, 255]);
  expect(Array.from(signedLevels([-2, 0, 2]))).toEqual([0, 128, 255]);
});

test("every language says everything, and nothing is left in English by mistake", () => {
  expect(Object.keys(fr)).toEqual(Object.keys(en));
  expect(Object.keys(fr.stepText)).toEqual(Object.keys(en.stepText));
  expect(fr.steps).toHaveLength(en.steps.length);
  expect(fr.translate).not.toBe(en.translate);
});
