/** One run of a model on one sentence: what the server has recorded, as the drawings need it. */
import type { Hypothesis, Lens, SiteName, Trace } from "../api/types";
import { at, row, type Matrix } from "../maths/matrix";
import { toWords, type Word } from "./tokens";

/** Lengths of the vectors of all positions around one part: of the stream before and after it, and of what it adds */
export interface Norms {
  before: number[];
  add: number[];
  after: number[];
}

export interface Guess {
  text: string;
  id: number;
  p: number;
}

/** What the model would say at each position if it stopped after this part */
export interface LensRow {
  /** "" as read, else the part: decoder.0.cross */
  part: string;
  layer: number;
  cells: { top: Guess[]; /** Of the token that was said, from 1 */ rank: number; p: number }[];
}

/** What the model expects at one position */
export interface Step {
  logProb: number;
  /** In bits */
  entropy: number;
  top: Guess[];
}

export interface Run {
  trace: Trace;
  hypothesis: Hypothesis | null;
  source: Word[];
  target: Word[];
  read: Word[];
  /** Mean over the heads of each layer of each kind of attention */
  means: Partial<Record<SiteName, Matrix[]>>;
  /** By part: encoder.0.self, decoder.1.cross … */
  norms: Record<string, Norms> | null;
  /** The mean length of what each head adds, by kind of attention, layer and head */
  headNorms: Partial<Record<SiteName, number[][]>> | null;
  lens: LensRow[] | null;
  steps: Step[];
  /** The source token that each step attends to most; −1 without attention to a source */
  aligned: number[];
}

/** The source position that each step attends to most, over all layers */
export function alignSteps(cross: Matrix[] | undefined, steps: number): number[] {
  return Array.from({ length: steps }, (_, t) => {
    const sums = new Float32Array(cross?.[0]?.columns ?? 0);
    for (const weights of cross ?? []) row(weights, t).forEach((w, j) => (sums[j] = (sums[j] ?? 0) + w));
    return sums.length ? sums.indexOf(sums.reduce((a, b) => Math.max(a, b))) : -1;
  });
}

export function makeRun(trace: Trace, parts: Pick<Run, "means" | "norms" | "headNorms" | "lens" | "steps">): Run {
  return {
    ...parts,
    trace,
    hypothesis: trace.hypotheses[trace.chosen] ?? null,
    source: toWords(trace.source),
    target: toWords(trace.target),
    read: toWords(trace.read),
    aligned: alignSteps(parts.means.cross, trace.target.length),
  };
}

/** What the model says: its output, or the most likely token of each position for a model that fills in tokens */
export function outputOf({ trace, steps, source }: Run): string {
  if (trace.predicts !== "source") return trace.text;
  const tokens = steps.flatMap(({ top }, i) => (source[i]?.special || !top[0] ? [] : [top[0].text]));
  return tokens.join(tokens.some((text) => text.startsWith("▁")) ? "" : " ").replaceAll("▁", " ").trim();
}

/** Whether a search was recorded; classifiers do not search */
export const hasSearch = (run: Run): boolean => (run.trace.beam?.steps.length ?? 0) > 0;

/** Weight of row i on column j of a layer's mean; 0 if it is not there */
export const meanWeight = (run: Run, site: SiteName, layer: number, i: number, j: number): number => {
  const mean = run.means[site]?.[layer];
  return mean ? at(mean, i, j) : 0;
};

/** Source and output in one list: the rows of a model that reads both as one text */
export const jointWords = (run: Run): Word[] => [...run.source, ...run.read];

/** What the model expects at each position, from the predictions of a trace */
export const stepsOf = ({ predictions }: Trace): Step[] =>
  predictions.map(({ log_prob, entropy, top }) => ({
    logProb: log_prob,
    entropy,
    top: top.map(({ token, log_prob }) => ({ text: token.text, id: token.id, p: Math.exp(log_prob) })),
  }));

/** The rows of the lens; the layer of "as read" is −1 */
export const lensOf = ({ rows }: Lens): LensRow[] =>
  rows.map(({ block, part, cells }) => ({
    part: part ? `${block}.${part}` : block,
    layer: part ? Number(block.split(".")[1] ?? 0) : -1,
    cells: cells.map(({ top, p, rank }) => ({ top: top.map(({ token, p }) => ({ text: token.text, id: token.id, p })), p: p ?? 0, rank: rank ?? 0 })),
  }));
