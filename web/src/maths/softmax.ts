/** Softmax over the keys that are not masked, with the intermediate results that the lecture shows. */
export interface Softmax {
  max: number;
  shifted: number[];
  exps: number[];
  sum: number;
  weights: number[];
}

/**
 * Subtracting the maximum does not change the result and keeps exp from overflowing.
 * A mask of 0 excludes a key. If all keys are masked, all weights are zero.
 */
export function softmax(scores: ArrayLike<number>, mask?: ArrayLike<number>): Softmax {
  const allowed = Array.from(scores, (_, i) => !mask || mask[i] !== 0);
  const max = Math.max(...Array.from(scores).filter((_, i) => allowed[i]));
  const shifted = Array.from(scores, (score, i) => (allowed[i] ? score - max : -Infinity));
  const exps = shifted.map(Math.exp);
  const sum = exps.reduce((total, e) => total + e, 0);
  return { max, shifted, exps, sum, weights: exps.map((e) => (sum ? e / sum : 0)) };
}
