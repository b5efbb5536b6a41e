/** The operations of the stages of a model, computed again by the page. docs/serve.md has the formulas. */
import type { Stage } from "../api/types";
import { batch, columns, eachBatch, fromRows, lastAxis, map, mapRows, rowAt, rowsOf, timesTransposed, zeros, zip, type NdArray } from "./array";

export type Settings = Stage["settings"];
/** Weights by their names within the stage: weight, bias, table … */
export type Weights = Record<string, NdArray>;
type Operation = (x: NdArray[], w: Weights, s: Settings) => NdArray;

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const silu = (x: number): number => x * sigmoid(x);

/** The error function (Abramowitz and Stegun 7.1.26 is not exact enough): a series for small x, a continued fraction for large x */
export function erf(x: number): number {
  const a = Math.abs(x);
  if (a > 5) return Math.sign(x);
  if (a < 2.5) {
    let [term, sum] = [a, a];
    for (let n = 1; n < 60 && Math.abs(term) > 1e-17; n++) {
      term *= -(a * a) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let f = 0;
  for (let n = 60; n > 0; n--) f = n / 2 / (a + f);
  return Math.sign(x) * (1 - Math.exp(-a * a) / (Math.sqrt(Math.PI) * (a + f)));
}

export const ACTIVATIONS: Record<string, (x: number) => number> = {
  relu: (x) => Math.max(x, 0),
  silu,
  tanh: Math.tanh,
  sigmoid,
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  "gelu-tanh": (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};
const activation = (s: Settings): ((x: number) => number) => ACTIVATIONS[String(s.activation)] ?? ((x) => x);
const setting = (s: Settings, name: string): number => Number(s[name]);
const plus = (a: number, b: number): number => a + b;

function softmaxRow(row: ArrayLike<number>): number[] {
  const max = Array.from(row).reduce((a, b) => Math.max(a, b), -Infinity);
  const exps = Array.from(row, (x) => Math.exp(x - max));
  const sum = exps.reduce(plus, 0);
  return exps.map((e) => e / sum);
}

function logSoftmaxRow(row: ArrayLike<number>): number[] {
  const max = Array.from(row).reduce((a, b) => Math.max(a, b), -Infinity);
  const log = Math.log(Array.from(row, (x) => Math.exp(x - max)).reduce(plus, 0));
  return Array.from(row, (x) => x - max - log);
}

const linear: Operation = ([x], w) => {
  const product = timesTransposed(x!, w.weight!);
  return w.bias ? zip(product, w.bias, plus) : product;
};

const layerNorm: Operation = ([x], w, s) =>
  mapRows(x!, (row) => {
    const mean = row.reduce(plus, 0) / row.length;
    const deviation = Math.sqrt(row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / row.length + setting(s, "eps"));
    return row.map((v, i) => ((v - mean) / deviation) * (w.weight?.data[i] ?? 1) + (w.bias?.data[i] ?? 0));
  });

const rmsNorm: Operation = ([x], w, s) =>
  mapRows(x!, (row) => {
    const root = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0) / row.length + setting(s, "eps"));
    return row.map((v, i) => (v / root) * (w.weight?.data[i] ?? 1));
  });

const splitHeads: Operation = ([x], _w, s) => {
  const [heads, repeat] = [setting(s, "heads"), setting(s, "repeat")];
  const width = lastAxis(x!) / heads;
  const parts = Array.from({ length: heads * repeat }, (_, h) => columns(x!, Math.floor(h / repeat) * width, (Math.floor(h / repeat) + 1) * width));
  return { shape: [parts.length, rowsOf(x!), width], data: Float32Array.from(parts.flatMap(({ data }) => [...data])) };
};

const joinHeads: Operation = ([x]) => {
  const [heads = 0, rows = 0] = x!.shape;
  return fromRows(Array.from({ length: rows }, (_, r) => Array.from({ length: heads }, (_, h) => [...rowAt(batch(x!, h), r)]).flat()));
};

const rotate: Operation = ([x, cos, sin]) => {
  const half = lastAxis(x!) / 2;
  const rows = rowsOf(cos!);
  return mapRows(x!, (row, i) => {
    const [c, s] = [rowAt(cos!, i % rows), rowAt(sin!, i % rows)];
    return row.map((v, d) => (d < half ? v * (c[d] ?? 0) - (row[d + half] ?? 0) * (s[d] ?? 0) : v * (c[d - half] ?? 0) + (row[d - half] ?? 0) * (s[d - half] ?? 0)));
  });
};

const featureMap: Operation = ([x], _w, s) =>
  map(x!, (v) => {
    const z = v * setting(s, "scale");
    return s.feature === "identity" ? z : z > 0 ? z + 1 : Math.exp(z);
  });

const unit = (x: NdArray): NdArray =>
  mapRows(x, (row) => {
    const norm = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0)) || 1;
    return row.map((v) => v / norm);
  });

const score: Operation = ([q, k], w, s) =>
  eachBatch(q!, (i) => {
    const [a, b] = [batch(q!, i), batch(k!, i)];
    const n = rowsOf(b);
    const located = () => zip(timesTransposed(a, w.weight!), w.bias!, plus);
    switch (s.score) {
      case "cosine":
        return timesTransposed(unit(a), unit(b));
      case "bilinear":
        return timesTransposed(a, timesTransposed(b, w.weight!));
      case "additive": {
        const [from, to] = [zip(timesTransposed(a, w["query.weight"]!), w["query.bias"]!, plus), timesTransposed(b, w["key.weight"]!)];
        const out = rowAt(w["out.weight"]!, 0);
        return mapRows(from, (row) => Array.from({ length: n }, (_, j) => row.reduce((sum, v, d) => sum + Math.tanh(v + (rowAt(to, j)[d] ?? 0)) * (out[d] ?? 0), 0)), n);
      }
      case "location":
        return columns(located(), 0, n);
      case "location-log-softmax":
        return columns(mapRows(located(), logSoftmaxRow), 0, n);
      default:
        return map(timesTransposed(a, b), (v) => v * setting(s, "scale"));
    }
  });

const normalise: Operation = ([scores, mask], _w, s) => {
  const rows = rowsOf(mask!);
  return mapRows(scores!, (row, i) => {
    const seen = rowAt(mask!, i % rows);
    const hidden = Array.from(row, (v, j) => (seen[j] ? v : -Infinity));
    const shown = Array.from(row, (v, j) => (seen[j] ? v : 0));
    const sum = shown.reduce(plus, 0) || 1;
    switch (s.normalise) {
      case "hardmax":
        return hidden.map((_, j) => Number(j === hidden.indexOf(Math.max(...hidden))));
      case "sum":
        return shown.map((v) => v / sum);
      case "none":
        return shown;
      case "exp":
        return hidden.map(Math.exp);
      default:
        return softmaxRow(hidden);
    }
  });
};

const weightedSum: Operation = ([weights, values]) =>
  eachBatch(weights!, (i) => {
    const v = batch(values!, i);
    const width = lastAxis(v);
    return mapRows(batch(weights!, i), (row) => Array.from({ length: width }, (_, d) => row.reduce((sum, alpha, j) => sum + alpha * (v.data[j * width + d] ?? 0), 0)), width);
  });

const shift: Operation = ([x, first]) => {
  const start = first ? [...first.data] : new Array<number>(lastAxis(x!)).fill(0);
  return mapRows(x!, (_, i) => (i ? rowAt(x!, i - 1) : start));
};

const window: Operation = ([x], _w, s) => {
  const n = setting(s, "window");
  const empty = new Array<number>(lastAxis(x!)).fill(0);
  return mapRows(x!, (_, t) => Array.from({ length: n }, (_, i) => (t - n + 1 + i < 0 ? empty : [...rowAt(x!, t - n + 1 + i)])).flat(), n * lastAxis(x!));
};

const causalConvolution: Operation = ([x], w, s) => {
  const width = lastAxis(w.weight!);
  return mapRows(x!, (row, t) =>
    row.map((_, d) => {
      let sum = w.bias?.data[d] ?? 0;
      for (let i = 0; i < width; i++) if (t - width + 1 + i >= 0) sum += (w.weight!.data[d * width + i] ?? 0) * (rowAt(x!, t - width + 1 + i)[d] ?? 0);
      return activation(s)(sum);
    }),
  );
};

const scan: Operation = ([delta, b, inputs], w) => {
  const states = lastAxis(b!);
  const channels = lastAxis(delta!);
  const result = zeros([rowsOf(delta!), channels, states]);
  for (let t = 0; t < rowsOf(delta!); t++)
    for (let d = 0; d < channels; d++)
      for (let n = 0; n < states; n++) {
        const at = (t * channels + d) * states + n;
        const before = t ? (result.data[at - channels * states] ?? 0) : 0;
        const step = rowAt(delta!, t)[d] ?? 0;
        result.data[at] = Math.exp(-step * Math.exp(w.a_log!.data[d * states + n] ?? 0)) * before + step * (rowAt(inputs!, t)[d] ?? 0) * (rowAt(b!, t)[n] ?? 0);
      }
  return result;
};

const readState: Operation = ([states, c, x], w) => {
  const n = lastAxis(states!);
  return mapRows(x!, (row, t) => row.map((v, d) => rowAt(c!, t).reduce((sum, each, i) => sum + each * (states!.data[(t * row.length + d) * n + i] ?? 0), 0) + (w.skip?.data[d] ?? 0) * v));
};

const lastStates: Operation = ([x, mask], _w, s) => {
  const last = rowAt(x!, mask!.data.reduce(plus, 0) - 1);
  const half = last.length / 2;
  return fromRows([last.map((v, d) => (s.bidirectional && d >= half ? (x!.data[d] ?? 0) : v))]);
};

const patches: Operation = ([x], _w, s) => {
  const n = setting(s, "side");
  const [colours = 0, height = 0, width = 0] = x!.shape;
  const rows: number[][] = [];
  for (let top = 0; top < height; top += n)
    for (let left = 0; left < width; left += n) {
      const row: number[] = [];
      for (let c = 0; c < colours; c++) for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) row.push(x!.data[(c * height + top + i) * width + left + j] ?? 0);
      rows.push(row);
    }
  return fromRows(rows);
};

const convolution2d: Operation = ([x], w, s) => {
  const [pad, stride] = [setting(s, "padding"), setting(s, "stride")];
  const [inputs = 0, height = 0, width = 0] = x!.shape;
  const [outputs = 0, , kernel = 0] = w.weight!.shape;
  const side = (n: number) => Math.floor((n + 2 * pad - kernel) / stride) + 1;
  const result = zeros([outputs, side(height), side(width)]);
  let at = 0;
  for (let o = 0; o < outputs; o++)
    for (let r = 0; r < side(height); r++)
      for (let c = 0; c < side(width); c++) {
        let sum = w.bias?.data[o] ?? 0;
        for (let i = 0; i < inputs; i++)
          for (let a = 0; a < kernel; a++)
            for (let b = 0; b < kernel; b++) {
              const [y, z] = [r * stride - pad + a, c * stride - pad + b];
              if (y >= 0 && z >= 0 && y < height && z < width) sum += (w.weight!.data[((o * inputs + i) * kernel + a) * kernel + b] ?? 0) * (x!.data[(i * height + y) * width + z] ?? 0);
            }
        result.data[at++] = sum;
      }
  return result;
};

const localLogWeights: Operation = ([scores, centre, mask], _w, s) =>
  mapRows(scores!, (row, i) => {
    const seen = rowAt(mask!, i % rowsOf(mask!));
    const total = Math.log(row.reduce((sum, v, j) => sum + (seen[j] ? Math.exp(v) : 0), 0));
    return row.map((v, j) => v - total - (j - (centre!.data[i] ?? 0)) ** 2 / (2 * (setting(s, "reach") / 2) ** 2));
  });

const part = (x: NdArray, s: Settings): NdArray => columns(x, setting(s, "start"), setting(s, "end"));

export const OPERATIONS: Partial<Record<Stage["op"], Operation>> = {
  lookup: ([ids], w) => fromRows(Array.from(ids!.data, (id) => rowAt(w.table!, id))),
  scale: ([x], _w, s) => map(x!, (v) => v * setting(s, "factor")),
  add: ([a, b]) => zip(a!, b!, plus),
  multiply: ([a, b]) => zip(a!, b!, (x, y) => x * y),
  concatenate: (parts) => mapRows(parts[0]!, (_, i) => parts.flatMap((x) => [...rowAt(x, i)]), parts.reduce((sum, x) => sum + lastAxis(x), 0)),
  columns: ([x], _w, s) => part(x!, s),
  reverse: ([x]) => mapRows(x!, (_, i) => rowAt(x!, rowsOf(x!) - 1 - i)),
  shift,
  window,
  linear,
  "layer-norm": layerNorm,
  "rms-norm": rmsNorm,
  activation: ([x], _w, s) => map(x!, activation(s)),
  "split-heads": splitHeads,
  "join-heads": joinHeads,
  rotate,
  "feature-map": featureMap,
  score,
  "local-centre": ([q], w, s) => map(timesTransposed(map(timesTransposed(q!, w.weight!), Math.tanh), w.out!), (v) => (setting(s, "length") - 1) * sigmoid(v)),
  "local-log-weights": localLogWeights,
  normalise,
  "weighted-sum": weightedSum,
  swiglu: ([x]) => mapRows(x!, (row) => row.slice(0, row.length / 2).map((g, i) => silu(g) * (row[i + row.length / 2] ?? 0)), lastAxis(x!) / 2),
  mean: ([x, mask]) => {
    const seen = Array.from({ length: rowsOf(x!) }, (_, i) => i).filter((i) => mask!.data[i]);
    return fromRows([Array.from({ length: lastAxis(x!) }, (_, d) => seen.reduce((sum, i) => sum + (rowAt(x!, i)[d] ?? 0), 0) / seen.length)]);
  },
  "last-states": lastStates,
  gate: ([a, b], _w, s) => map(zip(part(a!, s), part(b!, s), plus), activation(s)),
  "gru-candidate": ([a, b, reset], _w, s) => map(zip(part(a!, s), zip(reset!, part(b!, s), (r, v) => r * v), plus), Math.tanh),
  "gru-state": ([z, n, h]) => map(z!, (v, i) => (1 - v) * (n!.data[i] ?? 0) + v * (h!.data[i] ?? 0)),
  "lstm-cell": ([f, c, i, g]) => map(f!, (v, at) => v * (c!.data[at] ?? 0) + (i!.data[at] ?? 0) * (g!.data[at] ?? 0)),
  "lstm-state": ([o, c]) => zip(o!, c!, (x, y) => x * Math.tanh(y)),
  "causal-convolution": causalConvolution,
  softplus: ([x], w) => map(zip(x!, w.bias!, plus), (v) => Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v)))),
  scan,
  "read-state": readState,
  "convolution-2d": convolution2d,
  patches,
  regions: ([x]) => {
    const [channels = 0] = x!.shape;
    const places = x!.data.length / channels;
    return fromRows(Array.from({ length: places }, (_, p) => Array.from({ length: channels }, (_, c) => x!.data[c * places + p] ?? 0)));
  },
  "log-softmax": ([x]) => mapRows(x!, logSoftmaxRow),
};

/** Compute the output of a stage from its inputs and weights; null if it is given, or an operation that the page does not know */
export function compute(stage: Pick<Stage, "op" | "settings">, inputs: NdArray[], weights: Weights): NdArray | null {
  return OPERATIONS[stage.op]?.(inputs, weights, stage.settings) ?? null;
}
