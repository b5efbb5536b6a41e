/** How one number of a stage comes about: what it is made of, and the sum or formula written out. */
import type { Stage } from "../api/types";
import { batch, lastAxis, rowAt, rowsOf, type NdArray } from "./array";
import type { Weights } from "./operations";

/** A row, a column or a cell of an input ("0", "1" …) or weight ("weight", "bias" …) that takes part */
export interface Light {
  name: string;
  row: number | null;
  column: number | null;
}

export interface CellExplanation {
  lights: Light[];
  /** Σ aᵢ bᵢ + bias, times a factor */
  sum: { a: ArrayLike<number>; b: ArrayLike<number>; bias: number | null; factor: number | null } | null;
  /** A formula with numbers, written by `write` */
  text: string;
}

/** Writes a number in the language of the page */
type Write = (value: number) => string;

export function explainCell(
  stage: Pick<Stage, "op" | "settings">,
  inputs: NdArray[],
  weights: Weights,
  output: NdArray,
  place: { head: number; row: number; column: number },
  write: Write,
): CellExplanation {
  const { row: r, column: c } = place;
  const x = inputs.map((each) => batch(each, place.head));
  const at = (i: number, row = r, column = c) => (x[i] ? (rowAt(x[i], row % Math.max(1, rowsOf(x[i])))[column] ?? 0) : 0);
  const result = rowAt(batch(output, place.head), r)[c] ?? 0;
  const same: Light[] = inputs.map((_, i) => ({ name: String(i), row: r, column: c }));
  const w = (value: number) => (value < 0 ? `(${write(value)})` : write(value));
  const text = (formula: string, lights = same): CellExplanation => ({ lights, sum: null, text: `${formula} = ${write(result)}` });
  const { settings: s } = stage;
  switch (stage.op) {
    case "linear":
      return {
        lights: [{ name: "0", row: r, column: null }, { name: "weight", row: null, column: c }, { name: "bias", row: 0, column: c }],
        sum: { a: rowAt(x[0]!, r), b: rowAt(weights.weight!, c), bias: weights.bias?.data[c] ?? null, factor: null },
        text: "",
      };
    case "score":
      if (s.score !== "dot" && s.score !== "scaled-dot") break;
      return {
        lights: [{ name: "0", row: r, column: null }, { name: "1", row: c, column: null }],
        sum: { a: rowAt(x[0]!, r), b: rowAt(x[1]!, c), bias: null, factor: s.score === "scaled-dot" ? Number(s.scale) : null },
        text: "",
      };
    case "weighted-sum":
      return {
        lights: [{ name: "0", row: r, column: null }, { name: "1", row: null, column: c }],
        sum: { a: rowAt(x[0]!, r), b: Array.from({ length: rowsOf(x[1]!) }, (_, j) => at(1, j, c)), bias: null, factor: null },
        text: "",
      };
    case "add":
      return text(`${w(at(0))} + ${w(at(1))}`);
    case "multiply":
      return text(`${w(at(0))} × ${w(at(1))}`);
    case "scale":
      return text(`${w(at(0))} × ${write(Number(s.factor))}`);
    case "activation":
      return text(`${s.activation}(${write(at(0))})`);
    case "softplus":
      return text(`log(1 + exp(${write(at(0))} + ${w(weights.bias?.data[c] ?? 0)}))`);
    case "layer-norm": {
      const row = rowAt(x[0]!, r);
      const mean = row.reduce((a, b) => a + b, 0) / row.length;
      const deviation = Math.sqrt(row.reduce((sum, v) => sum + (v - mean) ** 2, 0) / row.length + Number(s.eps));
      const lights = [{ name: "0", row: r, column: null }, { name: "weight", row: 0, column: c }, { name: "bias", row: 0, column: c }];
      return text(`(${write(at(0))} − ${w(mean)}) ÷ ${write(deviation)} × ${w(weights.weight?.data[c] ?? 1)} + ${w(weights.bias?.data[c] ?? 0)}`, lights);
    }
    case "rms-norm": {
      const row = rowAt(x[0]!, r);
      const root = Math.sqrt(row.reduce((sum, v) => sum + v * v, 0) / row.length + Number(s.eps));
      return text(`${write(at(0))} ÷ ${write(root)} × ${w(weights.weight?.data[c] ?? 1)}`, [{ name: "0", row: r, column: null }, { name: "weight", row: 0, column: c }]);
    }
    case "normalise": {
      const lights = [{ name: "0", row: r, column: null }, { name: "1", row: r, column: null }];
      if (!at(1)) return { lights, sum: null, text: `−∞ → ${write(result)}` };
      if (s.normalise !== "softmax") return text(`${s.normalise}(${write(at(0))})`, lights);
      const seen = [...rowAt(x[0]!, r)].filter((_, j) => at(1, r, j));
      const max = Math.max(...seen);
      return text(`exp(${write(at(0))} − ${w(max)}) ÷ ${write(seen.reduce((sum, v) => sum + Math.exp(v - max), 0))}`, lights);
    }
    case "log-softmax": {
      const row = rowAt(x[0]!, r);
      const max = row.reduce((a, b) => Math.max(a, b), -Infinity);
      const log = max + Math.log(row.reduce((sum, v) => sum + Math.exp(v - max), 0));
      return text(`${write(at(0))} − ${w(log)}`, [{ name: "0", row: r, column: null }]);
    }
    case "gate": {
      const from = Number(s.start) + c;
      const lights = [0, 1].map((i) => ({ name: String(i), row: r, column: from }));
      return text(`${s.activation}(${write(at(0, r, from))} + ${w(at(1, r, from))})`, lights);
    }
    case "gru-candidate": {
      const from = Number(s.start) + c;
      return text(`tanh(${write(at(0, r, from))} + ${w(at(2))} × ${w(at(1, r, from))})`, [{ name: "0", row: r, column: from }, { name: "1", row: r, column: from }, { name: "2", row: r, column: c }]);
    }
    case "gru-state":
      return text(`(1 − ${w(at(0))}) × ${w(at(1))} + ${w(at(0))} × ${w(at(2))}`);
    case "lstm-cell":
      return text(`${w(at(0))} × ${w(at(1))} + ${w(at(2))} × ${w(at(3))}`);
    case "lstm-state":
      return text(`${w(at(0))} × tanh(${write(at(1))})`);
    case "columns":
      return text(`x[${r}, ${Number(s.start) + c}]`, [{ name: "0", row: r, column: Number(s.start) + c }]);
    case "split-heads": {
      const column = Math.floor(place.head / Number(s.repeat)) * lastAxis(output) + c;
      return text(`x[${r}, ${column}]`, [{ name: "0", row: r, column }]);
    }
    case "join-heads":
      return text("", [{ name: "0", row: r, column: c % lastAxis(x[0]!) }]);
    case "swiglu": {
      const half = lastAxis(x[0]!) / 2;
      return text(`silu(${write(at(0))}) × ${w(at(0, r, c + half))}`, [{ name: "0", row: r, column: c }, { name: "0", row: r, column: c + half }]);
    }
    case "lookup":
      return text(`E[${inputs[0]?.data[r]}, ${c}]`, [{ name: "0", row: null, column: r }, { name: "table", row: null, column: c }]);
    case "shift":
      return text(r ? `x[${r - 1}, ${c}]` : `x₀[${c}]`, [{ name: "0", row: r - 1, column: c }]);
  }
  return { lights: inputs.map((_, i) => ({ name: String(i), row: r, column: null })), sum: null, text: write(result) };
}

/** The formula of each operation, the same in every language */
export const FORMULAS: Record<Stage["op"], string> = {
  given: "",
  lookup: "E[id]",
  scale: "c · x",
  add: "x + y",
  multiply: "x ⊙ y",
  concatenate: "[x ; y]",
  columns: "x[:, a:b]",
  reverse: "x[::−1]",
  shift: "x[t − 1]",
  window: "[x[t−w+1] ; … ; x[t]]",
  linear: "x Wᵀ + b",
  "layer-norm": "(x − mean) ÷ √(var + ε) ⊙ w + b",
  "rms-norm": "x ÷ √(mean x² + ε) ⊙ w",
  activation: "φ(x)",
  "split-heads": "x → heads",
  "join-heads": "heads → x",
  rotate: "R(position) x",
  "feature-map": "φ(x)",
  score: "q · k",
  "local-centre": "(n − 1) σ(w · tanh(W q))",
  "local-log-weights": "s − log Σ exp s − (j − p)² ÷ 2σ²",
  normalise: "softmax",
  "weighted-sum": "Σ α v",
  swiglu: "silu(g) ⊙ u",
  mean: "mean x",
  "last-states": "x[last]",
  gate: "σ(x + h)",
  "gru-candidate": "tanh(x + r ⊙ h)",
  "gru-state": "(1 − z) ⊙ n + z ⊙ h",
  "lstm-cell": "f ⊙ c + i ⊙ g",
  "lstm-state": "o ⊙ tanh(c)",
  "causal-convolution": "φ(b + Σ w x[t − i])",
  softplus: "log(1 + exp(x + b))",
  scan: "h[t] = exp(−Δ A) h[t−1] + Δ x B",
  "read-state": "C · h + D x",
  "convolution-2d": "W ∗ x + b",
  patches: "image → patches",
  regions: "image → regions",
  "log-softmax": "x − log Σ exp x",
};
