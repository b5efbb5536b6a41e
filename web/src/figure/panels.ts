/** A picture and, for each word, the picture where that word looked: as a file of its own. */
import { shadeOf } from "../maths/picture";
import { short } from "../maths/tokens";

const SIDE = 120;
const GAP = 10;
const NAME = 20;
const ACROSS = 6;

export interface Lighted {
  name: string;
  light: Uint8Array;
}

export function panels(url: string, lighted: Lighted[], { ink, paper }: { ink: string; paper: string }): string {
  const across = Math.min(ACROSS, lighted.length + 1);
  const down = Math.ceil((lighted.length + 1) / across);
  const [width, height] = [across * (SIDE + GAP) + GAP, down * (SIDE + NAME + GAP) + GAP];
  const all = [{ name: "", light: new Uint8Array() }, ...lighted].map((one, i) => panel(url, one, i % across, Math.floor(i / across)));
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${paper}"/><g fill="${ink}" font-family="sans-serif" font-size="13">${all.join("")}</g></svg>`
  );
}

function panel(url: string, { name, light }: Lighted, column: number, line: number): string {
  const [x, y] = [GAP + column * (SIDE + GAP), GAP + line * (SIDE + NAME + GAP)];
  const [regions, cell] = [Math.sqrt(light.length), SIDE / Math.sqrt(light.length)];
  const cells = Array.from(light, (l, i) => {
    const [left, top] = [(i % regions) * cell, NAME + Math.floor(i / regions) * cell];
    return `<rect x="${left}" y="${top}" width="${cell}" height="${cell}" fill="#000" fill-opacity="${shadeOf(l).toFixed(3)}"/>`;
  });
  return (
    `<g transform="translate(${x} ${y})" shape-rendering="crispEdges">` +
    `<text x="${SIDE / 2}" y="${NAME - 6}" text-anchor="middle">${escaped(short(name))}</text>` +
    `<image href="${url}" y="${NAME}" width="${SIDE}" height="${SIDE}" image-rendering="pixelated"/>${cells.join("")}</g>`
  );
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
