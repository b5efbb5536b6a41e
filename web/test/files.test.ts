import { expect, test } from "vitest";
import { splitEvents } from "../src/api/events";
import { problemText } from "../src/api/problem";
import { signedLevels, weightLevels } from "../src/draw/heatmap";
import { toCsv } from "../src/figure/csv";
import { matrixSvg } from "../src/figure/matrixSvg";

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

test("levels are linear in weights, and zero is the middle of the ramp for signed numbers", () => {
  expect(Array.from(weightLevels(Float32Array.from([0, 0.5, 1, 2])))).toEqual([0, 128, 255, 255]);
  expect(Array.from(signedLevels(Float32Array.from([-2, 0, 2]), 2))).toEqual([0, 128, 255]);
});

test("a saved matrix has a rectangle per cell, and its labels are escaped", () => {
  const matrix = { rows: 1, columns: 2, data: Float32Array.from([0.25, 0.75]) };
  const svg = matrixSvg(matrix, ["<s>"], ["a", "b & c"], (w) => `w${w}`, false);
  expect(svg.match(/fill="w0\.(25|75)"/g)).toHaveLength(2);
  expect(svg).toContain("&lt;s>");
  expect(svg).toContain("b &amp; c");
});
