/** The hypotheses of a beam search as a tree. */
import type { Beam, Candidate } from "../api/types";

const ROOT = "r";

export interface Branch {
  node: string;
  candidate: Candidate | null;
  children: Branch[];
}

/** The tree of all candidates, or of those that were kept or ended alone; `first` and then better ones come first. */
export function treeOf(beam: Beam, pruned: boolean, first: ReadonlySet<string> = new Set()): Branch {
  const root: Branch = { node: ROOT, candidate: null, children: [] };
  const branches = new Map([[ROOT, root]]);
  for (const candidate of beam.steps.flatMap((step) => step.candidates)) {
    if (candidate.state === "pruned" && !pruned) continue;
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

/** The candidates from the root to a node, the node last */
export function pathTo(beam: Beam, node: string): Candidate[] {
  const all = new Map(beam.steps.flatMap((step) => step.candidates).map((c) => [c.node, c]));
  const path: Candidate[] = [];
  for (let at = all.get(node); at; at = all.get(at.parent)) path.unshift(at);
  return path;
}
