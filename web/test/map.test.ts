import { expect, test } from "vitest";
import type { Trace } from "../src/api/types";
import { fit, follow, whole, zoomAround } from "../src/draw/window";
import { layoutMap } from "../src/map/layout";
import { ribbon } from "../src/map/paths";
import { placeRows } from "../src/map/rows";
import { drawStreams, strands } from "../src/map/scene";
import type { Description, Part } from "../src/model/description";
import { maskOf } from "../src/model/heads";
import { makeHues } from "../src/model/hues";
import { makeRun, type Run } from "../src/model/run";
import { splitAtWords } from "../src/model/splitAtWords";
import { toWords } from "../src/model/tokens";

const part = (name: string, kind: string) => ({ name, kind, residual: true, heads: 1, site: name === "cross" ? "cross" : "decoder" }) as unknown as Part;
const stack = (name: string, layers: number, names: [string, string][]) => ({
  name,
  rows: name === "encoder" ? "source" : "read",
  layers: Array.from({ length: layers }, (_, i) => ({ block: `${name}.${i}`, parts: names.map(([n, k]) => part(n, k)) })),
});
const description = (encoder: number, decoder: number) =>
  ({
    stacks: [
      ...(encoder ? [stack("encoder", encoder, [["self", "attention"], ["feedforward", "feed-forward"]])] : []),
      ...(decoder ? [stack("decoder", decoder, [["self", "attention"], ["cross", "attention"], ["feedforward", "feed-forward"]])] : []),
    ],
    blocks: [],
  }) as unknown as Description;
const layout = (encoder: number, decoder: number, rows = 6, width = 1000) =>
  layoutMap({
    ...{ description: description(encoder, decoder), width, height: 620, k: 1 },
    rows: { encoder: rows, decoder: rows },
    chosen: { encoder: 1, decoder: 2 },
    inHand: { encoder: 0, decoder: decoder - 1 },
    labelWidth: { encoder: 80, decoder: 80 },
  });

test.each([[2, 2], [6, 6], [12, 12], [0, 3], [3, 0], [1, 24]])("a model of %i and %i layers fits, and the layer in hand is open", (encoder, decoder) => {
  const { columns, slabs, outX } = layout(encoder, decoder);
  expect(slabs).toHaveLength(encoder + decoder);
  expect(outX).toBeLessThan(1000);
  columns.forEach(({ x0, x1 }, i) => {
    expect(x1).toBeGreaterThan(x0);
    if (i) expect(x0).toBeGreaterThanOrEqual(columns[i - 1]!.x1 - 1e-9);
  });
  for (const [name, count] of [["encoder", encoder], ["decoder", decoder]] as const) {
    const inHand = slabs.find((slab) => slab.stack === name && slab.layer === (name === "encoder" ? 0 : decoder - 1));
    if (count) expect(inHand?.open).toBe(true);
  }
});

test("with two layers each everything is open; with twelve, far layers fold", () => {
  expect(layout(2, 2).slabs.every(({ open }) => open)).toBe(true);
  expect(layout(12, 12).slabs.filter(({ open }) => !open).length).toBeGreaterThan(12);
});

test.each([1, 2, 6, 30, 200])("%i rows are in order and within their height, and the chosen one is labelled", (count) => {
  const { ys, labelled, height } = placeRows(count, 100, 300, Math.floor(count / 2), 40);
  expect(ys).toHaveLength(count);
  expect(height).toBeLessThanOrEqual(300 + 0.4 * count);
  expect([...ys].sort((a, b) => a - b)).toEqual(ys);
  expect(labelled[Math.floor(count / 2)]).toBe(true);
  if (count === 200) expect(labelled.filter(Boolean)).toHaveLength(11);
});

const token = (text: string) => ({ id: 1, text, word: -1, character: null });
function exampleRun(): Run {
  const trace = {
    id: "x",
    source: ["▁a", "▁b", "</s>"].map(token),
    target: ["▁u", "▁v", "</s>"].map(token),
    read: ["<s>", "▁u", "▁v"].map(token),
    hypotheses: [],
    chosen: 0,
    predicts: "target",
    sites: [
      { name: "cross", rows: "target", columns: "source", layers: 1, heads: 1, causal: false },
      { name: "decoder", rows: "target", columns: "read", layers: 1, heads: 1, causal: true },
    ],
  } as unknown as Trace;
  const cross = { rows: 3, columns: 3, data: Float32Array.from([0.9, 0.1, 0, 0, 1, 0, 0, 0, 1]) };
  const norms = Object.fromEntries(["self", "cross", "feedforward"].map((name, i) => [`decoder.0.${name}`, { before: [1 + i, 1, 1], add: [1, 1, 1], after: [2 + i, 2, 2] }]));
  return makeRun(trace, { means: { cross: [cross] }, norms, headNorms: null, lens: null, steps: [] });
}

test("strands: shares of own past and of the source words sum to 1; attention decides between the source words", () => {
  const run = exampleRun();
  const [asRead, afterSelf, afterCross] = strands(run, 1, [["self", "cross", "feedforward"]], 0);
  expect(asRead).toEqual({ own: 1, source: [0, 0, 0] });
  expect(afterSelf?.own).toBe(1);
  expect(afterCross!.own + afterCross!.source.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
  expect(afterCross!.source[0]! / afterCross!.source[1]!).toBeCloseTo(9, 4);
});

test("the streams have a line for each weight that is not weak, and know their words", () => {
  const run = exampleRun();
  const drawn = layout(1, 1, 3);
  const streams = drawStreams({ run, layout: drawn, hues: makeHues(run, 1), joint: false, step: 1 }, drawn.decoder!, [["self", "cross", "feedforward"]]);
  expect(streams.map(({ lines }) => lines.length)).toEqual([2, 1, 1]);
  expect(streams[1]!.lines[0]!.keys).toEqual(["s:1", "t:1"]);
  expect(run.aligned).toEqual([0, 1, 2]);
  expect(streams[0]!.keys).toContain("bos");
});

test("a ribbon is a closed path through its edges", () => {
  expect(ribbon([[0, -1, 1], [10, -2, 2]])).toMatch(/^M0,-1C.* 10,-2L10,2C.* 0,1Z$/);
  expect(ribbon([])).toBe("");
});

test("masks: later positions of causal attention, and hidden source tokens", () => {
  const { trace } = exampleRun();
  const causal = maskOf(trace, "decoder", [])!;
  expect([causal(0, 0), causal(0, 1), causal(2, 1)]).toEqual([false, true, false]);
  expect(maskOf(trace, "cross", [])).toBeUndefined();
  expect(maskOf(trace, "cross", [1])!(0, 1)).toBe(true);
});

test("a window stays within its matrix, zooms around a point and follows the chosen cell", () => {
  const all = whole(100, 50);
  const half = zoomAround(all, 0.5, 0, 1, 100, 50);
  expect(half).toEqual({ top: 50, left: 0, rows: 50, columns: 25 });
  expect(zoomAround(half, 4, 0.5, 0.5, 100, 50)).toEqual(all);
  expect(fit({ top: -5, left: 90, rows: 1, columns: 10 }, 100, 50)).toEqual({ top: 0, left: 40, rows: 2, columns: 10 });
  expect(follow(half, 10, 49, 100, 50)).toMatchObject({ top: 10, left: 25 });
});

test("words: special tokens, white space, bytes of one character, pieces that continue a word", () => {
  const bytes = { text: "✓", count: 3 };
  const pieces = [
    { text: "<s>", word: -1, character: null },
    { text: "▁walk", word: 0, character: null },
    { text: "ing", word: 0, character: null },
    { text: "<0xE2>", word: -1, character: { ...bytes, index: 0 } },
    { text: "\n", word: -1, character: null },
  ];
  expect(toWords(pieces).map(({ text, special, continues }) => [text, special, continues])).toEqual([
    ["<s>", "start", false],
    ["walk", "", false],
    ["ing", "", true],
    ["✓₁", "", false],
    ["⏎", "", false],
  ]);
});

test.each([
  ["The cat, a catalogue.", ["cat"], ["cat"]],
  ["the CAT and the cat", ["CAT"], ["CAT"]],
  ["猫と犬です。", ["犬", "で"], ["犬", "で"]],
  ["what?! a+b - c", ["?", "+", "-"], ["?", "+", "-"]],
  ["nothing here", [], []],
])("in %s the words %j are marked", (text, words, marked) => {
  const parts = splitAtWords(text, words);
  expect(parts.join("")).toBe(text);
  expect(parts.filter((_, i) => i % 2)).toEqual(marked);
});
