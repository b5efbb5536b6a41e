import { expect, test } from "vitest";
import { getTensor, parseSafetensors } from "../src/maths/safetensors";

/** A safetensors file whose header is padded with `pad` spaces */
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
  const { tensors, metadata } = parseSafetensors(file(header, numbers, pad));
  expect(Array.from(tensors.a?.data ?? [])).toEqual([1.5, -2, 0.25, 8]);
  expect(tensors.a?.shape).toEqual([2, 2]);
  expect(metadata).toEqual({ scale: "0.5" });
});

test("bytes after floats are read", () => {
  const both = { ...header, b: { dtype: "U8", shape: [3], data_offsets: [16, 19] } };
  const data = new Uint8Array(19);
  data.set(new Uint8Array(numbers));
  data.set([7, 0, 255], 16);
  expect(Array.from(getTensor(parseSafetensors(file(both, data.buffer)), "b").data)).toEqual([7, 0, 255]);
});

test("truncated files, unsupported types and missing tensors are errors", () => {
  expect(() => parseSafetensors(new ArrayBuffer(4))).toThrow("too short");
  expect(() => parseSafetensors(file(header, numbers).slice(0, 20))).toThrow("header is truncated");
  expect(() => parseSafetensors(file(header, numbers.slice(0, 8)))).toThrow("a is truncated");
  expect(() => parseSafetensors(file({ a: { dtype: "BF16", shape: [2], data_offsets: [0, 4] } }, numbers))).toThrow("BF16");
  expect(() => getTensor(parseSafetensors(file(header, numbers)), "z")).toThrow("no tensor z");
});
