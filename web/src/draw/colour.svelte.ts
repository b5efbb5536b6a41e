/** Colour scales. Weights: cream, rust, brown, linear in the weight. Signed numbers: blue, cream, rust. They follow the theme. */

type Rgb = [number, number, number];
const WEIGHTS: Record<"light" | "dark", Rgb[]> = {
  light: [[247, 241, 231], [232, 166, 124], [168, 58, 24], [78, 18, 2]],
  dark: [[38, 35, 31], [104, 49, 26], [214, 107, 62], [255, 224, 200]],
};
const SIGNED: Record<"light" | "dark", Rgb[]> = {
  light: [[38, 92, 148], [247, 241, 231], [178, 66, 28]],
  dark: [[120, 180, 240], [36, 34, 31], [245, 140, 96]],
};
const LENS: Record<"light" | "dark", { paper: Rgb; said: Rgb; other: Rgb }> = {
  light: { paper: [250, 246, 238], said: [168, 58, 24], other: [214, 205, 190] },
  dark: { paper: [32, 30, 27], said: [224, 118, 74], other: [86, 80, 72] },
};
const STEPS = 256;

const mix = (a: Rgb, b: Rgb, t: number): Rgb => a.map((x, i) => x + ((b[i] ?? 0) - x) * t) as Rgb;
const css = (c: Rgb): string => `rgb(${c.map(Math.round).join(" ")})`;

function interpolate(stops: Rgb[], t: number): Rgb {
  const x = Math.min(0.9999, Math.max(0, t)) * (stops.length - 1);
  const i = Math.floor(x);
  return mix(stops[i] as Rgb, stops[i + 1] as Rgb, x - i);
}

/** Relative luminance (WCAG) */
function luminance(c: Rgb): number {
  const [r, g, b] = c.map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Black or white, whichever can be read on this colour */
export function inkOn(c: Rgb): string {
  const l = luminance(c);
  const [dark, light] = [(l + 0.05) / 0.0625, 1.05 / (l + 0.05)];
  if (dark >= 4.5) return "#1f1c18";
  if (light >= 4.55) return "#fffefb";
  return (l + 0.05) / 0.05 > light ? "#000" : "#fff";
}

/** 256 colours as 32-bit numbers, the way a canvas stores pixels (little-endian: alpha, blue, green, red) */
const ramp = (stops: Rgb[]): Uint32Array =>
  Uint32Array.from({ length: STEPS }, (_, i) => {
    const [r, g, b] = interpolate(stops, i / (STEPS - 1)).map(Math.round) as Rgb;
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });

const prefersDark = typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)");
const STORED = "regard-theme";

class Theme {
  /** "": the browser's preference */
  chosen = $state<"" | "light" | "dark">("");
  private system = $state(prefersDark?.matches ?? false);
  readonly dark = $derived(this.chosen ? this.chosen === "dark" : this.system);
  private readonly name = $derived<"light" | "dark">(this.dark ? "dark" : "light");
  readonly weightRamp = $derived(ramp(WEIGHTS[this.name]));
  readonly signedRamp = $derived(ramp(SIGNED[this.name]));

  constructor() {
    prefersDark?.addEventListener("change", () => (this.system = prefersDark.matches));
    const stored = typeof localStorage === "undefined" ? null : localStorage.getItem(STORED);
    if (stored === "light" || stored === "dark") this.choose(stored);
  }

  choose(theme: "light" | "dark"): void {
    this.chosen = theme;
    document.documentElement.dataset.theme = theme;
    localStorage.setItem(STORED, theme);
  }

  toggle = (): void => this.choose(this.dark ? "light" : "dark");

  weight = (w: number): string => css(interpolate(WEIGHTS[this.name], w));
  onWeight = (w: number): string => inkOn(interpolate(WEIGHTS[this.name], w));
  /** A signed number on a scale of ±max. The power lifts small numbers out of the cream. */
  private signedRgb = (x: number, max: number): Rgb => {
    const v = max > 0 ? Math.max(-1, Math.min(1, x / max)) : 0;
    return interpolate(SIGNED[this.name], 0.5 + 0.5 * Math.sign(v) * Math.abs(v) ** 0.8);
  };
  signed = (x: number, max: number): string => css(this.signedRgb(x, max));
  onSigned = (x: number, max: number): string => inkOn(this.signedRgb(x, max));
  private lensRgb = (p: number, said: boolean): Rgb => {
    const { paper, said: rust, other } = LENS[this.name];
    return mix(paper, said ? rust : other, said ? 0.12 + 0.88 * p : p);
  };
  lens = (p: number, said: boolean): string => css(this.lensRgb(p, said));
  onLens = (p: number, said: boolean): string => inkOn(this.lensRgb(p, said));
}

export const theme = new Theme();
