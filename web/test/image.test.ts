import { expect, test } from "vitest";
import { shadeRamp } from "../src/figure/heatmap";
import { imagePanelsSvg } from "../src/figure/imagePanels";
import { brightnessLevels, centralSquare, dropAlpha, maxWeight, rowOrMean, shadeOpacity, toBase64 } from "../src/maths/image";

const weights = { rows: 2, columns: 4, data: Float32Array.of(0.5, 0.25, 0.25, 0, 0.1, 0.1, 0, 0.8) };

test("the central square is as large as possible", () => {
  expect(centralSquare(640, 480)).toEqual({ x: 80, y: 0, side: 480 });
  expect(centralSquare(48, 99)).toEqual({ x: 0, y: 25.5, side: 48 });
  expect(centralSquare(48, 48)).toEqual({ x: 0, y: 0, side: 48 });
});

test("pixels lose only their alpha", () => {
  expect([...dropAlpha([1, 2, 3, 255, 4, 5, 6, 0])]).toEqual([1, 2, 3, 4, 5, 6]);
});

test("every byte survives base64, also in an image with more bytes than a function can have arguments", () => {
  const bytes = Uint8Array.from({ length: 3 * 256 * 256 }, (_, i) => i % 256);
  expect(Uint8Array.from(atob(toBase64(bytes)), (character) => character.charCodeAt(0))).toEqual(bytes);
});

test("without a selected row it is the mean over all rows", () => {
  expect([...rowOrMean(weights, 1)]).toEqual([...weights.data.slice(4)]);
  for (const none of [-1, 2]) {
    const mean = rowOrMean(weights, none);
    [0.3, 0.175, 0.125, 0.4].forEach((w, i) => expect(mean[i]).toBeCloseTo(w, 6));
  }
});

test("brightness is proportional to weight, and the largest weight of the map is the brightest", () => {
  expect(maxWeight(weights)).toBeCloseTo(0.8, 6);
  expect([...brightnessLevels(rowOrMean(weights, 1), maxWeight(weights))]).toEqual([32, 32, 0, 255]);
  expect(brightnessLevels(rowOrMean(weights, 0), maxWeight(weights))[0]).toBe(Math.round((255 * 0.5) / 0.8));
  expect([...brightnessLevels(new Float32Array(3), 0)]).toEqual([0, 0, 0]);
});

test("full brightness leaves the image as it is, none leaves a quarter of it", () => {
  expect(shadeOpacity(255)).toBe(0);
  expect(shadeOpacity(0)).toBe(0.75);
  expect(shadeRamp[255]).toBe(0);
  expect(shadeRamp[0]).toBe(0xbf000000); // black, three quarters opaque
});

test("a saved figure has the plain image and one image per token, and token texts are escaped", () => {
  const brightness = Uint8Array.of(255, 0, 0, 0);
  const svg = imagePanelsSvg("data:,", [{ name: "</s>", brightness }, { name: "a&b", brightness }], { ink: "black", paper: "white" });
  expect(svg.match(/<image/g)).toHaveLength(3);
  expect(svg.match(/fill-opacity="0.750"/g)).toHaveLength(6);
  expect(svg.match(/fill-opacity="0.000"/g)).toHaveLength(2);
  expect(svg).toContain("&lt;/s>");
  expect(svg).toContain("a&amp;b");
  expect(svg).not.toMatch(/NaN|Infinity/);
});
