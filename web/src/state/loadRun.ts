/** Requests a trace and what the drawings need of it: the attention of all heads, lengths, lens and next tokens. */
import * as api from "../api/client";
import type { TraceRequest } from "../api/client";
import type { Site, SiteName, Trace } from "../api/types";
import { meanOfHeads, type Matrix } from "../maths/matrix";
import { getTensor, type Tensor } from "../maths/safetensors";
import { lensOf, makeRun, stepsOf, type Run } from "../model/run";

/** Up to this many weights are fetched as floats, and up to this many at all at once */
const MAX_FLOATS = 1 << 18;
const MAX_WEIGHTS = 12 << 20;

/** All weights of a trace by kind of attention [layers, heads, rows, columns]; none if there are too many at once */
export type Weights = Partial<Record<SiteName, Tensor>>;

const sizeOf = (trace: Trace, { rows, columns, layers, heads }: Site): number =>
  trace[rows].length * trace[columns].length * layers * heads;

export async function fetchAllWeights(trace: Trace, signal: AbortSignal): Promise<Weights> {
  const total = trace.sites.reduce((sum, site) => sum + sizeOf(trace, site), 0);
  if (!total) return {};
  const dtype = total > MAX_FLOATS ? "u8" : "f32";
  const form = total > MAX_WEIGHTS ? "thumb" : "weights";
  const names = trace.sites.map(({ name }) => `${name}.${form}`);
  const answer = await api.fetchTensors(trace.id, { names, dtype: form === "thumb" ? "u8" : dtype }, signal);
  return Object.fromEntries(trace.sites.map(({ name }) => [name, getTensor(answer, `${name}.${form}`)]));
}

export function meansOf(weights: Weights): Run["means"] {
  const means: Partial<Record<SiteName, Matrix[]>> = {};
  for (const [name, tensor] of Object.entries(weights) as [SiteName, Tensor][]) {
    means[name] = Array.from({ length: tensor.shape[0] ?? 0 }, (_, layer) => meanOfHeads(tensor, layer));
  }
  return means;
}

/** A run with the weights that it was made from */
export interface LoadedRun {
  run: Run;
  weights: Weights;
}

export async function loadRun(request: TraceRequest, onProgress: (text: string) => void, signal: AbortSignal): Promise<LoadedRun> {
  const trace = await api.createTrace(request, onProgress, signal);
  const [weights, lens] = await Promise.all([fetchAllWeights(trace, signal), api.lens(trace.id, signal)]);
  return { run: makeRun(trace, { means: meansOf(weights), norms: null, headNorms: null, lens: lensOf(lens), steps: stepsOf(trace) }), weights };
}
