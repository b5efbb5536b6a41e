/** Requests a trace and what the drawings need of it: the attention of all heads, lengths, lens and next tokens. */
import * as api from "../api/client";
import type { TraceRequest } from "../api/client";
import type { Site, SiteName, Trace } from "../api/types";
import { meanOfHeads, type Matrix } from "../maths/matrix";
import { getTensor, type Tensor, type Tensors } from "../maths/safetensors";
import { lensOf, makeRun, stepsOf, type Norms, type Run } from "../model/run";

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

/** The lengths around each part. The points of a stack are: as embedded, then after each part. */
export function normsOf({ tensors, metadata }: Tensors): Record<string, Norms> {
  const points = JSON.parse(metadata.points ?? "{}") as Record<string, [block: string, part: string][]>;
  const norms: Record<string, Norms> = {};
  for (const [stack, names] of Object.entries(points)) {
    const [lengths, added] = [tensors[`${stack}.norms`], tensors[`${stack}.added`]];
    if (!lengths || !added) continue;
    const row = ({ shape, data }: Tensor, i: number) => Array.from(data.slice(i * (shape[1] ?? 0), (i + 1) * (shape[1] ?? 0)));
    names.forEach(([block, part], i) => {
      if (i) norms[`${block}.${part}`] = { before: row(lengths, i - 1), after: row(lengths, i), add: row(added, i - 1) };
    });
  }
  return norms;
}

/** The mean length of what each head adds: [layer][head] of each kind of attention */
export function headNormsOf({ tensors }: Tensors): NonNullable<Run["headNorms"]> {
  const norms: NonNullable<Run["headNorms"]> = {};
  for (const site of ["encoder", "decoder", "cross"] as const) {
    const tensor = tensors[`${site}.heads`];
    if (!tensor) continue;
    const [layers = 0, heads = 0, positions = 0] = tensor.shape;
    const mean = (at: number) => Array.from(tensor.data.slice(at, at + positions)).reduce((sum, x) => sum + x, 0) / Math.max(1, positions);
    norms[site] = Array.from({ length: layers }, (_, l) => Array.from({ length: heads }, (_, h) => mean((l * heads + h) * positions)));
  }
  return norms;
}

/** A run with the weights that it was made from */
export interface LoadedRun {
  run: Run;
  weights: Weights;
}

export async function loadRun(request: TraceRequest, onProgress: (text: string) => void, signal: AbortSignal): Promise<LoadedRun> {
  const trace = await api.createTrace(request, onProgress, signal);
  const [weights, lens, flow] = await Promise.all([fetchAllWeights(trace, signal), api.lens(trace.id, signal), api.flow(trace.id, signal)]);
  const parts = { means: meansOf(weights), norms: normsOf(flow), headNorms: headNormsOf(flow), lens: lensOf(lens), steps: stepsOf(trace) };
  return { run: makeRun(trace, parts), weights };
}
