/** Heatmaps: one canvas pixel per cell, scaled up by the browser. Fast enough for 48 heads of 512 × 512. */
import { shadeOpacity } from "../maths/image";

/** Weights as indices 0 to 255 into a colour ramp: 255·√w, so that small weights remain visible */
export function weightLevels(weights: Float32Array): Uint8Array {
  const levels = new Uint8Array(weights.length); // a loop, because Uint8Array.from with a function is several times slower
  for (let i = 0; i < levels.length; i++) levels[i] = 255 * Math.sqrt(Math.min(1, Math.max(0, weights[i] as number))) + 0.5;
  return levels;
}

/** Numbers of either sign as indices 0 to 255 into a colour ramp, with zero in the middle */
export function signedLevels(values: ArrayLike<number>): Uint8Array {
  const max = Array.from(values).reduce((m, v) => Math.max(m, Math.abs(v)), 1e-12);
  return Uint8Array.from(values, (v) => Math.round(127.5 + (127.5 * v) / max));
}

export function drawHeatmap(canvas: HTMLCanvasElement, levels: Uint8Array, columns: number, ramp: Uint32Array): void {
  const rows = columns ? levels.length / columns : 0;
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const context = canvas.getContext("2d");
  if (!context || !levels.length) return;
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < levels.length; i++) pixels[i] = ramp[levels[i] as number] as number;
  context.putImageData(image, 0, 0);
}

/** A ramp to draw over an image: black, the more transparent the brighter the region */
export const shadeRamp = Uint32Array.from(
  { length: 256 },
  (_, brightness) => (Math.round(255 * shadeOpacity(brightness)) << 24) >>> 0,
);

/** A colour of a ramp in CSS */
export const cssColour = (colour: number): string =>
  `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
