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

export function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}

/** max |aᵢ − bᵢ|; infinite if the lengths differ */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let largest = 0;
  for (let i = 0; i < a.length; i++) largest = Math.max(largest, Math.abs((a[i] ?? NaN) - (b[i] ?? NaN)));
  return largest;
}
