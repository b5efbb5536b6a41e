import { expect, test } from "vitest";
import { shadeRamp } from "../src/draw/heatmap";
import { brightnessLevels, centralSquare, dropAlpha, shadeOpacity, toBase64 } from "../src/maths/image";

test("the central square is as large as possible and in the middle", () => {
  expect(centralSquare(100, 60)).toEqual({ x: 20, y: 0, side: 60 });
  expect(centralSquare(7, 10)).toEqual({ x: 0, y: 1.5, side: 7 });
});

test("pixels lose their alpha channel and become base64", () => {
  const rgb = dropAlpha([1, 2, 3, 255, 4, 5, 6, 255]);
  expect([...rgb]).toEqual([1, 2, 3, 4, 5, 6]);
  expect(atob(toBase64(rgb))).toBe("\x01\x02\x03\x04\x05\x06");
});

test("brightness is proportional to weight, and a quarter of the image always shows through", () => {
  expect([...brightnessLevels(Float32Array.from([0, 0.2, 0.4]), 0.4)]).toEqual([0, 128, 255]);
  expect([...brightnessLevels(new Float32Array(2), 0)]).toEqual([0, 0]);
  expect([shadeOpacity(0), shadeOpacity(255)]).toEqual([0.75, 0]);
  expect(shadeRamp[255]).toBe(0);
});
