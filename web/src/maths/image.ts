/** Images as a captioner receives them, and the brightness of their regions that shows attention. */
export interface Square {
  x: number;
  y: number;
  side: number;
}

/** The largest central square. Coordinates may be half pixels, so that neither side is favoured. */
export function centralSquare(width: number, height: number): Square {
  const side = Math.min(width, height);
  return { x: (width - side) / 2, y: (height - side) / 2, side };
}

/** Red, green and blue of each pixel, without the alpha channel of a canvas */
export function dropAlpha(rgba: ArrayLike<number>): Uint8Array {
  const rgb = new Uint8Array((rgba.length / 4) * 3);
  for (let i = 0; i < rgb.length; i++) rgb[i] = rgba[Math.floor(i / 3) * 4 + (i % 3)] as number;
  return rgb;
}

export const toBase64 = (bytes: Uint8Array): string =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));

/** Brightness levels 0 to 255, proportional to the weights; `max` is the weight of level 255. */
export const brightnessLevels = (weights: Float32Array, max: number): Uint8Array =>
  Uint8Array.from(weights, (weight) => (max > 0 ? Math.round((255 * weight) / max) : 0));

/** Opacity of the black over a region of this brightness. A quarter of the image always shows through. */
export const shadeOpacity = (brightness: number): number => 0.75 * (1 - brightness / 255);
