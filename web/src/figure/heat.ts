/** Heat maps: one pixel a cell, stretched by the browser. Fast enough for 48 heads of 512 × 512. */
import { shadeOf } from "../maths/picture";

/** Weights as the steps of a ramp: 255·√w, so that small ones are seen too */
export function levels(weights: Float32Array): Uint8Array {
  const level = new Uint8Array(weights.length); // a loop: `from` with a function takes several times as long
  for (let i = 0; i < level.length; i++) level[i] = 255 * Math.sqrt(Math.min(1, Math.max(0, weights[i] as number))) + 0.5;
  return level;
}

/** Numbers of either sign as the steps of a ramp, zero in its middle */
export function signedLevels(values: ArrayLike<number>): Uint8Array {
  const most = Array.from(values).reduce((m, v) => Math.max(m, Math.abs(v)), 1e-12);
  return Uint8Array.from(values, (v) => Math.round(127.5 + (127.5 * v) / most));
}

export function drawHeat(canvas: HTMLCanvasElement, level: Uint8Array, columns: number, ramp: Uint32Array): void {
  const rows = columns ? level.length / columns : 0;
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const context = canvas.getContext("2d");
  if (!context || !level.length) return;
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < level.length; i++) pixels[i] = ramp[level[i] as number] as number;
  context.putImageData(image, 0, 0);
}

/** A ramp to lay over a picture: black that thins out where there is light */
export const shades = Uint32Array.from({ length: 256 }, (_, light) => (Math.round(255 * shadeOf(light)) << 24) >>> 0);

export const cssOf = (colour: number): string =>
  `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
