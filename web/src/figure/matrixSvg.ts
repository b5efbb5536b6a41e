/** A matrix as an SVG file, with its labels. */
import { at, type Matrix } from "../maths/matrix";

const CELL = 26;
const CHARACTER = 7.4;

const escapeXml = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

export function matrixSvg(matrix: Matrix, rows: string[], columns: string[], colour: (w: number) => string, dark: boolean): string {
  const longest = (names: string[]) => Math.max(2, ...names.map((name) => [...name].length)) * CHARACTER;
  const [left, top] = [longest(rows) + 14, longest(columns) * 0.75 + 18];
  const [width, height] = [left + CELL * columns.length + longest(columns) * 0.7, top + CELL * rows.length + 10];
  const [ink, paper] = dark ? ["#ece7df", "#161513"] : ["#1f1c18", "#fcfaf5"];
  const cells = rows.flatMap((_, i) =>
    columns.map((_, j) => `<rect x="${left + CELL * j}" y="${top + CELL * i}" width="${CELL}" height="${CELL}" fill="${colour(at(matrix, i, j))}"/>`),
  );
  const rowNames = rows.map((name, i) => `<text x="${left - 8}" y="${top + CELL * (i + 0.5) + 4}" text-anchor="end">${escapeXml(name)}</text>`);
  const columnNames = columns.map((name, j) => `<text transform="translate(${left + CELL * (j + 0.5)} ${top - 8}) rotate(-48)">${escapeXml(name)}</text>`);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><rect width="100%" height="100%" fill="${paper}"/>` +
    `<g shape-rendering="crispEdges">${cells.join("")}</g><g fill="${ink}" font-family="serif" font-size="13">${rowNames.join("")}${columnNames.join("")}</g></svg>`
  );
}
