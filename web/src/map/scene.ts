/** The shapes of the map: streams, strands, lines of attention and what the parts add, from a run and a layout. */
import { row as rowOf } from "../maths/matrix";
import type { StackName } from "../model/description";
import type { Hues } from "../model/hues";
import { readKey, sourceKey, targetKey, type Key } from "../model/hover.svelte";
import type { Norms, Run } from "../model/run";
import type { Column, MapLayout, StackPlace } from "./layout";
import { bulge, curve, lane, ribbon, type Edge } from "./paths";

export interface Line {
  d: string;
  stroke: string;
  width: number;
  keys: Key[];
}

export interface Band {
  d: string;
  fill: string;
  /** The paler strand: the stream's own past */
  past: boolean;
}

export interface Stream {
  row: number;
  y: number;
  /** The largest height of the stream */
  size: number;
  keys: Key[];
  /** Of the word that it is labelled with */
  labelKeys: Key[];
  hue: string;
  bands: Band[];
  lines: Line[];
  bulges: string[];
  /** Where something is added to the stream */
  rings: { x: number }[];
  /** What it would say after each part, under the stream */
  lens: { x: number; y: number; text: string; p: number; said: boolean }[];
  length: { in: number; out: number } | null;
}

const LINE = 7; // pixels of a line of weight 1
const WEAK = 0.03; // lines below are left out; matrices show all
const PLAIN = 5; // height of a stream whose length is not known
const THICKEST = 15;
/** With more rows only the lines of the chosen one are drawn … */
export const MANY_ROWS = 16;
/** … and of those the strongest */
const STRONGEST = 8;

export interface SceneInput {
  run: Run;
  layout: MapLayout;
  hues: Hues;
  /** One stack reads source and output as one text */
  joint: boolean;
  step: number;
}

const partName = ({ stack, layer, part }: Column): string => `${stack}.${layer}.${part?.name ?? ""}`;

/** The lengths around every part of a stack in order: as read, after part 1, after part 2 … */
function stages(run: Run, names: string[], row: number): number[] | null {
  const norms = names.map((name) => run.norms?.[name]);
  if (!norms.length || norms.some((each) => !each)) return null;
  const all = norms as Norms[];
  return [all[0]?.before[row] ?? 0, ...all.map((each) => each.after[row] ?? 0)];
}

/** Pixels of a unit of vector length, such that the longest vector fits */
function pixelsPerUnit(run: Run, room: number): number {
  const longest = Math.max(1e-6, ...Object.values(run.norms ?? {}).flatMap(({ after }) => after));
  return Math.min(THICKEST, room) / longest;
}

/** A line of attention with weight w, if it is strong enough */
function selfLines(input: SceneInput, place: StackPlace, column: Column, row: number): Line[] {
  const { run, joint, hues } = input;
  const nS = run.source.length;
  const { ys } = place.rows;
  const found: { from: number; w: number }[] = [];
  const take = (site: "encoder" | "decoder" | "cross", i: number, offset: number) => {
    const mean = run.means[site]?.[column.layer];
    if (mean && i >= 0 && i < mean.rows) rowOf(mean, i).forEach((w, j) => found.push({ from: j + offset, w }));
  };
  if (place.name === "encoder") take("encoder", row, 0);
  else if (!joint) take("decoder", row, 0);
  else if (row < nS) take("encoder", row, 0);
  else {
    take("cross", row - nS, 0);
    take("decoder", row - nS, nS);
  }
  const strong = found.filter(({ from, w }) => from !== row && w > WEAK).sort((a, b) => b.w - a.w);
  return strong.slice(0, ys.length > MANY_ROWS ? STRONGEST : undefined).map(({ from, w }) => ({
    d: curve(column.x0 + 3, ys[from] ?? 0, column.x1 - 3, ys[row] ?? 0),
    stroke: rowHue(input, place.name, from, hues),
    width: LINE * w,
    keys: [...rowKeys(input, place.name, from), ...rowKeys(input, place.name, row)],
  }));
}

/** The keys of a row: those of a source token, or of the step that it computes */
export function rowKeys({ run, joint }: Pick<SceneInput, "run" | "joint">, stack: StackName, row: number): Key[] {
  const nS = joint ? run.source.length : 0;
  if (stack === "encoder" || row < nS) return [sourceKey(row)];
  return [targetKey(row - nS), ...(row > nS ? [] : [readKey(0)])];
}

/** The key of the word that a row is labelled with: the one that is read there */
export function labelKeys({ run, joint }: Pick<SceneInput, "run" | "joint">, stack: StackName, row: number): Key[] {
  const nS = joint ? run.source.length : 0;
  return [stack === "encoder" || row < nS ? sourceKey(row) : readKey(row - nS)];
}

export function rowHue({ run, joint }: Pick<SceneInput, "run" | "joint">, stack: StackName, row: number, hues: Hues): string {
  const nS = joint ? run.source.length : 0;
  return stack === "encoder" || row < nS ? hues.source(row) : hues.read(row - nS);
}

/** Shares of a decoder stream after each stage: its own past, and each source word, by length added × attention */
export function strands(run: Run, layers: number, kinds: string[][], t: number): { own: number; source: number[] }[] {
  let own = run.norms?.[`decoder.0.${kinds[0]?.[0]}`]?.before[t] ?? 1;
  const source = new Array<number>(run.source.length).fill(0);
  const result = [{ own: 1, source: [...source] }];
  for (let layer = 0; layer < layers; layer++) {
    for (const kind of kinds[layer] ?? []) {
      const add = run.norms?.[`decoder.${layer}.${kind}`]?.add[t] ?? 0;
      if (kind === "cross") {
        const mean = run.means.cross?.[layer];
        if (mean) rowOf(mean, t).forEach((w, j) => (source[j] = (source[j] ?? 0) + add * w));
      } else if (kind !== "feedforward") own += add;
      const all = own + source.reduce((a, b) => a + b, 0) || 1;
      result.push({ own: own / all, source: source.map((x) => x / all) });
    }
  }
  return result;
}

/** The source words that get a strand of their own: all, or of many those that have most; in their order */
function strongestSources(shares: { source: number[] }[]): number[] {
  const most = (shares[0]?.source ?? []).map((_, j) => ({ j, share: Math.max(...shares.map(({ source }) => source[j] ?? 0)) }));
  if (most.length <= MANY_ROWS) return most.map(({ j }) => j);
  return most.toSorted((a, b) => b.share - a.share).slice(0, STRONGEST).map(({ j }) => j).sort((a, b) => a - b);
}

/** All streams of a stack. `layers` are the kinds of parts of each layer. */
export function drawStreams(input: SceneInput, place: StackPlace, layers: string[][]): Stream[] {
  const { run, layout, hues, joint, step } = input;
  const columns = layout.columns.filter(({ stack }) => stack === place.name);
  const names = layers.flatMap((kinds, layer) => kinds.map((kind) => `${place.name}.${layer}.${kind}`));
  const { ys, room } = place.rows;
  const unit = pixelsPerUnit(run, Math.max(...room) * 0.62);
  const end = place.name === "encoder" && layout.decoder ? place.end : layout.outX - 8;
  return ys.map((y, row) => {
    const t = joint ? row - run.source.length : row;
    const lengths = stages(run, names, row);
    const cap = Math.max(0.6, (room[row] ?? PLAIN) * 0.8);
    const size = (stage: number) => Math.min(cap, lengths ? Math.max(0.8, (lengths[stage] ?? 0) * unit) : Math.min(PLAIN, cap));
    const edges = (low: (stage: number) => number, high: (stage: number) => number): Edge[] => {
      let stage = 0;
      const points: Edge[] = [[place.start - 10, y + low(0), y + high(0)]];
      for (const column of columns) {
        points.push([column.x0 + 3, y + low(stage), y + high(stage)]);
        stage = column.stage;
        points.push([column.x1 - 3, y + low(stage), y + high(stage)]);
      }
      return [...points, [end, y + low(stage), y + high(stage)]];
    };
    const chosen = joint ? step + run.source.length : step;
    /** Of many rows, only the chosen one has strands: there would be thousands of shapes. */
    const inDetail = place.name === "decoder" && !joint && (ys.length <= MANY_ROWS || row === chosen);
    const shares = inDetail && lengths && run.source.length ? strands(run, layers.length, layers, t) : null;
    const bands: Band[] = [];
    if (!shares) {
      bands.push({ d: ribbon(edges((s) => -size(s) / 2, (s) => size(s) / 2)), fill: rowHue(input, place.name, row, hues), past: false });
    } else {
      let low = shares.map((_, s) => -size(s) / 2);
      const shown = strongestSources(shares);
      const others = run.source.flatMap((_, j) => (shown.includes(j) ? [] : [j]));
      const shareOf = (words: number[]) => (s: number) => words.reduce((sum, j) => sum + (shares[s]?.source[j] ?? 0), 0);
      const parts = [
        ...shown.map((j) => ({ fill: hues.source(j), past: false, share: shareOf([j]) })),
        ...(others.length ? [{ fill: "var(--rule)", past: false, share: shareOf(others) }] : []),
        { fill: hues.read(t), past: true, share: (s: number) => shares[s]?.own ?? 0 },
      ];
      for (const { fill, past, share } of parts) {
        const [from, to] = [low, low.map((x, s) => x + size(s) * share(s))];
        if (Math.max(...shares.map((_, s) => share(s))) > 0.012) bands.push({ d: ribbon(edges((s) => from[s] ?? 0, (s) => to[s] ?? 0)), fill, past });
        low = to;
      }
    }
    const withLines = ys.length <= MANY_ROWS || row === (place.name === "encoder" ? run.aligned[step] : chosen);
    const open = columns.filter(({ part }) => part);
    return {
      row,
      y,
      size: Math.max(size(0), size(names.length)),
      keys: rowKeys(input, place.name, row),
      labelKeys: labelKeys(input, place.name, row),
      hue: place.name === "decoder" && t >= 0 ? hues.said(t) : rowHue(input, place.name, row, hues),
      bands,
      lines: withLines ? open.flatMap((column) => linesOf(input, place, column, row, shares, size)) : [],
      bulges: (room[row] ?? 0) < 8 ? [] : open.filter(({ part }) => part?.kind === "feed-forward").map((column) => {
        const add = run.norms?.[partName(column)]?.add[row];
        return bulge(column.x0, column.x1, y, Math.min(cap * 0.62, add === undefined ? 4 : Math.max(1.5, add * unit * 0.75)));
      }),
      rings: (room[row] ?? 0) < 8 ? [] : open.filter(({ part }) => part?.residual).map(({ x1 }) => ({ x: x1 - 3 })),
      lens: t < 0 || place.name === "encoder" ? [] : lensLabels(input, open, y, t, size),
      length: lengths && { in: lengths[0] ?? 0, out: lengths.at(-1) ?? 0 },
    };
  });
}

function linesOf(
  input: SceneInput,
  place: StackPlace,
  column: Column,
  row: number,
  shares: { own: number; source: number[] }[] | null,
  size: (stage: number) => number,
): Line[] {
  if (column.part?.name === "self") return selfLines(input, place, column, row);
  if (column.part?.name === "cross") return crossLanes(input, place, column, row, shares, size);
  return [];
}

/** Lanes from the rails of the source to a stream, nested so that no two of them cross */
function crossLanes(
  { run, layout, hues }: SceneInput,
  place: StackPlace,
  { layer, stage, x0, x1 }: Column,
  t: number,
  shares: { own: number; source: number[] }[] | null,
  size: (stage: number) => number,
): Line[] {
  const mean = run.means.cross?.[layer];
  const rails = layout.encoder?.rows.ys;
  if (!mean || !rails) return [];
  const weights = rowOf(mean, t);
  const count = place.rows.ys.length;
  const y = place.rows.ys[t] ?? 0;
  const at = x0 + 9 + ((count - 1 - t) / Math.max(1, count - 1)) * (x1 - x0 - 30);
  const strong = [...weights.entries()].filter(([, w]) => w > WEAK);
  let x = (count > MANY_ROWS ? (x0 + x1) / 2 : at) + strong.reduce((sum, [, w]) => sum + LINE * w, 0) / 2;
  const share = shares?.[stage]?.source;
  return strong.map(([j, w]) => {
    const lx = x - (LINE * w) / 2;
    x -= LINE * w;
    const before = share ? share.slice(0, j).reduce((a, b) => a + b, 0) + (share[j] ?? 0) / 2 - 0.5 : 0;
    const d = lane(lx, rails[j] ?? 0, y + size(stage) * before, x1 - 3);
    return { d, stroke: hues.source(j), width: Math.max(1, LINE * w), keys: [sourceKey(j), targetKey(t)] };
  });
}

function lensLabels({ run, step }: SceneInput, columns: Column[], y: number, t: number, size: (stage: number) => number): Stream["lens"] {
  if (!run.lens || t > step + 100) return [];
  return columns.flatMap((column, i) => {
    const next = columns[i + 1];
    if (!next || column.part?.kind === "feed-forward") return []; // there is no room after each part; the last one is what is said
    const cell = run.lens?.find(({ part }) => part === partName(column))?.cells[t];
    const [best] = cell?.top ?? [];
    if (!best) return [];
    return [{ x: column.x1 - 3, y: y + size(column.stage) / 2, text: best.text, p: best.p, said: cell?.rank === 1 }];
  });
}
