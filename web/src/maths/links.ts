/** The links to draw for an attention map. */
import type { Matrix } from "./matrix";

export interface Link {
  row: number;
  column: number;
  weight: number;
}

/** More links than this take too long to draw. */
export const MAX_LINKS = 4000;

/** The links with at least this weight, strongest first, `max` of them at most */
export function strongestLinks(weights: Matrix, threshold: number, max = MAX_LINKS): Link[] {
  const links: Link[] = [];
  weights.data.forEach((weight, i) => {
    if (weight >= threshold && weight > 0) {
      links.push({ row: Math.floor(i / weights.columns), column: i % weights.columns, weight });
    }
  });
  return links.sort((a, b) => b.weight - a.weight).slice(0, max);
}
