/** Where the nodes of a tree stand: columns by depth, each column packed, the first path a straight line at the top. */
import type { HierarchyNode } from "d3-hierarchy";

export interface Placed<T> {
  node: HierarchyNode<T>;
  column: number;
  row: number;
}

/** Each node takes the first free row of its column that is not above its parent, so that edges never cross. */
export function place<T>(root: HierarchyNode<T>): Placed<T>[] {
  const free: number[] = [];
  const rows = new Map<HierarchyNode<T>, number>();
  root.eachBefore((node) => {
    const row = Math.max((node.parent && rows.get(node.parent)) ?? 0, free[node.depth] ?? 0);
    free[node.depth] = row + 1;
    rows.set(node, row);
  });
  return [...rows].map(([node, row]) => ({ node, column: node.depth, row }));
}
