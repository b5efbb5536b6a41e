/** SVG paths of the map. */

export const curve = (x0: number, y0: number, x1: number, y1: number): string => {
  const m = (x0 + x1) / 2;
  return `M${x0},${y0}C${m},${y0} ${m},${y1} ${x1},${y1}`;
};

/** A point of a ribbon: x, upper and lower edge */
export type Edge = [x: number, top: number, bottom: number];

/** A ribbon through these edges; it is straight where two neighbours agree. */
export function ribbon(edges: Edge[]): string {
  const side = (points: [number, number][]) =>
    points
      .slice(1)
      .map(([x, y], i) => {
        const [px, py] = points[i] as [number, number];
        const m = (px + x) / 2;
        return `C${m},${py} ${m},${y} ${x},${y}`;
      })
      .join("");
  const [first] = edges;
  const last = edges.at(-1);
  if (!first || !last) return "";
  const upper = side(edges.map(([x, top]) => [x, top]));
  const lower = side(edges.toReversed().map(([x, , bottom]) => [x, bottom]));
  return `M${first[0]},${first[1]}${upper}L${last[0]},${last[2]}${lower}Z`;
}

/** The lens shape of a feed-forward part around y, `half` pixels high on each side */
export function bulge(x0: number, x1: number, y: number, half: number): string {
  const [a, b] = [x0 + 9, x1 - 11];
  const m = (a + b) / 2;
  const r = half * 1.35;
  return `M${a},${y}C${m - 5},${y - r} ${m + 5},${y - r} ${b},${y}C${m + 5},${y + r} ${m - 5},${y + r} ${a},${y}Z`;
}

/** A lane: from a rail at y0 down, or up, to a stream at y1, with rounded corners */
export function lane(x: number, y0: number, y1: number, end: number): string {
  const r = Math.min(12, Math.abs(y1 - y0) / 2) * Math.sign(y1 - y0 || 1);
  const a = Math.abs(r);
  return `M${x - a - 3},${y0}h3q${a},0 ${a},${r}V${y1 - r}q0,${r} ${a},${r}H${Math.max(x + a, end)}`;
}

/** An arrow down or up a column, from one word's cell to the next */
export const chainArrow = (x: number, y0: number, y1: number): string => {
  const u = Math.sign(y1 - y0) || 1;
  return `M${x},${y0 + 5 * u}V${y1 - 6 * u}m-3,${-3 * u}l3,${4 * u}l3,${-4 * u}`;
};
