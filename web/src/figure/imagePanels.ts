/** An SVG file with the input image and, for each output token, the image under that token's attention. */
import { shadeOpacity } from "../maths/image";
import { shortText } from "../maths/tokens";

const SIDE = 120;
const GAP = 10;
const LABEL_HEIGHT = 20;
const MAX_PER_ROW = 6;

export interface ImagePanel {
  name: string;
  /** Brightness 0 to 255 of each region, row by row; empty: no shade */
  brightness: Uint8Array;
}

export function imagePanelsSvg(url: string, panels: ImagePanel[], { ink, paper }: { ink: string; paper: string }): string {
  const perRow = Math.min(MAX_PER_ROW, panels.length + 1);
  const rows = Math.ceil((panels.length + 1) / perRow);
  const [width, height] = [perRow * (SIDE + GAP) + GAP, rows * (SIDE + LABEL_HEIGHT + GAP) + GAP];
  const bare = { name: "", brightness: new Uint8Array() };
  const groups = [bare, ...panels].map((panel, i) => panelSvg(url, panel, i % perRow, Math.floor(i / perRow)));
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${paper}"/><g fill="${ink}" font-family="sans-serif" font-size="13">${groups.join("")}</g></svg>`
  );
}

function panelSvg(url: string, { name, brightness }: ImagePanel, column: number, row: number): string {
  const [x, y] = [GAP + column * (SIDE + GAP), GAP + row * (SIDE + LABEL_HEIGHT + GAP)];
  const [regions, cell] = [Math.sqrt(brightness.length), SIDE / Math.sqrt(brightness.length)];
  const cells = Array.from(brightness, (level, i) => {
    const [left, top] = [(i % regions) * cell, LABEL_HEIGHT + Math.floor(i / regions) * cell];
    return `<rect x="${left}" y="${top}" width="${cell}" height="${cell}" fill="#000" fill-opacity="${shadeOpacity(level).toFixed(3)}"/>`;
  });
  return (
    `<g transform="translate(${x} ${y})" shape-rendering="crispEdges">` +
    `<text x="${SIDE / 2}" y="${LABEL_HEIGHT - 6}" text-anchor="middle">${escapeXml(shortText(name))}</text>` +
    `<image href="${url}" y="${LABEL_HEIGHT}" width="${SIDE}" height="${SIDE}" image-rendering="pixelated"/>${cells.join("")}</g>`
  );
}

const escapeXml = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
