import { expect, test } from "vitest";
import { splitEvents } from "../src/api/events";
import { problemText } from "../src/api/problem";
import { mapToTable, selectMap } from "../src/figure/attentionMap";
import { toCsv } from "../src/figure/csv";
import { signedLevels, weightLevels } from "../src/figure/heatmap";
import { layoutMatrix } from "../src/figure/matrixLayout";

test("CSV quotes fields with commas, quotes and line breaks, and numbers have a decimal point", () => {
  expect(toCsv([["a,b", 'say "x"', 1.5], ["line\nbreak", "▁é", ""]])).toBe('"a,b","say ""x""",1.5\r\n"line\nbreak",▁é,\r\n');
});

test("events are parsed however the stream is split", () => {
  const text = 'event: said\ndata: {"text": "la"}\n\nevent: done\r\ndata: {}\r\n\r\n: nothing\n\n';
  const whole = splitEvents(text);
  expect(whole.events).toEqual([
    { name: "said", data: '{"text": "la"}' },
    { name: "done", data: "{}" },
  ]);
  let buffer = "";
  const events = [];
  for (const character of text.replaceAll("\r", "")) {
    const split = splitEvents(buffer + character);
    buffer = split.rest;
    events.push(...split.events);
  }
  expect(events).toEqual(whole.events);
});

test("the text of a problem is its detail, else its title", () => {
  expect(problemText({ title: "Not found", detail: "there is no such trace" })).toBe("there is no such trace");
  expect(problemText({ title: "Not found", detail: "" })).toBe("Not found");
  expect(problemText("oops")).toBeNull();
});

const token = (text: string) => ({ id: 1, text, word: 0 });
const weights = { rows: 2, columns: 3, data: Float32Array.from([0.5, 0.25, 0.25, 0, 0, 1]) };

test("a map without special tokens knows the positions of its rows, and its table has their weights", () => {
  const map = selectMap(weights, ["<s>", "a"].map(token), ["x", "y", "</s>"].map(token), false);
  expect(map.positions).toEqual([1]);
  expect(mapToTable(map)).toEqual([
    ["", "x", "y"],
    ["a", 0, 0],
  ]);
});

test.each([1, 5, 48, 512])("a matrix of %i columns fits into the available width", (n) => {
  const names = Array.from({ length: n }, (_, i) => `▁${i}`);
  const map = { weights: { rows: n, columns: n, data: new Float32Array() }, rows: names, columns: names, positions: [] };
  const { width, labelEvery, cell, font } = layoutMatrix(map, 700);
  expect(width).toBeLessThanOrEqual(700);
  expect(layoutMatrix({ ...map, weights: { ...map.weights, rows: 1 } }, 700).width).toBeLessThanOrEqual(700);
  expect(labelEvery * cell).toBeGreaterThanOrEqual(Math.min(font, 9));
});

test("levels: 255·√w for weights, the middle of the ramp for zero among signed numbers", () => {
  expect(Array.from(weightLevels(Float32Array.from([0, 0.25, 1, 2])))).toEqual([0, 128, 255, 255]);
  expect(Array.from(signedLevels([-2, 0, 2]))).toEqual([0, 128, 255]);
});
