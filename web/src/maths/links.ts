/** The links of a map that are worth drawing. */
import type { Matrix } from "./matrix";

export interface Link {
  row: number;
  column: number;
  weight: number;
}

export const MOST = 4000;

/** Those at or above the threshold, strongest first, never more than can be drawn quickly. */
export function links(weights: Matrix, threshold: number, most = MOST): Link[] {
  const found: Link[] = [];
  weights.data.forEach((weight, i) => {
    if (weight >= threshold && weight > 0) {
      found.push({ row: Math.floor(i / weights.columns), column: i % weights.columns, weight });
    }
  });
  return found.sort((a, b) => b.weight - a.weight).slice(0, most);
}
