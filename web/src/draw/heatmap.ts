/** Heatmaps: one canvas pixel per cell, scaled up by the browser. Fast enough for 48 heads of 512 × 512. */
import { shadeOpacity } from "../maths/image";
import type { Matrix } from "../maths/matrix";

/** Weights as indices 0 to 255 into a colour ramp, linear in the weight */
export function weightLevels(weights: Float32Array): Uint8Array {
  const levels = new Uint8Array(weights.length); // a loop, because Uint8Array.from with a function is several times slower
  for (let i = 0; i < levels.length; i++) levels[i] = 255 * Math.min(1, Math.max(0, weights[i] as number)) + 0.5;
  return levels;
}

/** Numbers of either sign as indices 0 to 255 into a colour ramp, with zero in the middle */
export function signedLevels(values: Float32Array, max: number): Uint8Array {
  const levels = new Uint8Array(values.length);
  const scale = max > 0 ? 1 / max : 0;
  for (let i = 0; i < levels.length; i++) {
    const v = Math.max(-1, Math.min(1, (values[i] as number) * scale));
    levels[i] = 127.5 + 127.5 * Math.sign(v) * Math.abs(v) ** 0.8 + 0.5;
  }
  return levels;
}

export type Masked = (row: number, column: number) => boolean;

/** Paint a matrix, one pixel per cell. Masked cells stay transparent, so that the hatch behind them shows. */
export function paint(canvas: HTMLCanvasElement | OffscreenCanvas, { rows, columns }: Matrix, levels: Uint8Array, ramp: Uint32Array, masked?: Masked): void {
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const context = canvas.getContext("2d") as CanvasRenderingContext2D | null;
  if (!context || !levels.length) return;
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < levels.length; i++) pixels[i] = ramp[levels[i] as number] as number;
  if (masked) {
    for (let r = 0, i = 0; r < rows; r++) for (let c = 0; c < columns; c++, i++) if (masked(r, c)) pixels[i] = 0;
  }
  context.putImageData(image, 0, 0);
}

/** A ramp to draw over an image: black, the more transparent the brighter the region */
export const shadeRamp = Uint32Array.from({ length: 256 }, (_, brightness) => (Math.round(255 * shadeOpacity(brightness)) << 24) >>> 0);

export const largest = (values: Float32Array): number => {
  let max = 0;
  for (let i = 0; i < values.length; i++) max = Math.max(max, Math.abs(values[i] as number));
  return max;
};
