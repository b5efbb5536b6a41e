import { expect, test } from "vitest";
import type { Tensors } from "../src/maths/safetensors";
import { strongest, worked } from "../src/maths/worked";

/** Two keys; the second may be masked. By hand: scores [2, 0]·scale, values the unit vectors. */
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

test("scaled dot: page and server agree, and a server that errs is found out", () => {
  const right = worked(explained({ score: "scaled-dot", scale: "0.5" }, [1, 0], [soft(1), soft(-1)]));
  expect(right.products).toEqual([2, 0]);
  expect(right.delta).toBeLessThan(1e-7);
  const wrong = worked(explained({ score: "scaled-dot", scale: "0.5" }, [1, 0], [0.5, 0.5]));
  expect(wrong.delta).toBeCloseTo(soft(1) - 0.5, 5);
  const unscaled = worked(explained({ score: "scaled-dot", scale: "0.5" }, [2, 0], [soft(1), soft(-1)]));
  expect(unscaled.delta).toBeCloseTo(1, 5);
});

test("weights and output are checked apart", () => {
  const same = explained({ score: "dot" }, [2, 0], [0.5, 0.5]);
  same.tensors.out = { shape: [2], data: Float32Array.from([soft(2), soft(-2)]) };
  expect(worked(same).delta).toBeCloseTo(soft(2) - 0.5, 5);
  const other = explained({ score: "dot" }, [2, 0], [soft(2), soft(-2)]);
  other.tensors.out = { shape: [2], data: Float32Array.from([9, 9]) };
  expect(worked(other).delta).toBeGreaterThan(8);
});

test("the strongest keys come first", () => expect(strongest([0.1, 0.6, 0.3], 2)).toEqual([1, 2]));

test("dot and cosine", () => {
  expect(worked(explained({ score: "dot" }, [2, 0], [soft(2), soft(-2)])).delta).toBeLessThan(1e-7);
  expect(worked(explained({ score: "cosine" }, [1, 0], [soft(1), soft(-1)])).delta).toBeLessThan(1e-7);
});

test("a masked key has no weight and no value", () => {
  const { weights, out, delta } = worked(explained({ score: "dot" }, [2, 0], [1, 0], [1, 0]));
  expect([weights, out, delta]).toEqual([[1, 0], [1, 0], 0]);
});

test("a score with weights of its own is taken as it is, and softmax and sum are still checked", () => {
  const work = worked(explained({ score: "additive" }, [5, 4], [soft(1), soft(-1)]));
  expect(work.recomputed).toBe(false);
  expect(work.scores).toEqual([5, 4]);
  expect(work.delta).toBeLessThan(1e-7);
});

test("keys that are a part of what the head sees share a part of its weight, in the same proportions", () => {
  const right = worked(explained({ score: "dot" }, [2, 0], [0.4 * soft(2), 0.4 * soft(-2)]));
  expect(right.share).toBeCloseTo(0.4, 6);
  expect(right.delta).toBeLessThan(1e-6);
  expect(worked(explained({ score: "dot" }, [2, 0], [0.2, 0.2])).delta).toBeGreaterThan(0.1);
});

test("a bias is what the scores have beyond the products", () => {
  const work = worked(explained({ score: "dot", bias: "alibi" }, [2, -1], [soft(3), soft(-3)]));
  expect(work.bias).toEqual([0, -1]);
  expect(work.delta).toBeLessThan(1e-6);
});
