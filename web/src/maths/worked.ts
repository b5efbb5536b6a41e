/** One query of one head, computed again from q, K and V and held against what the server computed. */
import { matrixOf, row, type Matrix } from "./matrix";
import { tensor, type Tensors } from "./safetensors";
import { dot, largestDifference, softmax, type Softmax } from "./softmax";

export interface Worked {
  columns: string[];
  q: Float32Array;
  K: Matrix;
  V: Matrix;
  score: string;
  normalise: string;
  scale: number;
  /** q·k of each key */
  products: number[];
  /** What goes into softmax; the server's own where the page lacks what it takes to make them */
  scores: number[];
  recomputed: boolean;
  /** A bias that was added to the scores, one a key, or none */
  bias: number[] | null;
  mask: boolean[];
  soft: Softmax;
  /** The part of the head's weight that these keys have: a decoder that reads source and output at once has others too */
  share: number;
  weights: number[];
  out: number[];
  /** The largest difference from the server, over scores, weights and output */
  delta: number;
}

/** Weights that sum to less are a part of the whole and not a rounding error */
const WHOLE = 0.999;
const PLAIN = new Set(["scaled-dot", "dot", "cosine"]);

export function worked(explained: Tensors): Worked {
  const { metadata } = explained;
  const vector = (name: string) => tensor(explained, name).data;
  const q = vector("q") as Float32Array;
  const [K, V] = [matrixOf(tensor(explained, "K")), matrixOf(tensor(explained, "V"))];
  const scale = Number(metadata.scale ?? 1);
  const score = metadata.score ?? "scaled-dot";
  const normalise = metadata.normalise ?? "softmax";
  const theirs = { scores: vector("scores"), weights: vector("weights"), out: vector("out") };
  const recomputed = PLAIN.has(score) && q.length === K.columns;
  const products = recomputed ? Array.from({ length: K.rows }, (_, i) => dot(q, row(K, i))) : [];
  const plain = recomputed ? scored(score, scale, q, K, products) : Array.from(theirs.scores);
  const bias = (metadata.bias ?? "none") === "none" ? null : plain.map((s, i) => (theirs.scores[i] ?? 0) - s);
  const scores = bias ? plain.map((s, i) => s + (bias[i] ?? 0)) : plain;
  const mask = Array.from(vector("mask"), (m) => m !== 0);
  const soft = softmax(scores, mask.map(Number));
  const total = Array.from(theirs.weights).reduce((sum, weight) => sum + weight, 0);
  const share = mask.includes(true) && total < WHOLE ? total : 1;
  const weights = normalise === "softmax" ? soft.weights.map((alpha) => alpha * share) : Array.from(theirs.weights);
  const out = mixed(weights, V);
  const delta = Math.max(
    recomputed && !bias ? largestDifference(scores, theirs.scores) : 0,
    largestDifference(weights, theirs.weights),
    largestDifference(out, theirs.out),
  );
  const columns = JSON.parse(metadata.columns ?? "[]") as string[];
  return { columns, q, K, V, score, normalise, scale, products, scores, recomputed, bias, mask, soft, share, weights, out, delta };
}

/** The keys with the largest weights, largest first */
export function strongest(weights: number[], most: number): number[] {
  const order = weights.map((_, j) => j).sort((a, b) => (weights[b] ?? 0) - (weights[a] ?? 0));
  return order.slice(0, most);
}

function scored(score: string, scale: number, q: Float32Array, K: Matrix, products: number[]): number[] {
  if (score === "scaled-dot") return products.map((p) => p * scale);
  if (score === "dot") return products;
  const length = (v: Float32Array) => Math.sqrt(dot(v, v));
  return products.map((p, i) => (p / (length(q) * length(row(K, i)) || 1)) * scale);
}

/** Σ αᵢ vᵢ */
function mixed(weights: number[], V: Matrix): number[] {
  const out = new Array<number>(V.columns).fill(0);
  weights.forEach((alpha, i) => row(V, i).forEach((v, j) => (out[j] = (out[j] ?? 0) + alpha * v)));
  return out;
}
