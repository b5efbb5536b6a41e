/** Pictures as a captioner is sent them, and the light of attention over their regions. */
import type { Matrix } from "./matrix";
import { row } from "./matrix";

export interface Square {
  x: number;
  y: number;
  side: number;
}

/** The largest square in the middle; halves of a pixel are kept, so that neither side is favoured. */
export function middleSquare(width: number, height: number): Square {
  const side = Math.min(width, height);
  return { x: (width - side) / 2, y: (height - side) / 2, side };
}

/** Red, green and blue of each pixel, without the alpha that a canvas keeps */
export function rgbOf(rgba: ArrayLike<number>): Uint8Array {
  const rgb = new Uint8Array((rgba.length / 4) * 3);
  for (let i = 0; i < rgb.length; i++) rgb[i] = rgba[Math.floor(i / 3) * 4 + (i % 3)] as number;
  return rgb;
}

export const base64 = (bytes: Uint8Array): string => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** What the chosen row looks at; where there is none, what all rows look at on average */
export function rowOrMean(weights: Matrix, chosen: number): Float32Array {
  if (chosen >= 0 && chosen < weights.rows) return row(weights, chosen);
  const mean = new Float32Array(weights.columns);
  weights.data.forEach((weight, i) => (mean[i % weights.columns] = (mean[i % weights.columns] ?? 0) + weight / weights.rows));
  return mean;
}

export const strongest = ({ data }: Matrix): number => data.reduce((most, weight) => Math.max(most, weight), 0);

/** Weights as steps from dark to bright: the strongest of the whole map is brightest. */
export const lightOf = (weights: Float32Array, most: number): Uint8Array =>
  Uint8Array.from(weights, (weight) => (most > 0 ? Math.round((255 * weight) / most) : 0));

/** How much of the picture light of this step leaves in the dark; a quarter is always seen. */
export const shadeOf = (light: number): number => 0.75 * (1 - light / 255);
