/** The operations of stages. tests/serve/test_browser.py compares all of them with the server; here are single numbers and relations. */
import { expect, test } from "vitest";
import { batch, fromRows, type NdArray } from "../src/maths/array";
import { explainCell } from "../src/maths/explainCell";
import { compute, erf } from "../src/maths/operations";

const x = fromRows([[1, 2], [3, -4]]);
const rows = ({ data, shape }: NdArray) => Array.from({ length: data.length / shape.at(-1)! }, (_, i) => Array.from(data.slice(i * shape.at(-1)!, (i + 1) * shape.at(-1)!)));
const run = (op: string, inputs: NdArray[], weights: Record<string, NdArray> = {}, settings: Record<string, string | number> = {}) =>
  compute({ op: op as "linear", settings }, inputs, weights)!;

test("erf has the values of the tables, on both sides of the change of method", () => {
  expect(erf(0.5)).toBeCloseTo(0.5204998778130465, 12);
  expect(erf(-2.4)).toBeCloseTo(-0.9993114861033549, 12);
  expect(erf(2.6)).toBeCloseTo(0.9997639655834707, 12);
});

test("x Wᵀ + b, and its written sum", () => {
  const weight = fromRows([[1, 0], [2, 1], [0, -1]]);
  const bias = { shape: [3], data: Float32Array.from([10, 0, 0]) };
  const output = run("linear", [x], { weight, bias });
  expect(rows(output)).toEqual([[11, 4, -2], [13, 2, 4]]);
  const { sum, lights } = explainCell({ op: "linear", settings: {} }, [x], { weight, bias }, output, { head: 0, row: 1, column: 0 }, String);
  expect([Array.from(sum!.a), Array.from(sum!.b), sum!.bias]).toEqual([[3, -4], [1, 0], 10]);
  expect(lights.map(({ name, row, column }) => [name, row, column])).toEqual([["0", 1, null], ["weight", null, 0], ["bias", 0, 0]]);
});

test("heads split and joined again are the same matrix; repeated heads are equal", () => {
  const wide = fromRows([[1, 2, 3, 4], [5, 6, 7, 8]]);
  const heads = run("split-heads", [wide], {}, { heads: 2, repeat: 1 });
  expect(heads.shape).toEqual([2, 2, 2]);
  expect(rows(batch(heads, 1))).toEqual([[3, 4], [7, 8]]);
  expect(rows(run("join-heads", [heads]))).toEqual(rows(wide));
  const repeated = run("split-heads", [wide], {}, { heads: 2, repeat: 2 });
  expect(rows(batch(repeated, 2))).toEqual(rows(batch(repeated, 3)));
});

test("softmax gives masked keys nothing, and a layer norm has mean 0 and variance 1", () => {
  const mask = fromRows([[1, 0], [1, 1]]);
  const weights = run("normalise", [x, mask], {}, { normalise: "softmax" });
  expect(rows(weights)[0]).toEqual([1, 0]);
  expect(rows(weights)[1]!.reduce((a, b) => a + b)).toBeCloseTo(1, 6);
  const ones = { shape: [2], data: Float32Array.from([1, 1]) };
  const normed = rows(run("layer-norm", [x], { weight: ones, bias: { shape: [2], data: new Float32Array(2) } }, { eps: 0 }));
  for (const row of normed) expect(row).toEqual([row[0], -row[0]!]);
});

test("a scan whose state forgets nothing adds up", () => {
  const [delta, b, input] = [fromRows([[1], [1], [1]]), fromRows([[1], [1], [1]]), fromRows([[1], [2], [3]])];
  const states = run("scan", [delta, b, input], { a_log: fromRows([[-50]]) });
  expect(Array.from(states.data)).toEqual([1, 3, 6]);
});

test("a stage that is given is not computed", () => expect(compute({ op: "given", settings: {} }, [], {})).toBeNull());
