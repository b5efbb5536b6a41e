import { expect, test } from "vitest";
import { dot, largestDifference } from "../src/maths/array";
import { diffWords } from "../src/maths/diff";
import { at, maxPool, meanOfHeads, toMatrix } from "../src/maths/matrix";
import { softmax } from "../src/maths/softmax";
import { largestTerms } from "../src/maths/sum";

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

test("the difference of vectors of different lengths is infinite, and so is one that is not a number", () => {
  expect(largestDifference([1, 2], [1, 2.5])).toBe(0.5);
  expect(largestDifference([1], [1, 2])).toBe(Infinity);
  expect(largestDifference([NaN], [1])).toBe(Infinity);
  expect(largestDifference([-Infinity, 1], [-Infinity, 1])).toBe(0);
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
  expect(at(mean, 0, 1)).toBe(0.5);
});

test("a short sum has the largest terms first, and its terms and rest make up the whole", () => {
  const [a, b] = [[1, -3, 2, 0.5], [1, 2, 2, 2]];
  const { terms, others, rest } = largestTerms(a, b, 2);
  expect(terms).toEqual([1, 2]);
  expect(others).toBe(2);
  expect(terms.reduce((sum, i) => sum + a[i]! * b[i]!, rest)).toBe(dot(a, b));
});

test("a diff keeps the longest common words, and both texts can be read off it", () => {
  const [first, second] = ["la sorcière verte est arrivée", "la sorcière est là arrivée"];
  const diff = diffWords(first, second);
  expect(diff.filter(({ change }) => change === 0).map(({ text }) => text)).toEqual(["la", "sorcière", "est", "arrivée"]);
  expect(diff.filter(({ change }) => change <= 0).map(({ text }) => text).join(" ")).toBe(first);
  expect(diff.filter(({ change }) => change >= 0).map(({ text }) => text).join(" ")).toBe(second);
  expect(diffWords("", "a")).toEqual([{ text: "a", change: 1 }]);
});

test("pooling keeps the largest weight of each part, and leaves a small matrix as it is", () => {
  const m = { rows: 4, columns: 3, data: Float32Array.from([0, 1, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0]) };
  expect(Array.from(maxPool(m, 2, 3).data)).toEqual([2, 1, 0, 0, 0, 3]);
  expect(maxPool(m, 10, 10)).toBe(m);
});
