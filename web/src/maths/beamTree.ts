/** The hypotheses of a beam search as a tree. */
import type { Beam, Candidate } from "../api/types";

const ROOT = "r";

export interface Branch {
  node: string;
  candidate: Candidate | null;
  children: Branch[];
}

/**
 * Build the tree of all candidates, or without the pruned ones.
 * Children are sorted by log-probability; those in `first` come before all others.
 */
export function buildTree(beam: Beam, withPruned: boolean, first: ReadonlySet<string> = new Set()): Branch {
  const root: Branch = { node: ROOT, candidate: null, children: [] };
  const branches = new Map([[ROOT, root]]);
  for (const candidate of beam.steps.flatMap((step) => step.candidates)) {
    if (candidate.state === "pruned" && !withPruned) continue;
    const branch = { node: candidate.node, candidate, children: [] };
    branches.set(candidate.node, branch);
    branches.get(candidate.parent)?.children.push(branch);
  }
  for (const { children } of branches.values()) {
    const rank = ({ node, candidate }: Branch) => (first.has(node) ? Infinity : (candidate?.log_prob ?? 0));
    children.sort((a, b) => rank(b) - rank(a));
  }
  return root;
}

/** The candidates on the path from the root to a node, the node itself last */
export function pathTo(beam: Beam, node: string): Candidate[] {
  const byNode = new Map(beam.steps.flatMap((step) => step.candidates).map((c) => [c.node, c]));
  const path: Candidate[] = [];
  for (let c = byNode.get(node); c; c = byNode.get(c.parent)) path.unshift(c);
  return path;
}
