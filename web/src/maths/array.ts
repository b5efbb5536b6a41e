/** Arrays of any number of axes, stored row by row, and the few operations that the stages of a model need. */

export interface NdArray {
  shape: number[];
  data: Float32Array;
}

export const sizeOf = (shape: number[]): number => shape.reduce((product, n) => product * n, 1);
export const zeros = (shape: number[]): NdArray => ({ shape, data: new Float32Array(sizeOf(shape)) });
export const lastAxis = ({ shape }: NdArray): number => shape.at(-1) ?? 1;
/** The number of rows if all axes but the last are one */
export const rowsOf = (x: NdArray): number => (x.data.length ? x.data.length / lastAxis(x) : 0);
export const rowAt = (x: NdArray, i: number): Float32Array => x.data.subarray(i * lastAxis(x), (i + 1) * lastAxis(x));
export const fromRows = (rows: ArrayLike<number>[], shape?: number[]): NdArray => {
  const width = rows[0]?.length ?? 0;
  const result = zeros(shape ?? [rows.length, width]);
  rows.forEach((row, i) => result.data.set(Array.from(row), i * width));
  return result;
};
export const mapRows = (x: NdArray, f: (row: Float32Array, i: number) => ArrayLike<number>, width = lastAxis(x)): NdArray => {
  const rows = Array.from({ length: rowsOf(x) }, (_, i) => f(rowAt(x, i), i));
  return fromRows(rows, [...x.shape.slice(0, -1), width]);
};
export const map = ({ shape, data }: NdArray, f: (value: number, i: number) => number): NdArray => ({ shape, data: data.map(f) });
/** Element by element. The second array is repeated if it is shorter: a vector for every row. */
export const zip = (a: NdArray, b: NdArray, f: (x: number, y: number) => number): NdArray =>
  map(a, (x, i) => f(x, b.data[i % b.data.length] ?? 0));
export const columns = (x: NdArray, start: number, end: number): NdArray => mapRows(x, (row) => row.subarray(start, end), end - start);

export const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
};

/** x Wᵀ for every row of x; W has one row per output */
export const timesTransposed = (x: NdArray, w: NdArray): NdArray => {
  const outputs = rowsOf(w);
  return mapRows(x, (row) => Array.from({ length: outputs }, (_, o) => dot(row, rowAt(w, o))), outputs);
};

/** One matrix of a batch [n, rows, columns]; an array with two axes is every one of them */
export function batch(x: NdArray, i: number): NdArray {
  if (x.shape.length < 3) return x;
  const shape = x.shape.slice(-2);
  return { shape, data: x.data.subarray(i * sizeOf(shape), (i + 1) * sizeOf(shape)) };
}

/** The results of `f` for all matrices of a batch, or for the one there is */
export function eachBatch(x: NdArray, f: (i: number) => NdArray): NdArray {
  if (x.shape.length < 3) return f(0);
  const parts = Array.from({ length: x.shape[0] ?? 0 }, (_, i) => f(i));
  const result = zeros([parts.length, ...(parts[0]?.shape ?? [])]);
  parts.forEach((part, i) => result.data.set(part.data, i * part.data.length));
  return result;
}

/** max |aᵢ − bᵢ|; infinite if the sizes differ. Numbers that are infinite on both sides agree. */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Infinity;
  let largest = 0;
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i] as number, b[i] as number];
    if (x !== y) largest = Math.max(largest, Number.isNaN(x - y) ? Infinity : Math.abs(x - y));
  }
  return largest;
}
