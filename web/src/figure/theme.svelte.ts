/** The colour ramps of heatmaps, for the light and the dark colour scheme. */
import { scaleLinear } from "d3-scale";

const darkScheme = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  dark = $state(darkScheme.matches);
  /** 256 colours for weights from 0 to 1 */
  readonly weights = $derived(
    makeRamp(this.dark ? ["#1d1c1a", "#7a3017", "#f0794a", "#ffe9dc"] : ["#f6f2ea", "#eeb497", "#c4481f", "#561503"]),
  );
  /** 256 colours for numbers of either sign, with zero in the middle */
  readonly signed = $derived(
    makeRamp(this.dark ? ["#8fb3d9", "#1d1c1a", "#f0794a"] : ["#2f5b8a", "#f6f2ea", "#b3401c"]),
  );
}

/** 256 colours as 32-bit numbers, the way a canvas stores pixels (little-endian: alpha, blue, green, red) */
function makeRamp(stops: string[]): Uint32Array {
  const scale = scaleLinear<string>()
    .domain(stops.map((_, i) => (255 * i) / (stops.length - 1)))
    .range(stops);
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const [r = 0, g = 0, b = 0] = scale(i).match(/[\d.]+/g)?.map(Number) ?? [];
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

export const theme = new Theme();
darkScheme.addEventListener("change", () => (theme.dark = darkScheme.matches));
