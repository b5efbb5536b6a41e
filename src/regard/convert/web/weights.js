/** Reads a safetensors file. Matrices stored as int8 have one scale per row, under their name + ".scale". */

/** @param {ArrayBuffer} file @returns {Map<string, Float32Array>} */
export function readWeights(file) {
  const headerLength = Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, headerLength)));
  const start = 8 + headerLength;
  const stored = new Map();
  for (const [name, { dtype, data_offsets: [from, to] }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const bytes = file.slice(start + from, start + to); // a copy, because views need aligned offsets
    stored.set(name, dtype === "I8" ? new Int8Array(bytes) : new Float32Array(bytes));
  }
  const weights = new Map();
  for (const [name, values] of stored) {
    if (name.endsWith(".scale")) continue;
    weights.set(name, values instanceof Int8Array ? dequantize(values, stored.get(`${name}.scale`)) : values);
  }
  return weights;
}

function dequantize(values, scales) {
  const result = new Float32Array(values.length);
  const width = values.length / scales.length;
  for (let i = 0; i < values.length; i++) result[i] = values[i] * scales[(i / width) | 0];
  return result;
}
