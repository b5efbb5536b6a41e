import { expect, test } from "vitest";
import { strongestLinks } from "../src/maths/links";
import { at, meanOfHeads, submatrix, toMatrix } from "../src/maths/matrix";
import { dot, largestDifference, softmax } from "../src/maths/softmax";
import { headThumbnail, meanThumbnail } from "../src/maths/thumbnails";
import { isSpecial, shortText, shownPositions, visibleText } from "../src/maths/tokens";

const token = (text: string) => ({ id: 0, text, word: 0 });

test("softmax of the lecture's row: cosines 1, 0.71, 0, 0", () => {
  const { weights } = softmax([1, Math.SQRT1_2, 0, 0]);
  expect(weights.map((w) => w.toFixed(2))).toEqual(["0.40", "0.30", "0.15", "0.15"]);
});

test("softmax sums to one, does not overflow and is invariant to a shift", () => {
  const a = softmax([1000, 999, 0]);
  const b = softmax([1, 0, -999]);
  expect(a.weights.reduce((sum, w) => sum + w, 0)).toBeCloseTo(1, 12);
  expect(largestDifference(a.weights, b.weights)).toBe(0);
  expect(a.max).toBe(1000);
  expect(Math.max(...a.exps)).toBe(1);
});

test("a masked key has no weight, even if its score is the largest", () => {
  const { weights, shifted, max } = softmax([9, 1, 1], [0, 1, 1]);
  expect(weights).toEqual([0, 0.5, 0.5]);
  expect(shifted[0]).toBe(-Infinity);
  expect(max).toBe(1);
  expect(softmax([1, 2], [0, 0]).weights).toEqual([0, 0]);
});

test("the dot product of the lecture", () => expect(dot([1, 3, 2], [4, 1, 1])).toBe(9));

test("the difference of vectors of different lengths is infinite", () => {
  expect(largestDifference([1, 2], [1, 2.5])).toBe(0.5);
  expect(largestDifference([1], [1, 2])).toBe(Infinity);
});

test("bytes hold 255·√w and decode to the weights within one percent", () => {
  const { data } = toMatrix({ shape: [1, 3], data: new Uint8Array([0, 128, 255]) });
  expect(data[0]).toBe(0);
  expect(data[1]).toBeCloseTo(0.252, 3);
  expect(data[2]).toBe(1);
});

test("the mean of the heads is taken over the requested layer", () => {
  const data = Float32Array.from([9, 9, 9, 9, 0, 1, 1, 0]); // [2 layers, 2 heads, 1, 2]
  const mean = meanOfHeads({ shape: [2, 2, 1, 2], data }, 1);
  expect(Array.from(mean.data)).toEqual([0.5, 0.5]);
});

test("thumbnails: one head of one layer, and a mean of weights, not of their roots", () => {
  const thumbnails = { shape: [2, 2, 1, 2], data: new Uint8Array([1, 2, 3, 4, 255, 0, 0, 0]) };
  expect(Array.from(headThumbnail(thumbnails, 0, 1))).toEqual([3, 4]);
  expect(Array.from(meanThumbnail(thumbnails, 1))).toEqual([Math.round(255 * Math.SQRT1_2), 0]);
});

test("a submatrix has the entries of its rows and columns", () => {
  const m = { rows: 2, columns: 3, data: Float32Array.from([1, 2, 3, 4, 5, 6]) };
  const part = submatrix(m, [1], [0, 2]);
  expect(Array.from(part.data)).toEqual([4, 6]);
  expect(at(m, 1, 2)).toBe(6);
});

test("links: at or above the threshold, strongest first, no more than the maximum, none of weight zero", () => {
  const m = { rows: 2, columns: 2, data: Float32Array.from([0.5, 0, 0.25, 0.75]) };
  expect(strongestLinks(m, 0.5)).toEqual([
    { row: 1, column: 1, weight: 0.75 },
    { row: 0, column: 0, weight: 0.5 },
  ]);
  expect(strongestLinks(m, 0, 1)).toHaveLength(1);
  expect(strongestLinks(m, 0)).toHaveLength(3);
});

test("special tokens are told apart from bytes and words, and left out only if others remain", () => {
  expect(["<s>", "</s>", "<pad>", "<0xE2>", "▁green", "<", "a>"].map((t) => isSpecial(token(t)))).toEqual([
    true, true, true, false, false, false, false,
  ]);
  const tokens = ["<s>", "▁a", "</s>"].map(token);
  expect(shownPositions(tokens, false)).toEqual([1]);
  expect(shownPositions(tokens, true)).toEqual([0, 1, 2]);
  expect(shownPositions([token("</s>")], false)).toEqual([0]);
});

test("token texts: white space is visible, and long ones are shortened between characters", () => {
  expect(visibleText(" \n")).toBe("␣⏎");
  expect(shortText("🙂".repeat(20))).toBe(`${"🙂".repeat(13)}…`);
  expect(shortText("▁arrivée")).toBe("▁arrivée");
});
