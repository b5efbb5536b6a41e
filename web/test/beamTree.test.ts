import { hierarchy } from "d3-hierarchy";
import { expect, test } from "vitest";
import type { Beam, Candidate } from "../src/api/types";
import { buildTree, pathTo } from "../src/maths/beamTree";
import { layoutTree } from "../src/maths/treeLayout";

const candidate = (node: string, parent: string, log_prob: number, state: Candidate["state"] = "kept"): Candidate => ({
  node,
  parent,
  token: { id: Number(node.replace(".", "")), text: node, word: 0, character: null },
  log_prob,
  score: log_prob,
  state,
});
const beam: Beam = {
  k: 2,
  steps: [
    { candidates: [candidate("0.0", "r", -1), candidate("0.1", "r", -2), candidate("0.2", "r", -3, "pruned")] },
    {
      candidates: [
        candidate("1.0", "0.1", -2.5),
        candidate("1.1", "0.0", -4, "ended"),
        candidate("1.2", "0.0", -3),
        candidate("1.3", "0.1", -5, "pruned"),
      ],
    },
    { candidates: [candidate("2.0", "1.0", -6), candidate("2.1", "1.3", -7)] },
  ],
};

test("a path goes from the root to the node", () => {
  expect(pathTo(beam, "1.0").map(({ node }) => node)).toEqual(["0.1", "1.0"]);
  expect(pathTo(beam, "nowhere")).toEqual([]);
});

test("children are sorted by log-probability, the best path comes first, and pruned candidates can be left out", () => {
  const names = (withPruned: boolean, first?: Set<string>) =>
    buildTree(beam, withPruned, first).children.map(({ node, children }) => [node, children.map((c) => c.node)]);
  expect(names(true)).toEqual([
    ["0.0", ["1.2", "1.1"]],
    ["0.1", ["1.0", "1.3"]],
    ["0.2", []],
  ]);
  expect(names(false, new Set(["0.1", "1.0"]))).toEqual([
    ["0.1", ["1.0"]],
    ["0.0", ["1.2", "1.1"]],
  ]);
});

test("no two nodes share a position, children are never above their parents, and edges do not cross", () => {
  const placed = layoutTree(hierarchy(buildTree(beam, true)));
  expect(new Set(placed.map(({ column, row }) => `${column} ${row}`)).size).toBe(placed.length);
  const rowOf = new Map(placed.map(({ node, row }) => [node, row]));
  const parentRow = (p: (typeof placed)[number]) => (p.node.parent ? (rowOf.get(p.node.parent) ?? 0) : 0);
  for (const one of placed) {
    expect(one.row).toBeGreaterThanOrEqual(parentRow(one));
    for (const two of placed.filter(({ column, row }) => column === one.column && row > one.row)) {
      expect(parentRow(two)).toBeGreaterThanOrEqual(parentRow(one));
    }
  }
  expect(placed.filter(({ row }) => row === 0).map(({ node }) => node.data.node)).toEqual(["r", "0.0", "1.2"]);
});
