/** Matrices, stored row by row. */
import type { Tensor } from "./safetensors";

export interface Matrix {
  rows: number;
  columns: number;
  data: Float32Array;
}

export const at = (m: Matrix, row: number, column: number): number => m.data[row * m.columns + column] ?? 0;

export const row = (m: Matrix, i: number): Float32Array => m.data.subarray(i * m.columns, (i + 1) * m.columns);

/** The last two axes of a tensor as a matrix */
export function toMatrix({ shape, data }: Tensor): Matrix {
  const [rows = 0, columns = 0] = shape.slice(-2);
  return { rows, columns, data: data instanceof Float32Array ? data : decodeWeights(data) };
}

/** Weights that the server sent as bytes: 255·√w, which keeps the precision of small weights */
function decodeWeights(bytes: Uint8Array): Float32Array {
  return Float32Array.from(bytes, (b) => (b / 255) ** 2);
}

/** The mean over the heads of one layer of a tensor [layers, heads, rows, columns] */
export function meanOfHeads({ shape, data }: Tensor, layer: number): Matrix {
  const [, heads = 0, rows = 0, columns = 0] = shape;
  const size = rows * columns;
  const mean = new Float32Array(size);
  for (let head = 0; head < heads; head++) {
    const part = data.subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
    const weights = part instanceof Float32Array ? part : decodeWeights(part);
    for (let i = 0; i < size; i++) mean[i] = (mean[i] ?? 0) + (weights[i] ?? 0) / heads;
  }
  return { rows, columns, data: mean };
}

/** The matrix with at most so many rows and columns: the maximum of each part, so that single large weights stay visible */
export function maxPool(m: Matrix, maxRows: number, maxColumns: number): Matrix {
  const [rows, columns] = [Math.min(m.rows, Math.max(1, maxRows)), Math.min(m.columns, Math.max(1, maxColumns))];
  if (rows === m.rows && columns === m.columns) return m;
  const data = new Float32Array(rows * columns);
  for (let r = 0, i = 0; r < m.rows; r++) {
    const start = Math.floor((r * rows) / m.rows) * columns;
    for (let c = 0; c < m.columns; c++, i++) {
      const at = start + Math.floor((c * columns) / m.columns);
      const value = m.data[i] as number;
      if (value > (data[at] as number)) data[at] = value;
    }
  }
  return { rows, columns, data };
}
