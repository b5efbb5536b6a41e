import { expect, test } from "vitest";
import { at, matrixOf, meanOfHeads, part } from "../src/maths/matrix";
import { links } from "../src/maths/links";
import { fixed, percent } from "../src/maths/number";
import { dot, largestDifference, softmax } from "../src/maths/softmax";
import { meanLevels, thumbOf } from "../src/maths/thumbs";
import { isSpecial, seen, short, shownPlaces } from "../src/maths/tokens";

const token = (text: string) => ({ id: 0, text, word: 0 });

test("softmax of the lecture's row: cosines 1, 0.71, 0, 0", () => {
  const { weights } = softmax([1, Math.SQRT1_2, 0, 0]);
  expect(weights.map((w) => w.toFixed(2))).toEqual(["0.40", "0.30", "0.15", "0.15"]);
});

test("softmax sums to one, does not overflow and does not mind a shift", () => {
  const a = softmax([1000, 999, 0]);
  const b = softmax([1, 0, -999]);
  expect(a.weights.reduce((sum, w) => sum + w, 0)).toBeCloseTo(1, 12);
  expect(largestDifference(a.weights, b.weights)).toBe(0);
  expect(a.max).toBe(1000);
  expect(Math.max(...a.exps)).toBe(1);
});

test("what is masked has no weight, even where its score is the largest", () => {
  const { weights, shifted, max } = softmax([9, 1, 1], [0, 1, 1]);
  expect(weights).toEqual([0, 0.5, 0.5]);
  expect(shifted[0]).toBe(-Infinity);
  expect(max).toBe(1);
  expect(softmax([1, 2], [0, 0]).weights).toEqual([0, 0]);
});

test("the dot product of the lecture", () => expect(dot([1, 3, 2], [4, 1, 1])).toBe(9));

test("vectors of different lengths differ without bound", () => {
  expect(largestDifference([1, 2], [1, 2.5])).toBe(0.5);
  expect(largestDifference([1], [1, 2])).toBe(Infinity);
});

test("bytes are √w: squared again they give the weights to a part in a hundred", () => {
  const { data } = matrixOf({ shape: [1, 3], data: new Uint8Array([0, 128, 255]) });
  expect(data[0]).toBe(0);
  expect(data[1]).toBeCloseTo(0.252, 3);
  expect(data[2]).toBe(1);
});

test("the mean of heads is of the layer asked for", () => {
  const data = Float32Array.from([9, 9, 9, 9, 0, 1, 1, 0]); // [2 layers, 2 heads, 1, 2]
  const mean = meanOfHeads({ shape: [2, 2, 1, 2], data }, 1);
  expect(Array.from(mean.data)).toEqual([0.5, 0.5]);
});

test("thumbs: one head of one layer, and a mean that is one of weights, not of roots", () => {
  const thumbs = { shape: [2, 2, 1, 2], data: new Uint8Array([1, 2, 3, 4, 255, 0, 0, 0]) };
  expect(Array.from(thumbOf(thumbs, 0, 1))).toEqual([3, 4]);
  expect(Array.from(meanLevels(thumbs, 1))).toEqual([Math.round(255 * Math.SQRT1_2), 0]);
});

test("a part keeps what stands in its rows and columns", () => {
  const m = { rows: 2, columns: 3, data: Float32Array.from([1, 2, 3, 4, 5, 6]) };
  const some = part(m, [1], [0, 2]);
  expect(Array.from(some.data)).toEqual([4, 6]);
  expect(at(m, 1, 2)).toBe(6);
});

test("links: from the threshold on, strongest first, never more than asked for, none of nothing", () => {
  const m = { rows: 2, columns: 2, data: Float32Array.from([0.5, 0, 0.25, 0.75]) };
  expect(links(m, 0.5)).toEqual([
    { row: 1, column: 1, weight: 0.75 },
    { row: 0, column: 0, weight: 0.5 },
  ]);
  expect(links(m, 0, 1)).toHaveLength(1);
  expect(links(m, 0)).toHaveLength(3);
});

test("specials are told from bytes and words, and hidden only if others remain", () => {
  expect(["<s>", "</s>", "<pad>", "<0xE2>", "▁green", "<", "a>"].map((t) => isSpecial(token(t)))).toEqual([
    true, true, true, false, false, false, false,
  ]);
  const tokens = ["<s>", "▁a", "</s>"].map(token);
  expect(shownPlaces(tokens, false)).toEqual([1]);
  expect(shownPlaces(tokens, true)).toEqual([0, 1, 2]);
  expect(shownPlaces([token("</s>")], false)).toEqual([0]);
});

test("names: spaces are seen, long ones cut between characters", () => {
  expect(seen(" \n")).toBe("␣⏎");
  expect(short("🙂".repeat(20))).toBe(`${"🙂".repeat(13)}…`);
  expect(short("▁arrivée")).toBe("▁arrivée");
});

test("numbers have a real minus", () => {
  expect([fixed(-1.23456), fixed(-Infinity), fixed(2, 1)]).toEqual(["−1.2346", "−∞", "2.0"]);
  expect([fixed(-0.00001), fixed(-0.00006)]).toEqual(["0.0000", "−0.0001"]);
  expect([percent(0.5), percent(0.0123), percent(0.0001)]).toEqual(["50.0 %", "1.23 %", "0.010 %"]);
});
