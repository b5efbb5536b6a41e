import { expect, test } from "vitest";
import { parse, tensor } from "../src/maths/safetensors";

/** A file of the format, its header padded with spaces by `pad` */
function file(header: object, data: ArrayBuffer, pad = 0): ArrayBuffer {
  const head = new TextEncoder().encode(JSON.stringify(header) + " ".repeat(pad));
  const all = new Uint8Array(8 + head.length + data.byteLength);
  new DataView(all.buffer).setBigUint64(0, BigInt(head.length), true);
  all.set(head, 8);
  all.set(new Uint8Array(data), 8 + head.length);
  return all.buffer;
}

const numbers = new Float32Array([1.5, -2, 0.25, 8]).buffer;
const header = { a: { dtype: "F32", shape: [2, 2], data_offsets: [0, 16] }, __metadata__: { scale: "0.5" } };

test.each([0, 1, 2, 3])("floats are read whatever the header's alignment (%i)", (pad) => {
  const { tensors, metadata } = parse(file(header, numbers, pad));
  expect(Array.from(tensors.a?.data ?? [])).toEqual([1.5, -2, 0.25, 8]);
  expect(tensors.a?.shape).toEqual([2, 2]);
  expect(metadata).toEqual({ scale: "0.5" });
});

test("bytes are read behind floats", () => {
  const both = { ...header, b: { dtype: "U8", shape: [3], data_offsets: [16, 19] } };
  const data = new Uint8Array(19);
  data.set(new Uint8Array(numbers));
  data.set([7, 0, 255], 16);
  expect(Array.from(tensor(parse(file(both, data.buffer)), "b").data)).toEqual([7, 0, 255]);
});

test("what is cut off, of another type or missing is refused", () => {
  expect(() => parse(new ArrayBuffer(4))).toThrow("too short");
  expect(() => parse(file(header, numbers).slice(0, 20))).toThrow("header is cut off");
  expect(() => parse(file(header, numbers.slice(0, 8)))).toThrow("a is cut off");
  expect(() => parse(file({ a: { dtype: "BF16", shape: [2], data_offsets: [0, 4] } }, numbers))).toThrow("BF16");
  expect(() => tensor(parse(file(header, numbers)), "z")).toThrow("no tensor z");
});
