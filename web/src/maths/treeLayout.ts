/** Positions for the nodes of a tree: one column per depth, without gaps, the first path a straight line at the top. */
import type { HierarchyNode } from "d3-hierarchy";

export interface PlacedNode<T> {
  node: HierarchyNode<T>;
  column: number;
  row: number;
}

/** Give each node the first free row of its column that is not above its parent, so that edges never cross. */
export function layoutTree<T>(root: HierarchyNode<T>): PlacedNode<T>[] {
  const freeRow: number[] = [];
  const rows = new Map<HierarchyNode<T>, number>();
  root.eachBefore((node) => {
    const row = Math.max((node.parent && rows.get(node.parent)) ?? 0, freeRow[node.depth] ?? 0);
    freeRow[node.depth] = row + 1;
    rows.set(node, row);
  });
  return [...rows].map(([node, row]) => ({ node, column: node.depth, row }));
}
