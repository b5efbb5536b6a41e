/**
 * Products with matrices, which take nearly all the time of a model: in WebAssembly with SIMD instructions (the program
 * is assembled below), or in JavaScript where a browser lacks them.
 */

const PAGE = 65536; // bytes
const SCRATCH = 1 << 20; // floats for the rows of a product and their results

/** Memory for all matrices of a model, and products with them */
export class Matrices {
  /** @param {number} size  floats that will be allocated */
  constructor(size) {
    this.size = size;
    this.used = 0;
    this.buffer = null;
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * (size + SCRATCH)) / PAGE) });
      this.products = new WebAssembly.Instance(new WebAssembly.Module(assemble()), { env: { memory } }).exports.products;
      this.buffer = memory.buffer;
      this.scratch = new Float32Array(this.buffer, 4 * size, SCRATCH);
    } catch {
      this.buffer = null; // no WebAssembly with SIMD
    }
  }

  allocate(n) {
    const start = this.used;
    this.used += n;
    return this.buffer ? new Float32Array(this.buffer, 4 * start, n) : new Float32Array(n);
  }

  /** x Wᵀ + b for rows x [n, nIn] and W [nOut, nIn], which is in this memory */
  linear(x, weight, bias, nIn) {
    const nOut = weight.length / nIn;
    const n = x.length / nIn;
    const y = new Float32Array(n * nOut);
    const rows = Math.floor(SCRATCH / (nIn + nOut)); // at once
    const nFast = this.buffer && nIn % 4 === 0 && rows > 0 ? nOut - (nOut % 4) : 0;
    for (let row = 0; nFast && row < n; row += rows) this.fast(x, weight, y, nIn, nFast, row, Math.min(n, row + rows));
    for (let o = nFast; o < nOut; o++) {
      for (let row = 0; row < n; row++) y[row * nOut + o] = dot(x, row * nIn, weight, o * nIn, nIn);
    }
    if (bias) for (let i = 0; i < y.length; i++) y[i] += bias[i % nOut];
    return y;
  }

  /** Compute the first `nFast` columns of some rows. */
  fast(x, weight, y, nIn, nFast, from, to) {
    const n = to - from;
    const start = 4 * this.size;
    this.scratch.set(x.subarray(from * nIn, to * nIn));
    this.products(start, weight.byteOffset, start + 4 * n * nIn, nIn, nFast, n);
    const nOut = weight.length / nIn;
    for (let row = 0; row < n; row++) {
      const result = n * nIn + row * nFast;
      y.set(this.scratch.subarray(result, result + nFast), (from + row) * nOut);
    }
  }
}

export function dot(a, fromA, b, fromB, n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += a[fromA + i] * b[fromB + i];
  return sum;
}

/**
 * The bytes of a WebAssembly module with one function, products(x, w, y, nIn, nOut, n): y = x Wᵀ, all pointers in bytes,
 * nIn and nOut multiples of 4. Four columns are computed at a time; each of their sums has four parts.
 */
function assemble() {
  const [I32, V128] = [0x7f, 0x7b];
  const [x, w, y, nIn, nOut, n, o, row, px, end, w0, w1, w2, w3, s0, s1, s2, s3, v] = Array.from({ length: 19 }, (_, i) => i);
  const get = (local) => [0x20, local];
  const set = (local, ...value) => [...value.flat(), 0x21, local];
  const number = (value) => [0x41, value]; // less than 64
  const [plus, times, shift, less] = [[0x6a], [0x6c], [0x74], [0x49]];
  const [addFloats, addVectors, multiplyVectors] = [[0x92], [0xfd, 0xe4, 0x01], [0xfd, 0xe6, 0x01]];
  const load = (pointer) => [...get(pointer), 0xfd, 0x00, 2, 0];
  const zero = [0xfd, 0x0c, ...new Array(16).fill(0)];
  const lane = (vector, i) => [...get(vector), 0xfd, 0x1f, i];
  const sum = (vector) => [...lane(vector, 0), ...[1, 2, 3].flatMap((i) => [...lane(vector, i), ...addFloats])];
  const advance = (pointer, by) => set(pointer, get(pointer), by, plus);
  const repeatWhile = (condition, ...body) => [0x03, 0x40, ...body.flat(), ...condition.flat(), 0x0d, 0, 0x0b];
  const stride = [...get(nIn), ...number(2), ...shift];

  const inner = repeatWhile(
    [get(px), get(end), less],
    set(v, load(px)),
    ...[[s0, w0], [s1, w1], [s2, w2], [s3, w3]].map(([s, p]) =>
      set(s, get(s), get(v), load(p), multiplyVectors, addVectors),
    ),
    ...[px, w0, w1, w2, w3].map((pointer) => advance(pointer, number(16))),
  );
  const eachRow = repeatWhile(
    [get(row), get(n), less],
    set(px, get(x), get(row), stride, times, plus),
    set(end, get(px), stride, plus),
    set(w0, get(w), get(o), stride, times, plus),
    ...[[w1, w0], [w2, w1], [w3, w2]].map(([next, before]) => set(next, get(before), stride, plus)),
    ...[s0, s1, s2, s3].map((s) => set(s, zero)),
    inner,
    set(px, get(y), get(row), get(nOut), times, get(o), plus, number(2), shift, plus), // where the results go
    ...[s0, s1, s2, s3].map((s, i) => [...get(px), ...sum(s), 0x38, 2, 4 * i]),
    advance(row, number(1)),
  );
  const body = repeatWhile([get(o), get(nOut), less], set(row, number(0)), eachRow, advance(o, number(4)));
  const locals = [2, w3 - n, I32, v - w3, V128];
  return module([I32, I32, I32, I32, I32, I32], [...locals, ...body, 0x0b]);
}

/** A module that imports env.memory and exports one function, `products`. */
function module(parameters, code) {
  const size = (n) => (n < 128 ? [n] : [(n & 0x7f) | 0x80, n >> 7]);
  const section = (id, ...bytes) => [id, ...size(bytes.length), ...bytes];
  const name = (text) => [text.length, ...new TextEncoder().encode(text)];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, 1, 0x60, parameters.length, ...parameters, 0), // one type of function, without a result
    ...section(2, 1, ...name("env"), ...name("memory"), 0x02, 0x00, 1), // memory of at least one page
    ...section(3, 1, 0), // one function of type 0
    ...section(7, 1, ...name("products"), 0x00, 0),
    ...section(10, 1, ...size(code.length), ...code),
  ]);
}
