/** A word of the source has a hue; a word of the output takes the hue of the source word it looked at most. */
import type { Run } from "./run";

const HUES = ["var(--t0)", "var(--t1)", "var(--t2)", "var(--t3)"];
export const GREY = "var(--tx)";
/** With more words than this, hues would repeat too often: only what the chosen step looks at is coloured. */
const MAX_COLOURED = 9;

export interface Hues {
  source: (j: number) => string;
  /** The hue of a word that is said, and of the word that is read at the same position */
  said: (t: number) => string;
  read: (t: number) => string;
}

export function makeHues(run: Run, step: number): Hues {
  const hasSource = run.source.length > 0;
  const words = hasSource ? run.source : run.read;
  const hue = words.length <= MAX_COLOURED ? (i: number) => (words[i]?.special ? GREY : HUES[i % 4] ?? GREY) : sparse(run, step, hasSource);
  if (!hasSource) return { source: () => GREY, said: (t) => hue(t + 1), read: hue };
  const isAligned = run.means.cross !== undefined;
  const said = (t: number) => (isAligned ? hue(run.aligned[t] ?? -1) : run.target[t]?.special ? GREY : (HUES[t % 4] ?? GREY));
  return { source: hue, said, read: (t) => (t ? said(t - 1) : GREY) };
}

/** Hues for the four words that the chosen step attends to most; grey for all others */
function sparse(run: Run, step: number, hasSource: boolean): (i: number) => string {
  const means = (hasSource ? run.means.cross : run.means.decoder) ?? [];
  const sums = Array.from({ length: means[0]?.columns ?? 0 }, (_, j) =>
    means.reduce((sum, { data, columns }) => sum + (data[step * columns + j] ?? 0), 0),
  );
  const order = sums.map((_, j) => j).sort((a, b) => (sums[b] ?? 0) - (sums[a] ?? 0)).slice(0, 4);
  const hues = new Map(order.map((j, rank) => [j, HUES[rank] ?? GREY]));
  return (i) => hues.get(i) ?? GREY;
}
