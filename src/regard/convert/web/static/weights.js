/** The weights of a model, read from a safetensors file. */
import { Matrices } from "./matrix.js";

export class Weights {
  /**
   * Matrices stored as int8 have one scale per row, under their name + ".scale".
   * @param {ArrayBuffer} file
   * @param {Record<string, string>} shared  name → the name of the tensor that it shares, e.g. of a tied output layer
   */
  constructor(file, shared) {
    const stored = readSafetensors(file);
    const names = [...stored.keys()].filter((name) => !name.endsWith(".scale"));
    const size = (name) => 4 * Math.ceil(stored.get(name).length / 4); // so that every tensor starts at 16 bytes
    this.matrices = new Matrices(names.reduce((sum, name) => sum + size(name), 0));
    this.tensors = new Map();
    for (const name of names) {
      const values = stored.get(name);
      const tensor = this.matrices.allocate(size(name)).subarray(0, values.length);
      if (values instanceof Int8Array) dequantize(values, stored.get(`${name}.scale`), tensor);
      else tensor.set(values);
      this.tensors.set(name, tensor);
    }
    for (const [name, same] of Object.entries(shared)) this.tensors.set(name, this.tensors.get(same));
  }

  /** A tensor as one array, row by row; undefined if the model has none of that name */
  get(name) {
    return this.tensors.get(name);
  }

  /** x Wᵀ + b for rows x of width nIn; some models have no b. */
  linear(x, name, nIn) {
    return this.matrices.linear(x, this.get(`${name}.weight`), this.get(`${name}.bias`), nIn);
  }
}

function readSafetensors(file) {
  const headerLength = Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, headerLength)));
  const start = 8 + headerLength;
  const tensors = new Map();
  for (const [name, { dtype, data_offsets: [from, to] }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const bytes = file.slice(start + from, start + to); // a copy, because arrays of floats need aligned offsets
    tensors.set(name, dtype === "I8" ? new Int8Array(bytes) : new Float32Array(bytes));
  }
  return tensors;
}

function dequantize(values, scales, result) {
  const width = values.length / scales.length;
  for (let i = 0; i < values.length; i++) result[i] = values[i] * scales[(i / width) | 0];
}
