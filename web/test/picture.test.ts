import { expect, test } from "vitest";
import { shades } from "../src/figure/heat";
import { panels } from "../src/figure/panels";
import { base64, lightOf, middleSquare, rgbOf, rowOrMean, shadeOf, strongest } from "../src/maths/picture";

const weights = { rows: 2, columns: 4, data: Float32Array.of(0.5, 0.25, 0.25, 0, 0.1, 0.1, 0, 0.8) };

test("the square is as large as it can be and stands in the middle", () => {
  expect(middleSquare(640, 480)).toEqual({ x: 80, y: 0, side: 480 });
  expect(middleSquare(48, 99)).toEqual({ x: 0, y: 25.5, side: 48 });
  expect(middleSquare(48, 48)).toEqual({ x: 0, y: 0, side: 48 });
});

test("pixels lose their alpha and nothing else", () => {
  expect([...rgbOf([1, 2, 3, 255, 4, 5, 6, 0])]).toEqual([1, 2, 3, 4, 5, 6]);
});

test("every byte survives base64, and so does a picture larger than any list of arguments", () => {
  const bytes = Uint8Array.from({ length: 3 * 256 * 256 }, (_, i) => i % 256);
  expect(Uint8Array.from(atob(base64(bytes)), (letter) => letter.charCodeAt(0))).toEqual(bytes);
});

test("without a chosen row all rows count alike", () => {
  expect([...rowOrMean(weights, 1)]).toEqual([...weights.data.slice(4)]);
  for (const none of [-1, 2]) {
    const mean = rowOrMean(weights, none);
    [0.3, 0.175, 0.125, 0.4].forEach((w, i) => expect(mean[i]).toBeCloseTo(w, 6));
  }
});

test("the strongest weight of the whole map is brightest, and light is proportional to weight", () => {
  expect(strongest(weights)).toBeCloseTo(0.8, 6);
  expect([...lightOf(rowOrMean(weights, 1), strongest(weights))]).toEqual([32, 32, 0, 255]);
  expect(lightOf(rowOrMean(weights, 0), strongest(weights))[0]).toBe(Math.round((255 * 0.5) / 0.8));
  expect([...lightOf(new Float32Array(3), 0)]).toEqual([0, 0, 0]);
});

test("full light shows the picture as it is, none a quarter of it", () => {
  expect(shadeOf(255)).toBe(0);
  expect(shadeOf(0)).toBe(0.75);
  expect(shades[255]).toBe(0);
  expect(shades[0]).toBe(0xbf000000); // black, three quarters opaque
});

test("a saved picture has the bare one and one a word, and no markup of a word's", () => {
  const light = Uint8Array.of(255, 0, 0, 0);
  const svg = panels("data:,", [{ name: "</s>", light }, { name: "a&b", light }], { ink: "black", paper: "white" });
  expect(svg.match(/<image/g)).toHaveLength(3);
  expect(svg.match(/fill-opacity="0.750"/g)).toHaveLength(6);
  expect(svg.match(/fill-opacity="0.000"/g)).toHaveLength(2);
  expect(svg).toContain("&lt;/s>");
  expect(svg).toContain("a&amp;b");
  expect(svg).not.toMatch(/NaN|Infinity/);
});
