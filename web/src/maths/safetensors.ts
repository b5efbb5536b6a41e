/** The safetensors format: the length of a JSON header in eight bytes, the header, and the data, little-endian. */

export interface Tensor {
  shape: number[];
  data: Float32Array | Uint8Array;
}

export interface Tensors {
  tensors: Record<string, Tensor>;
  metadata: Record<string, string>;
}

interface HeaderEntry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

export function parseSafetensors(buffer: ArrayBuffer): Tensors {
  if (buffer.byteLength < 8) throw new Error("Not a safetensors file: too short.");
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  if (8 + length > buffer.byteLength) throw new Error("Not a safetensors file: the header is truncated.");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as Record<string, unknown>;
  const { __metadata__: metadata = {}, ...entries } = header;
  const tensors: Record<string, Tensor> = {};
  for (const [name, entry] of Object.entries(entries)) {
    tensors[name] = readTensor(buffer, 8 + length, name, entry as HeaderEntry);
  }
  return { tensors, metadata: metadata as Record<string, string> };
}

function readTensor(buffer: ArrayBuffer, dataStart: number, name: string, entry: HeaderEntry): Tensor {
  const { dtype, shape, data_offsets } = entry;
  const [from, to] = data_offsets;
  const bytesPerNumber = { F32: 4, U8: 1, BOOL: 1 }[dtype];
  const count = shape.reduce((product, n) => product * n, 1);
  if (!bytesPerNumber) throw new Error(`Tensor ${name} has type ${dtype}; only F32, U8 and BOOL are supported.`);
  if (to - from !== count * bytesPerNumber || dataStart + to > buffer.byteLength) throw new Error(`Tensor ${name} is truncated.`);
  const start = dataStart + from;
  if (bytesPerNumber === 1) return { shape, data: new Uint8Array(buffer, start, count) };
  // A view needs an aligned start; if the header was not padded, the data is copied.
  const data = start % 4 ? new Float32Array(buffer.slice(start, dataStart + to)) : new Float32Array(buffer, start, count);
  return { shape, data };
}

/** The tensor with this name; an error if there is none */
export function getTensor({ tensors }: Tensors, name: string): Tensor {
  const tensor = tensors[name];
  if (!tensor) throw new Error(`The response has no tensor ${name}.`);
  return tensor;
}
