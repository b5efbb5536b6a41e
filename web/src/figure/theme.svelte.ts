/** Colours that pictures are drawn in, light or dark. */
import { scaleLinear } from "d3-scale";

const query = matchMedia("(prefers-color-scheme: dark)");

class Theme {
  dark = $state(query.matches);
  /** 256 colours from nothing to everything */
  readonly ramp = $derived(
    rampOf(this.dark ? ["#1d1c1a", "#7a3017", "#f0794a", "#ffe9dc"] : ["#f6f2ea", "#eeb497", "#c4481f", "#561503"]),
  );
  /** 256 colours from below zero over zero to above */
  readonly signed = $derived(
    rampOf(this.dark ? ["#8fb3d9", "#1d1c1a", "#f0794a"] : ["#2f5b8a", "#f6f2ea", "#b3401c"]),
  );
}

/** As words of 32 bits, the way a canvas keeps its pixels (little-endian: alpha, blue, green, red) */
function rampOf(stops: string[]): Uint32Array {
  const scale = scaleLinear<string>()
    .domain(stops.map((_, i) => (255 * i) / (stops.length - 1)))
    .range(stops);
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const [r = 0, g = 0, b = 0] = scale(i).match(/[\d.]+/g)?.map(Number) ?? [];
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

export const theme = new Theme();
query.addEventListener("change", () => (theme.dark = query.matches));
