/** Positions and sizes of the cells and labels of a matrix. */
import { shortText } from "../maths/tokens";
import type { AttentionMap } from "./attentionMap";

export interface MatrixLayout {
  left: number;
  top: number;
  cell: number;
  width: number;
  height: number;
  /** Every n-th row and column has a label … */
  labelEvery: number;
  /** … in this font size */
  font: number;
}

const CHARACTER_WIDTH = 7.3;
const MAX_CELL = 46;
const MAX_HEIGHT = 520;
const [MIN_FONT, MAX_FONT] = [9, 12];

/** The layout that fits into `availableWidth` pixels */
export function layoutMatrix(map: AttentionMap, availableWidth: number): MatrixLayout {
  const longest = (names: string[]) => CHARACTER_WIDTH * Math.max(2, ...names.map((name) => shortText(name).length));
  const left = Math.ceil(longest(map.rows)) + 10;
  const slanted = longest(map.columns) * Math.SQRT1_2;
  const top = Math.ceil(slanted) + 16;
  const right = Math.ceil(slanted * 0.75);
  const { rows, columns } = map.weights;
  const cell = Math.max(1, Math.floor(Math.min(MAX_CELL, (availableWidth - left - right) / columns, MAX_HEIGHT / rows)));
  const width = left + cell * columns + right;
  const font = Math.max(MIN_FONT, Math.min(MAX_FONT, cell));
  return { left, top, cell, width, height: top + cell * rows + 2, labelEvery: Math.ceil(MIN_FONT / cell), font };
}
