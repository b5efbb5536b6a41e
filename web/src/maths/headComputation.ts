/** One query of one head, computed again from q, K and V and compared with the server's result. */
import { dot, largestDifference } from "./array";
import { row, toMatrix, type Matrix } from "./matrix";
import { getTensor, type Tensors } from "./safetensors";
import { softmax, type Softmax } from "./softmax";

export interface HeadComputation {
  /** Names of the keys */
  columns: string[];
  q: Float32Array;
  K: Matrix;
  V: Matrix;
  score: string;
  normalise: string;
  /** Where the output goes: into the "layer" of a Transformer, or into the "output" or "input" of an RNN decoder */
  context: string;
  scale: number;
  /** q·k of each key */
  products: number[];
  /** The input of softmax; the server's scores if the page cannot compute them */
  scores: number[];
  /** Whether the page computed the scores itself */
  recomputed: boolean;
  /** What is added to the scores: "none", "alibi" or "gaussian" */
  biasKind: string;
  /** The bias added to the score of each key, if there is one */
  bias: number[] | null;
  mask: boolean[];
  soft: Softmax;
  /** These keys' share of the head's weight: less than 1 if a decoder attends to source and output in one softmax */
  share: number;
  weights: number[];
  out: number[];
  /** The largest difference from the server's scores, weights and output */
  delta: number;
}

/** Weights with a smaller sum are a share of the head's weight and not a rounding error. */
const FULL_WEIGHT = 0.999;
/** Scores without parameters of their own, which the page can compute */
const COMPUTABLE_SCORES = new Set(["scaled-dot", "dot", "cosine"]);

/** Compute the head again from the server's answer to `/v1/explain`. */
export function recomputeHead(explained: Tensors): HeadComputation {
  const { metadata } = explained;
  const vector = (name: string) => getTensor(explained, name).data;
  const q = vector("q") as Float32Array;
  const [K, V] = [toMatrix(getTensor(explained, "K")), toMatrix(getTensor(explained, "V"))];
  const scale = Number(metadata.scale ?? 1);
  const score = metadata.score ?? "scaled-dot";
  const normalise = metadata.normalise ?? "softmax";
  const server = { scores: vector("scores"), weights: vector("weights"), out: vector("out") };
  const recomputed = COMPUTABLE_SCORES.has(score) && q.length === K.columns;
  const products = recomputed ? Array.from({ length: K.rows }, (_, i) => dot(q, row(K, i))) : [];
  const unbiased = recomputed ? scoresFrom(products, score, scale, q, K) : Array.from(server.scores);
  const context = metadata.context ?? "layer";
  const biasKind = metadata.bias ?? "none";
  const bias = biasKind === "none" ? null : unbiased.map((s, i) => (server.scores[i] ?? 0) - s);
  const scores = bias ? unbiased.map((s, i) => s + (bias[i] ?? 0)) : unbiased;
  const mask = Array.from(vector("mask"), (m) => m !== 0);
  const soft = softmax(scores, mask.map(Number));
  const total = Array.from(server.weights).reduce((sum, weight) => sum + weight, 0);
  const share = mask.includes(true) && total < FULL_WEIGHT ? total : 1;
  const weights = normalise === "softmax" ? soft.weights.map((alpha) => alpha * share) : otherWeights(normalise, scores, mask, server.weights);
  const out = weightedSum(weights, V);
  const delta = Math.max(
    recomputed && !bias ? largestDifference(scores, server.scores) : 0,
    largestDifference(weights, server.weights),
    largestDifference(out, server.out),
  );
  const columns = JSON.parse(metadata.columns ?? "[]") as string[];
  return {
    ...{ columns, q, K, V, score, normalise, context, scale, products, scores, recomputed },
    ...{ biasKind, bias, mask, soft, share, weights, out, delta },
  };
}

function scoresFrom(products: number[], score: string, scale: number, q: Float32Array, K: Matrix): number[] {
  if (score === "scaled-dot") return products.map((p) => p * scale);
  if (score === "dot") return products;
  const norm = (v: Float32Array) => Math.sqrt(dot(v, v));
  return products.map((p, i) => (p / (norm(q) * norm(row(K, i)) || 1)) * scale);
}

/** The weights by a normaliser other than softmax; the server's if the page does not know it */
function otherWeights(normalise: string, scores: number[], mask: boolean[], server: ArrayLike<number>): number[] {
  const visible = (map: (score: number) => number) => scores.map((score, j) => (mask[j] ? map(score) : 0));
  if (normalise === "none") return visible((score) => score);
  if (normalise === "exp") return visible(Math.exp);
  if (normalise === "hardmax") {
    const best = scores.indexOf(Math.max(...scores.filter((_, j) => mask[j])));
    return scores.map((_, j) => Number(j === best));
  }
  if (normalise !== "sum") return Array.from(server);
  const total = visible((score) => score).reduce((sum, score) => sum + score, 0);
  return visible((score) => score / total);
}

/** Σ αᵢ vᵢ */
function weightedSum(weights: number[], V: Matrix): number[] {
  const out = new Array<number>(V.columns).fill(0);
  weights.forEach((alpha, i) => row(V, i).forEach((v, j) => (out[j] = (out[j] ?? 0) + alpha * v)));
  return out;
}
