/** Fetches the numbers of a stage, computes it again and compares the result with the server's. */
import * as api from "../api/client";
import type { Stage, Stages } from "../api/types";
import { largestDifference, sizeOf, type NdArray } from "../maths/array";
import { compute, type Weights } from "../maths/operations";
import { getTensor, type Tensors } from "../maths/safetensors";

/** Weights with more numbers than this are shown and computed slice by slice. */
const MAX_WEIGHT = 1 << 20;
const SLICE = 128;
/** Blocks with more numbers than this are checked stage by stage, not all at once. */
const MAX_BLOCK = 3 << 20;

export interface LoadedStage {
  stage: Stage;
  inputs: NdArray[];
  weights: Weights;
  output: NdArray;
  /** null: the stage is given and nothing is computed */
  delta: number | null;
  /** The outputs that were computed, if not all */
  slice: { from: number; to: number; all: number } | null;
}

const array = (tensors: Tensors, name: string): NdArray => {
  const { shape, data } = getTensor(tensors, name);
  return { shape, data: data instanceof Float32Array ? data : Float32Array.from(data) };
};

/** Names of values with their selections, for the stage itself, its inputs and weights */
interface Selection {
  output: string;
  inputs: string[];
  weights: Record<string, string>;
  slice: LoadedStage["slice"];
}

function select({ values }: Stages, stage: Stage, page: number): Selection {
  const shape = (name: string) => values[name]?.shape ?? [];
  const short = (name: string) => name.slice(stage.name.length + 1);
  const weights = Object.fromEntries(stage.weights.map((name) => [short(name), name]));
  const plain: Selection = { output: stage.name, inputs: stage.inputs, weights, slice: null };
  const weight = `${stage.name}.weight`;
  if (stage.op !== "linear" || sizeOf(shape(weight)) <= MAX_WEIGHT) return plain;
  const all = shape(weight)[0] ?? 0;
  const from = Math.min(page * SLICE, Math.max(0, all - SLICE));
  const to = Math.min(all, from + SLICE);
  const rows = shape(stage.name).slice(0, -1).map(() => ":");
  return {
    output: `${stage.name}[${[...rows, `${from}:${to}`].join(";")}]`,
    inputs: stage.inputs,
    weights: Object.fromEntries(Object.entries(weights).map(([key, name]) => [key, `${name}[${[`${from}:${to}`, ...shape(name).slice(1).map(() => ":")].join(";")}]`])),
    slice: { from, to, all },
  };
}

function finish(stage: Stage, tensors: Tensors, { output, inputs, weights, slice }: Selection): LoadedStage {
  const x = inputs.map((name) => array(tensors, name));
  const w = Object.fromEntries(Object.entries(weights).map(([key, name]) => [key, array(tensors, name)]));
  const server = array(tensors, output);
  const computed = compute(stage, x, w);
  return { stage, inputs: x, weights: w, output: server, slice, delta: computed && largestDifference(computed.data, server.data) };
}

/** One stage; `page` selects the slice of a wide one. */
export async function loadStage(trace: string, stages: Stages, stage: Stage, page: number, signal: AbortSignal): Promise<LoadedStage> {
  if (stage.op === "lookup") return loadLookup(trace, stages, stage, signal);
  const selection = select(stages, stage, page);
  const names = [...new Set([selection.output, ...selection.inputs, ...Object.values(selection.weights)])];
  return finish(stage, await api.values(trace, stages.block, names, signal), selection);
}

/** A lookup: of the table only the rows that are looked up are fetched, and ids count these rows. */
async function loadLookup(trace: string, stages: Stages, stage: Stage, signal: AbortSignal): Promise<LoadedStage> {
  const [input = "", table = ""] = [stage.inputs[0], stage.weights[0]];
  const tensors = await api.values(trace, stages.block, [input, stage.name], signal);
  const ids = array(tensors, input);
  const unique = [...new Set(ids.data)].sort((a, b) => a - b);
  const name = `${table}[${unique.join(",")};:]`;
  const rows = array(await api.values(trace, stages.block, [name], signal), name);
  const output = array(tensors, stage.name);
  const computed = compute(stage, [{ ...ids, data: ids.data.map((id) => unique.indexOf(id)) }], { table: rows });
  return { stage, inputs: [ids], weights: { table: rows }, output, slice: null, delta: computed && largestDifference(computed.data, output.data) };
}

/** The difference of every stage of a block from the server, by name; stages that cannot be checked at once are left out. */
export async function checkBlock(trace: string, stages: Stages, signal: AbortSignal): Promise<Record<string, number>> {
  const checked = stages.stages.filter(({ op }) => op !== "given" && op !== "lookup");
  const names = [...new Set(checked.flatMap((stage) => [stage.name, ...stage.inputs, ...stage.weights]))];
  const total = names.reduce((sum, name) => sum + sizeOf(stages.values[name]?.shape ?? []), 0);
  if (!names.length || total > MAX_BLOCK) return {};
  const tensors = await fetchInParts(trace, stages.block, names, signal);
  const deltas = checked.map((stage) => [stage.name, finish(stage, tensors, select(stages, stage, 0)).delta] as const);
  return Object.fromEntries(deltas.filter((pair): pair is [string, number] => pair[1] !== null));
}

/** An address must not become too long, so many names are several requests. */
async function fetchInParts(trace: string, block: string, names: string[], signal: AbortSignal): Promise<Tensors> {
  const parts = Array.from({ length: Math.ceil(names.length / 40) }, (_, i) => names.slice(40 * i, 40 * (i + 1)));
  const answers = await Promise.all(parts.map((part) => api.values(trace, block, part, signal)));
  return { metadata: {}, tensors: Object.assign({}, ...answers.map(({ tensors }) => tensors)) as Tensors["tensors"] };
}
