/** The operations of a Transformer on Float32Arrays, except for products; a matrix of n rows is one array, row by row. */
import { dot } from "./matrix.js";

export function add(x, y) {
  const sum = new Float32Array(x.length);
  for (let i = 0; i < x.length; i++) sum[i] = x[i] + y[i];
  return sum;
}

/** (x − mean) / √(variance + ε) · g + b of each row */
export function layerNorm(x, weight, bias, epsilon) {
  const width = weight.length;
  const y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    let mean = 0;
    for (let i = 0; i < width; i++) mean += x[from + i];
    mean /= width;
    let variance = 0;
    for (let i = 0; i < width; i++) variance += (x[from + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / width + epsilon);
    for (let i = 0; i < width; i++) y[from + i] = (x[from + i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

/** x / √(mean x² + ε) · g of each row */
export function rmsNorm(x, weight, epsilon) {
  const width = weight.length;
  const y = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += width) {
    const scale = 1 / Math.sqrt(dot(x, from, x, from, width) / width + epsilon);
    for (let i = 0; i < width; i++) y[from + i] = x[from + i] * scale * weight[i];
  }
  return y;
}

/** erf x = 2/√π e^{−x²} Σ 2ⁿ x^{2n+1} / (1 · 3 ⋯ (2n+1)), whose terms all have one sign */
function erf(x) {
  if (Math.abs(x) > 4) return Math.sign(x); // to 2e-8
  const square = x * x;
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-9 * Math.abs(sum); n++) {
    term *= (2 * square) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-square) * sum;
}

const silu = (x) => x / (1 + Math.exp(-x));

export const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  silu,
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  "gelu-tanh": (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

/** SiLU(first half of a row) · second half */
export function gate(x, width) {
  const y = new Float32Array(x.length / 2);
  for (let i = 0; i < y.length; i++) {
    const from = 2 * width * ((i / width) | 0) + (i % width);
    y[i] = silu(x[from]) * x[from + width];
  }
  return y;
}

/** softmax of the first n numbers, in place */
export function softmax(x, n) {
  const largest = maximum(x, n);
  let sum = 0;
  for (let i = 0; i < n; i++) sum += x[i] = Math.exp(x[i] - largest);
  for (let i = 0; i < n; i++) x[i] /= sum;
}

/** log softmax of one row */
export function logSoftmax(x) {
  const largest = maximum(x, x.length);
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += Math.exp(x[i] - largest);
  const logSum = largest + Math.log(sum);
  const y = new Float64Array(x.length);
  for (let i = 0; i < x.length; i++) y[i] = x[i] - logSum;
  return y;
}

function maximum(x, n) {
  let largest = -Infinity;
  for (let i = 0; i < n; i++) if (x[i] > largest) largest = x[i];
  return largest;
}
