/** The format: eight bytes with the length of a JSON header, the header, and the numbers, little-endian. */

export interface Tensor {
  shape: number[];
  data: Float32Array | Uint8Array;
}

export interface Tensors {
  tensors: Record<string, Tensor>;
  metadata: Record<string, string>;
}

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

export function parse(buffer: ArrayBuffer): Tensors {
  if (buffer.byteLength < 8) throw new Error("these are no tensors: too short");
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  if (8 + length > buffer.byteLength) throw new Error("these are no tensors: the header is cut off");
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as Record<string, unknown>;
  const { __metadata__: metadata = {}, ...entries } = header;
  const tensors: Record<string, Tensor> = {};
  for (const [name, entry] of Object.entries(entries)) tensors[name] = tensorOf(buffer, 8 + length, name, entry as Entry);
  return { tensors, metadata: metadata as Record<string, string> };
}

function tensorOf(buffer: ArrayBuffer, start: number, name: string, { dtype, shape, data_offsets }: Entry): Tensor {
  const [from, to] = data_offsets;
  const width = { F32: 4, U8: 1, BOOL: 1 }[dtype];
  const count = shape.reduce((product, n) => product * n, 1);
  if (!width) throw new Error(`tensor ${name} has numbers of type ${dtype}, which are not read here`);
  if (to - from !== count * width || start + to > buffer.byteLength) throw new Error(`tensor ${name} is cut off`);
  const at = start + from;
  if (width === 1) return { shape, data: new Uint8Array(buffer, at, count) };
  // Views need an aligned start; a header that was not padded costs a copy.
  const data = at % 4 ? new Float32Array(buffer.slice(at, start + to)) : new Float32Array(buffer, at, count);
  return { shape, data };
}

/** The tensor of that name, which must be there. */
export function tensor(from: Tensors, name: string): Tensor {
  const found = from.tensors[name];
  if (!found) throw new Error(`there is no tensor ${name}`);
  return found;
}
