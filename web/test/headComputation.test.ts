import { expect, test } from "vitest";
import type { Tensors } from "../src/maths/safetensors";
import { recomputeHead } from "../src/maths/headComputation";

/** Two keys; the second may be masked. Computed by hand: the scores are [2, 0]·scale, the values are unit vectors. */
function explained(metadata: Record<string, string>, scores: number[], weights: number[], mask = [1, 1]): Tensors {
  const f = (shape: number[], data: number[]) => ({ shape, data: Float32Array.from(data) });
  return {
    metadata: { columns: '["a","b"]', normalise: "softmax", bias: "none", scale: "1", ...metadata },
    tensors: {
      q: f([2], [1, 0]),
      K: f([2, 2], [2, 0, 0, 3]),
      V: f([2, 2], [1, 0, 0, 1]),
      scores: f([2], scores),
      weights: f([2], weights),
      out: f([2], weights),
      mask: { shape: [2], data: Uint8Array.from(mask) },
    },
  };
}
const soft = (x: number) => 1 / (1 + Math.exp(-x));

test("scaled dot: page and server agree, and an error of the server is detected", () => {
  const right = recomputeHead(explained({ score: "scaled-dot", scale: "0.5" }, [1, 0], [soft(1), soft(-1)]));
  expect(right.products).toEqual([2, 0]);
  expect(right.delta).toBeLessThan(1e-7);
  const wrong = recomputeHead(explained({ score: "scaled-dot", scale: "0.5" }, [1, 0], [0.5, 0.5]));
  expect(wrong.delta).toBeCloseTo(soft(1) - 0.5, 5);
  const unscaled = recomputeHead(explained({ score: "scaled-dot", scale: "0.5" }, [2, 0], [soft(1), soft(-1)]));
  expect(unscaled.delta).toBeCloseTo(1, 5);
});

test("weights and output are checked separately", () => {
  const same = explained({ score: "dot" }, [2, 0], [0.5, 0.5]);
  same.tensors.out = { shape: [2], data: Float32Array.from([soft(2), soft(-2)]) };
  expect(recomputeHead(same).delta).toBeCloseTo(soft(2) - 0.5, 5);
  const other = explained({ score: "dot" }, [2, 0], [soft(2), soft(-2)]);
  other.tensors.out = { shape: [2], data: Float32Array.from([9, 9]) };
  expect(recomputeHead(other).delta).toBeGreaterThan(8);
});


test("a masked key has no weight and does not contribute to the output", () => {
  const { weights, out, delta } = recomputeHead(explained({ score: "dot" }, [2, 0], [1, 0], [1, 0]));
  expect([weights, out, delta]).toEqual([[1, 0], [1, 0], 0]);
});

test("the scores of a score function with parameters are taken from the server; softmax and sum are still checked", () => {
  const computation = recomputeHead(explained({ score: "additive" }, [5, 4], [soft(1), soft(-1)]));
  expect(computation.recomputed).toBe(false);
  expect(computation.scores).toEqual([5, 4]);
  expect(computation.delta).toBeLessThan(1e-7);
});

test("if the keys are only some of those that the head attends to, they share part of its weight in the same proportions", () => {
  const right = recomputeHead(explained({ score: "dot" }, [2, 0], [0.4 * soft(2), 0.4 * soft(-2)]));
  expect(right.share).toBeCloseTo(0.4, 6);
  expect(right.delta).toBeLessThan(1e-6);
  expect(recomputeHead(explained({ score: "dot" }, [2, 0], [0.2, 0.2])).delta).toBeGreaterThan(0.1);
});

test("the bias is the difference between the scores and the products", () => {
  const computation = recomputeHead(explained({ score: "dot", bias: "alibi" }, [2, -1], [soft(3), soft(-3)]));
  expect(computation.bias).toEqual([0, -1]);
  expect(computation.delta).toBeLessThan(1e-6);
});

test("normalisers other than softmax are computed by the page too", () => {
  const normalised = (normalise: string, weights: number[], mask?: number[]) =>
    recomputeHead(explained({ score: "dot", normalise }, [2, 0], weights, mask));
  expect(normalised("hardmax", [1, 0]).delta).toBe(0);
  expect(normalised("hardmax", [0, 1], [0, 1]).delta).toBe(0);
  expect(normalised("sum", [1, 0]).delta).toBe(0);
  expect(normalised("none", [2, 0]).delta).toBe(0);
  expect(normalised("exp", [Math.exp(2), 1]).delta).toBeLessThan(1e-6);
  for (const name of ["hardmax", "sum", "none", "exp"]) expect(normalised(name, [0.25, 0.75]).delta).toBeGreaterThan(0.2);
});
